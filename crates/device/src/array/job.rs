//! What a job is.

use super::plan::Members;
use crate::io::{Op, Outcome};
use foreseek_units::SectorSpan;

/// What a job does on the members that it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Where {
    /// The same range on each.
    Same(SectorSpan),
    /// On each what it holds of this part of the request.
    Own(SectorSpan),
}

/// Transfers that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) request: usize,
    pub(super) at: Where,
    pub(super) op: Op,
    /// Members on which a transfer is under way.
    pub(super) pending: Members,
    /// Members whose data have been read, or asked for.
    pub(super) read: Members,
    /// What to write when all reads are done.
    pub(super) writes: Members,
    /// Members that are of no use for this job: failed, or unreadable here.
    pub(super) lost: Members,
    pub(super) outcome: Outcome,
}
