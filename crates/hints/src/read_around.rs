//! Read-around: which neighbours of a missing page are read together with it.
//!
//! Some reads follow no visible order: look-ups by key, the inner side of a join. If their tree fits into
//! memory, each of its pages is read once in the end, and to read many neighbours with each miss costs less
//! than a seek for each page. If it does not fit, the neighbours are evicted unused. The kernel faces the same
//! choice at a page fault of a memory map, and reads a fixed window around it (`filemap_fault`). Here the
//! window depends on the gain of the last ones.
//!
//! Reads are grouped by *class*: the tree that they belong to. One rent-or-buy account holds for the whole
//! file, as in [`crate::allowance`], and each class has a credit:
//!
//! - `m` is the mean time of a miss that is read without a window. `seek_pages` pages are transferred in that
//!   time. A window of `n` pages is therefore expected to take `m * (1 + n / seek_pages)`.
//! - `S`, *stock*, grows by the time of a miss without a window, by `m` for a miss with one, and by `m` for the
//!   first read of a page that a window has prefetched. It does not grow for a read that
//!   [follows](crate::in_order) one of the last reads: the kernel's read-ahead would have prefetched that page
//!   as well.
//! - `C`, *actual*, grows by the time that reads really waited.
//! - A window is read only if `C + m * (1 + n / seek_pages) <= rho * (S + m)`.
//!
//! **Bound.** If no window takes longer than expected, then `C <= rho * S` after every read, for all sequences
//! of reads. *Proof.* A miss without a window adds the same to both sums, and `rho >= 1`. A used page adds to
//! `S` alone. A miss with a window adds `m` to `S` and at most `m * (1 + n / seek_pages)` to `C`, which the
//! rule has just checked. A window that takes longer counts with its real time, up to four times the expected
//! one: the next windows pay for it. The sums do not contain the pages that windows evict from memory. Instead,
//! prefetched pages that are evicted before they are read end the credit.
//!
//! **The window.** A class without credit tries an eighth of `seek_pages` where `rho` allows it, or half of
//! `seek_pages` if the end of the statement is visible. Each used page adds `m` to the credit of its class, and
//! each miss takes a sixteenth of the credit away, so that old gains are forgotten. A window may cost half of
//! the credit. The windows therefore grow as more of the tree is in memory: if a part `f` of it is, `f / (1 -
//! f)` reads hit for each miss. Random look-ups of a whole tree of 6,600 pages take about 240 times `m` where
//! the end is visible and 590 times where it is not. Without windows they take 6,600 times `m`, and in sequence
//! 100.

use crate::allowance::{End, FIRST_STEP_MISSES_END_KNOWN, RHO_END_UNKNOWN};
use crate::in_order::RecentReads;
use foreseek_units::{Nanos, PageIndex, PageSpan, Pages, Span};
use std::collections::HashMap;

/// `rho` in thousandths where the end of the statement is visible. Windows pay by use or not at all, and the
/// first few show which. More than a quarter would gain little: all of a tree of 6,600 pages takes about 240
/// times `m` with 1.25 as with 1.5. It would cost twice as much where memory is too small.
pub const RHO_AROUND_END_KNOWN: u64 = 1250;
/// The largest window: 2 MiB, which a disk reads in the time of two to four seeks.
pub const WINDOW_LIMIT: u64 = 512;
/// How many times `m` the credit of a class may hold: it pays for the largest window on a rotating disk.
const CREDIT_LIMIT: u64 = 16;
/// The sixteenths of a credit that remain after a miss.
const CREDIT_KEPT: u64 = 15;
/// A window counts at most with so many times its expected time, since another program may have delayed the
/// disk.
const OUTLIER: u64 = 4;
/// Classes that are remembered. Of a database with more trees, few are read at a time.
const CLASSES_LIMIT: usize = 256;

