//! A queue with look-up by key: a slab of entries, linked from old to young, and an [`Index`].
//!
//! Every operation is O(1). An entry may be removed from the queue and stay in the table (*parked*). Links
//! are slot numbers of 32 bits. Freed slots are reused first, so that a queue of constant length stays in the
//! same memory.

use crate::index::{Index, tag};
use std::hash::Hash;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node<K, T> {
    key: K,
    /// `None` for a free slot.
    value: Option<T>,
    /// The next younger one; for a free slot the next free one; for a parked one itself.
    young: u32,
    old: u32,
}

/// The queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue<K, T> {
    index: Index,
    nodes: Vec<Node<K, T>>,
    free: u32,
    oldest: u32,
    youngest: u32,
    entries: usize,
}

/// The slot of an entry, until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl<K: Copy + Eq + Hash, T> Queue<K, T> {
    /// An empty queue with room for this many entries; it grows beyond.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self {
            index: Index::with_capacity(entries),
            nodes: Vec::with_capacity(entries),
            free: NONE,
            oldest: NONE,
            youngest: NONE,
            entries: 0,
        }
    }

    /// The number of entries, including parked ones.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    pub(crate) fn find(&self, key: &K) -> Option<Slot> {
        self.index.find(tag(key), |slot| self.nodes[slot as usize].key == *key).map(Slot)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&T> {
        self.find(key).and_then(|slot| self.nodes[slot.0 as usize].value.as_ref())
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        self.find(key).and_then(|slot| self.at(slot))
    }

    /// The value in a slot that was found.
    pub(crate) fn at(&mut self, slot: Slot) -> Option<&mut T> {
        self.nodes[slot.0 as usize].value.as_mut()
    }

    /// The oldest entry that is not parked.
    pub(crate) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(Slot(self.oldest))
    }

    /// Adds an entry at the young end. Its key must be new.
    pub(crate) fn push(&mut self, key: K, value: T) {
        let node = Node { key, value: Some(value), young: NONE, old: NONE };
        let slot = if self.free == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let slot = self.free;
            self.free = self.nodes[slot as usize].young;
            self.nodes[slot as usize] = node;
            slot
        };
        self.index.insert(tag(&key), slot);
        self.entries += 1;
        self.link_young(slot);
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<(K, T)> {
        let value = self.nodes[slot.0 as usize].value.take()?;
        let key = self.nodes[slot.0 as usize].key;
        self.unlink(slot.0);
        self.index.remove(tag(&key), slot.0);
        self.nodes[slot.0 as usize].young = self.free;
        self.free = slot.0;
        self.entries -= 1;
        Some((key, value))
    }

    /// Makes an entry the youngest.
    pub(crate) fn renew(&mut self, slot: Slot) {
        self.unlink(slot.0);
        self.link_young(slot.0);
    }

    /// Removes an entry from the queue, but keeps it in the table.
    pub(crate) fn park(&mut self, slot: Slot) {
        self.unlink(slot.0);
        let node = &mut self.nodes[slot.0 as usize];
        (node.young, node.old) = (slot.0, slot.0);
    }

    /// Makes a parked entry the oldest of the queue; other entries are unchanged.
    pub(crate) fn unpark(&mut self, slot: Slot) {
        if self.parked(slot.0) {
            self.link_old(slot.0);
        }
    }

    /// All entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &K)> {
        let used = self.nodes.iter().enumerate().filter(|(_, node)| node.value.is_some());
        used.map(|(slot, node)| (Slot(slot as u32), &node.key))
    }

    fn parked(&self, slot: u32) -> bool {
        self.nodes[slot as usize].young == slot
    }

    fn link_young(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.youngest, slot);
        match before {
            NONE => self.oldest = slot,
            before => self.nodes[before as usize].young = slot,
        }
        let node = &mut self.nodes[slot as usize];
        (node.young, node.old) = (NONE, before);
    }

    fn link_old(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.oldest, slot);
        match before {
            NONE => self.youngest = slot,
            before => self.nodes[before as usize].old = slot,
        }
        let node = &mut self.nodes[slot as usize];
        (node.young, node.old) = (before, NONE);
    }

    fn unlink(&mut self, slot: u32) {
        if self.parked(slot) {
            return;
        }
        let Node { young, old, .. } = self.nodes[slot as usize];
        match young {
            NONE => self.youngest = old,
            young => self.nodes[young as usize].old = old,
        }
        match old {
            NONE => self.oldest = young,
            old => self.nodes[old as usize].young = young,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain vector of the linked ones, oldest first, and one of the parked ones.
        #[test]
        fn it_is_a_queue(ops in proptest::collection::vec((0..6u8, 0..12u32), 0..200)) {
            let mut queue = Queue::with_capacity(0);
            let (mut line, mut parked) = (Vec::new(), Vec::new());
            for (op, key) in ops {
                let slot = queue.find(&key);
                prop_assert_eq!(slot.is_some(), line.contains(&key) || parked.contains(&key));
                match (op, slot) {
                    (0 | 1, None) => {
                        queue.push(key, key * 10);
                        line.push(key);
                    }
                    (2, Some(slot)) => {
                        prop_assert_eq!(queue.remove(slot), Some((key, key * 10)));
                        line.retain(|one| *one != key);
                        parked.retain(|one| *one != key);
                    }
                    (3, Some(slot)) => {
                        queue.renew(slot);
                        line.retain(|one| *one != key);
                        parked.retain(|one| *one != key);
                        line.push(key);
                    }
                    (4, Some(slot)) => {
                        queue.park(slot);
                        line.retain(|one| *one != key);
                        parked.retain(|one| *one != key);
                        parked.push(key);
                    }
                    (5, Some(slot)) => {
                        queue.unpark(slot);
                        if parked.contains(&key) {
                            parked.retain(|one| *one != key);
                            line.insert(0, key);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.len(), line.len() + parked.len());
                let mut all: Vec<u32> = queue.iter().map(|(_, key)| *key).collect();
                all.sort_unstable();
                let mut expected = [line.clone(), parked.clone()].concat();
                expected.sort_unstable();
                prop_assert_eq!(all, expected);
            }
            for key in line {
                let oldest = queue.oldest().and_then(|slot| queue.remove(slot));
                prop_assert_eq!(oldest.map(|(key, _)| key), Some(key));
            }
            prop_assert_eq!(queue.oldest(), None);
        }
    }
}
