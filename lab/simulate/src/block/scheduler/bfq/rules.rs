//! Whose queue a request belongs to, what it costs, and how long the disk is a queue's.

use crate::block::Request;
use foreseek_seam::ProcessId;
use foreseek_units::Sectors;

/// Ticks of a service at most.
pub(super) const TIMEOUT: u64 = 125;
/// The disk is kept idle for so many ticks.
pub(super) const IDLE: u64 = 8;
/// An asynchronous sector counts as so many.
pub(super) const ASYNC_CHARGE: u64 = 3;

/// Whose queue: a process's, or that of all asynchronous requests.
pub(super) type Key = Option<ProcessId>;

pub(super) fn key(request: &Request) -> Key {
    request.synchronous.then_some(request.who)
}

/// What a request costs.
pub(super) fn charge(request: &Request) -> Sectors {
    request.range.len() * if request.synchronous { 1 } else { ASYNC_CHARGE }
}
