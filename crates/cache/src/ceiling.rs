//! How large the prefetch cache may be: gradient descent on the miss rate (TR-840 section 4.1).
//!
//! The ceiling x is to make the misses of both kinds fewest: those on pages that were in the LRU lists
//! (the ceiling was too high) and those on pages that were prefetched and evicted unused (it was
//! too low). It starts with 25 % of memory and is moved by one unit after each epoch of 4 s: at first in a
//! direction that the caller gives (the paper draws it), then in the direction of the step before, unless the
//! rate has risen by more than a threshold since; then in the other.
//!
//! What the paper leaves open, and what is done here:
//!
//! - *The rate* is that of misses among the pages referenced, as a moving average over epochs. Misses a
//!   second would fall with the throughput: a ceiling so low that streams are read in small pieces has
//!   few of them. The threshold for "increases obviously" is a rate and a share of the rate before, whichever is
//!   larger.
//! - *At a limit* (nothing, or all memory that can be cache) a step is no step, and the rate tells nothing
//!   about it. The ceiling goes back by a unit; if the rate rises with that, the next step leads to the limit
//!   again. It never sticks there.
//! - *Without any miss* in two epochs there is nothing to gain: the ceiling stays. By the paper's words
//!   it would wander to a limit while a machine is idle, and be found there by the next load.
//! - *Memory that shrinks* bounds the ceiling at once; when it grows back before the next step, the ceiling
//!   is what it was.

use foreseek_units::{Instant, Nanos, Pages};

use crate::history::Status;

/// Which way the ceiling moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To a larger prefetch cache.
    Up,
    /// To a smaller one.
    Down,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub fn turned(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// What moves a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The share of all memory that it starts with.
    pub start: f64,
    /// How long one setting is tried.
    pub epoch: Nanos,
    /// By how much it moves: the kernel's low mark of free memory, in the paper.
    pub unit: Pages,
    /// Where the first step leads.
    pub first: Direction,
    /// By how many misses a page referenced the rate has to rise to turn the ceiling, at least.
    pub rise: f64,
    /// By which share of itself the rate has to rise, at least.
    pub rise_share: f64,
    /// The weight of the newest epoch in the moving average, above 0 up to 1.
    pub weight: f64,
}

impl Settings {
    /// The paper's start and epoch with this unit and first step.
    ///
    /// The paper tells neither its threshold nor its weights. Misses come by chance: of 100 in an epoch
    /// the standard deviation is 10. A rise of a tenth of an average that gives the newest epoch half
    /// the weight, so of a fifth from one epoch to the next, is seldom chance there; less than one
    /// page in a thousand is not worth a step.
    #[must_use]
    pub fn paper(unit: Pages, first: Direction) -> Self {
        Self {
            start: 0.25,
            epoch: Nanos::from_secs(4),
            unit,
            first,
            rise: 0.001,
            rise_share: 0.1,
            weight: 0.5,
        }
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Ceiling {
    settings: Settings,
    at: Pages,
    /// All the memory that can be cache: `x_max`.
    most: Pages,
    direction: Direction,
    began: Instant,
    /// Pages referenced before this epoch.
    referenced: Pages,
    /// Misses of this epoch, and of all before it.
    epoch: Misses,
    total: Misses,
    /// The moving average after the epoch before this one, and whether that one had a miss.
    before: Option<(f64, bool)>,
}

/// Misses by what the page had been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// On pages that were in the LRU lists.
    pub lru: u64,
    /// On pages that were prefetched and evicted unused.
    pub prefetched: u64,
}

impl Misses {
    fn sum(self) -> u64 {
        self.lru + self.prefetched
    }
}

impl Ceiling {
    /// The ceiling of a memory of so many pages, of which `most` can be cache.
    #[must_use]
    pub fn new(settings: Settings, memory: Pages, most: Pages, now: Instant) -> Self {
        Self {
            settings,
            at: memory.scale(settings.start),
            most,
            direction: settings.first,
            began: now,
            referenced: Pages::ZERO,
            epoch: Misses::default(),
            total: Misses::default(),
            before: None,
        }
    }

    /// How many pages the prefetch cache may have.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.at.min(self.most)
    }

