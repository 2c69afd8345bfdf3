//! One run, as it is written to the file.

use super::program::NamedProgram;
use super::tree::Tree;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};

/// A program on a tree, as a row has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct On {
    /// The tree.
    pub(crate) tree: Tree,
    /// The program.
    pub(crate) program: NamedProgram,
}

/// A run in a way; without one the ascending pass over what the program needs.
pub(crate) type WalkRun = Row<On, Option<Way>, Measured>;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The time from cold, in seconds.
    pub(crate) seconds: f64,
    /// The time right after that, with as much in memory as fits, without the disk's delays.
    pub(crate) again_seconds: f64,
    /// Of the load beside it: when a second program had ended, or the mean time of a read, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside_seconds: Option<f64>,
    /// Requests that the disk served in the cold run.
    pub(crate) reads: u64,
    /// Seeks for them.
    pub(crate) seeks: u64,
    /// Bytes of them.
    pub(crate) read_bytes: u64,
    /// The machine's load average before it.
    pub(crate) load: f64,
}
