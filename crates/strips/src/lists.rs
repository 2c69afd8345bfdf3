//! The two lists of strip caches: the upstream above the downstream (section 2.2, figure 3), and their
//! bottoms, which the feedback uses (section 2.3, figure 5).
//!
//! Each list runs from the most to the least recently used. The *global list* is the upstream followed by the
//! downstream. The *upstream bottom* is the last `bottom` strips of the upstream. The *global bottom* is the
//! last `bottom` of the global list; it extends into the upstream if the downstream is shorter than that.
//!
//! For each bottom, each list records its start, its number of strips and its number of non-empty blocks. A
//! move changes a bottom by at most one strip, so that every operation is O(1).
//!
//! Memory: 16 bytes for each strip.

use crate::links::{Ends, Link, NONE};

/// The list of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StripList {
    /// Cached and prefetched blocks.
    Up,
    /// No prefetched blocks.
    Down,
}

/// A bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bottom {
    Upstream,
    Global,
}

impl Bottom {
    const ALL: [Self; 2] = [Self::Upstream, Self::Global];
}

#[derive(Clone, Copy, Debug)]
struct Node {
    link: Link,
    /// Non-empty blocks.
    blocks: u16,
    list: Option<StripList>,
    /// Whether it is in each bottom.
    within: [bool; 2],
}

/// The bytes of a strip here.
#[cfg(test)]
pub(crate) const NODE_BYTES: usize = size_of::<Node>();

const UNLINKED: Node =
    Node { link: Link { newer: NONE, older: NONE }, blocks: 0, list: None, within: [false; 2] };

impl AsMut<Link> for Node {
    fn as_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The last strips of one list.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// The most recently used of them.
    top: u32,
    strips: u32,
    /// The wanted number, if the list has as many.
    wanted: u32,
    blocks: u64,
}

#[derive(Clone, Copy, Debug)]
struct List {
    ends: Ends,
    strips: u32,
    tails: [Tail; 2],
}

impl List {
    fn new(wanted: [u32; 2]) -> Self {
        let tails = wanted.map(|wanted| Tail { top: NONE, strips: 0, wanted, blocks: 0 });
        Self { ends: Ends::EMPTY, strips: 0, tails }
    }
}

/// Both lists.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    nodes: Vec<Node>,
    lists: [List; 2],
    bottom: u32,
}

impl Lists {
    /// Empty lists with bottoms of this many strips.
    pub(crate) fn new(bottom: u32) -> Self {
        Self { nodes: Vec::new(), lists: [List::new([bottom, bottom]), List::new([0, bottom])], bottom }
    }

    /// The number of strips in a list.
    pub(crate) fn len(&self, stream: StripList) -> u32 {
        self.lists[stream as usize].strips
    }

    /// The list of a strip.
    pub(crate) fn stream_of(&self, slot: u32) -> Option<StripList> {
        self.nodes.get(slot as usize).and_then(|node| node.list)
    }

    /// Whether a strip is in a bottom.
    pub(crate) fn is_in(&self, slot: u32, bottom: Bottom) -> bool {
        self.nodes[slot as usize].within[bottom as usize]
    }

    /// The strips and the non-empty blocks of a bottom.
    pub(crate) fn bottom(&self, bottom: Bottom) -> (u64, u64) {
        let tails = self.lists.map(|list| list.tails[bottom as usize]);
        (tails.iter().map(|tail| u64::from(tail.strips)).sum(), tails.iter().map(|tail| tail.blocks).sum())
    }

    /// The least recently used strip of a list.
    pub(crate) fn oldest(&self, stream: StripList) -> Option<u32> {
        let oldest = self.lists[stream as usize].ends.oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// The global list, least recently used first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = u32> {
        let up = |slot: u32| Some(self.nodes[slot as usize].link.newer).filter(|newer| *newer != NONE);
        let list = move |stream| std::iter::successors(self.oldest(stream), move |slot| up(*slot));
        list(StripList::Down).chain(list(StripList::Up))
    }

