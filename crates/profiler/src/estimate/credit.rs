//! Credit that runs out: a volume that is fast at first and slower later.
//!
//! The rates of equal slices of a long run are divided into runs of one rate. If the last is clearly slower
//! than the first, the amount beyond the last's rate until then was credit.

use super::change_points;
use super::statistics::{MAD_TO_SIGMA, median};
use foreseek_units::Nanos;
use std::ops::Range;

/// The ratio of the last rate to the first below which it counts: volumes that sell credit fall to a half or
/// a tenth; shared networks drift by some per cent.
const FALLS: f64 = 0.8;
/// The fewest slices.
const SLICES_LEAST: usize = 8;

/// A slice of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slice {
    /// Its duration.
    pub(crate) time: Nanos,
    /// The amount that arrived: bytes, or reads.
    pub(crate) amount: f64,
}

/// Credit that ran out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit {
    /// The amount a second, while it lasted.
    pub burst_per_second: f64,
    /// The amount a second, afterwards.
    pub base_per_second: f64,
    /// The amount beyond the base until it ran out.
    pub amount: f64,
    /// How long it lasted.
    pub lasted: Nanos,
}

/// The credit that slices in order of time show; `None` where the rate stayed the same.
pub(crate) fn of(slices: &[Slice]) -> Option<Credit> {
    if slices.len() < SLICES_LEAST {
        return None;
    }
    let rates: Vec<f64> =
        slices.iter().map(|slice| slice.amount / slice.time.as_secs_f64().max(1e-9)).collect();
    let logs: Vec<f64> = rates.iter().map(|rate| rate.max(1e-9).ln()).collect();
    let steps: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // A difference of two has twice the variance of one.
    let sigma = (median(&steps) * MAD_TO_SIGMA / 2f64.sqrt()).max(0.01);
    let runs = change_points::runs(&logs, sigma);
    let mean = |run: &Range<usize>| median(&rates[run.clone()]);
    let (burst, end) = (mean(runs.first()?), mean(runs.last()?));
    // The base is all that follows without being clearly faster than the end: noise may divide it.
    let base_runs = runs.iter().rev().take_while(|run| mean(run) * FALLS < end);
    let start = base_runs.last().map_or(rates.len(), |run| run.start);
    let base = median(&rates[start..]);
    if start == 0 || base > FALLS * burst {
        return None;
    }
    let lasted: Nanos = slices[..start].iter().map(|slice| slice.time).sum();
    let came: f64 = slices[..start].iter().map(|slice| slice.amount).sum();
    let amount = came - base * lasted.as_secs_f64();
    Some(Credit { burst_per_second: burst, base_per_second: base, amount, lasted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slices(rates: impl IntoIterator<Item = f64>) -> Vec<Slice> {
        let slice = |rate: f64| Slice { time: Nanos::from_secs_f64(100.0 / rate), amount: 100.0 };
        rates.into_iter().map(slice).collect()
    }

    proptest! {
        /// A bucket that empties after some slices.
        #[test]
        fn it_is_found_with_its_amount(before in 4..20usize, after in 4..20usize, noise in prop::collection::vec(-0.03..0.03f64, 40)) {
            let rate = |at: usize| (if at < before { 3000.0 } else { 1000.0 }) * (1.0 + noise[at]);
            let credit = of(&slices((0..before + after).map(rate))).expect("it falls to a third");
            prop_assert!((credit.burst_per_second / 3000.0 - 1.0).abs() < 0.04, "{:?}", credit);
            prop_assert!((credit.base_per_second / 1000.0 - 1.0).abs() < 0.04, "{:?}", credit);
            let expected = before as f64 * 100.0 * (1.0 - 1.0 / 3.0);
            prop_assert!((credit.amount / expected - 1.0).abs() < 0.06, "{:?}, {} expected", credit, expected);
        }

        #[test]
        fn noise_is_no_credit(noise in prop::collection::vec(-0.05..0.05f64, 8..40)) {
            prop_assert_eq!(of(&slices(noise.iter().map(|noise| 3000.0 * (1.0 + noise)))), None);
        }
    }
}
