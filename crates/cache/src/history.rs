//! A short history of evictions, with the status of each page (TR-840 section 4.1).
//!
//! A miss on a page that was in the LRU lists calls for longer lists. A miss on a page that was prefetched
//! and never referenced calls for a larger prefetch cache. The history distinguishes the two. It is bounded;
//! the oldest eviction is forgotten first. A miss on a page that is forgotten, or was never there, is
//! neither.
//!
//! With a key of 16 bytes, an entry takes 16 to 32 bytes in the index and 32 in the slab. For a fifth of the
//! pages that is 0.3 % of memory. (The paper assumes 40 bytes and 0.2 %.)

use crate::queue::Queue;
use foreseek_units::Pages;
use std::hash::Hash;

/// The status of a page at its eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It had been referenced.
    Lru,
    /// It had been prefetched, and had not been referenced.
    Prefetched,
}

/// The history.
#[derive(Clone, Debug)]
pub struct EvictionHistory<K> {
    entries: Queue<K, Status>,
    most: usize,
}

impl<K: Copy + Eq + Hash> EvictionHistory<K> {
    /// The entries of a history as a share of all pages (TR-840 section 4.1).
    pub const SHARE: f64 = 0.2;

    /// A history of this many evictions.
    #[must_use]
    pub fn new(most: Pages) -> Self {
        Self { entries: Queue::with_capacity(0), most: entries(most) }
    }

    /// The history of a memory of this many pages: [`Self::SHARE`] of them.
    #[must_use]
    pub fn of(memory: Pages) -> Self {
        Self::new(memory.scale(Self::SHARE))
    }

    /// Sets the bound; entries beyond it are forgotten, oldest first.
    pub fn resize(&mut self, most: Pages) {
        self.most = entries(most);
        while self.entries.len() > self.most {
            self.forget_oldest();
        }
    }

    /// A page is evicted.
    pub fn evicted(&mut self, key: K, status: Status) {
        if self.most == 0 {
            return;
        }
        if let Some(slot) = self.entries.find(&key) {
            self.entries.remove(slot);
        } else if self.entries.len() >= self.most {
            self.forget_oldest();
        }
        self.entries.push(key, status);
    }

    /// The status of a page, if it was evicted lately.
    #[must_use]
    pub fn status(&self, key: &K) -> Option<Status> {
        self.entries.get(key).copied()
    }

    /// Forgets a page that is in memory again, or will never be read again. Returns its status.
    pub fn take(&mut self, key: &K) -> Option<Status> {
        let slot = self.entries.find(key)?;
        self.entries.remove(slot).map(|(_, status)| status)
    }

    /// The number of evictions in the history.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn forget_oldest(&mut self) {
        if let Some(slot) = self.entries.oldest() {
            self.entries.remove(slot);
        }
    }
}

/// Slots have numbers of 32 bits.
fn entries(pages: Pages) -> usize {
    pages.get().min(u64::from(u32::MAX - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain vector, oldest first.
        #[test]
        fn it_is_a_bounded_queue(
            most in 0..8u64,
            ops in proptest::collection::vec((0..8u8, 0..12u32, any::<bool>()), 0..200),
        ) {
            let mut history = EvictionHistory::new(Pages(most));
            let mut bound = most as usize;
            let mut model: Vec<(u32, Status)> = Vec::new();
            for (op, key, referenced) in ops {
                let status = if referenced { Status::Lru } else { Status::Prefetched };
                let known = model.iter().find(|one| one.0 == key).map(|one| one.1);
                prop_assert_eq!(history.status(&key), known);
                match op {
                    0..5 => {
                        history.evicted(key, status);
                        model.retain(|one| one.0 != key);
                        model.push((key, status));
                    }
                    5 | 6 => {
                        prop_assert_eq!(history.take(&key), known);
                        model.retain(|one| one.0 != key);
                    }
                    _ => {
                        bound = key as usize;
                        history.resize(Pages(u64::from(key)));
                    }
                }
                model.drain(..model.len().saturating_sub(bound));
                prop_assert_eq!(history.len(), model.len());
            }
            for (key, status) in model {
                prop_assert_eq!(history.status(&key), Some(status));
            }
        }
    }

    #[test]
    fn a_fifth_of_the_pages_is_remembered() {
        let mut history = EvictionHistory::of(Pages(1000));
        (0..300u32).for_each(|key| history.evicted(key, Status::Lru));
        assert_eq!(history.len(), 200);
        assert_eq!((history.status(&99), history.status(&100)), (None, Some(Status::Lru)));
    }
}
