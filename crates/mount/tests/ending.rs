//! The end of mounts: in order, by force, by a kill; and the state afterwards.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]
#![allow(unsafe_code, reason = "mappings")]

mod common;

use common::{LIMIT, Random, mounted, wait_for};
use foreseek_mount::{Policy, Settings, client, serve};
use foreseek_server::mount_table::mounted_on;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Threads that write until the server is killed.
const WRITERS: usize = 4;
/// Writes that must be acknowledged before the kill.
const WRITES: u64 = 2000;

/// Acknowledged writes: offset and byte.
type Acknowledged = BTreeMap<u64, u8>;

/// Writes single bytes all over a file, and returns the acknowledged ones, until the first error.
fn write_until_it_fails(file: &File, seed: u64, count: &AtomicU64) -> Acknowledged {
    let mut random = Random(seed);
    let mut acknowledged = Acknowledged::new();
    loop {
        let (at, byte) = (random.below(1 << 20), random.next() as u8);
        if file.write_all_at(&[byte], at).is_err() {
            // This write may or may not be in the file.
            acknowledged.remove(&at);
            return acknowledged;
        }
        acknowledged.insert(at, byte);
        count.fetch_add(1, SeqCst);
    }
}

/// Appends lines and flushes now and then, until the first error; returns how many were acknowledged.
fn append_until_it_fails(mut log: File, writer: usize, count: &AtomicU64) -> usize {
    for line in 0.. {
        let written = log.write_all(format!("writer {writer} line {line}\n").as_bytes());
        if written.is_err() || (line % 16 == 0 && log.sync_data().is_err()) {
            return line;
        }
        count.fetch_add(1, SeqCst);
    }
    unreachable!("the server is killed before")
}

/// The pages of a file that is stored into.
const PAGES: u64 = 64;

/// Stores pages through a mapping and flushes each, until the first error.
fn store_until_it_fails(file: &File, seed: u64, count: &AtomicU64) -> Acknowledged {
    let (length, all) = ((PAGES << 12) as usize, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping at a place that the kernel chooses.
    let map = unsafe { mmap(std::ptr::null_mut(), length, all, MapFlags::SHARED, file, 0) }.expect("mapped");
    // A store into a mapping whose server is dead would end this process; through this file it is an error.
    let memory = File::options().write(true).open("/proc/self/mem").expect("Linux has it");
    let mut random = Random(seed);
    let mut acknowledged = Acknowledged::new();
    loop {
        let (at, byte) = (random.below(PAGES) << 12, random.next() as u8);
        let place = map.wrapping_byte_add(at as usize);
        let stored = memory.write_all_at(&[byte; 4096], place as u64).is_ok();
        // SAFETY: the page is one of the mapping's, which is unmapped below.
        if !stored || unsafe { msync(place, 4096, MsyncFlags::SYNC) }.is_err() {
            acknowledged.remove(&at);
            // SAFETY: it is ours and not used any more.
            unsafe { munmap(map, length) }.expect("unmapped");
            return acknowledged;
        }
        acknowledged.insert(at, byte);
        count.fetch_add(1, SeqCst);
    }
}

#[test]
fn flushed_appends_and_stores_outlive_a_killed_server() {
    for policy in [Policy::ADAPTIVE, Policy::PLAIN] {
        let Some(mut mount) = mounted(policy) else { return };
        let (appended, stored) = (AtomicU64::new(0), AtomicU64::new(0));
        let append = File::options().append(true).create(true).clone();
        let (lines, pages) = std::thread::scope(|scope| {
            let appenders: Vec<_> = (0..3)
                .map(|writer| {
                    let log = append.open(mount.point.join("log")).expect("opened");
                    let count = &appended;
                    scope.spawn(move || append_until_it_fails(log, writer, count))
                })
                .collect();
            let storers: Vec<_> = (0..2)
                .map(|writer| {
                    let path = mount.point.join(format!("stored {writer}"));
                    let file = File::options().read(true).write(true).create_new(true).open(path);
                    let (file, count) = (file.expect("made"), &stored);
                    // Here, as the server may be dead when the thread begins.
                    file.set_len(PAGES << 12).expect("set");
                    scope.spawn(move || store_until_it_fails(&file, writer, count))
                })
                .collect();
            wait_for("appended lines and stored pages", || {
                appended.load(SeqCst) >= 300 && stored.load(SeqCst) >= 100
            });
            assert!(!mount.signal(Signal::KILL));
            let lines: Vec<usize> = appenders.into_iter().map(|one| one.join().expect("no panic")).collect();
            let pages: Vec<_> = storers.into_iter().map(|one| one.join().expect("no panic")).collect();
            (lines, pages)
        });
        let log = fs::read_to_string(mount.source.join("log")).expect("text");
        assert!(log.ends_with('\n'), "whole lines");
        for (writer, acknowledged) in lines.into_iter().enumerate() {
            let of_writer = log.lines().filter(|line| line.starts_with(&format!("writer {writer} ")));
            let there: Vec<&str> = of_writer.collect();
            // The last one may or may not be in the file.
            assert!((acknowledged..=acknowledged + 1).contains(&there.len()), "{policy:?} {acknowledged}");
            let in_order =
                (0..).zip(&there).all(|(number, line)| **line == format!("writer {writer} line {number}"));
            assert!(in_order, "{policy:?}: each once and in order");
        }
        for (writer, acknowledged) in pages.iter().enumerate() {
            let bytes = fs::read(mount.source.join(format!("stored {writer}"))).expect("read");
            for (at, byte) in acknowledged {
                let page = &bytes[*at as usize..][..4096];
                assert!(page.iter().all(|found| found == byte), "{policy:?}: page at {at} of {writer}");
            }
        }
    }
}

#[test]
fn a_killed_server_loses_nothing_and_leaves_no_program_waiting() {
    for policy in [Policy::PLAIN, Policy::COMPETITIVE] {
        let Some(mut mount) = mounted(policy) else { return };
        fs::write(mount.source.join("read"), vec![1; 4 << 20]).expect("written");
        let count = Arc::new(AtomicU64::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let file = File::create(mount.point.join(format!("written {number}"))).expect("made");
                let count = Arc::clone(&count);
                std::thread::spawn(move || write_until_it_fails(&file, number as u64, &count))
            })
            .collect();
        let reader = {
            let (path, ended) = (mount.point.join("read"), Arc::clone(&ended));
            std::thread::spawn(move || {
                while !ended.load(SeqCst) {
                    let _ = fs::read(&path);
                }
            })
        };
        wait_for("writes", || count.load(SeqCst) >= WRITES);
        assert!(!mount.signal(Signal::KILL));
        let since = Instant::now();
        let acknowledged: Vec<_> =
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
        ended.store(true, SeqCst);
        reader.join().expect("no panic");
        assert!(since.elapsed() < LIMIT, "they end");
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let file = File::open(mount.source.join(format!("written {number}"))).expect("opened");
            for (at, byte) in acknowledged {
                let mut found = [0];
                file.read_exact_at(&mut found, *at).expect("read");
                assert_eq!(found[0], *byte, "at {at} of {number}");
            }
        }
        assert!(fs::read(mount.point.join("read")).is_err(), "no server is left");
        assert!(matches!(client::status(&mount.point), Err(foreseek_mount::Error::Dead(_))));
        let listed = client::list().expect("listed");
        let health = listed.iter().find(|listed| listed.mount_point == mount.point).expect("listed").health;
        assert_eq!(health, client::Health::Dead);
        // The mount point is freed and used again.
        mount.start();
        assert_eq!(fs::read(mount.point.join("read")).expect("read").len(), 4 << 20);
    }
}

