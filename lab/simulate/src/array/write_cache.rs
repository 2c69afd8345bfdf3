//! Written data: blocks that the array does not have yet, and those that it got last.
//!
//! A write is acknowledged when its blocks are here. They are *dirty* until they have been *destaged*, stripe
//! by stripe: "destaging dirty blocks from the RAID cache is more efficient when it is managed in stripes than
//! in blocks or strips" (ATC'08 section 2.2). Then they are *clean*: they stay until their memory is needed, so
//! that a read of recently written data needs no disk.
//!
//! What the paper leaves open:
//!
//! - *When.* Destaging begins when a quarter of the memory is dirty, as Linux 2.6 writes back from 10 % of memory on where writers wait
//!   at 40 %. It goes on while a writer waits.
//! - *Which.* A stripe all of whose blocks are dirty, since its parity needs no read; else the one that was written least recently.
//!   All of its dirty blocks go at once, each run of them as a request.
//! - *How many.* [`DESTAGES`] stripes at a time.
//! - *Eviction.* Where memory is needed, the clean blocks of the least recently used stripe. A write that finds
//!   no clean block waits; its blocks that found room stay.
//!
//! Limits: the memory is a fixed share of the cache, while the paper's driver has one memory for both. Age
//! alone destages nothing. A write that fails below is lost, as behind any cache that acknowledges early.

use foreseek_strips::{Geometry, StripeNo};
use foreseek_units::{PageIndex, PageSpan, Pages};
use std::collections::{BTreeMap, BTreeSet};

/// Stripes that are destaged at a time: one for each of the paper's members.
pub(super) const DESTAGES: usize = 5;
/// Destaging begins when one block in this many is dirty.
const BACKGROUND: u64 = 4;

/// The written blocks of a stripe. One that is written again while it is destaged is in `dirty` and in
/// `leaving`.
#[derive(Clone, Debug, Default)]
struct Stripe {
    dirty: BTreeSet<u64>,
    leaving: BTreeSet<u64>,
    clean: BTreeSet<u64>,
    /// When it was last written, and when its clean blocks were last used: the keys of the orders.
    written: u64,
    used: u64,
}

/// A stripe on its way to the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destage {
    pub(super) stripe: StripeNo,
    /// Its dirty blocks.
    pub(super) runs: Vec<PageSpan>,
}

/// The written blocks.
#[derive(Debug)]
pub(super) struct WriteCache {
    geometry: Geometry,
    limit: u64,
    held: u64,
    dirty: u64,
    stripes: BTreeMap<StripeNo, Stripe>,
    /// Stripes with dirty blocks that are not being destaged, the least recently written one first; and the
    /// full ones of them.
    waiting: BTreeMap<u64, StripeNo>,
    full: BTreeSet<StripeNo>,
    /// Stripes with clean blocks, the least recently used one first.
    clean: BTreeMap<u64, StripeNo>,
    clock: u64,
    destages: usize,
}

impl WriteCache {
    /// An empty cache with room for this many blocks.
    pub(super) fn new(geometry: Geometry, limit: Pages) -> Self {
        Self {
            geometry,
            limit: limit.get(),
            held: 0,
            dirty: 0,
            stripes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            full: BTreeSet::new(),
            clean: BTreeMap::new(),
            clock: 0,
            destages: 0,
        }
    }

    /// Whether the array has these blocks at all.
    pub(super) fn takes(&self, pages: PageSpan) -> bool {
        pages.end.get() <= self.geometry.length().get()
    }

    /// The host writes blocks: takes as many from the start as there is room for.
    pub(super) fn write(&mut self, pages: PageSpan) -> Pages {
        let taken = pages.iter().take_while(|page| self.write_one(*page)).count();
        Pages(taken as u64)
    }

    /// Whether all of these blocks are here; then they become the most recently used.
    pub(super) fn read(&mut self, pages: PageSpan) -> bool {
        let here = self.takes(pages) && pages.iter().all(|page| self.has(page));
        if here {
            let stripes: BTreeSet<StripeNo> = pages.iter().map(|page| self.stripe_of(page)).collect();
            stripes.into_iter().for_each(|stripe| self.use_clean(stripe));
        }
        here
    }

    /// The next stripe to destage; `wanted`: a writer waits.
    pub(super) fn destage(&mut self, wanted: bool) -> Option<Destage> {
        if self.destages >= DESTAGES || (self.dirty <= self.limit / BACKGROUND && !wanted) {
            return None;
        }
        let no = *self.full.first().or_else(|| self.waiting.values().next())?;
        let stripe = self.stripes.get_mut(&no)?;
        self.waiting.remove(&stripe.written);
        self.full.remove(&no);
        stripe.leaving = std::mem::take(&mut stripe.dirty);
        self.dirty -= stripe.leaving.len() as u64;
        self.destages += 1;
        Some(Destage { stripe: no, runs: runs(&stripe.leaving) })
    }

