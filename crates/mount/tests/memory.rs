//! The server's own memory: within its bound for any load. It also stays within a control group that has less
//! memory than the setting, gets a lower limit, or is shared with programs that need memory.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;

use common::{Random, TestMount, mounted, mounted_with, mounted_within, raise_descriptor_limit, wait_for};
use foreseek_mount::{Policy, client};
use foreseek_rig::{CgroupParent, MemoryGroup, Version, memory_peak};
use foreseek_units::Bytes;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

/// The server's memory beside `--memory`.
const BESIDE: Bytes = Bytes::mib(64);
/// Files that are open at a time, and their length: together twice `--memory`.
const OPEN: usize = 4096;
const LENGTH: usize = 32 << 10;
/// Readers at a time.
const READERS: usize = 1024;

/// The byte at an offset of a file, made from both.
fn byte(file: usize, at: usize) -> u8 {
    (file.wrapping_mul(131) ^ at ^ (at >> 8) ^ (at >> 16)) as u8
}

fn contents(file: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(file, at)).collect()
}

/// Runs this many threads, each with its number.
fn readers(count: usize, read: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for reader in 0..count {
            let read = &read;
            let thread = std::thread::Builder::new().stack_size(128 << 10);
            thread.spawn_scoped(scope, move || read(reader)).expect("a thread");
        }
    });
}

#[test]
fn with_thousands_of_open_files_and_readers_it_stays_within_its_bound() {
    if raise_descriptor_limit() < OPEN as u64 + 1000 {
        return println!("SKIPPED: too few descriptors for this process (ulimit -Hn)");
    }
    // All of it goes through the prefetch cache.
    let Some(mount) = mounted_with(Policy::ADAPTIVE, |options| options.walks = None) else { return };
    for file in 0..OPEN {
        fs::write(mount.source.join(file.to_string()), contents(file, LENGTH)).expect("room");
    }
    let opened = |file: usize| File::open(mount.point.join(file.to_string())).expect("opened");
    let files: Vec<File> = (0..OPEN).map(opened).collect();
    readers(READERS, |reader| {
        let mut bytes = vec![0; LENGTH / 2];
        for file in (reader..OPEN).step_by(READERS) {
            for at in [0, LENGTH / 2] {
                files[file].read_exact_at(&mut bytes, at as u64).expect("read");
                let right = (at..).zip(&bytes).all(|(at, found)| *found == byte(file, at));
                assert!(right, "file {file} at {at}");
            }
        }
    });
    let status = client::status(&mount.point).expect("it answers");
    assert_eq!((status.files_open, status.reads.failed), (OPEN as u64, 0));
    let peak = memory_peak(mount.pid());
    println!("{} MiB at most, --memory 64 MiB", peak.get() >> 20);
    assert!(peak <= Bytes::mib(64) + BESIDE, "{} MiB", peak.get() >> 20);
}

/// Files that a program in a group with little memory holds open.
const HELD: usize = 40;

#[test]
fn many_files_of_a_program_with_little_memory_are_opened_with_short_windows() {
    let Some(mount) = mounted(Policy::ADAPTIVE) else { return };
    for file in 0..HELD {
        std::fs::write(mount.source.join(file.to_string()), contents(file, 256 << 10)).expect("room");
    }
    let name = format!("{}-program", mount.point.display()).replace('/', "-");
    let group =
        match CgroupParent::find().and_then(|place| MemoryGroup::create(&place, &name, Bytes::mib(16))) {
            Ok(group) => group,
            Err(error) => return println!("SKIPPED: {error}"),
        };
    // It holds all files open until its standard input ends.
    let hold = "for file in \"$0\"/*; do exec {fd}<\"$file\" || exit 1; done; read -r answer || true";
    let mut program = group
        .command(Path::new("/bin/bash"))
        .args(["-c", hold])
        .arg(&mount.point)
        .stdin(Stdio::piped())
        .spawn()
        .expect("bash");
    let status = || client::status(&mount.point).expect("it answers");
    wait_for("open files", || status().files_open == HELD as u64);
    let seen = status();
    drop(program.stdin.take());
    assert!(program.wait().expect("it ends").success());
    if std::fs::metadata("/sys/class/bdi").is_err() {
        return println!("SKIPPED: there is no /sys/class/bdi");
    }
    // The first of them have room for whole windows.
    let short = seen.short_windows as usize;
    assert!((1..=HELD - 16).contains(&short), "{seen:?}");
    // Programs outside the group have the default window.
    wait_for("closed files", || status().files_open == 0);
    drop(File::open(mount.point.join("0")).expect("opened"));
    assert_eq!(status().short_windows as usize, short);
}

