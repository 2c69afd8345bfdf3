//! The effects of an extracted drive's keys: overheads by kind and by the command before, write cache, zero
//! latency, settling, read-ahead by tracks.

mod common;

use common::{one_by_one, random, run};
use foreseek_device::{Build, Device, Io, IoId, Op, Outcome, Profile};
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors};

/// The tests' drive with lines of its profile replaced.
fn drive(changes: &[(&str, &str)]) -> Box<dyn Device> {
    let mut text = include_str!("common/extracted.toml").to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let profile = Profile::parse("extracted", &text).unwrap_or_else(|error| panic!("{error}"));
    profile.build(&Build::default()).expect("a disk")
}

/// A pause in which everything that the drive does by itself ends; not a whole number of revolutions.
const LONG: Nanos = Nanos::from_micros(197_310);
/// A cylinder of the first zone has 4 x 200 sectors, of which five are spare: the first track holds 195,
/// the others 200. With the 400 reserved ones the twelfth cylinder begins here.
const CYLINDER: u64 = 795;
const TWELFTH: u64 = 11 * CYLINDER - 400;

fn sectors(op: Op, start: u64, length: u64) -> (Op, SectorSpan) {
    (op, SectorSpan::at(Lba(start), Sectors(length)))
}

fn micros(times: &[Nanos]) -> Vec<f64> {
    times.iter().map(|time| time.as_micros_f64().round()).collect()
}

/// 8 sectors take 204.8 us over a bus of 20 MB/s.
#[test]
fn overheads_depend_on_kind_hit_and_the_command_before() {
    let script = [
        sectors(Op::Read, 5000, 8),
        sectors(Op::Read, 5008, 8),
        sectors(Op::Write, 900_000, 8),
        sectors(Op::Write, 100_000, 8),
        sectors(Op::Read, 100_000, 8),
    ];
    let times = micros(&one_by_one(&mut *drive(&[]), LONG, &script));
    // A read hit: 70 + bus + 20. Writes that the cache accepts: 400 after a read, 100 after a write. A read
    // of written data: 200 after a write.
    assert_eq!(times[1..], [295.0, 605.0, 305.0, 425.0]);
    // An overhead that is missing is the command's: a miss takes at least 300 + bus.
    assert!(times[0] > 505.0);
}

#[test]
fn without_a_write_cache_a_write_takes_its_time_on_the_media() {
    let off = [
        ("write_cache_ranges = 3", "write_cache_ranges = 0"),
        ("write_cache_sectors = 900", "write_cache_sectors = 0"),
    ];
    let writes: Vec<_> = random(5, 1_000_000, 50).into_iter().map(|at| sectors(Op::Write, at, 8)).collect();
    let mean = |device: &mut dyn Device| {
        one_by_one(device, LONG, &writes).iter().map(|time| time.as_millis_f64()).sum::<f64>() / 50.0
    };
    let (cached, through) = (mean(&mut *drive(&[])), mean(&mut *drive(&off)));
    assert!(cached < 0.4 && through > 6.0, "{cached}, {through} ms");
}

#[test]
fn the_cache_holds_its_ranges_and_the_next_write_waits() {
    let writes: Vec<_> = (0..5).map(|i| sectors(Op::Write, i * 200_000, 8)).collect();
    let (_, done) = run_ready(&mut *drive(&[]), &writes);
    let times: Vec<f64> = done.iter().map(|at| at.as_millis_f64()).collect();
    // Three ranges are accepted at once; the others wait for room, a seek and half a rotation each.
    assert!(times[2] < 2.0 && times[3] > 2.0 && times[4] > times[3] + 2.0, "{times:?}");
    // Adjacent writes are one range: only sectors limit them.
    let writes: Vec<_> = (0..20).map(|i| sectors(Op::Write, 40_000 + i * 8, 8)).collect();
    let (_, done) = run_ready(&mut *drive(&[]), &writes);
    assert!(done.last().is_some_and(|at| at.as_millis_f64() < 10.0), "{done:?}");
}

