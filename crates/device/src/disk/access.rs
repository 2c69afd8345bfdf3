//! How the head serves a request: the time of the access from the positions of head and stream.

use super::{Disk, RECOVERY_ROTATIONS};
use crate::controller::Until;
use crate::geometry::TrackAddress;
use crate::io::{Op, Outcome};
use crate::mechanics::{Approach, Positioning};
use crate::queue::{Queue, Waiting};
use crate::segments::Held;
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors, Span};

/// How the head will serve a read.
#[derive(Clone, Copy, Debug)]
struct MediaRead {
    /// When data begin to pass over the bus.
    first: Instant,
    /// When the head is free.
    end: Instant,
    outcome: Outcome,
}

impl Disk {
    /// Whether a read that the stream answers leaves a gap for which the firmware needs time.
    pub(super) fn skips(&self, range: SectorSpan) -> bool {
        !self.parts.skip.is_zero()
            && self.parts.buffer.stream().is_some_and(|stream| range.start != stream.consumed())
    }

    /// When the firmware has finished a read across a gap: it handles one at a time, from the end of the
    /// request before on.
    fn skipped_at(&self, one: &Waiting) -> Instant {
        one.arrived.max(self.head_free) + self.parts.skip
    }

    /// Advances the stream's limit, and lets it resume if it had stopped.
    pub(super) fn consume(&mut self, now: Instant, end: Lba) {
        let Some(consumed) = self.parts.buffer.stream().map(|stream| stream.consumed()) else { return };
        let limit = self.read_ahead_limit(Span::new(consumed.min(end), end), true);
        let geometry = &self.parts.mechanics.geometry;
        let Some(stream) = self.parts.buffer.stream() else { return };
        let stopped = stream.limit();
        let full = self.head_free <= now && stream.reached(geometry, now) >= stopped;
        if !full {
            self.parts.buffer.consume(end, limit);
        } else if limit > stopped && self.parts.buffer.worth_resuming(limit - stopped) {
            let head = self.parts.mechanics.track_address_before(stopped);
            let began = now + self.position(head, now, stopped).total();
            let geometry = &self.parts.mechanics.geometry;
            self.parts.buffer.end(geometry, now);
            self.parts.buffer.begin(geometry, began, stopped, end, limit);
        } else {
            self.parts.buffer.consume(end, stopped);
        }
    }

    /// How far to read ahead beyond a request, which may continue a `stream`: as the drive does, at most
    /// until the segment is full, and not over an unreadable sector.
    fn read_ahead_limit(&self, request: SectorSpan, stream: bool) -> Lba {
        let end = request.end;
        let limit = self.read_on(request, stream).min(Lba(self.parts.capacity.get())).max(end);
        let next = self.parts.unreadable.partition_point(|span| span.end <= end);
        self.parts.unreadable.get(next).map_or(limit, |span| limit.min(span.start.max(end)))
    }

    fn read_on(&self, request: SectorSpan, stream: bool) -> Lba {
        let rule = self.parts.controller.read_ahead;
        let geometry = &self.parts.mechanics.geometry;
        let (end, segment) = (request.end, self.parts.buffer.segment_size());
        let start = if rule.keeps_request { request.start } else { end };
        let most = rule.most.map_or(start + segment, |most| (start + segment).min(end + most));
        let last = Lba(self.parts.capacity.get() - 1);
        let track = |from: Lba| geometry.track_end(from.min(last));
        let until = match rule.until {
            Until::Segment => return most,
            Until::Nothing => end,
            Until::Track => track(end - Sectors(1)),
            Until::Cylinder => geometry.cylinder_end((end - Sectors(1)).min(last)),
            Until::NextTrack if stream => track(track(end)),
            Until::NextTrack if segment >= geometry.sectors_per_track(end.min(last)) => track(end),
            Until::NextTrack => end,
        };
        until.min(most)
    }

    /// The track under the head.
    pub(super) fn head_at(&self, now: Instant) -> TrackAddress {
        let Some(stream) = self.parts.buffer.stream() else { return self.head };
        let geometry = &self.parts.mechanics.geometry;
        let reached = stream.reached(geometry, now);
        if reached >= stream.limit() {
            return self.parts.mechanics.track_address_before(reached);
        }
        geometry.track_address(reached)
    }

