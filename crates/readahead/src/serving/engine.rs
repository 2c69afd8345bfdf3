//! The events of a serving engine, and the commands after each.

use super::flight::{Dispatch, Fetch};
use super::settings::MEMORY_LEAST;
use super::state::{ServedStream, ServingEngine, ceiling};
use crate::depth::UnloadedCosts;
use crate::stream::Opened;
use foreseek_cache::{Process, STREAMS_LIMIT};
use foreseek_seam::Measured;
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_seam::{
    Command, Commands, Destination, Engine, Epoch, Event, Extent, ObjectId, ServingCommand, ServingEvent,
    StreamId,
};
use foreseek_units::{ByteOffset, Bytes, Instant, PageIndex, PageSpan, Pages, Span};

impl ServingEngine {
    /// Loads what an earlier run has learnt.
    fn restore(&mut self, learnt: &str, device: Option<Measured>) {
        if let Some(learning) = self.prefetcher.learning() {
            // The driver has checked it ([`crate::learn::check`]); no content does harm.
            let _ = learning.load(learnt);
        }
        if let Some(device) = device {
            self.learner = UnloadedCosts::new(device, self.settings.overlapping);
        }
    }

    /// The first event sets the start of time.
    fn begin(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.begun, true) {
            self.ceiling = ceiling(&self.settings, self.settings.memory, now);
        }
    }

    fn opened(&mut self, opened: Opened, length: Bytes) {
        let Opened { stream, object, pid, .. } = opened;
        let crowded = self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream);
        if self.objects.crowded() {
            self.objects.sweep(std::iter::empty());
        }
        // Streams and objects beyond the limit are not followed: their reads are passed.
        let Some(slot) = self.objects.intern(object).filter(|_| !crowded) else { return };
        if self.objects.get(slot).length.is_some_and(|known| known != length) {
            self.resized(slot, length);
        }
        self.objects.open(stream, slot, length);
        let served = ServedStream { pid, length: opened.length, reach: PageIndex::ZERO, calls: None };
        self.streams.insert(stream, served);
        self.activity.ran(Process(pid.0), self.now);
        self.prefetcher.opened(self.now, opened);
    }

    fn closed(&mut self, stream: StreamId) {
        if self.streams.remove(&stream).is_some() {
            self.leave(stream, Span::new(PageIndex::ZERO, PageIndex::ZERO));
            self.flight.closed(stream);
            self.objects.close(stream);
            self.active.closed(&stream);
            self.prefetcher.closed(self.now, stream);
        }
    }

    fn placed(&mut self, object: ObjectId, extents: &[Extent]) {
        if let Some(slot) = self.objects.find(object) {
            self.objects.get_mut(slot).set_extents(extents);
        }
    }

    /// The length of an object changes. Pages beyond the shorter of both lengths are invalid, including the
    /// page that it cuts.
    fn resized(&mut self, slot: Slot, length: Bytes) {
        let before = self.objects.get_mut(slot).length.replace(length).unwrap_or(length);
        let from = ByteOffset(before.min(length).get()).page();
        self.reads.resized(slot, length.pages_ceil());
        self.overtake(slot, Span::new(from, PageKey::END));
    }

    /// Drops pages of an object that a change made invalid.
    fn overtake(&mut self, slot: Slot, range: PageSpan) {
        if self.objects.get(slot).kept == 0 {
            return;
        }
        self.cancel(|fetch| fetch.slot == slot && range.covers(fetch.range));
        let frames = &mut self.frames;
        let gone = self.table.overtake(slot, range, |frame| frames.release(frame));
        self.unkeep(slot, gone.get());
        self.stats.stale += gone;
    }

    /// Sets the memory budget. Pages beyond it that are not in use are dropped at once.
    fn budget(&mut self, pages: Pages) {
        self.frames.set_budget(pages.clamp(MEMORY_LEAST, self.settings.memory));
        while self.frames.excess() > 0 && self.evict() {}
        self.ceiling.resized(self.frames.budget());
        while self.table.ahead() > self.ceiling() && self.evict() {}
    }

    /// Emits the pending commands for which there is room.
    fn emit(&mut self, out: &mut Commands) {
        while out.room() > 0
            && let Some(ticket) = self.ready.pop_front()
        {
            self.answer(ticket, out);
        }
        if self.pause.is_none_or(|until| until <= self.now) {
            self.pause = None;
            self.flight.learnt(self.learner.unloaded());
            self.issue(out);
        }
        if out.room() > 0 && self.frames.has_dropped() {
            let frames = self.frames.take_dropped();
            if !frames.is_empty() {
                out.push(Command::Serving(ServingCommand::Drop { frames }));
            }
        }
    }

    /// Hands fetches to the driver, as many as may be in flight.
    fn issue(&mut self, out: &mut Commands) {
        while out.room() > 0
            && let Some(turn) = self.flight.issue(self.now, &self.pace)
        {
            let Dispatch { id: fetch, fetch: asked, apart, again } = turn;
            let Fetch { object, range, urgency, .. } = *asked;
            if !again {
                self.stats.handed_out(asked);
            }
            // The current epoch: pages that changed while the fetch waited are fetched as they are now.
            let epoch = self.objects.find(object).map_or(Epoch(0), |slot| self.objects.get(slot).epoch);
            let into = Destination::Frames(asked.frames.clone());
            out.push(Command::Fetch { fetch, object, range, epoch, into, urgency, apart });
        }
    }
}

