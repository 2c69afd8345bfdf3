//! Fetches that were asked for and have not ended: those under way and those that wait for their turn.
//!
//! So many are under way at once as the settings allow; of those that wait, demand goes first.
//! Fetches that lie together are issued together, so that a device sees one request, or several in a
//! row that it serves in one visit.

use super::reads::Ticket;
use crate::engine::{FetchId, FrameId, ObjectId, Urgency, Who};
use crate::objects::Slot;
use foreseek_units::{Instant, PageIndex, PageSpan};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A fetch.
#[derive(Debug)]
pub(super) struct Fetch {
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
    pub(super) who: Who,
    /// When it was handed to the driver.
    pub(super) issued: Option<Instant>,
    /// When it was asked for.
    pub(super) asked: Instant,
}

/// All fetches that have not ended.
#[derive(Debug)]
pub(super) struct Flight {
    fetches: FxHashMap<FetchId, Fetch>,
    /// Those that wait, demand and ahead. One that was moved up is still in the second.
    demand: VecDeque<FetchId>,
    ahead: VecDeque<FetchId>,
    /// The frames into which fetches go that were made for one read alone.
    alone: FxHashMap<FrameId, FetchId>,
    next: u64,
    limit: usize,
    under_way: usize,
    /// Whether more than one visit was under way at a time since none was.
    crowded: bool,
    /// Where the fetch that was issued last ends.
    last: Option<(ObjectId, PageIndex)>,
}

impl Flight {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            fetches: FxHashMap::default(),
            demand: VecDeque::new(),
            ahead: VecDeque::new(),
            alone: FxHashMap::default(),
            next: 0,
            limit: limit as usize,
            under_way: 0,
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

    /// Asks for one; it waits for its turn.
    pub(super) fn ask(&mut self, fetch: Fetch) -> FetchId {
        let id = FetchId(self.next);
        self.next += 1;
        self.queue(fetch.urgency).push_back(id);
        if fetch.alone {
            self.alone.extend(fetch.frames.iter().map(|frame| (*frame, id)));
        }
        self.fetches.insert(id, fetch);
        id
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
        let mut at = id;
        while let Some(fetch) = self.fetches.get_mut(&at)
            && fetch.issued.is_none()
            && fetch.urgency == Urgency::Prefetch
            && (at == id || fetch.follows)
        {
            fetch.urgency = Urgency::Demand;
            self.demand.push_back(at);
            at = FetchId(at.0 + 1);
        }
    }

    /// The next one to be issued, if it is one's turn.
    pub(super) fn issue(&mut self, now: Instant) -> Option<(FetchId, &Fetch)> {
        let urgency = [Urgency::Demand, Urgency::Prefetch]
            .into_iter()
            .find(|urgency| self.front(*urgency).is_some())?;
        let id = self.front(urgency)?;
        let fetch = self.fetches.get_mut(&id)?;
        // A visit is not torn apart, unless it is longer than all that may be under way.
        let limit = if fetch.follows { self.limit * 2 } else { self.limit };
        if self.under_way >= limit {
            return None;
        }
        fetch.issued = Some(now);
        let goes_on = self.last == Some((fetch.object, fetch.range.start));
        self.last = Some((fetch.object, fetch.range.end));
        self.crowded = self.under_way > 0 && (self.crowded || !goes_on);
        self.under_way += 1;
        self.queue(urgency).pop_front();
        self.fetches.get(&id).map(|fetch| (id, fetch))
    }

    /// Whether more than one visit was under way at a time since none was.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Whether one could be issued.
    pub(super) fn has_turn(&self) -> bool {
        self.under_way < self.limit && self.queued() > 0
    }

    /// The driver could not take one now: it waits again, before all others.
    pub(super) fn put_back(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.issued.is_some()) {
            fetch.issued = None;
            let urgency = fetch.urgency;
            self.under_way -= 1;
            self.queue(urgency).push_front(id);
        }
    }

    /// One has ended. None where it was not under way.
    pub(super) fn end(&mut self, id: FetchId) -> Option<Fetch> {
        self.fetches.get(&id).filter(|fetch| fetch.issued.is_some())?;
        self.under_way -= 1;
        let fetch = self.fetches.remove(&id)?;
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

    /// The first of a queue that still waits in it.
    fn front(&mut self, urgency: Urgency) -> Option<FetchId> {
        loop {
            let id = *self.queue(urgency).front()?;
            let waits = |fetch: &Fetch| fetch.issued.is_none() && fetch.urgency == urgency;
            if self.fetches.get(&id).is_some_and(waits) {
                return Some(id);
            }
            self.queue(urgency).pop_front();
        }
    }

    fn queue(&mut self, urgency: Urgency) -> &mut VecDeque<FetchId> {
        match urgency {
            Urgency::Demand => &mut self.demand,
            Urgency::Prefetch => &mut self.ahead,
        }
    }
}
