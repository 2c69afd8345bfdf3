//! Reads: which pages are cached, which are requested, when a read is answered.

use super::calls::Part;
use super::fetch::Wanted;
use super::look::{Look, PendingRead};
use super::pages::{Flying, Held, State};
use super::reads::{Ticket, Waiting};
use super::settings::READ_LIMIT;
use super::sight::Sight;
use super::state::ServingEngine;
use crate::stream::{Found, Touch};
use foreseek_cache::{Process, Status};
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_seam::{Command, Commands, FrameId, ProcessId, RequestId, ServingCommand, StreamId};
use foreseek_units::{ByteSpan, PageIndex, PageSpan, Pages, Span};

/// The distance within which a range that the prefetcher wants continues the last one of its stream: four
/// windows of a kernel's read-ahead. It allows for calls that overtake each other, and for gaps that are read
/// through.
const NEAR: Pages = Pages(128);

/// Where a page of a read comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Here(FrameId),
    Coming(Flying),
}

impl ServingEngine {
    pub(super) fn read(
        &mut self,
        request: RequestId,
        stream: StreamId,
        range: ByteSpan,
        pid: Option<ProcessId>,
        out: &mut Commands,
    ) {
        self.stats.reads += 1;
        let pages = range.pages();
        let fits = pages.len() <= READ_LIMIT && pages.end <= PageKey::END;
        let slot = self.objects.of_stream(stream).filter(|_| fits);
        let (Some(slot), Some(opened)) = (slot, self.streams.get(&stream)) else {
            self.stats.passed += 1;
            out.push(Command::Pass { request });
            return;
        };
        let pid = pid.unwrap_or(opened.pid);
        self.activity.ran(Process(pid.0), self.now);
        self.active.touched(self.now, stream);
        let asked = PendingRead { request, stream, slot, range, pid };
        // A read that needs memory waits behind the reads that already wait for it.
        let waits = !self.starved.is_empty() && self.missing(&asked) > 0;
        if waits || !self.serve(asked, out) {
            self.stats.starved += 1;
            self.starved.push_back(asked);
        }
    }

    /// Serves the reads that wait for memory, as far as there is some.
    pub(super) fn feed(&mut self, out: &mut Commands) {
        while let Some(first) = self.starved.front().copied() {
            // Its stream may be closed, and its slot another object's.
            if self.objects.of_stream(first.stream) != Some(first.slot) {
                if out.room() == 0 {
                    return;
                }
                self.stats.passed += 1;
                out.push(Command::Pass { request: first.request });
            } else if !self.serve(first, out) {
                return;
            }
            self.starved.pop_front();
        }
    }

    /// How many pages of a read are neither cached nor in flight.
    fn missing(&self, asked: &PendingRead) -> usize {
        let absent = |page: &PageIndex| !self.table.has(&PageKey::within(asked.slot, *page));
        asked.pages().iter().filter(absent).count()
    }

    /// Serves a read, or arranges for it. False where there is no memory for it.
    fn serve(&mut self, asked: PendingRead, out: &mut Commands) -> bool {
        let mut missing = self.missing(&asked);
        while self.frames.available() < missing {
            if !self.make_room(missing) {
                return false;
            }
            // Making room may have evicted pages of this read.
            missing = self.missing(&asked);
        }
        let looks: Vec<Look> = asked.pages().iter().map(|page| self.look(&asked, page)).collect();
        self.touch(&asked, &looks);
        let read = self.take_hold(&asked, &looks);
        let waits = read.outstanding > 0;
        let ticket = self.reads.wait(read);
        if !waits {
            self.conclude(ticket, out);
        }
        true
    }

    /// Looks up a page of a read, and holds it if it is cached.
    fn look(&mut self, asked: &PendingRead, page: PageIndex) -> Look {
        let key = PageKey::within(asked.slot, page);
        // A reader that has read a page's last byte does not read the page again.
        let length = self.objects.get(asked.slot).length.unwrap_or_default();
        let whole = asked.range.end.get() >= page.next().offset().get().min(length.get());
        let state = self.table.state(&key);
        if let State::Here(Held { marker: true, .. })
        | State::Flying(Flying { held: Held { marker: true, .. }, .. }) = state
        {
            self.table.unmark(&key);
        }
        self.stats.used += Pages(u64::from(self.table.used(&key, whole)));
        match state {
            State::Here(held) => {
                self.stats.hits += Pages(1);
                if whole {
                    self.delivered(key);
                } else {
                    self.frames.hold(held.frame);
                }
                Look { found: Found::Hit, marker: held.marker, frame: Some(held.frame), whole }
            }
            State::Flying(flying) => {
                self.stats.joined += Pages(1);
                Look { found: Found::InFlight, marker: flying.held.marker, frame: None, whole }
            }
            State::Absent => Look { found: self.missed(&key), marker: false, frame: None, whole },
        }
    }

