//! Learnt depth: fetches as deep as the lengths of past streams make worth while, within a bound.
//!
//! Streams are followed and their lengths learnt by classes ([`crate::learn`]). The [`Plan`] of least cost
//! for those lengths gives the depth of a fetch. Whatever was learnt, no stream costs more than `rho` times
//! what knowing its length would; competitive prefetching is `rho = 2`. The plan assumes one positioning cost and
//! one rate: the current ones at the place, within a tenth. Each fetch is held to the stream's own
//! [`Account`], with the current positioning cost and the rates of its pages ([`Transfers`]).
//!
//! A fetch is made when a page is missing, as in the papers' analysis, or *early*, while its reader is still
//! busy with earlier pages. An early fetch needs both:
//!
//! - the bound permits it: the reader already wants enough, even if it stops there;
//! - the probability that the fetch is unused does not exceed the idle share of the device ([`Idle`]).
//!
//! An idle device therefore works while its reader computes, and a busy one reads next to nothing unused.
//! Where no depth stays within the bound early, the fetch waits until the pages fetched are used up.
//!
//! A stream's first fetch is its call, if the plan's ends in the same cell of the life table
//! ([`first_wish`]).
//!
//! Memory limits the depth where the caller sets a bound ([`View::bound`](super::View::bound)). Pages may be
//! evicted before their use; pages that other streams have read may be evicted since. The stream then fetches
//! from there as from its current position. A page that a reader has skipped and returns to is read with its
//! call and no more.
//!
//! A page fault that begins a stream reads around the page, as kernels do and while it pays ([`mapped`]).
//! Programs that map a file often read backwards as well (a binary search ends within a window). The pages in
//! front of the page count as wasted, and are limited to what the bound permits.
//!
//! `adaptive-known-lengths` is given the lengths (by [`Learning::load`]) and learns nothing: learning is
//! measured against it.
//!
//! Where a cache in front was given the pages ahead ([`View::delivered`](super::View::delivered)), a fetch ends in
//! front of them ([`until_delivered`]): that cache may still have them, as where one reader ends at the place where another
//! has begun. Nothing is fetched early from there on.
//!
//! Limits:
//!
//! - Pages in memory count as transferred where a fetch reads over them.
//! - Pages that were evicted before their use are not charged, nor pages that a reader has skipped and
//!   returns to. After either, or where memory cuts a fetch below the least within the bound, there may be no
//!   depth within the bound: then the competitive one is taken.
//! - A fetch counts as one positioning, even if the queue sends it as several requests.
//! - Congestion does not cancel read-ahead that a reader waits for: it is one request with the pages that are
//!   needed.

use super::machine::{Answer, Machine, Streams};
use super::mapped;
use super::parts::Parts;
use super::prefetcher::{Opened, Prefetcher};
use super::transfer::Transfers;
use super::view::View;
use crate::depth::grid::{cell, point};
use crate::depth::{
    Account, CONTINUING, DEPTH_LIMIT, Idle, Plan, Planned, PositioningCost, RatioBound, Served,
};
use crate::learn::{Classes, Explained, Follower, Learning, LoadError, Loaded, Retention, SCHEME, Step};
use foreseek_seam::{Measured, StreamInfo};
use foreseek_units::{Bytes, Instant, Lba, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, Span};
use std::sync::Arc;

/// The deepest fetch in competitive depths. A positioning is a seventeenth of it: a longer fetch gains next to
/// nothing, makes all others wait and takes their memory.
const DEEPEST: f64 = 16.0;
/// The assumed file length in the report of a class that does not give one.
const EXPLAINED: Pages = Bytes::mib(64).pages_floor();

/// Builds the policy.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    with(Retention::Fading, parts)
}

/// Builds the policy that learns nothing.
pub(super) fn announced(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    with(Retention::Fixed, parts)
}

