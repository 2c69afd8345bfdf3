//! The events of a serving engine: what each does, and what is said after it.

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
    /// Takes up what was learnt in another life.
    fn restore(&mut self, learnt: &str, device: Option<Measured>) {
        if let Some(learning) = self.prefetcher.learning() {
            // Who tells it has looked at it before ([`crate::learn::check`]); whatever it says does no harm.
            let _ = learning.load(learnt);
        }
        if let Some(device) = device {
            self.learner = UnloadedCosts::new(device, self.settings.overlapping);
        }
    }

    /// The first event: time begins.
    fn begin(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.begun, true) {
            self.ceiling = ceiling(&self.settings, self.settings.memory, now);
        }
    }

    fn opened(&mut self, opened: Opened, length: Bytes) {
        let Opened { stream, object, who, .. } = opened;
        let crowded = self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream);
        if self.objects.crowded() {
            self.objects.sweep(std::iter::empty());
        }
        // What is one too many is not followed: its reads are passed.
        let Some(slot) = self.objects.intern(object).filter(|_| !crowded) else { return };
        if self.objects.get(slot).length.is_some_and(|known| known != length) {
            self.resized(slot, length);
        }
        self.objects.open(stream, slot, length);
        let served = ServedStream { who, length: opened.length, reach: PageIndex::ZERO, calls: None };
        self.streams.insert(stream, served);
        self.activity.ran(Process(who.0), self.now);
        self.prefetcher.opened(self.now, opened);
    }

    fn closed(&mut self, stream: StreamId) {
        if self.streams.remove(&stream).is_some() {
            self.leave(stream, Span::new(PageIndex::ZERO, PageIndex::ZERO));
            self.objects.close(stream);
            self.active.closed(&stream);
            self.prefetcher.closed(self.now, stream);
        }
    }

    fn placed(&mut self, object: ObjectId, extents: &[Extent]) {
        if let Some(slot) = self.objects.find(object) {
            self.objects.get_mut(slot).place(extents);
        }
    }

    /// An object has another length: what lies beyond the lesser of both is not what it was, the page
    /// that it cuts included.
    fn resized(&mut self, slot: Slot, length: Bytes) {
        let before = self.objects.get_mut(slot).length.replace(length).unwrap_or(length);
        let from = ByteOffset(before.min(length).get()).page();
        self.reads.resized(slot, length.pages_ceil());
        self.overtake(slot, Span::new(from, PageKey::END));
    }

    /// Pages of an object are not what they were.
    fn overtake(&mut self, slot: Slot, range: PageSpan) {
        if self.objects.get(slot).kept == 0 {
            return;
        }
        self.cancel(|fetch| fetch.slot == slot && range.covers(fetch.range));
        let frames = &mut self.frames;
        let gone = self.table.overtake(slot, range, |frame| frames.let_go(frame));
        self.unkeep(slot, gone.get());
        self.stats.stale += gone;
    }

    /// There is more memory, or less: what is too much and not in use goes at once.
    fn budget(&mut self, pages: Pages) {
        self.frames.set_budget(pages.clamp(MEMORY_LEAST, self.settings.memory));
        while self.frames.excess() > 0 && self.evict() {}
        self.ceiling.resized(self.frames.budget());
        while self.table.ahead() > self.ceiling() && self.evict() {}
    }

    /// Says what there is to say, as far as there is room.
    fn speak(&mut self, out: &mut Commands) {
        while out.room() > 0
            && let Some(ticket) = self.ready.pop_front()
        {
            self.answer(ticket, out);
        }
        if self.pause.is_none_or(|until| until <= self.now) {
            self.pause = None;
            self.issue(out);
        }
        if out.room() > 0 && self.frames.has_dropped() {
            let frames = self.frames.take_dropped();
            if !frames.is_empty() {
                out.push(Command::Serving(ServingCommand::Drop { frames }));
            }
        }
    }

    /// Hands fetches to the driver, as many as may be under way.
    fn issue(&mut self, out: &mut Commands) {
        while out.room() > 0
            && let Some(turn) = self.flight.issue(self.now, &self.pace)
        {
            let Dispatch { id: fetch, fetch: asked, apart, again } = turn;
            let Fetch { object, range, urgency, .. } = *asked;
            if !again {
                self.stats.handed_out(asked);
            }
            // As it is now: what changed while the fetch waited will be fetched as it has become.
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
            Event::Opened { stream, object, length, who, .. } => {
                self.opened(
                    Opened { stream, object, who, length: length.pages_ceil(), announced: None },
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
            Event::Read { request, stream, range, who, .. } => self.read(request, stream, range, who, out),
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
            Event::Serving(ServingEvent::Ran { who }) => self.activity.ran(Process(who.0), self.now),
            Event::Serving(ServingEvent::Exited { who }) => self.activity.exited(Process(who.0)),
            Event::Tick => {}
            // Nobody tells a mount what will be read, nor can it ask what lies in front of it.
            Event::Hint(_) => {}
        }
        self.feed(out);
        self.speak(out);
    }

    fn deadline(&self) -> Option<Instant> {
        let pause = self.pause.filter(|until| *until > self.now);
        let more = !self.ready.is_empty() || self.frames.has_dropped();
        if more || (pause.is_none() && self.flight.has_turn(&self.pace)) {
            return Some(self.now);
        }
        let epoch = self.ceiling.deadline();
        Some(pause.map_or(epoch, |until| until.min(epoch)))
    }
}
