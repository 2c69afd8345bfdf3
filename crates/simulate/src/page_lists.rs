//! Which pages are in memory, and which goes first: two lists, as Linux keeps file pages.
//!
//! A page enters at the young end of the *inactive* list. The first reference marks it, the second
//! moves it to the young end of the *active* list. Reclaim takes from the old end of the inactive
//! list, marked or not (pages that are not mapped get no second chance there); while the active list
//! is the longer one, its oldest pages are moved back to the inactive list first. Pages on their way
//! from the device are locked and are passed over.
//!
//! These are the rules of Linux 2.6, on which the papers measured, and of today's classic lists. Left
//! out: the detection of refaults (since 3.15) and the multi-generational lists.

use foreseek_prefetch::engine::ObjectId;
use foreseek_units::{PageIndex, Pages};
use std::collections::HashMap;

/// A page of an object.
pub(crate) type PageName = (ObjectId, PageIndex);

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    name: PageName,
    young: u32,
    old: u32,
    active: bool,
    referenced: bool,
    in_flight: bool,
    /// The page at which the kernel reads further ahead.
    marker: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    youngest: u32,
    oldest: u32,
    pages: u64,
}

impl List {
    const EMPTY: Self = Self { youngest: NONE, oldest: NONE, pages: 0 };
}

/// What a look at a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Absent,
    InFlight,
    Present,
}

/// The lists.
#[derive(Debug)]
pub(crate) struct PageLists {
    nodes: Vec<Node>,
    free: Vec<u32>,
    by_name: HashMap<PageName, u32>,
    inactive: List,
    active: List,
}

