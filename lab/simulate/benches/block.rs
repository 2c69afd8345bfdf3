//! The cost of the block layer: requests a second in virtual time, for each scheduler, and how the cost of one
//! grows with the number of processes. `cargo bench -p foreseek-simulate --bench block`.
//!
//! The device costs no processor time and takes a millisecond for each request. Each process reads
//! sequentially, a page at a time and without thinking, in an area of its own: nothing can be merged, and every
//! request goes through pool, plug, scheduler and device.

#![allow(missing_docs, reason = "criterion's macro makes a function without documentation")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foreseek_device::{Counters, Device, Finished, Full, Io, Op, Outcome};
use foreseek_seam::ProcessId;
use foreseek_simulate::block::{BlockLayer, Completed, Settings, Submission, Tag, scheduler};
use foreseek_units::{Instant, Lba, Nanos, Sectors, Span};
use std::hint::black_box;

/// Requests of one iteration.
const REQUESTS: usize = 10_000;
/// Distance of the areas of two processes: 4,096 of them fill a disk of 32 GiB.
const APART: u64 = 16_384;

/// One request at a time, a millisecond each.
#[derive(Default)]
struct Plain {
    at_work: Option<(Io, Instant)>,
}

impl Device for Plain {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        if self.at_work.is_some() {
            return Err(Full);
        }
        self.at_work = Some((io, now + Nanos::from_millis(1)));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.at_work.map(|(_, until)| until)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        if let Some((io, at)) = self.at_work.take_if(|(_, until)| *until <= now) {
            done.push(Finished { id: io.id, at, outcome: Outcome::Done });
        }
    }

    fn capacity(&self) -> Sectors {
        Sectors(1 << 40)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// A closed loop of processes.
struct Load {
    layer: BlockLayer,
    /// The next sector of each process.
    next: Vec<u64>,
    now: Instant,
    done: Vec<Completed>,
}

impl Load {
    fn new(name: &str, processes: usize) -> Self {
        // A pool for all: the cost of sleeping processes is not measured.
        let settings = Settings { requests: processes.max(128), ..Settings::LINUX_2_6_3 };
        let scheduler = scheduler::by_name(name).expect("a known name");
        let layer = BlockLayer::new(settings, scheduler, Box::<Plain>::default());
        let next = (0..processes as u64).map(|process| process * APART).collect();
        let mut load = Self { layer, next, now: Instant::ZERO, done: Vec::new() };
        (0..processes).for_each(|process| load.submit(process));
        load
    }

    fn submit(&mut self, process: usize) {
        let start = Lba(self.next[process]);
        self.next[process] += 8;
        let submission = Submission {
            tag: Tag(process as u64),
            op: Op::Read,
            range: Span::at(start, Sectors(8)),
            pid: ProcessId(process as u32),
            synchronous: true,
        };
        let taken = self.layer.submit(self.now, submission);
        debug_assert!(taken.is_ok(), "the pool holds all");
        self.layer.unplug(self.now);
    }

    fn run(&mut self) {
        let mut served = 0;
        while served < REQUESTS {
            let Some(next) = self.layer.next() else { return };
            self.now = next;
            let mut done = std::mem::take(&mut self.done);
            self.layer.advance(next, &mut done);
            served += done.len();
            done.drain(..).for_each(|one| self.submit(one.tag.0 as usize));
            self.done = done;
        }
        black_box(self.layer.waiting());
    }
}

fn schedulers(c: &mut Criterion) {
    let mut group = c.benchmark_group("block layer, 64 processes");
    group.throughput(Throughput::Elements(REQUESTS as u64));
    for (name, _) in scheduler::NAMES {
        let mut load = Load::new(name, 64);
        group.bench_function(*name, |b| b.iter(|| load.run()));
    }
    group.finish();
}

fn processes(c: &mut Criterion) {
    let mut group = c.benchmark_group("block layer by processes");
    group.throughput(Throughput::Elements(REQUESTS as u64));
    for name in ["c-scan", "deadline", "anticipatory", "cfq"] {
        for processes in [16, 64, 256, 1024, 4096] {
            let mut load = Load::new(name, processes);
            group.bench_function(BenchmarkId::new(name, processes), |b| b.iter(|| load.run()));
        }
    }
    group.finish();
}

criterion_group!(benches, schedulers, processes);
criterion_main!(benches);