#[test]
fn a_signal_unmounts_and_leaves_nothing_behind() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Some(mut mount) = mounted(Policy::PLAIN) else { return };
        fs::write(mount.point.join("a"), "text").expect("written");
        assert!(mount.signal(signal), "it ends well");
        assert!(mounted_on(&mount.point).is_none());
        assert!(fs::read_dir(&mount.point).expect("read").next().is_none());
        assert_eq!(fs::read_to_string(mount.source.join("a")).expect("read"), "text");
        assert!(matches!(client::status(&mount.point), Err(foreseek_mount::Error::NotMounted(_))));
    }
}

#[test]
fn open_files_stay_usable_while_it_ends() {
    let Some(mut mount) = mounted(Policy::PLAIN) else { return };
    fs::write(mount.source.join("read"), vec![7; 1 << 20]).expect("written");
    let path = mount.point.join("a");
    let file = File::options().read(true).write(true).create_new(true).open(path).expect("opened");
    let reader = File::open(mount.point.join("read")).expect("opened");
    file.write_all_at(b"before", 0).expect("written");
    mount.send(Signal::TERM);
    wait_for("the mount to be out of the tree", || mounted_on(&mount.point).is_none());
    file.write_all_at(b" after", 6).expect("written");
    let mut text = [0; 12];
    file.read_exact_at(&mut text, 0).expect("read");
    assert_eq!(&text, b"before after");
    let mut bytes = vec![0; 1 << 20];
    reader.read_exact_at(&mut bytes, 0).expect("read");
    assert!(bytes.iter().all(|byte| *byte == 7));
    drop((file, reader));
    assert!(mount.wait(), "it ends once they are closed");
    assert_eq!(fs::read(mount.source.join("a")).expect("read"), b"before after");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let Some(mut mount) = mounted(Policy::PLAIN) else { return };
    let file = File::create(mount.point.join("a")).expect("made");
    mount.send(Signal::TERM);
    wait_for("the mount to be out of the tree", || mounted_on(&mount.point).is_none());
    assert!(mount.signal(Signal::TERM));
    assert!(file.write_all_at(b"x", 0).is_err());
}

#[test]
fn unmounting_by_hand_ends_the_server() {
    let Some(mut mount) = mounted(Policy::PLAIN) else { return };
    rustix::mount::unmount(&mount.point, rustix::mount::UnmountFlags::empty()).expect("unmounted");
    assert!(mount.wait());
    assert!(matches!(client::status(&mount.point), Err(foreseek_mount::Error::NotMounted(_))));
}

