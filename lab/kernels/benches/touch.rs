//! The cost of a touched page in each policy, as pages a second.
//!
//! A simulated page access must cost less than a microsecond in all, so that a policy may take a small part of
//! that. `cargo bench -p foreseek-kernels`.

#![allow(missing_docs, reason = "criterion's macro makes a function without documentation")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foreseek_device::Profile;
use foreseek_kernels::{Settings, by_name, generation, names};
use foreseek_readahead::depth::{Plan, RatioBound, Survival};
use foreseek_readahead::stream::{Ahead, Found, Opened, Prefetcher, Served, Touch, View};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{DeviceCosts, Instant, Lba, PageIndex, PageSpan, Pages, SectorSpan, Sectors, Span};
use std::hint::black_box;
use std::sync::Arc;

/// Streams at a time: the concurrency at which the simulator's speed is asked for.
const STREAMS: u64 = 64;
/// Pages of a stream: the 4 MB files of the microbenchmarks.
const LENGTH: u64 = 1024;
/// Pages of a call: 64 KB.
const CALL: u64 = 16;

/// What a stream has in memory: sequential streams hold one piece.
struct Held {
    pages: PageSpan,
    marker: Option<PageIndex>,
    start: Lba,
}

impl View for Held {
    fn cached(&self, page: PageIndex) -> bool {
        self.pages.contains(page)
    }
    fn congested(&self) -> bool {
        false
    }
    fn lba(&self, page: PageIndex) -> Option<Lba> {
        Some(self.start + Pages(page.get()).sectors())
    }
}

/// Reads all streams to their ends, a call of each in turn.
fn read_all(policy: &mut dyn Prefetcher, answers: &mut Vec<Ahead>) {
    let now = Instant::ZERO;
    let mut held: Vec<Held> = (0..STREAMS)
        .map(|stream| Held { pages: Span::default(), marker: None, start: Lba(stream * 1_000_000) })
        .collect();
    for stream in 0..STREAMS {
        let announced = Some(Pages(LENGTH));
        let (object, length) = (ObjectId(stream), Pages(LENGTH));
        policy.opened(now, Opened { stream: StreamId(stream), object, pid: ProcessId(1), length, announced });
    }
    for call in 0..LENGTH / CALL {
        for stream in 0..STREAMS {
            let mine = &mut held[stream as usize];
            let end = PageIndex((call + 1) * CALL);
            for page in Span::new(PageIndex(call * CALL), end).iter() {
                let found = if mine.pages.contains(page) { Found::Hit } else { Found::Miss };
                let marker = mine.marker == Some(page);
                let first = page.get() == call * CALL;
                let touch = Touch {
                    stream: StreamId(stream),
                    page,
                    request: end - page,
                    first,
                    mapped: false,
                    found,
                    marker,
                };
                policy.touch(now, touch, mine, answers);
                for ahead in answers.drain(..) {
                    mine.pages.end = mine.pages.end.max(ahead.range.end);
                    mine.marker = ahead.marker.or(mine.marker);
                    let from = mine.start + Sectors(black_box(12_345));
                    let range = SectorSpan::at(mine.start, ahead.range.len().sectors());
                    policy.served(now, Served { from, range });
                }
            }
        }
    }
    (0..STREAMS).for_each(|stream| policy.closed(now, StreamId(stream)));
}

fn touch(c: &mut Criterion) {
    let costs: Arc<dyn DeviceCosts> = Arc::new(Profile::builtin("ibm-36g-51").expect("a built-in profile"));
    let mut group = c.benchmark_group("touch");
    group.throughput(Throughput::Elements(STREAMS * LENGTH));
    let mut time = |label: String, name: &str, settings: &Settings| {
        let mut policy = by_name(name, settings, &costs).expect("a policy");
        let mut answers = Vec::new();
        group.bench_function(label, |b| b.iter(|| read_all(&mut *policy, &mut answers)));
    };
    for name in names() {
        time(name.to_owned(), name, &Settings::default());
    }
    for name in ["linux-2.6.10", "linux-2.6.18", "on-demand"] {
        let mut settings = Settings::default();
        settings.stream.generation = generation(name).expect("known");
        time(format!("competitive in {name}"), "competitive", &settings);
    }
    group.finish();
}

/// How long solving a plan of the adaptive policy takes, for files of 4 MB and the longest ones.
fn plan(c: &mut Criterion) {
    let survival = Survival::of((0..1000).map(|n| Pages(n * 7919 % 1024 + 1)));
    let mut group = c.benchmark_group("plan");
    for end in [1024, 1 << 18] {
        let ratio_bound = RatioBound::new(3.0, 131.0);
        group.bench_function(format!("{end} pages"), |b| {
            b.iter(|| black_box(Plan::solve(survival.clone(), ratio_bound, Pages(end), 0.5)));
        });
    }
    group.finish();
}

criterion_group!(benches, touch, plan);
criterion_main!(benches);
