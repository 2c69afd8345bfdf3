//! What is wanted of a watcher.

use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The part of the available memory that may hold what was read ahead and not used yet: a daemon shares the
/// machine with all that it serves. The window decides the gain; see docs/use/walks.md.
pub const SHARE: f64 = 0.25;
/// The least window: smaller ones gain nothing.
pub const MEMORY_LEAST: Bytes = Bytes::mib(16);

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The file systems that hold these are watched; with none, all that are worth it.
    pub paths: Vec<PathBuf>,
    /// At most so much is held that was read ahead and not used yet, whatever the share is.
    pub memory_bytes: Option<u64>,
    /// The part of the available memory for it.
    pub share: f64,
    /// The device's profile; without one, that of a disk like it.
    pub profile: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { paths: Vec::new(), memory_bytes: None, share: SHARE, profile: None }
    }
}
