//! C-SCAN and C-LOOK: ascending from the end of the last request, then back to the lowest.
//!
//! The two differ in how far the arm goes before it returns: C-SCAN to the last cylinder, C-LOOK to the last
//! request. A kernel moves the arm only for requests, so that their order is the same; the registry knows both
//! names. There is no limit to how long a request waits: many that come just ahead of the head delay those
//! behind it.

use super::contract::Scheduler;
use super::queue::RequestQueue;
use crate::block::{Request, RequestId};
use foreseek_units::{Instant, Lba, SectorSpan};

/// Ascending, then back to the lowest.
#[derive(Clone, Debug, Default)]
pub struct Cscan {
    queue: RequestQueue,
    head: Lba,
}

impl Scheduler for Cscan {
    fn add(&mut self, _now: Instant, request: Request) {
        self.queue.insert(request, u64::MAX);
    }

    fn grown(&mut self, _now: Instant, id: RequestId, range: SectorSpan) {
        self.queue.grow(id, range);
    }

    fn absorbed(&mut self, _now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan) {
        self.queue.absorb(kept, gone, range);
    }

    fn dispatch(&mut self, _now: Instant) -> Option<Request> {
        let id = self.queue.ascending(self.head)?.request.id;
        let request = self.queue.remove(id)?.request;
        self.head = request.range.end;
        Some(request)
    }

    fn completed(&mut self, _now: Instant, _request: &Request, _whole: bool) {}

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
