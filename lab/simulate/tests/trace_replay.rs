//! Replay on a device with a constant time of a millisecond, where the result is known.

use foreseek_device::{Build, Counters, Device, Finished, Full, Io, Outcome, Profile};
use foreseek_simulate::block::{self, BlockLayer, scheduler};
use foreseek_simulate::experiment::SetUp;
use foreseek_simulate::machine::{Machine, Parts, Period, reclaim};
use foreseek_simulate::trace::replay::{Accesses, Addresses, Loop, Outcome as Replayed, through_block};
use foreseek_simulate::trace::{Reader, Summary, TraceError};
use foreseek_units::{Bytes, DeviceCosts, Instant, Lba, Nanos, SectorSpan, Sectors};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MILLISECOND: Nanos = Nanos::from_millis(1);

/// A device of 1 GiB that takes a millisecond, for any number of concurrent requests.
#[derive(Default)]
struct Constant {
    flying: VecDeque<(Instant, Io)>,
    seen: Arc<std::sync::Mutex<Vec<(Instant, SectorSpan)>>>,
}

impl Device for Constant {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        assert!(io.range.end <= Lba(Device::capacity(self).get()), "{:?}", io.range);
        self.seen.lock().expect("one thread").push((now, io.range));
        self.flying.push_back((now + MILLISECOND, io));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.flying.front().map(|(at, _)| *at)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while self.flying.front().is_some_and(|(at, _)| *at <= now) {
            let Some((at, io)) = self.flying.pop_front() else { return };
            done.push(Finished { id: io.id, at, outcome: Outcome::Done });
        }
    }

    fn capacity(&self) -> Sectors {
        Bytes::gib(1).sectors_floor()
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

fn summary(text: &str) -> Result<Summary, TraceError> {
    Summary::of(Reader::new("trace", text.as_bytes(), None)?, &mut |_| {})
}

fn replay_on(device: Constant, text: &str, mode: Loop, wrap: bool) -> Result<Replayed, TraceError> {
    let summary = summary(text)?;
    let addresses = Addresses::new(&summary, device.capacity(), wrap)?;
    let settings = block::Settings { in_device: 64, ..block::Settings::LINUX_2_6_18 };
    let scheduler = scheduler::by_name("noop").expect("there is one");
    let block = BlockLayer::new(settings, scheduler, Box::new(device));
    let reader = Reader::new("trace", text.as_bytes(), None)?;
    through_block(reader, &summary, &addresses, block, mode, &mut |_| {})
}

fn replay(text: &str, mode: Loop) -> Result<Replayed, TraceError> {
    replay_on(Constant::default(), text, mode, false)
}

#[test]
fn an_open_loop_keeps_the_recorded_times() {
    let device = Constant::default();
    let seen = Arc::clone(&device.seen);
    let text = "5.0 0 1000 8 1\n5.25 0 2000 8 1\n9.0 0 3000 8 1\n";
    let outcome = replay_on(device, text, Loop::Open, false).expect("valid");
    let at: Vec<u64> = seen.lock().expect("one thread").iter().map(|(at, _)| at.get()).collect();
    assert_eq!(at, [0, 250_000, 4_000_000]);
    assert_eq!(outcome.time, Nanos::from_millis(5));
    assert_eq!((outcome.responses.count, outcome.responses.mean), (3, MILLISECOND));
    let off = outcome.responses.p99.get().abs_diff(MILLISECOND.get());
    assert!(off < 1000, "to three digits: {}", outcome.responses.p99);
    assert_eq!(outcome.recorded, None);
}

#[test]
fn a_closed_loop_thinks_after_each_answer() {
    // Recorded: 5 ms for each request. Replayed: 1 ms, and the same think time.
    let text = "R Miss 1000 8 5000.0 2000.0\nR Miss 9000 8 5000.0 3000.0\nW Miss 100 8 5000.0 0.0\n";
    let outcome = replay(text, Loop::Closed).expect("valid");
    assert_eq!(outcome.time, Nanos::from_millis(2 + 1 + 3 + 1 + 1));
    assert_eq!(outcome.recorded.map(|times| times.mean), Some(Nanos::from_millis(5)));
    assert!(matches!(replay(text, Loop::Open), Err(TraceError::NoTimes { .. })));
}

#[test]
fn recorded_response_times_are_no_thinking() {
    // The second request came 0.9 ms after the first was complete.
    let text = "10000,h,0,Read,0,4096,1000\n20000,h,0,Read,81920,4096,1000\n";
    let outcome = replay(text, Loop::Closed).expect("valid");
    assert_eq!(outcome.time, Nanos(1_000_000 + 900_000 + 1_000_000));
}

#[test]
fn devices_lie_one_behind_the_other_and_beyond_the_end_is_refused() {
    let text = "1 7 0 8 1\n2 3 2047 2 1\n3 7 16 8 1\n";
    let of = summary(text).expect("valid");
    let capacity = Bytes::gib(1).sectors_floor();
    let addresses = Addresses::new(&of, capacity, false).expect("it fits");
    let reader = Reader::new("trace", text.as_bytes(), None).expect("valid");
    let starts: Vec<u64> =
        reader.map(|record| addresses.sectors(&record.expect("valid")).start.get()).collect();
    // Device 3 is first; it reaches slightly beyond a mebibyte, so that device 7 begins at two.
    assert_eq!(starts, [4096, 2047, 4096 + 16]);

    let far = "1 0 4000000 8 1\n";
    let error = replay(far, Loop::Open).expect_err("2 GB into 1 GiB").to_string();
    assert!(error.contains("1.9 GiB") && error.contains("1 GiB") && error.contains("wrap"), "{error}");
    let wrapped = replay_on(Constant::default(), far, Loop::Open, true).expect("wrapped");
    assert_eq!(wrapped.responses.count, 1);
}

#[test]
fn a_malformed_line_ends_a_replay_with_its_number() {
    let valid = summary("1 0 8 8 1\n").expect("valid");
    let addresses = Addresses::new(&valid, Sectors(1 << 20), false).expect("it fits");
    let block = BlockLayer::new(
        block::Settings::LINUX_2_6_18,
        scheduler::by_name("noop").expect("there is one"),
        Box::new(Constant::default()),
    );
    let reader = Reader::new("trace", &b"1 0 8 8 1\n1 0 8 8\n"[..], None).expect("valid head");
    let error = through_block(reader, &valid, &addresses, block, Loop::Closed, &mut |_| {});
    assert!(error.expect_err("malformed").to_string().contains("line 2"));
}

/// Three reads of one file; the third reads what the first two have brought into memory.
const FIO: &str = "fio version 2 iolog\nf add\nf open\nf read 0 65536\nf wait 1000 0\nf read 65536 65536\n\
    g read 0 4096\nf read 0 131072\nf close\n";

#[test]
fn through_the_page_cache_what_was_read_is_a_hit() {
    let summary = summary(FIO).expect("valid");
    let set_up = SetUp::Tr840;
    let profile = Profile::builtin(set_up.device()).expect("built in");
    let device = profile.build(&Build::default()).expect("a device");
    let costs: Arc<dyn DeviceCosts> = Arc::new(profile);
    let addresses = Addresses::new(&summary, device.capacity(), false).expect("it fits");
    let reader = Reader::new("trace", FIO.as_bytes(), None).expect("valid");
    let workload = Accesses::new(reader, &summary).expect("small");
    let scheduler = scheduler::by_name(set_up.scheduler()).expect("there is one");
    let machine = Machine::new(Parts {
        settings: set_up.machine(),
        block: BlockLayer::new(set_up.block(), scheduler, device),
        prefetcher: foreseek_kernels::by_name("none", &set_up.prefetch(), &costs).expect("there is one"),
        reclaim: Box::new(reclaim::LinuxLists::linux_2_6(&set_up.machine().memory)),
        extents: Accesses::extents(&summary, &addresses),
        workload: Box::new(workload),
        concurrency: 1,
        seed: 1,
    })
    .expect("a machine");
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(100) };
    let report = machine.run(period, &mut |_| {}).expect("it ends");
    assert_eq!(report.counters.read, Bytes(65_536 * 2 + 4096 + 131_072));
    // Each of the first three reads misses its first page and waits for the others with it.
    let fetched = report.counters.demanded + report.counters.prefetched;
    assert_eq!((report.counters.misses.get(), fetched.get()), (3, 33));
    assert_eq!(report.counters.hits.get() + report.counters.late.get(), 62);
    assert_eq!(report.responses.count, 4);
    // The pause of 1 ms is no response time.
    assert!(report.responses.mean * 4 < report.time);
}