    /// Makes a strip the most recently used of a list. The strip may be in either list or in none.
    pub(crate) fn renew(&mut self, slot: u32, stream: StripList) {
        self.remove(slot);
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, UNLINKED);
        }
        let list = &mut self.lists[stream as usize];
        list.ends.push(&mut self.nodes, slot);
        list.strips += 1;
        self.nodes[slot as usize].list = Some(stream);
        self.settle(stream);
    }

    /// Removes a strip from its list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(stream) = self.stream_of(slot) else { return };
        for bottom in Bottom::ALL {
            if self.is_in(slot, bottom) {
                self.leave(slot, stream, bottom);
            }
        }
        let list = &mut self.lists[stream as usize];
        list.ends.take(&mut self.nodes, slot);
        list.strips -= 1;
        let blocks = self.nodes[slot as usize].blocks;
        self.nodes[slot as usize] = Node { blocks, ..UNLINKED };
        self.settle(stream);
    }

    /// Sets the number of non-empty blocks of a strip.
    pub(crate) fn set_blocks(&mut self, slot: u32, blocks: u64) {
        let Some(stream) = self.stream_of(slot) else { return };
        let node = &mut self.nodes[slot as usize];
        let before = std::mem::replace(&mut node.blocks, blocks as u16);
        for bottom in Bottom::ALL.into_iter().filter(|bottom| node.within[*bottom as usize]) {
            let tail = &mut self.lists[stream as usize].tails[bottom as usize];
            tail.blocks = tail.blocks + blocks - u64::from(before);
        }
    }

    /// Updates the bottoms after a list has one strip more or less.
    fn settle(&mut self, changed: StripList) {
        if changed == StripList::Down {
            let below = self.bottom.min(self.lists[StripList::Down as usize].strips);
            self.lists[StripList::Up as usize].tails[Bottom::Global as usize].wanted = self.bottom - below;
        }
        for stream in [StripList::Up, StripList::Down] {
            for bottom in Bottom::ALL {
                self.fit(stream, bottom);
            }
        }
    }

    /// Makes a bottom's part of a list as long as wanted.
    fn fit(&mut self, stream: StripList, bottom: Bottom) {
        loop {
            let list = &self.lists[stream as usize];
            let tail = &list.tails[bottom as usize];
            let wanted = tail.wanted.min(list.strips);
            if tail.strips > wanted {
                self.leave(tail.top, stream, bottom);
            } else if tail.strips < wanted {
                let next = if tail.top == NONE {
                    list.ends.oldest
                } else {
                    self.nodes[tail.top as usize].link.newer
                };
                self.join(next, stream, bottom);
            } else {
                return;
            }
        }
    }

    fn join(&mut self, slot: u32, stream: StripList, bottom: Bottom) {
        let node = &mut self.nodes[slot as usize];
        node.within[bottom as usize] = true;
        let tail = &mut self.lists[stream as usize].tails[bottom as usize];
        tail.top = slot;
        tail.strips += 1;
        tail.blocks += u64::from(node.blocks);
    }

    fn leave(&mut self, slot: u32, stream: StripList, bottom: Bottom) {
        let node = &mut self.nodes[slot as usize];
        node.within[bottom as usize] = false;
        let tail = &mut self.lists[stream as usize].tails[bottom as usize];
        if tail.top == slot {
            tail.top = node.link.older;
        }
        tail.strips -= 1;
        tail.blocks -= u64::from(node.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two plain vectors, most recently used first.
    #[derive(Default)]
    struct Naive {
        lists: [Vec<u32>; 2],
        blocks: [u64; 12],
    }

    impl Naive {
        fn remove(&mut self, slot: u32) {
            self.lists.iter_mut().for_each(|list| list.retain(|one| *one != slot));
        }

        fn last(list: &[u32], count: usize) -> Vec<u32> {
            list[list.len().saturating_sub(count)..].to_vec()
        }

        fn check(&self, lists: &Lists, bottom: usize) {
            let upstream = Self::last(&self.lists[0], bottom);
            let global = Self::last(&self.lists.concat(), bottom);
            for (which, expected) in [(Bottom::Upstream, upstream), (Bottom::Global, global)] {
                let blocks = expected.iter().map(|slot| self.blocks[*slot as usize]).sum();
                assert_eq!(lists.bottom(which), (expected.len() as u64, blocks), "{which:?}");
                for slot in self.lists.concat() {
                    assert_eq!(lists.is_in(slot, which), expected.contains(&slot), "{slot} in {which:?}");
                }
            }
            for stream in [StripList::Up, StripList::Down] {
                let list = &self.lists[stream as usize];
                assert_eq!(lists.len(stream), list.len() as u32);
                assert_eq!(lists.oldest(stream), list.last().copied());
            }
            let order: Vec<u32> = self.lists.concat().into_iter().rev().collect();
            assert_eq!(lists.oldest_first().collect::<Vec<_>>(), order);
        }
    }

    proptest! {
        #[test]
        fn they_are_two_lists_with_bottoms(
            bottom in 1..5u32,
            ops in proptest::collection::vec((0..4u8, 0..12u32, 0..257u64), 0..150),
        ) {
            let mut lists = Lists::new(bottom);
            let mut naive = Naive::default();
            for (op, slot, blocks) in ops {
                match op {
                    0 | 1 => {
                        let stream = if op == 0 { StripList::Up } else { StripList::Down };
                        lists.renew(slot, stream);
                        naive.remove(slot);
                        naive.lists[stream as usize].insert(0, slot);
                    }
                    2 => {
                        lists.remove(slot);
                        naive.remove(slot);
                    }
                    _ => {
                        lists.set_blocks(slot, blocks);
                        if naive.lists.concat().contains(&slot) {
                            naive.blocks[slot as usize] = blocks;
                        }
                    }
                }
                naive.check(&lists, bottom as usize);
            }
        }
    }
}