impl Engine for ServingEngine {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands) {
        self.begin(now);
        self.now = self.now.max(now);
        let read = self.stats.hits + self.stats.joined + self.stats.missed;
        self.ceiling.tick(self.now, read);
        match event {
            Event::Opened { stream, object, length, pid, .. } => {
                self.opened(
                    Opened { stream, object, pid, length: length.pages_ceil(), announced: None },
                    length,
                );
            }
            Event::Serving(ServingEvent::Described { stream, about }) => {
                if self.streams.contains_key(&stream) {
                    self.prefetcher.described(stream, &about);
                }
            }
            Event::Serving(ServingEvent::Restored { learnt, device }) => self.restore(learnt, device),
            Event::Serving(ServingEvent::Called { stream, range }) => self.called(stream, range),
            Event::Closed { stream } => self.closed(stream),
            Event::Placed { object, extents } => self.placed(object, extents),
            Event::Read { request, stream, range, pid, .. } => self.read(request, stream, range, pid, out),
            Event::Done { fetch, got, outcome, .. } => self.done(fetch, got, outcome),
            Event::Refused { fetch, why } => self.refused(fetch, why),
            Event::Changed { object, range, epoch } => {
                if let Some(slot) = self.objects.find(object) {
                    self.objects.get_mut(slot).epoch = epoch;
                    self.overtake(slot, range.pages());
                }
            }
            Event::Resized { object, length } => {
                if let Some(slot) = self.objects.find(object) {
                    self.resized(slot, length);
                }
            }
            Event::Serving(ServingEvent::Unpinned { frames }) => {
                frames.iter().for_each(|frame| self.frames.unpin(*frame))
            }
            Event::Budget { pages } => self.budget(pages),
            Event::Serving(ServingEvent::Ran { pid }) => self.activity.ran(Process(pid.0), self.now),
            Event::Serving(ServingEvent::Exited { pid }) => self.activity.exited(Process(pid.0)),
            Event::Tick => {}
            // A mount gets no hints, and cannot query the cache in front.
            Event::Hint(_) => {}
        }
        self.feed(out);
        self.emit(out);
    }

    fn deadline(&self) -> Option<Instant> {
        let pause = self.pause.filter(|until| *until > self.now);
        let more = !self.ready.is_empty() || self.frames.has_dropped();
        if more {
            return Some(self.now);
        }
        let turn = pause.or_else(|| self.flight.next_turn(self.now, &self.pace));
        let epoch = self.ceiling.deadline();
        Some(turn.map_or(epoch, |until| until.min(epoch)))
    }
}
