//! One run, as it is written to the file.

use super::job::NamedJob;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};

/// The job, as a row has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobCell {
    pub(crate) job: NamedJob,
}

/// A run.
pub(crate) type JobRun = Row<JobCell, Way, Measured>;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The time from cold, in seconds.
    pub(crate) seconds: f64,
    /// Processor seconds of the programs; zero where a server does the work.
    pub(crate) program_processor_s: f64,
    /// Processor seconds of the mount.
    pub(crate) mount_processor_s: f64,
    /// Requests that the disk served.
    pub(crate) reads: u64,
    /// Seeks for them.
    pub(crate) seeks: u64,
    /// Bytes of them.
    pub(crate) read_bytes: u64,
    /// Requests that wrote, and flushes.
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    /// The machine's load average before it.
    pub(crate) load: f64,
    /// The mount's status at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<serde_json::Value>,
}
