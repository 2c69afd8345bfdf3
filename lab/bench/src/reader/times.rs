//! Durations: their number, their mean, and an even sample of them for quantiles.

use std::time::Duration;

/// The most times that are kept; beyond that only every second one is, then every fourth. 16 MiB, which fits
/// into the smallest group of readers; hot reads reach that number in some ten seconds.
const KEPT_LIMIT: usize = 1 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Times {
    count: u64,
    sum: Duration,
    kept: Vec<Duration>,
    /// One in this many is kept.
    every: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { count: 0, sum: Duration::ZERO, kept: Vec::new(), every: 1 }
    }
}

impl Times {
    pub(super) fn push(&mut self, time: Duration) {
        if self.kept.len() == KEPT_LIMIT && self.count.is_multiple_of(self.every) {
            self.every *= 2;
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        if self.count.is_multiple_of(self.every) {
            self.kept.push(time);
        }
        self.count += 1;
        self.sum += time;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Zero where there are none.
    pub(super) fn mean(&self) -> Duration {
        self.sum.div_f64(self.count.max(1) as f64)
    }

    /// The quantile of this share; `None` where there are no times.
    pub(super) fn within(&mut self, share: f64) -> Option<Duration> {
        self.kept.sort_unstable();
        let at = (self.kept.len() as f64 * share) as usize;
        self.kept.get(at.min(self.kept.len().saturating_sub(1))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_times_takes_so_much_memory_and_no_more() {
        let mut times = Times::default();
        let number = 5 * KEPT_LIMIT as u64;
        (0..number).for_each(|time| times.push(Duration::from_nanos(time)));
        assert!(times.kept.len() <= KEPT_LIMIT && times.kept.len() > KEPT_LIMIT / 2);
        assert_eq!((times.count(), times.every), (number, 8));
        let evenly = |at: &[Duration]| at.windows(2).all(|two| two[1] - two[0] == Duration::from_nanos(8));
        assert!(evenly(&times.kept));
        for share in [0.5, 0.95] {
            let time = times.within(share).expect("some").as_nanos() as f64;
            assert!((time - share * number as f64).abs() <= 8.0, "{time}");
        }
        assert!(times.mean().as_nanos().abs_diff(u128::from(number / 2)) <= 1);
        assert_eq!((Times::default().within(0.5), Times::default().mean()), (None, Duration::ZERO));
    }
}
