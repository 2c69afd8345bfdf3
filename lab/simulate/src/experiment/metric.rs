//! The metrics of a run.

use crate::machine::Report;
use foreseek_units::{Nanos, SECTOR_SIZE};

/// One metric of a run.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Its name in results, unit last.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Takes it from a report.
    pub of: fn(&Report) -> f64,
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Metric {
    /// The metric of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Application throughput, MB/s.
    pub const THROUGHPUT: Self = Self {
        name: "throughput_mb_per_s",
        meaning: "bytes that processes have read, in MB of 10^6 a second",
        of: Report::throughput_mb_per_s,
    };
    /// Requests finished a second.
    pub const REQUESTS: Self = Self {
        name: "requests_per_s",
        meaning: "requests or queries that were finished",
        of: |report| per_second(report.responses.count, report.time),
    };
    /// Mean response time, ms.
    pub const RESPONSE: Self = Self {
        name: "response_mean_ms",
        meaning: "mean time from a request's arrival to its end",
        of: |report| report.responses.mean.as_millis_f64(),
    };
    /// The longest response, ms.
    pub const LONGEST_RESPONSE: Self = Self {
        name: "response_longest_ms",
        meaning: "the longest took so long",
        of: |report| report.responses.longest.as_millis_f64(),
    };
    /// Execution time of jobs, s.
    pub const TIME: Self = Self {
        name: "time_s",
        meaning: "measured time; of jobs until the last has ended",
        of: |report| report.time.as_secs_f64(),
    };
    /// Pages a second that were read ahead, evicted before their use and read again.
    pub const THRASHED: Self = Self {
        name: "thrashed_pages_per_s",
        meaning: "pages that had been read ahead, were evicted before their use and then wanted",
        of: Report::thrashed_per_second,
    };
    /// The longest fetch, pages.
    pub const LONGEST_FETCH: Self = Self {
        name: "fetch_longest_pages",
        meaning: "the longest fetch before it is split",
        of: |report| report.fetch_sizes.iter().rposition(|count| *count > 0).unwrap_or(0) as f64,
    };
    /// Blocks from the cache of an array's driver, % of those read through it.
    pub const ARRAY_HITS: Self = Self {
        name: "array_hits_percent",
        meaning: "blocks that the cache of an array's driver had or was fetching, of those read through it",
        of: |report| of_array(report, |stats| stats.cache_hits + stats.prefetch_hits),
    };
    /// Strips that were not prefetched because of the virtual costs.
    pub const ARRAY_REFUSED: Self = Self {
        name: "array_refused_by_cost",
        meaning: "misses whose strip an array's driver did not prefetch because of the virtual costs",
        of: |report| report.array.map_or(0.0, |stats| stats.refused_by_cost as f64),
    };
    /// Strips that were not prefetched because the upstream was too small.
    pub const ARRAY_REFUSED_BY_SIZE: Self = Self {
        name: "array_refused_by_size",
        meaning: "misses whose strip an array's driver did not prefetch because its upstream had shrunk, where the virtual costs allowed it",
        of: |report| report.array.map_or(0.0, |stats| stats.refused_by_size as f64),
    };
    /// What processes read and wrote, MB/s.
    pub const MOVED: Self = Self {
        name: "moved_mb_per_s",
        meaning: "bytes that processes have read and written, in MB of 10^6 a second",
        of: |report| per_second((report.counters.read + report.counters.written).get(), report.time) / 1e6,
    };
    /// Mean distance of a seek, MB.
    pub const SEEK_DISTANCE: Self = Self {
        name: "seek_distance_mb",
        meaning: "mean distance of those on the device, in MB of 10^6",
        of: |report| report.block.mean_seek().bytes().get() as f64 / 1e6,
    };
    /// Processor use, %.
    pub const PROCESSOR: Self = Self {
        name: "processor_use_percent",
        meaning: "share of all processors' time that was used",
        of: |report| 100.0 * report.processor_use(),
    };
    /// Processor time for each MB read, ms.
    pub const PROCESSOR_COST: Self = Self {
        name: "processor_ms_per_mb",
        meaning: "processor time for each MB of 10^6 that processes have read",
        of: |report| ratio(report.processor_busy.as_millis_f64(), report.counters.read.get() as f64 / 1e6),
    };
    /// Pages that the host has read ahead.
    pub const PREFETCHED: Self = Self {
        name: "prefetched_pages_per_s",
        meaning: "pages read ahead",
        of: |report| per_second(report.counters.prefetched.get(), report.time),
    };
    /// Blocks that an array's driver answered and that were requested before, %.
    pub const ARRAY_CACHE_HITS: Self = Self {
        name: "array_cache_hits_percent",
        meaning: "of its driver's blocks: had been read for the host before",
        of: |report| of_array(report, |stats| stats.cache_hits),
    };
    /// Blocks that an array's driver answered and that it had prefetched, %.
    pub const ARRAY_PREFETCH_HITS: Self = Self {
        name: "array_prefetch_hits_percent",
        meaning: "of its driver's blocks: had been prefetched",
        of: |report| of_array(report, |stats| stats.prefetch_hits),
    };
    /// Blocks that an array's driver has prefetched, %.
    pub const ARRAY_PREFETCHED: Self = Self {
        name: "array_prefetched_percent",
        meaning: "blocks that an array's driver has prefetched, beside 100 that were read through it",
        of: |report| of_array(report, |stats| stats.strip_blocks + stats.massive_blocks),
    };
}

