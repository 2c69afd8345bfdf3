//! How much may be fetched for a statement whose end is not known: steps that grow by cost.
//!
//! A statement reads one page after another and stops at a point that is not announced: a query with a LIMIT, a
//! program that ends a scan early, a loop that finds its row. Pages fetched beyond that point are wasted. The
//! algorithm is rent-or-buy, as in competitive prefetching (TR-840 section 2.3): it keeps two sums, and makes a
//! step only as large as they allow.
//!
//! `S`, *stock*, is what the reads so far would have cost without prefetching:
//!
//! - A read that no step predicted counts the time that it took.
//! - A page that a step prefetched counts, at its first read, the mean time of such pages before the first
//!   step. This mean includes everything read between two of them: interior pages, and the overflow pages of a
//!   row.
//! - A page that prediction has read before the statement counts, at the statement's first read of it, the time
//!   that prediction took for it. Pages on the way to those of an open step do not count: the mean includes
//!   them.
//!
//! `C`, *actual*, is the time really spent: each read, waiting included, and the overhead of prediction (*own
//! work*). The unread part of an abandoned step is charged at its expected price.
//!
//! A step of `n` reads is expected to cost `n * p`. The price `p` is the cost of a read of the last step, its
//! share of own work included. Until there is a step, it is the mean `m` without one. No step is expected to
//! cost more than a *sweep* `T`, which reads all of the file in disk order: [`SEEK_PAGES_DISK`] or
//! [`SEEK_PAGES`] pages are transferred in the time `m`. A step is made only if `C + min(n * p, T) <= rho * S`.
//!
//! **Bound.** If no step costs more than was expected of it, then `C <= rho * S + K` at any time, wherever the
//! statement ends. *Proof.* Let a step begin at `(S, C)`. While it is open, `S` does not fall, and `C` grows by
//! at most `min(n * p, T)`; so `C <= rho * S` holds to its end. A read outside of steps adds the same to both
//! sums, and `rho >= 1`.
//!
//! `K` has three parts:
//!
//! - Own work before a step is known to be worth making, to find the position of a scan. It is counted in `C`
//!   and therefore delays the next step, but no step is asked to cover it in advance.
//! - Own work in a step for reads beyond it: to know four reads of a join that reads all rows of each key,
//!   prediction must follow all of a key with 25 rows. It is in `C` at once, and in the price `p` of the steps
//!   that hold those reads, in equal shares.
//! - Where the device slows down during a step, the excess of this step over its expectation. Later steps add
//!   nothing, since `p` has risen.
//!
//! What a step saves is in `S - C`, so that confirmed steps pay for larger ones. If a sorted batch costs a
//! third of single reads, each step is about three times as large as the last one, and the steps before the
//! largest cost as much as that one again.
//!
//! **Where the end is visible** a sweep decides: once `rho * S - C >= T`, the step is all that is left. The
//! step before it is no larger than it must be for that. A small `rho` makes several steps before it, a large one
//! lets an abandoned statement lose more. In the demonstration's database of 100 MiB, 25,700 pages, `m` is 4.2
//! ms and reading all of it takes 1.17 s, or 280 `m`; the rule estimates 402 `m`. If steps cost as much as single
//! reads, all is fetched after `402 / (rho - 1)` reads. Steps of many reads cost less, and what they save pays for
//! the sweep: with 2, it follows the second or the third step.
//!
//! | `rho` | an abandoned statement, at worst | reads before all, at most | data that fit: disk at work | data twice as large as memory |
//! |------:|---------------------------------:|--------------------------:|----------------------------:|------------------------------:|
//! | 2     | 2 times                          | 402                       | 0.66 s                      | 3.50 s                        |
//! | 4     | 4 times                          | 134                       | 0.65 s                      | 3.68 s                        |
//! | 8     | 8 times                          | 58                        | 0.55 s                      | 3.47 s                        |
//!
//! The last two columns were [measured](../../../benches/results/sqlite/README.md#rho), one run each. A larger `rho`
//! gains a whole scan little: 0.1 s of 1.3 s. After a statement was abandoned, the ends of scans by the same index
//! count as unknown: see [`End::Unknown`] and the planner.
//!
//! `rho` is [`RHO_END_UNKNOWN`] where the end is not visible. It is [`RHO_END_KNOWN`] where the statement shows
//! how far it reads, and ends earlier only if the program abandons it. An abandoned step withdraws
//! [`RHO_END_KNOWN`] for the rest of the statement. After a step whose reads cost more than reads without a
//! step, none is made until `S` has doubled, and then the smallest. An example are rows with overflow pages: to
//! fetch the first page of a row alone saves no seek.
//!
//! Limits:
//!
//! - The duration of a sweep is an estimate. On storage that transfers fewer pages in the time of one read, the
//!   bound of an abandoned statement is weaker in proportion.
//! - Costs are elapsed times, and include the effects of other users of the device. They are not corrected; a
//!   busy device increases all of them alike.
//! - The mean without a step is the mean over the first reads. A statement whose later pages were in memory
//!   anyway is credited more than the reads would have cost. This matters only after steps have paid many times
//!   over.

