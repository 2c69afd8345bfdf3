//! Random numbers from distributions that `rand_distr` does not have.

use rand::RngExt;
use rand_core::Rng;

/// A pseudo-random number from another: the finalizer of SplitMix64 (Steele et al. 2014). For the contents of a
/// data set at a place, so that no table is needed.
pub(super) fn hash(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same as a share from 0 to less than 1.
pub(super) fn hashed_share(number: u64) -> f64 {
    (hash(number) >> 11) as f64 / (1u64 << 53) as f64
}

/// An exponential distribution cut to a range: of all distributions with this range and mean it has the largest
/// entropy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CutExponential {
    least: f64,
    width: f64,
    scale: f64,
}

impl CutExponential {
    /// From `least` to `most` with this mean, which must lie nearer to `least`.
    pub(super) fn of_mean(least: f64, most: f64, mean: f64) -> Self {
        let width = most - least;
        let mean_of = |scale: f64| least + scale - width / ((width / scale).exp() - 1.0);
        // The mean grows with the scale: bisect the interval to the precision of a double.
        let (mut low, mut high) = (width * 1e-3, width * 1e3);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if mean_of(middle) < mean { low = middle } else { high = middle }
        }
        Self { least, width, scale: low }
    }

    /// Draws a value.
    pub(super) fn draw(&self, random: &mut dyn Rng) -> f64 {
        let share: f64 = random.random();
        let below = 1.0 - (-self.width / self.scale).exp();
        self.least - self.scale * (1.0 - share * below).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn a_cut_exponential_has_its_mean_and_its_shape() {
        let lengths = CutExponential::of_mean(24.0, 256.0, 84.0);
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut drawn: Vec<f64> = (0..20_000).map(|_| lengths.draw(&mut random)).collect();
        assert!(drawn.iter().all(|length| (24.0..=256.0).contains(length)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 84.0).abs() < 1.0, "{mean}");
        // Kolmogorov-Smirnov against the distribution function, at 1 %: 1.63 / sqrt(n).
        drawn.sort_by(f64::total_cmp);
        let full = 1.0 - (-lengths.width / lengths.scale).exp();
        let furthest = drawn.iter().enumerate().fold(0.0f64, |furthest, (n, length)| {
            let expected = (1.0 - (-(length - 24.0) / lengths.scale).exp()) / full;
            furthest.max((expected - n as f64 / drawn.len() as f64).abs())
        });
        assert!(furthest < 1.63 / (drawn.len() as f64).sqrt(), "{furthest}");
    }

    #[test]
    fn hashed_shares_are_even() {
        let mut deciles = [0u32; 10];
        (0..10_000).for_each(|n| deciles[(hashed_share(n) * 10.0) as usize] += 1);
        let chi: f64 = deciles.iter().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 21.7, "{deciles:?}");
    }
}
