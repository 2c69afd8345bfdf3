//! The deadline schedulers: ascending in batches, with a limit to how long a request waits.
//!
//! Reads and writes have queues of their own. A batch continues in ascending order in one direction. When it
//! ends, reads come before writes unless writes have been passed over twice. A new batch first checks whether
//! the oldest request of its direction has waited too long.
//!
//! [`Rules::Linux2_6`] (`deadline`, Linux 2.6): a batch continues only with requests that follow one another
//! without a gap. After a gap the choice is made again for each request: the next one in ascending order, or
//! the lowest if there is none or the other direction was served meanwhile. The next request is recorded at the
//! dispatch of the one before: a nearer one that comes later is not considered. [`Rules::MultiQueue`]
//! (`mq-deadline`, Linux 4.11 to 6.x): up to 16 requests in ascending order with gaps. Each direction remembers
//! its position; if nothing lies ahead, the oldest is next.

use super::contract::Scheduler;
use super::queue::{RequestQueue, WaitingRequest, ticks};
use crate::block::{Request, RequestId};
use foreseek_device::Op;
use foreseek_units::{Instant, Lba, SectorSpan};

/// Ticks after which a read and a write have waited too long: half a second for reads, for which a process
/// waits; five seconds for writes.
const EXPIRE: [u64; 2] = [500, 5000];
/// How often writes may be passed over for reads.
const WRITES_STARVED: u32 = 2;
/// Requests of a batch: sequential transfers worth some seeks between two checks of the oldest.
const BATCH: u32 = 16;

const READ: usize = 0;
const WRITE: usize = 1;

/// The variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// `deadline` of Linux 2.6.
    Linux2_6,
    /// `mq-deadline` of today's kernels.
    MultiQueue,
}

/// A deadline scheduler.
#[derive(Clone, Debug)]
pub struct Deadline {
    rules: Rules,
    queues: [RequestQueue; 2],
    /// Linux 2.6: the next request of the batch, recorded at the dispatch before it.
    next: Option<RequestId>,
    /// Today's: the position of each direction.
    at: [Option<Lba>; 2],
    /// The direction of the batch.
    side: usize,
    /// Requests of the batch so far.
    batch: u32,
    /// The end of the last request.
    head: Lba,
    /// How often writes have been passed over.
    starved: u32,
}

impl Deadline {
    /// A scheduler with an empty queue.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            queues: [RequestQueue::default(), RequestQueue::default()],
            next: None,
            at: [None; 2],
            side: READ,
            batch: 0,
            head: Lba::ZERO,
            starved: 0,
        }
    }

    fn next_of(&self, side: usize) -> Option<&WaitingRequest> {
        match self.rules {
            Rules::Linux2_6 if side == self.side => self.queues[side].get(self.next?),
            Rules::Linux2_6 => None,
            Rules::MultiQueue => self.queues[side].ahead(self.at[side]?),
        }
    }

    /// The next request of the batch, if it may continue.
    fn of_batch(&mut self) -> Option<RequestId> {
        let next = self.next_of(self.side)?.request;
        if self.rules == Rules::Linux2_6 && next.range.start != self.head {
            self.batch = self.batch.saturating_add(BATCH);
        }
        (self.batch < BATCH).then_some(next.id)
    }

    /// The direction of the next batch: reads first, but not for ever.
    fn turn(&mut self) -> Option<usize> {
        let (reads, writes) = (!self.queues[READ].is_empty(), !self.queues[WRITE].is_empty());
        if reads {
            if writes && self.starved >= WRITES_STARVED {
                self.starved = 0;
                return Some(WRITE);
            }
            self.starved += u32::from(writes);
            return Some(READ);
        }
        self.starved = 0;
        writes.then_some(WRITE)
    }

    /// The first request of a batch, or the next one after a gap.
    fn begin(&mut self, now: Instant) -> Option<RequestId> {
        let side = self.turn()?;
        let queue = &self.queues[side];
        let (oldest, next) = (queue.oldest()?, self.next_of(side));
        let expired = ticks(now) > oldest.expires;
        let chosen = match (self.rules, next) {
            // This is no new batch: the oldest request is checked again before the next one.
            (Rules::Linux2_6, Some(next)) if !expired => (next, self.batch),
            (Rules::MultiQueue, Some(next)) if !expired => (next, 0),
            (Rules::Linux2_6, None) if !expired => (queue.lowest()?, 0),
            _ => (oldest, 0),
        };
        let id = chosen.0.request.id;
        (self.side, self.batch) = (side, chosen.1);
        Some(id)
    }
}

fn side(op: Op) -> usize {
    if op == Op::Read { READ } else { WRITE }
}

impl Scheduler for Deadline {
    fn add(&mut self, now: Instant, request: Request) {
        let side = side(request.op);
        self.queues[side].insert(request, ticks(now) + EXPIRE[side]);
    }

    fn grown(&mut self, _now: Instant, id: RequestId, range: SectorSpan) {
        let _ = self.queues[READ].grow(id, range) || self.queues[WRITE].grow(id, range);
    }

    fn absorbed(&mut self, _now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan) {
        let side = if self.queues[READ].get(kept).is_some() { READ } else { WRITE };
        self.queues[side].absorb(kept, gone, range);
        if self.next == Some(gone) {
            self.next = self.queues[side].ahead(range.end).map(|entry| entry.request.id);
        }
    }

    fn dispatch(&mut self, now: Instant) -> Option<Request> {
        let id = match self.of_batch() {
            Some(id) => id,
            None => self.begin(now)?,
        };
        let queue = &mut self.queues[self.side];
        let request = queue.remove(id)?.request;
        self.batch = self.batch.saturating_add(1);
        self.head = request.range.end;
        self.at[self.side] = Some(self.head);
        self.next = queue.ahead(request.range.start).map(|entry| entry.request.id);
        Some(request)
    }

    fn completed(&mut self, _now: Instant, _request: &Request, _whole: bool) {}

    fn waiting(&self) -> usize {
        self.queues[READ].len() + self.queues[WRITE].len()
    }
}
