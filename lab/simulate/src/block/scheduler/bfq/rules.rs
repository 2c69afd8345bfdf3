//! To which queue a request belongs, what it is charged, and how long a service lasts.

use crate::block::Request;
use foreseek_seam::ProcessId;
use foreseek_units::Sectors;

/// The most ticks of a service.
pub(super) const TIMEOUT: u64 = 125;
/// Ticks for which the disk is kept idle.
pub(super) const IDLE: u64 = 8;
/// How often an asynchronous sector counts.
pub(super) const ASYNC_CHARGE: u64 = 3;

/// A queue: a process's, or that of all asynchronous requests.
pub(super) type Key = Option<ProcessId>;

pub(super) fn key(request: &Request) -> Key {
    request.synchronous.then_some(request.pid)
}

/// The charge of a request.
pub(super) fn charge(request: &Request) -> Sectors {
    request.range.len() * if request.synchronous { 1 } else { ASYNC_CHARGE }
}
