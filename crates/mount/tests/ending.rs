//! How mounts end: in order, by force, by death; and what comes afterwards.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;

use common::{LIMIT, Random, mounted, wait_for};
use foreseek_export::mount_table::mounted_on;
use foreseek_mount::{Policy, Settings, client, serve};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Threads that write until the server is killed.
const WRITERS: usize = 4;
/// Writes that must have been acknowledged before it is.
const WRITES: u64 = 2000;

/// What writers were told is written: place and byte.
type Acknowledged = BTreeMap<u64, u8>;

/// Writes single bytes all over a file, and keeps what was acknowledged, until the first error.
fn write_until_it_fails(file: &File, seed: u64, count: &AtomicU64) -> Acknowledged {
    let mut random = Random(seed);
    let mut acknowledged = Acknowledged::new();
    loop {
        let (at, byte) = (random.below(1 << 20), random.next() as u8);
        if file.write_all_at(&[byte], at).is_err() {
            // This one may be there or not.
            acknowledged.remove(&at);
            return acknowledged;
        }
        acknowledged.insert(at, byte);
        count.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_killed_server_loses_nothing_and_leaves_nobody_waiting() {
    for policy in [Policy::Plain, Policy::Competitive] {
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
        assert!(fs::read(mount.point.join("read")).is_err(), "nobody serves it");
        assert!(matches!(client::status(&mount.point), Err(foreseek_mount::Error::Dead(_))));
        let listed = client::list().expect("listed");
        let health = listed.iter().find(|listed| listed.mount_point == mount.point).expect("listed").health;
        assert_eq!(health, client::Health::Dead);
        // The place is freed and used again.
        mount.start();
        assert_eq!(fs::read(mount.point.join("read")).expect("read").len(), 4 << 20);
    }
}

#[test]
fn a_signal_unmounts_and_leaves_nothing_behind() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Some(mut mount) = mounted(Policy::Plain) else { return };
        fs::write(mount.point.join("a"), "text").expect("written");
        assert!(mount.signal(signal), "it ends well");
        assert!(mounted_on(&mount.point).is_none());
        assert!(fs::read_dir(&mount.point).expect("read").next().is_none());
        assert_eq!(fs::read_to_string(mount.source.join("a")).expect("read"), "text");
        assert!(matches!(client::status(&mount.point), Err(foreseek_mount::Error::NotMounted(_))));
    }
}

#[test]
fn files_that_are_open_can_be_used_on_while_it_ends() {
    let Some(mut mount) = mounted(Policy::Plain) else { return };
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
    let Some(mut mount) = mounted(Policy::Plain) else { return };
    let file = File::create(mount.point.join("a")).expect("made");
    mount.send(Signal::TERM);
    wait_for("the mount to be out of the tree", || mounted_on(&mount.point).is_none());
    assert!(mount.signal(Signal::TERM));
    assert!(file.write_all_at(b"x", 0).is_err());
}

#[test]
fn unmounting_by_hand_ends_the_server() {
    let Some(mut mount) = mounted(Policy::Plain) else { return };
    rustix::mount::unmount(&mount.point, rustix::mount::UnmountFlags::empty()).expect("unmounted");
    assert!(mount.wait());
    assert!(matches!(client::status(&mount.point), Err(foreseek_mount::Error::NotMounted(_))));
}

#[test]
fn a_server_that_hangs_is_ended_and_its_readers_go_free() {
    let Some(mut mount) = mounted(Policy::Plain) else { return };
    fs::write(mount.source.join("a"), "text").expect("written");
    mount.send(Signal::STOP);
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
fn what_cannot_be_mounted_is_refused_and_leaves_nothing() {
    let Some(mount) = mounted(Policy::Plain) else { return };
    let settings = |source: &Path, point: &Path| Settings {
        mount: foreseek_mount::MountOptions::new(source, point),
        policy: Policy::Plain,
        memory_bytes: 1 << 20,
        profile: None,
    };
    let refused = |source: &Path, point: &Path| {
        serve::run(&settings(source, point), |_| panic!("it is mounted")).expect_err("refused").to_string()
    };
    assert!(refused(&mount.source, &mount.point).contains("a mount of ours already"));
    let none = mount.source.join("none");
    assert!(refused(&none, &mount.plain).contains("does not exist"));
    assert!(matches!(client::status(&mount.plain), Err(foreseek_mount::Error::NotMounted(_))));
    assert!(matches!(client::unmount(&mount.plain), Err(foreseek_mount::Error::NotMounted(_))));
}

#[test]
fn a_directory_can_be_mounted_over_itself() {
    let Some(mut mount) = common::mounted_with(Policy::Plain, |options| {
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
    let Some(mount) = common::mounted_with(Policy::Plain, |options| options.read_only = true) else { return };
    fs::write(mount.source.join("a"), "text").expect("written");
    assert_eq!(fs::read_to_string(mount.point.join("a")).expect("read"), "text");
    let refused = fs::write(mount.point.join("b"), "x").expect_err("refused");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}
