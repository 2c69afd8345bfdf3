//! The users of a block device: mounts, swap areas, stacked devices and open descriptors.
//!
//! *Limits:* other mount namespaces are not visible, nor is a process that maps the device without having it
//! open.

use crate::inside::users_inside;
use crate::mount_table::mounts;
use crate::{CallError, Context, Kind, ServerFolder, ServerProcess};
use rustix::fs::syncfs;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Users named in a message; further ones are only counted.
const NAMED: usize = 5;

/// The users of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// The mount points of file systems on it.
    pub mount_points: Vec<PathBuf>,
    /// Descriptions of the others.
    pub others: Vec<String>,
}

impl Users {
    /// The present users of the block device with this node, except the `server` process.
    #[must_use]
    pub fn of(node: &Path, server: Option<u32>) -> Self {
        let sysfs = Path::new("/sys/class/block").join(node.file_name().unwrap_or_default());
        let numbers = device_numbers(&sysfs);
        let mut users = Self {
            mount_points: mounts()
                .into_iter()
                .filter(|mount| numbers.contains(&mount.device) || mount.source == node)
                .map(|mount| mount.point)
                .collect(),
            others: Vec::new(),
        };
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        if swaps.lines().any(|line| line.split_whitespace().next().map(Path::new) == Some(node)) {
            users.others.push("used for swap".to_owned());
        }
        for holder in fs::read_dir(sysfs.join("holders")).into_iter().flatten().flatten() {
            users.others.push(format!("part of /dev/{}", holder.file_name().to_string_lossy()));
        }
        users.others.extend(openers(node, server));
        users
    }

    /// The description of an array that is the user.
    #[must_use]
    pub fn array(name: &str) -> String {
        format!("attached as array '{name}'")
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mount_points.is_empty() && self.others.is_empty()
    }

    /// A description for a message.
    #[must_use]
    pub fn describe(&self) -> String {
        let mounted = self.mount_points.iter().map(|point| format!("mounted on {}", point.display()));
        first_few(mounted.chain(self.others.iter().cloned())).join(", ")
    }

    /// Descriptions of what keeps the device in use even when its mounts are unmounted lazily: the processes inside
    /// them, and the users that are no mounts. Only the first few are named. Call it while the mounts are there.
    #[must_use]
    pub fn holders(&self) -> Vec<String> {
        // A file system that is mounted twice has the same processes inside.
        let mounted: BTreeMap<_, _> = mounts()
            .into_iter()
            .filter(|mount| self.mount_points.contains(&mount.point))
            .map(|mount| (mount.device.clone(), mount))
            .collect();
        let inside = mounted.values().flat_map(|mount| users_inside(mount, &[std::process::id()]));
        first_few(inside.chain(self.others.iter().cloned()))
    }

    /// Unmounts what can be unmounted and writes back what cannot, within a limit for each. Errors are only
    /// logged, since the device is detached in any case.
    pub fn write_back(&self, limit: Duration) {
        for point in self.mount_points.iter().rev() {
            let (done, ended) = sync_channel(1);
            let mounted = point.clone();
            // A thread of its own: writing back to a hung disk cannot be interrupted.
            std::thread::spawn(move || {
                let unmounted = unmount(&mounted, UnmountFlags::empty());
                let written = unmounted.or_else(|_| syncfs(&File::open(&mounted)?).map_err(io::Error::from));
                let _ = done.send(written);
            });
            match ended.recv_timeout(limit) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!("cannot write back {}: {error}", point.display()),
                Err(_) => tracing::warn!("writing back {} did not end in time", point.display()),
            }
        }
    }

    /// Unmounts its mounts lazily, even if they are in use.
    ///
    /// # Errors
    /// The kernel's first error; the other mounts are unmounted.
    pub fn unmount_lazily(&self) -> Result<(), CallError> {
        let mut done = Ok(());
        for point in self.mount_points.iter().rev() {
            done = done.and(unmount(point, UnmountFlags::DETACH).context("unmount", point));
        }
        done
    }
}

