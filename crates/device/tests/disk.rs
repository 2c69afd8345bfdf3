//! The behaviour of a disk towards its driver: rates, random access times, skips, order.

mod common;

use common::{build, mb_per_s, one_by_one, random, read, run, write};
use foreseek_device::{Build, Kind, Op, Outcome, Profile, Queue};
use foreseek_units::{Bytes, Lba, Nanos, SectorSpan, Sectors};

fn disks() -> impl Iterator<Item = Profile> {
    Profile::builtin_names().filter_map(Profile::builtin).filter(|profile| profile.kind() == Kind::Disk)
}

/// The rate at which a reader of 128 KiB at depth 1 gets `pages` from page `start` on.
fn sequential(profile: &Profile, start: u64, pages: u64) -> f64 {
    let mut disk = profile.build(&Build::default()).expect("a disk");
    let ios: Vec<_> = (0..pages / 32).map(|i| read(start + i * 32, 32)).collect();
    let times = one_by_one(&mut *disk, Nanos::ZERO, &ios);
    // The first has to move the head there.
    mb_per_s(pages - 32, times[1..].iter().copied().sum())
}

#[test]
fn a_sequential_reader_of_small_requests_runs_at_the_medias_rate() {
    for (name, outer, inner) in [
        ("barracuda-500g", 105.0, 52.5),
        ("barracuda-500g-oldfw", 105.0, 52.5),
        ("wd-500g", 107.0, 53.5),
        ("seagate-146g", 68.4, 41.0),
        ("ibm-36g-51", 66.0, 33.0),
        ("exos-18t", 270.0, 125.0),
    ] {
        let profile = Profile::builtin(name).expect("built in");
        let pages = 16 << 10;
        let first = sequential(&profile, 0, pages);
        let last = sequential(&profile, profile.capacity().pages_floor().get() - pages, pages);
        assert!((first / outer - 1.0).abs() < 0.02, "{name}: {first} MB/s outside");
        assert!((last / inner - 1.0).abs() < 0.02, "{name}: {last} MB/s inside");
    }
}

#[test]
fn the_mean_rate_over_the_disk_is_the_stated_one() {
    for profile in disks() {
        let pages = profile.capacity().pages_floor().get();
        let samples = 64;
        let rates = (0..samples).map(|i| sequential(&profile, pages * (2 * i + 1) / (2 * samples), 4096));
        let mean = rates.sum::<f64>() / samples as f64;
        let stated = profile.sequential_rate().as_mb_per_second();
        assert!((mean / stated - 1.0).abs() < 0.02, "{}: {mean} instead of {stated} MB/s", profile.name());
    }
}

/// Calibration by total random access time: the papers' positioning time is the time of a random access, less
/// the command's overhead and the transfer of a sector.
#[test]
fn a_random_access_takes_the_positioning_time() {
    for profile in disks() {
        let mut disk = profile.build(&Build { queue: Queue::Fifo, ..Build::default() }).expect("a disk");
        let sectors = disk.capacity().get();
        let ios: Vec<_> = random(1, sectors, 20_000)
            .into_iter()
            .map(|sector| (Op::Read, SectorSpan::at(Lba(sector), Sectors(1))))
            .collect();
        // Without queueing the command's overhead is part of each access.
        let overhead = profile.command_overhead().as_millis_f64();
        let (time, done) = run(&mut *disk, 1, &ios);
        assert!(done.iter().all(|one| one.outcome == Outcome::Done));
        let each = time.as_millis_f64() / ios.len() as f64 - overhead;
        let stated = profile.positioning_time().as_millis_f64();
        assert!((each / stated - 1.0).abs() < 0.015, "{}: {each} instead of {stated} ms", profile.name());
    }
}

#[test]
fn an_ascending_pass_costs_what_reading_everything_costs() {
    for name in ["barracuda-500g", "wd-500g", "seagate-146g", "exos-18t"] {
        let region = 64 << 8;
        let whole: Vec<_> = (0..region / 32).map(|i| read(i * 32, 32)).collect();
        let (sequential, _) = run(&mut *build(name, &Build::default()), 32, &whole);
        for density in [20, 25, 30, 50, 63] {
            let dice = random(7, 100, region as usize);
            let wanted: Vec<u64> = (0..region).filter(|page| dice[*page as usize] < density).collect();
            // A kernel merges requests for neighbouring pages.
            let merged = wanted.chunk_by(|one, next| one + 1 == *next);
            let pages: Vec<_> = merged.map(|run| read(run[0], run.len() as u64)).collect();
            let (sparse, _) = run(&mut *build(name, &Build::default()), 32, &pages);
            let ratio = sparse.as_secs_f64() / sequential.as_secs_f64();
            assert!((0.9..1.1).contains(&ratio), "{name}, {density} %: {ratio}");
        }
    }
}

/// The cost of a page and of the gap before it, for a reader that skips this many pages each time.
fn skipping(name: &str, depth: usize, gap: u64) -> f64 {
    let ios: Vec<_> = (0..4000).map(|i| read(i * (gap + 1), 1)).collect();
    let (time, _) = run(&mut *build(name, &Build::default()), depth, &ios);
    time.as_millis_f64() / ios.len() as f64
}

