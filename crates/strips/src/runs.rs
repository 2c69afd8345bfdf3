//! How many stripes MSP prefetches for a run, learnt from the lengths of past runs, within a competitive bound. Not in the paper, whose
//! prefetches double.
//!
//! A *run* is a stream from where MSP [recognises](crate::massive) it. Its length counts in stripes: one for what lies before that place, and each
//! further stripe in which it has read.
//!
//! - *Learnt.* The runs that are over are in [`Lengths`], the life table of adaptive read-ahead. A run is over when another
//!   stream takes its place. One that has reached the end of the device could not go on and counts as lost, not as ended.
//! - *How much.* What costs least for runs of these lengths, by the [`Plan`](foreseek_readahead::depth::Plan) of adaptive read-ahead, in stripes. As far as two such
//!   prefetches of every semi-sequential stream fit in a quarter of the cache, and [`PREFETCH_STRIPS_LIMIT`] at most.
//! - *When.* As soon as the reader is beyond what was prefetched. Before that, if less than the next prefetch lies ahead, as MSP has it, and it
//!   is likelier than not that the run goes on beyond what was prefetched. Otherwise again with the next stripe that it reads in.
//! - *The bound.* All that is prefetched for a run takes no longer than [`RHO`] times what one fetch of the whole run would, and one stripe more. A fetch takes
//!   a member's positioning and the transfer of its strip of each stripe: all members work at once, and the one with most to read decides. The
//!   [`Account`] of adaptive read-ahead keeps it, whatever was learnt and wherever the run ends. Where it allows no prefetch there is none, and
//!   the reader reads by itself. So neither memory nor evictions break the bound.
//!
//! docs/internals/arrays.md has why the account holds here.
//!
//! Limits: costs are those of the member's profile. What is in the cache already, and what finds no room there, is charged as if it were fetched.
//! Up to [`STREAMS_LIMIT`](crate::STREAMS_LIMIT) runs that are over are not yet learnt from.

use crate::geometry::{Geometry, StripNo, StripeNo};
use foreseek_readahead::depth::{Account, Plan, Planned, RatioBound};
use foreseek_readahead::learn::Lengths;
use foreseek_readahead::stream::RHO;
use foreseek_units::{DeviceCosts, PageIndex, Pages};
use std::fmt;
use std::sync::Arc;

/// How many strips one prefetch has at most: half of the commands that answer an event, and as many as a server has frames with holes
/// for. With four strips of data of 128 KiB in a stripe it is 16 MiB, eight times the competitive size of the paper's disks: a positioning is a ninth of it.
pub(crate) const PREFETCH_STRIPS_LIMIT: u64 = 128;
/// How unlikely a run may be to go on for a prefetch before its reader is beyond the last one. If it goes on it has saved a wait, and if not
/// it has cost as much.
const DOUBT: f64 = 0.5;
/// Slack for rounding, in seconds.
const ROUNDING: f64 = 1e-9;

/// A run that is being followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Where it was recognised, and the stripe there.
    from: PageIndex,
    base: u64,
    /// The stripe behind the last one that was prefetched or that its reader has passed.
    next: u64,
    account: Account,
    fetches: usize,
    /// The transfer of stripes of the run that its reader has read by itself, in seconds.
    own: f64,
    /// That of the slowest stripe that was prefetched and is not reached.
    slowest: f64,
    /// Nothing is due until it has read beyond this page.
    due: PageIndex,
}

impl Run {
    /// Whether there may be something to prefetch for a run that has come so far.
    pub(crate) fn is_due(&self, end: PageIndex) -> bool {
        end > self.due
    }
}

/// What the runs of an array have taught, and what fetches cost.
#[derive(Clone)]
pub(crate) struct RunLengths {
    geometry: Geometry,
    member: Arc<dyn DeviceCosts>,
    /// The positioning of a member, in seconds.
    positioning: f64,
    /// The stripe behind the last one.
    end: u64,
    lengths: Lengths,
    planned: Option<Planned>,
}

impl RunLengths {
    /// Nothing yet, of an array whose members cost so much.
    pub(crate) fn new(geometry: Geometry, member: Arc<dyn DeviceCosts>) -> Self {
        let positioning = member.command_overhead() + member.average_seek() + member.half_rotation();
        let length = geometry.length().get();
        let end = stripe_of(geometry, PageIndex(length.saturating_sub(1))) + 1;
        let lengths = Lengths::default();
        Self { geometry, member, positioning: positioning.as_secs_f64(), end, lengths, planned: None }
    }

