//! The ceiling of the prefetch cache: gradient descent on the miss rate (TR-840 section 4.1).
//!
//! The ceiling x should minimise the sum of two kinds of misses. If the missed page was in the LRU lists, the
//! ceiling was too high. If it was prefetched and evicted unused, the ceiling was too low. It starts with 25
//! % of memory and moves by one unit after each epoch of 4 s. The first direction is given by the caller (in
//! the paper it is random). It keeps its direction until the rate has risen by more than a threshold, and
//! then reverses it.
//!
//! The paper leaves some points open. Here they are decided as follows:
//!
//! - *The rate* is that of misses among the pages referenced, as a moving average over epochs. Misses per
//!   second would fall with the throughput: a ceiling so low that streams are read in small pieces has few of
//!   them.
//! - *The threshold* for "increases obviously" is the mean change of the rate from one epoch to the next, as
//!   measured, and at least one page in a thousand.
//! - *The reference* of a rise is the lowest rate in the current direction. From one epoch to the next a slow
//!   rise would never be obvious.
//! - *A plateau.* The paper assumes that the rate has one minimum. It does not: a ceiling that limits nothing
//!   costs the same anywhere, and one that cuts fetches short causes no miss by that. By the paper's rule the
//!   ceiling then walks from limit to limit, and streams are read page by page at the lower one. Here the
//!   rate has a penalty for each unit of distance from the start, so that there is one minimum: a walk
//!   without an obvious gain is reversed after [`Settings::reach`] units. If all misses are fewer than the
//!   least threshold, no step can gain anything, and the ceiling returns to its start.
//! - *At a limit* (nothing, or all memory that can be cache) a step has no effect, and the rate shows nothing
//!   about it. The ceiling goes back by a unit; if the rate then rises, the next step leads to the limit
//!   again. If memory is less than the start, that limit is the right place. The ceiling then stays there for
//!   a minute, or until the rate rises.
//! - *Memory that shrinks* bounds the ceiling at once; if it grows back before the next step, the ceiling is
//!   restored.
//!
//! Limits:
//!
//! - A gain of less than the penalty of a step is ignored, although such gains may add up.
//! - In a steep valley it swings widely, since the changes of its own steps count as noise, too. Within
//!   fifteen units of the start it stays a dozen units from the minimum on average at worst; farther away it
//!   may be drawn back to the start for a minute.
//! - Only misses are observed: fetches that have become short are not.

use foreseek_units::{Instant, Nanos, Pages};

use crate::history::Status;

/// The direction in which the ceiling moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To a larger prefetch cache.
    Up,
    /// To a smaller one.
    Down,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub fn turned(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// The weight of the newest epoch in the mean change of the rate: the epochs of half a minute count.
const CHANGE_WEIGHT: f64 = 0.125;

/// How many epochs it stays at the right limit before it tries less: a minute, so that trying, which takes up
/// to six epochs, is the exception.
const PATIENCE: u32 = 16;

/// The settings of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The initial share of all memory.
    pub start: f64,
    /// How long one ceiling is tried.
    pub epoch: Nanos,
    /// The size of a step: in the paper the kernel's low mark of free memory.
    pub unit: Pages,
    /// The direction of the first step.
    pub first: Direction,
    /// The least rise of the rate, in misses for each page referenced, that reverses the direction.
    pub rise: f64,
    /// The least rise that reverses the direction, as a multiple of the rate's mean change from one epoch to
    /// the next.
    pub rise_changes: f64,
    /// How many units a walk without an obvious gain may go away from the start.
    pub reach: u32,
    /// The weight of the newest epoch in the moving average, above 0 up to 1.
    pub weight: f64,
}

impl Settings {
    /// The paper's start and epoch with this unit and first step.
    ///
    /// The paper gives neither its threshold nor its weights.
    ///
    /// - With a quarter of the weight for the newest epoch, the average has four tenths of the spread of an
    ///   epoch's rate. The mean change from epoch to epoch is 1.1 times that spread: a change of this size of
    ///   the average is seldom chance.
    /// - Less than one page in a thousand is not worth a step. At 30 pages a fetch, a page that is read again
    ///   alone costs a disk as much as 20 to 30 others, some three hundredths of its time.
    /// - Two units are the least reach at which a rise can be distinguished from the step that caused it.
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
    /// How many epochs it has stayed at a limit.
    stayed: u32,
    began: Instant,
    /// Pages referenced before this epoch.
    referenced: Pages,
    /// Misses of this epoch, and of all before it.
    epoch: Misses,
    total: Misses,
    /// The rates of the earlier epochs.
    known: Option<Known>,
}

/// The miss rates of the earlier epochs.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The rate of the last epoch.
    last: f64,
    /// The moving average.
    average: f64,
    /// The moving average of its absolute change from one epoch to the next.
    change: f64,
    /// The least cost in this direction: average and penalty.
    least: f64,
}

