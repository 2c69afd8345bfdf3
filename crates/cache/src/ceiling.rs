//! How large the prefetch cache may be: gradient descent on the miss rate (TR-840 section 4.1).
//!
//! The ceiling x is to make the misses of both kinds fewest: those on pages that were in the LRU lists
//! (the ceiling was too high) and those on pages that were prefetched and evicted unused (it was
//! too low). It starts with 25 % of memory and is moved by one unit after each epoch of 4 s: at first in a
//! direction that the caller gives (the paper draws it), then in the direction of the step before, unless the
//! rate has risen by more than a threshold; then in the other.
//!
//! What the paper leaves open, and what is done here:
//!
//! - *The rate* is that of misses among the pages referenced, as a moving average over epochs. Misses a
//!   second would fall with the throughput: a ceiling so low that streams are read in small pieces has
//!   few of them.
//! - *The threshold* for "increases obviously" is what the rate changes by from one epoch to the next by itself,
//!   measured as a mean, and at least one page in a thousand.
//! - *Since when* it has risen: since it was lowest on the way that is gone now. From one epoch to the next a
//!   slow rise would never be obvious.
//! - *A plateau.* The paper takes for granted that the rate has one lowest place. It has not: a ceiling that bounds
//!   nothing costs nothing anywhere, and one that cuts fetches short causes no miss by that. By the paper's rule
//!   the ceiling then walks from limit to limit, and streams are read page by page at the lower one. Here the
//!   rate bears a penalty for each unit that the ceiling is away from where it began, so that there is one lowest
//!   place: a walk that gains nothing obvious is turned after [`Settings::reach`] units. Where all misses are fewer
//!   than the least threshold no step can gain anything, and the ceiling goes back to where it began.
//! - *At a limit* (nothing, or all memory that can be cache) a step is no step, and the rate tells nothing
//!   about it. The ceiling goes back by a unit; if the rate rises with that, the next step leads to the limit
//!   again. Where memory has less than the ceiling began with, that limit is where it belongs, and it stays
//!   for a minute, or until the rate rises.
//! - *Memory that shrinks* bounds the ceiling at once; when it grows back before the next step, the ceiling
//!   is what it was.
//!
//! Limits: a gain of less than the penalty a step is not followed, though it may add up. In a steep valley it
//! swings widely, for what its own steps change counts as noise, too: within fifteen units of the start it stays a
//! dozen units from the bottom on average at worst; farther away it may be drawn back to the start for a minute.
//! Misses are all that is seen: whether fetches have become short is not.

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

/// The weight of the newest epoch in the mean change of the rate: half a minute's epochs count.
const CHANGE_WEIGHT: f64 = 0.125;

/// How many epochs it stays at a limit where it belongs before it looks whether less would be better: a
/// minute, so that looking, which takes up to six epochs, is the exception.
const PATIENCE: u32 = 16;

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
    /// By how many times its mean change from one epoch to the next the rate has to rise, at least.
    pub rise_changes: f64,
    /// How many units a walk goes away from the start that gains nothing obvious.
    pub reach: u32,
    /// The weight of the newest epoch in the moving average, above 0 up to 1.
    pub weight: f64,
}

impl Settings {
    /// The paper's start and epoch with this unit and first step.
    ///
    /// The paper tells neither its threshold nor its weights. An average that gives the newest epoch a
    /// quarter of the weight has four tenths of the spread of an epoch's rate, of which the mean change from
    /// epoch to epoch is 1.1 times: such a change of the average is seldom chance. Less than one page in a
    /// thousand is not worth a step: at 30 pages a fetch a page read again alone costs a disk as much as
    /// 20 to 30 others, which is some three hundredths of its time. Two units are the least reach on which a
    /// rise can be told from the step that turned.
    #[must_use]
    pub fn paper(unit: Pages, first: Direction) -> Self {
        Self {
            start: 0.25,
            epoch: Nanos::from_secs(4),
            unit,
            first,
            rise: 0.001,
            rise_changes: 1.0,
            reach: 2,
            weight: 0.25,
        }
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Ceiling {
    settings: Settings,
    start: Pages,
    at: Pages,
    /// All the memory that can be cache: `x_max`.
    most: Pages,
    direction: Direction,
    /// For how many epochs it has stayed at a limit.
    stayed: u32,
    began: Instant,
    /// Pages referenced before this epoch.
    referenced: Pages,
    /// Misses of this epoch, and of all before it.
    epoch: Misses,
    total: Misses,
    /// What the epochs before this one told.
    known: Option<Known>,
}

/// What epochs have told of the miss rate.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The rate of the last one.
    last: f64,
    /// The moving average.
    average: f64,
    /// The moving average of how much it changes from one epoch to the next, either way.
    change: f64,
    /// The least cost of this way: average and penalty.
    least: f64,
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
            start: memory.scale(settings.start),
            at: memory.scale(settings.start),
            most,
            direction: settings.first,
            stayed: 0,
            began: now,
            referenced: Pages::ZERO,
            epoch: Misses::default(),
            total: Misses::default(),
            known: None,
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
        self.decide(self.epoch.sum() as f64 / touched.get() as f64);
        self.total = self.misses();
        self.epoch = Misses::default();
        self.referenced = referenced;
    }

