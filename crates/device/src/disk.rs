//! A disk: controller, queue, buffer and mechanics as one event machine.
//!
//! A command takes its overhead in the controller, one after the other, while the head is busy with
//! earlier ones; then it is *ready*. A ready read whose data the buffer holds is answered over the
//! bus at once. The others wait for the head. Whenever the head is free the queue chooses among
//! them (see [`crate::queue`]): the access is planned to its end there and then, since angle, arm
//! and layout determine it. Reads go over the bus while they come off the media and leave when both
//! are done; the head is free for the next access when the media's part is over, so that neither
//! overhead nor bus costs a turn while requests are queued.
//!
//! A read that lies ahead of the stream (see [`crate::segments`]) is answered by letting the stream
//! go on, if moving the head is not faster. `skip` is the time that some firmware spends on such a
//! read when it leaves a gap; the stream goes on meanwhile (ATC'09 section 3.3: reading a gap of up
//! to 32 KB was faster than skipping it on one firmware and made no difference on the next).
//!
//! Writes go through to the media before they finish; a flush waits for the writes before it.
//! Reads of an unreadable sector fail after [`RECOVERY_TURNS`]; writes to it succeed and do not
//! cure it.

use crate::geometry::Place;
use crate::io::{Counters, Device, Finished, Full, Io, Op, Outcome};
use crate::mechanics::{Mechanics, Positioning};
use crate::queue::{Choice, PASSED_OVER_LIMIT, Queue, Waiting, choose};
use crate::segments::{Buffer, Held};
use foreseek_units::{Instant, Lba, Nanos, Rate, SectorSpan, Sectors};

/// Revolutions that a disk spends on a sector that it cannot read before it gives up. Desktop disks
/// try for seconds; ten turns are enough to be seen in a latency plot and short enough for tests.
pub const RECOVERY_TURNS: u64 = 10;

/// Everything that makes a disk, in the units of the model.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) mechanics: Mechanics,
    pub(crate) buffer: Buffer,
    /// Time in the controller for each command.
    pub(crate) overhead: Nanos,
    /// Time for a read that the stream answers across a gap.
    pub(crate) skip: Nanos,
    pub(crate) bus: Rate,
    pub(crate) queue: Queue,
    pub(crate) depth: usize,
    pub(crate) capacity: Sectors,
    /// Sorted, apart from one another.
    pub(crate) unreadable: Vec<SectorSpan>,
}

/// A disk.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    parts: Parts,
    clock: Instant,
    sequence: u64,
    /// Requests that the head has begun to serve.
    served: u64,
    waiting: Vec<Waiting>,
    leaving: Vec<Leaving>,
    next: Option<Instant>,
    controller_free: Instant,
    head_free: Instant,
    bus_free: Instant,
    /// When the last write that was begun is on the media.
    written_at: Instant,
    /// The track under the head while there is no stream.
    head: Place,
    /// End of the last request that came off or went to the media.
    last_end: Lba,
    busy_since: Instant,
    last_arrival: Instant,
    counters: Counters,
}

/// A request whose end is certain.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    at: Instant,
    sequence: u64,
    arrived: Instant,
    io: Io,
    outcome: Outcome,
}

/// How the head will serve a read.
#[derive(Clone, Copy, Debug)]
struct MediaRead {
    /// From when on data go over the bus.
    first: Instant,
    /// When the head is free.
    end: Instant,
    outcome: Outcome,
}