use foreseek_units::Nanos;

/// Missing reads before the first step. Statements of some ten rows must cost nothing: an index entry costs one
/// or two reads, and the way down to the first one several.
pub const FIRST_STEP_MISSES: u64 = 32;

/// The same where the end is visible. Nothing is fetched beyond the end, therefore only the ten rows with their
/// way down need no step: some 22 reads of a database of 400 MiB. The value matters little otherwise: these
/// reads and those of the first step are 58 in any case (see above).
pub const FIRST_STEP_MISSES_END_KNOWN: u64 = 24;

/// Pages that are transferred in the time of one random read on a rotating disk. A disk of 2010 transfers 88 in
/// 100 MiB (4.2 ms at 86 MB/s); later disks transfer more and seek as long.
pub const SEEK_PAGES_DISK: u64 = 64;

/// The same for other storage: less than the 21 pages of a network volume (0.7 ms at 125 MB/s).
pub const SEEK_PAGES: u64 = 16;

/// `rho` in thousandths where the end of the reads is not visible: a twentieth, since a statement that stops at
/// the worst moment must keep 95 % of its speed (1 / 1.05).
pub const RHO_END_UNKNOWN: u64 = 1050;

/// `rho` in thousandths where the end is visible: see the table above. The adversary is a program that requests
/// everything and abandons it.
pub const RHO_END_KNOWN: u64 = 2000;

/// The smallest step that is worth making: sorting fewer reads gains almost nothing.
pub const STEP_FLOOR: u64 = 4;

/// Whether the end of a statement's reads is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is known, unless the program abandons the statement.
    Known,
    /// The reads may end at any point, or a similar statement was abandoned.
    Unknown,
}

/// The kind of b-tree page that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// The page of a row, of the kind that steps fetch.
    Row,
    /// A page on the way to a row's page: interior pages.
    Interior,
    /// A page behind a row's page: overflow pages.
    Overflow,
}

/// The two sums of one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    stock: Nanos,
    actual: Nanos,
    /// Reads that missed.
    misses: u64,
    /// The time and the row pages outside of steps, from the first row page on. Pages in memory count: where
    /// several pages of a database are one of the kernel's, steps contain them, too.
    alone: Nanos,
    rows: u64,
    /// The time of a sweep, as a multiple of a single read; zero if it is not known.
    sweep: u64,
    /// Overflow chains among the reads that missed outside of steps.
    chains: u64,
    step: Option<Step>,
    /// The cost of a read of the last step.
    price: Option<Nanos>,
    /// A step was abandoned.
    doubted: bool,
    /// Reads that are known and were not made yet.
    known: u64,
    /// The last step did not pay: the `stock` from which another may be tried.
    trial: Option<Nanos>,
}

/// The step that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    reads: u64,
    used: u64,
    cost: Nanos,
    /// Own work for its reads and for the known ones beyond it.
    own: Nanos,
}

impl Allowance {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time of a sweep, in random reads.
    pub fn set_sweep(&mut self, sweep: u64) {
        self.sweep = sweep;
    }

    /// Another statement begins.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// A read that no step predicted took `cost`. `missed`: it went to storage.
    pub fn read(&mut self, kind: ReadKind, cost: Nanos, missed: bool) {
        self.actual += cost;
        self.misses += u64::from(missed);
        if let Some(step) = &mut self.step {
            step.cost += cost;
            // The mean that a used page counts includes its way and its chain, as far as they missed.
            if kind == ReadKind::Row || !missed {
                self.stock += cost;
                step.cost -= cost;
            }
            return;
        }
        self.stock += cost;
        self.rows += u64::from(kind == ReadKind::Row);
        self.chains += u64::from(kind == ReadKind::Overflow && missed);
        if self.rows > 0 {
            self.alone += cost;
        }
    }