fn with(memory: Retention, parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let settings = parts.settings;
    let positioning =
        PositioningCost::new(Arc::clone(parts.costs), settings.averaging, settings.positioning_weight);
    let (rho, unseen_hits) = (settings.rho, settings.unseen_hits);
    let (idle, classes) = (Idle::default(), Classes::new(SCHEME, memory));
    let around = settings.window;
    Box::new(Streams::new(Adaptive { positioning, idle, rho, unseen_hits, measured: None, around, classes }))
}

/// The window machine.
struct Adaptive {
    positioning: PositioningCost,
    idle: Idle,
    rho: f64,
    unseen_hits: bool,
    /// The costs of the device, if they are measured at run time.
    measured: Option<Measured>,
    /// The kernel's own window, for page faults.
    around: Pages,
    classes: Classes<Option<Planned>>,
}

/// The position of a reader in one stream.
#[derive(Clone, Debug)]
struct ReaderState {
    follower: Follower,
    /// The page after the last one fetched.
    fetched: PageIndex,
    fetches: usize,
    /// The costs of the fetches.
    account: Account,
    /// The transfer time, in seconds, of the slowest page that was fetched and is not used up.
    slowest: f64,
    /// How much the stream must be sure to read before the next fetch is made early.
    early: Pages,
    /// Whether the last fetch ended in front of delivered pages.
    before_delivered: bool,
    /// Whether a hit of the page after the last one touched would be unseen.
    ends_unseen: bool,
    /// Page faults that found their page, and those that did not.
    faults: mapped::Classic,
}

impl ReaderState {
    /// An upper bound for the transfer of the pages fetched behind a page.
    fn unused(&self, page: PageIndex) -> f64 {
        (self.fetched - page).get() as f64 * self.slowest
    }
}

/// The fewest delivered pages that end a fetch: a window of a kernel's read-ahead. Reading through fewer costs less
/// than another positioning.
const FRONT: Pages = Pages(32);

/// No fetch is made early.
const NEVER: Pages = Pages(u64::MAX);
/// Slack for rounding, in seconds.
const ROUNDING: f64 = 1e-9;

impl Machine for Adaptive {
    type Stream = ReaderState;

    fn open(&self, opened: &Opened) -> ReaderState {
        let follower = Follower::new(opened.length);
        let follower = if self.unseen_hits { follower.behind_read_ahead() } else { follower };
        ReaderState {
            follower,
            fetched: PageIndex::ZERO,
            fetches: 0,
            account: Account::new(self.rho),
            slowest: 0.0,
            early: NEVER,
            before_delivered: false,
            ends_unseen: false,
            faults: mapped::Classic::default(),
        }
    }

    fn describe(&self, run: &mut ReaderState, about: &StreamInfo<'_>) {
        run.follower.describe(about);
    }

    fn resize(&self, run: &mut ReaderState, length: Pages) {
        run.follower.resize(length);
    }

    fn close(&mut self, run: &mut ReaderState) {
        let unseen = run.ends_unseen;
        run.follower.leave(&mut self.classes, |_| unseen);
    }

    fn touch(&mut self, run: &mut ReaderState, answer: &mut Answer<'_>) {
        let page = answer.page();
        self.measured = answer.view.measured();
        let (view, unseen_hits, fetched) = (answer.view, self.unseen_hits, run.fetched);
        // Pages that were fetched for this stream are visible when they are touched.
        let unseen = |page| unseen_hits && page >= fetched && view.cached(page);
        let step = run.follower.touch(&mut self.classes, page, unseen);
        let began = matches!(step, Step::Began(_));
        if began {
            (run.fetched, run.fetches, run.early) = (page, 0, NEVER);
            run.account = Account::new(self.rho);
        }
        run.ends_unseen = unseen(page.next());
        let around = answer.touch.mapped && run.faults.around(answer.missing());
        let Some(start) = run.follower.start() else { return };
        // The call's pages will be touched in any case.
        let asked = Span::at(page, answer.touch.request.max(Pages(1)));
        let sure = asked.end.min(answer.end());
        if answer.missing() && step == Step::WentBack {
            answer.read(asked, None);
        } else if answer.missing() {
            // The pages fetched from here on were evicted.
            run.account.lost(run.unused(page));
            run.fetched = page;
            let around = if began && around { mapped::centred(page, self.around) } else { asked };
            self.fetch(run, start, sure, around, answer);
        } else if sure - start >= run.early && !answer.view.congested() {
            // Pages that others have fetched may have taken it beyond its own.
            run.fetched = run.fetched.max(page);
            let asked = Span::new(run.fetched, sure.max(run.fetched));
            self.fetch(run, start, sure, asked, answer);
        }
    }

