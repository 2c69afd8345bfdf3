//! One run, as it is written down.

use super::program::Named;
use super::tree::Tree;
use super::way::Way;
pub(crate) use crate::record::Outcome;
use serde::{Deserialize, Serialize};

/// A run, or the pass over a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WalkRun {
    /// Over which tree.
    pub(crate) tree: Tree,
    /// Which program.
    pub(crate) program: Named,
    /// In which way; none for the ascending pass over what the program needs.
    pub(crate) way: Option<Way>,
    /// Which pair, from 0.
    pub(crate) pair: u32,
    /// What came out, or why nothing.
    pub(crate) outcome: Outcome<Measured>,
}

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

/// What was measured, by pair.
pub(crate) fn measured(
    runs: &[WalkRun],
    tree: Tree,
    program: Named,
    way: Option<Way>,
) -> impl Iterator<Item = (u32, Measured)> {
    runs.iter().filter(move |run| run.tree == tree && run.program == program && run.way == way).filter_map(
        |run| match run.outcome {
            Outcome::Measured(measured) => Some((run.pair, measured)),
            Outcome::Failed(_) => None,
        },
    )
}
