//! From samples to figures: pure arithmetic, no reading and no clock.

pub(super) mod change_points;
pub(super) mod credit;
pub(super) mod latency;
pub(super) mod monotone;
pub(super) mod overlap;
pub(super) mod statistics;
pub(super) mod turn;
