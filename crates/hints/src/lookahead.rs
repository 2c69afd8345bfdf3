//! An index of the part of an access list around its position: page -> nearest entry behind, chain of
//! entries ahead.
//!
//! It lags behind the list and catches up at a look-up, entry by entry. Each entry enters the window once and
//! leaves it once. A look-up therefore takes constant time amortised over the entries, and a list that is read
//! exactly in order pays nothing. After a jump longer than the window the index is rebuilt, which costs no more
//! than the entries that were jumped over.

use crate::entry::{Entry, ListIndex, Reach};
use crate::objects::PageKey;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The first and last entries for one page ahead; those between are linked through `next`.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: ListIndex,
    last: ListIndex,
}

#[derive(Debug)]
pub(crate) struct Lookahead {
    reach: Reach,
    valid: bool,
    /// Entries from `start` up to `here` are behind, from `here` up to `end` ahead.
    start: ListIndex,
    here: ListIndex,
    end: ListIndex,
    behind: FxHashMap<PageKey, ListIndex>,
    ahead: FxHashMap<PageKey, Chain>,
    /// For each entry ahead, the next entry for the same page.
    next: VecDeque<Option<ListIndex>>,
}

impl Lookahead {
    pub(crate) fn new(reach: Reach) -> Self {
        Self {
            reach,
            valid: false,
            start: ListIndex::default(),
            here: ListIndex::default(),
            end: ListIndex::default(),
            behind: FxHashMap::default(),
            ahead: FxHashMap::default(),
            next: VecDeque::new(),
        }
    }

    /// The list was replaced.
    pub(crate) fn invalidate(&mut self) {
        self.valid = false;
    }

    /// The last entry for a page before the position.
    pub(crate) fn behind(&self, page: PageKey) -> Option<ListIndex> {
        self.behind.get(&page).copied()
    }

    /// The first entry for a page at or after the position.
    pub(crate) fn ahead(&self, page: PageKey) -> Option<ListIndex> {
        self.ahead.get(&page).map(|chain| chain.first)
    }

    /// The first entry for a page at or after `from`. It stops after a few links: a page that occurs so often
    /// shows nothing about the application's position.
    pub(crate) fn ahead_from(&self, page: PageKey, from: ListIndex) -> Option<ListIndex> {
        let mut at = self.ahead(page)?;
        for _ in 0..self.reach.confirm {
            if at >= from {
                return Some(at);
            }
            at = self.next.get(at.since(self.here)).copied().flatten()?;
        }
        None
    }

    /// Catches up with a list whose kept entries begin at `first` and whose position is `position`.
    pub(crate) fn follow(&mut self, entries: &VecDeque<Entry>, first: ListIndex, position: ListIndex) {
        let list_end = first.plus(entries.len());
        if !self.valid || self.start < first || position.since(self.end) > self.reach.ahead {
            self.begin(position.minus(self.reach.behind).max(first));
        }
        let page = |at: ListIndex| entries[at.since(first)].page();
        while self.here < position {
            self.pass(page(self.here));
        }
        let oldest = position.minus(self.reach.behind);
        while self.start < oldest {
            let leaving = page(self.start);
            if self.behind.get(&leaving) == Some(&self.start) {
                self.behind.remove(&leaving);
            }
            self.start = self.start.next();
        }
        let end = position.plus(self.reach.ahead).min(list_end);
        while self.end < end {
            self.append(page(self.end));
        }
    }

    fn begin(&mut self, start: ListIndex) {
        self.behind.clear();
        self.ahead.clear();
        self.next.clear();
        self.start = start;
        self.here = start;
        self.end = start;
        self.valid = true;
    }

    /// The entry at `here` is behind from now on.
    fn pass(&mut self, page: PageKey) {
        if self.here == self.end {
            self.end = self.end.next();
        } else {
            match self.next.pop_front().flatten() {
                Some(next) => {
                    if let Some(chain) = self.ahead.get_mut(&page) {
                        chain.first = next;
                    }
                }
                None => {
                    self.ahead.remove(&page);
                }
            }
        }
        self.behind.insert(page, self.here);
        self.here = self.here.next();
    }

    /// The entry at `end` is within the window from now on.
    fn append(&mut self, page: PageKey) {
        let at = self.end;
        self.next.push_back(None);
        if let Some(chain) = self.ahead.get_mut(&page) {
            self.next[chain.last.since(self.here)] = Some(at);
            chain.last = at;
        } else {
            self.ahead.insert(page, Chain { first: at, last: at });
        }
        self.end = at.next();
    }
}