    /// A read that a step predicted took `cost`. `first`: its page was prefetched by a step, and this is its
    /// first use.
    pub fn predicted(&mut self, cost: Nanos, first: bool) {
        let credit = if first { self.mean() } else { Some(cost) };
        self.actual += cost;
        self.stock += credit.unwrap_or(cost);
        // A second read from memory shows nothing about the cost of a step.
        if let Some(step) = self.step.as_mut().filter(|_| first) {
            step.cost += cost;
            step.used += 1;
        }
    }

    /// Prediction took `cost`.
    pub fn add_overhead(&mut self, cost: Nanos) {
        self.actual += cost;
        if let Some(step) = &mut self.step {
            step.own += cost;
        }
    }

    /// Sets how many reads are known and were not made yet, those of the open step included.
    pub fn set_known_reads(&mut self, reads: u64) {
        self.known = reads;
    }

    /// The statement reads a page that prediction has read before in `cost`: without prediction, this read
    /// would have taken that time. Not for a page of a step, which counts by itself.
    pub fn credit_own_read(&mut self, kind: ReadKind, cost: Nanos) {
        match &mut self.step {
            // The mean that a used page counts includes its way.
            Some(_) if kind != ReadKind::Row => return,
            Some(step) => step.own = step.own.saturating_sub(cost),
            None => {}
        }
        self.stock += cost;
    }

    /// How many reads the next step may hold; zero if no step is worth making.
    #[must_use]
    pub fn allowed_reads(&self, end: End) -> u64 {
        let Some(price) = self.expected().filter(|price| *price > Nanos::ZERO) else { return 0 };
        let first = if end == End::Known { FIRST_STEP_MISSES_END_KNOWN } else { FIRST_STEP_MISSES };
        if self.misses < first || self.trial.is_some_and(|from| self.stock < from) {
            return 0;
        }
        // If rows continue in overflow pages, fetching their first page does not save the seek: only a small
        // step is tried.
        let chained = self.price.is_none() && self.chains * 2 > self.rows;
        let believed = end == End::Known && !self.doubted && !chained;
        let rho = if believed { RHO_END_KNOWN } else { RHO_END_UNKNOWN };
        let most = u128::from(self.stock.get()) * u128::from(rho) / 1000;
        let left = most.saturating_sub(u128::from(self.actual.get()));
        let reads = u64::try_from(left / u128::from(price.get())).unwrap_or(u64::MAX);
        match reads {
            0..STEP_FLOOR => 0,
            _ if self.trial.is_some() => STEP_FLOOR,
            reads if believed => self.toward_all(reads, left, price),
            reads => reads,
        }
    }

    /// All reads if a sweep is allowed; otherwise those of `reads` that lead to one.
    fn toward_all(&self, reads: u64, left: u128, price: Nanos) -> u64 {
        let Some(sweep) = self.sweep().filter(|sweep| *sweep > 0) else { return reads };
        let missing = sweep.saturating_sub(left);
        if missing == 0 {
            return u64::MAX;
        }
        // The budget that each read of a confirmed step adds.
        let mean = self.mean().unwrap_or(price).max(price);
        let gained = u128::from(mean.get()) * u128::from(RHO_END_KNOWN) / 1000 - u128::from(price.get());
        let needed = u64::try_from(missing.div_ceil(gained.max(1))).unwrap_or(u64::MAX);
        reads.min(needed.max(STEP_FLOOR))
    }

    /// The expected cost of a sweep, in nanoseconds.
    fn sweep(&self) -> Option<u128> {
        self.mean().map(|mean| u128::from(mean.get()) * u128::from(self.sweep))
    }

    /// The expected cost of a read of the next step.
    fn expected(&self) -> Option<Nanos> {
        self.step.and_then(|step| step.price(self.known)).or(self.price).or_else(|| self.mean())
    }

    /// The estimated time of the reads so far without steps, and their real time.
    #[must_use]
    pub fn read_times(&self) -> (Nanos, Nanos) {
        (self.stock, self.actual)
    }

    /// Whether the last step did not pay.
    #[must_use]
    pub fn is_unprofitable(&self) -> bool {
        self.trial.is_some()
    }

