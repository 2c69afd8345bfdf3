//! The pages that were fetched and not released, by the engine's own account.
//!
//! A page belongs to the last round that wanted or covered it. Before a new round is fetched, pages that it
//! does not need are released, oldest rounds first, until the buffer suffices. Where every round is as large as
//! the buffer, this is the paper's rule (ATC'09 section 4.5: evict all pages of the previous round that are not
//! in the new one). Rounds are smaller when the list is short or trust in it is still growing. Free memory then
//! keeps its pages, since a page read once is often read again.

use crate::objects::{PageKey, Slot};
use crate::plan::FetchRun;
use foreseek_units::{PageSpan, Pages, Span};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In a gap that is cheaper to read than to skip, or fetched outside of rounds.
    Infill,
    /// Wanted, not read yet.
    Unread,
    /// Wanted, and read at least once.
    Read,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    round: u32,
    kind: Kind,
}

#[derive(Debug)]
struct Batch {
    round: u32,
    runs: Vec<(Slot, PageSpan)>,
}

/// What a read shows about a held page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// The page is not held, or was infill: nothing follows.
    Nothing,
    /// The first read of the page since it was fetched.
    First,
    /// The page was read before.
    Again,
    /// The present round has fetched the page; it is needed and has been evicted.
    Gone,
}

/// How far the present round was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) wanted: Pages,
    pub(crate) used: Pages,
    /// Wanted pages that were evicted before they were read.
    pub(crate) lost: Pages,
}

#[derive(Debug, Default)]
pub(crate) struct Held {
    pages: FxHashMap<PageKey, Page>,
    /// Runs of the rounds, oldest first. A page of a run may belong to a later round by now.
    batches: VecDeque<Batch>,
    /// Pages in those runs, whichever round they belong to.
    listed: Pages,
    round: u32,
    account: Account,
}

/// Runs may list this many pages more than twice those held before they are tidied.
const SLACK: Pages = Pages(4096);

impl Held {
    pub(crate) fn pages(&self) -> Pages {
        Pages(self.pages.len() as u64)
    }

    pub(crate) fn contains(&self, page: PageKey) -> bool {
        self.pages.contains_key(&page)
    }

    /// Whether the present round holds a page that it wants and that has not been read.
    pub(crate) fn is_unread(&self, page: PageKey) -> bool {
        self.pages.get(&page).is_some_and(|page| page.round == self.round && page.kind == Kind::Unread)
    }

    pub(crate) fn account(&self) -> Account {
        self.account
    }

