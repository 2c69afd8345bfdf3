//! An emulated disk, the file system on it, and the mount, each undone when dropped.

use crate::direct::DirectReader;
use crate::interrupt::{Interrupt, POLL};
use crate::process::Program;
use crate::{Error, Result};
use foreseek_emulate::client::{self, Attached, Log};
use foreseek_emulate::{AttachOptions, Backing, Set, Stats};
use foreseek_seam::Extent;
use foreseek_storage::{HostFd, Layout};
use foreseek_units::{ByteOffset, Bytes, Sectors};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long making the file system may take; with delays off it takes a second.
const MKFS_LIMIT: Duration = Duration::from_secs(120);

/// Reads that replace what a drive has in its buffer: more than any profile has segments.
const SEGMENTS: u64 = 64;
/// The size of each.
const SEGMENT_READ: Bytes = Bytes::kib(64);

/// How long to wait for a busy mount. An indexer or a file manager that looks at a new mount point is done in
/// that time.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(10);

/// What is to be attached.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskPlan {
    /// The disk's name.
    pub name: String,
    /// A built-in profile or a file.
    pub profile: String,
    /// The disk's size.
    pub size: Bytes,
    /// Whether the device's full stroke is stretched over the size.
    pub fit: bool,
    /// The factor on the disk's time.
    pub time_scale: f64,
    /// Where its data lie, as a sparse file that is removed at the end; `/var/tmp` where not given.
    pub directory: Option<PathBuf>,
}

/// An attached disk; detached when dropped.
#[derive(Debug)]
pub struct Disk {
    attached: Attached,
}

impl Disk {
    /// Attaches a disk that answers without delay for now.
    ///
    /// # Errors
    /// Whatever kept it from being attached.
    pub fn attach(plan: &DiskPlan) -> Result<Self> {
        Self::attached(plan, None)
    }

    /// The same where this program is not `foreseek` and cannot be the disk's server: `server` is one.
    ///
    /// # Errors
    /// As [`Disk::attach`].
    pub fn attach_by(server: &Path, plan: &DiskPlan) -> Result<Self> {
        Self::attached(plan, Some(server.to_owned()))
    }

    fn attached(plan: &DiskPlan, server: Option<PathBuf>) -> Result<Self> {
        let options = AttachOptions {
            server,
            backing: Backing::Sparse { directory: plan.directory.clone() },
            delays: false,
            time_scale: plan.time_scale,
            fit: plan.fit,
            // Only what is written takes space.
            thin: true,
            name: Some(plan.name.clone()),
            ..AttachOptions::new(&plan.profile, plan.size)
        };
        Ok(Self { attached: client::attach(&options)? })
    }

