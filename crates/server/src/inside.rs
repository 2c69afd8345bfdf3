//! Who is inside a mount: processes that work in it, or have its files open or mapped.
//!
//! Nothing is asked of the file system, whose server may hang: the device of an open file is told by the kernel alone (`AT_STATX_DONT_SYNC`).
//!
//! *Limits:* processes that this one may not look at are not seen.

use crate::mount_table::MountLine;
use crate::users::NAMED;
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use std::fs;
use std::path::{Path, PathBuf};

/// Who is inside a mount but these processes, each in words; of many only the first few are named.
#[must_use]
pub fn users_inside(mount: &MountLine, but: &[u32]) -> Vec<String> {
    let Some(device) = Device::of(mount) else { return Vec::new() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse::<u32>().ok().filter(|pid| !but.contains(pid))?;
        let use_of = device.use_by(&process.path())?;
        let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!("{} (process {pid}) {use_of}", command.trim()))
    });
    let mut named: Vec<String> = found.by_ref().take(NAMED).collect();
    let more = found.count();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named
}

/// The device of the mounted file system, as numbers and as `/proc/PID/maps` has it.
struct Device(u64, String);

impl Device {
    fn of(mount: &MountLine) -> Option<Self> {
        let (major, minor) = mount.device.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        Some(Self(makedev(major, minor), format!(" {major:02x}:{minor:02x} ")))
    }

    /// What a process does in it.
    fn use_by(&self, process: &Path) -> Option<String> {
        if self.holds(&process.join("cwd")) {
            return Some("works in it".to_owned());
        }
        if self.holds(&process.join("root")) {
            return Some("has its root in it".to_owned());
        }
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        if let Some(open) = { descriptors }.map(|fd| fd.path()).find(|fd| self.holds(fd)) {
            return Some(format!("has {} open", named(&open)));
        }
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        maps.contains(&self.1).then(|| "has files of it mapped".to_owned())
    }

    fn holds(&self, link: &Path) -> bool {
        let told = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        told.is_ok_and(|told| makedev(told.stx_dev_major, told.stx_dev_minor) == self.0)
    }
}

fn named(descriptor: &Path) -> String {
    fs::read_link(descriptor).unwrap_or_else(|_| PathBuf::from("a file")).display().to_string()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::mount_table::mounted_on;
    use std::fs::File;

    #[test]
    fn who_has_a_file_open_or_works_there_is_named() {
        let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let Some(mount) = mounted_on(Path::new("/dev/shm")) else {
            return println!("SKIPPED: /dev/shm is no file system of its own here");
        };
        let path = place.path().join("held");
        let _held = File::create(&path).expect("made");
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").current_dir(place.path()).spawn().expect("'sleep' exists");
        let users = users_inside(&mount, &[]).join(", ");
        let others = users_inside(&mount, &[own, child.id()]).join(", ");
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert!(users.contains(&format!("(process {own}) has {} open", path.display())), "{users}");
        assert!(users.contains(&format!("sleep (process {}) works in it", child.id())), "{users}");
        assert!(!others.contains(&format!("process {own})")), "{others}");
    }
}
