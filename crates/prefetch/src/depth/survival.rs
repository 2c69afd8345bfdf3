//! How long streams are: the lengths of those that ended, and so how probable it is that one goes on.
//!
//! Lengths are counted on a logarithmic [grid](points) of four points an octave. An old stream counts
//! less than a new one, so that a change of behaviour is followed. A little of a prior is mixed in: it
//! is all there is at a cold start, and beyond the longest stream that was seen it says that a stream
//! that has come so far is as likely as not to come twice as far.

use foreseek_units::{Bytes, Pages};

/// The first step of the grid: 16 KiB, the least that kernels read ahead.
const FIRST: u64 = 4;
/// The longest length that is told apart: 1 GiB. Whatever the depth, a switch is next to nothing there.
pub const LENGTH_LIMIT: Pages = Bytes::gib(1).pages_floor();
/// Points of the grid: none, and four an octave from [`FIRST`] to [`LENGTH_LIMIT`].
const POINTS: usize = 2 + 4 * (LENGTH_LIMIT.0.ilog2() - FIRST.ilog2()) as usize;

/// After how many streams an old one counts a third (1/e) of a new one. Some hundred lengths tell a
/// distribution well enough, and a change is followed within as many streams.
const MEMORY: f64 = 256.0;

/// How many streams the prior stands for: a few observations outweigh it.
const PRIOR_WEIGHT: f64 = 2.0;
/// The prior: half of all streams are longer than this; `P(S > x) = 1 / (1 + x / PRIOR_LENGTH)`. So
/// short that a cold start fetches no more than slow start's 16 pages first, on disks of 400 to 600 KB.
const PRIOR_LENGTH: f64 = 1.0;

/// The grid's points up to `end`, which is the last of them.
pub(super) fn points(end: Pages) -> Vec<u64> {
    let end = end.min(LENGTH_LIMIT).get();
    let mut all: Vec<u64> = (0..POINTS).map(point).take_while(|point| *point < end).collect();
    all.push(end);
    all
}

/// The largest point that is not beyond so many pages.
pub(super) fn point_below(pages: u64) -> usize {
    if pages < FIRST {
        return 0;
    }
    let octave = pages.min(LENGTH_LIMIT.get()).ilog2();
    let quarter = (pages.min(LENGTH_LIMIT.get()) >> (octave - 2)) & 3;
    1 + 4 * (octave - FIRST.ilog2()) as usize + quarter as usize
}

fn point(at: usize) -> u64 {
    match at.checked_sub(1) {
        None => 0,
        Some(step) => (4 + step as u64 % 4) << (step / 4),
    }
}

/// The lengths of the streams that ended.
#[derive(Clone, Debug)]
pub struct Survival {
    /// Weight of the streams that ended beyond each point and not beyond the next.
    ended: Vec<f64>,
    seen: u64,
}

impl Default for Survival {
    fn default() -> Self {
        Self { ended: vec![0.0; POINTS], seen: 0 }
    }
}

impl Survival {
    /// A stream of so many pages has ended; of none there is nothing to learn.
    pub fn ended(&mut self, length: Pages) {
        let Some(last) = length.get().checked_sub(1) else { return };
        for weight in &mut self.ended {
            *weight *= 1.0 - 1.0 / MEMORY;
        }
        self.ended[point_below(last)] += 1.0;
        self.seen += 1;
    }

    /// How many streams have ended.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How much of a stream's probability is left at each of these points: `P(S > x)`, not rising,
    /// never zero.
    pub(super) fn at(&self, points: &[u64]) -> Vec<f64> {
        let total: f64 = self.ended.iter().sum::<f64>() + PRIOR_WEIGHT;
        let mut tail = vec![0.0; POINTS + 1];
        for at in (0..POINTS).rev() {
            tail[at] = tail[at + 1] + self.ended[at];
        }
        let left = |point: &u64| {
            let below = point_below(*point);
            // An end of file lies between two points: streams end evenly between them.
            let (low, high) = (self::point(below) as f64, self::point(below + 1) as f64);
            let beyond = (*point as f64 - low) / (high - low).max(1.0);
            let seen = tail[below] + (tail[(below + 1).min(POINTS)] - tail[below]) * beyond.clamp(0.0, 1.0);
            (seen + PRIOR_WEIGHT / (1.0 + *point as f64 / PRIOR_LENGTH)) / total
        };
        points.iter().map(left).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_grid_has_four_points_an_octave() {
        let first: Vec<u64> = points(Pages(40));
        assert_eq!(first, [0, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]);
        assert_eq!(points(Pages(u64::MAX)).last(), Some(&LENGTH_LIMIT.get()));
        assert_eq!(points(Pages(3)), [0, 3]);
    }

    proptest! {
        #[test]
        fn the_point_below_is_the_one_that_a_search_finds(pages in 0..LENGTH_LIMIT.0 + 100) {
            let all = points(LENGTH_LIMIT);
            let searched = all.partition_point(|point| *point <= pages) - 1;
            prop_assert_eq!(point_below(pages), searched);
        }

        #[test]
        fn what_is_left_begins_with_all_and_never_rises(lengths in prop::collection::vec(0..2000u64, 0..400), end in 1..3000u64) {
            let mut survival = Survival::default();
            lengths.iter().for_each(|length| survival.ended(Pages(*length)));
            let left = survival.at(&points(Pages(end)));
            prop_assert!((left[0] - 1.0).abs() < 1e-9);
            prop_assert!(left.windows(2).all(|pair| pair[0] >= pair[1] - 1e-12) && left.iter().all(|left| *left > 0.0));
        }
    }

    #[test]
    fn it_forgets_a_behaviour_within_some_hundred_streams() {
        let mut survival = Survival::default();
        (0..2000).for_each(|_| survival.ended(Pages(1024)));
        let half = |survival: &Survival| survival.at(&[0, 512])[1];
        assert!(half(&survival) > 0.98);
        (0..200).for_each(|_| survival.ended(Pages(16)));
        assert!(half(&survival) < 0.5, "{}", half(&survival));
    }
}
