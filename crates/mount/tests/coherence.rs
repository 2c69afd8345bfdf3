//! Reads return what was written: through another descriptor, a mapping, another name, and when another
//! program changes the source.
//!
//! Changes by other programs must be visible at the next open; in names and by `stat` after the second for
//! which the kernel may cache names and attributes; and to a reader that has the file open within two
//! seconds.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;

use common::{Mapped, Random, TestMount, byte, mounted, mounted_with, wait_for};
use foreseek_mount::{Policy, client};
use rustix::fs::{Timespec, Timestamps, futimens};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// How long the kernel may cache names and attributes.
const KEPT: Duration = Duration::from_millis(1100);

/// Runs a test with and without prefetching, and with passthrough of files in memory.
fn with_each(test: impl Fn(&TestMount)) {
    for (policy, passthrough) in [(Policy::PLAIN, false), (Policy::ADAPTIVE, false), (Policy::ADAPTIVE, true)]
    {
        let mount = mounted_with(policy, |options| options.passthrough = passthrough);
        let Some(mount) = mount else { return };
        test(&mount);
    }
}

fn both(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("opened")
}

#[test]
fn a_write_is_seen_at_once_by_all_readers() {
    with_each(|mount| {
        let path = mount.point.join("a");
        let writer = both(&path);
        writer.write_all_at(&vec![0; 1 << 20], 0).expect("written");
        fs::hard_link(&path, mount.point.join("b")).expect("linked");
        let readers =
            [File::open(&path).expect("opened"), File::open(mount.point.join("b")).expect("opened")];
        let mapped = Mapped::new(&readers[0], 1 << 20);
        let mut random = Random(7);
        for round in 1..200u64 {
            let at = random.below(1 << 20);
            // Read before the write, so that a stale copy would be found.
            readers.iter().for_each(|reader| assert_ne!(byte(reader, at), round as u8, "too early"));
            let _ = mapped.byte(at as usize);
            writer.write_all_at(&[round as u8], at).expect("written");
            readers.iter().for_each(|reader| assert_eq!(byte(reader, at), round as u8));
            assert_eq!(mapped.byte(at as usize), round as u8);
            assert_eq!(byte(&File::open(mount.source.join("a")).expect("opened"), at), round as u8, "below");
        }
        assert_eq!(client::status(&mount.point).expect("status").external_changes, 0, "all were our own");
    });
}

#[test]
fn our_own_changes_of_any_kind_are_not_taken_for_others() {
    with_each(|mount| {
        let path = mount.point.join("a");
        let file = both(&path);
        file.write_all_at(&[1; 50_000], 0).expect("written");
        file.set_len(40_000).expect("shortened");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 60_000).expect("allocated");
        fs::hard_link(&path, mount.point.join("b")).expect("linked");
        fs::rename(&path, mount.point.join("c")).expect("renamed");
        fs::remove_file(mount.point.join("b")).expect("gone");
        let path = mount.point.join("c");
        common::set_mode(&path, 0o600);
        rustix::fs::setxattr(&path, "user.x", b"x", rustix::fs::XattrFlags::empty()).expect("set");
        let time = Timespec { tv_sec: 5, tv_nsec: 0 };
        futimens(&file, &Timestamps { last_access: time, last_modification: time }).expect("set");
        std::thread::sleep(KEPT);
        assert_eq!(fs::metadata(&path).expect("there").mtime(), 5);
        drop(File::open(&path).expect("opened"));
        assert_eq!(client::status(&mount.point).expect("status").external_changes, 0);
    });
}

#[test]
fn a_change_by_others_is_seen_at_the_next_open() {
    with_each(|mount| {
        let below = both(&mount.source.join("a"));
        let path = mount.point.join("a");
        for round in 0..10u8 {
            // Longer, shorter, and unchanged lengths.
            let length = [300_000, 300_000, 500_001, 100_007][round as usize % 4];
            below.set_len(length as u64).expect("set");
            below.write_all_at(&vec![round; length], 0).expect("written");
            // Until the next tick of the file system's clock.
            std::thread::sleep(Duration::from_millis(20));
            let read = fs::read(&path).expect("read");
            assert_eq!(read.len(), length, "round {round}");
            assert!(read.iter().all(|byte| *byte == round), "round {round}");
        }
        let status = client::status(&mount.point).expect("status");
        assert!(status.external_changes >= 4, "{}", status.external_changes);
    });
}

#[test]
fn a_change_by_others_with_the_old_time_set_back_is_seen_too() {
    with_each(|mount| {
        let below = mount.source.join("a");
        fs::write(&below, [1; 10_000]).expect("written");
        assert_eq!(fs::read(mount.point.join("a")).expect("read"), [1; 10_000]);
        let found = fs::metadata(&below).expect("there");
        // Another tick of the file system's clock.
        std::thread::sleep(KEPT);
        let file = both(&below);
        file.write_all_at(&[2; 10_000], 0).expect("written");
        let time = Timespec { tv_sec: found.mtime(), tv_nsec: found.mtime_nsec() };
        futimens(&file, &Timestamps { last_access: time, last_modification: time }).expect("set");
        std::thread::sleep(KEPT);
        assert_eq!(fs::read(mount.point.join("a")).expect("read"), [2; 10_000]);
    });
}