/// The same pages, read without skips.
fn reading(name: &str, gap: u64) -> f64 {
    let pages = 4000 * (gap + 1);
    let ios: Vec<_> = (0..pages / 32).map(|i| read(i * 32, 32)).collect();
    let (time, _) = run(&mut *build(name, &Build::default()), 1, &ios);
    time.as_millis_f64() / 4000.0
}

/// ATC'09 sections 3.3 and 5.5.
#[test]
fn short_skips_cost_more_than_reading_the_gap_on_the_old_firmware_only() {
    for depth in [1, 32] {
        for gap in [1, 2, 3, 4, 5] {
            let (skip, read) =
                (skipping("barracuda-500g-oldfw", depth, gap), reading("barracuda-500g-oldfw", gap));
            assert!(
                skip > 1.2 * read,
                "gap of {gap} pages at depth {depth}: {skip} ms, reading it {read} ms"
            );
        }
        for gap in [8, 12, 16, 32, 64] {
            let (skip, read) =
                (skipping("barracuda-500g-oldfw", depth, gap), reading("barracuda-500g-oldfw", gap));
            assert!(
                (skip / read - 1.0).abs() < 0.1,
                "gap of {gap} pages at depth {depth}: {skip}, {read} ms"
            );
        }
        for gap in [3, 4, 5, 6, 7, 8, 16, 32, 64] {
            let (skip, read) = (skipping("barracuda-500g", depth, gap), reading("barracuda-500g", gap));
            assert!(
                (skip / read - 1.0).abs() < 0.1,
                "gap of {gap} pages at depth {depth}: {skip}, {read} ms"
            );
        }
    }
}

/// ATC'09 section 3.1: about five times as long from 112 KB to 1-5 MB, then a slow rise; below 1 MB
/// forward is faster than backward.
#[test]
fn skips_of_a_single_reader_cost_what_the_paper_measured() {
    let stride = |pages: i64, start: u64| {
        let count = 300.min(120_000_000 / pages.abs());
        let ios: Vec<_> = (0..count).map(|i| read(start.saturating_add_signed(i * pages), 1)).collect();
        let times =
            one_by_one(&mut *build("barracuda-500g", &Build::default()), Nanos::from_micros(50), &ios);
        times[1..].iter().map(|time| time.as_millis_f64()).sum::<f64>() / (times.len() - 1) as f64
    };
    let start = 40 << 20;
    let mean = |range: [i64; 8]| range.into_iter().map(|pages| stride(pages, 0)).sum::<f64>() / 8.0;
    let near = stride(28, 0);
    let far = mean([260, 390, 520, 650, 780, 910, 1040, 1170]);
    let farthest = mean([15, 16, 17, 18, 19, 20, 21, 22].map(|million| million * 1_000_037));
    assert!((0.9..1.4).contains(&near), "112 KB: {near} ms");
    assert!((3.5..7.0).contains(&(far / near)), "1 to 5 MB: {far} ms");
    assert!((1.5..2.5).contains(&(farthest / far)), "about 75 GB: {farthest} ms");
    for pages in [8, 16, 32, 64] {
        let (forward, backward) = (stride(pages, start), stride(-pages, start));
        assert!(forward < backward, "{pages} pages: {forward} ms forward, {backward} ms backward");
    }
}

#[test]
fn the_read_ahead_position_survives_hits_and_writes() {
    let mut disk = build("barracuda-500g", &Build::default());
    // Reads of 4 KiB from a stream, of which every sixteenth is followed by a write far away.
    let mut ios = Vec::new();
    for i in 0..2048 {
        ios.push(read(i, 1));
        if i % 16 == 15 {
            ios.push(write(50_000_000 + i, 1));
        }
    }
    let times = one_by_one(&mut *disk, Nanos::from_micros(20), &ios);
    let counters = disk.counters();
    // After each write one read at most has to go back to the media; the others are hits.
    assert!(counters.buffer_hits >= 2048 - 2 * 129, "{counters:?}");
    let slow = times.iter().filter(|time| **time > Nanos::from_millis(1)).count();
    assert!(slow <= 2 * 129, "{slow} slow requests");
}

#[test]
fn without_a_buffer_a_sequential_reader_loses_a_revolution_for_each_request() {
    let text = Profile::builtin_text("barracuda-500g").expect("built in");
    let text = text.replace("cache_segments = 16 ", "cache_segments = 0 ");
    let profile = Profile::parse("no buffer", &text).expect("a profile");
    let mut disk = profile.build(&Build::default()).expect("a disk");
    let ios: Vec<_> = (0..100).map(|i| read(i, 1)).collect();
    let times = one_by_one(&mut *disk, Nanos::ZERO, &ios);
    assert!(times[1..].iter().all(|time| time.as_millis_f64() > 8.0), "{times:?}");
    // Queued requests follow one another without a pause: the overhead ends before.
    let mut disk = profile.build(&Build::default()).expect("a disk");
    let ios: Vec<_> = (0..400).map(|i| read(i * 4, 4)).collect();
    let (time, _) = run(&mut *disk, 32, &ios);
    assert!((mb_per_s(1600, time) / 105.0 - 1.0).abs() < 0.15, "{time}");
}

