//! The reader without a FUSE mount in front: its answers are the files' contents, for any reads, writes and
//! truncations at the same time, and for any failure below.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod reading_common;

use foreseek_mount::{Answer, Change, LearntState, ReadPath, ReadRequest, Reader, ReaderOptions, Version};
use foreseek_readahead::ServingEngine;
use foreseek_seam::{Measured, ObjectId, ProcessId};
use foreseek_storage::{HostFd, cachestat};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos, Pages, Rate};
use reading_common::{Faults, LIMIT, Lab, PAGE, Random, Scarce, contents};
use rustix::fs::Advice;
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const POLICIES: [&str; 5] = ["adaptive", "competitive", "on-demand", "aggressive", "none"];

#[test]
fn a_file_read_from_front_to_end_is_the_file_with_every_policy() {
    for policy in POLICIES {
        let lab = Lab::new(policy, Bytes::mib(16));
        let bytes = contents(3_000_007, 1);
        let file = lab.file("a", &bytes);
        let stream = lab.open(&file);
        assert!(lab.read_all(stream, 128 << 10) == bytes, "{policy}");
        let status = lab.reader.status();
        assert_eq!(status.read_bytes, bytes.len() as u64, "{policy}: {status:?}");
        if policy == "competitive" {
            assert!(status.hits + status.joined > status.reads / 2, "it prefetches: {status:?}");
            assert!(status.prefetched_bytes > 2_000_000, "{status:?}");
        }
        lab.reader.closed(stream);
        assert_eq!(lab.reader.status().streams_open, 0);
    }
}

#[test]
fn reads_past_the_end_are_empty_and_at_the_end_short() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    for length in [0usize, 1, 511, 4095, 4096, 4097, 70_000] {
        let bytes = contents(length, 2);
        let file = lab.file(&format!("f{length}"), &bytes);
        let stream = lab.open(&file);
        for (at, wanted) in
            [(0, 1 << 17), (length.saturating_sub(10), 100), (length, 10), (length + 9999, 10)]
        {
            let expected = &bytes[at.min(length)..(at + wanted).min(length)];
            assert_eq!(
                lab.read(stream, at as u64, wanted as u64).as_deref(),
                Ok(expected),
                "{length} at {at}"
            );
        }
    }
}

#[test]
fn many_readers_of_any_size_and_offset_get_the_right_bytes() {
    for policy in POLICIES {
        let lab = Lab::new(policy, Bytes::mib(8));
        let files: Vec<_> = (0..4)
            .map(|number| {
                let bytes = contents(2_500_000 + number * 1001, number as u64);
                (lab.file(&format!("f{number}"), &bytes), bytes)
            })
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..16u64 {
                let (lab, (file, bytes)) = (&lab, &files[thread as usize % 4]);
                let stream = lab.open_as(file, thread % 4 < 2);
                scope.spawn(move || lab.wander_over(stream, bytes, Random(thread + 1)));
            }
        });
    }
}

#[test]
fn a_thousand_readers_at_once_are_all_answered_in_little_memory() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let bytes = contents(4 << 20, 3);
    let file = lab.file("a", &bytes);
    let streams: Vec<_> = (0..1024).map(|_| lab.open(&file)).collect();
    let (answered, wrong) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for turn in 0..4u64 {
        for (number, stream) in streams.iter().enumerate() {
            let at = (number as u64 * 4096 * 7 + turn * 65_536) % (4 << 20);
            let end = (at + 65_536).min(4 << 20);
            let expected = bytes[at as usize..end as usize].to_vec();
            let (answered, wrong) = (Arc::clone(&answered), Arc::clone(&wrong));
            let answer = Answer::call(move |answer| {
                wrong.fetch_add(u64::from(answer != Ok(&expected)), Relaxed);
                answered.fetch_add(1, Relaxed);
            });
            let range = ByteSpan::at(ByteOffset(at), Bytes(65_536));
            lab.reader.read(ReadRequest { stream: *stream, range, pid: ProcessId(1), call: None }, answer);
        }
    }
    let limit = Instant::now() + LIMIT;
    while answered.load(Relaxed) < 4096 && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!((answered.load(Relaxed), wrong.load(Relaxed)), (4096, 0));
    assert!(lab.reader.status().memory_bytes <= 8 << 20);
}