#[test]
fn a_reader_that_has_the_file_open_sees_a_change_by_others_within_two_seconds() {
    with_each(|mount| {
        let below = mount.source.join("a");
        fs::write(&below, vec![1; 200_000]).expect("written");
        let reader = File::open(mount.point.join("a")).expect("opened");
        let mapped = Mapped::new(&reader, 100_000);
        for at in (0..200_000).step_by(4096) {
            assert_eq!(byte(&reader, at), 1);
        }
        assert_eq!(mapped.byte(99_999), 1);
        both(&below).write_all_at(&vec![2; 200_000], 0).expect("written");
        std::thread::sleep(2 * KEPT);
        for at in (0..200_000).step_by(4096) {
            assert_eq!(byte(&reader, at), 2, "at {at}");
        }
        assert_eq!(mapped.byte(99_999), 2, "through the mapping");
        both(&below).write_all_at(&[3; 10], 200_000).expect("appended");
        std::thread::sleep(2 * KEPT);
        assert_eq!(byte(&reader, 200_005), 3, "what was appended");
        both(&below).set_len(1000).expect("shortened");
        std::thread::sleep(2 * KEPT);
        assert_eq!(reader.read_at(&mut [0; 10], 1000).expect("read"), 0, "the new end");
    });
}

#[test]
fn names_that_others_change_are_seen_after_a_second() {
    with_each(|mount| {
        let here = |name: &str| fs::read_to_string(mount.point.join(name)).map_err(|error| error.kind());
        let below = |name: &str| mount.source.join(name);
        fs::write(below("a"), "one").expect("written");
        assert_eq!(here("a").as_deref(), Ok("one"));
        // Another file of the same name, perhaps with the same inode number.
        fs::remove_file(below("a")).expect("gone");
        fs::write(below("a"), "two").expect("written");
        std::thread::sleep(KEPT);
        assert_eq!(here("a").as_deref(), Ok("two"));
        fs::rename(below("a"), below("b")).expect("renamed");
        std::thread::sleep(KEPT);
        assert_eq!(here("a"), Err(std::io::ErrorKind::NotFound));
        assert_eq!(here("b").as_deref(), Ok("two"));
        fs::remove_file(below("b")).expect("gone");
        fs::create_dir(below("b")).expect("made");
        std::thread::sleep(KEPT);
        assert!(fs::metadata(mount.point.join("b")).expect("there").is_dir());
    });
}

#[test]
fn a_file_that_replaces_an_old_one_is_not_mistaken_for_it() {
    with_each(|mount| {
        let (below, path) = (mount.source.join("a"), mount.point.join("a"));
        fs::write(&below, "one").expect("written");
        // It is old enough to be recognised by its attributes alone.
        std::thread::sleep(4 * KEPT);
        assert_eq!(fs::read_to_string(&path).expect("read"), "one");
        let old = fs::metadata(&below).expect("there");
        for text in ["two", "one", "two"] {
            std::thread::sleep(KEPT);
            fs::remove_file(&below).expect("gone");
            fs::write(&below, text).expect("written");
            let time = Timespec { tv_sec: old.mtime(), tv_nsec: old.mtime_nsec() };
            let file = both(&below);
            futimens(&file, &Timestamps { last_access: time, last_modification: time }).expect("set");
            assert_eq!(fs::metadata(&below).expect("there").mtime(), old.mtime());
            std::thread::sleep(KEPT);
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
    });
}

#[test]
fn appending_beside_others_overwrites_nothing() {
    with_each(|mount| {
        use std::io::Write;
        let append = |path: &Path| File::options().append(true).create(true).open(path).expect("opened");
        let (mut here, mut below) = (append(&mount.point.join("log")), append(&mount.source.join("log")));
        for round in 0..200 {
            writeln!(here, "here {round}").expect("written");
            writeln!(below, "below {round}").expect("written");
        }
        let log = fs::read_to_string(mount.source.join("log")).expect("read");
        assert_eq!(log.lines().count(), 400);
        for round in 0..200 {
            assert!(log.contains(&format!("here {round}\n")) && log.contains(&format!("below {round}\n")));
        }
        wait_for("the whole log through the mount", || {
            fs::read_to_string(mount.point.join("log")).is_ok_and(|seen| seen == log)
        });
    });
}

#[test]
fn space_of_files_that_others_delete_is_given_back() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    let warnings = client::status(&mount.point).expect("status").reads.warnings;
    if warnings.iter().any(|warning| warning.contains("gives no file handles")) {
        return println!("SKIPPED: without file handles each file that the kernel knows takes a descriptor");
    }
    fs::write(mount.source.join("a"), vec![1; 1 << 20]).expect("written");
    assert_eq!(fs::read(mount.point.join("a")).expect("read").len(), 1 << 20);
    fs::remove_file(mount.source.join("a")).expect("gone");
    let held = format!("{}/a (deleted)", mount.source.display());
    let is_held = |fd: &fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|target| target == Path::new(&held));
    // The kernel reports a close to the server a moment later.
    wait_for("no descriptor of a deleted file in the server", || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", mount.pid())).expect("listed");
        !descriptors.flatten().any(|fd| is_held(&fd))
    });
}

#[test]
fn on_other_file_systems() {
    let core = [
        "a_write_is_seen_at_once_by_all_readers",
        "our_own_changes_of_any_kind_are_not_taken_for_others",
        "a_change_by_others_is_seen_at_the_next_open",
    ];
    common::file_systems::on_each("on_other_file_systems", &core);
}
