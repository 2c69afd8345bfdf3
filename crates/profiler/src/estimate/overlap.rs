//! How many requests a latency-bound device works on at a time, or how often it starts one.
//!
//! Asked for more than it gives, it gives a number of pages a second. By Little's law so many
//! requests are under way as that number times the latency. There are two reasons why there are not
//! more: only so many are worked on at a time, or they start only so far apart (volumes that sell
//! operations a second). A burst tells them apart: all of its requests come at once, and where they
//! start apart each waits longer than the one before by the same time, while places that are free
//! are taken at once.

use super::statistics::median;
use foreseek_units::Nanos;

/// Which part of the time between starts the waits in a burst must grow by to be told from none.
const GROWS: f64 = 0.5;

/// Why no more comes out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many requests are worked on at a time.
    Parallel(f64),
    /// So many start a second.
    Operations(f64),
}

/// By how much longer each request of a burst takes than the one before it: the slope between all
/// pairs, of which the median counts (Theil and Sen). Bursts in order of submission.
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

/// What limits a device that gives `per_second` at most.
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
    fn a_burst_tells_the_two_apart() {
        let latency = [700, 900, 600, 1500, 650, 800, 720, 2000].map(|us| us * 1_000u64);
        let apart: Vec<Vec<Nanos>> = (0..8)
            .map(|turn| (0..8).map(|at| Nanos(latency[(at + turn) % 8] + 333_333 * at as u64)).collect())
            .collect();
        let at_once: Vec<Vec<Nanos>> =
            (0..8).map(|turn| (0..8).map(|at| Nanos(latency[(at + turn) % 8])).collect()).collect();
        let mean = Nanos(latency.iter().sum::<u64>() / 8);
        assert_eq!(limit(3000.0, mean, growth(&apart)), Limit::Operations(3000.0));
        let Limit::Parallel(places) = limit(8150.0, mean, growth(&at_once)) else {
            panic!("places are the limit")
        };
        assert!((places - 8.0).abs() < 0.1, "{places}");
    }
}