    fn served(&mut self, now: Instant, served: Served) {
        let costs = self.costs(Some(served.range.start));
        let gap = (served.range.start - served.from).bytes();
        let positioned = served.range.start < served.from || gap > costs.gap();
        let going = match self.measured {
            _ if !positioned => Nanos::ZERO,
            Some(measured) => measured.positioning,
            None => {
                let costs = self.positioning.costs();
                costs.seek_time(served.from.distance(served.range.start)) + costs.half_rotation()
            }
        };
        self.idle.served(now, going + costs.rate.time_for(served.range.len().bytes()));
        if positioned {
            self.positioning.served(served);
        }
    }

    fn learning(&mut self) -> Option<&mut dyn Learning> {
        Some(self)
    }
}

impl Adaptive {
    /// Fetches from the end of the last fetch on, for a stream that is sure to touch all pages before `sure`.
    /// Of the pages `around`, as many are read as the bound permits.
    fn fetch(
        &mut self,
        run: &mut ReaderState,
        start: PageIndex,
        sure: PageIndex,
        around: PageSpan,
        answer: &mut Answer<'_>,
    ) {
        let from = run.fetched;
        let lba = answer.view.lba(from);
        let (wish, call) = (self.wish(run, from - start, lba), around.end - from);
        let wish = if run.fetches == 0 { first_wish(wish, call) } else { wish.max(call) };
        let before = until_delivered(answer.view, from, call, wish);
        let (cut, wish) = (before < wish, wish.min(before));
        let (positioning, transfers) = (self.positioning_seconds(), self.transfers(answer));
        let mut account = run.account;
        let spare = Pages((account.spare(positioning) / transfers.page(from)) as u64);
        let front = Span::new(around.start.max(from - spare).min(from), from);
        account.wasted(transfers.of(front));
        let used = account.transfer() - run.unused(sure) + transfers.of(Span::new(from, sure.max(from)));
        let depths = Depths::that_keep(&account, positioning, used, from, &transfers);
        let ahead = from - answer.page();
        let depth = depths.nearest(wish);
        let room = answer.view.bound().map_or(depth, |bound| (bound - ahead).max(Pages(1)));
        let depth = depth.min(room);
        if answer.missing() || depths.hold(depth) {
            let window = Span::new(front.start, (from + depth).max(sure));
            let end = window.end.min(answer.end());
            if answer.read(window, None) {
                let fresh = Span::new(from, end);
                account.fetched(positioning, transfers.of(fresh));
                let slowest = transfers.slowest(fresh);
                run.slowest = if sure < from { run.slowest.max(slowest) } else { slowest };
                run.account = account;
                run.fetches += 1;
            }
            run.before_delivered = cut && end == from + wish;
            run.fetched = end;
        }
        run.follower.skips(self.costs(lba).gap().pages_floor());
        run.early = self.early(run, start, answer);
    }