    /// A page is missing: checks whether it was here before.
    fn missed(&mut self, key: &PageKey) -> Found {
        self.stats.missed += Pages(1);
        let Some(was) = self.history.take(key) else { return Found::Miss };
        self.ceiling.missed(was);
        match was {
            Status::Lru => {
                self.stats.lru_missed += Pages(1);
                Found::Miss
            }
            Status::Prefetched => {
                self.stats.prefetch_missed += Pages(1);
                Found::Thrashed
            }
        }
    }

    /// Reports each page of a read to the prefetcher, and requests missing pages and what the prefetcher
    /// wants.
    fn touch(&mut self, asked: &PendingRead, looks: &[Look]) {
        let pages = asked.pages();
        self.update_length(asked);
        let active = self.active.count(self.now, self.streams.len());
        self.flight.read_by(active);
        let bound = self.share(active);
        let Part { end: end_of_call, is_beyond } = self.part(asked.stream, pages);
        let mut wanted = std::mem::take(&mut self.wanted);
        for (page, look) in pages.iter().zip(looks) {
            let key = PageKey::within(asked.slot, page);
            let comes = look.frame.is_none() && self.table.has(&key);
            let touch = Touch {
                stream: asked.stream,
                page,
                request: pages.end - page,
                first: page == pages.start,
                mapped: false,
                found: if comes { Found::InFlight } else { look.found },
                marker: look.marker,
            };
            let sight = Sight {
                slot: asked.slot,
                object: self.objects.get(asked.slot),
                table: &self.table,
                pages,
                looks,
                history: &self.history,
                bound,
                congested: self.flight.pressing() > self.settings.in_flight as usize,
                measured: self.learner.unloaded(),
            };
            if !is_beyond {
                self.prefetcher.touch(self.now, touch, &sight, &mut wanted);
            }
            let want = Wanted { stream: asked.stream, slot: asked.slot, pid: asked.pid, pages, looks };
            for ahead in wanted.drain(..) {
                self.follow(asked, ahead.range);
                // On a fast device the depth may be shorter than the read. The whole read, and its whole
                // call, is fetched at once even so.
                let short = ahead.range.contains(page) && ahead.range.end < end_of_call;
                let end = if short { end_of_call } else { ahead.range.end };
                self.fetch(&want, Span::new(ahead.range.start, end), ahead.marker);
            }
            if look.frame.is_none() && !self.table.has(&key) {
                self.fetch(&want, Span::new(page, end_of_call), None);
            }
        }
        self.hurry_call(asked.slot, Span::new(pages.end, end_of_call));
        self.wanted = wanted;
    }

    /// The prefetcher wants a range for a stream. If that is far from the range wanted before, the reader has
    /// left the latter.
    fn follow(&mut self, asked: &PendingRead, range: PageSpan) {
        let Some(stream) = self.streams.get_mut(&asked.stream) else { return };
        let reach = std::mem::replace(&mut stream.reach, range.end);
        if range.start.distance(reach) > NEAR {
            self.leave(asked.stream, asked.pages());
        }
    }

    /// Passes a changed length on to the prefetcher.
    fn update_length(&mut self, asked: &PendingRead) {
        let length = self.objects.get(asked.slot).length.unwrap_or_default().pages_ceil();
        if let Some(stream) = self.streams.get_mut(&asked.stream).filter(|stream| stream.length != length) {
            stream.length = length;
            self.prefetcher.resized(asked.stream, length);
        }
    }

    /// Holds the frames into which a read's missing pages are fetched, and joins these fetches.
    fn take_hold(&mut self, asked: &PendingRead, looks: &[Look]) -> Waiting {
        let pages = asked.pages();
        let sources = pages.iter().zip(looks).map(|(page, look)| self.source(asked.slot, page, *look));
        let sources: Option<Vec<Source>> = sources.collect();
        // Each missing page had a frame, and all were requested.
        let Some(sources) = self.checks.some(sources) else {
            let held = looks.iter().filter_map(|look| look.frame).collect();
            return Waiting { passes: true, ..self.waiting(asked, held) };
        };
        let ticket = self.reads.next();
        let mut frames = Vec::with_capacity(looks.len());
        let mut outstanding = 0;
        for ((page, look), source) in pages.iter().zip(looks).zip(sources) {
            let flying = match source {
                Source::Here(frame) => {
                    frames.push(frame);
                    continue;
                }
                Source::Coming(flying) => flying,
            };
            self.table.used(&PageKey::within(asked.slot, page), look.whole);
            self.frames.hold(flying.held.frame);
            frames.push(flying.held.frame);
            self.flight.wanted_by(asked.stream);
            self.flight.hurry(flying.fetch);
            outstanding += u32::from(self.flight.join(flying.fetch, ticket));
        }
        Waiting { outstanding, ..self.waiting(asked, frames) }
    }

