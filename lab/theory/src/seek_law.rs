//! The distance to the nearest of n random requests.
//!
//! A scheduler that goes one way (C-SCAN, C-LOOK) and chooses among `n` fresh requests, uniform over a stretch
//! of `C`, moves by `x` or more if none of them lies in the `x` ahead: `P[distance >= x] = (1 - x / C)^n`
//! (EuroSys'07 equation 5), with the mean `C / (n + 1)`. This holds for *fresh* requests. In a closed loop the
//! requests that were passed over are the far ones, and C-SCAN serves the n of a round in one sweep: there the
//! mean is about `C / 2n`.
//!
//! The Kolmogorov-Smirnov test judges whether distances follow the law. The caller draws the random numbers and
//! passes the distances.

/// `P[distance >= x]` for `n` fresh uniform requests; `x` as a share of the stretch, 0 to 1.
#[must_use]
pub fn at_least(n: u32, x: f64) -> f64 {
    (1.0 - x.clamp(0.0, 1.0)).powi(i32::try_from(n).unwrap_or(i32::MAX))
}

/// The mean distance, as a share of the stretch.
#[must_use]
pub fn mean(n: u32) -> f64 {
    1.0 / (f64::from(n) + 1.0)
}

/// How well distances fit a law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The largest difference between the measured and the expected distribution (Kolmogorov-Smirnov).
    pub difference: f64,
    /// The probability of a difference as large if the law holds.
    pub probability: f64,
}

impl Fit {
    /// Whether the law is not rejected at this level of significance (0.01: one true law in a hundred is
    /// rejected).
    #[must_use]
    pub fn holds(&self, significance: f64) -> bool {
        self.probability >= significance
    }
}

/// Tests whether distances (shares of the stretch, independent of one another) are those to the nearest of `n`
/// fresh uniform requests. Use at least 35: below that the approximation of the probability is poor. Without
/// any distance the law is not rejected.
#[must_use]
pub fn fit(distances: &[f64], n: u32) -> Fit {
    let mut sorted = distances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let difference = sorted.iter().zip(0u32..).fold(0.0f64, |largest, (distance, below)| {
        let expected = 1.0 - at_least(n, *distance);
        let (low, high) = (f64::from(below) / count, f64::from(below + 1) / count);
        largest.max(expected - low).max(high - expected)
    });
    Fit { difference, probability: kolmogorov(difference, count) }
}

/// The tail of Kolmogorov's distribution, with Stephens' correction for finite samples (Journal of
/// the Royal Statistical Society B 32(1), 1970).
fn kolmogorov(difference: f64, count: f64) -> f64 {
    let root = count.sqrt();
    let x = (root + 0.12 + 0.11 / root.max(f64::MIN_POSITIVE)) * difference;
    // Below this the series does not converge within a hundred terms, and the tail is 1.
    if x < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
        2.0 * sign * (-2.0 * f64::from(k * k) * x * x).exp()
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}
