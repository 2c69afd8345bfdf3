//! A disk: controller, queue, buffer and mechanics as one event machine.
//!
//! A command takes its overhead in the controller, one after the other, while the head is busy with earlier
//! ones; then it is *ready*. A ready read whose data are in the buffer is answered over the bus at once. The
//! others wait for the head. Whenever the head is free the queue chooses among them (see [`crate::queue`]).
//! The access is then planned to its end, since angle, arm and layout determine it. Reads pass over the bus
//! while they come off the media, and finish when both are done. The head is free for the next access when
//! the media's part is over: neither overhead nor bus costs a revolution while requests are queued.
//!
//! A read ahead of the stream (see [`crate::segments`]) is answered by continuing the stream, if moving the
//! head is not faster. `skip` is the time that some firmware spends on such a read when it leaves a gap; the
//! stream continues meanwhile. (ATC'09 section 3.3: on one firmware reading a gap of up to 32 KB was faster
//! than skipping it; on the next there was no difference.)
//!
//! Writes go through to the media before they finish, unless the drive caches writes (see [`cache`]); a flush
//! waits for the writes before it. Reads of an unreadable sector fail after [`RECOVERY_ROTATIONS`]; writes to it
//! succeed and do not repair it. While the buffer has the written data, a read is answered out of it.

mod access;
mod cache;
mod cached;

use crate::controller::Controller;
use crate::geometry::TrackAddress;
use crate::io::{Counters, Finished, Io, Op, Outcome};
use crate::machine::{Clock, Machine};
use crate::mechanics::Mechanics;
use crate::queue::{Choice, PASSED_OVER_LIMIT, Queue, Waiting, choose};
use crate::segments::{Buffer, Held};
use cached::Cached;
use foreseek_units::{Instant, Lba, Nanos, Rate, SectorSpan, Sectors};

/// Revolutions that a disk spends on an unreadable sector before it reports an error. Desktop disks try for
/// seconds; ten revolutions are enough to be visible in a latency plot and short enough for tests.
pub const RECOVERY_ROTATIONS: u64 = 10;

/// The parts of a disk, in the units of the model.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) mechanics: Mechanics,
    pub(crate) buffer: Buffer,
    pub(crate) controller: Controller,
    /// The time for a read that the stream answers across a gap.
    pub(crate) skip: Nanos,
    pub(crate) bus: Rate,
    pub(crate) queue: Queue,
    pub(crate) depth: usize,
    pub(crate) capacity: Sectors,
    /// Sorted and disjoint.
    pub(crate) unreadable: Vec<SectorSpan>,
}

/// A disk.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    parts: Parts,
    clock: Clock,
    sequence: u64,
    /// The number of requests that the head has begun to serve.
    served: u64,
    waiting: Vec<Waiting>,
    leaving: Vec<Leaving>,
    controller_free: Instant,
    head_free: Instant,
    bus_free: Instant,
    /// When the last write that was begun will be on the media.
    written_at: Instant,
    /// The track under the head while there is no stream.
    head: TrackAddress,
    /// The contents of the cache that are not on the media yet.
    cached: Cached,
    /// The command before.
    previous: Op,
    /// End of the last request that came off or went to the media.
    last_end: Lba,
    busy_since: Instant,
    last_arrival: Instant,
    counters: Counters,
}

/// A request whose end is determined.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    at: Instant,
    sequence: u64,
    arrived: Instant,
    io: Io,
    outcome: Outcome,
}

impl Disk {
    pub(crate) fn new(parts: Parts) -> Self {
        let depth = parts.depth;
        Self {
            parts,
            clock: Clock::default(),
            sequence: 0,
            served: 0,
            waiting: Vec::with_capacity(depth),
            cached: Cached::default(),
            previous: Op::Read,
            leaving: Vec::with_capacity(depth),
            controller_free: Instant::ZERO,
            head_free: Instant::ZERO,
            bus_free: Instant::ZERO,
            written_at: Instant::ZERO,
            head: TrackAddress::default(),
            last_end: Lba::ZERO,
            busy_since: Instant::ZERO,
            last_arrival: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|one| one.at);
        let waiting = self.waiting.iter().filter_map(|one| match () {
            () if !one.seen => Some(one.ready),
            () if one.wants_head() => Some(self.head_free.max(self.clock.now())),
            () => None,
        });
        leaving.chain(waiting).min()
    }

    fn complete(&mut self, now: Instant, done: &mut Vec<Finished>) {
        loop {
            let due = self.leaving.iter().enumerate().filter(|(_, one)| one.at <= now);
            let Some((at, _)) = due.min_by_key(|(_, one)| (one.at, one.sequence)) else { break };
            let one = self.leaving.swap_remove(at);
            self.account(&one);
            done.push(Finished { id: one.io.id, at: one.at, outcome: one.outcome });
        }
    }

    fn account(&mut self, one: &Leaving) {
        self.counters.count(one.io, one.outcome);
        self.end_busy(one.at);
    }

    /// Ends the busy time at `now` if all remaining requests arrive later.
    fn end_busy(&mut self, now: Instant) {
        if !self.is_idle() && self.last_arrival <= now {
            return;
        }
        let waiting = self.waiting.iter().filter(|one| !one.cached).map(|one| one.arrived);
        let next = waiting.chain(self.leaving.iter().map(|one| one.arrived)).min();
        if next.is_none_or(|next| next > now) {
            self.counters.busy += now - self.busy_since;
            self.busy_since = next.unwrap_or(now);
        }
    }

