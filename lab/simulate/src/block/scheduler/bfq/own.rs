//! The queue of one process.

use super::super::habits::Mean;
use super::super::queue::RequestQueue;
use super::fair::Stamps;
use super::rate::SEEK;
use super::rules::{IDLE, Key, charge};
use crate::block::Request;
use foreseek_units::{Lba, Sectors};

/// With more than this many of the last 32 requests far from the one before, the process seeks.
const SEEKY: u32 = 19;

/// The queue of a process, or of all asynchronous requests.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) queue: RequestQueue,
    pub(super) in_device: usize,
    pub(super) running: bool,
    /// Its budget.
    pub(super) most: Sectors,
    /// Its budget for this service: at least its next request.
    pub(super) budget: Sectors,
    /// Its stamps while it waits to be served.
    pub(super) stamps: Option<Stamps>,
    /// The end of its last service on the virtual clock.
    pub(super) finish: u64,
    last_end: u64,
    position: Lba,
    think: Mean,
    /// A bit for each of the last 32 requests: whether it was far from the one before.
    seeks: u32,
}

impl Own {
    /// A queue that begins with two thirds of the largest budget.
    pub(super) fn new(tick: u64, largest: Sectors) -> Self {
        let most = largest * 2 / 3;
        Self {
            queue: RequestQueue::default(),
            in_device: 0,
            running: true,
            most,
            budget: most,
            stamps: None,
            finish: 0,
            last_end: tick,
            position: Lba::ZERO,
            think: Mean::default(),
            seeks: 0,
        }
    }

    pub(super) fn asks(&mut self, tick: u64, request: &Request) {
        self.think.think((tick - self.last_end).min(2 * IDLE));
        let far = self.position.distance(request.range.start) > SEEK;
        self.seeks = self.seeks << 1 | u32::from(far);
        self.position = request.range.end;
    }

    pub(super) fn over(&mut self, tick: u64) {
        self.in_device -= 1;
        self.last_end = tick;
    }

    pub(super) fn seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKY
    }

    /// Whether it pays to keep the disk idle for it. On a device that orders requests itself, only for a
    /// process that reads sequentially and soon.
    pub(super) fn idles(&self, key: Key, tagged: bool) -> bool {
        let soon = self.think.get().is_none_or(|mean| mean <= IDLE);
        key.is_some() && self.running && (!tagged || (soon && !self.seeky()))
    }

    /// Sets its budget for the next service.
    pub(super) fn refill(&mut self, head: Lba, back: Sectors) {
        let next = self.queue.elevator(head, back).map_or(Sectors::ZERO, |entry| charge(&entry.request));
        self.budget = self.most.max(next);
    }

    /// Whether nothing is left of a process that has ended.
    pub(super) fn gone(&self, key: Key) -> bool {
        key.is_some() && !self.running && self.queue.is_empty() && self.in_device == 0
    }
}
