//! Fetches that were requested and have not ended: those in flight and those that are queued.
//!
//! The settings limit the number in flight; of the queued ones, demand goes first. Adjacent fetches are
//! issued together, so that the device gets one request, or several that it serves in one visit. The first
//! fetch to an idle device is issued [apart](Dispatch::apart).
//!
//! # Visits
//!
//! A *visit* is a run of pages that takes several fetches. A disk with several visits in its queue serves pieces
//! of each in turn, whichever it reaches sooner. It then pays the positioning of a visit several times. Therefore:
//!
//! - Visits in flight together have a limit ([`FetchTable::issue`]): many short ones, or one long one. The next
//!   one begins when there is room, or when the device is nearly done ([`Pace::until_next_visit`]).
//! - The next visit is the next one by place (C-LOOK).
//! - The fetch that continues the last one issued goes first: it needs no positioning. It does so for
//!   [`SLICE`] while others wait.
//! - A visit of one fetch cannot be served in pieces, and does not wait.
//!
//! An array or a remote volume serves several requests at once: there no visit waits.
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
//! The ceiling of the prefetch cache bounds the deferred pages, as it bounds everything that is read ahead.

use super::pace::{LEAST, Pace, Way};
use super::reads::Ticket;
use foreseek_seam::objects::Slot;
use foreseek_seam::{FetchId, FrameId, ObjectId, ProcessId, StreamId, Urgency};
use foreseek_units::{Instant, Lba, Nanos, PageIndex, PageSpan, Pages};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};

/// How long a stream may keep the device while others wait: CFQ's time slice (`slice_sync`, block/cfq-iosched.c of
/// Linux 2.6.18).
const SLICE: Nanos = Nanos::from_millis(100);

/// A fetch.
#[derive(Debug)]
pub(super) struct Fetch {
    /// The stream whose read led to it.
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) object: ObjectId,
    pub(super) range: PageSpan,
    /// The place of its first page, or a place of its own order where that is unknown.
    pub(super) place: Lba,
    /// One for each page.
    pub(super) frames: Vec<FrameId>,
    /// The urgency of its visit: pages next to an awaited page are fetched with it.
    pub(super) urgency: Urgency,
    /// Whether it begins where the fetch requested before it ends.
    pub(super) follows: bool,
    /// Whether its visit has other fetches, too.
    pub(super) of_visit: bool,
    /// The length of its visit.
    pub(super) visit: Pages,
    /// Whether it is for one read, after a failure.
    pub(super) alone: bool,
    /// The reads that wait for it.
    pub(super) waiters: Vec<Ticket>,
    /// The process that reads.
    pub(super) who: ProcessId,
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
    DemandVisits,
    Ahead,
    AheadVisits,
}