impl Disk {
    pub(crate) fn new(parts: Parts) -> Self {
        let depth = parts.depth;
        Self {
            parts,
            clock: Instant::ZERO,
            sequence: 0,
            served: 0,
            waiting: Vec::with_capacity(depth),
            leaving: Vec::with_capacity(depth),
            next: None,
            controller_free: Instant::ZERO,
            head_free: Instant::ZERO,
            bus_free: Instant::ZERO,
            written_at: Instant::ZERO,
            head: Place::default(),
            last_end: Lba::ZERO,
            busy_since: Instant::ZERO,
            last_arrival: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    /// Does what happens at `now`: completions, newly ready commands, the head's next access.
    fn step(&mut self, now: Instant, done: &mut Vec<Finished>) {
        self.complete(now, done);
        self.look_at_ready(now);
        while self.head_free <= now && self.serve_next(now) {}
        self.release_flushes(now);
        self.next = self.next_event();
    }

    fn next_event(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|one| one.at);
        let waiting = self.waiting.iter().filter_map(|one| match () {
            () if !one.seen => Some(one.ready),
            () if one.wants_head() => Some(self.head_free.max(self.clock)),
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
        self.counters.requests += 1;
        match (one.outcome, one.io.op) {
            (Outcome::Failed, _) => self.counters.failed += 1,
            (Outcome::Done, Op::Read) => self.counters.read += one.io.range.len().bytes(),
            (Outcome::Done, Op::Write) => self.counters.written += one.io.range.len().bytes(),
            (Outcome::Done, Op::Flush) => {}
        }
        self.end_busy(one.at);
    }

    /// Ends the busy time at `now` if all requests that are left arrive later.
    fn end_busy(&mut self, now: Instant) {
        let empty = self.waiting.is_empty() && self.leaving.is_empty();
        if !empty && self.last_arrival <= now {
            return;
        }
        let waiting = self.waiting.iter().map(|one| one.arrived);
        let next = waiting.chain(self.leaving.iter().map(|one| one.arrived)).min();
        if next.is_none_or(|next| next > now) {
            self.counters.busy += now - self.busy_since;
            self.busy_since = next.unwrap_or(now);
        }
    }

    /// Looks at commands that have become ready: some need no head.
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
                Op::Read if self.parts.queue == Queue::Sptf => self.answer_from_buffer(&one, now),
                _ => false,
            };
            if finished {
                self.waiting.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Answers a read whose data are held, unless the firmware takes its time over it.
    fn answer_from_buffer(&mut self, one: &Waiting, now: Instant) -> bool {
        let (held, streamed) = self.parts.buffer.held(&self.parts.mechanics.geometry, now, one.io.range);
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

    /// Whether a read that the stream answers leaves a gap over which the firmware takes its time.
    fn skips(&self, range: SectorSpan) -> bool {
        !self.parts.skip.is_zero()
            && self.parts.buffer.stream().is_some_and(|stream| range.start != stream.consumed())
    }

    /// When the firmware is done with a read across a gap: it works on one at a time, from the end of
    /// the request before on.
    fn skipped_at(&self, one: &Waiting) -> Instant {
        one.arrived.max(self.head_free) + self.parts.skip
    }

    /// Moves the stream's limit on, and lets it resume if it had stopped.
    fn consume(&mut self, now: Instant, end: Lba) {
        let limit = self.read_ahead_limit(end);
        let geometry = &self.parts.mechanics.geometry;
        let Some(stream) = self.parts.buffer.stream() else { return };
        let stopped = stream.limit();
        let full = self.head_free <= now && stream.reached(geometry, now) >= stopped;
        if !full {
            self.parts.buffer.consume(end, limit);
        } else if limit > stopped && self.parts.buffer.worth_resuming(limit - stopped) {
            let head = self.parts.mechanics.place_before(stopped);
            let began = now + self.position(head, now, stopped).total();
            let geometry = &self.parts.mechanics.geometry;
            self.parts.buffer.end(geometry, now);
            self.parts.buffer.begin(geometry, began, stopped, end, limit);
        } else {
            self.parts.buffer.consume(end, stopped);
        }
    }

    /// How far to read on behind a request: until the segment is full, not over an unreadable
    /// sector.
    fn read_ahead_limit(&self, end: Lba) -> Lba {
        let limit = self.parts.buffer.reach(end).min(Lba(self.parts.capacity.get()));
        let next = self.parts.unreadable.partition_point(|span| span.end <= end);
        self.parts.unreadable.get(next).map_or(limit, |span| limit.min(span.start.max(end)))
    }

    /// Lets the head serve one request, if one waits for it. Answers whether it did.
    fn serve_next(&mut self, now: Instant) -> bool {
        let head = self.head_at(now);
        let streamed = self.parts.buffer.streamed(&self.parts.mechanics.geometry, now);
        let geometry = &self.parts.mechanics.geometry;
        let choice = Choice {
            queue: self.parts.queue,
            served: self.served,
            pass_over: PASSED_OVER_LIMIT * self.parts.depth as u64,
            behind: geometry.passed_at(self.last_end),
            turn: geometry.turn(),
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

    /// The track under the head.
    fn head_at(&self, now: Instant) -> Place {
        let Some(stream) = self.parts.buffer.stream() else { return self.head };
        let geometry = &self.parts.mechanics.geometry;
        let reached = stream.reached(geometry, now);
        if reached >= stream.limit() {
            return self.parts.mechanics.place_before(reached);
        }
        geometry.place(reached)
    }

    /// The time until a request's data begin to pass.
    fn cost(&self, head: Place, streamed: SectorSpan, now: Instant, one: &Waiting) -> Nanos {
        let direct = || self.parts.mechanics.positioning(head, now, one.place, one.passes).total();
        let Some(stream) = self.parts.buffer.stream().filter(|_| one.io.op == Op::Read) else {
            return direct();
        };
        let start = one.io.range.start;
        if start < streamed.start || start > stream.limit() {
            return direct();
        }
        let skip = if self.skips(one.io.range) { self.parts.skip } else { Nanos::ZERO };
        if start < streamed.end {
            skip
        } else if streamed.end >= stream.limit() {
            direct()
        } else {
            (stream.comes_at(one.passes) - now).min(direct()).max(skip)
        }
    }

    fn write(&mut self, one: &Waiting, head: Place, now: Instant) {
        self.end_stream(now);
        let range = one.io.range;
        self.parts.buffer.forget(range);
        let positioning = self.parts.mechanics.positioning(head, now, one.place, one.passes);
        let transfer = self.parts.mechanics.transfer(range);
        self.note_access(range);
        self.note_times(positioning, transfer);
        let on_media = now + positioning.total() + transfer;
        let end = on_media.max(self.over_bus(one.ready, range));
        self.head_free = end;
        self.head = self.parts.mechanics.place_before(range.end);
        self.written_at = self.written_at.max(end);
        self.leave(one, end, Outcome::Done);
    }

    fn read(&mut self, one: &Waiting, head: Place, now: Instant) {
        let range = one.io.range;
        let skipping = self.skips(range);
        let (held, streamed) = self.parts.buffer.held(&self.parts.mechanics.geometry, now, range);
        if held == Held::All {
            let answered = if streamed && skipping { self.skipped_at(one).max(now) } else { now };
            self.hit(one, now, answered, streamed);
            self.head_free = answered;
            return;
        }
        let from = if let Held::UpTo(end) = held { end } else { range.start };
        self.note_access(range);
        let bad = self.first_unreadable(range);
        let media = match bad {
            Some(bad) => self.fail_at(bad, head, now),
            None => self.read_media(one, from, head, now),
        };
        self.head_free = media.end;
        let at = match media.outcome {
            Outcome::Done => media.end.max(self.over_bus(media.first, range)),
            Outcome::Failed => media.end,
        };
        self.leave(one, at, media.outcome);
    }

    /// Reads from `from` to the end of a request: by letting the stream go on, or by moving the head.
    fn read_media(&mut self, one: &Waiting, from: Lba, head: Place, now: Instant) -> MediaRead {
        let range = one.io.range;
        let skipping = self.skips(range);
        let limit = self.read_ahead_limit(range.end);
        let moving = self.position(head, now, from);
        let mechanics = &self.parts.mechanics;
        let geometry = &mechanics.geometry;
        if let Some(stream) = self.parts.buffer.stream() {
            let reached = stream.reached(geometry, now);
            let within =
                self.parts.buffer.streamed(geometry, now).start <= range.start && from <= stream.limit();
            let comes = stream.comes_at(geometry.passes_at(from)).max(now);
            if within && reached < stream.limit() && comes <= now + moving.total() {
                let answered = if skipping { self.skipped_at(one) } else { now };
                let end = stream.passed_at(geometry, range.end).max(answered).max(now);
                let wait = Positioning { movement: Nanos::ZERO, rotation: comes - now };
                self.parts.buffer.consume(range.end, limit);
                self.note_times(wait, end - comes);
                return MediaRead { first: now, end, outcome: Outcome::Done };
            }
        }
        let transfer = mechanics.transfer(SectorSpan::new(from, range.end));
        self.end_stream(now);
        let began = now + moving.total();
        let geometry = &self.parts.mechanics.geometry;
        self.parts.buffer.begin(geometry, began, from, range.end, limit);
        self.head = self.parts.mechanics.place_before(range.end);
        self.note_times(moving, transfer);
        MediaRead { first: began, end: began + transfer, outcome: Outcome::Done }
    }

    /// Tries to read an unreadable sector.
    fn fail_at(&mut self, bad: Lba, head: Place, now: Instant) -> MediaRead {
        self.end_stream(now);
        let moving = self.position(head, now, bad);
        self.head = self.parts.mechanics.geometry.place(bad);
        let trying = self.parts.mechanics.geometry.turn() * RECOVERY_TURNS;
        self.note_times(moving, trying);
        let first = now + moving.total();
        MediaRead { first, end: first + trying, outcome: Outcome::Failed }
    }

    fn first_unreadable(&self, range: SectorSpan) -> Option<Lba> {
        let next = self.parts.unreadable.partition_point(|span| span.end <= range.start);
        let span = self.parts.unreadable.get(next)?;
        (span.start < range.end).then(|| span.start.max(range.start))
    }

    fn position(&self, head: Place, now: Instant, lba: Lba) -> Positioning {
        let geometry = &self.parts.mechanics.geometry;
        self.parts.mechanics.positioning(head, now, geometry.place(lba), geometry.passes_at(lba))
    }

    /// Ends the stream; the head stays where it has got to.
    fn end_stream(&mut self, now: Instant) {
        self.head = self.head_at(now);
        self.parts.buffer.end(&self.parts.mechanics.geometry, now);
    }

    /// Puts a range on the bus not before `from`; answers when it is over.
    fn over_bus(&mut self, from: Instant, range: SectorSpan) -> Instant {
        self.bus_free = self.bus_free.max(from) + self.parts.bus.time_for(range.len().bytes());
        self.bus_free
    }

    fn note_access(&mut self, range: SectorSpan) {
        if range.start != self.last_end {
            self.counters.seeks += 1;
            self.counters.seek_distance += range.start.distance(self.last_end);
        }
        self.last_end = range.end;
    }

    fn note_times(&mut self, positioning: Positioning, transfer: Nanos) {
        self.counters.seek_time += positioning.movement;
        self.counters.rotation_time += positioning.rotation;
        self.counters.transfer_time += transfer;
    }

    fn leave(&mut self, one: &Waiting, at: Instant, outcome: Outcome) {
        let Waiting { io, sequence, arrived, .. } = *one;
        self.leaving.push(Leaving { at, sequence, arrived, io, outcome });
    }

    /// Lets flushes go before which no write waits.
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

impl Device for Disk {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        if self.waiting.len() + self.leaving.len() >= self.parts.depth {
            return Err(Full);
        }
        let now = now.max(self.clock);
        if self.waiting.is_empty() && self.leaving.is_empty() {
            self.busy_since = now;
        }
        self.last_arrival = now;
        let ready = self.controller_free.max(now) + self.parts.overhead;
        self.controller_free = ready;
        let geometry = &self.parts.mechanics.geometry;
        // A request out of range fails later; until then it only must not lie outside the zones.
        let start = io.range.start.min(Lba(self.parts.capacity.get() - 1));
        let (place, passes) = (geometry.place(start), geometry.passes_at(start));
        self.sequence += 1;
        let sequence = self.sequence;
        self.waiting.push(Waiting {
            io,
            sequence,
            arrived: now,
            served_before: self.served,
            ready,
            seen: false,
            place,
            passes,
        });
        self.next = Some(self.next.map_or(ready, |next| next.min(ready)));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some(at) = self.next.filter(|at| *at <= now) {
            self.clock = self.clock.max(at);
            self.step(self.clock, done);
        }
        self.clock = self.clock.max(now);
    }

    fn capacity(&self) -> Sectors {
        self.parts.capacity
    }

    fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if !(self.waiting.is_empty() && self.leaving.is_empty()) {
            counters.busy += self.clock - self.busy_since;
        }
        counters
    }
}
