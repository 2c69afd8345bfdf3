//! The contract of every device with its driver, under random requests. Each request finishes exactly once
//! and in time, and time never runs backwards. The same calls give the same answers, and the number of the
//! driver's calls does not matter.

mod common;

use foreseek_device::{Build, Device, Finished, Full, Io, IoId, Op, Outcome, Queue};
use foreseek_units::{Bytes, Instant, Lba, Nanos, SectorSpan, Sectors};
use proptest::prelude::*;
use std::collections::HashMap;

/// A request and the time since the one before, in nanoseconds.
#[derive(Clone, Debug)]
struct Asked {
    pause: u64,
    op: Op,
    start: u64,
    length: u64,
}

const PROFILES: [&str; 8] = [
    "barracuda-500g",
    "barracuda-500g-oldfw",
    "ibm-36g-37",
    "raid0-2x-seagate",
    "raid5-5x-15k",
    "network-volume",
    "extracted",
    "raid5-extracted",
];

/// Small, so that requests meet each other.
const SIZE: Bytes = Bytes::mib(512);

fn asked() -> impl Strategy<Value = Asked> {
    let sectors = SIZE.get() / 512;
    let start = prop_oneof![0..4096u64, 0..sectors, sectors - 64..sectors + 64, Just(u64::MAX - 4096)];
    let length = prop_oneof![4 => 0..64u64, 1 => 0..4096u64];
    let pause = prop_oneof![3 => 0..200_000u64, 1 => 0..50_000_000u64, 1 => Just(0u64)];
    let op = prop_oneof![6 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Flush)];
    (pause, op, start, length).prop_map(|(pause, op, start, length)| Asked { pause, op, start, length })
}

fn options() -> impl Strategy<Value = (&'static str, Build)> {
    let queue = prop_oneof![Just(Queue::Sptf), Just(Queue::Fifo)];
    let bad = prop::collection::vec((0..8192u64, 1..300u64), 0..3);
    let failed = prop_oneof![Just(None), (0..2usize).prop_map(Some)];
    (prop::sample::select(&PROFILES[..]), queue, 1..40usize, any::<bool>(), any::<u64>(), bad, failed)
        .prop_map(|(name, queue, queue_depth, fit, seed, bad, failed_member)| {
            let span = |(start, length)| SectorSpan::at(Lba(start), Sectors(length));
            let build = Build {
                size: Some(SIZE),
                fit,
                queue,
                queue_depth,
                seed,
                unreadable: bad.into_iter().map(span).collect(),
                failed_member: failed_member.filter(|_| name.starts_with("raid")),
            };
            (name, build)
        })
}

fn device(name: &str, build: &Build) -> Box<dyn Device> {
    common::build(name, build)
}

/// Submits each request at its time, with a driver that advances the device often (`looks` > 0) or only when
/// it submits; returns the accepted and the finished requests.
fn drive(device: &mut dyn Device, asked: &[Asked], looks: u64) -> (Vec<(Instant, Io)>, Vec<Finished>) {
    let (mut now, mut accepted, mut done) = (Instant::ZERO, Vec::new(), Vec::new());
    for (id, one) in asked.iter().enumerate() {
        for look in 0..looks {
            advance(device, now + Nanos(one.pause * look / looks), &mut done);
        }
        now += Nanos(one.pause);
        advance(device, now, &mut done);
        let range = SectorSpan::at(Lba(one.start), Sectors(one.length));
        let io = Io { id: IoId(id as u64), op: one.op, range };
        match device.submit(now, io) {
            Ok(()) => accepted.push((now, io)),
            Err(Full) => assert!(accepted.len() > done.len(), "an idle device has room"),
        }
    }
    let mut last = now;
    while let Some(next) = device.next() {
        assert!(next >= last, "{next:?} lies before {last:?}");
        last = next;
        advance(device, next, &mut done);
    }
    (accepted, done)
}