    /// The pages that the stream must be sure to read before the next fetch may be made early.
    fn early(&mut self, run: &ReaderState, start: PageIndex, answer: &Answer<'_>) -> Pages {
        let (from, fetched, left) = (run.fetched, run.fetched - start, answer.end() - run.fetched);
        if left.is_zero() || run.before_delivered {
            return NEVER;
        }
        let (doubt, lba) = (self.idle.share(), answer.view.lba(from));
        let wish = self.wish(run, fetched, lba).min(left);
        let certain = self.plan(run, lba).certain(fetched, doubt);
        let (positioning, transfers) = (self.positioning_seconds(), self.transfers(answer));
        let depth = wish.max(transfers.at_least(from, run.account.least(positioning)));
        let used = run.account.used(positioning, transfers.of(Span::at(from, depth)));
        let unused = run.account.transfer() - used;
        let sure = if unused >= 0.0 {
            fetched - Pages((unused / run.slowest.max(ROUNDING)) as u64)
        } else {
            fetched + Pages((-unused / transfers.page(from)).ceil() as u64)
        };
        sure.max(certain)
    }

    /// The wished size of the next fetch at a place, after `fetched` pages.
    fn wish(&mut self, run: &ReaderState, fetched: Pages, lba: Option<Lba>) -> Pages {
        let deepest = Pages((self.ratio_bound(lba).unit() * DEEPEST) as u64).clamp(Pages(1), DEPTH_LIMIT);
        self.plan(run, lba).wish(run.fetches, fetched).min(deepest)
    }

    /// The costs of the device at a place, or its mean costs if no place is known.
    fn costs(&self, lba: Option<Lba>) -> Measured {
        self.measured.unwrap_or_else(|| {
            let (positioning, costs) = (self.positioning.estimate(), self.positioning.costs());
            let rate = lba.map_or_else(|| costs.mean_rate(), |lba| costs.rate_at(lba));
            Measured { positioning, rate }
        })
    }

    /// The current cost of a positioning, in seconds.
    fn positioning_seconds(&self) -> f64 {
        self.costs(None).positioning.as_secs_f64()
    }

    /// The transfer times of the object's pages.
    fn transfers<'a>(&'a self, answer: &Answer<'a>) -> Transfers<'a> {
        Transfers::new(answer.view, self.positioning.costs(), self.measured, answer.end())
    }

    /// The bound at the rate of a place.
    fn ratio_bound(&self, lba: Option<Lba>) -> RatioBound {
        RatioBound::new(self.rho, unit(self.costs(lba)))
    }

    /// The plan for streams like this one at a place. It is made anew when it is outdated or was made for
    /// another zone: a plan for less than a positioning's worth of data there leaves no freedom after some
    /// fetches.
    fn plan(&mut self, run: &ReaderState, lba: Option<Lba>) -> &Plan {
        let (ratio_bound, length) = (self.ratio_bound(lba), run.follower.length());
        let chain = run.follower.chain().copied().unwrap_or_default();
        // The longest file of the class so far: in a shorter one the end cuts the last fetch.
        let end = self.classes.longest(&chain).max(length);
        let (kept, seen) = self.classes.kept(&chain);
        let old = kept.take().filter(|old| old.serves(seen, ratio_bound.unit(), length));
        let planned =
            old.unwrap_or_else(|| Planned::solve(self.classes.survival(&chain), ratio_bound, end, seen));
        self.classes.kept(&chain).0.insert(planned).plan()
    }
}

/// The depths of a fetch that stay within the bound.
struct Depths {
    /// The fewest pages that keep the bound for ever.
    fewest: Pages,
    /// The most pages that keep it now.
    most: Pages,
    /// The fetch if there is no such depth.
    otherwise: Pages,
}

impl Depths {
    /// From a page on, for a stream that is sure to use this many seconds of transfer.
    fn that_keep(
        account: &Account,
        positioning: f64,
        used: f64,
        from: PageIndex,
        transfers: &Transfers<'_>,
    ) -> Self {
        let (least, most) = (account.least(positioning), account.most(positioning, used));
        let fewest = transfers.at_least(from, least);
        // It may be up to a page beyond the most: fewer than the fewest could never be made up for.
        let lost = least > most + ROUNDING;
        let otherwise = if lost { transfers.at_least(from, positioning) } else { fewest };
        Self { fewest, most: transfers.within(from, most), otherwise }
    }