    /// The cost of a request for the queue's order: the time until its data begin to pass, or only the seek.
    pub(super) fn cost(
        &self,
        head: TrackAddress,
        streamed: SectorSpan,
        now: Instant,
        one: &Waiting,
    ) -> Nanos {
        let seek_alone = self.parts.queue == Queue::Sstf;
        let direct = || {
            let mechanics = &self.parts.mechanics;
            let way = mechanics.positioning(head, now, (one.address, one.passes), self.approach(one, now));
            if seek_alone { way.movement } else { way.total() }
        };
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
        } else if seek_alone {
            skip
        } else {
            (stream.comes_at(one.passes) - now).min(direct()).max(skip)
        }
    }

    pub(super) fn write(&mut self, one: &Waiting, head: TrackAddress, now: Instant) {
        self.end_stream(now);
        let range = one.io.range;
        self.parts.buffer.forget(range);
        let mechanics = &self.parts.mechanics;
        let positioning =
            mechanics.positioning(head, now, (one.address, one.passes), self.approach(one, now));
        let transfer = mechanics.transfer(range);
        let on_media = now + (positioning.total() + transfer - mechanics.gained(range, positioning));
        self.note_access(range);
        self.note_times(positioning, transfer);
        if self.parts.controller.keeps_written {
            self.parts.buffer.hold(range);
        }
        if one.cached {
            self.head_free = on_media;
            self.destage(one);
        } else {
            self.head_free = on_media.max(self.over_bus(one.ready, range));
            self.leave(one, self.head_free, Outcome::Done);
        }
        self.head = self.parts.mechanics.track_address_before(range.end);
        self.written_at = self.written_at.max(self.head_free);
    }

    pub(super) fn read(&mut self, one: &Waiting, head: TrackAddress, now: Instant) {
        let range = one.io.range;
        let skipping = self.skips(range);
        let (held, streamed) = self.held(now, range);
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
            Outcome::Done => self.off_media(media, range),
            Outcome::Failed => media.end,
        };
        self.leave(one, at, media.outcome);
    }

    /// When a read's data have passed over the bus.
    fn off_media(&mut self, media: MediaRead, range: SectorSpan) -> Instant {
        if !self.parts.controller.by_sector {
            return media.end.max(self.over_bus(media.first, range));
        }
        let first = media.first + self.parts.mechanics.geometry.sector_time(range.start);
        let last = media.end + self.parts.bus.time_for(Sectors(1).bytes());
        last.max(self.over_bus(first, range))
    }

    /// Reads from `from` to the end of a request: by continuing the stream, or by moving the head.
    fn read_media(&mut self, one: &Waiting, from: Lba, head: TrackAddress, now: Instant) -> MediaRead {
        let range = one.io.range;
        let skipping = self.skips(range);
        let follows = self.parts.buffer.follows(&self.parts.mechanics.geometry, now, range.start);
        let limit = self.read_ahead_limit(range, follows || from > range.start);
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
        let wanted = SectorSpan::new(from, range.end);
        let gained = mechanics.gained(wanted, moving);
        self.end_stream(now);
        self.head = self.parts.mechanics.track_address_before(range.end);
        self.note_times(moving, transfer);
        let began = now + moving.total();
        let arrived = self.arrived_at(from, moving, !gained.is_zero());
        let geometry = &self.parts.mechanics.geometry;
        if gained.is_zero() {
            let earlier = geometry.passes_at(from) - geometry.passes_at(arrived);
            self.parts.buffer.begin(geometry, began - earlier, arrived, range.end, limit);
            return MediaRead { first: began, end: began + transfer, outcome: Outcome::Done };
        }
        // The head began within the range; reading ahead waits until the sector behind it comes.
        self.parts.buffer.hold(SectorSpan::new(arrived, range.end));
        if limit > range.end {
            let next = began + (geometry.passes_at(range.end) - geometry.passes_at(from));
            self.parts.buffer.begin(geometry, next, range.end, range.end, limit);
        }
        MediaRead { first: now + moving.movement, end: began + transfer - gained, outcome: Outcome::Done }
    }

    /// The first sector kept before a read's first sector `from`. If the drive reads on arrival, it is the
    /// sector under the head at its arrival. It is the track's first if the head has to wait for that, or
    /// began `within` the range.
    fn arrived_at(&self, from: Lba, moving: Positioning, within: bool) -> Lba {
        if !self.parts.controller.reads_on_arrival {
            return from;
        }
        let geometry = &self.parts.mechanics.geometry;
        let start = geometry.track_start(from);
        let (first, wanted) = (geometry.passes_at(start), geometry.passes_at(from));
        let arrives = wanted.get().saturating_sub(moving.rotation.get());
        let kept = if within || arrives <= first.get() {
            start
        } else {
            // The sector that was passing at the head's arrival is lost.
            geometry.reached_at(Nanos(arrives - 1)) + Sectors(1)
        };
        let kept = kept.clamp(start, from);
        let bad = self.first_unreadable(SectorSpan::new(kept, from));
        bad.map_or(kept, |_| from)
    }

    /// Tries to read an unreadable sector.
    fn fail_at(&mut self, bad: Lba, head: TrackAddress, now: Instant) -> MediaRead {
        self.end_stream(now);
        let moving = self.position(head, now, bad);
        self.head = self.parts.mechanics.geometry.track_address(bad);
        let trying = self.parts.mechanics.geometry.rotation_period() * RECOVERY_ROTATIONS;
        self.note_times(moving, trying);
        let first = now + moving.total();
        MediaRead { first, end: first + trying, outcome: Outcome::Failed }
    }

    fn first_unreadable(&self, range: SectorSpan) -> Option<Lba> {
        let next = self.parts.unreadable.partition_point(|span| span.end <= range.start);
        let span = self.parts.unreadable.get(next)?;
        (span.start < range.end).then(|| span.start.max(range.start))
    }

    fn position(&self, head: TrackAddress, now: Instant, lba: Lba) -> Positioning {
        let geometry = &self.parts.mechanics.geometry;
        self.parts.mechanics.positioning(head, now, geometry.locate(lba), Approach::anew(Op::Read))
    }

    /// Ends the stream; the head stays where it is.
    fn end_stream(&mut self, now: Instant) {
        self.head = self.head_at(now);
        self.parts.buffer.end(&self.parts.mechanics.geometry, now);
    }

    /// The kind of a request for positioning: adjacent writes can follow one another without a pause.
    fn approach(&self, one: &Waiting, now: Instant) -> Approach {
        let continues = one.io.range.start == self.last_end && now == self.head_free;
        Approach { op: one.io.op, continues }
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
}