/// The windows of one file.
#[derive(Clone, Debug)]
pub struct ReadAround {
    /// Pages that are transferred in the time of a miss without a window.
    seek_pages: u64,
    stock: Nanos,
    actual: Nanos,
    /// Misses without a window, and their time.
    alone: (u64, Nanos),
    classes: HashMap<u64, Class>,
    prefetched: Prefetched,
    /// The last reads.
    recent: RecentReads,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    credit: Nanos,
    /// Pages that its windows have prefetched, those of them that were read, and those that were evicted
    /// before.
    prefetched: u64,
    used: u64,
    evicted: u64,
}

/// The windows and their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of windows.
    pub windows: u64,
    /// Pages that they have prefetched.
    pub pages: u64,
    /// Those of them that were read.
    pub used: u64,
    /// Those that were evicted before they were read.
    pub evicted: u64,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The time that it waited.
    pub time: Nanos,
    /// A page was not in memory.
    pub missed: bool,
    /// Pages that were read with it, since they were not in memory either.
    pub around: Pages,
}

impl ReadAround {
    /// Nothing read yet. `seek_pages`: how many pages are transferred in the time of a miss without a window
    /// ([`crate::allowance::SEEK_PAGES_DISK`]).
    #[must_use]
    pub fn new(seek_pages: u64) -> Self {
        Self {
            seek_pages: seek_pages.max(1),
            stock: Nanos::ZERO,
            actual: Nanos::ZERO,
            alone: (0, Nanos::ZERO),
            classes: HashMap::new(),
            prefetched: Prefetched::default(),
            recent: RecentReads::default(),
            counters: Counters::default(),
        }
    }

    /// The window to read when `read` misses, or `None`. `misses`: how many reads of its statement have missed;
    /// `end`: whether the statement's end is visible.
    #[must_use]
    pub fn window(&self, class: u64, read: PageSpan, misses: u64, end: End) -> Option<PageSpan> {
        let mean = self.mean()?.get();
        let class = self.classes.get(&class).copied().unwrap_or_default();
        let began = misses >= FIRST_STEP_MISSES_END_KNOWN;
        // The length for which the credit pays twice.
        let paid = class.credit.get() / 2 * self.seek_pages / mean.max(1);
        let tried = match end {
            _ if !began => 0,
            End::Known if !class.is_thrashing() => self.seek_pages / 2,
            _ => self.seek_pages / 8,
        };
        // A short statement risks half a read at most.
        let most = if began { WINDOW_LIMIT } else { self.seek_pages / 2 };
        let length = floor_power_of_two(paid.max(tried).min(most))?;
        if length < 2 * read.len().get() || !self.is_allowed(mean, length, end, class) {
            return None;
        }
        let start = PageIndex(read.start.get() / length * length);
        // For a read that crosses a border, the window begins at its first page.
        Some(Span::at(start, Pages(length)).hull(read))
    }

    fn is_allowed(&self, mean: u64, length: u64, end: End, class: Class) -> bool {
        let rho =
            if end == End::Known && !class.is_thrashing() { RHO_AROUND_END_KNOWN } else { RHO_END_UNKNOWN };
        let cost = expected(mean, length, self.seek_pages);
        let after = u128::from(self.actual.get()) + u128::from(cost);
        after * 1000 <= u128::from(rho) * (u128::from(self.stock.get()) + u128::from(mean))
    }

    /// Sets how many pages may be prefetched and unread at a time.
    pub fn set_unread_limit(&mut self, limit: Pages) {
        self.prefetched.limit = limit.get();
    }

    /// These pages around a read were not in memory and have been requested.
    pub fn fetched(&mut self, class: u64, pages: &[PageIndex]) {
        let count = pages.len() as u64;
        self.counters.windows += 1;
        self.counters.pages += count;
        if self.prefetched.waiting + count > self.prefetched.limit {
            // Pages prefetched so long ago may have been evicted, and do not count.
            self.prefetched.forget();
            self.classes.values_mut().for_each(Class::forget);
        }
        self.class(class).prefetched += count;
        pages.iter().for_each(|&page| self.prefetched.add(page));
    }