    /// Safety settings that could not be applied on this machine, for the report.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.attached.warnings
    }

    /// The block device.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.attached.device
    }

    /// Makes ext4 on it. Everything is initialised at once: otherwise the kernel would write in the background
    /// while something is measured.
    ///
    /// # Errors
    /// Where `mkfs` fails.
    pub fn make_file_system(&self, mkfs: &Program, interrupt: &Interrupt) -> Result<()> {
        self.make_ext4("", mkfs, interrupt)
    }

    /// The same, with a seed for the places of directories: ext4 puts those of its root into groups by a hash of their
    /// names, whose key is random otherwise.
    ///
    /// # Errors
    /// As [`Disk::make_file_system`].
    pub fn make_file_system_of(&self, seed: u64, mkfs: &Program, interrupt: &Interrupt) -> Result<()> {
        self.make_ext4(&format!(",hash_seed={}", hash_key(seed)), mkfs, interrupt)
    }

    fn make_ext4(&self, more: &str, mkfs: &Program, interrupt: &Interrupt) -> Result<()> {
        let device = self.attached.device.to_string_lossy();
        let extended = format!("lazy_itable_init=0,lazy_journal_init=0{more}");
        let options = ["-q", "-F", "-E", &extended, &device];
        mkfs.run("making a file system", &options, MKFS_LIMIT, interrupt).map(drop)
    }

    /// Mounts it; nothing of it is in the page cache then.
    ///
    /// # Errors
    /// The system's, or where an earlier mount is still in use.
    pub fn mount(&self, point: &Path) -> Result<Mounted> {
        self.mount_as("ext4", point)
    }

    /// The same where a file system of another kind was made on it.
    ///
    /// # Errors
    /// As [`Disk::mount`].
    pub fn mount_as(&self, kind: &str, point: &Path) -> Result<Mounted> {
        self.check_unused()?;
        // Without access times: only what is measured may move the head.
        mount_kind(&self.attached.device, kind, point, MountFlags::NOATIME)
    }

    /// A file system that was detached while in use goes on, with its page cache: another mount would be of the
    /// same one. The kernel has its device open exclusively.
    fn check_unused(&self) -> Result<()> {
        let device = self.device();
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        retry_while_busy(|| rustix::fs::open(device, flags, Mode::empty()).map(drop))
            .map_err(|error| Error::io("an earlier mount is still in use, of", device.display(), error))
    }

    /// Whether requests take the modelled time.
    ///
    /// # Errors
    /// Where its server does not answer, as in all that follows.
    pub fn set_delays(&self, on: bool) -> Result<()> {
        Ok(client::set(&self.attached.name, &Set { delays: Some(on), ..Set::default() })?)
    }

    /// Requests take the modelled time from now on, and the drive's own buffer has nothing that was read earlier.
    ///
    /// # Errors
    /// As [`Disk::set_delays`], or where the device cannot be read.
    pub fn begin_cold(&self) -> Result<()> {
        self.set_delays(true)?;
        self.replace_buffer()
    }

    /// Reads at places all over the disk. Without delays the modelled buffer would stay as it is.
    fn replace_buffer(&self) -> Result<()> {
        let mut disk = DirectReader::open(self.device(), SEGMENT_READ)?;
        let size = disk.len()?.get();
        (0..SEGMENTS).try_for_each(|segment| {
            let place = size / SEGMENTS * segment;
            disk.read(ByteOffset(place - place % SEGMENT_READ.get()), SEGMENT_READ).map(drop)
        })
    }

    /// Resets the counters; returns what was counted until then.
    ///
    /// # Errors
    /// As [`Disk::set_delays`].
    pub fn count_anew(&self) -> Result<Stats> {
        Ok(client::stats(&self.attached.name, true)?)
    }

    /// What it did since [`Disk::count_anew`].
    ///
    /// # Errors
    /// As [`Disk::set_delays`].
    pub fn stats(&self) -> Result<Stats> {
        Ok(client::stats(&self.attached.name, false)?)
    }

    /// Starts to log requests.
    ///
    /// # Errors
    /// As [`Disk::set_delays`].
    pub fn start_log(&self) -> Result<()> {
        Ok(client::log_start(&self.attached.name, client::DEFAULT_LOG_CAPACITY)?)
    }

    /// Ends logging; returns the requests since [`Disk::start_log`].
    ///
    /// # Errors
    /// As [`Disk::set_delays`].
    pub fn take_log(&self) -> Result<Log> {
        Ok(client::log_stop(&self.attached.name)?)
    }

    /// Leaves it attached; returns its name.
    #[must_use]
    pub fn keep(self) -> String {
        let name = self.attached.name.clone();
        std::mem::forget(self);
        name
    }

    /// Detaches it.
    ///
    /// # Errors
    /// Where it is in use or its server hangs.
    pub fn detach(self) -> Result<()> {
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

/// The key of ext4's hash for a seed, as `mkfs` takes it: a UUID, and never that of zeros, which stands for none.
fn hash_key(seed: u64) -> String {
    format!("f0e5eec0-0000-4000-{:04x}-{:012x}", seed >> 48, seed & 0xffff_ffff_ffff)
}

/// Where a file lies on its disk.
///
/// # Errors
/// Where the file system does not report it.
pub fn extents_of(path: &Path) -> Result<Vec<Extent>> {
    let cannot = |error| Error::io("cannot learn where it lies on disk:", path.display(), error);
    let file = File::open(path).map_err(cannot)?;
    let fd = HostFd::new(file.as_raw_fd()).ok_or_else(|| cannot(std::io::ErrorKind::NotFound.into()))?;
    let (identity, _) = fd.identify().ok_or_else(|| cannot(std::io::ErrorKind::NotFound.into()))?;
    let layout = Layout::of(fd, &identity, Sectors::ZERO).map_err(|error| cannot(error.into()))?;
    Ok(layout.extents)
}

/// Mounts the ext4 on a block device.
///
/// # Errors
/// The system's.
pub fn mount_ext4(device: &Path, point: &Path, flags: MountFlags) -> Result<Mounted> {
    mount_kind(device, "ext4", point, flags)
}

/// Mounts a new file system in memory.
///
/// # Errors
/// The system's.
pub fn mount_memory(point: &Path) -> Result<Mounted> {
    mount_kind(Path::new("none"), "tmpfs", point, MountFlags::empty())
}

fn mount_kind(device: &Path, kind: &str, point: &Path, flags: MountFlags) -> Result<Mounted> {
    mount(device, point, kind, flags, None)
        .map_err(|error| Error::io("cannot mount", device.display(), error))?;
    Ok(Mounted { point: Some(point.to_owned()) })
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    point: Option<PathBuf>,
}

impl Mounted {
    /// Leaves it mounted.
    pub fn keep(mut self) {
        self.point = None;
    }

    /// Unmounts it. Then all that was written is on the disk, and nothing of it in the page cache.
    ///
    /// # Errors
    /// Where it stays in use, or the system's.
    pub fn unmount(mut self) -> Result<()> {
        let Some(point) = self.point.take() else { return Ok(()) };
        retry_while_busy(|| unmount(&point, UnmountFlags::empty())).map_err(|error| {
            let failed = Error::io("cannot unmount", point.display(), error);
            self.point = Some(point);
            failed
        })
    }
}

/// Repeats it while others use what it needs, up to [`UNMOUNT_LIMIT`].
fn retry_while_busy(attempt: impl Fn() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(Errno::BUSY) if start.elapsed() < UNMOUNT_LIMIT => std::thread::sleep(POLL),
            ended => return ended,
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(point) = self.point.take()
            && unmount(&point, UnmountFlags::empty()).is_err()
        {
            // Detached from the tree at once; the file system itself goes with its last user.
            let _ = unmount(&point, UnmountFlags::DETACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_key_of_ext4_of_its_own() {
        let keys = [0, 1, u64::MAX].map(hash_key);
        assert_eq!(keys[1], "f0e5eec0-0000-4000-0000-000000000001");
        assert_eq!(keys[2], "f0e5eec0-0000-4000-ffff-ffffffffffff");
        assert!(keys[0] != keys[1] && keys.iter().all(|key| key.len() == 36));
    }
}
