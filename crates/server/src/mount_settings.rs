//! Kernel settings for FUSE mounts, changed while one mount is made and then set back.
//!
//! The kernel looks at them once, when a file system is mounted, so no other mount is affected for
//! good. Mounts of this program take turns by a lock on the directory of the settings.
//!
//! `max_pages_limit` (Linux 6.13) is 256 pages by default, which would cut the loop driver's
//! 1280 KiB requests in two. `default_request_timeout` (Linux 6.14) makes the kernel give up a
//! mount whose server does not answer in time; it is off by default.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

const DIRECTORY: &str = "/proc/sys/fs/fuse";

/// Settings that are set back when dropped.
#[derive(Debug)]
pub struct MountSettings {
    before: Vec<(PathBuf, String)>,
    warnings: Vec<String>,
    // The turn ends last.
    _turn: Option<File>,
}

impl MountSettings {
    /// Takes a turn.
    #[must_use]
    pub fn take() -> Self {
        let turn = File::open(DIRECTORY).ok();
        if let Some(turn) = &turn {
            // Should it not be had, the worst is that a mount of ours gets the kernel's defaults.
            let _ = flock(turn, FlockOperation::LockExclusive);
        }
        Self { before: Vec::new(), warnings: Vec::new(), _turn: turn }
    }

    /// Requests may have so many pages, if they may not already.
    pub fn allow_pages(&mut self, pages: u64) {
        let enough = |now: u64| now >= pages;
        if let Err(why) = self.set("max_pages_limit", pages, enough) {
            self.warnings.push(format!("{why}; requests above 1 MiB come in parts"));
        }
    }

    /// The kernel aborts the mount when a request is not answered within `limit`.
    pub fn time_out(&mut self, limit: Duration) {
        let seconds = limit.as_secs().max(1);
        if let Err(why) = self.set("default_request_timeout", seconds, |now| now == seconds) {
            self.warnings.push(format!("{why}; the kernel will not abort a server that hangs"));
        }
    }

    /// What could not be set; the mount works without.
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
