//! The pages that are cached and those in flight.

use foreseek_cache::{Activity, Evicted, Mark, PrefetchCache};
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_seam::{FetchId, FrameId};
use foreseek_units::{Nanos, PageIndex, PageSpan, Pages, Span};
use rustc_hash::FxHashMap;

/// A page in the prefetch cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) frame: FrameId,
    /// The prefetcher's marker.
    pub(super) marker: bool,
    /// Fetched ahead, and not read yet.
    pub(super) ahead: bool,
}

/// A page in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flying {
    pub(super) fetch: FetchId,
    pub(super) held: Held,
    /// A read that waits for it will take it over.
    pub(super) claimed: bool,
}

/// How a page is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Here(Held),
    Flying(Flying),
    Absent,
}

/// All pages that are cached or in flight.
#[derive(Debug)]
pub(super) struct Table {
    cache: PrefetchCache<PageKey, Held>,
    flying: FxHashMap<PageKey, Flying>,
    /// How many of those in flight were fetched ahead.
    flying_ahead: u64,
}

impl Table {
    pub(super) fn new() -> Self {
        // Zero follows the paper literally: a process that has run since had its opportunity.
        let cache = PrefetchCache::new(Nanos::ZERO);
        Self { cache, flying: FxHashMap::default(), flying_ahead: 0 }
    }

    pub(super) fn cached(&self) -> Pages {
        self.cache.len()
    }

    /// Pages in the prefetch cache and those in flight to it.
    pub(super) fn ahead(&self) -> Pages {
        self.cache.len() + Pages(self.flying_ahead)
    }

    pub(super) fn has(&self, key: &PageKey) -> bool {
        self.flying.contains_key(key) || self.cache.contains(key)
    }

    pub(super) fn state(&self, key: &PageKey) -> State {
        match (self.flying.get(key), self.cache.get(key)) {
            (Some(flying), _) => State::Flying(*flying),
            (_, Some(held)) => State::Here(*held),
            _ => State::Absent,
        }
    }

    /// Takes the marker off a page.
    pub(super) fn unmark(&mut self, key: &PageKey) {
        if let Some(held) = self.held_mut(key) {
            held.marker = false;
        }
    }

    /// A page is requested. False where another fetch already had it in flight; that fetch loses it.
    #[must_use]
    pub(super) fn asked(&mut self, key: PageKey, flying: Flying) -> bool {
        self.flying_ahead += u64::from(flying.held.ahead);
        let before = self.flying.insert(key, flying);
        self.flying_ahead -= before.map_or(0, |before| u64::from(before.held.ahead));
        before.is_none()
    }

    /// A page that is cached or in flight is read. Returns whether it was fetched ahead and this is its first
    /// use. With `whole` the read takes it over; otherwise it stays.
    pub(super) fn used(&mut self, key: &PageKey, whole: bool) -> bool {
        if let Some(flying) = self.flying.get_mut(key) {
            let first = std::mem::take(&mut flying.held.ahead);
            flying.claimed |= whole;
            self.flying_ahead -= u64::from(first);
            return first;
        }
        let first = self.cache.get_mut(key).is_some_and(|held| std::mem::take(&mut held.ahead));
        if whole {
            self.cache.take(key);
        }
        first
    }

    /// A page of a fetch has arrived, or will not. `None` where a change or a later fetch has overtaken it.
    pub(super) fn ended(&mut self, key: &PageKey, fetch: FetchId) -> Option<Flying> {
        let flying = self.flying.get(key).filter(|flying| flying.fetch == fetch).copied()?;
        self.flying.remove(key);
        self.flying_ahead -= u64::from(flying.held.ahead);
        Some(flying)
    }

    /// Puts a page that has arrived into the prefetch cache. Returns the page that was cached there, which
    /// must be none.
    #[must_use]
    pub(super) fn keep(&mut self, key: PageKey, held: Held, mark: Mark) -> Option<Held> {
        self.cache.insert(key, held, mark, false)
    }

    /// Evicts a page by the second-chance rule.
    pub(super) fn evict(&mut self, activity: &Activity) -> Option<Evicted<PageKey, Held>> {
        self.cache.evict(activity)
    }

    /// Forgets the pages of a range that changed. Pages in flight will not be kept. Calls `gone` with the
    /// frame of each page that was cached. The cost is that of the range or of all pages, whichever is less.
    pub(super) fn overtake(&mut self, slot: Slot, range: PageSpan, mut gone: impl FnMut(FrameId)) -> Pages {
        let before = self.cache.len().get() + self.flying.len() as u64;
        let range = range.intersection(Span::new(PageIndex::ZERO, PageKey::END));
        let within = |key: &PageKey| key.slot() == slot && range.contains(key.page());
        let keys = || range.iter().map(|page| PageKey::within(slot, page));
        self.cache.take_all(keys(), within, |_, held| gone(held.frame));
        let mut ahead = 0;
        if keys().len() <= self.flying.len() {
            for key in keys() {
                ahead += self.flying.remove(&key).map_or(0, |flying| u64::from(flying.held.ahead));
            }
        } else {
            self.flying.retain(|key, flying| {
                let gone = within(key);
                ahead += u64::from(gone && flying.held.ahead);
                !gone
            });
        }
        self.flying_ahead -= ahead;
        Pages(before - self.cache.len().get() - self.flying.len() as u64)
    }

    fn held_mut(&mut self, key: &PageKey) -> Option<&mut Held> {
        match self.flying.get_mut(key) {
            Some(flying) => Some(&mut flying.held),
            None => self.cache.get_mut(key),
        }
    }
}
