//! Waits for memory to become scarce: pressure stall information (PSI), of the machine and of this
//! process's own control group.
//!
//! A trigger is written into `/proc/pressure/memory` and, with version 2 of control groups, into the
//! group's `memory.pressure`; the kernel then wakes who polls the file whenever tasks waited for
//! memory for longer than it says. Where there is no PSI (it is off on some distributions, version 1
//! groups have none) [`wait`](PressureWatch::wait) just takes its time, and whoever uses it looks at
//! [`available`](crate::available) in between, which sees the limits of either version.

use crate::memory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// 200 ms of waiting in 2 s: a tenth, which is felt. Windows of whole multiples of 2 s may be asked
/// for without rights (Linux 6.5).
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// See the module's documentation.
#[derive(Debug)]
pub struct PressureWatch {
    triggers: Vec<OwnedFd>,
}

impl PressureWatch {
    /// Sets the triggers that this kernel lets this process set; maybe none.
    #[must_use]
    pub fn new() -> Self {
        let machine = Path::new("/proc/pressure/memory").to_owned();
        let groups = memory::pressure_files();
        Self { triggers: std::iter::once(machine).chain(groups).filter_map(|path| trigger(&path)).collect() }
    }

    /// How many triggers there are: without any, only the amount of memory tells of its want.
    #[must_use]
    pub fn triggers(&self) -> usize {
        self.triggers.len()
    }

    /// Waits until memory is scarce, at most so long; whether it is.
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
    fn without_pressure_it_takes_its_time_and_no_more() {
        let watch = PressureWatch::new();
        if watch.triggers() == 0 {
            println!("SKIPPED: no PSI for this process here: only the waiting is tested");
        }
        let start = std::time::Instant::now();
        let scarce = watch.wait(Duration::from_millis(20));
        assert!(scarce || start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_file_that_is_not_there_is_no_trigger() {
        assert!(trigger(Path::new("/nowhere/memory.pressure")).is_none());
    }
}
