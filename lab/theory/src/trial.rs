//! A policy on trial: the cost of its streams over the cost with known lengths, by an account that is not the
//! policy's own.
//!
//! The trial plays the device, the memory and the reader. A fetch costs a switch, as estimated at that moment,
//! and the transfer of its pages at the rates of their addresses; or the switch and the rate that the device is
//! [measured](Trial::measure) to have. With a known length a stream costs its costliest switch once, and the
//! transfer of what was fetched up to the page that the reader has reached: reading the gaps within it is
//! cheaper than skipping them. A stream ends where a gap costs more than a quarter of a switch, is longer than
//! 32 pages, or goes back. The reader could also stop after each call, so that [`Trial::worst`] covers all
//! lengths up to those that were read.
//!
//! Memory keeps all that was fetched. Pages that a cache in front [was given](Trial::deliver) are read again: the worst for a
//! policy that ends a fetch in front of them. The switch estimate is a [`PositioningCost`] of the trial's own that gets the
//! same requests as the policy.

use foreseek_readahead::depth::PositioningCost;
use foreseek_readahead::stream::{Ahead, Found, Opened, Prefetcher, Served, Settings, Touch, View};
use foreseek_seam::{Measured, ObjectId, ProcessId, StreamId};
use foreseek_units::{
    DeviceCosts, Instant, Lba, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, SectorSpan, Sectors,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest gap of a stream.
const SKIP: Pages = Pages(32);
const STREAM: StreamId = StreamId(0);

/// A policy and what it is tried on.
pub struct Trial {
    policy: Box<dyn Prefetcher>,
    costs: Arc<dyn DeviceCosts>,
    positioning: PositioningCost,
    measured: Option<Measured>,
    now: Instant,
    file: File,
    reader: Reader,
    worst: Costly,
    spent: f64,
}

/// A stream, at the length that it had when its last fetch had been made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costly {
    /// Its length in pages from its first one.
    pub length: Pages,
    /// How many fetches were made for it.
    pub fetches: usize,
    /// Their cost over the cost with a known length.
    pub ratio: f64,
    /// The same without the transfer of one page: depths are whole pages.
    pub but_a_page: f64,
}

/// The file that is open.
struct File {
    lba: Lba,
    /// What of it is in memory.
    held: Vec<PageSpan>,
    /// What the cache in front was given, which may have dropped it since.
    delivered: Vec<PageSpan>,
    measured: Option<Measured>,
}

impl View for File {
    fn cached(&self, page: PageIndex) -> bool {
        self.held.iter().any(|held| held.contains(page))
    }

    fn congested(&self) -> bool {
        false
    }

    fn lba(&self, page: PageIndex) -> Option<Lba> {
        Some(self.lba + Pages(page.get()).sectors())
    }

    fn delivered(&self, page: PageIndex) -> bool {
        self.delivered.iter().any(|delivered| delivered.contains(page))
    }

    fn measured(&self) -> Option<Measured> {
        self.measured
    }
}

/// The stream that is being read, and what was paid for it in seconds.
#[derive(Default)]
struct Reader {
    start: PageIndex,
    /// The page after the last one that was touched.
    reached: PageIndex,
    /// The longest gap that it may leave out.
    skip: Pages,
    fetches: usize,
    cost: f64,
    costliest: f64,
    slowest_page: f64,
    /// The transfer of what was fetched and passed.
    used: f64,
    /// What was fetched and not passed: each page and its transfer.
    ahead: VecDeque<(PageIndex, f64)>,
}

impl Trial {
    /// Makes a trial of a policy that was made with these settings for this device.
    #[must_use]
    pub fn new(policy: Box<dyn Prefetcher>, settings: &Settings, costs: &Arc<dyn DeviceCosts>) -> Self {
        let positioning =
            PositioningCost::new(Arc::clone(costs), settings.averaging, settings.positioning_weight);
        Self {
            policy,
            costs: Arc::clone(costs),
            positioning,
            measured: None,
            now: Instant::ZERO,
            file: File { lba: Lba::ZERO, held: Vec::new(), delivered: Vec::new(), measured: None },
            reader: Reader::default(),
            worst: Costly::default(),
            spent: 0.0,
        }
    }

    /// The policy that is on trial.
    pub fn policy(&mut self) -> &mut dyn Prefetcher {
        &mut *self.policy
    }

    /// From now on the device is measured to cost this.
    pub fn measure(&mut self, measured: Option<Measured>) {
        self.measured = measured;
        self.file.measured = measured;
    }

    /// The device serves `count` requests of others, a page each, at this distance from one another and at this
    /// interval.
    pub fn serve(&mut self, count: usize, distance: Sectors, every: Nanos) {
        for _ in 0..count {
            // Towards the first sector: that is a switch however short the distance is.
            let (from, to) = (Lba::ZERO + distance, Lba::ZERO);
            let served = Served { from, range: SectorSpan::at(to, Pages(1).sectors()) };
            self.now += every;
            self.policy.served(self.now, served);
            self.positioning.served(served);
        }
    }