#[test]
fn a_read_that_follows_an_acknowledged_change_sees_it() {
    [false, true].into_iter().for_each(reads_see_changes);
}

/// `writes`: the readers may write.
fn reads_see_changes(writes: bool) {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let length = 1usize << 20;
    let file = lab.file("a", &vec![0; length]);
    let block = 10_000usize;
    let ending = AtomicBool::new(false);
    // How often each block was written, as far as that was acknowledged.
    let acknowledged: Vec<AtomicU64> = (0..length / block).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (lab, file, acknowledged, ending) = (&lab, &file, &acknowledged, &ending);
            scope.spawn(move || {
                let mut random = Random(thread + 77);
                let stream = lab.open_as(file, writes);
                while !ending.load(Relaxed) {
                    let which = random.below(acknowledged.len() as u64) as usize;
                    let before = acknowledged[which].load(Relaxed);
                    let part = lab.read(stream, (which * block) as u64, block as u64).expect("it is there");
                    let newest = acknowledged[which].load(Relaxed) + 1;
                    for byte in part {
                        let fits = (before..=newest).any(|mark| mark as u8 == byte);
                        assert!(fits, "block {which} has {byte}, acknowledged was {before}");
                    }
                }
                lab.reader.closed(stream);
            });
        }
        let mut random = Random(5);
        for _ in 0..400 {
            let which = random.below(acknowledged.len() as u64) as usize;
            let mark = acknowledged[which].load(Relaxed) + 1;
            lab.write(&file, (which * block) as u64, &vec![mark as u8; block]);
            acknowledged[which].store(mark, Relaxed);
        }
        ending.store(true, Relaxed);
    });
}

#[test]
fn pages_written_after_read_ahead_are_read_again() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let mut bytes = contents(1 << 20, 14);
    let file = lab.file("a", &bytes);
    let stream = lab.open(&file);
    for at in [0, 131_072] {
        assert_eq!(lab.read(stream, at, 131_072).as_deref(), Ok(&bytes[at as usize..][..131_072]));
    }
    let limit = Instant::now() + LIMIT;
    while lab.reader.status().cached_bytes < 65_536 && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(lab.reader.status().cached_bytes >= 65_536, "{:?}", lab.reader.status());
    let at = 262_144 + 1000;
    lab.write(&file, at as u64, b"something else");
    bytes[at..at + 14].copy_from_slice(b"something else");
    assert_eq!(lab.read(stream, 262_144, 131_072).as_deref(), Ok(&bytes[262_144..][..131_072]));
}

/// A file system reads the rest of a block of which it gets a part, unless the page cache has it.
#[test]
fn pages_that_a_program_may_write_stay_in_the_page_cache() {
    let lab = Lab::new("adaptive", Bytes::mib(8));
    let bytes = contents(1 << 20, 15);
    let file = lab.file("a", &bytes);
    let fd = HostFd::new(file.file.as_raw_fd()).expect("open");
    let range = ByteSpan::at(ByteOffset(262_144), Bytes(8192)).pages();
    let kept = || cachestat(fd, range);
    rustix::fs::fadvise(&file.file, 0, None, Advice::DontNeed).expect("written");
    if kept() == Err(Errno::NOSYS) {
        println!("SKIPPED: the kernel has no cachestat");
        return;
    }
    assert_eq!(kept(), Ok(Pages::ZERO));
    for writes in [false, true] {
        let stream = lab.open_as(&file, writes);
        assert_eq!(lab.read(stream, 262_144, 8192).as_deref(), Ok(&bytes[262_144..][..8192]));
        assert_eq!(kept(), Ok(if writes { Pages(2) } else { Pages::ZERO }));
        lab.reader.closed(stream);
    }
}

#[test]
fn truncated_bytes_read_as_zero_when_the_file_grows_again() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let bytes = contents(300_000, 4);
    let file = lab.file("a", &bytes);
    let stream = lab.open(&file);
    assert_eq!(lab.read(stream, 0, 300_000).as_deref(), Ok(&bytes[..]));
    lab.cut(&file, 100_100);
    assert_eq!(lab.read(stream, 98_304, 131_072).as_deref(), Ok(&bytes[98_304..100_100]));
    lab.cut(&file, 200_000);
    let mut expected = bytes[98_304..100_100].to_vec();
    expected.resize(200_000 - 98_304, 0);
    assert_eq!(lab.read(stream, 98_304, 131_072), Ok(expected));
}

