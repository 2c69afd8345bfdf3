//! From samples to results: pure arithmetic, without I/O and clock.

pub(super) mod change_points;
pub(super) mod credit;
pub(super) mod latency;
pub(super) mod monotone;
pub(super) mod overlap;
pub(super) mod rotation;
pub(super) mod statistics;
