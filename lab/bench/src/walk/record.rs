//! One run, as it is written down.

use super::program::Named;
use super::tree::Tree;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};

/// A program on a tree, as it stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct On {
    /// Which tree.
    pub(crate) tree: Tree,
    /// Which program.
    pub(crate) program: Named,
}

/// A run in a way, or in none: the ascending pass over what the program needs.
pub(crate) type WalkRun = Row<On, Option<Way>, Measured>;

/// What came out of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// How long it took from cold, in seconds.
    pub(crate) seconds: f64,
    /// How long it took right after that, with everything in memory as far as there is room, without the disk's delays.
    pub(crate) again_seconds: f64,
    /// Of what happened beside it: when a second program had ended, or how long a read took in the mean, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside_seconds: Option<f64>,
    /// Requests that the disk served in the cold run.
    pub(crate) reads: u64,
    /// Of which it had to seek for so many.
    pub(crate) seeks: u64,
    /// Bytes of them.
    pub(crate) read_bytes: u64,
    /// The machine's load average before it.
    pub(crate) load: f64,
}