#[test]
fn a_server_of_a_version_with_other_directory_names_is_found() {
    let Some(mut mount) = mounted(Policy::PLAIN) else { return };
    let pid = client::status(&mount.point).expect("it answers").pid;
    let places = foreseek_server::run_directory().join("mounts");
    let its = |place: &PathBuf| {
        fs::read_to_string(place.join("record.json"))
            .is_ok_and(|record| record.contains(&format!("\"pid\":{pid},")))
    };
    let all = fs::read_dir(&places).expect("listed").map(|entry| entry.expect("an entry").path());
    let place = { all }.find(its).expect("it has a record");
    fs::rename(&place, places.join(format!("{pid:016x}"))).expect("renamed");
    assert_eq!(client::status(&mount.point).expect("it answers").pid, pid);
    client::unmount(&mount.point).expect("unmounted");
    assert!(mount.wait() && !places.join(format!("{pid:016x}")).exists());
}

#[test]
fn a_server_that_hangs_is_ended_and_its_readers_are_released() {
    let Some(mut mount) = mounted(Policy::PLAIN) else { return };
    fs::write(mount.source.join("a"), "text").expect("written");
    mount.hang();
    let path = mount.point.join("a");
    let reader = std::thread::spawn(move || fs::read(path).is_err());
    std::thread::sleep(Duration::from_millis(200));
    client::unmount(&mount.point).expect("unmounted");
    assert!(reader.join().expect("no panic"), "its read fails");
    assert!(!mount.wait());
    assert!(mounted_on(&mount.point).is_none());
    mount.start();
    assert_eq!(fs::read_to_string(mount.point.join("a")).expect("read"), "text");
}

#[test]
fn the_kernel_aborts_a_server_that_hangs_after_its_timeout() {
    if !Path::new("/proc/sys/fs/fuse/default_request_timeout").exists() {
        return println!("SKIPPED: this kernel gives no server up (Linux 6.14 does)");
    }
    let timeout = Duration::from_secs(2);
    // The kernel checks waiting requests every 15 s.
    let latest = timeout + Duration::from_secs(2 * 15);
    let Some(mut mount) = common::mounted_with(Policy::PLAIN, |options| {
        options.request_timeout = Some(timeout);
    }) else {
        return;
    };
    fs::write(mount.source.join("a"), "text").expect("written");
    mount.hang();
    let begun = Instant::now();
    fs::read(mount.point.join("a")).expect_err("no server answers");
    let waited = begun.elapsed();
    println!("given up after {waited:?}, {timeout:?} were asked for");
    assert!(waited >= timeout && waited < latest, "{waited:?}");
    fs::read(mount.point.join("a")).expect_err("the mount is aborted");
    client::unmount(&mount.point).expect("unmounted");
    assert!(!mount.wait(), "it was killed");
    mount.start();
    assert_eq!(fs::read_to_string(mount.point.join("a")).expect("read"), "text");
}

#[test]
fn what_cannot_be_mounted_is_refused_and_leaves_nothing() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    let settings = |source: &Path, point: &Path| Settings {
        mount: foreseek_mount::MountOptions::new(source, point),
        policy: Policy::PLAIN,
        rho: foreseek_readahead::stream::RHO,
        memory_bytes: 1 << 20,
        is_bounded: true,
        profile: None,
        state: None,
        forget: false,
        record: None,
    };
    let refused = |source: &Path, point: &Path| {
        serve::run(&settings(source, point), |_| panic!("it is mounted")).expect_err("refused").to_string()
    };
    assert!(refused(&mount.source, &mount.point).contains("a Foreseek mount already"));
    let none = mount.source.join("none");
    assert!(refused(&none, &mount.plain).contains("does not exist"));
    assert!(matches!(client::status(&mount.plain), Err(foreseek_mount::Error::NotMounted(_))));
    assert!(matches!(client::unmount(&mount.plain), Err(foreseek_mount::Error::NotMounted(_))));
}

#[test]
fn a_directory_can_be_mounted_over_itself() {
    let Some(mut mount) = common::mounted_with(Policy::PLAIN, |options| {
        fs::write(options.source.join("a"), "text").expect("written");
        options.mount_point.clone_from(&options.source);
    }) else {
        return;
    };
    assert!(mounted_on(&mount.source).is_some());
    assert_eq!(fs::read_to_string(mount.source.join("a")).expect("read"), "text");
    fs::write(mount.source.join("b"), "new").expect("written");
    assert!(mount.signal(Signal::TERM));
    assert_eq!(fs::read_to_string(mount.source.join("b")).expect("read"), "new");
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let Some(mount) = common::mounted_with(Policy::PLAIN, |options| options.read_only = true) else { return };
    fs::write(mount.source.join("a"), "text").expect("written");
    assert_eq!(fs::read_to_string(mount.point.join("a")).expect("read"), "text");
    let refused = fs::write(mount.point.join("b"), "x").expect_err("refused");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}