#[test]
fn a_file_changed_by_another_program_is_new_when_it_is_opened_again() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let file = lab.file("a", &contents(500_000, 5));
    let first = lab.open(&file);
    lab.read(first, 0, 131_072).expect("it is there");
    let other = contents(400_000, 6);
    std::fs::write(&file.path, &other).expect("room");
    let again = lab.open(&file);
    for at in [131_072, 0] {
        let end = (at + 131_072).min(other.len());
        assert_eq!(lab.read(again, at as u64, 131_072).as_deref(), Ok(&other[at..end]));
    }
    // The reader that was open before sees it as well.
    assert_eq!(lab.read(first, 0, 4096).as_deref(), Ok(&other[..4096]));
}

#[test]
fn an_error_below_reaches_the_readers_of_those_bytes_alone() {
    let faults = Faults::default();
    let lab = Lab::over("competitive", Bytes::mib(8), Some(faults.clone()), None);
    let bytes = contents(1 << 20, 7);
    let file = lab.file("a", &bytes);
    let bad = 100 * PAGE..101 * PAGE;
    faults.fail(bad.clone());
    let stream = lab.open(&file);
    for at in (0..bytes.len()).step_by(PAGE) {
        let answer = lab.read(stream, at as u64, PAGE as u64);
        if bad.contains(&at) {
            assert_eq!(answer, Err(Errno::IO), "at {at}");
        } else {
            assert_eq!(answer.as_deref(), Ok(&bytes[at..at + PAGE]), "at {at}");
        }
    }
    assert_eq!(lab.reader.status().failed, 1);
    // The medium is repaired, or the error was transient.
    faults.repair();
    assert_eq!(lab.read(stream, bad.start as u64, PAGE as u64).as_deref(), Ok(&bytes[bad]));
}

#[test]
fn concurrent_readers_around_an_error_get_their_bytes() {
    let faults = Faults::default();
    let lab = Lab::over("aggressive", Bytes::mib(8), Some(faults.clone()), None);
    let bytes = contents(2 << 20, 8);
    let file = lab.file("a", &bytes);
    let bad: Vec<usize> = vec![3, 4, 77, 200, 511];
    bad.iter().for_each(|page| faults.fail(page * PAGE..(page + 1) * PAGE));
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (lab, file, bytes, bad) = (&lab, &file, &bytes, &bad);
            scope.spawn(move || {
                let stream = lab.open(file);
                for at in (thread * PAGE..bytes.len() - 4 * PAGE).step_by(4 * PAGE) {
                    let (first, last) = (at / PAGE, at / PAGE + 4);
                    let answer = lab.read(stream, at as u64, 4 * PAGE as u64);
                    if bad.iter().any(|page| (first..last).contains(page)) {
                        assert_eq!(answer, Err(Errno::IO), "pages {first}..{last}");
                    } else {
                        assert!(answer.as_deref() == Ok(&bytes[at..at + 4 * PAGE]), "pages {first}..{last}");
                    }
                }
            });
        }
    });
}

#[test]
fn memory_is_given_back_under_pressure_and_reads_continue() {
    let scarce = Scarce::default();
    let lab = Lab::over("aggressive", Bytes::mib(64), None, Some(scarce.clone()));
    let bytes = contents(48 << 20, 10);
    let file = lab.file("a", &bytes);
    let streams: Vec<_> = (0..48).map(|_| lab.open(&file)).collect();
    let sweep = |turn: u64| {
        for (number, stream) in streams.iter().enumerate() {
            let at = (number as u64 * (1 << 20) + turn * 131_072) as usize;
            let part = lab.read(*stream, at as u64, 131_072).expect("it is there");
            assert!(part == bytes[at..at + 131_072]);
        }
    };
    (0..4).for_each(sweep);
    let before = lab.reader.status().memory_bytes;
    assert!(before > 7 << 20, "it fills its memory: {before}");
    scarce.set(true);
    let small = || lab.reader.status().memory_bytes <= 5 << 20;
    let limit = Instant::now() + LIMIT;
    while !small() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(small(), "{before} -> {:?}", lab.reader.status());
    (4..8).for_each(sweep);
    assert!(small(), "{:?}", lab.reader.status());
}

