//! Processes inside a mount: they work in it, or have files of it open or mapped.
//!
//! Nothing is requested from the file system, whose server may hang: the kernel alone reports the device of
//! an open file (`AT_STATX_DONT_SYNC`).
//!
//! *Limits:* processes that this one may not inspect are not found.

use crate::mount_table::MountLine;
use crate::users::{Process, first_few, processes};
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use std::fs;
use std::path::{Path, PathBuf};

/// Descriptions of the processes inside a mount, except `but`. Only the first few are named.
#[must_use]
pub fn users_inside(mount: &MountLine, but: &[u32]) -> Vec<String> {
    let Some(device) = Device::of(mount) else { return Vec::new() };
    first_few(
        processes(but).filter_map(|process| Some(format!("{} {}", process.name(), device.use_by(&process)?))),
    )
}

/// The device of the mounted file system, as a number and as `/proc/PID/maps` shows it.
struct Device(u64, String);

impl Device {
    fn of(mount: &MountLine) -> Option<Self> {
        let (major, minor) = mount.device.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        Some(Self(makedev(major, minor), format!(" {major:02x}:{minor:02x} ")))
    }

    /// What a process does in it.
    fn use_by(&self, process: &Process) -> Option<String> {
        if self.holds(&process.folder.join("cwd")) {
            return Some("works in it".to_owned());
        }
        if self.holds(&process.folder.join("root")) {
            return Some("has its root in it".to_owned());
        }
        if let Some(open) = process.descriptors().find(|fd| self.holds(fd)) {
            return Some(format!("has {} open", named(&open)));
        }
        let maps = fs::read_to_string(process.folder.join("maps")).unwrap_or_default();
        maps.contains(&self.1).then(|| "has files of it mapped".to_owned())
    }

    fn holds(&self, link: &Path) -> bool {
        let stat = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        stat.is_ok_and(|stat| makedev(stat.stx_dev_major, stat.stx_dev_minor) == self.0)
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
    use std::time::{Duration, Instant};

    /// Waits until the kernel has this name for a process: a new program has its working directory a moment
    /// before its name.
    fn wait_for_name(pid: u32, name: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        while fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() != name) {
            assert!(Instant::now() < end, "process {pid} is not called {name} after 10 s");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn processes_with_open_files_or_working_there_are_named() {
        let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let Some(mount) = mounted_on(Path::new("/dev/shm")) else {
            return println!("SKIPPED: /dev/shm is no file system of its own here");
        };
        let path = place.path().join("held");
        let _held = File::create(&path).expect("made");
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").current_dir(place.path()).spawn().expect("'sleep' exists");
        wait_for_name(child.id(), "sleep");
        let users = users_inside(&mount, &[]).join(", ");
        let others = users_inside(&mount, &[own, child.id()]).join(", ");
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert!(users.contains(&format!("(process {own}) has {} open", path.display())), "{users}");
        assert!(users.contains(&format!("sleep (process {}) works in it", child.id())), "{users}");
        assert!(!others.contains(&format!("process {own})")), "{others}");
    }
}
