//! Waiting requests in order of their sectors and in order of their arrival, for every scheduler except noop.
//! All operations take O(log n).

use crate::block::{Request, RequestId};
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The kernel's clock tick: i386 of Linux 2.6.3 and 2.6.10 counts 1000 a second. What a kernel measures in
/// ticks is modelled in ticks, with their rounding.
pub(super) const TICK: Nanos = Nanos::from_millis(1);

/// The number of ticks that have passed at a time.
pub(super) fn ticks(now: Instant) -> u64 {
    now.get() / TICK.get()
}

/// The time of this tick.
pub(super) fn at_tick(ticks: u64) -> Instant {
    Instant(ticks * TICK.get())
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRequest {
    pub(super) request: Request,
    /// The tick after which it has waited too long.
    pub(super) expires: u64,
    /// Its place among requests that begin at the same sector.
    order: u64,
    /// Its place in order of arrival.
    age: u64,
}

/// Waiting requests of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestQueue {
    entries: FxHashMap<RequestId, WaitingRequest>,
    by_sector: BTreeMap<(Lba, u64), RequestId>,
    by_age: BTreeMap<u64, RequestId>,
    arrivals: u64,
}

impl RequestQueue {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, id: RequestId) -> Option<&WaitingRequest> {
        self.entries.get(&id)
    }

    pub(super) fn insert(&mut self, request: Request, expires: u64) {
        self.arrivals += 1;
        let (order, age) = (self.arrivals, self.arrivals);
        self.by_sector.insert((request.range.start, order), request.id);
        self.by_age.insert(age, request.id);
        self.entries.insert(request.id, WaitingRequest { request, expires, order, age });
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<WaitingRequest> {
        let entry = self.entries.remove(&id)?;
        self.by_sector.remove(&(entry.request.range.start, entry.order));
        self.by_age.remove(&entry.age);
        Some(entry)
    }

    /// A request covers another range from now on; returns whether it waits here.
    pub(super) fn grow(&mut self, id: RequestId, range: SectorSpan) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let start = std::mem::replace(&mut entry.request.range, range).start;
        if start != range.start {
            let order = entry.order;
            self.by_sector.remove(&(start, order));
            self.by_sector.insert((range.start, order), id);
        }
        true
    }

    /// Merges one request into another, which takes its place in order of arrival if that was earlier. Returns
    /// the merged one.
    pub(super) fn absorb(
        &mut self,
        kept: RequestId,
        gone: RequestId,
        range: SectorSpan,
    ) -> Option<WaitingRequest> {
        let gone = self.remove(gone);
        self.grow(kept, range);
        if let (Some(entry), Some(gone)) = (self.entries.get_mut(&kept), &gone)
            && gone.age < entry.age
        {
            self.by_age.remove(&entry.age);
            (entry.age, entry.expires) = (gone.age, gone.expires);
            self.by_age.insert(entry.age, kept);
        }
        gone
    }

    /// The request that has waited longest.
    pub(super) fn oldest(&self) -> Option<&WaitingRequest> {
        self.by_age.first_key_value().and_then(|(_, id)| self.get(*id))
    }

    /// The request with the lowest sector.
    pub(super) fn lowest(&self) -> Option<&WaitingRequest> {
        self.by_sector.first_key_value().and_then(|(_, id)| self.get(*id))
    }

    /// The nearest request that begins here or further on.
    pub(super) fn ahead(&self, from: Lba) -> Option<&WaitingRequest> {
        self.by_sector.range((from, 0)..).next().and_then(|(_, id)| self.get(*id))
    }

    /// The nearest request that begins before this.
    pub(super) fn behind(&self, from: Lba) -> Option<&WaitingRequest> {
        self.by_sector.range(..(from, 0)).next_back().and_then(|(_, id)| self.get(*id))
    }

    /// The next ascending request, or the lowest.
    pub(super) fn ascending(&self, head: Lba) -> Option<&WaitingRequest> {
        self.ahead(head).or_else(|| self.lowest())
    }

    /// The next ascending request, unless the way back to one behind is less than half as long.
    pub(super) fn elevator(&self, head: Lba, back: Sectors) -> Option<&WaitingRequest> {
        let behind = self.behind(head).filter(|entry| head - entry.request.range.start <= back);
        match (self.ahead(head), behind) {
            (Some(ahead), Some(behind)) => {
                let (up, down) = (ahead.request.range.start - head, head - behind.request.range.start);
                // Twice the cost; of equal costs, the higher sector.
                Some(if down * 2 < up { behind } else { ahead })
            }
            (Some(one), None) | (None, Some(one)) => Some(one),
            (None, None) => self.lowest(),
        }
    }
}
