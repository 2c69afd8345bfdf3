//! A job on the members of an array.

use super::plan::Members;
use crate::io::{Op, Outcome};
use foreseek_units::SectorSpan;

/// The ranges of a job on its members.
#[derive(Clone, Copy, Debug)]
pub(super) enum Where {
    /// The same range on each.
    Same(SectorSpan),
    /// On each member its part of this part of the request.
    Own(SectorSpan),
}

/// Transfers that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) request: usize,
    pub(super) at: Where,
    pub(super) op: Op,
    /// Members with a transfer in flight.
    pub(super) pending: Members,
    /// Members whose data have been read, or requested.
    pub(super) read: Members,
    /// What to write when all reads are done.
    pub(super) writes: Members,
    /// Members that cannot serve this job: failed, or unreadable here.
    pub(super) lost: Members,
    pub(super) outcome: Outcome,
}