impl Queue {
    /// The queue of a fetch that is not deferred.
    fn of(urgency: Urgency, of_visit: bool) -> Self {
        match (urgency, of_visit) {
            (Urgency::Demand, false) => Self::Demand,
            (Urgency::Demand, true) => Self::DemandVisits,
            (Urgency::Prefetch, false) => Self::Ahead,
            (Urgency::Prefetch, true) => Self::AheadVisits,
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
    /// The queued ones that are not deferred. A fetch that was moved up or issued out of order is still in its old queue.
    demand: VecDeque<FetchId>,
    demand_visits: VecDeque<FetchId>,
    ahead: VecDeque<FetchId>,
    ahead_visits: VecDeque<FetchId>,
    /// The queued ones of visits by place, demand and ahead.
    demand_places: BTreeSet<(Lba, FetchId)>,
    ahead_places: BTreeSet<(Lba, FetchId)>,
    /// The queued ones that are not deferred, by their first page.
    begins: FxHashMap<(ObjectId, PageIndex), FetchId>,
    /// Whether visits are kept apart.
    one_head: bool,
    /// The frames that fetches for one read alone fill.
    alone: FxHashMap<FrameId, FetchId>,
    next: u64,
    limit: usize,
    under_way: usize,
    /// Pages in flight.
    pages: Pages,
    /// Fetches of visits in flight.
    of_visits: usize,
    /// Their pages.
    pages_of_visits: Pages,
    /// Whether more than one visit has been in flight at a time since the device was last idle.
    crowded: bool,
    /// The end of the fetch that was issued last.
    last: Option<(ObjectId, PageIndex)>,
    head: Lba,
    /// The issue time of the last fetch that did not continue the one before it.
    since: Instant,
}

impl FetchTable {
    /// `limit`: fetches in flight. `one_head`: the device serves one request at a time.
    pub(super) fn new(limit: u32, one_head: bool) -> Self {
        Self {
            fetches: FxHashMap::default(),
            streams: FxHashMap::default(),
            held: VecDeque::new(),
            demand: VecDeque::new(),
            demand_visits: VecDeque::new(),
            ahead: VecDeque::new(),
            ahead_visits: VecDeque::new(),
            demand_places: BTreeSet::new(),
            ahead_places: BTreeSet::new(),
            begins: FxHashMap::default(),
            one_head,
            alone: FxHashMap::default(),
            next: 0,
            limit: limit as usize,
            under_way: 0,
            pages: Pages::ZERO,
            of_visits: 0,
            pages_of_visits: Pages::ZERO,
            crowded: false,
            last: None,
            head: Lba::ZERO,
            since: Instant::ZERO,
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
    pub(super) fn ask(&mut self, fetch: Fetch) -> FetchId {
        let id = FetchId(self.next);
        self.next += 1;
        self.wanted_by(fetch.stream);
        let held = self.is_single(fetch.stream) && !fetch.alone;
        if held {
            self.held.push_back(id);
        }
        let line = Queue::of(fetch.urgency, fetch.of_visit);
        if fetch.alone {
            self.alone.extend(fetch.frames.iter().map(|frame| (*frame, id)));
        }
        *self.streams.entry(fetch.stream).or_default() += 1;
        self.fetches.insert(id, fetch);
        if !held {
            self.enqueue(id, line);
        }
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
            if let Some(fetch) = self.fetches.get(&id) {
                self.enqueue(id, Queue::of(Urgency::Demand, fetch.of_visit));
            }
        }
    }

    /// Puts a fetch into a queue.
    fn enqueue(&mut self, id: FetchId, line: Queue) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        let before = std::mem::replace(&mut fetch.progress.line, line);
        let (begin, place) = ((fetch.object, fetch.range.start), fetch.place);
        self.begins.insert(begin, id);
        if let Some(places) = self.places(before) {
            places.remove(&(place, id));
        }
        if let Some(places) = self.places(line) {
            places.insert((place, id));
        }
        self.line(line).push_back(id);
    }

    /// Cancels the deferred fetches for which this is true.
    pub(super) fn cancel(&mut self, goes: impl Fn(&Fetch) -> bool) -> Vec<(FetchId, Fetch)> {
        let gone = |id: &FetchId| self.fetches.get(id).is_some_and(&goes);
        let (gone, held): (VecDeque<_>, VecDeque<_>) = self.held.iter().copied().partition(gone);
        self.held = held;
        self.take(gone.into())
    }

    /// Cancels a stream's queued fetches of visits for which no read waits.
    pub(super) fn cancel_visits(&mut self, stream: StreamId) -> Vec<(FetchId, Fetch)> {
        let gone = self.visits_of(stream, |fetch| fetch.waiters.is_empty());
        self.take(gone)
    }

    /// Issues a stream's queued fetches of visits without regard to other visits.
    pub(super) fn release_visits(&mut self, stream: StreamId) {
        for id in self.visits_of(stream, |_| true) {
            if let Some(fetch) = self.fetches.get_mut(&id) {
                fetch.of_visit = false;
            }
            self.enqueue(id, Queue::Demand);
        }
    }

    /// A stream's queued fetches of visits for which this is true.
    fn visits_of(&self, stream: StreamId, filter: impl Fn(&Fetch) -> bool) -> Vec<FetchId> {
        if !self.streams.contains_key(&stream) {
            return Vec::new();
        }
        let of = |line: Queue| {
            self.queue(line).iter().copied().filter(move |id| self.waits_in(*id, line)).filter(|id| {
                self.fetches.get(id).is_some_and(|fetch| fetch.stream == stream && filter(fetch))
            })
        };
        of(Queue::DemandVisits).chain(of(Queue::AheadVisits)).collect()
    }

    fn take(&mut self, gone: Vec<FetchId>) -> Vec<(FetchId, Fetch)> {
        let taken: Vec<_> = gone.into_iter().filter_map(|id| Some((id, self.fetches.remove(&id)?))).collect();
        for (id, fetch) in &taken {
            self.forget(fetch.stream);
            self.unlist(*id, (fetch.object, fetch.range.start), fetch.place, fetch.progress.line);
        }
        taken
    }

    /// A fetch is queued no longer.
    fn unlist(&mut self, id: FetchId, begin: (ObjectId, PageIndex), place: Lba, line: Queue) {
        if self.begins.get(&begin) == Some(&id) {
            self.begins.remove(&begin);
        }
        if let Some(places) = self.places(line) {
            places.remove(&(place, id));
        }
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
            if matches!(fetch.progress.line, Queue::Ahead | Queue::AheadVisits) {
                let line = Queue::of(Urgency::Demand, fetch.of_visit);
                self.enqueue(at, line);
            }
            at = FetchId(at.0 + 1);
        }
    }

    /// Issues the next fetch, if one may go. `together`: the limit for the pages of visits in flight; one visit always
    /// may go.
    pub(super) fn issue(&mut self, now: Instant, pace: &Pace, together: Pages) -> Option<Dispatch<'_>> {
        let id = self.next_turn(now, pace, together)?;
        let single = self.streams.len() == 1;
        let fetch = self.fetches.get_mut(&id)?;
        fetch.progress.issued = Some(now);
        let again = std::mem::replace(&mut fetch.progress.tried, true);
        fetch.progress.way = single.then_some(pace.way());
        let goes_on = self.last == Some((fetch.object, fetch.range.start));
        self.last = Some((fetch.object, fetch.range.end));
        self.pages += fetch.range.len();
        if fetch.of_visit {
            self.of_visits += 1;
            self.pages_of_visits += fetch.range.len();
        }
        let (begin, place, line) = ((fetch.object, fetch.range.start), fetch.place, fetch.progress.line);
        self.head = place + fetch.range.len().sectors();
        let apart = self.under_way == 0;
        self.crowded = !apart && (self.crowded || !goes_on);
        self.under_way += 1;
        if !goes_on {
            self.since = now;
        }
        self.unlist(id, begin, place, line);
        for line in [Queue::Held, Queue::Demand, Queue::DemandVisits, Queue::Ahead, Queue::AheadVisits] {
            self.drop_front(line);
        }
        self.fetches.get(&id).map(|fetch| Dispatch { id, fetch, apart, again })
    }