/// All of them, in the order of results.
pub const METRICS: &[Metric] = &[
    Metric::THROUGHPUT,
    Metric::MOVED,
    Metric::REQUESTS,
    Metric::RESPONSE,
    metric("response_median_ms", "half of the requests took no longer", |report| {
        report.responses.median.as_millis_f64()
    }),
    metric("response_p90_ms", "90 in 100 took no longer", |report| report.responses.p90.as_millis_f64()),
    metric("response_p99_ms", "99 in 100 took no longer", |report| report.responses.p99.as_millis_f64()),
    Metric::LONGEST_RESPONSE,
    Metric::TIME,
    metric("device_use_percent", "share of the time in which the device held a request", |report| {
        100.0 * report.device_use()
    }),
    metric("device_mb_per_s", "bytes that the device read or wrote, in MB of 10^6 a second", |report| {
        let sectors = report.block.read + report.block.written;
        per_second(sectors.get() * SECTOR_SIZE, report.time) / 1e6
    }),
    metric("device_requests_per_s", "requests that the device served", |report| {
        per_second(report.block.requests, report.time)
    }),
    metric("seeks_per_s", "requests that did not begin where the one before had ended", |report| {
        per_second(report.block.seeks, report.time)
    }),
    Metric::SEEK_DISTANCE,
    metric("request_pages", "mean length of a request to the device", |report| {
        let sectors = report.block.read + report.block.written;
        ratio(sectors.bytes().get() as f64 / 4096.0, report.block.requests as f64)
    }),
    metric("fetch_pages", "mean length of a fetch before it is split", |report| {
        let (mut pages, mut fetches) = (0, 0);
        for (size, count) in report.fetch_sizes.iter().enumerate() {
            pages += size as u64 * count;
            fetches += count;
        }
        ratio(pages as f64, fetches as f64)
    }),
    Metric::LONGEST_FETCH,
    metric("hit_pages_per_s", "touches that found their page in memory", |report| {
        per_second(report.counters.hits.get(), report.time)
    }),
    metric("late_pages_per_s", "touches that found their page on its way", |report| {
        per_second(report.counters.late.get(), report.time)
    }),
    metric("missed_pages_per_s", "touches that did not find their page", |report| {
        per_second(report.counters.misses.get(), report.time)
    }),
    Metric::PREFETCHED,
    metric("used_pages_per_s", "pages read ahead and then used", |report| {
        per_second(report.counters.used.get(), report.time)
    }),
    metric("wasted_pages_per_s", "pages read ahead and evicted unused", |report| {
        per_second(report.counters.wasted.get(), report.time)
    }),
    metric("dropped_pages_per_s", "pages that were to be read ahead when there was no memory", |report| {
        per_second(report.counters.dropped.get(), report.time)
    }),
    Metric::THRASHED,
    Metric::PROCESSOR,
    Metric::PROCESSOR_COST,
    metric(
        "anticipating_percent",
        "share of the time in which the device was kept idle on purpose",
        |report| 100.0 * ratio(report.block.anticipations.idle.get() as f64, report.time.get() as f64),
    ),
    Metric::ARRAY_HITS,
    Metric::ARRAY_CACHE_HITS,
    Metric::ARRAY_PREFETCH_HITS,
    Metric::ARRAY_PREFETCHED,
    Metric::ARRAY_REFUSED,
    Metric::ARRAY_REFUSED_BY_SIZE,
    metric("swapped_mb", "the most private memory that did not fit, in MB of 10^6", |report| {
        report.counters.swapped_most.bytes().get() as f64 / 1e6
    }),
    metric("swapped_out_pages_per_s", "pages of private memory written to swap", |report| {
        per_second(report.counters.swapped_out.get(), report.time)
    }),
    metric("swapped_in_pages_per_s", "pages of private memory read back", |report| {
        per_second(report.counters.swapped_in.get(), report.time)
    }),
];

const fn metric(name: &'static str, meaning: &'static str, of: fn(&Report) -> f64) -> Metric {
    Metric { name, meaning, of }
}

fn of_array(report: &Report, part: fn(&foreseek_strips::Stats) -> u64) -> f64 {
    let Some(stats) = report.array else { return 0.0 };
    let all = stats.cache_hits + stats.prefetch_hits + stats.misses + stats.uncached;
    100.0 * ratio(part(&stats) as f64, all as f64)
}

fn per_second(count: u64, time: Nanos) -> f64 {
    ratio(count as f64, time.as_secs_f64())
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
