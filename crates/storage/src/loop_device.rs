//! Loop devices: a block device `/dev/loopN` over a file, with direct I/O.
//!
//! A free device is configured without a race. The kernel names a free device, and `LOOP_CONFIGURE` (Linux
//! 5.8) sets file, flags and block size in one step. It fails with `EBUSY` if another process took the device
//! first; then the next free one is tried. Direct I/O is part of that step: without it a loop device splits
//! requests to 128 KiB, and its file is cached twice.
//!
//! Queue settings survive from an earlier attachment of the same number; all that matter are therefore set
//! again. Clearing takes effect when the last user closes the device; [`LoopDevice::clear`] waits for that,
//! within a limit.
#![allow(unsafe_code)]

use foreseek_units::{Bytes, SECTOR_SIZE};
use linux_raw_sys::loop_device as raw;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Attempts to get a free device: each lost race is one that another process won, and more than this many in
/// a row do not happen by chance.
const TRIES: usize = 64;
/// Between checks whether a device is free.
const POLL: Duration = Duration::from_millis(5);
/// The kernel's own default for `read_ahead_kb`.
pub const DEFAULT_READ_AHEAD: Bytes = Bytes::kib(128);

/// Why a loop device could not be set up, changed or freed.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The kernel has no loop driver, or this process may not use it.
    #[error(
        "cannot open {path}: {cause}; loop devices need root and the 'loop' kernel module, and a container must be given \
         them (docker run --privileged -v /dev:/dev), or do it on the host"
    )]
    Unavailable {
        /// The device node.
        path: PathBuf,
        /// The kernel's error; part of the message, and so no `source`.
        cause: io::Error,
    },
    /// Other processes took each free device first.
    #[error("no free loop device in {TRIES} attempts: other processes took each one first")]
    Contended,
    /// A step failed.
    #[error("cannot {operation} {path}: {cause}")]
    Failed {
        /// The operation.
        operation: &'static str,
        /// The device or file.
        path: PathBuf,
        /// The kernel's error; part of the message, and so no `source`.
        cause: io::Error,
    },
    /// The device stays in use.
    #[error("{path} is still in use after {seconds} s; it becomes free when its last user closes it")]
    InUse {
        /// The device.
        path: PathBuf,
        /// The time waited.
        seconds: u64,
    },
    /// The path names something else.
    #[error("{0} is not a loop device")]
    NotALoop(PathBuf),
}

/// The settings of a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopOptions {
    /// Whether the kernel treats it as rotational.
    pub rotational: bool,
    /// The read-ahead of files on it.
    pub read_ahead: Bytes,
    /// Its logical block size: a power of two from a sector to a page.
    pub block: Bytes,
}

impl LoopOptions {
    /// A rotational disk with blocks of a sector.
    pub const DISK: Self =
        Self { rotational: true, read_ahead: DEFAULT_READ_AHEAD, block: Bytes(SECTOR_SIZE) };
}

/// A loop device, attached or not. Dropping it changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    number: u32,
}

impl LoopDevice {
    /// Attaches a free loop device over `file`, which must be open for reading and writing; `name`
    /// is shown by `losetup`. The file may be closed afterwards.
    ///
    /// # Errors
    /// [`LoopError`]; nothing stays attached then.
    pub fn attach(file: &File, name: &Path, options: LoopOptions) -> Result<Self, LoopError> {
        let control = open(Path::new("/dev/loop-control"))?;
        for _ in 0..TRIES {
            // SAFETY: LOOP_CTL_GET_FREE takes no argument and touches no memory of this process.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), raw::LOOP_CTL_GET_FREE as _) };
            let number = u32::try_from(number).map_err(|_| LoopError::Failed {
                operation: "find a free loop device by",
                path: "/dev/loop-control".into(),
                cause: io::Error::last_os_error(),
            })?;
            let device = Self { number };
            if !device.configure(file, name, options.block)? {
                continue;
            }
            return match device.set_queue(options) {
                Ok(()) => Ok(device),
                Err(error) => {
                    let _ = device.clear(Duration::from_secs(1));
                    Err(error)
                }
            };
        }
        Err(LoopError::Contended)
    }

    /// The loop device at `path`, such as `/dev/loop3`.
    ///
    /// # Errors
    /// [`LoopError::NotALoop`].
    pub fn at(path: &Path) -> Result<Self, LoopError> {
        let number = path.strip_prefix("/dev").ok().and_then(Path::to_str);
        let number = number.and_then(|name| name.strip_prefix("loop")?.parse().ok());
        let is_block = || fs::metadata(path).is_ok_and(|data| data.file_type().is_block_device());
        match number {
            Some(number) if is_block() => Ok(Self { number }),
            _ => Err(LoopError::NotALoop(path.to_owned())),
        }
    }