    /// How many reads have missed.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// How many row pages were read outside of steps.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// A step of `reads` reads is made. It replaces the last one and includes what is left of that.
    pub fn begin(&mut self, reads: u64) {
        let mut own = Nanos::ZERO;
        if let Some(step) = self.step.take() {
            self.learn(step);
            own = step.own.saturating_sub(step.share(self.known));
        }
        self.step = Some(Step { reads, own, ..Step::default() });
    }

    /// The open step grows by `reads` reads.
    pub fn extend(&mut self, reads: u64) {
        if let Some(step) = &mut self.step {
            step.reads += reads;
        }
    }

    /// The reads are over. The rest of the open step is wasted.
    pub fn end(&mut self) {
        let Some(step) = self.step.take() else { return };
        let price = self.expected().unwrap_or_default();
        let left = step.reads.saturating_sub(step.used);
        let cost = u128::from(price.get()) * u128::from(left);
        let most = self.sweep().filter(|sweep| *sweep > 0).unwrap_or(u128::MAX);
        self.actual += Nanos(u64::try_from(cost.min(most)).unwrap_or(u64::MAX));
        self.learn(step);
        // Some reads of any step may be left: those that the application's own cache has answered.
        self.doubted |= left > step.used;
    }

    /// The mean time of a row's page without a step, the pages on the way to it and behind it included.
    fn mean(&self) -> Option<Nanos> {
        (self.rows > 0).then(|| self.alone / self.rows)
    }

    fn learn(&mut self, step: Step) {
        let Some(price) = step.price(self.known) else { return };
        self.price = Some(price);
        let pays = self.mean().is_none_or(|mean| price < mean);
        self.trial = (!pays).then_some(self.stock * 2);
    }
}

impl Step {
    /// The cost of one of its reads, once enough of them were used, with so many more `known`.
    fn price(self, known: u64) -> Option<Nanos> {
        let enough = self.used > 0 && self.used * 2 >= self.reads.min(STEP_FLOOR * 2);
        enough.then(|| (self.cost + self.share(known)) / self.used)
    }

