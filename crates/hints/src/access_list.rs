//! The reads that an application has announced, and its position among them (ATC'09 section 4.2).
//!
//! The list is a queue of pages in the order of access. Reading the next entry advances the *position* by one.
//! Applications deviate from their lists, and the list follows them:
//!
//! - Pages in the application's own cache are never read. A read that matches an entry at most [`Reach::near`]
//!   ahead moves the position there at once, past the entries between, marked or not.
//! - A match further ahead, up to [`Reach::ahead`], is only a suspicion, because an unrelated read may match by
//!   chance. The position moves when the *next* read matches at most [`Reach::confirm`] after the suspected
//!   one.
//! - Pages are read again, in pieces or out of order: a match at most [`Reach::behind`] back moves nothing. Of
//!   a match ahead and one behind, the nearer counts.
//!
//! Any other read is a stray one. Finding a match takes constant time amortised over the entries: see
//! [`crate::lookahead`].
//!
//! *Set from mark* replaces the entries after the most recently accessed marked entry. All entries before it
//! are consumed and the position is right after it. The list therefore treats it as a *set*; only the
//! application counts from the mark.

use crate::entry::{Entry, ListIndex, Reach};
use crate::lookahead::Lookahead;
use crate::objects::PageKey;
use foreseek_seam::HintMode;
use std::collections::VecDeque;

/// The meaning of a read for the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It matched this entry, and the position is now after it.
    On(ListIndex),
    /// It was read or passed over recently.
    Behind,
    /// It may come later; the position has not moved.
    Far,
    /// It is not on the list.
    Off,
}

/// The list.
#[derive(Debug)]
pub(crate) struct AccessList {
    entries: VecDeque<Entry>,
    /// The position of the first entry kept; up to twice `reach` before the position itself.
    first: ListIndex,
    position: ListIndex,
    limit: usize,
    marked: Option<PageKey>,
    complete: bool,
    suspected: Option<ListIndex>,
    reach: Reach,
    lookahead: Lookahead,
}

impl AccessList {
    pub(crate) fn new(limit: usize) -> Self {
        Self::with_reach(limit, Reach::USUAL)
    }

    pub(crate) fn with_reach(limit: usize, reach: Reach) -> Self {
        Self {
            entries: VecDeque::new(),
            first: ListIndex::default(),
            position: ListIndex::default(),
            limit,
            marked: None,
            complete: false,
            suspected: None,
            reach,
            lookahead: Lookahead::new(reach),
        }
    }

    /// How many more entries fit.
    pub(crate) fn room(&self, mode: HintMode) -> usize {
        match mode {
            HintMode::Append => self.limit - self.end().since(self.position).min(self.limit),
            HintMode::Set | HintMode::SetFromMark => self.limit,
        }
    }

    /// How many entries fit in all.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Adds hints, as many as there is room for. `complete`: the application has no more.
    pub(crate) fn hint(&mut self, mode: HintMode, entries: impl Iterator<Item = Entry>, complete: bool) {
        if mode != HintMode::Append {
            self.first = self.end();
            self.position = self.first;
            self.entries.clear();
            self.suspected = None;
            self.lookahead.invalidate();
        }
        let room = self.room(HintMode::Append);
        self.entries.extend(entries.take(room));
        self.complete = complete;
    }

    /// The position of the next entry.
    pub(crate) fn position(&self) -> ListIndex {
        self.position
    }

    /// The position after the last entry.
    pub(crate) fn end(&self) -> ListIndex {
        self.first.plus(self.entries.len())
    }

    /// Whether the application has announced that this is all.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The most recently accessed marked page.
    pub(crate) fn marked(&self) -> Option<PageKey> {
        self.marked
    }

    /// The pages and positions from `position` on, or from the first entry kept if that is later.
    pub(crate) fn from(&self, position: ListIndex) -> impl Iterator<Item = (ListIndex, PageKey)> {
        let start = position.max(self.first);
        let skipped = start.since(self.first).min(self.entries.len());
        self.entries.range(skipped..).enumerate().map(move |(n, entry)| (start.plus(n), entry.page()))
    }