    fn nearest(&self, wish: Pages) -> Pages {
        if self.fewest <= self.most { wish.clamp(self.fewest, self.most) } else { self.otherwise }
    }

    /// Whether a depth is one of them.
    fn hold(&self, depth: Pages) -> bool {
        (self.fewest.max(Pages(1))..=self.most).contains(&depth)
    }
}

/// A stream's first fetch: the wish, and no less than its call. If the wish ends with the call's cell of the
/// life table, it is the call alone: a stream of one call ends there too, and the plan assumes the cell's
/// end.
fn first_wish(wish: Pages, call: Pages) -> Pages {
    let end = cell(call).map(|cell| Pages(point(cell + 1)));
    if wish <= call || Some(wish) == end { call } else { wish }
}

/// How many pages, from one on and of at most `wish`, lie in front of pages that the cache in front was given.
///
/// The first page, or the last of the call, may have been given as well: then that cache has dropped it, and
/// likely what follows.
fn until_delivered(view: &dyn View, from: PageIndex, call: Pages, wish: Pages) -> Pages {
    let least = from + call.max(Pages(1));
    let given = |page: &PageIndex| view.delivered(*page);
    // Each run of this length holds a page of the grid, and as many pages behind it.
    let mut grid = (least.get()..(from + wish).get()).step_by(FRONT.get() as usize / 2).map(PageIndex);
    let Some(within) = grid.find(given) else { return wish };
    let before = Span::new(least, within).iter().rev().take_while(given).count() as u64;
    let start = PageIndex(within.get() - before);
    let is_fresh = start > least || !given(&PageIndex(least.get() - 1));
    let is_long = Span::at(start, FRONT).iter().all(|page| given(&page));
    if is_fresh && is_long { start - from } else { wish }
}

/// `CR` in pages.
fn unit(costs: Measured) -> f64 {
    costs.rate.as_bytes_per_second() * costs.positioning.as_secs_f64() / PAGE_SIZE as f64
}

impl Learning for Adaptive {
    fn save(&self) -> String {
        self.classes.save()
    }

    fn load(&mut self, text: &str) -> Result<Loaded, LoadError> {
        self.classes.load(text)
    }

    fn explain(&self, limit: usize) -> Vec<Explained> {
        self.classes.explain(self.ratio_bound(None), EXPLAINED, CONTINUING, limit)
    }

    fn classes(&self) -> usize {
        self.classes.count()
    }
}

#[cfg(test)]
mod tests {
    use super::first_wish;
    use crate::stream::testing::{World, costs};
    use crate::stream::{Settings, by_name};
    use foreseek_units::Pages;

    /// Cold: half of slow start's first step, twice as much again, and more as it continues.
    #[test]
    fn golden_a_cold_start_on_the_393_kb_drive() {
        let windows = World::new("adaptive", &Settings::default(), 1000).pages(0..700);
        assert_eq!(windows, [(0, 8), (8, 24), (32, 64), (96, 96), (192, 128), (320, 192), (512, 256)]);
    }

    /// 95.2 pages, rounded up: the excess over the line doubles with each fetch.
    #[test]
    fn golden_with_a_bound_of_two_every_fetch_is_the_competitive_depth() {
        let settings = Settings { rho: 2.0, ..Settings::default() };
        let windows = World::new("adaptive", &settings, 1000).pages(0..390);
        assert_eq!(windows, [(0, 96), (96, 96), (192, 98), (290, 100)]);
    }