impl PageLists {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            inactive: List::EMPTY,
            active: List::EMPTY,
        }
    }

    pub(crate) fn pages(&self) -> Pages {
        Pages(self.inactive.pages + self.active.pages)
    }

    pub(crate) fn presence(&self, name: PageName) -> Presence {
        match self.by_name.get(&name) {
            None => Presence::Absent,
            Some(at) if self.nodes[*at as usize].in_flight => Presence::InFlight,
            Some(_) => Presence::Present,
        }
    }

    /// Puts a page that is read from the device at the young end of the inactive list.
    pub(crate) fn insert(&mut self, name: PageName, marker: bool) {
        let node =
            Node { name, young: NONE, old: NONE, active: false, referenced: false, in_flight: true, marker };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        let before = self.by_name.insert(name, at);
        debug_assert!(before.is_none(), "page {name:?} is already there");
        self.link(at, false);
    }

    /// A page has come from the device.
    pub(crate) fn arrived(&mut self, name: PageName) {
        if let Some(at) = self.by_name.get(&name) {
            self.nodes[*at as usize].in_flight = false;
        }
    }

    /// A page is read by a process. Answers whether the kernel is to read further ahead.
    pub(crate) fn referenced(&mut self, name: PageName) -> bool {
        let Some(at) = self.by_name.get(&name).copied() else { return false };
        let node = &mut self.nodes[at as usize];
        let marker = std::mem::take(&mut node.marker);
        if !node.referenced {
            node.referenced = true;
        } else if !node.active {
            node.referenced = false;
            self.unlink(at);
            self.link(at, true);
        }
        marker
    }

    /// Takes a page out, unless it is on its way.
    pub(crate) fn remove(&mut self, name: PageName) {
        if self.presence(name) == Presence::Present {
            self.discard(name);
        }
    }

    /// Takes a page out in any state.
    pub(crate) fn discard(&mut self, name: PageName) {
        if let Some(at) = self.by_name.remove(&name) {
            self.unlink(at);
            self.free.push(at);
        }
    }

    /// Reclaims one page; false where every page is on its way.
    pub(crate) fn reclaim(&mut self) -> bool {
        while self.active.pages > self.inactive.pages {
            let at = self.active.oldest;
            self.unlink(at);
            self.nodes[at as usize].referenced = false;
            self.link(at, false);
        }
        let Some(at) = self.oldest_at_rest(self.inactive).or_else(|| self.oldest_at_rest(self.active)) else {
            return false;
        };
        self.discard(self.nodes[at as usize].name);
        true
    }

    fn oldest_at_rest(&self, list: List) -> Option<u32> {
        let mut at = list.oldest;
        while at != NONE && self.nodes[at as usize].in_flight {
            at = self.nodes[at as usize].young;
        }
        (at != NONE).then_some(at)
    }

    fn list(&mut self, active: bool) -> &mut List {
        if active { &mut self.active } else { &mut self.inactive }
    }

    /// Links a node in at the young end.
    fn link(&mut self, at: u32, active: bool) {
        let list = self.list(active);
        let before = list.youngest;
        list.youngest = at;
        list.pages += 1;
        if before == NONE {
            list.oldest = at;
        } else {
            self.nodes[before as usize].young = at;
        }
        let node = &mut self.nodes[at as usize];
        node.active = active;
        node.young = NONE;
        node.old = before;
    }

    fn unlink(&mut self, at: u32) {
        let Node { young, old, active, .. } = self.nodes[at as usize];
        let list = self.list(active);
        list.pages -= 1;
        if young == NONE {
            list.youngest = old;
        }
        if old == NONE {
            list.oldest = young;
        }
        if young != NONE {
            self.nodes[young as usize].old = old;
        }
        if old != NONE {
            self.nodes[old as usize].young = young;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(page: u64) -> PageName {
        (ObjectId(1), PageIndex(page))
    }

    fn with(pages: u64) -> PageLists {
        let mut lists = PageLists::new();
        for page in 0..pages {
            lists.insert(name(page), false);
            lists.arrived(name(page));
        }
        lists
    }

    fn left(lists: &PageLists) -> Vec<u64> {
        (0..20).filter(|page| lists.presence(name(*page)) != Presence::Absent).collect()
    }

    #[test]
    fn the_oldest_goes_first_referenced_once_or_not() {
        let mut lists = with(4);
        lists.referenced(name(0));
        assert!(lists.reclaim());
        assert_eq!(left(&lists), [1, 2, 3]);
    }

    #[test]
    fn the_second_reference_protects_until_the_active_list_is_the_longer() {
        let mut lists = with(5);
        for page in [0, 0, 1, 1] {
            lists.referenced(name(page));
        }
        for _ in 0..2 {
            assert!(lists.reclaim());
        }
        // Active 0 and 1 against inactive 4: the oldest active goes back, behind 4.
        assert_eq!(left(&lists), [0, 1, 4]);
        assert!(lists.reclaim());
        assert_eq!(left(&lists), [0, 1]);
    }

    #[test]
    fn pages_on_their_way_stay() {
        let mut lists = with(1);
        lists.insert(name(7), false);
        lists.remove(name(7));
        assert!(lists.reclaim());
        assert!(!lists.reclaim());
        assert_eq!(left(&lists), [7]);
        lists.arrived(name(7));
        assert!(lists.reclaim());
        assert_eq!(lists.pages(), Pages::ZERO);
    }

    #[test]
    fn a_marker_is_met_once() {
        let mut lists = PageLists::new();
        lists.insert(name(1), true);
        lists.arrived(name(1));
        assert!(lists.referenced(name(1)));
        assert!(!lists.referenced(name(1)));
    }

    proptest! {
        /// Against two plain vectors, oldest first.
        #[test]
        fn the_lists_are_two_queues(ops in proptest::collection::vec((0..5u8, 0..12u64), 0..200)) {
            let mut lists = PageLists::new();
            let mut inactive: Vec<(u64, bool)> = Vec::new();
            let mut active: Vec<(u64, bool)> = Vec::new();
            for (op, page) in ops {
                match op {
                    0 | 1 => {
                        if lists.presence(name(page)) == Presence::Absent {
                            lists.insert(name(page), false);
                            lists.arrived(name(page));
                            inactive.push((page, false));
                        }
                    }
                    2 => {
                        lists.referenced(name(page));
                        if let Some(at) = inactive.iter().position(|node| node.0 == page) {
                            if inactive[at].1 {
                                inactive.remove(at);
                                active.push((page, false));
                            } else {
                                inactive[at].1 = true;
                            }
                        } else if let Some(node) = active.iter_mut().find(|node| node.0 == page) {
                            node.1 = true;
                        }
                    }
                    3 => {
                        lists.remove(name(page));
                        inactive.retain(|node| node.0 != page);
                        active.retain(|node| node.0 != page);
                    }
                    _ => {
                        while active.len() > inactive.len() {
                            inactive.push((active.remove(0).0, false));
                        }
                        let any = !inactive.is_empty();
                        prop_assert_eq!(lists.reclaim(), any);
                        if any {
                            inactive.remove(0);
                        }
                    }
                }
                let mut pages: Vec<u64> = inactive.iter().chain(&active).map(|node| node.0).collect();
                pages.sort_unstable();
                prop_assert_eq!(left(&lists), pages);
                prop_assert_eq!(lists.active.pages, active.len() as u64);
            }
        }
    }
}
