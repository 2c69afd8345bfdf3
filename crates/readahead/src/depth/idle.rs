//! How much of its time a device does nothing: reckoned from the requests that it has served.
//!
//! Each request is taken to have lasted as long as the device's costs say (going there and its transfer);
//! what is missing of the time from the one before to it, the device was idle. Both are
//! averaged with weights that halve within some [`WEIGHT`] requests.
//!
//! Limits: a scheduler that keeps the device waiting on purpose makes it look idle; several heads look
//! like one that is never idle.

use foreseek_units::{Instant, Nanos};

/// The weight of the newest request, as a divisor: some tenths of a second of a busy disk.
const WEIGHT: f64 = 64.0;
/// A longer pause counts as this long: it shows that there was nothing to do, not that there will be
/// nothing to do for as long again.
const PAUSE: Nanos = Nanos::from_millis(100);

/// The estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    last: Option<Instant>,
    /// From one request's end to the next one's, and how much of that was work: nanoseconds.
    between: f64,
    work: f64,
}

impl Idle {
    /// A request was served, which was so much work.
    pub fn served(&mut self, now: Instant, work: Nanos) {
        let Some(last) = self.last.replace(now) else { return };
        let average = |mean: &mut f64, value: Nanos| *mean += (value.get() as f64 - *mean) / WEIGHT;
        average(&mut self.between, (now - last).min(PAUSE));
        average(&mut self.work, work);
    }

    /// The share of its time in which the device does nothing; none is known to be before anything was
    /// served.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.between > 0.0 { (1.0 - self.work / self.between).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that take 20 ms each, one every so many milliseconds.
    fn after(every: u64, count: u64) -> f64 {
        let mut idle = Idle::default();
        for n in 0..count {
            idle.served(Instant::ZERO + Nanos::from_millis(every * n), Nanos::from_millis(20));
        }
        idle.share()
    }

    #[test]
    fn what_is_not_work_is_idle() {
        assert_eq!(after(20, 0), 0.0);
        assert!(after(20, 500) < 1e-6, "{}", after(20, 500));
        assert!((after(40, 500) - 0.5).abs() < 0.01, "{}", after(40, 500));
        // A queue serves faster than the costs say.
        assert_eq!(after(10, 500), 0.0);
    }

    #[test]
    fn a_long_pause_is_no_more_than_a_pause() {
        assert!((after(3_600_000, 500) - 0.8).abs() < 0.01);
    }
}