    /// The page at a position, if it is kept.
    pub(crate) fn page(&self, position: ListIndex) -> Option<PageKey> {
        self.entry(position).map(Entry::page)
    }

    /// Every page that is kept.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageKey> {
        self.entries.iter().map(|entry| entry.page())
    }

    /// A page was read.
    pub(crate) fn read(&mut self, page: PageKey) -> Progress {
        if self.entry(self.position).is_some_and(|entry| entry.page() == page) {
            return self.reached(self.position);
        }
        self.lookahead.follow(&self.entries, self.first, self.position);
        if let Some(match_) = self.confirms(page) {
            return self.reached(match_);
        }
        let behind = self.lookahead.behind(page).map(|at| self.position.since(at));
        match self.lookahead.ahead(page) {
            Some(at) if behind.is_none_or(|behind| at.since(self.position) < behind) => {
                if at.since(self.position) <= self.reach.near {
                    return self.reached(at);
                }
                self.suspected = Some(at.next());
                Progress::Far
            }
            _ if behind.is_some() => Progress::Behind,
            _ => Progress::Off,
        }
    }

    /// The first entry for a page from the position to the end of the list, for an application that has just
    /// announced its position. Takes time proportional to the list.
    pub(crate) fn locate(&self, page: PageKey) -> Option<ListIndex> {
        self.from(self.position).find(|(_, entry)| *entry == page).map(|(position, _)| position)
    }

    /// Moves the position on to an entry, past what lies between.
    pub(crate) fn go_to(&mut self, position: ListIndex) {
        let target = position.min(self.end());
        if target <= self.position {
            return;
        }
        let passed = self.position.since(self.first)..target.since(self.first);
        if let Some(entry) = self.entries.range(passed).rev().find(|entry| entry.mark()) {
            self.marked = Some(entry.page());
        }
        self.position = target;
        self.suspected = None;
        self.trim();
    }

    fn entry(&self, position: ListIndex) -> Option<Entry> {
        self.entries.get(position.since(self.first)).copied()
    }

    fn reached(&mut self, at: ListIndex) -> Progress {
        self.go_to(at.next());
        Progress::On(at)
    }

    /// The match that confirms a suspected position.
    fn confirms(&self, page: PageKey) -> Option<ListIndex> {
        let suspected = self.suspected?;
        let at = self.lookahead.ahead_from(page, suspected)?;
        (at.since(suspected) <= self.reach.confirm).then_some(at)
    }

    /// Drops entries too far back to matter. It keeps more entries than are looked at, so that their index can
    /// follow in steps and need not be rebuilt.
    fn trim(&mut self) {
        let kept = self.position.since(self.first);
        if kept > 2 * self.reach.behind + self.reach.ahead {
            let dropped = kept - self.reach.behind;
            self.entries.drain(..dropped);
            self.first = self.first.plus(dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Objects;
    use foreseek_seam::ObjectId;
    use foreseek_units::PageIndex;
    use proptest::prelude::*;

    const SMALL: Reach = Reach { near: 3, confirm: 4, behind: 6, ahead: 14 };
    const LIMIT: usize = 50;

    fn key(page: u64) -> PageKey {
        let slot = Objects::new().intern(ObjectId(1)).expect("room");
        PageKey::new(slot, PageIndex(page)).expect("small")
    }

    fn listed(pages: &[u64], reach: Reach) -> AccessList {
        let mut list = AccessList::with_reach(LIMIT, reach);
        list.hint(HintMode::Set, pages.iter().map(|page| Entry::new(key(*page), false)), true);
        list
    }

    /// Follows these reads. For each, returns its kind and how many entries the position has passed.
    fn follow(list: &mut AccessList, reads: &[u64]) -> Vec<(char, u64)> {
        reads
            .iter()
            .map(|page| {
                let kind = match list.read(key(*page)) {
                    Progress::On(_) => '+',
                    Progress::Behind => '-',
                    Progress::Far => '?',
                    Progress::Off => '!',
                };
                (kind, list.position().0)
            })
            .collect()
    }

    #[test]
    fn pages_that_a_cache_answered_are_skipped() {
        let mut list = listed(&[1, 2, 3, 4, 5, 6], SMALL);
        assert_eq!(follow(&mut list, &[1, 4, 6]), [('+', 1), ('+', 4), ('+', 6)]);
    }

    #[test]
    fn reading_again_moves_nothing_even_if_the_page_is_listed_again() {
        let mut list = listed(&[1, 2, 3, 4, 1, 5], SMALL);
        assert_eq!(
            follow(&mut list, &[1, 1, 2, 1, 2, 3, 4, 1]),
            [('+', 1), ('-', 1), ('+', 2), ('-', 2), ('-', 2), ('+', 3), ('+', 4), ('+', 5)]
        );
    }

    #[test]
    fn a_single_odd_read_far_ahead_moves_nothing_and_two_in_a_row_do() {
        let pages: Vec<u64> = (0..20).collect();
        let mut list = listed(&pages, SMALL);
        assert_eq!(follow(&mut list, &[0, 9, 1, 2]), [('+', 1), ('?', 1), ('+', 2), ('+', 3)]);
        assert_eq!(follow(&mut list, &[12, 14]), [('?', 3), ('+', 15)]);
    }

    #[test]
    fn an_answered_round_of_a_short_cycle_does_not_get_stuck() {
        let cycle: Vec<u64> = (0..40).map(|n| n % 5).collect();
        let mut list = listed(&cycle, SMALL);
        assert_eq!(follow(&mut list, &[0, 1, 2, 4, 0, 1]).last(), Some(&('+', 7)));
    }

    #[test]
    fn a_read_that_is_not_listed_is_off() {
        let mut list = listed(&[1, 2], SMALL);
        assert_eq!(follow(&mut list, &[7, 1, 2, 7]), [('!', 0), ('+', 1), ('+', 2), ('!', 2)]);
    }

    #[test]
    fn a_mark_counts_as_accessed_when_something_after_it_was_read() {
        let mut list = AccessList::with_reach(LIMIT, SMALL);
        let entries = [(1, false), (2, true), (3, false), (4, true), (5, false)];
        list.hint(HintMode::Set, entries.iter().map(|(page, mark)| Entry::new(key(*page), *mark)), false);
        list.read(key(1));
        assert_eq!(list.marked(), None);
        list.read(key(3));
        assert_eq!(list.marked(), Some(key(2)));
        list.hint(HintMode::SetFromMark, [Entry::new(key(9), false)].into_iter(), true);
        assert_eq!(list.marked(), Some(key(2)));
        assert_eq!(list.read(key(9)), Progress::On(ListIndex(5)));
        assert!(list.is_complete());
    }

    #[test]
    fn a_list_accepts_entries_up_to_its_limit() {
        let mut list = AccessList::with_reach(LIMIT, SMALL);
        let many = |n: u64| (0..n).map(|page| Entry::new(key(page), false));
        list.hint(HintMode::Set, many(60), false);
        assert_eq!((list.room(HintMode::Append), list.room(HintMode::Set)), (0, LIMIT));
        for page in 0..10 {
            list.read(key(page));
        }
        assert_eq!(list.room(HintMode::Append), 10);
        assert_eq!(list.locate(key(49)), Some(ListIndex(49)));
        assert_eq!(list.locate(key(50)), None);
        assert_eq!(list.locate(key(3)), None);
    }

    /// The list as documented, by brute force: it keeps and searches every entry.
    struct Model {
        entries: Vec<(u64, bool)>,
        position: usize,
        dropped: u64,
        suspected: Option<usize>,
        marked: Option<u64>,
    }

    impl Model {
        fn hint(&mut self, mode: HintMode, entries: &[(u64, bool)]) {
            if mode != HintMode::Append {
                self.dropped += self.entries.len() as u64;
                self.entries.clear();
                self.position = 0;
                self.suspected = None;
            }
            let room = LIMIT - (self.entries.len() - self.position);
            self.entries.extend(entries.iter().take(room));
        }

        fn ahead(&self, page: u64) -> impl Iterator<Item = usize> {
            let window = self.position..(self.position + SMALL.ahead).min(self.entries.len());
            window.filter(move |at| self.entries[*at].0 == page)
        }

        fn read(&mut self, page: u64) -> Progress {
            let first = self.ahead(page).next();
            if first == Some(self.position) {
                return self.reach(self.position);
            }
            let confirmed = self.suspected.and_then(|suspected| {
                let at = self.ahead(page).take(SMALL.confirm).find(|at| *at >= suspected)?;
                (at - suspected <= SMALL.confirm).then_some(at)
            });
            if let Some(at) = confirmed {
                return self.reach(at);
            }
            let behind = (self.position.saturating_sub(SMALL.behind)..self.position)
                .rev()
                .find(|at| self.entries[*at].0 == page)
                .map(|at| self.position - at);
            match (first.map(|at| at - self.position), behind) {
                (Some(ahead), behind) if behind.is_none_or(|behind| ahead < behind) => {
                    if ahead <= SMALL.near {
                        return self.reach(self.position + ahead);
                    }
                    self.suspected = Some(self.position + ahead + 1);
                    Progress::Far
                }
                (_, Some(_)) => Progress::Behind,
                _ => Progress::Off,
            }
        }

        fn reach(&mut self, at: usize) -> Progress {
            if let Some((page, _)) = self.entries[self.position..=at].iter().rev().find(|entry| entry.1) {
                self.marked = Some(*page);
            }
            self.position = at + 1;
            self.suspected = None;
            Progress::On(ListIndex(self.dropped + at as u64))
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Hint(HintMode, Vec<(u64, bool)>),
        /// Reads the entry this far ahead of the position, if there is one.
        Next(usize),
        Read(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let pages = proptest::collection::vec((0..12u64, any::<bool>()), 0..40);
        let mode = prop_oneof![
            4 => Just(HintMode::Append),
            1 => Just(HintMode::Set),
            1 => Just(HintMode::SetFromMark),
        ];
        let op = prop_oneof![
            1 => (mode, pages).prop_map(|(mode, pages)| Op::Hint(mode, pages)),
            12 => (0..3usize).prop_map(Op::Next),
            2 => (0..20usize).prop_map(Op::Next),
            2 => (0..15u64).prop_map(Op::Read),
        ];
        proptest::collection::vec(op, 0..200)
    }

    proptest! {
        #[test]
        fn the_list_follows_as_the_model_does(ops in ops()) {
            let mut list = AccessList::with_reach(LIMIT, SMALL);
            let mut model =
                Model { entries: Vec::new(), position: 0, dropped: 0, suspected: None, marked: None };
            for op in ops {
                let page = match op {
                    Op::Hint(mode, entries) => {
                        let hints = entries.iter().map(|(page, mark)| Entry::new(key(*page), *mark));
                        list.hint(mode, hints, false);
                        model.hint(mode, &entries);
                        None
                    }
                    Op::Next(ahead) => model.entries.get(model.position + ahead).map(|entry| entry.0),
                    Op::Read(page) => Some(page),
                };
                if let Some(page) = page {
                    prop_assert_eq!(list.read(key(page)), model.read(page));
                }
                prop_assert_eq!(list.position().0, model.dropped + model.position as u64);
                prop_assert_eq!(list.marked(), model.marked.map(key));
                let rest: Vec<PageKey> = list.from(list.position()).map(|(_, page)| page).collect();
                let expected: Vec<PageKey> =
                    model.entries[model.position..].iter().map(|(page, _)| key(*page)).collect();
                prop_assert_eq!(rest, expected);
                prop_assert!(list.entries.len() <= LIMIT + 2 * SMALL.behind + SMALL.ahead);
            }
        }
    }
}