    fn class(&mut self, class: u64) -> &mut Class {
        if self.classes.len() >= CLASSES_LIMIT && !self.classes.contains_key(&class) {
            self.classes.clear();
        }
        self.classes.entry(class).or_default()
    }

    /// A page was read. Returns the time saved against a miss without a window, if a window has prefetched the
    /// page.
    pub fn read(&mut self, class: u64, read: PageSpan, outcome: Outcome) -> Option<Nanos> {
        let was_prefetched = read.iter().filter(|&page| self.prefetched.take(page)).count() > 0;
        let follows = self.recent.read(read, Pages(self.seek_pages)).is_some();
        let (mean, seek_pages) = (self.mean(), self.seek_pages);
        let known = self.class(class);
        let saved = match (outcome.missed, mean) {
            (false, Some(mean)) if was_prefetched && !follows => {
                known.used += 1;
                known.credit = (known.credit + mean).min(mean * CREDIT_LIMIT);
                self.stock += mean;
                self.actual += outcome.time;
                self.counters.used += 1;
                Some(mean.saturating_sub(outcome.time))
            }
            (false, _) => None,
            (true, Some(mean)) if outcome.around > Pages::ZERO => {
                let expected = Nanos(expected(mean.get(), outcome.around.get(), seek_pages));
                let cost = outcome.time.max(expected).min(expected * OUTLIER);
                known.credit = known.kept();
                self.stock += mean;
                self.actual += cost;
                None
            }
            (true, _) => {
                known.credit = known.kept();
                self.stock += outcome.time;
                self.actual += outcome.time;
                self.alone = (self.alone.0 + 1, self.alone.1 + outcome.time);
                None
            }
        };
        if was_prefetched && outcome.missed {
            let known = self.class(class);
            known.evicted += 1;
            known.credit = Nanos::ZERO;
            self.counters.evicted += 1;
        }
        saved
    }

    /// The file has changed: its pages may belong to other trees.
    pub fn changed(&mut self) {
        self.classes.clear();
    }

    /// The windows so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn mean(&self) -> Option<Nanos> {
        let (reads, time) = self.alone;
        (reads > 0).then(|| time / reads).filter(|mean| !mean.is_zero())
    }
}

impl Class {
    /// Whether so many prefetched pages of the class were evicted before they were read that memory is too
    /// small.
    fn is_thrashing(self) -> bool {
        self.evicted * 4 > self.used + 8
    }

    /// Prefetched pages that were not read count as evicted.
    fn forget(&mut self) {
        self.evicted += self.prefetched.saturating_sub(self.used);
        (self.credit, self.prefetched) = (Nanos::ZERO, self.used);
    }

    /// The credit after a miss.
    fn kept(self) -> Nanos {
        self.credit * CREDIT_KEPT / 16
    }
}

/// The expected time of a miss with a window of `length` pages.
fn expected(mean: u64, length: u64, seek_pages: u64) -> u64 {
    mean.saturating_add(mean.saturating_mul(length) / seek_pages)
}

/// The largest power of two up to `value`; `None` for zero.
fn floor_power_of_two(value: u64) -> Option<u64> {
    value.checked_ilog2().map(|log| 1 << log)
}

/// Pages that were prefetched and not read yet, as bits in words of 64.
#[derive(Clone, Debug, Default)]
struct Prefetched {
    words: HashMap<u64, u64>,
    waiting: u64,
    limit: u64,
}

impl Prefetched {
    fn add(&mut self, page: PageIndex) {
        let (word, bit) = word_and_bit(page);
        let bits = self.words.entry(word).or_default();
        self.waiting += u64::from(*bits & bit == 0);
        *bits |= bit;
    }

    /// Returns whether the page was there.
    fn take(&mut self, page: PageIndex) -> bool {
        let (word, bit) = word_and_bit(page);
        let Some(bits) = self.words.get_mut(&word).filter(|bits| **bits & bit != 0) else { return false };
        *bits &= !bit;
        if *bits == 0 {
            self.words.remove(&word);
        }
        self.waiting -= 1;
        true
    }

