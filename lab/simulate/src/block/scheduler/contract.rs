//! What a scheduler is told and what it is asked.

use crate::block::metrics::Anticipations;
use crate::block::request::{Request, RequestId};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, SectorSpan};

/// An I/O scheduler: a queue that may hold requests back although the device is idle.
///
/// The rules of each implementation are in its own file. All of them are deterministic. The block
/// layer finds what can be merged and tells the scheduler about it.
pub trait Scheduler: Send {
    /// A request arrives.
    fn add(&mut self, now: Instant, request: Request);
    /// Whether the waiting request `id` may grow by `with`, its neighbour of the same kind. Where
    /// both wait, both are asked about each other.
    fn may_merge(&self, _id: RequestId, _with: &Request) -> bool {
        true
    }
    /// The waiting request `id` covers this range from now on.
    fn grown(&mut self, now: Instant, id: RequestId, range: SectorSpan);
    /// The waiting request `gone` has become part of `kept`, which covers this range from now on.
    fn absorbed(&mut self, now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan);
    /// The next request for the device, if it is to get one now.
    fn dispatch(&mut self, now: Instant) -> Option<Request>;
    /// A request that was dispatched is over; `whole` tells whether the submissions that it was part
    /// of are, with all of their pieces.
    fn completed(&mut self, now: Instant, request: &Request, whole: bool);
    /// A process has ended.
    fn exited(&mut self, _now: Instant, _who: ProcessId) {}
    /// When `dispatch` may give what it refuses now (the end of an anticipation, of an idle slice).
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// How many requests wait.
    fn waiting(&self) -> usize;
    /// Whether it holds the device for this process's next request: such a request is let in even
    /// where the pool is empty.
    fn awaits(&self, _who: ProcessId) -> bool {
        false
    }
    /// How its anticipations have ended so far, if it makes any.
    fn anticipations(&self) -> Anticipations {
        Anticipations::default()
    }
}