    /// The part of own work that belongs to the used reads, where it served these and those that are `known`
    /// still.
    fn share(self, known: u64) -> Nanos {
        let reads = self.used.saturating_add(known).max(1);
        let share = u128::from(self.own.get()) * u128::from(self.used) / u128::from(reads);
        Nanos(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEEK: Nanos = Nanos::from_micros(5000);

    fn alone(reads: u64) -> Allowance {
        let mut allowance = Allowance::new();
        for _ in 0..reads {
            allowance.read(ReadKind::Row, SEEK, true);
        }
        allowance
    }

    #[test]
    fn a_page_that_own_work_has_read_counts_what_stock_would_have_paid() {
        let ms = Nanos::from_millis;
        let mut allowance = Allowance::new();
        for _ in 0..FIRST_STEP_MISSES * 3 {
            allowance.read(ReadKind::Row, ms(5), true);
        }
        let before = allowance.allowed_reads(End::Unknown);
        // Sixty milliseconds of prediction count as spent while its pages are not read.
        allowance.add_overhead(ms(60));
        assert!(allowance.allowed_reads(End::Unknown) < before);
        allowance.credit_own_read(ReadKind::Interior, ms(60));
        assert!(allowance.allowed_reads(End::Unknown) >= before);
    }

    #[test]
    fn own_work_for_reads_beyond_a_step_makes_it_no_costlier() {
        let ms = Nanos::from_millis;
        // Four reads of a step, each at half of its time without one, and the prediction of these and of some
        // more.
        let price = |known: u64, own: u64| {
            let mut allowance = Allowance::new();
            for _ in 0..FIRST_STEP_MISSES * 3 {
                allowance.read(ReadKind::Row, ms(8), true);
            }
            allowance.begin(4);
            allowance.add_overhead(ms(own));
            for read in 1..=4 {
                allowance.predicted(ms(4), true);
                allowance.set_known_reads(known + 4 - read);
            }
            (allowance.expected(), allowance.is_unprofitable())
        };
        assert_eq!(price(0, 0).0, Some(ms(4)));
        assert_eq!(price(0, 24).0, Some(ms(10)), "all of it for these");
        assert_eq!(price(20, 24).0, Some(ms(5)), "a sixth of it");
        // The rest is a part of the next steps.
        let mut allowance = Allowance::new();
        for _ in 0..FIRST_STEP_MISSES * 3 {
            allowance.read(ReadKind::Row, ms(8), true);
        }
        allowance.begin(4);
        allowance.add_overhead(ms(24));
        for step in 1..=6 {
            for read in 1..=4 {
                allowance.predicted(ms(4), true);
                allowance.set_known_reads(24 - 4 * (step - 1) - read);
            }
            assert_eq!(allowance.expected(), Some(ms(5)));
            allowance.begin(4);
        }
        assert!(!allowance.is_unprofitable());
    }

    #[test]
    fn the_way_to_pages_of_a_step_counts_once() {
        let mut allowance = alone(80);
        allowance.begin(4);
        allowance.add_overhead(SEEK);
        let (stock, _) = allowance.read_times();
        allowance.credit_own_read(ReadKind::Interior, SEEK);
        assert_eq!(allowance.read_times().0, stock);
        // A page that no step fetches: an outer row's.
        allowance.credit_own_read(ReadKind::Row, SEEK);
        assert_eq!(allowance.read_times().0, stock + SEEK);
    }

    #[test]
    fn a_statement_of_few_reads_gets_no_step() {
        for reads in 0..FIRST_STEP_MISSES {
            assert_eq!(alone(reads).allowed_reads(End::Unknown), 0);
            assert_eq!(alone(reads).allowed_reads(End::Known) > 0, reads >= FIRST_STEP_MISSES_END_KNOWN);
        }
        assert_eq!(alone(FIRST_STEP_MISSES_END_KNOWN).allowed_reads(End::Known), FIRST_STEP_MISSES_END_KNOWN);
        assert_eq!(alone(FIRST_STEP_MISSES).allowed_reads(End::Unknown), 0);
        assert_eq!(alone(79).allowed_reads(End::Unknown), 0);
        assert_eq!(alone(80).allowed_reads(End::Unknown), 4);
    }

    #[test]
    fn steps_that_pay_grow_and_one_that_is_abandoned_ends_it() {
        let mut allowance = alone(80);
        let mut sizes = Vec::new();
        for _ in 0..6 {
            let reads = allowance.allowed_reads(End::Unknown);
            sizes.push(reads);
            allowance.begin(reads);
            for _ in 0..reads {
                allowance.predicted(SEEK / 3, true);
            }
        }
        assert_eq!(sizes, [4, 20, 63, 199, 626, 1972], "each about three times the last");
        let reads = allowance.allowed_reads(End::Known);
        allowance.begin(reads);
        allowance.predicted(SEEK / 3, true);
        allowance.end();
        assert_eq!(allowance.allowed_reads(End::Known), allowance.allowed_reads(End::Unknown));
    }

    /// The steps of a whole scan of the demonstration's database, up to the one that holds all that is left. A read
    /// of a step costs this many hundredths of a single read.
    fn steps_to_all(hundredths: u64) -> Vec<u64> {
        let mut allowance = alone(FIRST_STEP_MISSES_END_KNOWN);
        allowance.set_sweep(25_700 / SEEK_PAGES_DISK);
        let mut steps = Vec::new();
        while steps.len() < 20 && steps.last() != Some(&u64::MAX) {
            let reads = allowance.allowed_reads(End::Known);
            steps.push(reads);
            if reads < u64::MAX {
                allowance.begin(reads);
                (0..reads).for_each(|_| allowance.predicted(SEEK * hundredths / 100, true));
            }
        }
        steps
    }

    #[test]
    fn steps_that_pay_lead_to_all_where_the_end_is_visible() {
        assert_eq!(steps_to_all(30), [24, 198, u64::MAX]);
        assert_eq!(steps_to_all(60), [24, 96, 150, u64::MAX]);
        let none = steps_to_all(100);
        assert_eq!(
            (&none[..3], none.iter().skip(3).sum::<u64>()),
            (&[24, 48, 4][..], 0),
            "they save nothing"
        );
    }

    #[test]
    fn pages_in_memory_count_where_they_are_read_alone_and_in_a_step() {
        // Eight pages of the database are one of the kernel's.
        let mut allowance = Allowance::new();
        for read in 0..8 * FIRST_STEP_MISSES {
            let missed = read % 8 == 0;
            allowance.read(ReadKind::Row, if missed { SEEK } else { Nanos::ZERO }, missed);
        }
        assert_eq!(allowance.mean(), Some(SEEK / 8));
    }

    #[test]
    fn rows_with_overflow_chains_are_fetched_only_as_far_as_that_pays() {
        let mut allowance = Allowance::new();
        for _ in 0..40 {
            allowance.read(ReadKind::Row, SEEK, true);
            allowance.read(ReadKind::Overflow, SEEK / 10, true);
        }
        assert_eq!(allowance.allowed_reads(End::Known), 0, "though the end is visible");
        // The chain costs the seek that its leaf saves.
        let mut fetched = 0;
        for _ in 0..4000 {
            let reads = allowance.allowed_reads(End::Known);
            if reads > 0 {
                allowance.begin(reads);
                for _ in 0..reads {
                    allowance.predicted(SEEK / 2, true);
                    allowance.read(ReadKind::Overflow, SEEK, true);
                }
                allowance.end();
                fetched += reads;
            } else {
                allowance.read(ReadKind::Row, SEEK, true);
                allowance.read(ReadKind::Overflow, SEEK / 10, true);
            }
        }
        assert!((4..=24).contains(&fetched), "{fetched}");
    }

    /// The number of reads that there are.
    const ALL: u64 = 20_000;

    /// A device that answers a batch of `n` reads in at most `n` times the time of one, and all of them in
    /// `sweep` times that, and a reader that stops after `stop` reads. Returns the cost of both ways, unused
    /// fetches included.
    fn adversary(end: End, stop: u64, gains: &[u64], sweep: u64) -> (u64, u64) {
        let seek = SEEK.get();
        let (mut allowance, mut stock, mut actual, mut at) = (Allowance::new(), 0u64, 0u64, 0);
        allowance.set_sweep(sweep);
        let mut gains = gains.iter().cycle();
        let mut last = seek;
        while at < stop {
            let reads = allowance.allowed_reads(end).min(ALL - at);
            if reads == 0 {
                allowance.read(ReadKind::Row, SEEK, true);
                (at, stock, actual) = (at + 1, stock + seek, actual + seek);
                continue;
            }
            // A read costs at most as much as in the last batch, as in a larger sorted batch.
            let mut each = (seek * gains.next().copied().unwrap_or(100) / 100).min(last);
            if sweep > 0 {
                each = each.min(sweep * seek / reads);
            }
            last = each;
            allowance.begin(reads);
            actual += each * reads;
            let used = reads.min(stop - at);
            for _ in 0..used {
                allowance.predicted(Nanos(each), true);
            }
            (at, stock) = (at + used, stock + seek * used);
        }
        (stock, actual)
    }

    proptest! {
        #[test]
        fn a_reader_that_stops_anywhere_has_paid_at_most_rho_times_as_much(
            stop in 0u64..ALL,
            sweep in prop_oneof![Just(0u64), 1u64..2000],
            gains in proptest::collection::vec(2u64..=100, 1..12),
        ) {
            for (end, rho) in [(End::Known, RHO_END_KNOWN), (End::Unknown, RHO_END_UNKNOWN)] {
                let (stock, actual) = adversary(end, stop, &gains, sweep);
                prop_assert!(actual * 1000 <= stock * rho + SEEK.get() * 1000, "{actual} for {stock}");
                if stop < FIRST_STEP_MISSES_END_KNOWN {
                    prop_assert_eq!(actual, stock);
                }
            }
        }

        #[test]
        fn no_sequence_of_calls_makes_it_panic(
            ops in proptest::collection::vec((0..9u8, 0u64..10_000_000), 0..200),
        ) {
            let mut allowance = Allowance::new();
            for (op, number) in ops {
                match op {
                    0 => allowance.read(ReadKind::Row, Nanos(number), number % 3 > 0),
                    1 => allowance.read(ReadKind::Overflow, Nanos(number), true),
                    2 => allowance.predicted(Nanos(number), number % 2 > 0),
                    3 => allowance.add_overhead(Nanos(number)),
                    4 => allowance.begin(number),
                    5 => allowance.extend(number),
                    6 => allowance.set_known_reads(number),
                    7 => allowance.credit_own_read(ReadKind::Row, Nanos(number)),
                    _ => allowance.end(),
                }
                prop_assert!(allowance.allowed_reads(End::Unknown) <= allowance.allowed_reads(End::Known));
            }
        }
    }
}
