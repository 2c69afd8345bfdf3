//! The kernel's queue of a block device: its scheduler and its read-ahead.
//!
//! A scheduler sees only the requests that wait above the device, and a loop device takes 128 requests before
//! any waits. Writing `none` and `nr_requests` 4 first and the scheduler's name then leaves 4 requests in the
//! device and 256 where the scheduler sorts them. (Measured: random 4 KiB reads at queue depth 32 on a
//! first-come drive went from 93 to 170 a second.) Writing 4 again shows 128, which the device takes only after
//! another number was written: [`Queue`] restores it that way when it is dropped.

use crate::{Error, Result};
use foreseek_units::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// Requests that the device itself holds while a scheduler is in use: enough to keep the modelled drive's own
/// queue busy, few enough that the scheduler has a choice.
const IN_DEVICE: &str = "4";

/// A loop device's initial `nr_requests`, and another number.
const AT_FIRST: &str = "128";
const OTHER: &str = "64";

/// An I/O scheduler of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Deadlines, and otherwise ascending order.
    MqDeadline,
    /// A budget for each process in turn, and idling for a process that reads on.
    Bfq,
}

impl Scheduler {
    /// Its name in sysfs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MqDeadline => "mq-deadline",
            Self::Bfq => "bfq",
        }
    }

    /// The names of all.
    pub const ALL: [Self; 2] = [Self::MqDeadline, Self::Bfq];
}

impl std::str::FromStr for Scheduler {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|scheduler| scheduler.name() == name);
        known.ok_or_else(|| {
            format!("'{name}' is no I/O scheduler here: {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// A device's queue; restored when dropped.
#[derive(Debug)]
pub struct Queue {
    folder: PathBuf,
    scheduler: Option<Scheduler>,
}

impl Queue {
    /// The queue of a block device such as `/dev/loop3`.
    ///
    /// # Errors
    /// Where sysfs has none.
    pub fn of(device: &Path) -> Result<Self> {
        let name = device.file_name().unwrap_or_default();
        let folder = Path::new("/sys/block").join(name).join("queue");
        fs::metadata(&folder).map_err(|error| Error::io("cannot find", folder.display(), error))?;
        Ok(Self { folder, scheduler: None })
    }

    /// Sets the scheduler; does nothing where it is set already.
    ///
    /// # Errors
    /// Where the kernel has no such scheduler.
    pub fn set_scheduler(&mut self, scheduler: Scheduler) -> Result<()> {
        if self.scheduler == Some(scheduler) {
            return Ok(());
        }
        self.put("scheduler", "none")?;
        self.put("nr_requests", IN_DEVICE)?;
        self.scheduler = Some(scheduler);
        self.put("scheduler", scheduler.name())?;
        if scheduler == Scheduler::Bfq {
            // It anticipates only on a rotational device and without its mode of low latency.
            self.put("rotational", "1")?;
            self.put("iosched/low_latency", "0")?;
        }
        Ok(())
    }

    /// Sets the read-ahead of files that are opened from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn set_read_ahead(&self, size: Bytes) -> Result<()> {
        self.put("read_ahead_kb", &(size.get() >> 10).to_string())
    }

    fn put(&self, name: &str, value: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, value)
            .map_err(|error| Error::io("cannot set", format!("{} to {value}", path.display()), error))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.scheduler.is_some() {
            // Whatever fails here is set by the next user of the device: they all set it.
            let _ = self.put("scheduler", "none");
            let _ = self.put("nr_requests", OTHER);
            let _ = self.put("nr_requests", AT_FIRST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that stands for sysfs; every file is there.
    fn queue(folder: &Path) -> Queue {
        fs::create_dir(folder.join("iosched")).expect("made");
        Queue { folder: folder.to_owned(), scheduler: None }
    }

    #[test]
    fn an_elevator_is_set_and_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        let mut queue = queue(folder.path());
        queue.set_scheduler(Scheduler::Bfq).expect("set");
        queue.set_read_ahead(Bytes::mib(4)).expect("set");
        assert_eq!((read("scheduler"), read("nr_requests")), ("bfq".into(), "4".into()));
        assert_eq!((read("iosched/low_latency"), read("read_ahead_kb")), ("0".into(), "4096".into()));
        drop(queue);
        assert_eq!((read("scheduler"), read("nr_requests")), ("none".into(), "128".into()));
    }

    #[test]
    fn schedulers_are_named_as_in_sysfs() {
        for scheduler in Scheduler::ALL {
            assert_eq!(scheduler.name().parse::<Scheduler>(), Ok(scheduler));
        }
        assert!("cfq".parse::<Scheduler>().expect_err("unknown").contains("mq-deadline, bfq"));
    }

    #[test]
    fn what_is_no_block_device_has_no_queue() {
        let error = Queue::of(Path::new("/dev/null")).expect_err("no block device").to_string();
        assert!(error.contains("/sys/block/null/queue"), "{error}");
    }
}
