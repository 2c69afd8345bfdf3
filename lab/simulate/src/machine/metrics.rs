//! A machine's counters, and the report of a run.

use crate::block;
use foreseek_device::Counters as DeviceCounters;
use foreseek_readahead::serving::Stats;
use foreseek_readahead::stream::Found;
use foreseek_units::{Bytes, Instant, Nanos, Pages, SectorSpan};
use hdrhistogram::Histogram;

/// Processor use is kept for each second of virtual time: TR-840's figure 13 shows 200 s of it, and
/// the longest run has some thousands.
pub const USE_PERIOD: Nanos = Nanos::from_secs(1);

/// Fetches of more pages than this (8 MiB) count as this long; only an oracle makes longer ones.
pub const FETCH_SIZES_LIMIT: usize = 2048;

/// Significant digits of response times.
const DIGITS: u8 = 3;

/// Response times are kept in microseconds up to a day; longer ones count as that.
const LONGEST_US: u64 = 86_400 * 1_000_000;

/// Counts of pages and bytes, since the machine was made or between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that processes have read.
    pub read: Bytes,
    /// Bytes that processes have written.
    pub written: Bytes,
    /// Touches that found their page in memory.
    pub hits: Pages,
    /// Touches that found it in flight.
    pub late: Pages,
    /// Touches that did not find it.
    pub misses: Pages,
    /// Of the misses, those whose page had been read ahead for the same opening of the file and evicted before
    /// its use: thrashing.
    pub thrashed: Pages,
    /// Pages read because a process waited for them.
    pub demanded: Pages,
    /// Pages read ahead.
    pub prefetched: Pages,
    /// Pages requested past the page cache.
    pub direct: Pages,
    /// Pages read ahead and then used.
    pub used: Pages,
    /// Pages read ahead and evicted without having been used.
    pub wasted: Pages,
    /// Pages that were to be read ahead, and for which there was no memory.
    pub dropped: Pages,
    /// Pages reclaimed.
    pub reclaimed: Pages,
    /// Pages of metadata for which a process waited.
    pub metadata: Pages,
    /// The most private memory that was swapped out at a time, or that did not fit and counted as swapped out.
    pub swapped_most: Pages,
    /// Pages of private memory that were written to swap.
    pub swapped_out: Pages,
    /// Pages of private memory that were read back.
    pub swapped_in: Pages,
}

impl Counters {
    pub(super) fn found(&mut self, found: Found) {
        match found {
            Found::Hit => self.hits += Pages(1),
            Found::InFlight => self.late += Pages(1),
            Found::Miss => self.misses += Pages(1),
            Found::Thrashed => {
                self.misses += Pages(1);
                self.thrashed += Pages(1);
            }
        }
    }

    /// The counts since `earlier`; a maximum stays what it is.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read: self.read - earlier.read,
            written: self.written - earlier.written,
            hits: self.hits - earlier.hits,
            late: self.late - earlier.late,
            misses: self.misses - earlier.misses,
            thrashed: self.thrashed - earlier.thrashed,
            demanded: self.demanded - earlier.demanded,
            prefetched: self.prefetched - earlier.prefetched,
            direct: self.direct - earlier.direct,
            used: self.used - earlier.used,
            wasted: self.wasted - earlier.wasted,
            dropped: self.dropped - earlier.dropped,
            reclaimed: self.reclaimed - earlier.reclaimed,
            metadata: self.metadata - earlier.metadata,
            swapped_most: self.swapped_most,
            swapped_out: self.swapped_out - earlier.swapped_out,
            swapped_in: self.swapped_in - earlier.swapped_in,
        }
    }
}

/// A request that the device has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// When it was served.
    pub at: Instant,
    /// Its sectors.
    pub range: SectorSpan,
}