    /// The fetch to issue next, if one may go.
    fn next_turn(&self, now: Instant, pace: &Pace, together: Pages) -> Option<FetchId> {
        if self.under_way >= self.limit * 2 {
            return None;
        }
        let goes_on = self.goes_on();
        // A visit is not split, unless it is longer than the limit in flight.
        let follows = |id: &FetchId| self.fetches.get(id).is_some_and(|fetch| fetch.follows);
        if let Some(id) = goes_on.filter(follows) {
            return Some(id);
        }
        if self.under_way >= self.limit {
            return None;
        }
        let stays = now - self.since < SLICE;
        let visit = |line: Queue| {
            self.next_visit(line).filter(|(_, length)| {
                !self.one_head
                    || self.of_visits == 0
                    || self.pages_of_visits < pace.until_next_visit()
                    || self.pages_of_visits + *length <= together
            })
        };
        let turn =
            |single: Queue, visits: Queue| self.front(single).or_else(|| visit(visits).map(|(id, _)| id));
        let held = || self.front(Queue::Held).filter(|_| self.needs_more(pace));
        goes_on
            .filter(|_| self.one_head && stays)
            .or_else(|| turn(Queue::Demand, Queue::DemandVisits))
            .or_else(|| turn(Queue::Ahead, Queue::AheadVisits))
            .or_else(held)
    }

