//! Which pages are in memory, and which goes first: [`TwoLists`] with names and what is known of each
//! page. Pages on their way from the device are locked and are passed over.

use foreseek_cache::{Balance, TwoLists};
use foreseek_seam::ObjectId;
use foreseek_units::{PageIndex, Pages};
use std::collections::HashMap;

/// A page of an object.
pub(crate) type PageName = (ObjectId, PageIndex);

#[derive(Clone, Copy, Debug)]
struct Node {
    name: PageName,
    /// The page at which the kernel reads further ahead.
    marker: bool,
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
    lists: TwoLists,
}

impl PageLists {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            lists: TwoLists::new(Balance::Equal),
        }
    }

    pub(crate) fn pages(&self) -> Pages {
        Pages(self.lists.frames())
    }

    pub(crate) fn presence(&self, name: PageName) -> Presence {
        match self.by_name.get(&name) {
            None => Presence::Absent,
            Some(at) if self.lists.held(*at) => Presence::InFlight,
            Some(_) => Presence::Present,
        }
    }

    /// Puts a page that is read from the device at the young end of the inactive list.
    pub(crate) fn insert(&mut self, name: PageName, marker: bool) {
        let node = Node { name, marker };
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
        self.lists.insert(at, true);
    }

    /// A page has come from the device.
    pub(crate) fn arrived(&mut self, name: PageName) {
        if let Some(at) = self.by_name.get(&name) {
            self.lists.hold(*at, false);
        }
    }

    /// A page is read by a process. Answers whether the kernel is to read further ahead.
    pub(crate) fn referenced(&mut self, name: PageName) -> bool {
        let Some(at) = self.by_name.get(&name).copied() else { return false };
        self.lists.referenced(at);
        std::mem::take(&mut self.nodes[at as usize].marker)
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
            self.lists.remove(at);
            self.free.push(at);
        }
    }

    /// Reclaims one page; false where every page is on its way.
    pub(crate) fn reclaim(&mut self) -> bool {
        let Some(at) = self.lists.victim() else { return false };
        self.by_name.remove(&self.nodes[at as usize].name);
        self.free.push(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