/// The metrics of a running machine.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) counters: Counters,
    /// How many fetches had how many pages.
    pub(super) fetches: Vec<u64>,
    pub(super) responses: Histogram<u64>,
    pub(super) response_sum: Nanos,
    pub(super) requests: u64,
    pub(super) jobs: Vec<(u64, Nanos)>,
    pub(super) busy: Nanos,
    /// Busy time of all processors in each [`USE_PERIOD`].
    pub(super) busy_by_period: Vec<Nanos>,
    pub(super) log: Vec<Logged>,
    /// The most requests that are logged.
    pub(super) log_limit: usize,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            counters: Counters::default(),
            fetches: Vec::new(),
            responses: empty_histogram(),
            response_sum: Nanos::ZERO,
            requests: 0,
            jobs: Vec::new(),
            busy: Nanos::ZERO,
            busy_by_period: Vec::new(),
            log: Vec::new(),
            log_limit: 0,
        }
    }

    /// A processor is busy for this long from now on.
    pub(super) fn processor(&mut self, now: Instant, time: Nanos) {
        self.busy += time;
        for (period, part) in by_period(now, time) {
            if period >= self.busy_by_period.len() {
                self.busy_by_period.resize(period + 1, Nanos::ZERO);
            }
            self.busy_by_period[period] += part;
        }
    }

    /// The run ends before processors have spent all of their time.
    fn cut(&mut self, now: Instant, given: impl Iterator<Item = Nanos>) {
        for time in given {
            self.busy -= time;
            for (period, part) in by_period(now, time) {
                self.busy_by_period[period] -= part;
            }
        }
        let periods = now.get().div_ceil(USE_PERIOD.get()) as usize;
        self.busy_by_period.truncate(periods);
    }

    /// Contiguous pages are submitted.
    pub(super) fn submitted(&mut self, pages: Pages) {
        let size = (pages.get() as usize).min(FETCH_SIZES_LIMIT);
        if size >= self.fetches.len() {
            self.fetches.resize(size + 1, 0);
        }
        self.fetches[size] += 1;
    }

    /// The device has served a request.
    pub(super) fn served(&mut self, at: Instant, range: SectorSpan) {
        if self.log.len() < self.log_limit {
            self.log.push(Logged { at, range });
        }
    }

    /// A request or query is done.
    pub(super) fn finished(&mut self, took: Nanos) {
        self.requests += 1;
        self.response_sum += took;
        self.responses.saturating_record(took.get() / 1_000);
    }

    /// Counting begins.
    pub(super) fn begin(&mut self) {
        self.fetches.clear();
        self.responses.reset();
        self.response_sum = Nanos::ZERO;
        self.requests = 0;
        self.jobs.clear();
    }
}

/// The parts of a time in each period.
fn by_period(from: Instant, time: Nanos) -> impl Iterator<Item = (usize, Nanos)> {
    let end = from + time;
    let mut at = from;
    std::iter::from_fn(move || {
        let period = at.get() / USE_PERIOD.get();
        let until = end.min(Instant((period + 1) * USE_PERIOD.get()));
        let part = (period as usize, until - at);
        at = until;
        (!part.1.is_zero()).then_some(part)
    })
}

fn empty_histogram() -> Histogram<u64> {
    // An error occurs only for a maximum below 2 or more than five digits.
    Histogram::new_with_max(LONGEST_US, DIGITS)
        .unwrap_or_else(|_| unreachable!("{DIGITS} digits are allowed"))
}

/// The response times of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Responses {
    /// How many were finished.
    pub count: u64,
    /// Their mean.
    pub mean: Nanos,
    /// The median.
    pub median: Nanos,
    /// The 90th percentile.
    pub p90: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// The results of a run, over the measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The measured time: the duration, or until the last job ended.
    pub time: Nanos,
    /// Pages and bytes.
    pub counters: Counters,
    /// Requests or queries that were finished.
    pub responses: Responses,
    /// Histogram of response times: upper bounds, and how many times lie below each and above the one before.
    pub response_buckets: Vec<(Nanos, u64)>,
    /// The time of each job, by its number; empty for a closed loop.
    pub jobs: Vec<(u64, Nanos)>,
    /// The metrics of the block layer.
    pub block: block::Metrics,
    /// The counters of the device.
    pub device: DeviceCounters,
    /// How many fetches (contiguous submissions) had how many pages.
    pub fetch_sizes: Vec<u64>,
    /// Busy time of all processors.
    pub processor_busy: Nanos,
    /// The number of processors.
    pub processors: u32,
    /// Busy time of all processors in each second since the machine was made.
    pub processor_busy_by_second: Vec<Nanos>,
    /// The statistics of a mount's engine since the machine was made; `None` without a mount.
    pub mount: Option<Stats>,
    /// The status of a watching daemon's engine; `None` without one.
    pub walks: Option<foreseek_walks::Status>,
    /// The statistics of the cache of an array's driver since the machine was made; `None` without one.
    pub array: Option<foreseek_strips::Stats>,
    /// The requests that the device has served since the machine was made, where they are [logged].
    ///
    /// [logged]: super::Machine::logging
    pub requests: Vec<Logged>,
}

impl Report {
    /// Bytes that processes read in a second, in MB/s of 10^6.
    #[must_use]
    pub fn throughput_mb_per_s(&self) -> f64 {
        per_second(self.counters.read.get(), self.time) / 1e6
    }

    /// The share of the time in which the device held a request.
    #[must_use]
    pub fn device_use(&self) -> f64 {
        share(self.block.busy, self.time)
    }

    /// The share of all processors' time that was used.
    #[must_use]
    pub fn processor_use(&self) -> f64 {
        share(self.processor_busy, self.time * u64::from(self.processors))
    }

    /// Pages a second that had been read ahead, evicted before their use, and read again.
    #[must_use]
    pub fn thrashed_per_second(&self) -> f64 {
        per_second(self.counters.thrashed.get(), self.time)
    }
}

