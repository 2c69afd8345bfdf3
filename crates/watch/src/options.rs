//! Options of a watcher.

use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The part of the available memory for pages that were read ahead and not used yet: a daemon shares the
/// machine with all that it serves. The gain depends on the window; see docs/use/walks.md.
pub const SHARE: f64 = 0.25;
/// The least window: smaller ones gain nothing.
pub const MEMORY_LEAST: Bytes = Bytes::mib(16);

/// The options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Paths on the file systems to watch; without any, all that are worth it are watched.
    pub paths: Vec<PathBuf>,
    /// The most bytes that may be held, read ahead and not used yet, whatever the share is.
    pub memory_bytes: Option<u64>,
    /// The part of the available memory for it.
    pub share: f64,
    /// The device's profile; without one, that of a similar disk.
    pub profile: Option<String>,
    /// Where the events and commands of each disk's engine are recorded: this name, `.` and the disk's.
    #[serde(default)]
    pub record: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { paths: Vec::new(), memory_bytes: None, share: SHARE, profile: None, record: None }
    }
}
