//! Fetches that were asked for and have not ended: those under way and those that wait for their turn.
//!
//! So many are under way at once as the settings allow; of those that wait, demand goes first.
//! Fetches that lie together are issued together, so that a device sees one request, or several in a
//! row that it serves in one visit. The first to an idle device goes [apart](Dispatch::apart).
//!
//! # A single reader
//!
//! While all fetches are one stream's, they are *deferred* and handed out one by one: so many are under way as
//! keep the device reading ([`Pace`]), and the next follows as one ends. When a reader stops, the rest is
//! [cancelled](FetchTable::cancel): a request cannot be cancelled once it is dispatched. No longer deferred is
//!
//! - what a read waits for, and all before it: they go at once;
//! - everything, as soon as another stream asks for something: it goes before that. A device with several streams
//!   sees their visits whole, or it would go to and fro between them.
//!
//! How much is deferred is bounded as all that is read ahead, by the ceiling of the prefetch cache.

use super::pace::{LEAST, Pace, Way};
use super::reads::Ticket;
use foreseek_seam::objects::Slot;
use foreseek_seam::{FetchId, FrameId, ObjectId, ProcessId, StreamId, Urgency};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A fetch.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Whose read led to it.
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) object: ObjectId,
    pub(super) range: PageSpan,
    /// One a page.
    pub(super) frames: Vec<FrameId>,
    /// That of its visit: what lies beside a page that somebody waits for is fetched with it.
    pub(super) urgency: Urgency,
    /// Whether it lies right after the fetch that was asked for before it.
    pub(super) follows: bool,
    /// Whether it was made for one read, after a failure.
    pub(super) alone: bool,
    /// The reads that wait for it.
    pub(super) waiters: Vec<Ticket>,
    /// For whom.
    pub(super) who: ProcessId,
    /// How many of its pages are ahead of what was read when it was asked for.
    pub(super) ahead: Pages,
    /// When it was asked for.
    pub(super) asked: Instant,
    /// How far it is; none at first.
    pub(super) progress: Progress,
}

/// How far a fetch is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// When it was handed to the driver, if it is under way.
    pub(super) issued: Option<Instant>,
    /// How it was handed out, if its reader was alone.
    pub(super) way: Option<Way>,
    /// Whether it was handed to the driver ever.
    tried: bool,
    /// Where it waits, if it does.
    line: Queue,
}

/// Where a fetch waits for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Queue {
    /// Deferred for a single reader.
    #[default]
    Held,
    /// Before what is read ahead.
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

/// A fetch whose turn it is.
#[derive(Debug)]
pub(super) struct Dispatch<'a> {
    pub(super) id: FetchId,
    pub(super) fetch: &'a Fetch,
    /// It finds the device idle, and goes by itself: who waits for it has it as soon as it is read and not when all
    /// that lies beside it is, of which a block layer would make one request; and the device is sent there no
    /// second time for the rest.
    pub(super) apart: bool,
    /// Whether it was handed out before.
    pub(super) again: bool,
}

/// All fetches that have not ended.
#[derive(Debug)]
pub(super) struct FetchTable {
    fetches: FxHashMap<FetchId, Fetch>,
    /// How many of them are each stream's.
    streams: FxHashMap<StreamId, usize>,
    /// Those that are deferred, in order: all of one stream, as all others are.
    held: VecDeque<FetchId>,
    /// Those that wait, demand and ahead. One that was moved up is still in the second.
    demand: VecDeque<FetchId>,
    ahead: VecDeque<FetchId>,
    /// The frames into which fetches go that were made for one read alone.
    alone: FxHashMap<FrameId, FetchId>,
    next: u64,
    limit: usize,
    under_way: usize,
    /// Pages under way.
    pages: Pages,
    /// Whether more than one visit was under way at a time since none was.
    crowded: bool,
    /// Where the fetch that was issued last ends.
    last: Option<(ObjectId, PageIndex)>,
}

impl FetchTable {
    pub(super) fn new(limit: u32) -> Self {
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
        }
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// How many wait.
    pub(super) fn queued(&self) -> usize {
        self.fetches.len() - self.under_way
    }

    /// How many of those that wait are deferred.
    pub(super) fn deferred(&self) -> usize {
        self.held.len()
    }

    /// How many wait and are not deferred.
    pub(super) fn pressing(&self) -> usize {
        self.queued() - self.held.len()
    }