    /// Whether the host waits for nothing.
    fn is_idle(&self) -> bool {
        self.waiting.len() == self.cached.requests() && self.leaving.is_empty()
    }

    /// Handles commands that have become ready: some need no head.
    fn look_at_ready(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.waiting.len() {
            let one = self.waiting[at];
            if one.seen || one.ready > now {
                at += 1;
                continue;
            }
            self.waiting[at].seen = true;
            let finished = match one.io.op {
                Op::Flush => false,
                _ if one.io.range.is_empty() => {
                    self.leave(&one, now, Outcome::Done);
                    true
                }
                _ if one.io.range.end.get() > self.parts.capacity.get() => {
                    self.leave(&one, now, Outcome::Failed);
                    true
                }
                Op::Read if self.parts.queue != Queue::Fifo => self.answer_from_buffer(&one, now),
                Op::Write => {
                    self.cache_write(at, now);
                    false
                }
                _ => false,
            };
            if finished {
                self.waiting.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Answers a read whose data are in the buffer, unless the firmware needs time for it.
    fn answer_from_buffer(&mut self, one: &Waiting, now: Instant) -> bool {
        let (held, streamed) = self.held(now, one.io.range);
        if held != Held::All || (streamed && self.skips(one.io.range)) {
            return false;
        }
        self.hit(one, now, now, streamed);
        true
    }

    fn hit(&mut self, one: &Waiting, now: Instant, from: Instant, streamed: bool) {
        self.counters.buffer_hits += 1;
        let at = self.over_bus(from, one.io.range);
        self.leave(one, at, Outcome::Done);
        if streamed {
            self.last_end = one.io.range.end;
            self.consume(now, one.io.range.end);
        }
    }

    /// Lets the head serve one waiting request, if there is one. Returns whether it did.
    fn serve_next(&mut self, now: Instant) -> bool {
        let head = self.head_at(now);
        let streamed = self.parts.buffer.streamed(&self.parts.mechanics.geometry, now);
        let geometry = &self.parts.mechanics.geometry;
        let choice = Choice {
            queue: self.parts.queue,
            served: self.served,
            pass_over: PASSED_OVER_LIMIT * self.parts.depth as u64,
            behind: geometry.passed_at(self.last_end),
            rotation_period: geometry.rotation_period(),
            destage: self.may_destage(),
        };
        let chosen = choose(choice, &self.waiting, |one| self.cost(head, streamed, now, one));
        let Some(at) = chosen else { return false };
        self.served += 1;
        let one = self.waiting.swap_remove(at);
        match one.io.op {
            Op::Write => self.write(&one, head, now),
            _ => self.read(&one, head, now),
        }
        true
    }

    /// Puts a range on the bus, not before `from`; returns the end.
    fn over_bus(&mut self, from: Instant, range: SectorSpan) -> Instant {
        self.bus_free = self.bus_free.max(from) + self.parts.bus.time_for(range.len().bytes());
        self.bus_free
    }

    fn leave(&mut self, one: &Waiting, at: Instant, outcome: Outcome) {
        let Waiting { io, sequence, arrived, .. } = *one;
        let at = if outcome == Outcome::Done {
            at + self.parts.controller.overheads.completion(io.op)
        } else {
            at
        };
        self.leaving.push(Leaving { at, sequence, arrived, io, outcome });
    }

    /// Completes flushes before which no write waits.
    fn release_flushes(&mut self, now: Instant) {
        loop {
            let writes = self.waiting.iter().filter(|one| one.io.op == Op::Write);
            let first_write = writes.map(|one| one.sequence).min().unwrap_or(u64::MAX);
            let due = |one: &Waiting| one.seen && one.io.op == Op::Flush && one.sequence < first_write;
            let Some(at) = self.waiting.iter().position(due) else { return };
            let one = self.waiting.swap_remove(at);
            self.leave(&one, self.written_at.max(now), Outcome::Done);
        }
    }
}

impl Machine for Disk {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Completions, newly ready commands, the head's next access.
    fn step(&mut self, now: Instant, done: &mut Vec<Finished>) -> Option<Instant> {
        self.complete(now, done);
        self.note_destaged(now);
        self.look_at_ready(now);
        while self.head_free <= now && self.serve_next(now) {}
        self.release_flushes(now);
        self.next_event()
    }

    fn is_full(&self) -> bool {
        self.waiting.len() - self.cached.requests() + self.leaving.len() >= self.parts.depth
    }

    fn arrive(&mut self, now: Instant, io: Io) {
        if self.is_idle() {
            self.busy_since = now;
        }
        self.last_arrival = now;
        let ready = self.controller_free.max(now) + self.overhead(now, io);
        self.controller_free = ready;
        let geometry = &self.parts.mechanics.geometry;
        // A request out of range fails later; until then it must only be within the zones.
        let start = io.range.start.min(Lba(self.parts.capacity.get() - 1));
        let (address, passes) = geometry.locate(start);
        self.sequence += 1;
        let sequence = self.sequence;
        self.waiting.push(Waiting {
            io,
            sequence,
            arrived: now,
            served_before: self.served,
            ready,
            seen: false,
            address,
            passes,
            cached: false,
        });
        self.clock.wake(ready);
    }

    fn sectors(&self) -> Sectors {
        self.parts.capacity
    }

    fn counted(&self) -> Counters {
        let mut counters = self.counters;
        if !self.is_idle() {
            counters.busy += self.clock.now() - self.busy_since;
        }
        counters
    }
}
