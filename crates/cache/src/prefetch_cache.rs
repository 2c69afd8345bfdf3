//! Pages that were prefetched and have not been referenced yet, separate from all others.
//!
//! LRU lists treat such a page as unused, since it has never been referenced. Under pressure they evict it
//! before its reader arrives, which then reads it a second time, alone (TR-840 section 2.3). Here it stays
//! until it is referenced, or until reclaim finds that its reader does not want it.
//!
//! The algorithm is that of TR-840 section 4.1. Pages form a queue in the order of their prefetching, each
//! *marked* with the time and the process for which it was prefetched. A referenced page leaves
//! ([`PrefetchCache::take`]). Reclaim examines the oldest page:
//!
//! - its process has ended: evicted;
//! - its process has run since, and did not take it: evicted. The paper requires a "significant opportunity"
//!   and gives no number: how long after the prefetch the process must have run is a setting of the cache;
//! - otherwise it gets one second chance: its mark is cleared, and it becomes the youngest. A page without a
//!   mark is evicted.
//!
//! The caller handles an evicted page: in a kernel it joins the inactive list. An exit removes an entry of
//! the [`Activity`] table, without a scan: the pages of the process are evicted when they are the oldest.
//!
//! *Held* pages (in flight, or about to be copied to a reader) are not evicted. A held page that reclaim
//! meets is put aside, and is the oldest again when it is released. Each page is therefore met once for each
//! hold, and has one second chance. A call may examine many pages. All calls together examine at most two for
//! each insertion and one for each hold.
//!
//! Keys and values are the caller's: a simulator stores nothing, a file system its buffers.

use crate::activity::{Activity, Process};
use crate::queue::{Queue, Slot};
use foreseek_units::{Instant, Nanos, Pages};
use std::hash::Hash;

/// The process for which a page was prefetched, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The process whose read made the prefetch.
    pub process: Process,
    /// The time of the prefetch.
    pub at: Instant,
}

/// Why a page is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its process has ended.
    Ended,
    /// Its process has run since the prefetch and did not reference it.
    Passed,
    /// It has had its second chance.
    Again,
}

/// A page that has been evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted<K, V> {
    /// The page.
    pub key: K,
    /// The value stored with it.
    pub value: V,
    /// Why it was chosen.
    pub reason: Reason,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    value: V,
    mark: Mark,
    /// Whether the mark is cleared: the page has had its second chance.
    void: bool,
    held: bool,
}

/// The prefetch cache.
#[derive(Clone, Debug)]
pub struct PrefetchCache<K, V> {
    entries: Queue<K, Entry<V>>,
    opportunity: Nanos,
}

impl<K: Copy + Eq + Hash, V> PrefetchCache<K, V> {
    /// An empty cache. A process that has run later than `opportunity` after a prefetch has had the
    /// opportunity to reference the page; zero follows the paper literally.
    #[must_use]
    pub fn new(opportunity: Nanos) -> Self {
        Self::with_capacity(opportunity, Pages::ZERO)
    }

    /// The same with room for this many pages, so that it need not grow later. The caller bounds the cache by
    /// evicting ([`Self::evict`], [`Self::evict_above`]).
    #[must_use]
    pub fn with_capacity(opportunity: Nanos, pages: Pages) -> Self {
        Self { entries: Queue::with_capacity(pages.get() as usize), opportunity }
    }

    /// The number of pages, including held ones.
    #[must_use]
    pub fn len(&self) -> Pages {
        Pages(self.entries.len() as u64)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// Inserts a prefetched page as the youngest. Returns the earlier value if the page was in the cache.
    pub fn insert(&mut self, key: K, value: V, mark: Mark, held: bool) -> Option<V> {
        let before = self.take(&key);
        self.entries.push(key, Entry { value, mark, void: false, held });
        before
    }

    /// Whether a page is in the cache.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.entries.find(key).is_some()
    }

    /// The value of a page.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The same, mutable.
    #[must_use]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Whether a page is in the cache and held.
    #[must_use]
    pub fn is_held(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.held)
    }

    /// Removes a page, held or not: it is referenced, or invalid.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let slot = self.entries.find(key)?;
        self.entries.remove(slot).map(|(_, entry)| entry.value)
    }

    /// Removes those of `keys` that are in the cache, and calls `gone` with each. `within` returns whether a
    /// key is one of `keys`. A range may be much longer than the cache, or the reverse: this iterates over
    /// the shorter of both.
    pub fn take_all(
        &mut self,
        keys: impl ExactSizeIterator<Item = K>,
        within: impl Fn(&K) -> bool,
        mut gone: impl FnMut(K, V),
    ) {
        let slots: Vec<Slot> = if keys.len() <= self.entries.len() {
            keys.filter_map(|key| self.entries.find(&key)).collect()
        } else {
            self.entries.iter().filter(|(_, key)| within(key)).map(|(slot, _)| slot).collect()
        };
        for (key, entry) in slots.into_iter().filter_map(|slot| self.entries.remove(slot)) {
            gone(key, entry.value);
        }
    }

    /// Protects a page from eviction. False if it is not in the cache.
    pub fn hold(&mut self, key: &K) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) => {
                entry.held = true;
                true
            }
            None => false,
        }
    }

    /// Ends the protection of a page. False if it is not in the cache.
    pub fn release(&mut self, key: &K) -> bool {
        let Some(slot) = self.entries.find(key) else { return false };
        if let Some(entry) = self.entries.at(slot) {
            entry.held = false;
        }
        self.entries.unpark(slot);
        true
    }

    /// Evicts a page; `None` if every page is held.
    pub fn evict(&mut self, activity: &Activity) -> Option<Evicted<K, V>> {
        loop {
            let slot = self.entries.oldest()?;
            let opportunity = self.opportunity;
            let entry = self.entries.at(slot)?;
            if entry.held {
                self.entries.park(slot);
                continue;
            }
            let reason = match activity.last_ran(entry.mark.process) {
                _ if entry.void => Reason::Again,
                None => Reason::Ended,
                Some(last) if last > entry.mark.at + opportunity => Reason::Passed,
                Some(_) => {
                    entry.void = true;
                    self.entries.renew(slot);
                    continue;
                }
            };
            let (key, entry) = self.entries.remove(slot)?;
            return Some(Evicted { key, value: entry.value, reason });
        }
    }

    /// Evicts a page if there are more than `ceiling`; `None` if there are not, or every page is held.
    pub fn evict_above(&mut self, ceiling: Pages, activity: &Activity) -> Option<Evicted<K, V>> {
        if self.len() > ceiling { self.evict(activity) } else { None }
    }
}