    /// Misses since the start.
    #[must_use]
    pub fn misses(&self) -> Misses {
        Misses {
            lru: self.total.lru + self.epoch.lru,
            prefetched: self.total.prefetched + self.epoch.prefetched,
        }
    }

    /// A page was missed that had been evicted as this.
    pub fn missed(&mut self, status: Status) {
        match status {
            Status::Lru => self.epoch.lru += 1,
            Status::Prefetched => self.epoch.prefetched += 1,
        }
    }

    /// The memory that can be cache has become more or less.
    pub fn resized(&mut self, most: Pages) {
        self.most = most;
    }

    /// When the epoch ends: [`Self::tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.began + self.settings.epoch
    }

    /// Ends the epoch if it is over. `referenced` is how many pages have been referenced since the start,
    /// missed or not. An epoch that is ended late is one longer epoch; where nothing was referenced, nothing
    /// is known, and it goes on.
    pub fn tick(&mut self, now: Instant, referenced: Pages) {
        if now < self.deadline() {
            return;
        }
        self.began = now;
        let touched = referenced - self.referenced;
        if touched.is_zero() {
            return;
        }
        let rate = self.epoch.sum() as f64 / touched.get() as f64;
        let missed = self.epoch.sum() > 0;
        let average = self.before.map_or(rate, |(before, _)| before + self.settings.weight * (rate - before));
        match self.before {
            None => self.step(self.settings.first),
            Some((_, false)) if !missed => {}
            Some((before, _)) => {
                let threshold = self.settings.rise.max(before * self.settings.rise_share);
                let worse = average - before > threshold;
                self.step(if worse { self.direction.turned() } else { self.direction });
            }
        }
        self.before = Some((average, missed));
        self.total = self.misses();
        self.epoch = Misses::default();
        self.referenced = referenced;
    }

    /// Moves by a unit; back, where that is beyond a limit.
    fn step(&mut self, direction: Direction) {
        let here = self.pages();
        self.direction = direction;
        self.at = self.beside(here, direction);
        if self.at == here {
            self.direction = direction.turned();
            self.at = self.beside(here, self.direction);
        }
    }

    fn beside(&self, here: Pages, direction: Direction) -> Pages {
        match direction {
            Direction::Up => (here + self.settings.unit).min(self.most),
            Direction::Down => here - self.settings.unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: Pages = Pages(10);

    fn ceiling(first: Direction, memory: u64, most: u64) -> Ceiling {
        Ceiling::new(Settings::paper(UNIT, first), Pages(memory), Pages(most), Instant::ZERO)
    }

    /// Ends an epoch in which so many of 1000 pages were missed. Answers the ceiling.
    fn epoch(ceiling: &mut Ceiling, misses: u64) -> u64 {
        for miss in 0..misses {
            ceiling.missed(if miss % 2 == 0 { Status::Lru } else { Status::Prefetched });
        }
        ceiling.tick(ceiling.deadline(), ceiling.referenced + Pages(1000));
        ceiling.pages().get()
    }

    #[test]
    fn golden_it_goes_on_while_the_rate_does_not_rise_and_turns_when_it_does() {
        let mut one = ceiling(Direction::Up, 400, 400);
        assert_eq!(one.pages(), Pages(100));
        // Averages: 20, 20, 16, 22, 21, 24.5.
        let way: Vec<u64> = [20, 20, 12, 28, 20, 28].map(|rate| epoch(&mut one, rate)).into();
        assert_eq!(way, [110, 120, 130, 120, 110, 120]);
        assert_eq!(one.misses(), Misses { lru: 64, prefetched: 64 });
    }

    #[test]
    fn the_first_step_is_the_callers() {
        assert_eq!(epoch(&mut ceiling(Direction::Up, 400, 400), 0), 110);
        assert_eq!(epoch(&mut ceiling(Direction::Down, 400, 400), 0), 90);
    }

    #[test]
    fn without_misses_it_stays() {
        let mut one = ceiling(Direction::Down, 400, 400);
        let way: Vec<u64> = [5, 0, 0, 0, 5].map(|rate| epoch(&mut one, rate)).into();
        assert_eq!(way, [90, 80, 80, 80, 90]);
    }

    #[test]
    fn at_a_limit_it_goes_back_and_returns_if_that_is_worse() {
        for (first, memory, limit, back) in [(Direction::Up, 400, 115, 105), (Direction::Down, 60, 0, 10)] {
            let mut one = ceiling(first, memory, 115);
            let steps = std::iter::repeat_with(|| epoch(&mut one, 20)).take(10);
            let mut steps = steps.skip_while(|pages| *pages != limit);
            assert_eq!((steps.next(), steps.next()), (Some(limit), Some(back)));
            drop(steps);
            let mut one = ceiling(first, memory, 115);
            while one.pages().get() != limit {
                epoch(&mut one, 20);
            }
            assert_eq!([20, 40].map(|rate| epoch(&mut one, rate)), [back, limit]);
        }
    }

    #[test]
    fn memory_bounds_it_at_once_and_for_no_longer_than_it_must() {
        let mut one = ceiling(Direction::Up, 400, 400);
        one.resized(Pages(30));
        assert_eq!(one.pages(), Pages(30));
        one.resized(Pages(400));
        assert_eq!(one.pages(), Pages(100));
        one.resized(Pages(30));
        // At the limit: the step leads down from what it is, not from what it was.
        assert_eq!(epoch(&mut one, 20), 20);
        one.resized(Pages(400));
        assert_eq!(one.pages(), Pages(20));
        one.resized(Pages::ZERO);
        assert_eq!(epoch(&mut one, 20), 0);
    }

    #[test]
    fn a_late_tick_is_a_longer_epoch() {
        let mut one = ceiling(Direction::Up, 400, 400);
        epoch(&mut one, 10);
        (0..20).for_each(|_| one.missed(Status::Lru));
        let before = one.pages();
        one.tick(Instant::ZERO + Nanos::from_secs(7), Pages(2500));
        assert_eq!(one.pages(), before, "an epoch that is not over");
        // 20 misses of 2000 pages are the same 10 of 1000.
        one.tick(Instant::ZERO + Nanos::from_secs(12), Pages(3000));
        assert_eq!(one.pages(), before + UNIT);
        assert_eq!(one.deadline(), Instant::ZERO + Nanos::from_secs(16));
    }

    #[test]
    fn throughput_is_no_miss_rate() {
        let mut one = ceiling(Direction::Up, 400, 400);
        epoch(&mut one, 10);
        let before = one.pages();
        // Twice as many misses of twice as many pages.
        (0..20).for_each(|_| one.missed(Status::Prefetched));
        one.tick(one.deadline(), Pages(3000));
        assert_eq!(one.pages(), before + UNIT);
    }

    #[test]
    fn an_epoch_in_which_nothing_is_referenced_goes_on() {
        let mut one = ceiling(Direction::Up, 400, 400);
        one.tick(one.deadline(), Pages::ZERO);
        assert_eq!((one.pages(), one.deadline()), (Pages(100), Instant::ZERO + Nanos::from_secs(8)));
    }

    proptest! {
        /// On a valley of misses that is steep enough to be seen it comes to the bottom and stays near.
        #[test]
        fn it_finds_the_bottom_of_a_valley(bottom in 0..=40u64, start in 0..=40u64, up: bool) {
            let first = if up { Direction::Up } else { Direction::Down };
            let mut one = ceiling(first, start * 4 * UNIT.get(), 40 * UNIT.get());
            for round in 0..200 {
                let steps = (one.pages().get() / UNIT.get()).abs_diff(bottom);
                // Each step away costs 10 misses of 1000 pages and a quarter of what there is.
                let rate = 10.0 * 1.3f64.powi(steps as i32) + 10.0 * steps as f64;
                epoch(&mut one, rate as u64);
                let away = (one.pages().get() / UNIT.get()).abs_diff(bottom);
                prop_assert!(round < 100 || away <= 4, "{away} units away after {round} epochs");
            }
        }

        /// It is never beyond its limits, whatever is missed and however memory changes.
        #[test]
        fn it_stays_within_memory(ops in proptest::collection::vec((0..100u64, 0..300u64), 1..100)) {
            let mut one = ceiling(Direction::Up, 400, 300);
            for (rate, most) in ops {
                one.resized(Pages(most));
                prop_assert!(one.pages() <= Pages(most));
                prop_assert!(epoch(&mut one, rate) <= most);
            }
        }
    }
}