    /// The current estimate of a switch's cost.
    #[must_use]
    pub fn positioning(&self) -> Nanos {
        self.measured.map_or_else(|| self.positioning.estimate(), |measured| measured.positioning)
    }

    /// Opens a file at an address.
    pub fn open(&mut self, length: Pages, lba: Lba) {
        let (object, pid) = (ObjectId(0), ProcessId(0));
        self.file = File { lba, held: Vec::new(), delivered: Vec::new(), measured: self.measured };
        self.reader = Reader { skip: SKIP, ..Reader::default() };
        self.policy.opened(self.now, Opened { stream: STREAM, object, pid, length, announced: None });
    }

    /// The cache in front was given these pages of the open file for another stream, and drops them before this
    /// one touches them: the policy sees each touch.
    pub fn deliver(&mut self, pages: PageSpan) {
        self.file.delivered.push(pages);
    }

    /// A call that reads these pages.
    pub fn call(&mut self, pages: PageSpan) {
        for page in pages.iter() {
            self.touch(page, pages.end - page, page == pages.start, false);
        }
        self.worst = self.worst.or(self.reader.costly());
    }

    /// A page fault.
    pub fn fault(&mut self, page: PageIndex) {
        self.touch(page, Pages(1), true, true);
        self.worst = self.worst.or(self.reader.costly());
    }

    /// The reader closes the file.
    pub fn close(&mut self) {
        self.policy.closed(self.now, STREAM);
    }

    /// The stream that has cost most over its optimum since the trial began or since [`Trial::forget`].
    #[must_use]
    pub fn worst(&self) -> Costly {
        self.worst
    }

    /// The cost of all fetches since then, in seconds.
    #[must_use]
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// Forgets what was read so far.
    pub fn forget(&mut self) {
        (self.worst, self.spent) = (Costly::default(), 0.0);
    }

    fn touch(&mut self, page: PageIndex, request: Pages, first: bool, mapped: bool) {
        let Reader { reached, skip, .. } = self.reader;
        if reached == PageIndex::ZERO || page < reached || page - reached > skip {
            self.reader = Reader { start: page, skip, ..Reader::default() };
        }
        let found = if self.file.cached(page) { Found::Hit } else { Found::Miss };
        let touch = Touch { stream: STREAM, page, request, first, mapped, found, marker: false };
        let mut answers = Vec::new();
        self.policy.touch(self.now, touch, &self.file, &mut answers);
        let mut end = None;
        for Ahead { range, .. } in answers {
            // Ranges that follow one another are one fetch, as a block layer merges them.
            if end != Some(range.start) {
                self.pay_positioning(range.start);
            }
            self.pay_transfer(range);
            end = Some(range.end);
        }
        self.reader.pass(page);
    }

    fn pay_positioning(&mut self, from: PageIndex) {
        let positioning = self.positioning();
        self.spent += positioning.as_secs_f64();
        let reader = &mut self.reader;
        reader.fetches += 1;
        reader.cost += positioning.as_secs_f64();
        reader.costliest = reader.costliest.max(positioning.as_secs_f64());
        let rate = self.costs.rate_at(self.file.lba + Pages(from.get()).sectors());
        let costs = self.measured.unwrap_or(Measured { positioning, rate });
        self.reader.skip = costs.gap().pages_floor().min(SKIP);
    }

    fn pay_transfer(&mut self, range: PageSpan) {
        for page in range.iter().filter(|page| !self.file.cached(*page)) {
            let lba = self.file.lba + Pages(page.get()).sectors();
            let rate = self.measured.map_or_else(|| self.costs.rate_at(lba), |measured| measured.rate);
            let seconds = PAGE_SIZE as f64 / rate.as_bytes_per_second();
            self.spent += seconds;
            self.reader.cost += seconds;
            self.reader.slowest_page = self.reader.slowest_page.max(seconds);
            // Pages before the stream's start are used by nobody.
            if page >= self.reader.start {
                self.reader.ahead.push_back((page, seconds));
            }
        }
        match self.file.held.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => self.file.held.push(range),
        }
    }
}

impl Reader {
    /// The reader has touched a page.
    fn pass(&mut self, page: PageIndex) {
        self.reached = page.next();
        while self.ahead.front().is_some_and(|(ahead, _)| *ahead < self.reached) {
            self.used += self.ahead.pop_front().map_or(0.0, |(_, seconds)| seconds);
        }
    }

    fn costly(&self) -> Costly {
        let optimum = self.costliest + self.used;
        if self.fetches == 0 {
            return Costly::default();
        }
        Costly {
            length: self.reached - self.start,
            fetches: self.fetches,
            ratio: self.cost / optimum,
            but_a_page: (self.cost - self.slowest_page) / optimum,
        }
    }
}

impl Costly {
    /// The costlier of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if other.but_a_page > self.but_a_page { other } else { self }
    }
}