fn per_second(count: u64, time: Nanos) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

fn share(part: Nanos, whole: Nanos) -> f64 {
    if whole.is_zero() { 0.0 } else { part.get() as f64 / whole.get() as f64 }
}

/// The counters of the layers below at the beginning of the measurement.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    at: Instant,
    counters: Counters,
    block: block::Metrics,
    device: DeviceCounters,
    busy: Nanos,
}

impl super::Machine {
    /// The same machine, with a log of the first `most` requests that its device serves: 24 bytes each.
    #[must_use]
    pub fn logging(mut self, most: usize) -> Self {
        self.metrics.log_limit = most;
        self
    }

    /// The measurement begins.
    pub(super) fn begin_measurement(&mut self) {
        self.metrics.begin();
        let given = self.processors.given_after(self.now).fold(Nanos::ZERO, |all, one| all + one);
        self.mark = Mark {
            at: self.now,
            counters: self.metrics.counters,
            block: self.block.metrics(),
            device: self.block.device_counters(),
            busy: self.metrics.busy - given,
        };
    }

    /// Makes the report.
    pub(super) fn report(mut self) -> Report {
        self.metrics.cut(self.now, self.processors.given_after(self.now));
        let mount = self.mount.as_ref().map(|mount| mount.stats());
        let walks = self.walks();
        let Mark { at, counters, block, device, busy } = self.mark;
        let Metrics { fetches, responses, response_sum, requests, mut jobs, .. } = self.metrics;
        jobs.sort_unstable();
        let quantile = |q| Nanos::from_micros(responses.value_at_quantile(q));
        Report {
            time: self.now - at,
            counters: self.metrics.counters.since(&counters),
            responses: Responses {
                count: requests,
                mean: Nanos(response_sum.get().checked_div(requests).unwrap_or(0)),
                median: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                longest: Nanos::from_micros(responses.max()),
            },
            response_buckets: buckets(&responses),
            jobs,
            block: block_since(self.block.metrics(), &block),
            device: device_since(self.block.device_counters(), device),
            fetch_sizes: fetches,
            processor_busy: self.metrics.busy - busy,
            processors: self.settings.processors,
            processor_busy_by_second: self.metrics.busy_by_period,
            mount,
            walks,
            array: None,
            requests: self.metrics.log,
        }
    }
}

impl Mark {
    pub(super) fn start() -> Self {
        Self {
            at: Instant::ZERO,
            counters: Counters::default(),
            block: block::Metrics::default(),
            device: DeviceCounters::default(),
            busy: Nanos::ZERO,
        }
    }
}

/// Buckets that double from a millisecond on.
fn buckets(responses: &Histogram<u64>) -> Vec<(Nanos, u64)> {
    const FIRST_US: u64 = 1_000;
    let all = responses.iter_log(FIRST_US, 2.0);
    all.map(|step| (Nanos::from_micros(step.value_iterated_to()), step.count_since_last_iteration()))
        .collect()
}

fn block_since(mut now: block::Metrics, earlier: &block::Metrics) -> block::Metrics {
    now.submissions -= earlier.submissions;
    now.splits -= earlier.splits;
    now.merges -= earlier.merges;
    now.infilled -= earlier.infilled;
    now.infill -= earlier.infill;
    now.served_by_infill -= earlier.served_by_infill;
    now.refused -= earlier.refused;
    now.dispatched -= earlier.dispatched;
    now.requests -= earlier.requests;
    now.failed -= earlier.failed;
    now.read -= earlier.read;
    now.written -= earlier.written;
    now.seeks -= earlier.seeks;
    now.seek_distance -= earlier.seek_distance;
    now.busy -= earlier.busy;
    now.queued -= earlier.queued;
    for (now, earlier) in now.sizes.iter_mut().zip(&earlier.sizes) {
        *now -= earlier;
    }
    now.anticipations.met -= earlier.anticipations.met;
    now.anticipations.near -= earlier.anticipations.near;
    now.anticipations.timed_out -= earlier.anticipations.timed_out;
    now.anticipations.given_up -= earlier.anticipations.given_up;
    now.anticipations.idle -= earlier.anticipations.idle;
    now
}

fn device_since(now: DeviceCounters, earlier: DeviceCounters) -> DeviceCounters {
    DeviceCounters {
        requests: now.requests - earlier.requests,
        failed: now.failed - earlier.failed,
        read: now.read - earlier.read,
        written: now.written - earlier.written,
        seeks: now.seeks - earlier.seeks,
        seek_distance: now.seek_distance - earlier.seek_distance,
        buffer_hits: now.buffer_hits - earlier.buffer_hits,
        busy: now.busy - earlier.busy,
        seek_time: now.seek_time - earlier.seek_time,
        rotation_time: now.rotation_time - earlier.rotation_time,
        transfer_time: now.transfer_time - earlier.transfer_time,
    }
}