    /// A stripe has been destaged, successfully or not.
    pub(super) fn destaged(&mut self, no: StripeNo) {
        let Some(stripe) = self.stripes.get_mut(&no) else { return };
        self.destages -= 1;
        for block in std::mem::take(&mut stripe.leaving) {
            if stripe.dirty.contains(&block) || !stripe.clean.insert(block) {
                self.held -= 1;
            }
        }
        self.use_clean(no);
        self.arrange(no);
    }

    #[cfg(test)]
    fn held(&self) -> u64 {
        self.held
    }

    fn stripe_of(&self, page: PageIndex) -> StripeNo {
        self.geometry.stripe_of(self.geometry.strip_of(page))
    }

    fn has(&self, page: PageIndex) -> bool {
        let block = page.get();
        self.stripes.get(&self.stripe_of(page)).is_some_and(|stripe| {
            [&stripe.dirty, &stripe.leaving, &stripe.clean].iter().any(|set| set.contains(&block))
        })
    }

    fn write_one(&mut self, page: PageIndex) -> bool {
        let (no, block) = (self.stripe_of(page), page.get());
        let stripe = self.stripes.entry(no).or_default();
        let was_dirty = stripe.dirty.contains(&block);
        if !was_dirty && !stripe.clean.remove(&block) {
            while self.held >= self.limit {
                if !self.evict() {
                    self.forget_empty(no);
                    return false;
                }
            }
            self.held += 1;
        }
        self.dirty += u64::from(!was_dirty);
        let stripe = self.stripes.entry(no).or_default();
        stripe.dirty.insert(block);
        self.waiting.remove(&stripe.written);
        self.clock += 1;
        stripe.written = self.clock;
        if stripe.clean.is_empty() {
            self.clean.remove(&stripe.used);
        }
        self.arrange(no);
        true
    }

    /// Puts a stripe with dirty blocks among those that wait.
    fn arrange(&mut self, no: StripeNo) {
        let whole = self.geometry.stripe_pages().get();
        let Some(stripe) = self.stripes.get(&no) else { return };
        if stripe.leaving.is_empty() && !stripe.dirty.is_empty() {
            self.waiting.insert(stripe.written, no);
            if stripe.dirty.len() as u64 == whole {
                self.full.insert(no);
            }
        }
    }

    /// Makes the clean blocks of a stripe the most recently used.
    fn use_clean(&mut self, no: StripeNo) {
        let Some(stripe) = self.stripes.get_mut(&no) else { return };
        self.clean.remove(&stripe.used);
        if !stripe.clean.is_empty() {
            self.clock += 1;
            stripe.used = self.clock;
            self.clean.insert(stripe.used, no);
        }
    }

    /// Evicts the clean blocks of the least recently used stripe; returns false if there are none.
    fn evict(&mut self) -> bool {
        let Some((_, no)) = self.clean.pop_first() else { return false };
        if let Some(stripe) = self.stripes.get_mut(&no) {
            self.held -= std::mem::take(&mut stripe.clean).len() as u64;
            self.forget_empty(no);
        }
        true
    }

    fn forget_empty(&mut self, no: StripeNo) {
        let empty = |one: &Stripe| one.dirty.is_empty() && one.leaving.is_empty() && one.clean.is_empty();
        if self.stripes.get(&no).is_some_and(empty) {
            self.stripes.remove(&no);
        }
    }
}