#[test]
fn nearest_access_choice_beats_arrival_order() {
    let rate = |queue, depth| {
        let mut disk = build("barracuda-500g", &Build { queue, ..Build::default() });
        let pages = disk.capacity().get() / 8 - 1;
        let ios: Vec<_> = random(3, pages, 4000).into_iter().map(|page| read(page, 1)).collect();
        4000.0 / run(&mut *disk, depth, &ios).0.as_secs_f64()
    };
    let (fifo, one) = (rate(Queue::Fifo, 32), rate(Queue::Sptf, 1));
    assert!((fifo / one - 1.0).abs() < 0.05, "{fifo}, {one} reads a second");
    // A disk of 7,200 rpm does 75 to 80 reads per second alone, and about two and a half times as many with
    // 32 queued.
    assert!((70.0..85.0).contains(&one), "{one}");
    let (four, all) = (rate(Queue::Sptf, 4), rate(Queue::Sptf, 32));
    assert!(four > 1.2 * one && all > 2.0 * one && all < 3.5 * one, "{one}, {four}, {all}");
}

#[test]
fn no_request_starves_under_a_stream_of_nearer_ones() {
    let mut disk = build("barracuda-500g", &Build::default());
    let far = disk.capacity().get() / 8 - 10;
    let near = random(5, 20_000, 5000);
    let mut ios = vec![read(0, 1), read(far, 1)];
    ios.extend(near.into_iter().map(|page| read(page, 1)));
    let (_, done) = run(&mut *disk, 32, &ios);
    let at = done.iter().position(|one| one.id.0 == 1).expect("it was served");
    let limit = (foreseek_device::PASSED_OVER_LIMIT + 2) as usize * 32;
    assert!(at > 64, "it is passed over at first: {at}");
    assert!(at < limit, "it is served after {at} others");
}

#[test]
fn the_bus_limits_what_the_media_gives() {
    let profile = Profile::builtin("ibm-36g-37").expect("built in");
    let rate = sequential(&profile, 0, 8192);
    assert!((rate / 37.3 - 1.0).abs() < 0.02, "{rate} MB/s");
}

#[test]
fn a_part_of_a_disk_is_its_outer_part_and_a_fitted_one_seeks_like_the_whole() {
    let access = |options: Build| {
        let mut disk = build("barracuda-500g", &Build { queue: Queue::Fifo, ..options });
        let pages = disk.capacity().get() / 8;
        let ios: Vec<_> = random(11, pages, 5000).into_iter().map(|page| read(page, 1)).collect();
        run(&mut *disk, 1, &ios).0.as_millis_f64() / 5000.0
    };
    let whole = access(Build::default());
    let part = access(Build { size: Some(Bytes::gib(8)), ..Build::default() });
    assert!(part < 0.6 * whole, "{part}, {whole} ms");
    for size in [Bytes::mib(100), Bytes::gib(1), Bytes::gib(8), Bytes::gib(100)] {
        let fitted = access(Build { size: Some(size), fit: true, ..Build::default() });
        assert!((fitted / whole - 1.0).abs() < 0.05, "{size}: {fitted} instead of {whole} ms");
    }
    // Its sequential rate is that of the outer edge all the same.
    let mut disk =
        build("barracuda-500g", &Build { size: Some(Bytes::gib(8)), fit: true, ..Build::default() });
    let ios: Vec<_> = (0..1000).map(|i| read(i * 32, 32)).collect();
    let (time, _) = run(&mut *disk, 1, &ios);
    assert!((mb_per_s(32_000, time) / 105.0 - 1.0).abs() < 0.02, "{time}");
}

#[test]
fn unreadable_sectors_fail_reads_of_them_and_nothing_else() {
    let bad = SectorSpan::new(Lba(1000), Lba(1008));
    let mut disk = build("barracuda-500g", &Build { unreadable: vec![bad], ..Build::default() });
    let ios: Vec<_> = (0..512).map(|page| read(page, 1)).collect();
    let (_, mut done) = run(&mut *disk, 1, &ios);
    done.sort_by_key(|one| one.id);
    let failed: Vec<_> =
        done.iter().filter(|one| one.outcome == Outcome::Failed).map(|one| one.id.0).collect();
    assert_eq!(failed, [125]);
    assert_eq!(disk.counters().failed, 1);
    let times = one_by_one(
        &mut *build("barracuda-500g", &Build { unreadable: vec![bad], ..Build::default() }),
        Nanos::ZERO,
        &[write(125, 1), read(120, 10), read(0, 125)],
    );
    // It tries for ten revolutions.
    assert!(times[1].as_millis_f64() > 83.0 && times[2].as_millis_f64() < 30.0, "{times:?}");
}