    /// The objects with held pages.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.batches.iter().flat_map(|batch| batch.runs.iter().map(|run| run.0))
    }

    /// A new round fetches `runs` and keeps the pages `kept`; of both it wants the pages `wanted`.
    pub(crate) fn begin(
        &mut self,
        runs: &[FetchRun],
        kept: &[PageKey],
        wanted: impl Iterator<Item = PageKey>,
    ) {
        self.round = self.round.wrapping_add(1);
        let round = self.round;
        for page in runs.iter().flat_map(FetchRun::keys) {
            self.pages.insert(page, Page { round, kind: Kind::Infill });
        }
        self.account = Account::default();
        for page in wanted {
            self.pages.insert(page, Page { round, kind: Kind::Unread });
            self.account.wanted += Pages(1);
        }
        let kept = kept.iter().map(|key| (key.slot(), Span::at(key.page(), Pages(1))));
        let mut runs: Vec<_> = runs.iter().map(|run| (run.slot, run.span)).collect();
        runs.extend(join(kept.collect()));
        self.listed += runs.iter().map(|run| run.1.len()).sum();
        if !runs.is_empty() {
            self.batches.push_back(Batch { round, runs });
        }
        if self.listed > self.pages() * 2 + SLACK {
            self.tidy();
        }
    }

    /// Releases pages of earlier rounds until at most `limit` are held, as far as there are any. Returns them
    /// in spans as long as possible.
    pub(crate) fn release(&mut self, limit: Pages) -> Vec<(Slot, PageSpan)> {
        let mut released = Vec::new();
        while self.pages() > limit {
            let Some(batch) = self.batches.front_mut().filter(|batch| batch.round != self.round) else {
                break;
            };
            let Some((slot, span)) = batch.runs.pop() else {
                self.batches.pop_front();
                continue;
            };
            let round = batch.round;
            self.listed -= span.len();
            for key in keys(slot, span) {
                if self.pages.get(&key).is_some_and(|page| page.round == round) {
                    self.pages.remove(&key);
                    released.push((slot, Span::at(key.page(), Pages(1))));
                }
            }
        }
        join(released)
    }

    /// A page is being read, and is in the page cache or not. `listed`: the list predicted this read. A page
    /// that was read before, and is read again without being listed, counts as used up.
    pub(crate) fn met(&mut self, key: PageKey, resident: bool, listed: bool) -> Met {
        let Some(page) = self.pages.get_mut(&key) else { return Met::Nothing };
        let (present, kind) = (page.round == self.round, page.kind);
        if !resident {
            self.pages.remove(&key);
            let needed = kind == Kind::Unread || (kind == Kind::Read && listed);
            if !present || !needed {
                return Met::Nothing;
            }
            self.account.lost += Pages(1);
            return Met::Gone;
        }
        match kind {
            Kind::Infill => Met::Nothing,
            Kind::Read => Met::Again,
            Kind::Unread => {
                page.kind = Kind::Read;
                if present {
                    self.account.used += Pages(1);
                }
                Met::First
            }
        }
    }

    /// Takes over pages that were fetched outside of rounds. They count as a round of their own without wanted
    /// pages.
    pub(crate) fn take_over(&mut self, pages: impl Iterator<Item = PageKey>) {
        self.round = self.round.wrapping_add(1);
        let page = Page { round: self.round, kind: Kind::Infill };
        let mut runs = Vec::new();
        for key in pages {
            self.pages.insert(key, page);
            runs.push((key.slot(), Span::at(key.page(), Pages(1))));
        }
        let runs = join(runs);
        self.listed += runs.iter().map(|run| run.1.len()).sum();
        self.account = Account::default();
        if !runs.is_empty() {
            self.batches.push_back(Batch { round: self.round, runs });
        }
    }

    /// Drops all pages and returns them.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = PageKey> + use<> {
        let held = std::mem::take(self);
        self.round = held.round;
        held.pages.into_keys()
    }

    /// These pages no longer count as prefetched: they changed, or were not fetched after all.
    pub(crate) fn disown(&mut self, slot: Slot, span: PageSpan) {
        if span.len() <= self.pages() {
            for key in keys(slot, span) {
                self.drop(key);
            }
            return;
        }
        let ours: Vec<PageKey> = self
            .batches
            .iter()
            .flat_map(|batch| &batch.runs)
            .filter(|(of, _)| *of == slot)
            .flat_map(|(of, run)| keys(*of, run.intersection(span)))
            .collect();
        for key in ours {
            self.drop(key);
        }
    }

    fn drop(&mut self, key: PageKey) {
        if let Some(page) = self.pages.remove(&key)
            && page.round == self.round
            && page.kind == Kind::Unread
        {
            self.account.wanted -= Pages(1);
        }
    }

    /// Drops the runs without pages.
    fn tidy(&mut self) {
        let pages = &self.pages;
        for batch in &mut self.batches {
            let round = batch.round;
            batch.runs.retain(|(slot, span)| {
                keys(*slot, *span).any(|key| pages.get(&key).is_some_and(|page| page.round == round))
            });
        }
        let round = self.round;
        self.batches.retain(|batch| batch.round == round || !batch.runs.is_empty());
        self.listed = self.batches.iter().flat_map(|batch| &batch.runs).map(|run| run.1.len()).sum();
    }
}

fn keys(slot: Slot, span: PageSpan) -> impl Iterator<Item = PageKey> {
    span.iter().filter_map(move |page| PageKey::new(slot, page))
}

