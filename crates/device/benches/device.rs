//! The cost of the model itself: requests per second in virtual time.
//!
//! The simulator replays hundreds of thousands of requests a second, so that one should cost a few
//! microseconds at most. `cargo bench -p foreseek-device`.

#![allow(missing_docs, reason = "criterion's macro makes a function without documentation")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foreseek_device::{Build, Device, Finished, Io, IoId, Op, Profile};
use foreseek_units::{Instant, Lba, Pages, SectorSpan};
use std::hint::black_box;

/// Requests of one iteration.
const REQUESTS: u64 = 10_000;

/// A device kept at a queue depth with the requests that `lba` generates.
struct Load {
    device: Box<dyn Device>,
    depth: u64,
    now: Instant,
    sent: u64,
    flying: u64,
    done: Vec<Finished>,
}

impl Load {
    fn new(profile: &str, depth: u64) -> Self {
        let profile = Profile::builtin(profile).expect("a built-in profile");
        let device = profile.build(&Build::default()).expect("the defaults make a device");
        Self { device, depth, now: Instant::ZERO, sent: 0, flying: 0, done: Vec::new() }
    }

    fn run(&mut self, op: Op, pages: u64, lba: impl Fn(u64) -> u64) {
        let until = self.sent + REQUESTS;
        while self.sent < until {
            while self.flying < self.depth {
                let range = SectorSpan::at(Lba(lba(self.sent)), Pages(pages).sectors());
                if self.device.submit(self.now, Io { id: IoId(self.sent), op, range }).is_err() {
                    break;
                }
                self.sent += 1;
                self.flying += 1;
            }
            let Some(next) = self.device.next() else { return };
            self.now = next;
            self.device.advance(next, &mut self.done);
            self.flying -= self.done.len() as u64;
            black_box(&self.done);
            self.done.clear();
        }
    }
}

/// An address for each number, spread over the device.
fn spread(number: u64, sectors: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (sectors / 8 - 64) * 8
}

fn device(c: &mut Criterion) {
    let mut group = c.benchmark_group("device");
    group.throughput(Throughput::Elements(REQUESTS));
    let cases: [(&str, &str, u64, Op, u64); 7] = [
        ("disk/random read, depth 1", "barracuda-500g", 1, Op::Read, 0),
        ("disk/random read, depth 32", "barracuda-500g", 32, Op::Read, 0),
        ("disk/random write, depth 32", "barracuda-500g", 32, Op::Write, 0),
        ("disk/every fourth page ascending, depth 32", "barracuda-500g", 32, Op::Read, 4),
        ("raid5/random read, depth 32", "raid5-5x-15k", 32, Op::Read, 0),
        ("raid5/random write, depth 32", "raid5-5x-15k", 32, Op::Write, 0),
        ("remote/random read, depth 32", "network-volume", 32, Op::Read, 0),
    ];
    for (name, profile, depth, op, step) in cases {
        let mut load = Load::new(profile, depth);
        let sectors = load.device.capacity().get();
        group.bench_function(name, |b| {
            b.iter(|| {
                load.run(op, 1, |number| match step {
                    0 => spread(number, sectors),
                    step => number * step * 8 % (sectors - 8),
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, device);
criterion_main!(benches);
