//! Fetches that were requested and have not ended: those in flight and those that are queued.
//!
//! The settings limit the number in flight; of the queued ones, demand goes first. Adjacent fetches are
//! issued together, so that the device gets one request, or several that it serves in one visit. The first
//! fetch to an idle device is issued [apart](Dispatch::apart).
//!
//! # A single reader
//!
//! While all fetches belong to one stream, they are *deferred* and dispatched one by one. As many are in
//! flight as keep the device reading ([`Pace`]), and the next follows when one ends. When the reader stops,
//! the rest is [cancelled](FetchTable::cancel): a request cannot be cancelled once it is dispatched.
//! Deferring ends:
//!
//! - for a fetch that a read waits for, and for all before it: they go at once;
//! - for all of them, as soon as another stream requests something: they go before that. Each stream's visit
//!   of the device stays whole; otherwise the head would go to and fro between the streams.
//!
//! # Several readers
//!
//! Readers in sequence take [turns](super::turns).
//!
//! The ceiling of the prefetch cache bounds the deferred pages, as it bounds everything that is read ahead.

use super::pace::{LEAST, Pace, Way};
use super::reads::Ticket;
use super::turns::Turns;
use foreseek_seam::objects::Slot;
use foreseek_seam::{FetchId, FrameId, Measured, ObjectId, ProcessId, StreamId, Urgency};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A fetch.
#[derive(Debug)]
pub(super) struct Fetch {
    /// The stream whose read led to it.
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) object: ObjectId,
    pub(super) range: PageSpan,
    /// One for each page.
    pub(super) frames: Vec<FrameId>,
    /// The urgency of its visit: pages next to an awaited page are fetched with it.
    pub(super) urgency: Urgency,
    /// Whether it begins where the fetch requested before it ends.
    pub(super) follows: bool,
    /// Whether it reaches the end of its object.
    pub(super) at_end: bool,
    /// Whether it is for one read, after a failure.
    pub(super) alone: bool,
    /// The reads that wait for it.
    pub(super) waiters: Vec<Ticket>,
    /// The process that reads.
    pub(super) pid: ProcessId,
    /// How many of its pages lay beyond the read when it was requested.
    pub(super) ahead: Pages,
    /// When it was requested.
    pub(super) asked: Instant,
    pub(super) progress: Progress,
}

/// How far a fetch has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// When it was handed to the driver, if it is in flight.
    pub(super) issued: Option<Instant>,
    /// How it was dispatched, if its stream was the only one.
    pub(super) way: Option<Way>,
    /// Whether it was ever handed to the driver.
    tried: bool,
    /// Its queue, while it is queued.
    line: Queue,
}

/// The queue in which a fetch waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Queue {
    /// Deferred for a single reader.
    #[default]
    Held,
    /// Goes before fetches that read ahead.
    Demand,
    Ahead,
}

impl From<Urgency> for Queue {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Demand => Self::Demand,
            Urgency::Prefetch => Self::Ahead,
        }
    }
}

/// The fetch to dispatch next.
#[derive(Debug)]
pub(super) struct Dispatch<'a> {
    pub(super) id: FetchId,
    pub(super) fetch: &'a Fetch,
    /// Whether the device is idle and the fetch goes by itself. Its waiters then have it as soon as it is
    /// read. Together with adjacent fetches the block layer would make one request, and they would wait for
    /// all of it. The device does not seek a second time for the rest.
    pub(super) apart: bool,
    /// Whether it was dispatched before.
    pub(super) again: bool,
}

/// All fetches that have not ended.
#[derive(Debug)]
pub(super) struct FetchTable {
    fetches: FxHashMap<FetchId, Fetch>,
    /// The number of each stream's fetches.
    streams: FxHashMap<StreamId, usize>,
    /// The deferred ones, in order: all belong to one stream, as do all others then.
    held: VecDeque<FetchId>,
    /// The queued ones, demand and ahead. A fetch that was moved up, or issued before others, is still in its old place.
    demand: VecDeque<FetchId>,
    ahead: VecDeque<FetchId>,
    /// The frames that fetches for one read alone fill.
    alone: FxHashMap<FrameId, FetchId>,
    next: u64,
    limit: usize,
    under_way: usize,
    /// Pages in flight.
    pages: Pages,
    /// Whether more than one visit has been in flight at a time since the device was last idle.
    crowded: bool,
    /// The end of the fetch that was issued last.
    last: Option<(ObjectId, PageIndex)>,
    turns: Turns,
}

impl FetchTable {
    /// `limit`: fetches in flight. `one_head`: the device serves one request at a time.
    pub(super) fn new(limit: u32, one_head: bool, costs: Measured) -> Self {
        Self {
            fetches: FxHashMap::default(),
            streams: FxHashMap::default(),
            held: VecDeque::new(),
            demand: VecDeque::new(),
            ahead: VecDeque::new(),
            alone: FxHashMap::default(),
            next: 0,
            limit: limit as usize,
            under_way: 0,
            pages: Pages::ZERO,
            crowded: false,
            last: None,
            turns: Turns::new(one_head, costs),
        }
    }

