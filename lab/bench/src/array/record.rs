//! One run, as it is written to the file.

use super::load::Load;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};

/// The load, as a row has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadCell {
    pub(crate) load: Load,
}

/// A run.
pub(crate) type ArrayRun = Row<LoadCell, Way, Measured>;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) read_bytes: u64,
    pub(crate) seconds: f64,
    /// Requests that the members served, their bytes, and their busy time, all members together.
    pub(crate) disk_reads: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_seconds: f64,
    /// Processor time of the array's server; zero for the raw device.
    pub(crate) server_seconds: f64,
    /// The machine's load average before it.
    pub(crate) load: f64,
}

impl Measured {
    pub(crate) fn mb_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.read_bytes as f64 / 1e6 / self.seconds } else { 0.0 }
    }
}
