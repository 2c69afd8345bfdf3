//! Finds slots by the hash of their keys.
//!
//! It uses open addressing with linear probing, at most half full. A removal shifts the following cells back,
//! so that no deleted cells remain. A cell is 8 bytes: 32 bits of the hash and a slot number. The keys stay
//! with the slots: eight cells share a cache line, a search for a missing key usually touches one line, and
//! growth reads no key.
//!
//! Hashing is FxHash, so that runs repeat; a user that chooses the keys can make them collide. Pages of
//! files, which a reader can choose, differ in their low bits, which it spreads.

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// No slot. Slots have numbers of 32 bits, so that no other cell has this value.
const EMPTY: u64 = u64::MAX;

/// The fewest cells, as a power of two: one cache line.
const LEAST_BITS: u32 = 3;

/// The golden ratio in 64 bits: a last multiplication, since FxHash leaves its low bits poor.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The part of a key's hash in the index.
pub(crate) fn tag<K: Hash>(key: &K) -> u32 {
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    (hasher.finish().wrapping_mul(GOLDEN) >> 32) as u32
}

/// Slots by the tags of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    cells: Vec<u64>,
    bits: u32,
    used: usize,
}

impl Index {
    /// An index with room for this many slots without growth.
    pub(crate) fn with_capacity(slots: usize) -> Self {
        let bits = (slots * 2).next_power_of_two().trailing_zeros().max(LEAST_BITS);
        Self { cells: vec![EMPTY; 1 << bits], bits, used: 0 }
    }

    /// The slot with this tag for which `is_it` is true.
    pub(crate) fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(tag, is_it).map(|at| self.cells[at] as u32)
    }

    /// Adds a slot, whose key must be new.
    pub(crate) fn insert(&mut self, tag: u32, slot: u32) {
        if (self.used + 1) * 2 > self.cells.len() {
            self.grow();
        }
        self.place(u64::from(tag) << 32 | u64::from(slot));
        self.used += 1;
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, tag: u32, slot: u32) {
        let Some(mut hole) = self.position(tag, |one| one == slot) else { return };
        let mask = self.cells.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let cell = self.cells[at];
            if cell == EMPTY {
                break;
            }
            // A cell that is at least as far from its home as from the hole may move into the hole.
            let home = self.home((cell >> 32) as u32);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
        self.used -= 1;
    }

    fn position(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.cells.len() - 1;
        let mut at = self.home(tag);
        loop {
            let cell = self.cells[at & mask];
            if cell == EMPTY {
                return None;
            }
            if (cell >> 32) as u32 == tag && is_it(cell as u32) {
                return Some(at & mask);
            }
            at += 1;
        }
    }

    fn home(&self, tag: u32) -> usize {
        (tag >> (u32::BITS - self.bits)) as usize
    }

    fn place(&mut self, cell: u64) {
        let mask = self.cells.len() - 1;
        let mut at = self.home((cell >> 32) as u32);
        while self.cells[at & mask] != EMPTY {
            at += 1;
        }
        self.cells[at & mask] = cell;
    }

    fn grow(&mut self) {
        self.bits += 1;
        let larger = vec![EMPTY; 1 << self.bits];
        let smaller = std::mem::replace(&mut self.cells, larger);
        for cell in smaller.into_iter().filter(|cell| *cell != EMPTY) {
            self.place(cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn neighbours_spread() {
        let mut index = Index::with_capacity(1 << 12);
        for slot in 0..1 << 12 {
            index.insert(tag(&(7u64, u64::from(slot))), slot);
        }
        let longest = index.cells.split(|cell| *cell == EMPTY).map(<[u64]>::len).max();
        assert!(longest < Some(32), "{longest:?} cells in a row");
    }

    proptest! {
        /// Against the standard map, with tags that collide much and homes at the table's end.
        #[test]
        fn it_is_a_map(ops in proptest::collection::vec((any::<bool>(), 0..60u32), 0..400)) {
            let tag = |slot: u32| (slot % 5) * 0x3fff_ffff;
            let mut index = Index::with_capacity(0);
            let mut model = HashMap::new();
            for (add, slot) in ops {
                if add && !model.contains_key(&slot) {
                    index.insert(tag(slot), slot);
                    model.insert(slot, ());
                } else if !add {
                    index.remove(tag(slot), slot);
                    model.remove(&slot);
                }
                for slot in 0..60 {
                    let found = index.find(tag(slot), |one| one == slot);
                    prop_assert_eq!(found.is_some(), model.contains_key(&slot));
                }
            }
            prop_assert_eq!(index.used, model.len());
        }
    }
}