    /// The number in flight.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// The number queued.
    pub(super) fn queued(&self) -> usize {
        self.fetches.len() - self.under_way
    }

    /// The number queued that are deferred.
    pub(super) fn deferred(&self) -> usize {
        self.held.len()
    }

    /// The number queued and not deferred.
    pub(super) fn pressing(&self) -> usize {
        self.queued() - self.held.len()
    }

    /// Requests a fetch; it is queued.
    pub(super) fn ask(&mut self, mut fetch: Fetch) -> FetchId {
        let id = FetchId(self.next);
        self.next += 1;
        self.wanted_by(fetch.stream);
        fetch.progress.line =
            if self.is_single(fetch.stream) && !fetch.alone { Queue::Held } else { fetch.urgency.into() };
        self.line(fetch.progress.line).push_back(id);
        if fetch.alone {
            self.alone.extend(fetch.frames.iter().map(|frame| (*frame, id)));
        }
        *self.streams.entry(fetch.stream).or_default() += 1;
        self.turns.asked(fetch.asked, &fetch);
        self.fetches.insert(id, fetch);
        id
    }

    /// Whether no other stream has fetches.
    pub(super) fn is_single(&self, stream: StreamId) -> bool {
        self.streams.keys().all(|one| *one == stream)
    }

    /// A stream requests something: the deferred fetches of another stream go before it.
    pub(super) fn wanted_by(&mut self, stream: StreamId) {
        let others =
            self.held.back().filter(|id| self.fetches.get(id).is_some_and(|held| held.stream != stream));
        if let Some(last) = others.copied() {
            self.release(last);
        }
    }

    /// Ends the deferring of all fetches up to this one.
    fn release(&mut self, last: FetchId) {
        while let Some(id) = self.held.front().copied().filter(|id| *id <= last) {
            self.held.pop_front();
            if let Some(fetch) = self.fetches.get_mut(&id) {
                fetch.progress.line = Queue::Demand;
                self.demand.push_back(id);
            }
        }
    }

    /// Cancels the deferred fetches for which this is true.
    pub(super) fn cancel(&mut self, goes: impl Fn(&Fetch) -> bool) -> Vec<(FetchId, Fetch)> {
        let gone = |id: &FetchId| self.fetches.get(id).is_some_and(&goes);
        let (gone, held): (VecDeque<_>, VecDeque<_>) = self.held.iter().copied().partition(gone);
        self.held = held;
        let taken: Vec<_> = gone.into_iter().filter_map(|id| Some((id, self.fetches.remove(&id)?))).collect();
        for (_, fetch) in &taken {
            self.forget(fetch.stream);
            self.turns.cancelled(fetch.stream);
        }
        taken
    }

    pub(super) fn has(&self, id: FetchId) -> bool {
        self.fetches.contains_key(&id)
    }

    /// A read waits for a fetch. False where it already did.
    pub(super) fn join(&mut self, id: FetchId, ticket: Ticket) -> bool {
        let Some(fetch) = self.fetches.get_mut(&id) else { return false };
        let joins = fetch.waiters.last() != Some(&ticket);
        if joins {
            fetch.waiters.push(ticket);
        }
        joins
    }

    /// A read waits for a fetch: it goes before fetches that read ahead. The fetches adjacent to it go with
    /// it, since each would cost a visit later.
    pub(super) fn hurry(&mut self, id: FetchId) {
        self.release(id);
        let mut at = id;
        while let Some(fetch) = self.fetches.get_mut(&at)
            && fetch.progress.issued.is_none()
            && fetch.urgency == Urgency::Prefetch
            && (at == id || fetch.follows)
        {
            fetch.urgency = Urgency::Demand;
            if fetch.progress.line == Queue::Ahead {
                fetch.progress.line = Queue::Demand;
                self.demand.push_back(at);
            }
            at = FetchId(at.0 + 1);
        }
    }