    fn forget(&mut self) {
        self.words.clear();
        self.waiting = 0;
    }
}

fn word_and_bit(page: PageIndex) -> (u64, u64) {
    (page.get() / 64, 1 << (page.get() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::SEEK_PAGES_DISK;
    use proptest::prelude::*;
    use std::collections::{HashSet, VecDeque};

    const SEEK: u64 = 4_000_000;

    /// A disk, a page cache of so many pages that evicts the oldest, and one file.
    struct Machine {
        around: ReadAround,
        cache: HashSet<u64>,
        order: VecDeque<u64>,
        memory: usize,
        misses: u64,
        stock: u64,
        actual: u64,
    }

    impl Machine {
        fn new(memory: usize) -> Self {
            let mut around = ReadAround::new(SEEK_PAGES_DISK);
            around.set_unread_limit(Pages(memory as u64 / 2));
            Self {
                around,
                cache: HashSet::new(),
                order: VecDeque::new(),
                memory,
                misses: 0,
                stock: 0,
                actual: 0,
            }
        }

        fn insert(&mut self, page: u64) -> bool {
            if !self.cache.insert(page) {
                return false;
            }
            self.order.push_back(page);
            while self.order.len() > self.memory {
                if let Some(oldest) = self.order.pop_front() {
                    self.cache.remove(&oldest);
                }
            }
            true
        }

        /// Returns the time of the read.
        fn read(&mut self, class: u64, page: u64, pages: u64, end: End) -> u64 {
            let read = Span::at(PageIndex(page), Pages(1));
            let missed = !self.cache.contains(&page);
            self.misses += u64::from(missed);
            let mut around = 0;
            if missed && let Some(window) = self.around.window(class, read, self.misses, end) {
                let within = Span::new(window.start, window.end.min(PageIndex(pages)));
                let absent: Vec<_> =
                    within.iter().filter(|&at| at != read.start && self.insert(at.get())).collect();
                around = absent.len() as u64;
                self.around.fetched(class, &absent);
            }
            self.insert(page);
            let time = if missed { SEEK + SEEK * around / SEEK_PAGES_DISK } else { 0 };
            self.around.read(class, read, Outcome { time: Nanos(time), missed, around: Pages(around) });
            self.actual += time;
            time
        }
    }

    /// Pages in an irregular order.
    fn scattered(reads: u64, pages: u64) -> impl Iterator<Item = u64> {
        (0..reads).map(move |at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % pages)
    }

    /// The time of look-ups of all of a tree, in seeks.
    fn look_up_all(pages: u64, memory: usize, end: End) -> (u64, u64) {
        let mut machine = Machine::new(memory);
        let mut alone = Machine::new(memory);
        for page in scattered(3 * pages, pages) {
            machine.read(1, page, pages, end);
            if !alone.cache.contains(&page) {
                alone.stock += SEEK;
            }
            alone.insert(page);
        }
        (machine.actual / SEEK, alone.stock / SEEK)
    }

    #[test]
    fn a_tree_that_fits_into_memory_is_read_in_windows() {
        let (seen, stock) = look_up_all(6600, 20_000, End::Known);
        assert!(stock > 6000 && seen < 400, "{seen} of {stock}");
        let (unseen, _) = look_up_all(6600, 20_000, End::Unknown);
        assert!(unseen < 800, "{unseen} of {stock}");
    }

    #[test]
    fn a_tree_that_does_not_fit_costs_at_most_a_twentieth_more() {
        for end in [End::Known, End::Unknown] {
            let (actual, stock) = look_up_all(100_000, 2000, end);
            assert!(actual * 100 <= stock * 105, "{actual} of {stock}, {end:?}");
        }
    }

    #[test]
    fn a_statement_of_few_reads_gets_no_window() {
        let mut machine = Machine::new(1000);
        for page in scattered(FIRST_STEP_MISSES_END_KNOWN - 1, 100_000) {
            assert_eq!(machine.read(1, page, 100_000, End::Known), SEEK);
        }
        assert_eq!(machine.around.counters(), Counters::default());
    }

    #[test]
    fn pages_that_read_ahead_would_have_fetched_pay_for_no_window() {
        let mut machine = Machine::new(20_000);
        for at in 0..2000 {
            for page in [3 * at, 10_000 + at, 15_000 + 2 * at] {
                machine.read(1, page, 20_000, End::Unknown);
            }
        }
        let counters = machine.around.counters();
        assert_eq!(counters.used, 0, "{counters:?}");
        assert!(counters.pages <= counters.windows * SEEK_PAGES_DISK / 8, "only tries: {counters:?}");
    }

    #[test]
    fn a_window_is_aligned_to_its_length_and_holds_the_read() {
        let mut machine = Machine::new(20_000);
        for page in scattered(3000, 6600) {
            machine.read(1, page, 6600, End::Known);
        }
        for page in [0u64, 7, 511, 512, 6599] {
            let read = Span::at(PageIndex(page), Pages(1));
            let window = machine.around.window(1, read, 100, End::Known).expect("paid for");
            assert!(window.covers(read) && window.len().get().is_power_of_two());
            assert_eq!(window.start.get() % window.len().get(), 0);
        }
    }

    #[test]
    fn pages_that_the_kernel_reads_ahead_pay_for_nothing() {
        let mut machine = Machine::new(20_000);
        for page in scattered(FIRST_STEP_MISSES_END_KNOWN, 100_000) {
            machine.read(1, page, 100_000, End::Known);
        }
        for page in 3000..3200 {
            machine.read(1, page, 100_000, End::Known);
        }
        assert_eq!(machine.around.counters().used, 0);
    }

    #[test]
    fn a_tree_has_no_credit_of_another() {
        let mut machine = Machine::new(20_000);
        for page in scattered(6000, 6600) {
            machine.read(1, page, 6600, End::Unknown);
        }
        let read = Span::at(PageIndex(100_000), Pages(1));
        let length = |class, misses| {
            machine.around.window(class, read, misses, End::Unknown).map_or(0, |window| window.len().get())
        };
        assert!(length(1, 100) > length(2, 100));
        assert_eq!(length(2, 0), 0, "of a statement that has just begun");
        assert!(length(1, 0) <= SEEK_PAGES_DISK / 2);
    }

    #[test]
    fn waiting_pages_are_limited() {
        let mut around = ReadAround::new(SEEK_PAGES_DISK);
        around.set_unread_limit(Pages(1000));
        for window in 0..100u64 {
            let at = Span::at(PageIndex(window * 512), Pages(512));
            around.fetched(1, &at.iter().collect::<Vec<_>>());
            assert!(around.prefetched.waiting <= 1000);
        }
    }

    proptest! {
        /// The bound holds for all reads, wherever they stop. Evictions are left out.
        #[test]
        fn it_never_costs_more_than_rho(
            reads in proptest::collection::vec((0u64..3, 0u64..4000, 1u64..200, 0u64..3), 1..120),
            seen in any::<bool>(),
        ) {
            let end = if seen { End::Known } else { End::Unknown };
            let mut machine = Machine::new(usize::MAX);
            let mut stock = HashSet::new();
            for (class, from, count, step) in reads {
                for at in 0..count {
                    let page = match step {
                        0 => from + at,
                        1 => from + at * 97,
                        _ => (from + at * at * 31) % 4000,
                    };
                    machine.read(class, page, 30_000, end);
                    stock.insert(page);
                    let most = stock.len() as u64 * SEEK * if seen { RHO_AROUND_END_KNOWN } else { RHO_END_UNKNOWN };
                    prop_assert!(machine.actual * 1000 <= most, "{} of {}", machine.actual, stock.len() as u64 * SEEK);
                }
            }
        }
    }
}
