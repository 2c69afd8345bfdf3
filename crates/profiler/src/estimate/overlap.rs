//! How many requests a latency-bound device processes at a time, or how many it starts a second.
//!
//! Under more load than it can serve, a device delivers a fixed number of pages a second. By Little's law,
//! the requests in flight are that number times the latency. There are two possible limits: the device
//! processes only that many at a time, or it starts requests only some time apart (volumes that sell
//! operations a second). A burst distinguishes them, since all of its requests arrive at once. If they start
//! some time apart, each waits longer than the one before by the same time. Free slots are taken at once.

use super::statistics::median;
use foreseek_units::Nanos;

/// The least growth of the waits in a burst that counts, as a share of the time between starts.
const GROWS: f64 = 0.5;

/// What limits the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// This many requests are processed at a time.
    Parallel(f64),
    /// This many start a second.
    Operations(f64),
}

/// By how much longer each request of a burst takes than the one before it: the median of the slopes between
/// all pairs (Theil and Sen). Bursts are in order of submission.
pub(crate) fn growth(bursts: &[Vec<Nanos>]) -> f64 {
    let mut slopes = Vec::new();
    for burst in bursts {
        for (late, two) in burst.iter().enumerate() {
            for (early, one) in burst.iter().enumerate().take(late) {
                slopes.push((two.get() as f64 - one.get() as f64) / (late - early) as f64);
            }
        }
    }
    median(&slopes)
}

/// The limit of a device that delivers `per_second` at most.
pub(crate) fn limit(per_second: f64, latency: Nanos, growth: f64) -> Limit {
    if growth > GROWS * 1e9 / per_second {
        Limit::Operations(per_second)
    } else {
        Limit::Parallel((per_second * latency.as_secs_f64()).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_distinguishes_the_two() {
        let latency = [700, 900, 600, 1500, 650, 800, 720, 2000].map(|us| us * 1_000u64);
        let apart: Vec<Vec<Nanos>> = (0..8)
            .map(|turn| (0..8).map(|at| Nanos(latency[(at + turn) % 8] + 333_333 * at as u64)).collect())
            .collect();
        let at_once: Vec<Vec<Nanos>> =
            (0..8).map(|turn| (0..8).map(|at| Nanos(latency[(at + turn) % 8])).collect()).collect();
        let mean = Nanos(latency.iter().sum::<u64>() / 8);
        assert_eq!(limit(3000.0, mean, growth(&apart)), Limit::Operations(3000.0));
        let Limit::Parallel(requests) = limit(8150.0, mean, growth(&at_once)) else {
            panic!("concurrency is the limit")
        };
        assert!((requests - 8.0).abs() < 0.1, "{requests}");
    }
}