    /// Asks for one; it waits for its turn.
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
        self.fetches.insert(id, fetch);
        id
    }

    /// Whether nobody but this stream has fetches.
    pub(super) fn is_single(&self, stream: StreamId) -> bool {
        self.streams.keys().all(|one| *one == stream)
    }

    /// A stream wants something of the device: what is deferred for another goes first.
    pub(super) fn wanted_by(&mut self, stream: StreamId) {
        let others =
            self.held.back().filter(|id| self.fetches.get(id).is_some_and(|held| held.stream != stream));
        if let Some(last) = others.copied() {
            self.release(last);
        }
    }

    /// What is deferred up to a fetch goes at once.
    fn release(&mut self, last: FetchId) {
        while let Some(id) = self.held.front().copied().filter(|id| *id <= last) {
            self.held.pop_front();
            if let Some(fetch) = self.fetches.get_mut(&id) {
                fetch.progress.line = Queue::Demand;
                self.demand.push_back(id);
            }
        }
    }

    /// Cancels those that are deferred and of which this is true.
    pub(super) fn cancel(&mut self, goes: impl Fn(&Fetch) -> bool) -> Vec<(FetchId, Fetch)> {
        let gone = |id: &FetchId| self.fetches.get(id).is_some_and(&goes);
        let (gone, held): (VecDeque<_>, VecDeque<_>) = self.held.iter().copied().partition(gone);
        self.held = held;
        let taken: Vec<_> = gone.into_iter().filter_map(|id| Some((id, self.fetches.remove(&id)?))).collect();
        taken.iter().for_each(|(_, fetch)| self.forget(fetch.stream));
        taken
    }

    /// Whether this is one of them.
    pub(super) fn has(&self, id: FetchId) -> bool {
        self.fetches.contains_key(&id)
    }

    /// A read waits for a fetch. False where it did so already.
    pub(super) fn join(&mut self, id: FetchId, ticket: Ticket) -> bool {
        let Some(fetch) = self.fetches.get_mut(&id) else { return false };
        let joins = fetch.waiters.last() != Some(&ticket);
        if joins {
            fetch.waiters.push(ticket);
        }
        joins
    }

    /// Somebody waits for a fetch: it goes before what is read ahead, and with it what lies right after
    /// it, which would cost a visit of its own later.
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

    /// The next one to be issued, if it is one's turn.
    pub(super) fn issue(&mut self, now: Instant, pace: &Pace) -> Option<Dispatch<'_>> {
        let held = if self.needs_more(pace) { self.held.front().copied() } else { None };
        let id = self.front(Queue::Demand).or_else(|| self.front(Queue::Ahead)).or(held)?;
        let single = self.streams.len() == 1;
        let fetch = self.fetches.get_mut(&id)?;
        // A visit is not torn apart, unless it is longer than all that may be under way.
        let limit = if fetch.follows { self.limit * 2 } else { self.limit };
        if self.under_way >= limit {
            return None;
        }
        fetch.progress.issued = Some(now);
        let (line, again) = (fetch.progress.line, std::mem::replace(&mut fetch.progress.tried, true));
        fetch.progress.way = single.then_some(pace.way());
        let goes_on = self.last == Some((fetch.object, fetch.range.start));
        self.last = Some((fetch.object, fetch.range.end));
        self.pages += fetch.range.len();
        let apart = self.under_way == 0;
        self.crowded = !apart && (self.crowded || !goes_on);
        self.under_way += 1;
        self.line(line).pop_front();
        self.fetches.get(&id).map(|fetch| Dispatch { id, fetch, apart, again })
    }

    /// Whether more than one visit was under way at a time since none was.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Whether one could be issued.
    pub(super) fn has_turn(&self, pace: &Pace) -> bool {
        let held = !self.held.is_empty() && self.needs_more(pace);
        self.under_way < self.limit && (held || self.pressing() > 0)
    }

    /// Whether what is under way might not keep the device reading.
    fn needs_more(&self, pace: &Pace) -> bool {
        self.under_way < LEAST || self.pages < pace.window()
    }

    /// The driver could not take one now: it waits again, before all others.
    pub(super) fn put_back(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.progress.issued.is_some()) {
            fetch.progress.issued = None;
            fetch.progress.line = fetch.urgency.into();
            let line = fetch.progress.line;
            self.under_way -= 1;
            self.pages -= fetch.range.len();
            self.line(line).push_front(id);
        }
    }

    /// One has ended. None where it was not under way.
    pub(super) fn end(&mut self, id: FetchId) -> Option<Fetch> {
        self.fetches.get(&id).filter(|fetch| fetch.progress.issued.is_some())?;
        let fetch = self.fetches.remove(&id)?;
        self.under_way -= 1;
        self.pages -= fetch.range.len();
        self.forget(fetch.stream);
        if fetch.alone {
            for frame in &fetch.frames {
                self.alone.remove(frame);
            }
        }
        Some(fetch)
    }

    /// The fetch for one read alone that goes into a frame.
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

    /// The first of a line that still waits in it.
    fn front(&mut self, line: Queue) -> Option<FetchId> {
        loop {
            let id = *self.line(line).front()?;
            let waits = |fetch: &Fetch| fetch.progress.issued.is_none() && fetch.progress.line == line;
            if self.fetches.get(&id).is_some_and(waits) {
                return Some(id);
            }
            self.line(line).pop_front();
        }
    }

    fn line(&mut self, line: Queue) -> &mut VecDeque<FetchId> {
        match line {
            Queue::Held => &mut self.held,
            Queue::Demand => &mut self.demand,
            Queue::Ahead => &mut self.ahead,
        }
    }
}
