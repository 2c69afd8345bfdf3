//! One run, as it is written down.

use super::job::Named;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};

/// A job, as it stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Of {
    pub(crate) job: Named,
}

/// A run.
pub(crate) type JobRun = Row<Of, Way, Measured>;

/// What came out of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// How long it took from cold, in seconds.
    pub(crate) seconds: f64,
    /// Processor seconds of the programs; none where the work is done by a server of theirs.
    pub(crate) program_processor_s: f64,
    /// Processor seconds of the mount.
    pub(crate) mount_processor_s: f64,
    /// Requests that the disk served.
    pub(crate) reads: u64,
    /// Of which it had to seek for so many.
    pub(crate) seeks: u64,
    /// Bytes of them.
    pub(crate) read_bytes: u64,
    /// Requests that wrote, and flushes.
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    /// The machine's load average before it.
    pub(crate) load: f64,
    /// What the mount said of itself at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<serde_json::Value>,
}