fn advance(device: &mut dyn Device, now: Instant, done: &mut Vec<Finished>) {
    let before = done.len();
    device.advance(now, done);
    assert!(device.next().is_none_or(|next| next > now), "what was due is done");
    for one in &done[before..] {
        assert!(one.at <= now, "{one:?} is reported at {now:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_finishes_once_and_in_time(
        (name, build) in options(),
        asked in prop::collection::vec(asked(), 1..120),
    ) {
        let mut one = device(name, &build);
        let (accepted, done) = drive(&mut *one, &asked, 0);
        prop_assert_eq!(one.next(), None);
        prop_assert!(done.is_sorted_by_key(|one| one.at), "completions are in order of time");
        let ends: HashMap<IoId, Finished> = done.iter().map(|one| (one.id, *one)).collect();
        prop_assert_eq!(ends.len(), done.len(), "none finishes twice");
        prop_assert_eq!(done.len(), accepted.len(), "all finish");
        for (at, io) in &accepted {
            let end = ends[&io.id];
            prop_assert!(end.at >= *at);
            let beyond = !io.range.is_empty() && io.range.end.get() > SIZE.get() / 512;
            // A write to a RAID-5 also reads other strips of its rows.
            let reads_more = name.starts_with("raid5") && !build.unreadable.is_empty();
            let bad = build.unreadable.iter().any(|span| span.overlaps(io.range));
            // Written data may be in the drive's buffer, which answers a read of them.
            let written = |lba: u64| {
                accepted.iter().any(|(_, io)| io.op == Op::Write && io.range.contains(Lba(lba)))
            };
            let unwritten = build.unreadable.iter().any(|span| {
                (span.start.max(io.range.start).get()..span.end.min(io.range.end).get()).any(|lba| !written(lba))
            });
            match io.op {
                Op::Flush => prop_assert_eq!(end.outcome, Outcome::Done),
                _ if beyond => prop_assert_eq!(end.outcome, Outcome::Failed),
                Op::Read if unwritten && !name.starts_with("raid5") => {
                    prop_assert_eq!(end.outcome, Outcome::Failed);
                }
                Op::Read | Op::Write if build.failed_member.is_none() && !bad && !reads_more => {
                    prop_assert_eq!(end.outcome, Outcome::Done);
                }
                _ => {}
            }
        }
        let counters = one.counters();
        prop_assert_eq!(counters.requests, done.len() as u64);
        let failed = done.iter().filter(|one| one.outcome == Outcome::Failed).count();
        prop_assert_eq!(counters.failed, failed as u64);
        let sum = |op: Op| {
            let ok = accepted.iter().filter(|(_, io)| io.op == op && ends[&io.id].outcome == Outcome::Done);
            ok.map(|(_, io)| io.range.len().bytes()).sum::<Bytes>()
        };
        prop_assert_eq!((counters.read, counters.written), (sum(Op::Read), sum(Op::Write)));
        let end = done.last().map_or(Instant::ZERO, |one| one.at);
        prop_assert!(counters.busy <= (end - Instant::ZERO) * 5);
    }

    #[test]
    fn results_do_not_depend_on_how_often_the_driver_advances(
        (name, build) in options(),
        asked in prop::collection::vec(asked(), 1..120),
        looks in 1..5u64,
    ) {
        let (mut one, mut other) = (device(name, &build), device(name, &build));
        let rarely = drive(&mut *one, &asked, 0);
        let often = drive(&mut *other, &asked, looks);
        prop_assert_eq!(rarely, often);
        prop_assert_eq!(one.counters(), other.counters());
    }

    #[test]
    fn a_flush_waits_for_the_writes_before_it(
        (name, build) in options(),
        pages in prop::collection::vec(0..100_000u64, 1..20),
    ) {
        let mut one = device(name, &Build { queue_depth: 40, unreadable: Vec::new(), ..build });
        for (id, page) in pages.iter().enumerate() {
            let range = SectorSpan::at(Lba(page * 8), Sectors(8));
            one.submit(Instant::ZERO, Io { id: IoId(id as u64), op: Op::Write, range }).expect("room");
        }
        let id = IoId(pages.len() as u64);
        one.submit(Instant::ZERO, Io { id, op: Op::Flush, range: SectorSpan::default() }).expect("room");
        let mut done = Vec::new();
        while let Some(next) = one.next() {
            one.advance(next, &mut done);
        }
        prop_assert_eq!(done.len(), pages.len() + 1);
        prop_assert_eq!(done.last().map(|one| one.id), Some(id));
    }

    #[test]
    fn the_queue_holds_its_limit_and_not_one_more(queue_depth in 1..100usize, name in prop::sample::select(&PROFILES[..])) {
        let mut one = device(name, &Build { queue_depth, ..Build::default() });
        let mut held = 0;
        while one.submit(Instant::ZERO, Io { id: IoId(held), op: Op::Read, range: SectorSpan::at(Lba(held * 8), Sectors(8)) }).is_ok() {
            held += 1;
            prop_assert!(held <= 5 * 100, "the queue is bounded");
        }
        let expected = match name {
            "raid0-2x-seagate" => 2 * queue_depth,
            "raid5-5x-15k" => 5 * queue_depth,
            "raid5-extracted" => 4 * queue_depth,
            "network-volume" => queue_depth.max(64),
            _ => queue_depth,
        };
        prop_assert_eq!(held as usize, expected);
        let mut done = Vec::new();
        while let Some(next) = one.next() {
            one.advance(next, &mut done);
        }
        prop_assert_eq!(done.len(), expected);
    }
}

#[test]
fn a_seed_changes_the_angles_and_nothing_else_does() {
    let first = |seed| {
        let mut disk = device("barracuda-500g", &Build { seed, ..Build::default() });
        common::run(&mut *disk, 1, &[common::read(1_000_000, 1)]).0
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn a_late_driver_gets_the_true_times() {
    for name in PROFILES {
        let (mut prompt, mut late) = (device(name, &Build::default()), device(name, &Build::default()));
        let ios: Vec<_> = (0..16).map(|i| common::read(i * 1000, 1)).collect();
        let (_, done) = common::run(&mut *prompt, 32, &ios);
        for (id, (op, range)) in ios.iter().enumerate() {
            late.submit(Instant::ZERO, Io { id: IoId(id as u64), op: *op, range: *range }).expect("room");
        }
        let mut at_last = Vec::new();
        late.advance(Instant(3_600_000_000_000), &mut at_last);
        assert_eq!(at_last, done, "{name}");
    }
}

#[test]
fn a_time_before_the_last_one_counts_as_the_last_one() {
    for name in PROFILES {
        let mut one = device(name, &Build::default());
        let mut done = Vec::new();
        one.advance(Instant(1_000_000_000), &mut done);
        let range = SectorSpan::at(Lba(0), Sectors(8));
        one.submit(Instant(5), Io { id: IoId(1), op: Op::Read, range }).expect("room");
        one.advance(Instant(2_000_000_000), &mut done);
        assert!(done.len() == 1 && done[0].at > Instant(1_000_000_000), "{name}: {done:?}");
        assert!(one.counters().busy < Nanos::from_millis(100), "{name}");
    }
}

#[test]
fn a_request_for_the_whole_device_takes_what_a_pass_over_it_takes() {
    for name in PROFILES {
        let profile = common::profile(name);
        let mut one = device(name, &Build { size: Some(SIZE), ..Build::default() });
        let (time, done) = common::run(&mut *one, 1, &[common::read(0, SIZE.pages_floor().get())]);
        assert_eq!(done[0].outcome, Outcome::Done);
        let rate = SIZE.get() as f64 / time.as_secs_f64();
        let expected = profile.sequential_rate().as_bytes_per_second();
        assert!((0.75..1.4).contains(&(rate / expected)), "{name}: {rate}");
    }
}
