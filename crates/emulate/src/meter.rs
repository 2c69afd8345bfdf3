//! Counts what a disk does.
//!
//! A request is counted where it is answered: by the timer, which has a meter of its own, or by the threads
//! that receive requests, which share one under a lock. A report adds the two.

use crate::stats::{Distribution, Stats, Step};
use foreseek_export::Failure;
use foreseek_units::{Bytes, Nanos};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest time that the histograms record to three digits; longer ones count as this.
const LONGEST: Nanos = Nanos::from_secs(1000);

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Discard,
}

/// Times of a delayed request besides its latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delayed {
    /// How long after its due time it was answered.
    pub(crate) late: Nanos,
    /// The modelled time.
    pub(crate) modelled: Nanos,
    /// The cost of the path.
    pub(crate) path: Nanos,
}

/// The number of requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
}

impl Gauge {
    /// A request arrived.
    pub(crate) fn arrived(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// A request was answered.
    pub(crate) fn answered(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of requests, and its maximum since the last reset.
    pub(crate) fn read(&self, reset: bool) -> (u64, u64) {
        let now = self.now.load(Ordering::Relaxed);
        let most = self.most.load(Ordering::Relaxed);
        if reset {
            self.most.store(now, Ordering::Relaxed);
        }
        (now, most)
    }
}

/// Counters of answered requests.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    kinds: [u64; 4],
    failed: u64,
    read: Bytes,
    written: Bytes,
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
    /// The sum of latencies: divided by the time counted, it is the mean number of requests in flight.
    total_latency: Nanos,
    /// Sums over delayed requests: the time that the caller saw, and the part of it that was not modelled.
    seen: Nanos,
    excess: Nanos,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let histogram = || {
            // It fails only for bounds out of order or more than five digits.
            Histogram::new_with_bounds(1, LONGEST.get(), 3).expect("the bounds are in order")
        };
        Self {
            kinds: [0; 4],
            failed: 0,
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            latency: histogram(),
            lateness: histogram(),
            total_latency: Nanos::ZERO,
            seen: Nanos::ZERO,
            excess: Nanos::ZERO,
        }
    }

    /// Counts an answered request.
    pub(crate) fn answered(
        &mut self,
        kind: Kind,
        bytes: Bytes,
        result: Result<(), Failure>,
        latency: Nanos,
        delayed: Option<Delayed>,
    ) {
        self.kinds[kind as usize] += 1;
        match (kind, result) {
            (_, Err(_)) => self.failed += 1,
            (Kind::Read, Ok(())) => self.read += bytes,
            (Kind::Write, Ok(())) => self.written += bytes,
            (Kind::Flush | Kind::Discard, Ok(())) => {}
        }
        self.latency.saturating_record(latency.get());
        self.total_latency += latency;
        if let Some(delayed) = delayed {
            self.lateness.saturating_record(delayed.late.get());
            let seen = latency + delayed.path;
            self.seen += seen;
            self.excess += seen - delayed.modelled;
        }
    }

    /// Adds another's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.kinds.iter_mut().zip(other.kinds) {
            *sum += more;
        }
        self.failed += other.failed;
        self.read += other.read;
        self.written += other.written;
        // Both have the same bounds, so no value can be out of them.
        let _ = self.latency.add(&other.latency);
        let _ = self.lateness.add(&other.lateness);
        self.total_latency += other.total_latency;
        self.seen += other.seen;
        self.excess += other.excess;
    }

    /// Writes the counts of a period of `time` into a report.
    pub(crate) fn report(&self, time: Nanos, stats: &mut Stats) {
        let [reads, writes, flushes, discards] = self.kinds;
        stats.seconds = time.as_secs_f64();
        stats.requests = self.kinds.iter().sum();
        (stats.reads, stats.writes, stats.flushes, stats.discards) = (reads, writes, flushes, discards);
        stats.failed = self.failed;
        stats.read_bytes = self.read.get();
        stats.written_bytes = self.written.get();
        stats.latency = distribution(&self.latency);
        stats.latency_histogram = steps(&self.latency);
        stats.lateness = distribution(&self.lateness);
        stats.in_flight_mean = share(self.total_latency, time);
        stats.path_share = share(self.excess, self.seen);
    }
}

/// One time over another; 0 where the other is zero.
pub(crate) fn share(part: Nanos, whole: Nanos) -> f64 {
    if whole.is_zero() { 0.0 } else { part.get() as f64 / whole.get() as f64 }
}

fn distribution(times: &Histogram<u64>) -> Distribution {
    let at = |quantile| Nanos(times.value_at_quantile(quantile)).as_micros_f64();
    if times.is_empty() {
        return Distribution::default();
    }
    Distribution {
        count: times.len(),
        mean_us: times.mean() / 1e3,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: Nanos(times.max()).as_micros_f64(),
    }
}

/// Steps of doubling length, from 1 us on.
fn steps(times: &Histogram<u64>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut below = 0;
    let mut up_to = 1_000;
    while below < times.max() && !times.is_empty() {
        let count = times.count_between(below + u64::from(below > 0), up_to);
        if count > 0 {
            steps.push(Step { up_to_us: Nanos(up_to).as_micros_f64(), count });
        }
        below = up_to;
        up_to *= 2;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_what_was_counted_in_both_meters() {
        let (mut a, mut b) = (Meter::new(), Meter::new());
        let ms = Nanos::from_millis;
        let delayed = |late, modelled| Some(Delayed { late, modelled, path: Nanos::ZERO });
        a.answered(Kind::Read, Bytes(4096), Ok(()), ms(10), delayed(ms(1), ms(9)));
        b.answered(Kind::Write, Bytes(512), Ok(()), ms(2), None);
        b.answered(Kind::Write, Bytes(512), Err(Failure::Io), ms(2), None);
        b.answered(Kind::Flush, Bytes::ZERO, Ok(()), ms(1), None);
        b.answered(Kind::Discard, Bytes::ZERO, Ok(()), ms(1), None);
        a.add(&b);
        let mut stats = Stats::default();
        a.report(ms(32), &mut stats);
        assert_eq!((stats.requests, stats.reads, stats.writes, stats.flushes), (5, 1, 2, 1));
        assert_eq!((stats.failed, stats.read_bytes, stats.written_bytes), (1, 4096, 512));
        assert!((stats.in_flight_mean - 0.5).abs() < 1e-9);
        assert!((stats.path_share - 0.1).abs() < 1e-9);
        assert!((stats.latency.max_us - 10_000.0).abs() < 10.0);
        assert_eq!(stats.lateness.count, 1);
        assert_eq!(stats.latency_histogram.iter().map(|step| step.count).sum::<u64>(), 5);
    }

    #[test]
    fn nothing_counted_is_nothing_reported() {
        let mut stats = Stats::default();
        Meter::new().report(Nanos::ZERO, &mut stats);
        assert_eq!(stats, Stats::default());
    }
}