/// Sorts spans and joins those that touch.
pub(crate) fn join(mut spans: Vec<(Slot, PageSpan)>) -> Vec<(Slot, PageSpan)> {
    spans.sort_unstable_by_key(|(slot, span)| (*slot, span.start));
    spans.dedup_by(|next, last| {
        let touches = next.0 == last.0 && next.1.start == last.1.end;
        if touches {
            last.1.end = next.1.end;
        }
        touches
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Objects;
    use crate::order::DiskAddress;
    use foreseek_seam::ObjectId;
    use foreseek_units::{Lba, PageIndex};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn slot() -> Slot {
        Objects::new().intern(ObjectId(1)).expect("room")
    }

    fn key(page: u64) -> PageKey {
        PageKey::new(slot(), PageIndex(page)).expect("small")
    }

    fn run(start: u64, pages: u64) -> FetchRun {
        let span = Span::at(PageIndex(start), Pages(pages));
        FetchRun { slot: slot(), span, wanted: Pages(pages), end: DiskAddress::on_device(Lba(0)) }
    }

    #[test]
    fn a_round_keeps_account_of_its_pages() {
        let mut held = Held::default();
        held.begin(&[run(0, 5)], &[], [0, 1, 4].map(key).into_iter());
        assert_eq!(held.met(key(0), true, true), Met::First);
        assert_eq!(held.met(key(0), true, true), Met::Again);
        assert_eq!(held.met(key(2), true, true), Met::Nothing);
        assert_eq!(held.met(key(3), false, true), Met::Nothing);
        assert_eq!(held.met(key(0), false, true), Met::Gone);
        assert_eq!(held.met(key(1), false, false), Met::Gone);
        assert_eq!(held.met(key(1), false, true), Met::Nothing);
        held.disown(slot(), Span::new(PageIndex(4), PageIndex(9)));
        let account = held.account();
        assert_eq!((account.wanted, account.used, account.lost), (Pages(2), Pages(1), Pages(2)));
        assert_eq!(held.pages(), Pages(1));
    }

    #[test]
    fn a_page_that_was_read_and_is_not_listed_again_may_be_evicted() {
        let mut held = Held::default();
        held.begin(&[run(0, 1)], &[], [key(0)].into_iter());
        held.met(key(0), true, true);
        assert_eq!(held.met(key(0), false, false), Met::Nothing);
    }

    #[test]
    fn a_page_of_an_earlier_round_does_not_count_for_this_one() {
        let mut held = Held::default();
        held.begin(&[run(0, 2)], &[], [0, 1].map(key).into_iter());
        held.begin(&[run(2, 1)], &[key(1)], [1, 2].map(key).into_iter());
        assert_eq!(held.met(key(0), false, true), Met::Nothing);
        assert_eq!(held.met(key(1), true, true), Met::First);
        assert_eq!(held.account(), Account { wanted: Pages(2), used: Pages(1), lost: Pages(0) });
    }

    #[test]
    fn rounds_that_fetch_nothing_keep_no_batch() {
        let mut held = Held::default();
        (0..100).for_each(|_| held.begin(&[], &[], std::iter::empty()));
        assert!(held.batches.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// Runs, whether to keep their held pages instead of fetching them, and the limit.
        Begin(Vec<(u64, u64)>, bool, u64),
        Met(u64, bool),
        Disown(u64, u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let runs = proptest::collection::vec((0..60u64, 1..6u64), 0..8);
        let op = prop_oneof![
            1 => (runs, any::<bool>(), 0..40u64).prop_map(|(runs, keep, limit)| Op::Begin(runs, keep, limit)),
            4 => (0..66u64, any::<bool>()).prop_map(|(page, resident)| Op::Met(page, resident)),
            1 => (0..66u64, prop_oneof![0..9u64, Just(1 << 30)]).prop_map(|(at, n)| Op::Disown(at, n)),
        ];
        proptest::collection::vec(op, 0..60)
    }

    proptest! {
        /// Against a map from page to the round that last wanted it.
        #[test]
        fn held_pages_are_those_fetched_and_not_released(ops in ops()) {
            let mut held = Held::default();
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            let mut round = 0;
            for op in ops {
                match op {
                    Op::Begin(spans, keep, limit) => {
                        round += 1;
                        let pages: Vec<u64> = spans.iter().flat_map(|(at, n)| *at..at + n).collect();
                        let (kept, fetched): (Vec<u64>, Vec<u64>) =
                            pages.iter().partition(|page| keep && model.contains_key(page));
                        let runs: Vec<FetchRun> = fetched.iter().map(|page| run(*page, 1)).collect();
                        let wanted = fetched.iter().step_by(2).chain(&kept).map(|page| key(*page));
                        let keys: Vec<PageKey> = kept.iter().map(|page| key(*page)).collect();
                        held.begin(&runs, &keys, wanted);
                        model.extend(pages.iter().map(|page| (*page, round)));
                        let released: Vec<u64> = held
                            .release(Pages(limit))
                            .iter()
                            .flat_map(|(_, span)| span.iter())
                            .map(|page| page.0)
                            .collect();
                        let oldest_left = model
                            .iter()
                            .filter(|(page, of)| **of != round && !released.contains(page))
                            .map(|(_, of)| *of)
                            .min();
                        for page in &released {
                            let of = model.remove(page).expect("it was held");
                            prop_assert!(of != round, "page {page} is needed");
                            prop_assert!(oldest_left.is_none_or(|oldest| of <= oldest), "{page} is not oldest");
                        }
                        prop_assert!(
                            model.len() as u64 <= limit || model.values().all(|of| *of == round)
                        );
                    }
                    Op::Met(page, resident) => {
                        held.met(key(page), resident, true);
                        if !resident {
                            model.remove(&page);
                        }
                    }
                    Op::Disown(at, pages) => {
                        held.disown(slot(), Span::at(PageIndex(at), Pages(pages)));
                        model.retain(|page, _| !(at..at + pages).contains(page));
                    }
                }
                prop_assert_eq!(held.pages(), Pages(model.len() as u64));
                prop_assert!(model.keys().all(|page| held.contains(key(*page))));
                let listed: u64 = held.batches.iter().flat_map(|b| &b.runs).map(|r| r.1.len().0).sum();
                prop_assert_eq!(held.listed, Pages(listed));
            }
        }
    }
}
