//! The interface of a scheduler.

use crate::block::metrics::Anticipations;
use crate::block::request::{Request, RequestId};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, SectorSpan};

/// An I/O scheduler: a queue that may defer requests although the device is idle.
///
/// The rules of each implementation are in its own file. All of them are deterministic. The block layer finds
/// requests that can be merged and reports merges to the scheduler.
pub trait Scheduler: Send {
    /// A request arrives.
    fn add(&mut self, now: Instant, request: Request);
    /// Whether the waiting request `id` may be merged with `with`, its neighbour of the same kind. If both
    /// wait, the question is asked for both.
    fn may_merge(&self, _id: RequestId, _with: &Request) -> bool {
        true
    }
    /// The waiting request `id` covers this range from now on.
    fn grown(&mut self, now: Instant, id: RequestId, range: SectorSpan);
    /// The waiting request `gone` has become part of `kept`, which covers this range from now on.
    fn absorbed(&mut self, now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan);
    /// The next request for the device, if it is to get one now.
    fn dispatch(&mut self, now: Instant) -> Option<Request>;
    /// A dispatched request is complete; `whole` says whether the submissions that it belongs to are, with all
    /// of their pieces.
    fn completed(&mut self, now: Instant, request: &Request, whole: bool);
    /// A process has ended.
    fn exited(&mut self, _now: Instant, _who: ProcessId) {}
    /// When `dispatch` may return a request that it defers now (the end of an anticipation or of an idle
    /// slice).
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// How many requests wait.
    fn waiting(&self) -> usize;
    /// Whether it keeps the device idle for this process's next request: such a request is taken even if the
    /// pool is empty.
    fn awaits(&self, _who: ProcessId) -> bool {
        false
    }
    /// How its anticipations have ended so far, if it makes any.
    fn anticipations(&self) -> Anticipations {
        Anticipations::default()
    }
}
