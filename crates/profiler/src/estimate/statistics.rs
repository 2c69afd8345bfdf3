//! Robust statistics: occasional delays of the host must not change a result.

use foreseek_units::Nanos;

/// The factor from the median absolute deviation to the standard deviation of a normal distribution.
pub(crate) const MAD_TO_SIGMA: f64 = 1.482_602_218_505_602;

/// The value below which a share of the samples lies, interpolated linearly; zero without samples.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// The middle sample, or the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The narrowest range that holds a share of the samples: its median and its width (the "shorth" for a half).
/// Unlike the median it stays the same while most samples are off, as long as they are off by different
/// amounts, as completions of a loaded host are.
pub(crate) fn densest(samples: &[f64], share: f64) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = ((sorted.len() as f64 * share).ceil() as usize).clamp(2, sorted.len().max(2));
    let narrowest = sorted.windows(count).min_by(|one, other| {
        let width = |run: &[f64]| run[count - 1] - run[0];
        width(one).total_cmp(&width(other))
    });
    narrowest.map_or((median(samples), 0.0), |run| (median(run), run[count - 1] - run[0]))
}

/// Times as numbers of nanoseconds.
pub(crate) fn numbers(times: &[Nanos]) -> Vec<f64> {
    times.iter().map(|time| time.get() as f64).collect()
}

/// The median of times.
pub(crate) fn median_time(times: &[Nanos]) -> Nanos {
    nanos(median(&numbers(times)))
}

/// A number of nanoseconds as a time; a negative one is zero.
pub(crate) fn nanos(number: f64) -> Nanos {
    Nanos(number.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), 2.0);
        assert_eq!(densest(&[8.0, 3.0, 8.1, 12.0, 8.2, 1.0, 15.0], 0.4), (8.1, 8.2 - 8.0));
        assert_eq!(densest(&[5.0], 0.5), (5.0, 0.0));
    }

    proptest! {
        /// Whatever the values of a few outliers, the median stays among the other samples.
        #[test]
        fn outliers_do_not_move_it(mut good in prop::collection::vec(10.0..20.0f64, 9), bad in prop::collection::vec(-1e9..1e9f64, 0..4)) {
            good.extend(bad);
            prop_assert!((10.0..=20.0).contains(&median(&good)));
        }
    }
}
