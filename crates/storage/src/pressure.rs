//! Waits for memory to become scarce: pressure stall information (PSI), of the machine and of this process's
//! own control group.
//!
//! A trigger is written to `/proc/pressure/memory` and, with version 2 of control groups, to the group's
//! `memory.pressure`. The kernel then wakes a poll of the file whenever tasks waited for memory for longer
//! than the trigger says. Where there is no PSI (some distributions switch it off, version 1 groups have
//! none), [`wait`](PressureWatch::wait) returns after its time limit. Its caller then reads
//! [`available`](crate::available), which has the limits of both versions.

use crate::memory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// 200 ms of waiting in 2 s: a tenth, which users notice. A process without privileges may set windows that
/// are multiples of 2 s (Linux 6.5).
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// See the module's documentation.
#[derive(Debug)]
pub struct PressureWatch {
    triggers: Vec<OwnedFd>,
}

impl PressureWatch {
    /// Sets the triggers that the kernel allows this process; there may be none.
    #[must_use]
    pub fn new() -> Self {
        let machine = Path::new("/proc/pressure/memory").to_owned();
        let groups = memory::pressure_files();
        Self::of(std::iter::once(machine).chain(groups))
    }

    fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { triggers: files.into_iter().filter_map(|path| trigger(&path)).collect() }
    }

    /// The number of triggers. Without any, scarcity shows only in the amount of available memory.
    #[must_use]
    pub fn triggers(&self) -> usize {
        self.triggers.len()
    }

    /// Waits until memory is scarce, at most for `limit`. Returns whether it is scarce.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        let mut polled: Vec<PollFd<'_>> =
            self.triggers.iter().map(|trigger| PollFd::new(trigger, PollFlags::PRI)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut polled, Some(&limit)) {
            Ok(_) => polled.iter().any(|one| one.revents().contains(PollFlags::PRI)),
            Err(_) => false,
        }
    }
}

impl Default for PressureWatch {
    fn default() -> Self {
        Self::new()
    }
}

fn trigger(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    loop {
        match rustix::io::write(&file, TRIGGER) {
            Ok(_) => return Some(file),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;

    #[test]
    fn without_pressure_a_wait_lasts_as_long_as_its_limit() {
        let watch = PressureWatch::new();
        if watch.triggers() == 0 {
            println!("SKIPPED: no PSI for this process here: only the waiting is tested");
        }
        let start = std::time::Instant::now();
        let scarce = watch.wait(Duration::from_millis(20));
        assert!(scarce || start.elapsed() >= Duration::from_millis(20));
    }

    /// The group that a child enters.
    const GROUP: &str = "FORESEEK_TEST_GROUP";
    /// The mount point of version 2, where it is mounted alone.
    const GROUPS: &str = "/sys/fs/cgroup";

    /// Tasks of this process's group wait for memory, and no others do: only the group's own trigger is set.
    #[test]
    fn waiting_in_the_own_group_of_version_2_is_noticed() {
        let root = Path::new(GROUPS);
        let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let enabled = controllers.split_whitespace().any(|name| name == "memory")
            && std::fs::write(root.join("cgroup.subtree_control"), "+memory").is_ok();
        let group = root.join(format!("foreseek-pressure-{}", std::process::id()));
        if !enabled || std::fs::create_dir(&group).is_err() {
            return println!("SKIPPED: no memory controller of version 2 in {GROUPS}, or no right to use it");
        }
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["pressure::tests::in_a_group", "--exact", "--nocapture"])
            .env(GROUP, &group)
            .status();
        while std::fs::remove_dir(&group).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(ended.unwrap().success());
    }

    /// The child of the test above; no test otherwise.
    #[test]
    fn in_a_group() {
        let Some(group) = std::env::var_os(GROUP).map(PathBuf::from) else { return };
        std::fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        if !group.join("memory.pressure").exists() {
            return println!("SKIPPED: no PSI in this kernel, or not switched on (psi=1)");
        }
        let files = memory::pressure_files();
        assert_eq!(files, [group.join("memory.pressure")]);
        let watch = PressureWatch::of(files);
        assert_eq!(watch.triggers(), 1);
        assert!(!watch.wait(Duration::from_millis(2500)), "no task waits yet");
        std::fs::write(group.join("memory.high"), (24 << 20).to_string()).unwrap();
        let busy = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let keep_going = std::sync::Arc::clone(&busy);
        let eater = std::thread::spawn(move || {
            let mut eaten: Vec<Vec<u8>> = Vec::new();
            while keep_going.load(std::sync::atomic::Ordering::Relaxed) {
                // From 128 MiB on it starts again at the beginning.
                eaten.truncate(eaten.len() % 128);
                eaten.push(vec![1; 1 << 20]);
            }
        });
        let begun = std::time::Instant::now();
        let noticed = watch.wait(Duration::from_secs(60));
        let figures = std::fs::read_to_string(group.join("memory.pressure")).unwrap();
        println!("noticed: {noticed}, after {:?}: {figures}", begun.elapsed());
        std::fs::write(group.join("memory.high"), "max").unwrap();
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
        eater.join().unwrap();
        assert!(noticed);
    }

    #[test]
    fn a_file_that_is_not_there_is_no_trigger() {
        assert!(trigger(Path::new("/nowhere/memory.pressure")).is_none());
    }
}
