//! The kernel's limit on the pages of a FUSE request, raised while a mount is made.
//!
//! `fs.fuse.max_pages_limit` (Linux 6.13) is 256 pages by default, which would cut the loop
//! driver's 1280 KiB requests in two. The kernel looks at it once, when a file system is mounted,
//! so it is raised for that moment and set back: no other mount is affected for good. Mounts of
//! this program take turns by a lock on the setting's own file.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};

const SETTING: &str = "/proc/sys/fs/fuse/max_pages_limit";

/// Sets the limit back when dropped.
pub(crate) struct RaisedPageLimit {
    before: Option<u32>,
    _turn: Option<File>,
}

impl RaisedPageLimit {
    /// Raises the limit to `pages` if it is lower. The text says why it could not.
    pub(crate) fn to(pages: u32) -> (Self, Option<String>) {
        let turn = File::open(SETTING).ok();
        if let Some(turn) = &turn {
            // Should it not be had, the worst is that a mount of ours gets smaller requests.
            let _ = flock(turn, FlockOperation::LockExclusive);
        }
        let now = fs::read_to_string(SETTING).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let (before, remark) = match now {
            Some(now) if now >= pages => (None, None),
            Some(now) => match fs::write(SETTING, pages.to_string()) {
                Ok(()) => (Some(now), None),
                Err(error) => (None, Some(format!("cannot raise {SETTING} from {now}: {error}"))),
            },
            None => (None, Some(format!("the kernel has no {SETTING} (Linux 6.13)"))),
        };
        let remark = remark.map(|why| format!("{why}; requests above 1 MiB come in parts"));
        (Self { before, _turn: turn }, remark)
    }
}

impl Drop for RaisedPageLimit {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && let Err(error) = fs::write(SETTING, before.to_string())
        {
            tracing::warn!("cannot set {SETTING} back to {before}: {error}");
        }
    }
}
