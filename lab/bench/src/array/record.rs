//! One run, as it is written down.

use super::load::Load;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};

/// A load, as it stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Of {
    pub(crate) load: Load,
}

/// A run.
pub(crate) type ArrayRun = Row<Of, Way, Measured>;

/// What came out of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) read_bytes: u64,
    pub(crate) seconds: f64,
    /// Requests that the members served, bytes of them, and the time for which they were at work, all members together.
    pub(crate) disk_reads: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_seconds: f64,
    /// Processor time of the array's server; none of the raw device.
    pub(crate) server_seconds: f64,
    /// The machine's load average before it.
    pub(crate) load: f64,
}

impl Measured {
    pub(crate) fn mb_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.read_bytes as f64 / 1e6 / self.seconds } else { 0.0 }
    }
}