/// Misses by the earlier status of the page.
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
    /// The ceiling for a memory of this size, of which `most` can be cache.
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

    /// The ceiling in pages.
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

    /// A page was missed that had been evicted with this status.
    pub fn missed(&mut self, status: Status) {
        match status {
            Status::Lru => self.epoch.lru += 1,
            Status::Prefetched => self.epoch.prefetched += 1,
        }
    }

    /// The memory that can be cache has changed.
    pub fn resized(&mut self, most: Pages) {
        self.most = most;
    }

    /// The end of the epoch: [`Self::tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.began + self.settings.epoch
    }

    /// Ends the epoch if it is over. `referenced` is the number of pages referenced since the start, missed
    /// or not. An epoch that ends late is one longer epoch. If nothing was referenced, nothing is known, and
    /// the epoch continues.
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

    /// Evaluates an epoch with this rate, and makes the next step.
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

    /// The start, as far as memory permits.
    fn home(&self) -> Pages {
        self.start.min(self.most)
    }

    fn units_away(&self) -> f64 {
        let away = self.pages().get().abs_diff(self.home().get());
        away as f64 / self.settings.unit.get().max(1) as f64
    }

    /// Moves by at most a unit towards the start.
    fn return_home(&mut self) {
        let (here, home) = (self.pages(), self.home());
        if here == home {
            return;
        }
        self.direction = if here < home { Direction::Up } else { Direction::Down };
        let next = self.beside(here, self.direction);
        self.at = if here < home { next.min(home) } else { next.max(home) };
    }

    /// Moves by a unit. If that exceeds a limit, it moves back, but not at once where the limit is the right
    /// place.
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

    /// Ends an epoch with this many misses in 1000 pages. Returns the ceiling.
    fn epoch(ceiling: &mut Ceiling, misses: u64) -> u64 {
        for miss in 0..misses {
            ceiling.missed(if miss % 2 == 0 { Status::Lru } else { Status::Prefetched });
        }
        ceiling.tick(ceiling.deadline(), ceiling.referenced + Pages(1000));
        ceiling.pages().get()
    }

    #[test]
    fn golden_it_continues_until_the_rate_rises_and_then_reverses() {
        let mut one = ceiling(Direction::Up, 400, 400);
        assert_eq!(one.pages(), Pages(100));
        // It falls: onward. It is constant: onward, until the walk has not paid; then back, past the start.
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
    fn without_a_gain_it_returns_to_its_start() {
        let mut one = ceiling(Direction::Down, 400, 400);
        let mut way: Vec<u64> = std::iter::repeat_with(|| epoch(&mut one, 0)).take(3).collect();
        assert_eq!(way, [90, 100, 100]);
        // Less memory than that bounds it; with more it returns by units.
        one.resized(Pages(75));
        way = std::iter::repeat_with(|| epoch(&mut one, 0)).take(2).collect();
        one.resized(Pages(400));
        way.extend(std::iter::repeat_with(|| epoch(&mut one, 0)).take(4));
        assert_eq!(way, [75, 75, 100, 100, 100, 100]);
    }

    #[test]
    fn at_the_right_limit_it_stays_until_the_rate_rises() {
        let mut one = ceiling(Direction::Up, 400, 60);
        let mut way: Vec<u64> = std::iter::repeat_with(|| epoch(&mut one, 50)).take(16).collect();
        way.dedup();
        assert_eq!(way, [60]);
        assert_eq!([400, 400].map(|rate| epoch(&mut one, rate)), [50, 60], "down, and back as it rises on");
        // Once a minute it tries less, and returns as that is no better.
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
        // It stays at the limit, with the current value, not the earlier one.
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
        // 20 misses in 2000 pages are the same as 10 in 1000.
        one.tick(Instant::ZERO + Nanos::from_secs(12), Pages(3000));
        assert_eq!(one.pages(), before + UNIT);
        assert_eq!(one.deadline(), Instant::ZERO + Nanos::from_secs(16));
    }

    #[test]
    fn throughput_is_no_miss_rate() {
        let mut one = ceiling(Direction::Up, 400, 400);
        epoch(&mut one, 10);
        let before = one.pages();
        // Twice as many misses in twice as many pages.
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

    /// How near to the minimum of a steep valley it stays on average, in units. The average lags by four
    /// epochs, and the changes of its own steps raise the threshold and the penalty.
    const AROUND: u64 = 12;

    fn units(ceiling: &Ceiling) -> u64 {
        ceiling.pages().get() / UNIT.get()
    }

    /// Pseudo-random numbers (xorshift).
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
        /// In a valley of misses that is steep enough to be detected it reaches the minimum and stays near;
        /// when the minimum moves it follows.
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
                    // Each step away costs 10 misses in 1000 pages and a tenth of the rest.
                    let rate = 10.0 * 1.1f64.powi(steps as i32) + 10.0 * steps as f64;
                    epoch(&mut one, rate as u64);
                    sum += if round < 120 { 0 } else { units(&one).abs_diff(bottom) };
                }
                let mean = sum / 80;
                prop_assert!(mean <= AROUND, "{mean} units away on average");
            }
        }

        /// It finds the better side even if the rate changes more by itself than by a step. This holds in the
        /// mean: once in some ten thousand times noise alone keeps it near the middle for 300 epochs.
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

        /// If the misses are the same everywhere it stays near its start, however they change.
        #[test]
        fn on_a_plateau_it_stays_near_its_start(rate in 0..300u64, spread in 1..200u64, seed: u64) {
            let mut one = ceiling(Direction::Up, 80 * UNIT.get(), 40 * UNIT.get());
            let mut noise = Noise(seed);
            let mut sum = 0;
            for _ in 0..300 {
                epoch(&mut one, rate + noise.below(spread));
                sum += units(&one).abs_diff(20);
            }
            prop_assert!(sum <= 300 * 5, "{sum} units away in 300 epochs");
        }

        /// It never exceeds its limits, for any misses and any changes of memory.
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