    /// Another reader began at page 700, and the cache in front has what it read.
    #[test]
    fn golden_a_fetch_ends_in_front_of_what_was_delivered() {
        let mut world = World::new("adaptive", &Settings::default(), 2000);
        world.memory.delivered.extend(700..900);
        assert_eq!(world.pages(0..520).last(), Some(&(512, 188)), "otherwise 256");
        assert_eq!(world.pages(520..700), [], "nothing beyond");
        // It is missing all the same: the cache in front has dropped it.
        assert_eq!(world.pages(700..701)[0].0, 700);
        // Few pages are read through.
        let mut world = World::new("adaptive", &Settings::default(), 2000);
        world.memory.delivered.extend(700..720);
        assert_eq!(world.pages(0..520).last(), Some(&(512, 256)));
        // What was dropped is fetched as for the first time.
        let mut world = World::new("adaptive", &Settings::default(), 1000);
        world.memory.delivered.extend(0..1000);
        let windows = world.pages(0..700);
        assert_eq!(windows, World::new("adaptive", &Settings::default(), 1000).pages(0..700));
    }

    /// 241 pages, as in parts of columns, lie within a cell that ends at 256.
    #[test]
    fn golden_a_stream_that_is_one_call_is_fetched_to_its_end_and_no_further() {
        let prefetcher = by_name("adaptive", &Settings::default(), &costs("barracuda-500g"));
        let mut world = World::with(prefetcher.expect("a policy"), 100_000, None);
        for start in (300..60_000).step_by(1000) {
            assert_eq!(world.call(start, 241), [(start, 241)]);
        }
    }

    #[test]
    fn a_first_fetch_is_its_call_where_what_is_learnt_is_no_finer() {
        let first = |wish, call| first_wish(Pages(wish), Pages(call)).get();
        assert_eq!([first(256, 241), first(320, 260), first(200, 241)], [241, 260, 241]);
        // Every page below 8 is a point of the grid, and 192 ends a cell.
        assert_eq!([first(6, 5), first(12, 10), first(224, 192), first(384, 241)], [6, 12, 224, 384]);
    }

    #[test]
    fn golden_a_small_gap_is_read_through_and_a_large_one_begins_anew() {
        let mut world = World::new("adaptive", &Settings::default(), 9000);
        let windows = world.pages((0..200).step_by(8));
        assert_eq!(windows, [(0, 8), (8, 24), (32, 64), (96, 96), (192, 128)]);
        assert_eq!(world.pages([4000]), [(4000, 24)], "one stream has gone far");
    }

    /// Of 56 pages ahead a dozen are evicted.
    #[test]
    fn golden_evicted_pages_are_fetched_again_from_there_on() {
        let mut world = World::new("adaptive", &Settings::default(), 1000);
        assert_eq!(world.pages(0..40), [(0, 8), (8, 24), (32, 64)]);
        world.evict(40..52);
        assert_eq!(world.pages(40..136), [(40, 96)], "in one fetch");
    }

    /// The reader skips 20 pages and returns to them.
    #[test]
    fn golden_a_reader_that_goes_back_gets_its_call() {
        let mut world = World::new("adaptive", &Settings::default(), 1000);
        assert_eq!(world.pages(0..8), [(0, 8)]);
        assert_eq!(world.call(28, 8), [(28, 52)]);
        assert_eq!(world.call(16, 8), [(16, 8)]);
        assert_eq!(world.pages(36..80), [], "what is ahead of it is untouched");
    }

    #[test]
    fn golden_a_fault_that_begins_a_stream_reads_around_it() {
        let mut world = World::new("adaptive", &Settings::default(), 9000);
        assert_eq!(world.faults([1000]), [(984, 32)]);
        assert_eq!(world.faults([1001, 999, 984, 1015]), []);
        assert_eq!(world.faults([1016])[0].0, 1016, "the stream goes on");
        // Pages read around are unused: it stops after a hundred.
        let faults = (0..110).map(|n| 2000 + n * 56);
        let around = faults.filter(|page| world.faults([*page])[0].0 < *page).count();
        assert!((100..=110).contains(&around), "{around}");
    }
}
