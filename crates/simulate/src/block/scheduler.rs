//! Which request the device gets next.

use super::Request;
use foreseek_device::Op;
use foreseek_prefetch::engine::Who;
use foreseek_units::{Instant, SectorSpan};

/// An I/O scheduler: a queue that may hold requests back although the device is idle.
///
/// The rules of each implementation are in its own file. All of them are deterministic.
pub trait Scheduler: Send {
    /// A request arrives.
    fn add(&mut self, now: Instant, request: Request);
    /// A request that waits here and that ends where `range` begins or begins where it ends, of the
    /// same kind: the block layer merges with it and tells [`Scheduler::grown`].
    fn neighbour(&self, op: Op, range: SectorSpan) -> Option<u64>;
    /// The waiting request `id` now covers this range.
    fn grown(&mut self, id: u64, range: SectorSpan);
    /// The next request for the device, if it is to get one now.
    fn dispatch(&mut self, now: Instant) -> Option<Request>;
    /// A request that was dispatched is over, with all of its pieces.
    fn completed(&mut self, now: Instant, request: &Request);
    /// A process has ended.
    fn exited(&mut self, now: Instant, who: Who);
    /// When `dispatch` may give what it refuses now (the end of an anticipation, of an idle slice).
    fn deadline(&self) -> Option<Instant>;
    /// How many requests wait.
    fn waiting(&self) -> usize;
}