    /// Issues the next fetch, if one may go.
    pub(super) fn issue(&mut self, now: Instant, pace: &Pace) -> Option<Dispatch<'_>> {
        self.drop_front(Queue::Demand);
        self.drop_front(Queue::Ahead);
        let id = self.next_to_go(now, pace)?;
        let single = self.streams.len() == 1;
        let fetch = self.fetches.get_mut(&id)?;
        // A visit is not split, unless it is longer than the limit in flight.
        let limit = if fetch.follows { self.limit * 2 } else { self.limit };
        if self.under_way >= limit {
            return None;
        }
        fetch.progress.issued = Some(now);
        let again = std::mem::replace(&mut fetch.progress.tried, true);
        fetch.progress.way = single.then_some(pace.way());
        let goes_on = self.last == Some((fetch.object, fetch.range.start));
        self.last = Some((fetch.object, fetch.range.end));
        self.pages += fetch.range.len();
        let apart = self.under_way == 0;
        self.crowded = !apart && (self.crowded || !goes_on);
        self.under_way += 1;
        if self.held.front() == Some(&id) {
            self.held.pop_front();
        }
        let fetch = self.fetches.get(&id)?;
        self.turns.issued(now, fetch.stream, fetch.range.len());
        Some(Dispatch { id, fetch, apart, again })
    }

    /// Whether more than one visit has been in flight at a time since the device was last idle.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// When a fetch can be issued, if none ends before.
    pub(super) fn next_turn(&self, now: Instant, pace: &Pace) -> Option<Instant> {
        if self.under_way >= self.limit {
            return None;
        }
        match self.next_to_go(now, pace) {
            Some(_) => Some(now),
            None => self.turns.ends().filter(|end| *end > now),
        }
    }

    /// The fetch that goes next, if one may go: a deferred one goes after all others, and only to keep the device
    /// reading.
    fn next_to_go(&self, now: Instant, pace: &Pace) -> Option<FetchId> {
        let first = |line| if self.pressing() > 0 { self.first(now, line) } else { None };
        let deferred = || self.held.front().copied().filter(|_| self.needs_more(pace));
        first(Queue::Demand).or_else(|| first(Queue::Ahead)).or_else(deferred)
    }

    /// A stream ends: what reads still wait for goes at once.
    pub(super) fn closed(&mut self, stream: StreamId) {
        self.turns.closed(stream);
    }

    /// Sets the number of active streams.
    pub(super) fn read_by(&mut self, readers: usize) {
        self.turns.read_by(readers);
    }

    /// Sets the costs of the device.
    pub(super) fn learnt(&mut self, costs: Measured) {
        self.turns.learnt(costs);
    }

    /// Whether the fetches in flight may not keep the device reading.
    fn needs_more(&self, pace: &Pace) -> bool {
        self.under_way < LEAST || self.pages < pace.window()
    }

    /// The driver was busy: the fetch is queued again, before all others.
    pub(super) fn put_back(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.progress.issued.is_some()) {
            fetch.progress.issued = None;
            fetch.progress.line = fetch.urgency.into();
            let line = fetch.progress.line;
            self.under_way -= 1;
            self.pages -= fetch.range.len();
            self.turns.returned(fetch.stream, fetch.range.len());
            self.line(line).push_front(id);
        }
    }

    /// A fetch has ended. `None` where it was not in flight.
    pub(super) fn end(&mut self, now: Instant, id: FetchId) -> Option<Fetch> {
        self.fetches.get(&id).filter(|fetch| fetch.progress.issued.is_some())?;
        let fetch = self.fetches.remove(&id)?;
        self.under_way -= 1;
        self.pages -= fetch.range.len();
        self.forget(fetch.stream);
        self.turns.ended(now, fetch.stream, fetch.range.len());
        if fetch.alone {
            for frame in &fetch.frames {
                self.alone.remove(frame);
            }
        }
        Some(fetch)
    }

    /// The fetch for one read alone that fills a frame.
    pub(super) fn fills(&self, frame: FrameId) -> Option<FetchId> {
        self.alone.get(&frame).copied()
    }

    /// A stream has one fetch less.
    fn forget(&mut self, stream: StreamId) {
        if let Some(fetches) = self.streams.get_mut(&stream) {
            *fetches -= 1;
            if *fetches == 0 {
                self.streams.remove(&stream);
            }
        }
    }

    /// The first fetch of a queue that may go.
    fn first(&self, now: Instant, line: Queue) -> Option<FetchId> {
        let queue = if line == Queue::Demand { &self.demand } else { &self.ahead };
        let goes =
            |id: &&FetchId| self.waiting(**id, line).is_some_and(|fetch| self.turns.may_go(now, fetch));
        queue.iter().find(goes).copied()
    }

    /// Drops from the front of a queue what does not wait there any more.
    fn drop_front(&mut self, line: Queue) {
        while let Some(id) = self.line(line).front().copied()
            && self.waiting(id, line).is_none()
        {
            self.line(line).pop_front();
        }
    }

    /// A fetch, if it waits in this queue.
    fn waiting(&self, id: FetchId, line: Queue) -> Option<&Fetch> {
        let waits = |fetch: &&Fetch| fetch.progress.issued.is_none() && fetch.progress.line == line;
        self.fetches.get(&id).filter(waits)
    }

    fn line(&mut self, line: Queue) -> &mut VecDeque<FetchId> {
        match line {
            Queue::Held => &mut self.held,
            Queue::Demand => &mut self.demand,
            Queue::Ahead => &mut self.ahead,
        }
    }
}