/// Runs of adjacent blocks.
fn runs(blocks: &BTreeSet<u64>) -> Vec<PageSpan> {
    let mut runs: Vec<PageSpan> = Vec::new();
    for block in blocks.iter().copied().map(PageIndex) {
        match runs.last_mut() {
            Some(last) if last.end == block => last.end = block.next(),
            _ => runs.push(PageSpan::at(block, Pages(1))),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{Lba, Level, Sectors, Stripes};
    use proptest::prelude::*;

    /// Four strips of two blocks a stripe; the members hold 50 stripes.
    fn geometry() -> Geometry {
        let stripes = Stripes { level: Level::Raid5, members: 5, strip: Sectors(16) };
        Geometry::new(stripes, Lba(0), Pages(400)).expect("valid")
    }

    const STRIPE: u64 = 8;

    #[derive(Clone, Debug)]
    enum Act {
        Write(u64, u64),
        Read(u64, u64),
        Destage(bool),
        Destaged(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            4 => (0..120u64, 1..20u64).prop_map(|(from, count)| Act::Write(from, count)),
            2 => (0..120u64, 1..6u64).prop_map(|(from, count)| Act::Read(from, count)),
            2 => any::<bool>().prop_map(Act::Destage),
            2 => (0..DESTAGES).prop_map(Act::Destaged),
        ];
        proptest::collection::vec(act, 0..200)
    }

    fn span(from: u64, count: u64) -> PageSpan {
        PageSpan::at(PageIndex(from), Pages(count))
    }

    /// Versions of blocks: the last acknowledged one, and that of the array.
    #[derive(Default)]
    struct Model {
        newest: BTreeMap<u64, u64>,
        array: BTreeMap<u64, u64>,
        leaving: Vec<(StripeNo, Vec<(u64, u64)>)>,
        writes: u64,
    }

    impl Model {
        fn is_dirty(&self, block: u64) -> bool {
            let leaves =
                |(of, version): &(u64, u64)| *of == block && Some(version) == self.newest.get(&block);
            self.newest.get(&block) != self.array.get(&block)
                && !self.leaving.iter().any(|(_, blocks)| blocks.iter().any(leaves))
        }

        fn left(&mut self, at: usize) -> StripeNo {
            let (stripe, blocks) = self.leaving.remove(at);
            self.array.extend(blocks);
            stripe
        }

        fn leaves(&mut self, Destage { stripe, runs }: Destage) -> Result<(), TestCaseError> {
            let dirty = |no: u64| (no * STRIPE..(no + 1) * STRIPE).filter(|block| self.is_dirty(*block));
            let blocks: Vec<u64> = runs.iter().flat_map(|run| run.iter()).map(PageIndex::get).collect();
            prop_assert!(!blocks.is_empty());
            prop_assert_eq!(&blocks, &dirty(stripe.0).collect::<Vec<_>>(), "all dirty blocks of one stripe");
            prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start));
            let busy = |no: u64| self.leaving.iter().any(|(of, _)| of.0 == no);
            prop_assert!(!busy(stripe.0));
            let any_full = (0..50).any(|no| !busy(no) && dirty(no).count() as u64 == STRIPE);
            prop_assert_eq!(any_full, blocks.len() as u64 == STRIPE, "full stripes first");
            let versions = blocks.into_iter().map(|block| (block, self.newest[&block])).collect();
            self.leaving.push((stripe, versions));
            prop_assert!(self.leaving.len() <= DESTAGES);
            Ok(())
        }
    }

    proptest! {
        /// Nothing that was acknowledged is lost, memory keeps its bound, stripes are destaged whole, full ones
        /// first.
        #[test]
        fn it_does_what_a_map_of_versions_does(acts in acts(), limit in 1..80u64) {
            let (mut cache, mut model) = (WriteCache::new(geometry(), Pages(limit)), Model::default());
            for act in acts {
                match act {
                    Act::Write(from, count) => {
                        let taken = cache.write(span(from, count)).get();
                        model.writes += 1;
                        model.newest.extend((from..from + taken).map(|block| (block, model.writes)));
                    }
                    Act::Read(from, count) => {
                        let must = (from..from + count)
                            .all(|block| model.newest.contains_key(&block) && model.newest.get(&block) != model.array.get(&block));
                        let may = (from..from + count).all(|block| model.newest.contains_key(&block));
                        let here = cache.read(span(from, count));
                        prop_assert!(here >= must && here <= may, "{from} {count}");
                    }
                    Act::Destage(wanted) => {
                        if let Some(destage) = cache.destage(wanted) {
                            model.leaves(destage)?;
                        }
                    }
                    Act::Destaged(at) if at < model.leaving.len() => cache.destaged(model.left(at)),
                    Act::Destaged(_) => {}
                }
                prop_assert!(cache.held() <= limit);
                for (block, version) in &model.newest {
                    prop_assert!(model.array.get(block) == Some(version) || cache.has(PageIndex(*block)));
                }
            }
            while !model.leaving.is_empty() || cache.dirty > 0 {
                match cache.destage(true) {
                    Some(destage) => model.leaves(destage)?,
                    None => cache.destaged(model.left(0)),
                }
            }
            prop_assert_eq!(&model.newest, &model.array);
        }
    }

    #[test]
    fn what_has_been_destaged_stays_until_its_memory_is_wanted() {
        let mut cache = WriteCache::new(geometry(), Pages(16));
        assert_eq!(cache.write(span(0, 8)), Pages(8));
        let destage = cache.destage(false).expect("half is dirty");
        assert_eq!(destage.runs, [span(0, 8)]);
        cache.destaged(destage.stripe);
        assert!(cache.read(span(2, 3)));
        assert_eq!(cache.write(span(40, 12)), Pages(12));
        assert!(!cache.read(span(2, 3)) && cache.read(span(40, 12)));
        assert_eq!(cache.write(span(80, 12)), Pages(4), "the rest waits");
    }
}
