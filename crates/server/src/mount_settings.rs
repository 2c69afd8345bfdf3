//! Kernel settings for FUSE mounts, changed while a mount is made and then restored.
//!
//! The kernel reads them once, when a file system is mounted, so that only mounts made meanwhile are
//! affected. Mounts of this project exclude each other by a lock on the directory of the settings.
//!
//! `max_pages_limit` (Linux 6.13) is 256 pages by default, which would split the loop driver's 1280 KiB
//! requests. With `default_request_timeout` (Linux 6.14) the kernel aborts a mount whose server does not
//! answer in time; it is off by default.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

const DIRECTORY: &str = "/proc/sys/fs/fuse";

/// Settings that are restored when dropped.
#[derive(Debug)]
pub struct MountSettings {
    before: Vec<(PathBuf, String)>,
    warnings: Vec<String>,
    // The lock is released last.
    _lock: Option<File>,
}

impl MountSettings {
    /// Takes the lock.
    #[must_use]
    pub fn take() -> Self {
        let lock = File::open(DIRECTORY).ok();
        if let Some(lock) = &lock {
            // Without the lock, at worst another mount of this project gets the kernel's defaults.
            let _ = flock(lock, FlockOperation::LockExclusive);
        }
        Self { before: Vec::new(), warnings: Vec::new(), _lock: lock }
    }

    /// Raises the limit of pages in a request to `pages`, if it is lower.
    pub fn allow_pages(&mut self, pages: u64) {
        let enough = |now: u64| now >= pages;
        if let Err(why) = self.set("max_pages_limit", pages, enough) {
            self.warnings.push(format!("{why}; requests above 1 MiB are split"));
        }
    }

    /// Makes the kernel abort the mount when a request is not answered within `limit`.
    pub fn time_out(&mut self, limit: Duration) {
        let seconds = limit.as_secs().max(1);
        if let Err(why) = self.set("default_request_timeout", seconds, |now| now == seconds) {
            self.warnings.push(format!("{why}; the kernel will not abort the mount of a hung server"));
        }
    }

    /// Settings that could not be changed; the mount works without them.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn set(&mut self, name: &str, value: u64, is_fine: impl Fn(u64) -> bool) -> Result<(), String> {
        let path = PathBuf::from(DIRECTORY).join(name);
        let now = fs::read_to_string(&path).map_err(|_| format!("the kernel has no {}", path.display()))?;
        if now.trim().parse().is_ok_and(is_fine) {
            return Ok(());
        }
        let written = fs::write(&path, value.to_string());
        written.map_err(|error| format!("cannot set {} to {value}: {error}", path.display()))?;
        self.before.push((path, now));
        Ok(())
    }
}

impl Drop for MountSettings {
    fn drop(&mut self) {
        for (path, before) in self.before.drain(..) {
            if let Err(error) = fs::write(&path, &before) {
                tracing::warn!("cannot set {} back to {}: {error}", path.display(), before.trim());
            }
        }
    }
}