/// `major:minor` of the device and its partitions.
fn device_numbers(sysfs: &Path) -> BTreeSet<String> {
    let parts = fs::read_dir(sysfs).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(sysfs.to_owned())
        .chain(parts.filter(|path| path.join("partition").exists()))
        .filter_map(|path| fs::read_to_string(path.join("dev")).ok())
        .map(|number| number.trim().to_owned())
        .collect()
}

/// The processes, except one, that have the node open.
fn openers(node: &Path, but: Option<u32>) -> Vec<String> {
    let opened = |process: &Process| {
        process.descriptors().any(|fd| fs::read_link(fd).is_ok_and(|target| target == node))
    };
    processes(but.as_slice()).filter(opened).map(|process| process.opened()).collect()
}

/// The first few names for a message, and the number of further ones.
pub(crate) fn first_few(mut names: impl Iterator<Item = String>) -> Vec<String> {
    let mut named: Vec<String> = names.by_ref().take(NAMED).collect();
    let more = names.count();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named
}

/// A process, as `/proc` shows it.
pub(crate) struct Process {
    pid: u32,
    /// Its directory in `/proc`.
    pub(crate) folder: PathBuf,
}

impl Process {
    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        let command = fs::read_to_string(self.folder.join("comm")).unwrap_or_default();
        format!("{} (process {})", command.trim(), self.pid)
    }

    /// What it is to a device that it has open.
    fn opened(&self) -> String {
        let array = ServerProcess::of(self.pid).and_then(|it| ServerFolder::of_process(Kind::Array, it));
        array.map_or_else(|| format!("opened by {}", self.name()), |array| Users::array(&array.name()))
    }

    /// Its open descriptors, as links to the files; none where this process may not inspect it.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = PathBuf> + use<> {
        fs::read_dir(self.folder.join("fd")).into_iter().flatten().flatten().map(|fd| fd.path())
    }
}

/// All processes except these.
pub(crate) fn processes(but: &[u32]) -> impl Iterator<Item = Process> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().filter(|pid| !but.contains(pid))?;
        Some(Process { pid, folder: entry.path() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_long_list_is_cut() {
        let users = Users { mount_points: vec!["/a".into()], others: vec!["x".to_owned(); 9] };
        assert_eq!(users.describe(), "mounted on /a, x, x, x, x, 5 more");
        assert!(!users.is_empty() && Users::default().is_empty());
    }

    #[test]
    fn what_holds_a_device_is_who_works_in_its_mounts_and_the_other_users() {
        let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").current_dir(place.path()).spawn().expect("'sleep' exists");
        let others = vec![Users::array("a0")];
        let users = Users { mount_points: vec!["/dev/shm".into()], others };
        let holders = users.holders();
        child.kill().and_then(|()| child.wait()).expect("ended");
        if mounts().iter().any(|mount| mount.point == Path::new("/dev/shm")) {
            let process = format!("(process {}) works in it", child.id());
            assert!(holders.iter().any(|holder| holder.contains(&process)), "{holders:?}");
        }
        assert_eq!(holders.last().map(String::as_str), Some("attached as array 'a0'"));
    }

    #[test]
    fn a_process_with_an_open_node_is_named_unless_it_is_the_server() {
        let place = tempfile::tempdir().expect("a directory");
        let node = place.path().join("node");
        let _held = File::create(&node).expect("made");
        let own = std::process::id();
        let users = Users::of(&node, None);
        assert!(users.describe().contains(&format!("(process {own})")), "{users:?}");
        // A child that a test beside this one has just forked has the file open until it runs its program.
        let end = Instant::now() + Duration::from_secs(10);
        let mut others = Users::of(&node, Some(own));
        while others != Users::default() && Instant::now() < end {
            others = Users::of(&node, Some(own));
        }
        assert_eq!(others, Users::default());
    }
}