    /// The next visit by place (C-LOOK), and its length.
    fn next_visit(&self, line: Queue) -> Option<(FetchId, Pages)> {
        let places = if line == Queue::DemandVisits { &self.demand_places } else { &self.ahead_places };
        let next = places.range((self.head, FetchId(0))..).next().or_else(|| places.first());
        let id = if self.one_head { next.map(|(_, id)| *id) } else { self.front(line) }?;
        self.fetches.get(&id).map(|fetch| (id, fetch.visit))
    }

    fn places(&mut self, line: Queue) -> Option<&mut BTreeSet<(Lba, FetchId)>> {
        match line {
            Queue::DemandVisits => Some(&mut self.demand_places),
            Queue::AheadVisits => Some(&mut self.ahead_places),
            Queue::Held | Queue::Demand | Queue::Ahead => None,
        }
    }

    /// The queued fetch that continues the last one issued.
    fn goes_on(&self) -> Option<FetchId> {
        self.begins.get(&self.last?).copied()
    }

    /// Whether more than one visit has been in flight at a time since the device was last idle.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Whether a fetch could be issued.
    pub(super) fn has_turn(&self, now: Instant, pace: &Pace, together: Pages) -> bool {
        self.next_turn(now, pace, together).is_some()
    }

    /// Whether the fetches in flight may not keep the device reading.
    fn needs_more(&self, pace: &Pace) -> bool {
        self.under_way < LEAST || self.pages < pace.window()
    }

    /// The driver was busy: the fetch is queued again, before all others.
    pub(super) fn put_back(&mut self, id: FetchId) {
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.progress.issued.is_some()) else {
            return;
        };
        fetch.progress.issued = None;
        let line = Queue::of(fetch.urgency, fetch.of_visit);
        fetch.progress.line = line;
        let (begin, pages, of_visit) = ((fetch.object, fetch.range.start), fetch.range.len(), fetch.of_visit);
        let place = fetch.place;
        if let Some(places) = self.places(line) {
            places.insert((place, id));
        }
        self.returned(pages, of_visit);
        self.begins.insert(begin, id);
        self.last = Some(begin);
        self.line(line).push_front(id);
    }

    /// A fetch is in flight no longer.
    fn returned(&mut self, pages: Pages, of_visit: bool) {
        self.under_way -= 1;
        self.pages -= pages;
        if of_visit {
            self.of_visits -= 1;
            self.pages_of_visits -= pages;
        }
    }

    /// A fetch has ended. `None` where it was not in flight.
    pub(super) fn end(&mut self, id: FetchId) -> Option<Fetch> {
        self.fetches.get(&id).filter(|fetch| fetch.progress.issued.is_some())?;
        let fetch = self.fetches.remove(&id)?;
        self.returned(fetch.range.len(), fetch.of_visit);
        self.forget(fetch.stream);
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

    /// The first fetch that still waits in a queue.
    fn front(&self, line: Queue) -> Option<FetchId> {
        self.queue(line).iter().copied().find(|id| self.waits_in(*id, line))
    }

    /// Drops from the front of a queue what does not wait there.
    fn drop_front(&mut self, line: Queue) {
        while self.queue(line).front().is_some_and(|id| !self.waits_in(*id, line)) {
            self.line(line).pop_front();
        }
    }

    fn waits_in(&self, id: FetchId, line: Queue) -> bool {
        let waits = |fetch: &Fetch| fetch.progress.issued.is_none() && fetch.progress.line == line;
        self.fetches.get(&id).is_some_and(waits)
    }

    fn queue(&self, line: Queue) -> &VecDeque<FetchId> {
        match line {
            Queue::Held => &self.held,
            Queue::Demand => &self.demand,
            Queue::DemandVisits => &self.demand_visits,
            Queue::Ahead => &self.ahead,
            Queue::AheadVisits => &self.ahead_visits,
        }
    }

    fn line(&mut self, line: Queue) -> &mut VecDeque<FetchId> {
        match line {
            Queue::Held => &mut self.held,
            Queue::Demand => &mut self.demand,
            Queue::DemandVisits => &mut self.demand_visits,
            Queue::Ahead => &mut self.ahead,
            Queue::AheadVisits => &mut self.ahead_visits,
        }
    }
}
