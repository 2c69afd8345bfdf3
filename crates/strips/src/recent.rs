//! The strips that the host has referenced last, as many as a cache of whole strips holds.
//!
//! Not in the paper. Its virtual costs (section 2.4) add up all strips in the cache, and say what these would
//! have cost if each had been read as a whole. A cache with single blocks of each strip has more strips than
//! it could keep as a whole, so that the sums promise hits that strips would not have brought. These are the
//! strips that it could keep: those referenced last, as many as there is room for. A strip that is no longer
//! among them takes its parts out of both sums.
//!
//! Memory: 8 bytes for each strip.

use crate::links::{Ends, Link, NONE};

/// The bytes of a strip here.
#[cfg(test)]
pub(crate) const NODE_BYTES: usize = size_of::<Link>();

/// The list.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    /// By slot. One that is not in the list is older than itself.
    nodes: Vec<Link>,
    ends: Ends,
    len: u64,
    most: u64,
}

impl Recent {
    /// An empty list of at most so many strips.
    pub(crate) fn new(most: u64) -> Self {
        Self { nodes: Vec::new(), ends: Ends::EMPTY, len: 0, most }
    }

    /// Whether a strip is in the list.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.nodes.get(slot as usize).is_some_and(|node| node.older != slot)
    }

    /// The host references a strip. Returns the one that leaves the list.
    pub(crate) fn renew(&mut self, slot: u32) -> Option<u32> {
        self.remove(slot);
        let known = self.nodes.len() as u32;
        self.nodes.extend((known..=slot).map(|older| Link { newer: NONE, older }));
        self.ends.push(&mut self.nodes, slot);
        self.len += 1;
        let leaves = (self.len > self.most).then_some(self.ends.oldest);
        leaves.into_iter().for_each(|slot| self.remove(slot));
        leaves
    }

    /// A strip leaves the list, if it is there.
    pub(crate) fn remove(&mut self, slot: u32) {
        if !self.has(slot) {
            return;
        }
        self.ends.take(&mut self.nodes, slot);
        self.nodes[slot as usize].older = slot;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a vector.
        #[test]
        fn it_is_the_last_ones_referenced(most in 1..8u64, ops in proptest::collection::vec((0..5u8, 0..12u32), 0..200)) {
            let mut recent = Recent::new(most);
            let mut naive: Vec<u32> = Vec::new();
            for (op, slot) in ops {
                naive.retain(|one| *one != slot);
                if op == 0 {
                    recent.remove(slot);
                } else {
                    naive.push(slot);
                    let leaves = (naive.len() as u64 > most).then(|| naive.remove(0));
                    prop_assert_eq!(recent.renew(slot), leaves);
                }
                for slot in 0..13 {
                    prop_assert_eq!(recent.has(slot), naive.contains(&slot));
                }
            }
        }
    }
}