/// Submits all at once; returns when each was done, in order of submission.
fn run_ready(device: &mut dyn Device, ios: &[(Op, SectorSpan)]) -> (Instant, Vec<Nanos>) {
    let mut done = Vec::new();
    for (id, (op, range)) in ios.iter().enumerate() {
        device.submit(Instant::ZERO, Io { id: IoId(id as u64), op: *op, range: *range }).expect("room");
    }
    while let Some(next) = device.next() {
        device.advance(next, &mut done);
    }
    assert!(done.iter().all(|one| one.outcome == Outcome::Done));
    let last = done.last().map_or(Instant::ZERO, |one| one.at);
    done.sort_by_key(|one| one.id);
    (last, done.iter().map(|one| one.at - Instant::ZERO).collect())
}

#[test]
fn a_flush_waits_until_cached_writes_are_on_the_media() {
    let ios = [sectors(Op::Write, 900_000, 8), sectors(Op::Write, 100_000, 8), sectors(Op::Flush, 0, 0)];
    let (_, done) = run_ready(&mut *drive(&[]), &ios);
    assert!(done[1].as_millis_f64() < 1.5, "{done:?}");
    // Two seeks and two waits.
    assert!(done[2].as_millis_f64() > 5.0, "{done:?}");
    let idle = run_ready(&mut *drive(&[]), &ios[2..]).1;
    assert!(idle[0].as_millis_f64() < 1.0, "nothing to wait for: {idle:?}");
}

#[test]
fn cached_writes_let_reads_go_first() {
    let mut ios: Vec<_> = (0..3).map(|i| sectors(Op::Write, 300_000 * i, 8)).collect();
    ios.push(sectors(Op::Read, 600_000, 8));
    let (last, done) = run_ready(&mut *drive(&[]), &ios);
    // At most one write is in flight when the read becomes ready.
    assert!(done[3] < Nanos::from_millis(40) && last - Instant::ZERO >= done[3], "{done:?}");
}

/// Reading a whole track costs a revolution wherever the head arrives.
#[test]
fn zero_latency_reads_a_track_in_a_revolution() {
    let tracks: Vec<_> =
        random(3, 500, 80).into_iter().map(|i| sectors(Op::Read, TWELFTH + i * CYLINDER, 195)).collect();
    let mean = |zero_latency: &str| {
        let changes = [
            ("zero_latency = true", zero_latency),
            ("bus_rate_mb_per_s = 20.0", "bus_rate_mb_per_s = 2000.0"),
        ];
        let times = one_by_one(&mut *drive(&changes), LONG, &tracks);
        times.iter().map(|time| time.as_millis_f64()).sum::<f64>() / tracks.len() as f64
    };
    let (with, without) = (mean("zero_latency = true"), mean("zero_latency = false"));
    assert!(without > with + 1.0, "{with}, {without} ms");
}

#[test]
fn settling_is_added_where_the_profile_says_so() {
    let reads: Vec<_> = random(8, 1_000_000, 300).into_iter().map(|at| sectors(Op::Read, at, 8)).collect();
    let mean = |changes: &[(&str, &str)], ios: &[(Op, SectorSpan)]| {
        let times = one_by_one(&mut *drive(changes), LONG, ios);
        times.iter().map(|time| time.as_millis_f64()).sum::<f64>() / ios.len() as f64
    };
    // A rotational wait is random for each access, so that means differ by about the settling.
    let near: Vec<_> =
        random(4, CYLINDER - 8, 300).into_iter().map(|at| sectors(Op::Read, TWELFTH + at, 8)).collect();
    let no_cache = ("cache_segments = 3", "cache_segments = 0");
    let resettled = mean(&[no_cache, ("resettle_ms = 0.5", "resettle_ms = 3.0")], &near);
    let plain = mean(&[no_cache, ("resettle_ms = 0.5", "resettle_ms = 0.0")], &near);
    assert!(resettled > plain + 1.0, "{plain}, {resettled} ms");
    let far = |settle: &str| mean(&[("write_settle_ms = 0.25", settle)], &reads);
    assert_eq!(
        far("write_settle_ms = 0.25"),
        far("write_settle_ms = 5.0"),
        "reads do not settle for writing"
    );
}