    /// A run is recognised when its stream has come so far.
    pub(crate) fn recognised(&mut self, end: PageIndex) -> Run {
        let base = stripe_of(self.geometry, end);
        let own = self.seconds(base.saturating_sub(1));
        let (account, due) = (Account::new(RHO), PageIndex::ZERO);
        Run { from: end, base, next: base, account, fetches: 0, own, slowest: 0.0, due }
    }

    /// A run is over that has come so far.
    pub(crate) fn over(&mut self, run: &Run, end: PageIndex) {
        let could_go_on = end.get() < self.geometry.length().get();
        self.lengths.stream(self.length(run, end), could_go_on);
    }

    /// How many stripes to prefetch for a run that has come so far, and from which on; at most `room`.
    pub(crate) fn prefetch(&mut self, run: &mut Run, end: PageIndex, room: u64) -> Option<(StripeNo, u64)> {
        let length = self.length(run, end);
        // Behind the last stripe that it has read in.
        let reached = run.base + length.get() - 1;
        let beyond = reached > run.next;
        let first = run.next.max(stripe_of(self.geometry, end));
        run.own += self.transfer(run.next, first);
        run.next = first;
        // Unless something is prefetched, it is tried again with the next stripe.
        run.due = self.beyond(run, length + Pages(1));
        let room =
            room.min(PREFETCH_STRIPS_LIMIT / self.geometry.data_strips()).min(self.end - first.min(self.end));
        if room == 0 {
            return None;
        }
        let known = Pages(first - run.base + 1);
        let fetches = run.fetches;
        let plan = self.plan(first);
        let (wish, certain) = (plan.wish(fetches, known).get().min(room), plan.certain(known, DOUBT));
        let ahead = first.saturating_sub(reached);
        if !beyond && (ahead >= wish || certain > length) {
            return None;
        }
        let used =
            run.account.transfer() - ahead as f64 * run.slowest + run.own + self.transfer(first, reached);
        let (least, most) = (run.account.least(self.positioning), run.account.most(self.positioning, used));
        let (fewest, most_stripes) = (self.at_least(first, least, room), self.within(first, most, room));
        let whole = wish.max(fewest).min(room);
        let stripes = match beyond {
            // Up to a stripe beyond the most: less than the least could never be made up for.
            true if least <= most + ROUNDING => wish.min(most_stripes).max(fewest).min(room),
            false if whole <= most_stripes => whole,
            _ => 0,
        };
        if stripes == 0 {
            return None;
        }
        self.charge(run, first, stripes, reached);
        let known = Pages(run.next - run.base + 1);
        let certain = self.plan(run.next).certain(known, DOUBT);
        let due = certain.min(known + Pages(1)).max(length + Pages(1));
        run.due = self.beyond(run, due);
        Some((StripeNo(first), stripes))
    }

    /// So many stripes from one on are prefetched for a run that has reached another.
    fn charge(&self, run: &mut Run, first: u64, stripes: u64, reached: u64) {
        let next = first + stripes;
        run.account.fetched(self.positioning, self.transfer(first, next));
        let slowest = self.seconds(first).max(self.seconds(next - 1));
        run.slowest = if first > reached { run.slowest.max(slowest) } else { slowest };
        run.fetches += 1;
        run.next = next;
    }

    /// The length of a run that has come so far.
    fn length(&self, run: &Run, end: PageIndex) -> Pages {
        if end <= run.from {
            return Pages(1);
        }
        let last = stripe_of(self.geometry, PageIndex(end.get() - 1));
        Pages(last.saturating_sub(run.base) + 2)
    }

    /// The page beyond which a run has read when it is so long.
    fn beyond(&self, run: &Run, length: Pages) -> PageIndex {
        let Some(stripes) = length.get().checked_sub(2) else { return PageIndex::ZERO };
        self.geometry.pages_of_stripes(StripeNo(run.base + stripes), 1).start.max(run.from)
    }

