//! Pages that were prefetched and have not been referenced yet, apart from all others.
//!
//! LRU lists take such a page for one that nobody wants: it has never been referenced. Under pressure they
//! drop it before its reader arrives, who then reads it a second time, alone (TR-840 section 2.3). Here it
//! stays until it is referenced, or until reclaim finds that its reader does not want it.
//!
//! The algorithm is that of TR-840 section 4.1. Pages form a queue in the order of their prefetching,
//! each *marked* with the process that it was prefetched for and the time. A page that is referenced
//! leaves ([`PrefetchCache::take`]). Reclaim looks at the oldest page:
//!
//! - its process has ended: evicted;
//! - its process has run since, and did not take it: evicted. How long after the prefetch it has to have
//!   run, to have had the "significant opportunity" of the paper, is a setting of the cache, the paper
//!   gives no number;
//! - else it gets one second chance: its mark is void, it becomes the youngest. A page whose mark is
//!   void is evicted.
//!
//! What becomes of an evicted page is the caller's business: in a kernel it joins the inactive list. An
//! exit is an entry less in the [`Activity`] table and no scan: the pages of the process go when they are
//! the oldest.
//!
//! *Held* pages (in flight, or about to be copied to a reader) are not evicted. One that reclaim meets is
//! put aside, and is the oldest again when it is released. So each is met once for each hold, and each page has one second
//! chance: a call may look at many pages, but all calls together look at no more than two for each
//! insertion and one for each hold.
//!
//! Keys and values are the caller's: a simulator stores nothing, a file system its buffers.

use crate::activity::{Activity, Process};
use crate::queue::{Queue, Slot};
use foreseek_units::{Instant, Nanos, Pages};
use std::hash::Hash;

/// For whom a page was prefetched, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The process whose read made the prefetch.
    pub process: Process,
    /// When.
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
    /// Which page.
    pub key: K,
    /// What was stored with it.
    pub value: V,
    /// Why it was this one.
    pub reason: Reason,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    value: V,
    mark: Mark,
    /// The mark is void: the page has had its second chance.
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
    /// opportunity to reference the page; zero takes the paper by its word.
    #[must_use]
    pub fn new(opportunity: Nanos) -> Self {
        Self::with_capacity(opportunity, Pages::ZERO)
    }

    /// The same with room for so many pages, so that growth takes no time later: the cache is bounded
    /// by its caller, who evicts ([`Self::evict`], [`Self::evict_above`]).
    #[must_use]
    pub fn with_capacity(opportunity: Nanos, pages: Pages) -> Self {
        Self { entries: Queue::with_capacity(pages.get() as usize), opportunity }
    }

    /// How many pages there are, held ones among them.
    #[must_use]
    pub fn len(&self) -> Pages {
        Pages(self.entries.len() as u64)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// Puts a prefetched page in as the youngest. Answers what was stored with it where it was there
    /// already.
    pub fn insert(&mut self, key: K, value: V, mark: Mark, held: bool) -> Option<V> {
        let before = self.take(&key);
        self.entries.push(key, Entry { value, mark, void: false, held });
        before
    }

    /// Whether a page is there.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.entries.find(key).is_some()
    }

    /// What is stored with a page.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The same, to be changed.
    #[must_use]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Whether a page is there and held.
    #[must_use]
    pub fn is_held(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.held)
    }

    /// Takes a page out, held or not: it is referenced, or no longer valid.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let slot = self.entries.find(key)?;
        self.entries.remove(slot).map(|(_, entry)| entry.value)
    }

    /// Takes out those of `keys` that are there, and tells each to `gone`. `within` says of any key whether it is one of
    /// `keys`. A range may be much longer than the cache, and the other way round: this looks at the
    /// fewer of both.
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

    /// Keeps a page from being evicted. False where it is not there.
    pub fn hold(&mut self, key: &K) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) => {
                entry.held = true;
                true
            }
            None => false,
        }
    }

    /// A page may be evicted again. False where it is not there.
    pub fn release(&mut self, key: &K) -> bool {
        let Some(slot) = self.entries.find(key) else { return false };
        if let Some(entry) = self.entries.at(slot) {
            entry.held = false;
        }
        self.entries.unpark(slot);
        true
    }

    /// Evicts a page; none where every page is held.
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

    /// Evicts a page if there are more than `ceiling`; none where there are not, or every page is held.
    pub fn evict_above(&mut self, ceiling: Pages, activity: &Activity) -> Option<Evicted<K, V>> {
        if self.len() > ceiling { self.evict(activity) } else { None }
    }
}
