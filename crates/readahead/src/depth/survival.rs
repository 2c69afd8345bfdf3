//! The probability that a stream goes on: `P(S > x)` on a logarithmic grid.
//!
//! The [grid](super::grid) has four points an octave. Between two points the ends of streams are spread
//! evenly. [`crate::learn`] estimates the numbers; [`Survival::of`] computes them from known lengths.

use super::grid::{CELLS, POINTS, cell, point, point_below};
use foreseek_units::Pages;

/// `P(S > x)` at each point of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Survival {
    left: Vec<f64>,
}

impl Survival {
    /// From the hazard of each cell: the probability that a stream that has reached it ends in it.
    pub(crate) fn of_hazards(hazard: impl Fn(usize) -> f64) -> Self {
        let mut left = vec![1.0; POINTS];
        for cell in 0..CELLS {
            left[cell + 1] = left[cell] * (1.0 - hazard(cell)).clamp(f64::MIN_POSITIVE, 1.0);
        }
        Self { left }
    }

    /// From streams of known lengths. Beyond the longest no stream goes on.
    #[must_use]
    pub fn of(lengths: impl IntoIterator<Item = Pages>) -> Self {
        let mut ended = [0.0; CELLS];
        let mut all = 0.0;
        for length in lengths {
            all += 1.0;
            if let Some(cell) = cell(length) {
                ended[cell] += 1.0;
            }
        }
        let mut before = 0.0;
        let hazards = ended.map(|ended: f64| {
            let exposed: f64 = all - before;
            before += ended;
            if exposed > 0.0 { ended / exposed } else { 1.0 }
        });
        Self::of_hazards(|cell| hazards[cell])
    }

    /// The probability that a stream is longer.
    #[must_use]
    pub fn beyond(&self, pages: Pages) -> f64 {
        let below = point_below(pages.get());
        if below >= CELLS {
            return self.left[CELLS];
        }
        let (low, high) = (point(below) as f64, point(below + 1) as f64);
        let share = (pages.get() as f64 - low) / (high - low);
        self.left[below] + (self.left[below + 1] - self.left[below]) * share
    }

    /// The length that this share of streams does not exceed, to a point of the grid.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Pages {
        Pages(point(self.left.partition_point(|left| *left > 1.0 - share).min(CELLS)))
    }

    /// The mean length of streams in a file of `end` pages.
    #[must_use]
    pub fn mean(&self, end: Pages) -> f64 {
        let mut points = (0..POINTS).map(point).take_while(|point| *point < end.get()).chain([end.get()]);
        let Some(mut from) = points.next() else { return 0.0 };
        let mut mean = 0.0;
        for to in points {
            // Between two points the ends of streams are spread evenly.
            mean += (to - from) as f64 * (self.beyond(Pages(from)) + self.beyond(Pages(to))) / 2.0;
            from = to;
        }
        mean
    }

    /// The least length of a stream that has passed the first point of the grid which at most this share of
    /// streams passes.
    #[must_use]
    pub fn past(&self, share: f64) -> Pages {
        let at = self.left.partition_point(|left| *left > share);
        if at < POINTS { Pages(point(at) + 1) } else { Pages(u64::MAX) }
    }

    /// `P(S > x)` at each of these points: non-increasing, never zero.
    pub(super) fn at(&self, points: &[u64]) -> Vec<f64> {
        points.iter().map(|point| self.beyond(Pages(*point)).max(f64::MIN_POSITIVE)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::points;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_known_lengths_it_is_the_share_of_those_that_are_longer(
            lengths in prop::collection::vec(1..2000u64, 1..400), at in 0..POINTS,
        ) {
            let survival = Survival::of(lengths.iter().copied().map(Pages));
            let longer = lengths.iter().filter(|length| **length > point(at)).count();
            let share = longer as f64 / lengths.len() as f64;
            prop_assert!((survival.beyond(Pages(point(at))) - share).abs() < 1e-9);
        }

        #[test]
        fn the_mean_is_that_of_the_lengths(lengths in prop::collection::vec(1..3000u64, 1..400), end in 1..4000u64) {
            let survival = Survival::of(lengths.iter().map(|length| Pages(*length)));
            let truth = lengths.iter().map(|length| *length.min(&end)).sum::<u64>() as f64 / lengths.len() as f64;
            // A length may lie anywhere in its cell, which is a quarter of an octave.
            let mean = survival.mean(Pages(end));
            prop_assert!((mean - truth).abs() <= truth * 0.25 + 1.0, "{mean}, {truth}");
        }

        #[test]
        fn it_begins_at_one_and_never_rises(lengths in prop::collection::vec(0..2000u64, 0..400), end in 1..3000u64) {
            let left = Survival::of(lengths.into_iter().map(Pages)).at(&points(Pages(end)));
            prop_assert!((left[0] - 1.0).abs() < 1e-9);
            prop_assert!(left.windows(2).all(|pair| pair[0] >= pair[1] - 1e-12) && left.iter().all(|left| *left > 0.0));
        }
    }
}