    /// The plan for what lies at a stripe, made anew where it has grown old or was made for another zone.
    fn plan(&mut self, stripe: u64) -> &Plan {
        let bound = RatioBound::new(RHO, self.positioning / self.seconds(stripe.min(self.end - 1)));
        // Runs are counted with the stripe before them.
        let (seen, longest) = (self.lengths.seen(), Pages(self.end + 1));
        let old = self.planned.take().filter(|old| old.serves(seen, bound.unit(), longest));
        let planned = old.unwrap_or_else(|| Planned::solve(self.lengths.survival(), bound, longest, seen));
        self.planned.insert(planned).plan()
    }

    /// The seconds in which a member transfers its strip of a stripe.
    fn seconds(&self, stripe: u64) -> f64 {
        let strip = StripNo(stripe * self.geometry.data_strips());
        let rate = self.member.rate_at(self.geometry.address_of(strip, 0).lba);
        rate.time_for(self.geometry.strip_pages().bytes()).as_secs_f64()
    }

    /// Those of all stripes from one up to another; none where that lies before it.
    fn transfer(&self, from: u64, to: u64) -> f64 {
        (from..to).map(|stripe| self.seconds(stripe)).sum()
    }

    /// How many stripes from one on are transferred within so many seconds, of `cap`.
    fn within(&self, first: u64, seconds: f64, cap: u64) -> u64 {
        let mut left = seconds + ROUNDING;
        let fits = |stripe: &u64| {
            left -= self.seconds(*stripe);
            left >= 0.0
        };
        (first..first + cap).take_while(fits).count() as u64
    }

    /// How many stripes from one on take at least so many seconds, up to one more than `cap`.
    fn at_least(&self, first: u64, seconds: f64, cap: u64) -> u64 {
        if seconds <= ROUNDING { 0 } else { self.within(first, seconds - 3.0 * ROUNDING, cap) + 1 }
    }
}

impl fmt::Debug for RunLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLengths").field("seen", &self.lengths.seen()).finish_non_exhaustive()
    }
}

