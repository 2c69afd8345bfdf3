//! The cost of an array's engine: requests of one block per second on one core.
//!
//! `cargo bench -p foreseek-strips`. The array and the cache are those of ATC'08; there is also a cache of 16
//! GiB whose state exceeds any processor's cache. A request is everything that one read of 4 KiB causes: the
//! read, its fetches, their completions, the drops. Time is the thread's processor time, so that other load
//! on the machine matters little.

#![allow(missing_docs, reason = "criterion's macro makes a function without documentation")]

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foreseek_device::Profile;
use foreseek_seam::RequestId;
use foreseek_strips::{
    Command, Commands, Event, Following, Geometry, Lru, Outcome, Settings, StripEngine, registry,
};
use foreseek_units::{Bytes, Lba, PageIndex, PageSpan, Pages};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Caches, with their names.
const CACHES: [(&str, Bytes); 2] = [("500 MiB", Bytes::mib(500)), ("16 GiB", Bytes::gib(16))];
/// Requests of one sample.
const REQUESTS: u64 = 1 << 16;
/// Blocks of a short run: four stripes.
const RUN: u64 = 4 * 128;

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

/// A generator that costs next to nothing, so that the engine is measured.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// An engine, and a driver whose fetches arrive at once.
struct Array {
    engine: StripEngine,
    requests: u64,
    commands: Commands,
    fetched: Vec<Event>,
}

impl Array {
    fn new(policy: &str, cache: Bytes, data: Bytes) -> Self {
        let profile = Profile::builtin("raid5-5x-15k").expect("built in");
        let stripes = profile.stripes().expect("an array");
        let geometry = Geometry::new(stripes, Lba(0), data.pages_floor()).expect("valid");
        let settings = Settings { cache: cache.pages_floor(), following: Following::Streams };
        let rules = registry::by_name(policy).expect("known").rules;
        let member = Arc::new(profile.member().expect("an array"));
        let engine = StripEngine::new(geometry, settings, rules, member, Box::new(Lru)).expect("valid");
        Self { engine, requests: 0, commands: Commands::default(), fetched: Vec::new() }
    }

    fn read(&mut self, page: u64) {
        self.requests += 1;
        let pages = PageSpan::at(PageIndex(page), Pages(1));
        self.send(Event::Read { request: RequestId(self.requests), pages });
        while let Some(done) = self.fetched.pop() {
            self.send(done);
        }
        while self.engine.has_more() {
            self.send(Event::Tick);
        }
    }

    fn send(&mut self, event: Event) {
        self.engine.on(event, &mut self.commands);
        for command in self.commands.drain() {
            if let Command::Fetch { fetch, .. } = command {
                self.fetched.push(Event::Done { fetch, outcome: Outcome::Arrived });
            }
            black_box(command);
        }
    }
}

fn strips(c: &mut Criterion<ProcessorTime>) {
    let mut group = c.benchmark_group("strips");
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, cache) in CACHES {
        let held = cache.pages_floor().get();
        // The workspaces: as large as the cache, twice as large, and so large that nearly no block is read
        // again.
        for (label, policy, share) in [
            ("hits", "asp+msp", 1),
            ("random over twice the cache", "asp+msp", 2),
            ("misses with eviction, strips", "sp", 16),
            ("misses with eviction, single blocks", "none", 16),
        ] {
            let mut array = Array::new(policy, cache, cache * 16);
            let mut draw = Draw(1);
            (0..held).step_by(32).for_each(|page| array.read(page));
            (0..held / 4).for_each(|_| array.read(draw.below(held * share)));
            group.bench_function(format!("{label}, {policy}, {name}"), |b| {
                b.iter(|| (0..REQUESTS).for_each(|_| array.read(draw.below(held * share))));
            });
        }
        for (label, policy, run) in [
            ("sequential", "asp+msp", u64::MAX),
            ("sequential", "asp+msp-adaptive", u64::MAX),
            ("runs of 4 stripes", "asp+msp", RUN),
            ("runs of 4 stripes", "asp+msp-adaptive", RUN),
        ] {
            let (mut array, mut at, mut draw) = (Array::new(policy, cache, cache * 16), 0, Draw(1));
            let mut left = run;
            group.bench_function(format!("{label}, {policy}, {name}"), |b| {
                b.iter(|| {
                    for _ in 0..REQUESTS {
                        array.read(at);
                        (at, left) = ((at + 1) % (held * 16), left - 1);
                        if left == 0 {
                            (at, left) = (draw.below(held * 16), run);
                        }
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ProcessorTime);
    targets = strips
}
criterion_main!(benches);
