//! No scheduler: requests leave in the order in which they came, merged with their neighbours.

use super::contract::Scheduler;
use crate::block::{Request, RequestId};
use foreseek_units::{Instant, SectorSpan};
use std::collections::VecDeque;

/// First come, first served.
#[derive(Clone, Debug, Default)]
pub struct Noop {
    queue: VecDeque<Request>,
}

impl Scheduler for Noop {
    fn add(&mut self, _now: Instant, request: Request) {
        self.queue.push_back(request);
    }

    fn grown(&mut self, _now: Instant, id: RequestId, range: SectorSpan) {
        // The neighbour of a new request is nearly always the last one.
        if let Some(one) = self.queue.iter_mut().rev().find(|one| one.id == id) {
            one.range = range;
        }
    }

    fn absorbed(&mut self, now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan) {
        self.queue.retain(|one| one.id != gone);
        self.grown(now, kept, range);
    }

    fn dispatch(&mut self, _now: Instant) -> Option<Request> {
        self.queue.pop_front()
    }

    fn completed(&mut self, _now: Instant, _request: &Request, _whole: bool) {}

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