fn stripe_of(geometry: Geometry, page: PageIndex) -> u64 {
    geometry.stripe_of(geometry.strip_of(page)).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::massive::MassiveStripes;
    use crate::testing::{Simple, array};
    use foreseek_units::{Lba, Nanos, PageSpan, Rate, Sectors};
    use proptest::prelude::*;

    /// Strips of 4 blocks and 4 ms, stripes of 16; a positioning is 7 ms: 1.75 stripes.
    const STRIPE: u64 = 16;

    fn massive(length: u64) -> MassiveStripes {
        MassiveStripes::new(array(4, length), Pages(1 << 20)).learning(Arc::new(Simple))
    }

    /// Reads block by block from a stripe's start on; what is prefetched, in stripes from there: when how many were read, and which.
    fn read(massive: &mut MassiveStripes, start: u64, blocks: u64) -> Vec<(u64, u64, u64)> {
        let mut all = Vec::new();
        for block in 0..blocks {
            let at = PageIndex(start + block);
            if let Some(wanted) = massive.read(PageSpan::new(at, at + Pages(1))) {
                let stripe = |page: PageIndex| (page.get() - start) / STRIPE;
                all.push((block + 1, stripe(wanted.start), stripe(wanted.end)));
            }
        }
        all
    }

    /// So many runs of this length, far apart, and as many more as it takes until all of them are over.
    fn teach(massive: &mut MassiveStripes, from: u64, runs: u64, stripes: u64) -> u64 {
        let places = (0..runs).map(|run| from + run * 100 * STRIPE);
        places.for_each(|lba| drop(read(massive, lba, stripes * STRIPE)));
        from + runs * 100 * STRIPE
    }

    #[test]
    fn golden_a_cold_start_goes_on_as_long_as_it_is_likelier_than_not() {
        let fetched = read(&mut massive(1 << 20), 0, 24 * STRIPE);
        assert_eq!(fetched[0].0, 16, "as soon as it is recognised");
        assert!(fetched.windows(2).all(|pair| pair[0].2 == pair[1].1), "each stripe once: {fetched:?}");
        let expected =
            [(16, 1, 3), (17, 3, 6), (49, 6, 10), (97, 10, 14), (129, 14, 20), (257, 20, 24), (273, 24, 32)];
        assert_eq!(fetched, expected);
    }

    #[test]
    fn runs_that_end_alike_are_fetched_to_their_end_and_no_further() {
        let mut massive = massive(1 << 20);
        let lba = teach(&mut massive, 0, 100, 4);
        assert_eq!(read(&mut massive, lba, 4 * STRIPE), [(16, 1, 4)]);
        let lba = lba + 100 * STRIPE;
        let longer = read(&mut massive, lba, 5 * STRIPE);
        assert_eq!(longer[..2], [(16, 1, 4), (65, 4, longer[1].2)], "one that goes on is followed");
    }

    #[test]
    fn for_runs_of_a_stripe_nothing_is_fetched_until_one_goes_on() {
        let mut massive = massive(1 << 20);
        let lba = teach(&mut massive, 0, 100, 1);
        assert_eq!(read(&mut massive, lba, STRIPE), []);
        let longer = read(&mut massive, lba + 100 * STRIPE, 2 * STRIPE);
        assert_eq!((longer[0].0, longer[0].1), (17, 1));
    }

    #[test]
    fn for_long_runs_the_first_prefetch_is_as_large_as_the_bound_allows() {
        let mut massive = massive(1 << 20);
        let lba = teach(&mut massive, 0, 60, 90);
        // 3 x (7 + 4) - 7 - 4 ms are five and a half stripes: the plan takes the stripe before for fetched.
        assert_eq!(read(&mut massive, lba, STRIPE), [(16, 1, 6)]);
    }

    #[test]
    fn a_run_that_the_device_ends_has_not_ended() {
        let geometry = array(4, 40 * STRIPE);
        let left = |end: u64| {
            let mut runs = RunLengths::new(geometry, Arc::new(Simple));
            let run = runs.recognised(PageIndex(37 * STRIPE));
            (0..50).for_each(|_| runs.over(&run, PageIndex(end)));
            runs.lengths.survival().beyond(Pages(4))
        };
        assert!(left(40 * STRIPE) > 0.15, "four stripes, and no more were there");
        assert!(left(40 * STRIPE - 1) < 0.1);
    }

    #[test]
    fn memory_and_the_strips_of_a_prefetch_bound_it() {
        let mut massive =
            MassiveStripes::new(array(4, 1 << 20), Pages(8 * 3 * STRIPE)).learning(Arc::new(Simple));
        let fetched = read(&mut massive, 0, 500 * STRIPE);
        assert!(fetched.iter().all(|(_, from, to)| to - from <= 3), "{fetched:?}");
        let mut massive = self::massive(1 << 20);
        teach(&mut massive, 0, 2, 2000);
        let fetched = read(&mut massive, 300_000, 2000 * STRIPE);
        let most = fetched.iter().map(|(_, from, to)| to - from).max();
        assert_eq!(most, Some(PREFETCH_STRIPS_LIMIT / 4), "{fetched:?}");
    }

    /// A member whose rate falls towards its end.
    #[derive(Debug)]
    struct Zones {
        positioning: Nanos,
        zone: u64,
    }

    impl DeviceCosts for Zones {
        fn seek_time(&self, _: Sectors) -> Nanos {
            self.positioning
        }
        fn rate_at(&self, lba: Lba) -> Rate {
            Rate::mb_per_second(100.0 * 0.8f64.powi((lba.get() / self.zone).min(5) as i32))
        }
        fn mean_rate(&self) -> Rate {
            Rate::mb_per_second(60.0)
        }
        fn average_seek(&self) -> Nanos {
            self.positioning
        }
        fn half_rotation(&self) -> Nanos {
            Nanos::ZERO
        }
        fn capacity(&self) -> Sectors {
            Sectors(1 << 30)
        }
    }

    impl Zones {
        /// What a member takes for its strip of a stripe.
        fn seconds(&self, geometry: Geometry, stripe: u64) -> f64 {
            let lba = geometry.address_of(StripNo(stripe * 4), 0).lba;
            self.rate_at(lba).time_for(Pages(4).bytes()).as_secs_f64()
        }
    }

    /// A run as an observer without accounts sees it.
    struct Observed {
        start: u64,
        end: u64,
        fetches: f64,
        transfer: f64,
    }

    impl Observed {
        fn at(start: u64) -> Self {
            Self { start, end: start, fetches: 0.0, transfer: 0.0 }
        }

        /// Its reader goes on. Answers what was prefetched for it so far takes, and what one fetch of the whole run would, in seconds.
        fn read(
            &mut self,
            massive: &mut MassiveStripes,
            costs: &Zones,
            skip: u64,
            blocks: u64,
        ) -> (f64, f64) {
            let geometry = array(4, LENGTH);
            let from = if self.end == self.start { self.start } else { self.end + skip };
            let read = PageSpan::at(PageIndex(from), Pages(blocks));
            self.end = read.end.get();
            let sum = |from: u64, to: u64| {
                (from / STRIPE..to.div_ceil(STRIPE))
                    .map(|stripe| costs.seconds(geometry, stripe))
                    .sum::<f64>()
            };
            if let Some(wanted) = massive.read(read) {
                assert!(wanted.start.get() >= self.start && wanted.end.get() > self.end, "it is another's");
                self.fetches += 1.0;
                self.transfer += sum(wanted.start.get(), wanted.end.get());
            }
            let positioning = costs.positioning.as_secs_f64();
            (self.fetches * positioning + self.transfer, positioning + sum(self.start, self.end))
        }
    }

    /// Of the device, in blocks.
    const LENGTH: u64 = 1 << 24;

    /// The paper's rule, to see that the observer sees something.
    #[test]
    fn doubling_up_to_a_constant_keeps_no_bound() {
        let worst = |massive: &mut MassiveStripes, costs: &Zones| {
            let mut run = Observed::at(0);
            let ratios = (0..400 * STRIPE).map(|_| {
                let (paid, whole) = run.read(massive, costs, 0, 1);
                paid / whole
            });
            ratios.fold(0.0, f64::max)
        };
        // A positioning takes as long as a hundred strips.
        let costs = || Zones { positioning: Nanos::from_micros(16_400), zone: 1 << 30 };
        let new = || MassiveStripes::new(array(4, LENGTH), Pages(1 << 20));
        let doubling = worst(&mut new(), &costs());
        assert!(doubling > 10.0, "{doubling}");
        let learnt = worst(&mut new().learning(Arc::new(costs())), &costs());
        assert!(learnt <= RHO + 0.01, "{learnt}");
    }

    /// What one step of a drawn workload does: a reader goes on by so many blocks after leaving out some, or begins anew.
    #[derive(Clone, Copy, Debug)]
    enum Op {
        GoOn(usize, u64, u64),
        Anew(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let skip = prop_oneof![3 => Just(0u64), 1 => 0..4u64];
        let on = (0..4usize, skip, 1..40u64);
        prop_oneof![
            20 => on.prop_map(|(reader, skip, blocks)| Op::GoOn(reader, skip, blocks)),
            1 => (0..4usize).prop_map(Op::Anew),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Whatever was learnt, wherever zones change, however little memory there is and wherever a run ends. That it holds after
        /// each read is that it holds for a run that ends there.
        #[test]
        fn no_run_costs_more_than_the_bound(
            positioning in 1..40_000u64, zone in 50..4_000u64, memory in 100..20_000u64,
            lengths in prop::collection::vec(1..20u64, 1..5), taught in 0..90u64,
            ops in prop::collection::vec(op(), 0..600),
        ) {
            let costs = || Zones { positioning: Nanos::from_micros(positioning), zone };
            let geometry = array(4, LENGTH);
            let mut massive = MassiveStripes::new(geometry, Pages(memory)).learning(Arc::new(costs()));
            let mut free = 0;
            for length in lengths.iter().cycle().take(taught as usize) {
                free = teach(&mut massive, free, 1, *length);
            }
            let mut begin = || {
                free += 25_000;
                Observed::at(free)
            };
            let mut readers: Vec<Observed> = std::iter::repeat_with(&mut begin).take(4).collect();
            for op in ops {
                let (reader, skip, blocks) = match op {
                    Op::Anew(reader) => {
                        readers[reader] = begin();
                        continue;
                    }
                    Op::GoOn(reader, skip, blocks) => (reader, skip, blocks),
                };
                let (paid, whole) = readers[reader].read(&mut massive, &costs(), skip, blocks);
                let stripe = costs().seconds(geometry, 1 << 19);
                prop_assert!(paid <= RHO * whole + stripe + 1e-6, "{} of {}", paid, whole);
            }
        }
    }
}
