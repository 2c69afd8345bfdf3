//! The write cache: for the host, writes are done as soon as their data are in the buffer.
//!
//! A cached write stays in the queue. It goes to the media when no request of the host needs the head, when a
//! flush waits for it, or when the cache is full; the nearest goes first, as always. The cache counts ranges,
//! since a segment holds one contiguous range: adjacent writes share one. A write without room waits, and is
//! accepted when an earlier one is on the media. A read that cached writes cover is answered from the buffer.
//!
//! Limits: a read that they cover in part goes to the media for all of it; the loss of cached data on a power
//! failure is not modelled.

use super::Disk;
use crate::controller::Overheads;
use crate::io::{Io, Op, Outcome};
use crate::queue::{Queue, Waiting};
use crate::segments::Held;
use foreseek_units::{Instant, Nanos, SectorSpan};

impl Disk {
    /// The time in the controller for a command that arrives now.
    pub(super) fn overhead(&mut self, now: Instant, io: Io) -> Nanos {
        let overheads = self.parts.controller.overheads;
        let previous = self.previous;
        if io.op != Op::Flush {
            self.previous = io.op;
        }
        if let Overheads::Uniform(time) = overheads {
            return time;
        }
        let hit = match io.op {
            Op::Read => self.held(now, io.range).0 == Held::All,
            Op::Write => self.parts.controller.write_cache.ranges > 0,
            Op::Flush => false,
        };
        overheads.before(io.op, hit, previous)
    }

    /// The part of a range in the buffer, including cached writes, and whether it is the stream's.
    pub(super) fn held(&self, now: Instant, range: SectorSpan) -> (Held, bool) {
        let (held, streamed) = self.parts.buffer.held(&self.parts.mechanics.geometry, now, range);
        if held != Held::All && self.cached.covers(range) { (Held::All, false) } else { (held, streamed) }
    }

    /// Moves a write that has become ready into the cache, if there is room.
    pub(super) fn cache_write(&mut self, at: usize, now: Instant) {
        let limit = self.parts.controller.write_cache;
        let one = self.waiting[at];
        if limit.ranges == 0 || one.cached || !self.may_overtake(&one) {
            return;
        }
        let range = one.io.range;
        let room = self.cached.ranges.len() < limit.ranges || self.cached.adjoining(range).is_some();
        if !room || self.cached.sectors + range.len() > limit.sectors {
            return;
        }
        self.cached.add(range);
        self.waiting[at].cached = true;
        let done = self.over_bus(now, range);
        self.leave(&one, done, Outcome::Done);
    }

    /// Whether a request may finish before earlier ones.
    fn may_overtake(&self, one: &Waiting) -> bool {
        let earlier = |other: &Waiting| !other.cached && other.sequence < one.sequence;
        self.parts.queue != Queue::Fifo || !self.waiting.iter().any(earlier)
    }

    /// Whether cached writes may go to the media now.
    pub(super) fn may_destage(&self) -> bool {
        if self.cached.requests == 0 {
            return true;
        }
        let host = || self.waiting.iter().filter(|one| !one.cached && one.seen);
        // A flush waits for cached writes, a write for room in the cache; only reads go before them.
        host().any(|one| one.io.op != Op::Read) || host().next().is_none()
    }

    /// A cached write goes to the media.
    pub(super) fn destage(&mut self, one: &Waiting) {
        self.cached.requests -= 1;
        self.cached.leaving = Some(one.io.range);
    }

    /// Frees the room of a write that has reached the media, and accepts writes that waited for it.
    pub(super) fn note_destaged(&mut self, now: Instant) {
        if self.head_free > now {
            return;
        }
        let Some(range) = self.cached.leaving.take() else { return };
        self.cached.remove(range);
        let waits = |one: &Waiting| one.seen && one.io.op == Op::Write && !one.cached;
        let mut before = None;
        loop {
            let next =
                self.waiting.iter().enumerate().filter(|(_, one)| waits(one) && Some(one.sequence) > before);
            let Some((at, sequence)) = next.map(|(at, one)| (at, one.sequence)).min_by_key(|(_, one)| *one)
            else {
                return;
            };
            self.cache_write(at, now);
            before = Some(sequence);
        }
    }
}