    /// Where a page of a read comes from; `None` where it is not in flight, which is an internal error.
    fn source(&self, slot: Slot, page: PageIndex, look: Look) -> Option<Source> {
        match (look.frame, self.table.state(&PageKey::within(slot, page))) {
            (Some(frame), _) => Some(Source::Here(frame)),
            (None, State::Flying(flying)) if self.flight.has(flying.fetch) => Some(Source::Coming(flying)),
            _ => None,
        }
    }

    /// A read that holds these frames, and waits for nothing yet.
    fn waiting(&self, asked: &PendingRead, frames: Vec<FrameId>) -> Waiting {
        let object = self.objects.get(asked.slot);
        Waiting {
            request: asked.request,
            stream: asked.stream,
            slot: asked.slot,
            object: object.id,
            pid: asked.pid,
            end: asked.pages().end,
            length: object.length.unwrap_or_default().pages_ceil(),
            passes: false,
            pages: asked.pages(),
            frames,
            outstanding: 0,
            failed: Vec::new(),
            error: None,
        }
    }

    /// A reader took a page over: from now on it is in the cache in front.
    pub(super) fn delivered(&mut self, key: PageKey) {
        self.unkeep(key.slot(), 1);
        self.history.evicted(key, Status::Lru);
    }

    /// A read waits for nothing any more.
    fn conclude(&mut self, ticket: Ticket, out: &mut Commands) {
        if self.ready.is_empty() && out.room() > 0 {
            self.answer(ticket, out);
        } else {
            self.ready.push_back(ticket);
        }
    }

    /// Answers a read that waits for nothing.
    pub(super) fn answer(&mut self, ticket: Ticket, out: &mut Commands) {
        let Some(mut read) = self.checks.some(self.reads.end(ticket)) else { return };
        let request = read.request;
        if let Some(fetch) = read.error {
            self.stats.failed_reads += 1;
            read.frames.iter().for_each(|frame| self.frames.release(*frame));
            out.push(Command::Serving(ServingCommand::Fail { request, fetch }));
            return;
        }
        let pages = (read.end - read.pages.start).get() as usize;
        if read.passes || !self.checks.holds(self.is_servable(&read, pages)) {
            self.stats.passed += 1;
            read.frames.iter().for_each(|frame| self.frames.release(*frame));
            out.push(Command::Pass { request });
            return;
        }
        let beyond: Vec<FrameId> = read.frames.split_off(pages);
        beyond.into_iter().for_each(|frame| self.frames.release(frame));
        read.frames.iter().for_each(|frame| self.frames.lend(*frame));
        out.push(Command::Serving(ServingCommand::Serve { request, frames: read.frames }));
    }

    /// Whether a read can be answered with this many pages: each of their frames is filled, and the object
    /// ends there if they are less than the read requested.
    fn is_servable(&self, read: &Waiting, pages: usize) -> bool {
        let frames = read.frames.get(..pages);
        !read.is_cut()
            && frames.is_some_and(|frames| frames.iter().all(|frame| self.frames.is_filled(*frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::Settings;
    use foreseek_device::Profile;
    use foreseek_seam::{Engine, Event, ObjectId};
    use foreseek_units::{ByteOffset, Bytes, Instant};
    use std::sync::Arc;

    /// The engine's own state is wrong: a page should have been requested and was not.
    #[test]
    fn a_read_of_a_page_that_is_not_on_its_way_is_passed() {
        let costs = Arc::new(Profile::builtin("ibm-36g-37").expect("a built-in profile"));
        let mut engine = ServingEngine::new(Settings::default(), &(costs as _)).expect("a policy");
        let mut out = Commands::new();
        let (stream, object, pid) = (StreamId(1), ObjectId(7), ProcessId(1));
        let length = Bytes::mib(1);
        engine.on(Instant(1), Event::Opened { stream, object, length, pid }, &mut out);
        let slot = engine.objects.find(object).expect("it is open");
        let asked = PendingRead {
            request: RequestId(3),
            stream,
            slot,
            range: Span::at(ByteOffset::ZERO, Bytes::kib(16)),
            pid,
        };
        // The first page is cached, three are not and are not requested.
        let frame = engine.frames.take();
        let free = engine.frames.free();
        let mut looks: Vec<Look> = asked.pages().iter().map(|page| engine.look(&asked, page)).collect();
        looks[0].frame = frame;
        let read = engine.take_hold(&asked, &looks);
        assert_eq!(read.outstanding, 0);
        let ticket = engine.reads.wait(read);
        engine.conclude(ticket, &mut out);
        assert_eq!(out.as_slice(), [Command::Pass { request: RequestId(3) }]);
        let stats = engine.stats();
        assert_eq!((stats.internal_errors, stats.passed, stats.waiting), (1, 1, 0));
        assert_eq!(engine.frames.free(), free + Pages(1));
    }

    #[test]
    fn a_frame_is_not_free_twice() {
        let mut frames = crate::serving::frames::FrameTable::new(Pages(4));
        let frame = frames.take().expect("one of four");
        frames.release(frame);
        frames.release(frame);
        assert_eq!((frames.free(), frames.internal_errors()), (Pages(4), 1));
    }
}