    /// The attached loop devices that `wanted` accepts.
    pub fn find(mut wanted: impl FnMut(&Self) -> bool) -> Vec<Self> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
            let Some(device) = number.map(|number| Self { number }) else { continue };
            if device.file().is_some() && wanted(&device) {
                found.push(device);
            }
        }
        found
    }

    /// The device node.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/dev/loop{}", self.number).into()
    }

    /// Its directory in sysfs.
    #[must_use]
    pub fn sysfs(&self) -> PathBuf {
        format!("/sys/block/loop{}", self.number).into()
    }

    /// The file under it, as the kernel reports it; `None` where it is not attached.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(self.sysfs().join("loop/backing_file")).ok()?;
        Some(text.trim_end_matches('\n').into())
    }

    /// The minor number of the file system that holds its file. It identifies a file system without a device,
    /// such as FUSE, wherever it is mounted and even after it was unmounted.
    #[must_use]
    pub fn file_system_minor(&self) -> Option<u32> {
        let device = File::open(self.path()).ok()?;
        // SAFETY: loop_info64 is plain numbers and arrays of them, for which zero is a value.
        let mut info: raw::loop_info64 = unsafe { std::mem::zeroed() };
        // SAFETY: LOOP_GET_STATUS64 writes one loop_info64, which lives until the call returns.
        let got = unsafe { libc::ioctl(device.as_raw_fd(), raw::LOOP_GET_STATUS64 as _, &raw mut info) };
        // The kernel's encoding: minor bits 8 and up lie above the major number.
        let minor = (info.lo_device & 0xff) | ((info.lo_device >> 12) & !0xff);
        if got == 0 { u32::try_from(minor).ok() } else { None }
    }

    /// Frees the device: at once, or when its last user closes it. Waits no longer than `limit`. Freeing a
    /// free device succeeds.
    ///
    /// # Errors
    /// [`LoopError::InUse`] when the limit has passed; the kernel still frees the device later.
    pub fn clear(&self, limit: Duration) -> Result<(), LoopError> {
        let deadline = Instant::now() + limit;
        self.begin_clear()?;
        while self.file().is_some() {
            if Instant::now() >= deadline {
                return Err(LoopError::InUse { path: self.path(), seconds: limit.as_secs() });
            }
            sleep(POLL);
        }
        Ok(())
    }

    /// Requests that the kernel free the device as soon as it has no users; returns at once.
    ///
    /// # Errors
    /// [`LoopError::Failed`].
    pub fn begin_clear(&self) -> Result<(), LoopError> {
        if self.file().is_none() {
            return Ok(());
        }
        // Opened for reading: closing a writable descriptor makes udev probe the device.
        let device = File::open(self.path()).map_err(|cause| self.failed("open", cause))?;
        // SAFETY: LOOP_CLR_FD takes no argument and touches no memory of this process.
        if unsafe { libc::ioctl(device.as_raw_fd(), raw::LOOP_CLR_FD as _) } < 0 {
            let error = io::Error::last_os_error();
            // ENXIO: another process has freed it.
            if error.raw_os_error() != Some(libc::ENXIO) {
                return Err(self.failed("free", error));
            }
        }
        Ok(())
    }

    /// Configures this device over `file`; `false` where another process took it first.
    fn configure(&self, file: &File, name: &Path, block: Bytes) -> Result<bool, LoopError> {
        let node = open(&self.path())?;
        // SAFETY: loop_config is plain numbers and arrays of them, for which zero is a value.
        let mut config: raw::loop_config = unsafe { std::mem::zeroed() };
        config.fd = file.as_fd().as_raw_fd() as u32;
        config.block_size = block.get() as u32;
        config.info.lo_flags = raw::LO_FLAGS_DIRECT_IO as u32;
        let shown = name.as_os_str().as_encoded_bytes();
        // One byte stays zero: the kernel requires a terminated name.
        let room = config.info.lo_file_name.len() - 1;
        for (to, from) in config.info.lo_file_name[..room].iter_mut().zip(shown) {
            *to = *from as _;
        }
        // SAFETY: LOOP_CONFIGURE reads one loop_config, which lives until the call returns.
        if unsafe { libc::ioctl(node.as_raw_fd(), raw::LOOP_CONFIGURE as _, &raw const config) } == 0 {
            return Ok(true);
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
            error => Err(self.failed("configure", error)),
        }
    }

    fn set_queue(&self, options: LoopOptions) -> Result<(), LoopError> {
        let queue = self.sysfs().join("queue");
        let set = |name: &str, value: String| {
            let path = queue.join(name);
            fs::write(&path, value).map_err(|cause| LoopError::Failed { operation: "set", path, cause })
        };
        set("rotational", u8::from(options.rotational).to_string())?;
        set("read_ahead_kb", (options.read_ahead.get() >> 10).to_string())?;
        // An earlier user of this number may have set another scheduler.
        set("scheduler", "none".to_owned())
    }

    fn failed(&self, operation: &'static str, cause: io::Error) -> LoopError {
        LoopError::Failed { operation, path: self.path(), cause }
    }
}

fn open(path: &Path) -> Result<File, LoopError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(path)
        .map_err(|cause| LoopError::Unavailable { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loop_device_is_taken_for_one() {
        for path in ["/dev/null", "/dev/loop-control", "/dev/loopy", "loop0", "/dev/loop99999", ""] {
            assert!(matches!(LoopDevice::at(Path::new(path)), Err(LoopError::NotALoop(_))), "{path}");
        }
    }
}