    /// What an epoch with this rate tells, and the step that follows from it.
    fn decide(&mut self, rate: f64) {
        let Settings { rise, rise_changes, reach, weight, first, .. } = self.settings;
        let Some(known) = self.known.as_mut() else {
            self.known = Some(Known { last: rate, average: rate, change: 0.0, least: f64::INFINITY });
            return self.step(first);
        };
        known.average += weight * (rate - known.average);
        known.change += CHANGE_WEIGHT * ((rate - known.last).abs() - known.change);
        known.last = rate;
        let Known { average, change, least, .. } = *known;
        let threshold = rise.max(rise_changes * change);
        let penalty = threshold / f64::from(reach.max(1));
        let cost = average + penalty * self.units_away();
        let (least, direction) = if average < rise {
            (cost, None)
        } else if cost - least > threshold {
            (cost, Some(self.direction.turned()))
        } else {
            (least.min(cost), Some(self.direction))
        };
        self.known = self.known.map(|known| Known { least, ..known });
        match direction {
            Some(direction) => self.step(direction),
            None => self.return_home(),
        }
    }

    /// Where it began, as far as there is memory.
    fn home(&self) -> Pages {
        self.start.min(self.most)
    }

    fn units_away(&self) -> f64 {
        let away = self.pages().get().abs_diff(self.home().get());
        away as f64 / self.settings.unit.get().max(1) as f64
    }

    /// Moves by a unit at most towards where it began.
    fn return_home(&mut self) {
        let (here, home) = (self.pages(), self.home());
        if here == home {
            return;
        }
        self.direction = if here < home { Direction::Up } else { Direction::Down };
        let next = self.beside(here, self.direction);
        self.at = if here < home { next.min(home) } else { next.max(home) };
    }

    /// Moves by a unit; back, where that is beyond a limit, but not at once where it belongs there.
    fn step(&mut self, direction: Direction) {
        let here = self.pages();
        self.direction = direction;
        if self.beside(here, direction) == here {
            self.stayed += 1;
            if here == self.home() && self.stayed <= PATIENCE {
                self.at = here;
                return;
            }
            self.direction = direction.turned();
        }
        self.stayed = 0;
        self.at = self.beside(here, self.direction);
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
        // It falls: on. It stays what it is: on, until the way has not paid; then back, past the start.
        let way: Vec<u64> = [60, 50, 40, 40, 40].map(|rate| epoch(&mut one, rate)).into();
        assert_eq!(way, [110, 120, 130, 140, 150]);
        let way: Vec<u64> = [80, 80, 80, 80].map(|rate| epoch(&mut one, rate)).into();
        assert_eq!(way, [140, 130, 120, 110], "the rate has risen");
        assert_eq!(one.misses(), Misses { lru: 275, prefetched: 275 });
    }

    #[test]
    fn the_first_step_is_the_callers() {
        assert_eq!(epoch(&mut ceiling(Direction::Up, 400, 400), 0), 110);
        assert_eq!(epoch(&mut ceiling(Direction::Down, 400, 400), 0), 90);
    }

    #[test]
    fn where_nothing_is_to_be_gained_it_goes_back_to_where_it_began() {
        let mut one = ceiling(Direction::Down, 400, 400);
        let mut way: Vec<u64> = std::iter::repeat_with(|| epoch(&mut one, 0)).take(3).collect();
        assert_eq!(way, [90, 100, 100]);
        // Less memory than that bounds it; with more it comes back by units.
        one.resized(Pages(75));
        way = std::iter::repeat_with(|| epoch(&mut one, 0)).take(2).collect();
        one.resized(Pages(400));
        way.extend(std::iter::repeat_with(|| epoch(&mut one, 0)).take(4));
        assert_eq!(way, [75, 75, 100, 100, 100, 100]);
    }