/// Reads a file that is larger than the group: each reader is a stream, from its own offset.
fn read_all_over(mount: &TestMount, expected: &[u8]) {
    const STREAMS: usize = 64;
    readers(STREAMS, |reader| {
        let file = File::open(mount.point.join("large")).expect("opened");
        let mut random = Random(reader as u64);
        let mut bytes = vec![0; 128 << 10];
        for _ in 0..4 {
            let start = random.below((expected.len() - (1 << 20)) as u64) as usize;
            for at in (start..start + (1 << 20)).step_by(bytes.len()) {
                file.read_exact_at(&mut bytes, at as u64).expect("read");
                assert!(bytes == expected[at..at + bytes.len()], "reader {reader} at {at}");
            }
        }
    });
}

#[test]
fn in_a_group_with_less_than_its_setting_it_shrinks_and_serves() {
    let limit = Bytes::mib(96);
    let large = contents(0, 128 << 20);
    for policy in [Policy::ADAPTIVE, Policy::AGGRESSIVE] {
        let fill = |source: &Path| {
            let file = File::create(source.join("large")).expect("made");
            file.write_all_at(&large, 0).and_then(|()| file.sync_all()).expect("room");
        };
        // Read at once, before the memory is checked again.
        let Some(mount) = mounted_within(policy, Bytes::mib(512), limit, fill) else { return };
        for _ in 0..2 {
            read_all_over(&mount, &large);
            forget(&mount);
        }
        let reads = || client::status(&mount.point).expect("it was not killed").reads;
        assert_eq!(reads().failed, 0);
        let usage = mount.group().usage();
        println!("{policy:?}: {usage:?}, {} MiB of frames", reads().memory_bytes >> 20);
        assert!(usage.peak <= limit, "{usage:?}");
        wait_for("frames that leave room in the group", || reads().memory_bytes < limit.get());
        assert!(reads().prefetched_bytes > 0);
    }
}

/// A server with full frames, in a group with room for them; returns their size.
fn filled(limit: Bytes, large: &[u8]) -> Option<(TestMount, Bytes)> {
    let fill = |source: &Path| {
        let file = File::create(source.join("large")).expect("made");
        file.write_all_at(large, 0).and_then(|()| file.sync_all()).expect("room");
    };
    let mount = mounted_within(Policy::AGGRESSIVE, Bytes::mib(256), limit, fill)?;
    for _ in 0..4 {
        read_all_over(&mount, large);
        forget(&mount);
    }
    let frames = frames(&mount);
    assert!(frames > Bytes::mib(48), "it was to be filled: {} MiB", frames.get() >> 20);
    Some((mount, frames))
}

/// Drops the file from the kernel's cache, so that the mount is read again.
fn forget(mount: &TestMount) {
    let file = File::open(mount.point.join("large")).expect("opened");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
}

fn frames(mount: &TestMount) -> Bytes {
    Bytes(client::status(&mount.point).expect("it was not killed").reads.memory_bytes)
}

/// Lowers the limit that far, as an administrator would. Version 1 accepts a limit only if the memory in use
/// fits, and is retried; in version 2 `memory.high` is set first.
fn lower(mount: &TestMount, limit: Bytes) {
    let group = mount.group();
    match group.version() {
        Version::V1 => wait_for("the lower limit", || {
            let step = (group.usage().now + Bytes::mib(4)).max(limit);
            let _ = group.set_limit(step);
            step == limit && group.set_limit(limit).is_ok()
        }),
        Version::V2 => {
            group.set_high(limit).expect("set");
            wait_for("use below memory.high", || group.usage().now <= limit);
            group.set_limit(limit + Bytes::mib(16)).expect("set");
        }
    }
}

#[test]
fn a_group_that_is_made_smaller_while_it_serves_makes_it_shrink() {
    let large = contents(0, 128 << 20);
    let limit = Bytes::mib(48);
    let Some((mount, before)) = filled(Bytes::mib(512), &large) else { return };
    let begun = std::time::Instant::now();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Reads continue meanwhile.
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                read_all_over(&mount, &large);
                forget(&mount);
            }
        });
        let lowered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lower(&mount, limit)));
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Err(panic) = lowered {
            std::panic::resume_unwind(panic);
        }
    });
    let after = frames(&mount);
    println!("{} MiB of frames, {} MiB {:?} later", before.get() >> 20, after.get() >> 20, begun.elapsed());
    read_all_over(&mount, &large);
    let usage = mount.group().usage();
    assert!(usage.kills == 0 && usage.now <= limit + Bytes::mib(16), "{usage:?}");
    assert!(frames(&mount) < limit, "{} MiB", frames(&mount).get() >> 20);
    assert_eq!(client::status(&mount.point).expect("it was not killed").reads.failed, 0);
}
