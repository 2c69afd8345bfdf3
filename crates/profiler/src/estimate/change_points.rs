//! Finds the steps of a staircase: the zones of a disk in rates measured along it.
//!
//! Optimal partitioning: of all ways to cut the samples into runs, it takes the one with the least squared
//! error around the runs' means plus a penalty for each run. Dynamic programming over the last cut finds it
//! exactly, in time quadratic in the number of samples (32 here). The penalty is that of the Bayesian
//! information criterion for Gaussian noise: two parameters a run (its start, its mean) cost `2 x variance x
//! ln n`. The caller measures the noise: on a disk whose rate changes at every location, the samples
//! themselves cannot separate noise from steps.

use std::ops::Range;

/// The runs, in order; together they cover all samples.
pub(crate) fn runs(samples: &[f64], sigma: f64) -> Vec<Range<usize>> {
    let n = samples.len();
    let penalty = 2.0 * sigma * sigma * (n as f64).ln();
    let mut sums = vec![(0.0, 0.0)];
    for (at, sample) in samples.iter().enumerate() {
        let (sum, squares) = sums[at];
        sums.push((sum + sample, squares + sample * sample));
    }
    let error = |from: usize, until: usize| {
        let (sum, squares) = (sums[until].0 - sums[from].0, sums[until].1 - sums[from].1);
        (squares - sum * sum / (until - from) as f64).max(0.0)
    };
    // The least cost of the samples before each index, and the start of their last run.
    let mut best = vec![(0.0, 0)];
    for until in 1..=n {
        let costs = (0..until).map(|from| (best[from].0 + error(from, until) + penalty, from));
        let least = costs.min_by(|one, other| one.0.total_cmp(&other.0));
        best.push(least.unwrap_or((0.0, 0)));
    }
    let mut runs = Vec::new();
    let mut until = n;
    while until > 0 {
        let from = best[until].1;
        runs.push(from..until);
        until = from;
    }
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let samples = [10.0, 10.1, 9.9, 10.0, 8.0, 8.1, 7.9, 6.0, 6.1];
        assert_eq!(runs(&samples, 0.1), [0..4, 4..7, 7..9]);
        assert_eq!(runs(&samples, 10.0).len(), 1);
        assert!(runs(&[], 1.0).is_empty());
    }

    fn cost(samples: &[f64], cuts: &[Range<usize>], sigma: f64) -> f64 {
        let penalty = 2.0 * sigma * sigma * (samples.len() as f64).ln();
        let error = |run: &Range<usize>| {
            let run = &samples[run.clone()];
            let mean = run.iter().sum::<f64>() / run.len() as f64;
            run.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() + penalty
        };
        cuts.iter().map(error).sum()
    }

    proptest! {
        /// No other partition of a few samples costs less: all are tried.
        #[test]
        fn it_is_the_best_partition(samples in prop::collection::vec(-5.0..5.0f64, 1..9), sigma in 0.1..3.0f64) {
            let n = samples.len();
            let found = cost(&samples, &runs(&samples, sigma), sigma);
            for cuts in 0..1u32 << (n - 1) {
                let mut starts: Vec<usize> = vec![0];
                starts.extend((1..n).filter(|at| cuts >> (at - 1) & 1 == 1));
                let ends = starts.iter().skip(1).copied().chain([n]);
                let other: Vec<_> = starts.iter().zip(ends).map(|(from, until)| *from..until).collect();
                prop_assert!(found <= cost(&samples, &other, sigma) + 1e-9);
            }
        }

        /// A staircase whose steps are ten times the noise is found exactly.
        #[test]
        fn clear_steps_are_found(lengths in prop::collection::vec(3..8usize, 2..5), noise in prop::collection::vec(-1.0..1.0f64, 32)) {
            let mut samples = Vec::new();
            for (step, length) in lengths.iter().enumerate() {
                samples.extend((0..*length).map(|_| 100.0 - 10.0 * step as f64));
            }
            for (sample, noise) in samples.iter_mut().zip(&noise) {
                *sample += noise;
            }
            let found: Vec<usize> = runs(&samples, 1.0).iter().map(Range::len).collect();
            prop_assert_eq!(found, lengths);
        }
    }
}