    #[test]
    fn at_the_limit_where_it_belongs_it_stays_until_the_rate_rises() {
        let mut one = ceiling(Direction::Up, 400, 60);
        let mut way: Vec<u64> = std::iter::repeat_with(|| epoch(&mut one, 50)).take(16).collect();
        way.dedup();
        assert_eq!(way, [60]);
        assert_eq!([400, 400].map(|rate| epoch(&mut one, rate)), [50, 60], "down, and back as it rises on");
        // Once a minute it looks below, and comes back as that is no better.
        for _ in 0..60 {
            epoch(&mut one, 400);
        }
        let way: Vec<u64> = std::iter::repeat_with(|| epoch(&mut one, 400)).take(110).collect();
        assert_eq!(way.iter().min(), Some(&40));
        let looking = way.iter().filter(|pages| **pages < 60).count();
        assert!((10..=35).contains(&looking), "{looking} of 110 epochs");
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
        // At the limit it stays, and is what it is then, not what it was.
        assert_eq!(epoch(&mut one, 20), 30);
        one.resized(Pages(400));
        assert_eq!(one.pages(), Pages(30));
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

    /// How near to the bottom of a steep valley it stays on average, in units: the average lags behind by four
    /// epochs, and the change that its own steps cause raises threshold and penalty.
    const AROUND: u64 = 12;

    fn units(ceiling: &Ceiling) -> u64 {
        ceiling.pages().get() / UNIT.get()
    }

    /// Numbers that look random (xorshift).
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.max(1);
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    proptest! {
        /// On a valley of misses that is steep enough to be seen it comes to the bottom and stays near; when
        /// the bottom moves it follows.
        #[test]
        fn it_finds_the_bottom_of_a_valley_and_follows_it(
            bottoms in [5..=35u64, 5..=35u64], up: bool,
        ) {
            let first = if up { Direction::Up } else { Direction::Down };
            let mut one = ceiling(first, 80 * UNIT.get(), 40 * UNIT.get());
            for bottom in bottoms {
                let mut sum = 0;
                for round in 0..200 {
                    let steps = units(&one).abs_diff(bottom);
                    // Each step away costs 10 misses of 1000 pages and a tenth of what there is.
                    let rate = 10.0 * 1.1f64.powi(steps as i32) + 10.0 * steps as f64;
                    epoch(&mut one, rate as u64);
                    sum += if round < 120 { 0 } else { units(&one).abs_diff(bottom) };
                }
                let mean = sum / 80;
                prop_assert!(mean <= AROUND, "{mean} units away on average");
            }
        }

        /// Where one side is better it is found, though the rate changes more by itself than by a step. That is
        /// said of the mean: one time in some ten thousands noise alone keeps it near the middle for 300 epochs.
        #[test]
        fn it_comes_to_the_better_side_under_noise(better_up: bool, up: bool, seed: u64) {
            const TIMES: u64 = 4;
            let first = if up { Direction::Up } else { Direction::Down };
            let mut noise = Noise(seed);
            let mut sum = 0;
            for _ in 0..TIMES {
                let mut one = ceiling(first, 80 * UNIT.get(), 40 * UNIT.get());
                for round in 0..600 {
                    // A step costs 4 of 1000 pages; from epoch to epoch the rate differs by 7 on average.
                    let bad = if better_up { 40 - units(&one).min(40) } else { units(&one) };
                    epoch(&mut one, 20 + 4 * bad + noise.below(21));
                    sum += if round < 300 { 0 } else { units(&one) };
                }
            }
            let mean = sum / (300 * TIMES);
            prop_assert!((mean > 20) == better_up, "{mean} units on average");
        }

        /// Where the misses are the same everywhere it stays about where it began, however they change.
        #[test]
        fn on_a_plateau_it_stays_about_where_it_began(rate in 0..300u64, spread in 1..200u64, seed: u64) {
            let mut one = ceiling(Direction::Up, 80 * UNIT.get(), 40 * UNIT.get());
            let mut noise = Noise(seed);
            let mut sum = 0;
            for _ in 0..300 {
                epoch(&mut one, rate + noise.below(spread));
                sum += units(&one).abs_diff(20);
            }
            prop_assert!(sum <= 300 * 5, "{sum} units away in 300 epochs");
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
