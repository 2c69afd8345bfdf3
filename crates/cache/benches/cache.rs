//! The costs of the caches: operations per second on one core.
//!
//! `cargo bench -p foreseek-cache`. There are two sizes: 128 Ki pages (512 MB of memory), whose state exceeds
//! the second-level cache of a core, and 4 Mi pages (16 GB), whose state exceeds any cache. A key is an
//! object and a page of 64 bits each, a value a frame number, as in the file system. *Random* order is the
//! worst case. *Runs* are typical of readers: 32 consecutive pages of one object, objects at random. Time is
//! the thread's processor time, so that other load on the machine matters little.

#![allow(missing_docs, reason = "criterion's macro makes a function without documentation")]

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use foreseek_cache::{Activity, EvictionHistory, Mark, PrefetchCache, Process, Status};
use foreseek_units::{Instant, Nanos, Pages};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

type Key = (u64, u64);

/// Entries, with their names.
const SIZES: [(&str, u64); 2] = [("128 Ki", 128 << 10), ("4 Mi", 4 << 20)];
/// Pages of an object: the 4 MB files of TR-840.
const LENGTH: u64 = 1024;
/// Pages of a run.
const RUN: u64 = 32;
/// Processes that read.
const PROCESSES: u64 = 512;
/// Operations of one sample.
const OPERATIONS: u64 = 1 << 16;

/// The processor time of this thread.
struct ProcessorTime;

impl ProcessorTime {
    fn now() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

impl Measurement for ProcessorTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        Self::now()
    }

    fn end(&self, start: Duration) -> Duration {
        Self::now() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn key(page: u64) -> Key {
    (page / LENGTH, page % LENGTH)
}

/// A generator that costs next to nothing, so that the cache is measured.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

fn mark(page: u64) -> Mark {
    Mark { process: Process((page / RUN % PROCESSES) as u32), at: Instant(page) }
}

fn full(pages: u64) -> PrefetchCache<Key, u32> {
    let mut cache = PrefetchCache::with_capacity(Nanos::ZERO, Pages(pages));
    for page in 0..pages {
        cache.insert(key(page), page as u32, mark(page), false);
    }
    cache
}

/// The processes, all of which ran at this time.
fn activity(at: u64) -> Activity {
    let mut activity = Activity::new();
    (0..PROCESSES).for_each(|process| activity.ran(Process(process as u32), Instant(at)));
    activity
}

fn lookups(group: &mut BenchmarkGroup<'_, ProcessorTime>, name: &str, pages: u64) {
    let cache = full(pages);
    let mut draw = Draw(1);
    let mut look = |label: &str, next: &mut dyn FnMut(u64) -> u64| {
        group.bench_function(format!("{label}, {name}"), |b| {
            b.iter(|| {
                let found = (0..OPERATIONS).filter(|n| cache.get(&key(next(*n))).is_some());
                black_box(found.count())
            });
        });
    };
    look("lookup, random", &mut |_| draw.below(pages));
    let (mut draw, mut start) = (Draw(2), 0);
    look("lookup, runs", &mut |n| {
        if n % RUN == 0 {
            start = draw.below(pages / RUN) * RUN;
        }
        start + n % RUN
    });
    let mut draw = Draw(3);
    look("lookup of what is not there", &mut |_| pages + draw.below(pages));
}

/// One page in, one page out, in a full cache.
fn turnover(group: &mut BenchmarkGroup<'_, ProcessorTime>, name: &str, pages: u64) {
    // A process that has run after every prefetch has had its opportunity. A process that ran before all of
    // them may still read the pages: then each page is met twice.
    for (label, ran) in [("insert + evict", u64::MAX), ("insert + second chance + evict", 0)] {
        let (mut cache, activity) = (full(pages), activity(ran));
        let mut next = pages;
        group.bench_function(format!("{label}, {name}"), |b| {
            b.iter(|| {
                for _ in 0..OPERATIONS {
                    cache.insert(key(next), next as u32, mark(next), false);
                    black_box(cache.evict_above(Pages(pages), &activity));
                    next += 1;
                }
            });
        });
    }
    let (mut cache, mut draw) = (full(pages), Draw(4));
    group.bench_function(format!("take + insert, random, {name}"), |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                let page = draw.below(pages);
                black_box(cache.take(&key(page)));
                cache.insert(key(page), page as u32, mark(page), false);
            }
        });
    });
}

fn history(group: &mut BenchmarkGroup<'_, ProcessorTime>, name: &str, pages: u64) {
    let mut history = EvictionHistory::new(Pages(pages));
    (0..pages).for_each(|page| history.evicted(key(page), Status::Lru));
    let (mut next, mut draw) = (pages, Draw(5));
    group.bench_function(format!("history: eviction + random miss, {name}"), |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                history.evicted(key(next), Status::Prefetched);
                next += 1;
                black_box(history.take(&key(next - 1 - draw.below(pages))));
            }
        });
    });
}

fn cache(c: &mut Criterion<ProcessorTime>) {
    let mut group = c.benchmark_group("cache");
    group.throughput(Throughput::Elements(OPERATIONS));
    for (name, pages) in SIZES {
        lookups(&mut group, name, pages);
        turnover(&mut group, name, pages);
        history(&mut group, name, pages);
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime);
    targets = cache
}
criterion_main!(benches);