/// A drive that reads ahead by tracks stops at the end of the track, and continues after a stream.
#[test]
fn read_ahead_ends_where_the_profile_states() {
    let rule = |rule: &str| format!("read_ahead = \"{rule}\"");
    let hits = |until: &str, next: u64| {
        let to = rule(until);
        let mut device = drive(&[
            ("read_ahead = \"next-track\"", &to),
            ("cache_segment_sectors = 321", "cache_segment_sectors = 2000"),
        ]);
        let script = [sectors(Op::Read, TWELFTH + 32, 8), sectors(Op::Read, TWELFTH + next, 8)];
        one_by_one(&mut *device, LONG, &script);
        device.counters().buffer_hits
    };
    for (until, hit, miss) in [
        ("none", 32, 40),
        ("track", 150, 300),
        ("cylinder", 700, 900),
        ("segment", 900, 2100),
        ("next-track", 150, 300),
    ] {
        assert_eq!((hits(until, hit), hits(until, miss)), (1, 0), "{until}");
    }
}

#[test]
fn remapped_and_skewed_sectors_are_where_the_profile_puts_them() {
    let whole = Sectors(640_000_000 / 512);
    let mut device = drive(&[]);
    assert_eq!(device.capacity(), whole);
    let (_, done) = run(&mut *device, 1, &[sectors(Op::Read, 590, 8), sectors(Op::Read, whole.get() - 8, 8)]);
    assert_eq!(done.len(), 2);
}

/// To the nanosecond, as in `golden.rs`: a change here is a change of every result with such a drive.
#[test]
fn a_script_takes_what_it_took() {
    let script = [
        sectors(Op::Read, 0, 8),
        sectors(Op::Read, 8, 64),
        sectors(Op::Read, 1_000_000, 16),
        sectors(Op::Write, 1_000_016, 200),
        sectors(Op::Write, 5_000, 8),
        sectors(Op::Read, 5_004, 4),
        sectors(Op::Read, 600, 400),
        sectors(Op::Read, 700_000, 1),
    ];
    let times: Vec<f64> = one_by_one(&mut *drive(&[]), Nanos::from_micros(100), &script)
        .iter()
        .map(|time| time.as_micros_f64())
        .collect();
    assert_eq!(times, GOLDEN);
}

const GOLDEN: [f64; 8] = [9_178.933, 2_838.061, 16_358.332, 5_520.0, 304.8, 322.4, 47_744.465, 19_240.277];

/// Sectors before the first read's data on its track are kept only if the drive reads on arrival.
#[test]
fn a_drive_that_reads_on_arrival_keeps_sectors_before_the_data() {
    let on = ("read_ahead = ", "reads_on_arrival = true\nread_ahead = ");
    let hits = |changes: &[(&str, &str)]| {
        let mut hits = 0;
        for i in 0..40 {
            // A pause of a fractional number of revolutions before each, so that the head arrives everywhere.
            let track = TWELFTH + i * CYLINDER;
            let script = [sectors(Op::Read, track + 150, 4), sectors(Op::Read, track + 140, 4)];
            let pause = LONG + Nanos::from_micros(137 * i);
            let times = one_by_one(&mut *drive(changes), pause, &script);
            hits += u32::from(times[1] < Nanos::from_micros(400));
        }
        hits
    };
    assert_eq!(hits(&[]), 0);
    // The head arrives behind the second one's data, but before the first one's, once in twenty.
    assert!((34..40).contains(&hits(&[on])), "{}", hits(&[on]));
}