#[test]
fn a_reader_that_was_stopped_answers_with_errors() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let file = lab.file("a", &contents(100_000, 11));
    let stream = lab.open(&file);
    lab.reader.stop();
    assert!(lab.read(stream, 0, 4096).is_err());
    lab.reader.stop();
}

#[test]
fn a_change_of_a_file_that_is_not_open_has_no_effect() {
    let lab = Lab::new("competitive", Bytes::mib(8));
    let version = Version { length: Bytes(5), ..Version::default() };
    lab.reader.changed(Change { object: ObjectId(99), range: None, version });
    assert_eq!(lab.reader.status().failed, 0);
}

#[test]
fn an_unknown_policy_is_refused() {
    let options = ReaderOptions::new("psychic", Bytes::mib(8));
    let error = Reader::start(&options).expect_err("no such policy").to_string();
    assert!(error.contains("psychic"), "{error}");
}

#[test]
fn a_file_system_without_direct_io_is_read_nevertheless() {
    let lab = Lab::with(&ReaderOptions::new("competitive", Bytes::mib(8)), "/dev/shm", None, None);
    let bytes = contents(1_234_567, 12);
    let file = lab.file("a", &bytes);
    let stream = lab.open(&file);
    assert!(lab.read_all(stream, 100_000) == bytes);
    lab.wander(&file, &bytes, Random(1));
}

#[test]
fn the_status_shows_what_was_learnt_of_a_disk() {
    // Longer than a drive's buffer takes: such a read shows what a positioning costs.
    let slow = Faults::slow(Duration::from_millis(20));
    let lab = Lab::with(&ReaderOptions::new("on-demand", Bytes::mib(16)), "/var/tmp", Some(slow), None);
    let bytes = contents(1 << 20, 14);
    let file = lab.file("a", &bytes);
    assert!(lab.read_all(lab.open(&file), 100_000) == bytes);
    let learnt = lab.reader.status().learnt.expect("the first read was apart from others");
    assert!(learnt.samples > 0 && learnt.positioning_ms > 1.0, "{learnt:?}");
}

#[test]
fn a_real_run_replays_exactly_in_the_pure_engine() {
    assert_eq!(replayed("competitive", None), None);
    let learnt = replayed("adaptive", None).expect("it learns");
    assert!(learnt.streams.contains("class"), "{learnt:?}");
    // Files side by side tell nothing of what a positioning costs.
    let device = Measured { positioning: Nanos::from_millis(9), rate: Rate::mb_per_second(90.0) };
    let device = Some(learnt.device.unwrap_or(device));
    // The restored state is a part of the recording.
    replayed("adaptive", Some(LearntState { device, ..learnt }));
}

/// Records a run of this policy, which begins with a restored state, and replays it; returns what it has
/// learnt.
fn replayed(policy: &str, learnt: Option<LearntState>) -> Option<LearntState> {
    let folder = tempfile::tempdir().expect("a writable directory");
    let mut options = ReaderOptions::new(policy, Bytes::mib(8));
    options.learnt = learnt;
    options.record = Some(folder.path().join("recording"));
    let scarce = Scarce::default();
    let lab = Lab::with(&options, "/var/tmp", None, Some(scarce.clone()));
    let bytes = contents(6 << 20, 13);
    let files = [lab.file("a.one", &bytes), lab.file("b.two", &bytes)];
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (lab, file, bytes) = (&lab, &files[thread as usize % 2], &bytes);
            scope.spawn(move || lab.wander(file, bytes, Random(thread + 900)));
        }
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            scarce.set(true);
        });
    });
    lab.write(&files[0], 5000, b"changed");
    lab.cut(&files[1], 1 << 20);
    lab.reader.stop();
    let text = std::fs::read_to_string(options.record.as_ref().expect("set")).expect("recorded");
    let recording =
        foreseek_seam::Recording::<foreseek_readahead::serving::Settings>::open(&text).expect("a recording");
    let mut engine =
        ServingEngine::new(recording.settings().clone(), &options.costs()).expect("the same policy");
    let replayed = foreseek_seam::replay(&mut engine, &recording).expect("the same commands");
    assert!(replayed.events > 1000 && replayed.commands > 500 && !replayed.cut, "{replayed:?}");
    let learnt = lab.reader.learnt();
    let known = learnt.clone().unwrap_or_default();
    assert_eq!(engine.learning().map(|learning| learning.save()).unwrap_or_default(), known.streams);
    learnt
}
