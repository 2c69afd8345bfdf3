//! The emulated disk of the demo, the file system on it, and the mount, each undone when dropped.

use crate::interrupt::{Interrupt, POLL};
use crate::outcome::DiskUse;
use crate::process::Program;
use crate::report::svg::Mark;
use crate::{Error, Result};
use foreseek_emulate::client::{self, Attached};
use foreseek_emulate::{AttachOptions, LoggedOp, Set, Stats};
use foreseek_units::{Bytes, Lba, Nanos};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long making the file system may take; with delays off it takes a second.
const MKFS_LIMIT: Duration = Duration::from_secs(120);

/// How long a busy mount is waited for: whoever looks at a new mount point (an indexer, a file
/// manager) is done with it in that time.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(10);

/// What is to be attached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiskPlan {
    pub(crate) profile: String,
    pub(crate) size: Bytes,
    pub(crate) time_scale: f64,
}

/// An attached disk; detached when dropped.
#[derive(Debug)]
pub(crate) struct Disk {
    attached: Attached,
}

impl Disk {
    /// Attaches a disk that answers without delay for now.
    pub(crate) fn attach(plan: &DiskPlan) -> Result<Self> {
        let options = AttachOptions {
            delays: false,
            time_scale: plan.time_scale,
            // Only what is written takes space: some 300 MB of the size.
            thin: true,
            name: Some(format!("demo-{}", std::process::id())),
            ..AttachOptions::new(&plan.profile, plan.size)
        };
        Ok(Self { attached: client::attach(&options)? })
    }

    /// What could not be had on this machine, for the report.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.attached.remarks
    }

    /// Makes ext4 on it. Everything is initialised at once: otherwise the kernel would go on
    /// writing in the background while the query is timed.
    pub(crate) fn make_file_system(&self, mkfs: &Program, interrupt: &Interrupt) -> Result<()> {
        let device = self.attached.device.to_string_lossy();
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device];
        mkfs.run("making a file system", &options, MKFS_LIMIT, interrupt).map(drop)
    }

    /// Mounts it; nothing of it is in the page cache then.
    pub(crate) fn mount(&self, point: &Path) -> Result<Mounted> {
        let device = &self.attached.device;
        // Without access times: the query reads and nothing else is to move the head.
        mount(device, point, "ext4", MountFlags::NOATIME, None)
            .map_err(|error| Error::io("cannot mount", device.display(), error))?;
        Ok(Mounted { point: Some(point.to_owned()) })
    }

    /// Whether requests take the modelled time.
    pub(crate) fn set_delays(&self, on: bool) -> Result<()> {
        Ok(client::set(&self.attached.name, &Set { delays: Some(on), ..Set::default() })?)
    }

    /// Starts counting and logging anew.
    pub(crate) fn begin(&self) -> Result<()> {
        client::stats(&self.attached.name, true)?;
        Ok(client::log_start(&self.attached.name, client::DEFAULT_LOG_CAPACITY)?)
    }

    /// What it did since [`Disk::begin`].
    pub(crate) fn stats(&self) -> Result<Stats> {
        Ok(client::stats(&self.attached.name, false)?)
    }

    /// Ends logging: the reads since [`Disk::begin`], by time of completion, and how many requests
    /// found the log full.
    pub(crate) fn take_log(&self) -> Result<(Vec<Mark>, u64)> {
        let log = client::log_stop(&self.attached.name)?;
        let reads = log.entries.iter().filter(|entry| entry.op == LoggedOp::Read);
        let marks = reads.map(|entry| Mark { at: Nanos(entry.completion_ns), lba: Lba(entry.lba) }).collect();
        Ok((marks, log.missed))
    }

    /// Leaves it attached; answers its name.
    pub(crate) fn keep(self) -> String {
        let name = self.attached.name.clone();
        std::mem::forget(self);
        name
    }

    /// Detaches it.
    pub(crate) fn detach(self) -> Result<()> {
        let name = self.attached.name.clone();
        std::mem::forget(self);
        Ok(client::detach(&name, true)?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // An earlier error is on its way to the user; `foreseek disk list` shows what is left.
        let _ = client::detach(&self.attached.name, true);
    }
}

/// A disk's use, out of the server's figures. Its busy time is the model's; it is scaled here.
pub(crate) fn disk_use(stats: &Stats) -> DiskUse {
    DiskUse {
        requests: stats.requests,
        seeks: stats.seeks,
        mean_seek_distance: Bytes(stats.mean_seek_distance_bytes),
        read: Bytes(stats.read_bytes),
        busy: Nanos::from_secs_f64(stats.busy_seconds * stats.time_scale),
    }
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    point: Option<PathBuf>,
}

impl Mounted {
    /// Leaves it mounted.
    pub(crate) fn keep(mut self) {
        self.point = None;
    }

    /// Unmounts it; everything written is on the disk then, and nothing in the page cache.
    pub(crate) fn unmount(mut self) -> Result<()> {
        let Some(point) = self.point.take() else { return Ok(()) };
        let start = Instant::now();
        loop {
            match unmount(&point, UnmountFlags::empty()) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::BUSY) if start.elapsed() < UNMOUNT_LIMIT => std::thread::sleep(POLL),
                Err(error) => {
                    let failed = Error::io("cannot unmount", point.display(), error);
                    self.point = Some(point);
                    return Err(failed);
                }
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(point) = self.point.take()
            && unmount(&point, UnmountFlags::empty()).is_err()
        {
            // Out of sight at once, and really gone when its last user is.
            let _ = unmount(&point, UnmountFlags::DETACH);
        }
    }
}