/// Requests of some processes: process, time (ms), address.
fn requests() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    prop::collection::vec((0..5u32, 0..40u64, 0..100_000u64), 1..80).prop_map(|mut requests| {
        requests.sort_by_key(|(_, at, _)| *at);
        requests
    })
}

fn blkparse(requests: &[(u32, u64, u64)]) -> String {
    // Far apart, so that nothing is merged.
    let line = |(n, (pid, ms, lba)): (usize, &(u32, u64, u64))| {
        format!("8,0 0 {n} {}.{:03} {pid} Q R {} + 8 [p]\n", ms / 1000, ms % 1000, lba * 16)
    };
    requests.iter().enumerate().map(line).collect()
}

proptest! {
    #[test]
    fn a_closed_loop_is_each_processs_sum(requests in requests()) {
        let outcome = replay(&blkparse(&requests), Loop::Closed).expect("valid");
        let origin = requests[0].1;
        // Naively: the time between two requests of a process is think time, an answer takes 1 ms.
        let mut over: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (pid, at, _) in &requests {
            let (end, last) = over.get(pid).copied().unwrap_or((0, origin));
            over.insert(*pid, (end + (at - last) + 1, *at));
        }
        let longest = over.values().map(|(end, _)| *end).max().expect("some");
        prop_assert_eq!(outcome.time, Nanos::from_millis(longest));
        prop_assert_eq!(outcome.responses.count, requests.len() as u64);
        prop_assert_eq!(outcome.responses.longest, MILLISECOND);
    }

    #[test]
    fn wrapped_requests_stay_on_the_device(
        requests in prop::collection::vec((0..3u32, 0..1u64 << 50, 1..1u64 << 20), 1..20),
        capacity in 1..100_000u64,
    ) {
        let line = |(asu, lba, size): &(u32, u64, u64)| format!("{asu},{lba},{size},R,0.5\n");
        let text: String = requests.iter().map(line).collect();
        let of = summary(&text).expect("valid");
        let addresses = Addresses::new(&of, Sectors(capacity), true).expect("wrapped");
        for record in Reader::new("trace", text.as_bytes(), None).expect("valid") {
            let sectors = addresses.sectors(&record.expect("valid"));
            prop_assert!(sectors.end.get() <= capacity && !sectors.is_empty());
        }
    }
}
