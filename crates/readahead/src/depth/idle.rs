//! The share of its time that a device is idle, computed from the requests that it has served.
//!
//! Each request is assumed to last as long as the device's costs predict (positioning and transfer). The rest
//! of the time since the request before it counts as idle. Both are averaged with weights that halve within
//! some [`WEIGHT`] requests.
//!
//! Limits: a scheduler that delays requests on purpose makes the device look idle. A device with several
//! heads looks as if it were never idle.

use foreseek_units::{Instant, Nanos};

/// The weight of the newest request, as a divisor: some tenths of a second of a busy disk.
const WEIGHT: f64 = 64.0;
/// A longer pause counts as this long: it shows that the device had no requests, not that it will be idle for
/// as long again.
const PAUSE: Nanos = Nanos::from_millis(100);

/// The estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    last: Option<Instant>,
    /// The mean time from one request's end to the next one's, and the mean work in it: nanoseconds.
    between: f64,
    work: f64,
}

impl Idle {
    /// A request was served that took `work`.
    pub fn served(&mut self, now: Instant, work: Nanos) {
        let Some(last) = self.last.replace(now) else { return };
        let average = |mean: &mut f64, value: Nanos| *mean += (value.get() as f64 - *mean) / WEIGHT;
        average(&mut self.between, (now - last).min(PAUSE));
        average(&mut self.work, work);
    }

    /// The idle share of its time; zero until a request was served.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.between > 0.0 { (1.0 - self.work / self.between).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The idle share after requests of 20 ms each, one every `every` milliseconds.
    fn after(every: u64, count: u64) -> f64 {
        let mut idle = Idle::default();
        for n in 0..count {
            idle.served(Instant::ZERO + Nanos::from_millis(every * n), Nanos::from_millis(20));
        }
        idle.share()
    }

    #[test]
    fn time_without_work_is_idle() {
        assert_eq!(after(20, 0), 0.0);
        assert!(after(20, 500) < 1e-6, "{}", after(20, 500));
        assert!((after(40, 500) - 0.5).abs() < 0.01, "{}", after(40, 500));
        // A queue is served faster than the costs predict.
        assert_eq!(after(10, 500), 0.0);
    }

    #[test]
    fn a_long_pause_is_no_more_than_a_pause() {
        assert!((after(3_600_000, 500) - 0.8).abs() < 0.01);
    }
}
