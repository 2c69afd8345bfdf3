//! Faults below a mount: bad sectors, a slow disk, a full one, one that dies. Programs get the same errors as
//! without the mount, and no others.
//!
//! The disk is an emulated one with an ext4, both as a user has them. They need root and are skipped with a
//! message without it.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]
#![allow(unsafe_code, reason = "mappings")]

#[allow(dead_code, reason = "each test program uses its part")]
mod below;
#[path = "../disk/lab.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod lab;
mod mixture;

use below::{Below, PAGE, contents, forget, number, read};
use lab::{LIMIT, until};
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mlock, mmap, msync, munmap};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const EIO: i32 = 5;
/// Blocks by which directories may have grown.
const DIRECTORY_BLOCKS: u64 = 16;
/// The kind of disk does not matter to faults; this one is fast to model.
const PROFILE: &str = "barracuda-500g";
/// Ends the readers, also when the test fails meanwhile.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The policies that prefetch, and the one that passes reads on.
const POLICIES: [&str; 3] = ["adaptive", "competitive", "plain"];

/// `plain` reads through the page cache of the file system below, which keeps and fails large pages as a
/// whole: it is left out.
#[test]
fn a_bad_sector_fails_only_the_reads_of_its_page() {
    for policy in &POLICIES[..2] {
        let Some(below) = Below::new(policy, "96M", PROFILE) else { return };
        let (bad, sound) = (contents(2 << 20, 1), contents(1 << 20, 2));
        below.put("bad", &bad);
        below.put("other", &sound);
        let page = 300 * PAGE;
        below.spoil(&below.source.join("bad"), page + 1000);
        let right = |file: &File, at: usize, length: usize| {
            read(file, at, length).is_ok_and(|bytes| bytes == bad[at..at + length])
        };

        // With a stream that ends before it, a failed prefetch is no program's error. Without the kernel's
        // read-ahead only the mount reads ahead.
        let file = File::open(below.point.join("bad")).expect("opened");
        fadvise(&file, 0, None, Advice::Random).expect("taken");
        for at in (0..page).step_by(4 * PAGE) {
            assert!(right(&file, at, 4 * PAGE), "{policy} at {at}");
        }
        assert!(until(LIMIT, || below.failed_requests() > 0), "{policy}: it was prefetched");
        assert_eq!(below.reads()["failed"], 0, "{policy}");
        drop(file);

        // Page by page, so that the kernel and the mount read ahead across it; both files at a time.
        let [file, other] = ["bad", "other"].map(|name| File::open(below.point.join(name)).expect("opened"));
        for at in (0..bad.len()).step_by(PAGE) {
            if at == page {
                assert_eq!(read(&file, at, PAGE), Err(EIO), "{policy}");
            } else {
                assert!(right(&file, at, PAGE), "{policy} at {at}");
            }
            let at = at % sound.len();
            let of_other = read(&other, at, PAGE).is_ok_and(|bytes| bytes == sound[at..at + PAGE]);
            assert!(of_other, "{policy}, the other file at {at}");
        }
        // Bytes beside it, and reads that return as much as they can.
        forget(&below.point.join("bad"));
        assert!(right(&file, page - 1, 1) && right(&file, page + PAGE, 1), "{policy}");
        let before = page - 20 * PAGE;
        let came = read(&file, before, 64 * PAGE).expect("what lies before it");
        assert!(came == bad[before..page], "{policy}: {} bytes", came.len());
        assert_eq!(read(&file, page, 64 * PAGE), Err(EIO), "{policy}");

        below.set(&["--fail-none"]);
        assert!(right(&file, page, PAGE), "{policy}: fixed");
        let whole = fs::read(below.point.join("bad")).expect("read");
        assert!(whole == bad, "{policy}: all of it");
    }
}

/// The results of a writer of a bad sector, call by call.
fn write_on_bad(below: &Below, directory: &Path, real: &Path) -> Vec<String> {
    let outcome =
        |what: &str, result: std::io::Result<()>| format!("{what}: {:?}", result.map_err(|e| number(&e)));
    let path = directory.join("written");
    let open = |flags: OFlags| {
        File::options().read(true).write(true).custom_flags(flags.bits() as i32).open(&path).expect("opened")
    };
    fs::write(&path, vec![1; 64 * PAGE]).expect("room");
    open(OFlags::empty()).sync_all().expect("written");
    below.spoil(&real.join("written"), 10 * PAGE);
    let (bad, sound) = (10 * PAGE as u64, 30 * PAGE as u64);
    let mut lines = Vec::new();
    let file = open(OFlags::empty());
    lines.push(outcome("write", file.write_all_at(&[2; PAGE], bad)));
    lines.push(outcome("fsync", file.sync_all()));
    lines.push(outcome("fsync again", file.sync_all()));
    lines.push(outcome("write elsewhere", file.write_all_at(&[3; PAGE], sound)));
    lines.push(outcome("fdatasync", file.sync_data()));
    lines.push(outcome("write", file.write_all_at(&[4; PAGE], bad)));
    lines.push(outcome("fdatasync", file.sync_data()));
    drop(file);
    let file = open(OFlags::SYNC);
    lines.push(outcome("write in sync", file.write_all_at(&[5; PAGE], bad)));
    lines.push(outcome("write in sync elsewhere", file.write_all_at(&[6; PAGE], sound)));
    drop(file);
    let file = open(OFlags::empty());
    lines.push(outcome("store", store(&file, bad, 7)));
    // Another file: large pages of the page cache are written back, and fail, as a whole.
    let other = directory.join("other");
    fs::write(&other, vec![1; PAGE]).expect("room");
    let other = File::options().read(true).write(true).open(other).expect("opened");
    lines.push(outcome("store elsewhere", store(&other, 0, 8)));
    below.set(&["--fail-none"]);
    lines.push(outcome("write, fixed", file.write_all_at(&[9; PAGE], bad)));
    lines.push(outcome("fsync", file.sync_all()));
    drop(file);
    forget(&path);
    let bytes = fs::read(&path).expect("read");
    lines.push(format!(
        "{:?}",
        bytes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect::<Vec<_>>()
    ));
    lines
}

/// Stores a page through a mapping and flushes it.
fn store(file: &File, at: u64, byte: u8) -> std::io::Result<()> {
    // SAFETY: a new mapping of a page within the file, which no process shortens; it is unmapped at the end.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let page = mmap(std::ptr::null_mut(), PAGE, protection, MapFlags::SHARED, file, at)?;
        std::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE).fill(byte);
        let flushed = msync(page, PAGE, MsyncFlags::SYNC);
        munmap(page, PAGE)?;
        Ok(flushed?)
    }
}

#[test]
fn a_writer_of_a_bad_sector_gets_the_errors_of_outside() {
    for policy in POLICIES {
        let Some(below) = Below::new(policy, "96M", PROFILE) else { return };
        let expected = write_on_bad(&below, &below.plain, &below.plain);
        assert!(expected.iter().any(|line| line == "fsync: Err(5)"), "{expected:?}");
        let seen = write_on_bad(&below, &below.point, &below.source);
        assert_eq!(seen, expected, "{policy}");
    }
}

#[test]
fn a_slow_disk_fails_no_read_and_delays_nothing_else() {
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    let (cold, hot) = (contents(64 << 20, 3), contents(1 << 20, 4));
    below.put("cold", &cold);
    below.put("hot", &hot);
    assert!(fs::read(below.point.join("hot")).expect("read") == hot);
    let cached = File::open(below.point.join("hot")).expect("opened");
    let _locked = Locked::new(&cached, hot.len());
    // A random read takes a third of a second, and all of them wait for one head.
    below.set(&["--delays", "on", "--time-scale", "20"]);
    let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let longest = std::thread::scope(|scope| {
        for reader in 0..16usize {
            let (below, cold, ended, reads) = (&below, &cold, &ended, &reads);
            scope.spawn(move || {
                let file = File::open(below.point.join("cold")).expect("opened");
                fadvise(&file, 0, None, Advice::Random).expect("taken");
                for round in 0..1000usize {
                    let at = (reader * 7919 + round * 104_729) % (cold.len() / PAGE) * PAGE;
                    let came = read(&file, at, PAGE);
                    assert!(came.is_ok_and(|bytes| bytes == cold[at..at + PAGE]), "reader {reader} at {at}");
                    reads.fetch_add(1, SeqCst);
                    if ended.load(SeqCst) {
                        return;
                    }
                }
            });
        }
        let (begun, _ends) = (Instant::now(), Ends(&ended));
        let mut longest = Duration::ZERO;
        while reads.load(SeqCst) < 48 {
            assert!(begun.elapsed() < LIMIT, "{} reads", reads.load(SeqCst));
            let asked = Instant::now();
            assert!(read(&cached, 0, hot.len()).is_ok_and(|bytes| bytes == hot), "what is cached");
            below.reads();
            longest = longest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(50));
        }
        longest
    });
    // The client itself would stop waiting after 5 s; this only shows that no request waited for the disk.
    println!("the longest read of the cached file and the status took {longest:?}");
    assert_eq!(below.reads()["failed"], 0);
}

#[test]
fn a_mount_of_a_slow_disk_ends_in_bounded_time() {
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    let cold = contents(64 << 20, 5);
    below.put("cold", &cold);
    below.set(&["--delays", "on", "--time-scale", "20"]);
    std::thread::scope(|scope| {
        for reader in 0..16usize {
            let (below, cold) = (&below, &cold);
            scope.spawn(move || {
                let file = File::open(below.point.join("cold")).expect("opened");
                for round in 0..1000usize {
                    let at = (reader * 7919 + round * 104_729) % (cold.len() / PAGE) * PAGE;
                    // Until the end of the mount: never other bytes than those of the file.
                    match read(&file, at, PAGE) {
                        Ok(bytes) => assert!(bytes == cold[at..at + PAGE], "reader {reader} at {at}"),
                        Err(_) => return,
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        // Files are open: the second signal ends the wait for their users.
        let begun = Instant::now();
        assert!(below.ends_on(&[Signal::TERM, Signal::TERM]), "it does not end");
        println!("the server ended after {:?}", begun.elapsed());
    });
    below.set(&["--delays", "off"]);
}

/// Fills the file system's last space in several ways; returns the result of each call. `closed` waits for the close of
/// all files but one.
fn fill(directory: &Path, closed: impl Fn()) -> Vec<String> {
    let mut lines = Vec::new();
    let outcome = |result: std::io::Result<()>| format!("{:?}", result.map_err(|error| number(&error)));
    let step = vec![5; 64 << 10];
    let mut ballast = File::create(directory.join("ballast")).expect("made");
    let mut acknowledged = 0;
    let full = loop {
        match ballast.write(&step) {
            Ok(written) => acknowledged += written,
            Err(error) => break error,
        }
    };
    lines.push(format!("write: {}", number(&full)));
    lines.push(format!("flush: {}", outcome(ballast.sync_all())));
    let there = fs::metadata(directory.join("ballast")).expect("there").len() as usize;
    lines.push(format!("acknowledged is there: {}", there == acknowledged));
    let new = File::create(directory.join("new")).expect("a name still has room");
    lines.push(format!("write: {}", outcome(new.write_all_at(&[1; PAGE], 0))));
    lines.push(format!(
        "allocate: {}",
        outcome(fallocate(&new, FallocateFlags::empty(), 0, 1 << 20).map_err(Into::into))
    ));
    let keep = FallocateFlags::KEEP_SIZE;
    lines.push(format!(
        "keeping the size: {}",
        outcome(fallocate(&new, keep, 0, 1 << 20).map_err(Into::into))
    ));
    lines.push(format!("lengthen: {}", outcome(new.set_len(1 << 20))));
    lines.push(format!("into the hole: {}", outcome(new.write_all_at(&[1; PAGE], 8192))));
    let mut log = File::options().append(true).open(directory.join("ballast")).expect("opened");
    lines.push(format!("append: {}", outcome(log.write_all(&[2; 2 * PAGE]))));
    lines.push(format!("in place: {}", outcome(ballast.write_all_at(&[6; PAGE], 0))));
    lines.push(format!("flush: {}", outcome(ballast.sync_all())));
    let (from, mut to) = (File::open(directory.join("ballast")).expect("opened"), 0);
    let copied = rustix::fs::copy_file_range(&from, Some(&mut 0), &new, Some(&mut to), 1 << 20);
    lines.push(format!("copy: {}", outcome(copied.map(drop).map_err(Into::into))));
    let linked = std::os::unix::fs::symlink("x".repeat(1000), directory.join("link"));
    lines.push(format!("a long link: {}", outcome(linked)));
    let bytes = fs::read(directory.join("ballast")).expect("read");
    let right = bytes[..PAGE].iter().all(|byte| *byte == 6) && bytes[PAGE..].iter().all(|byte| *byte == 5);
    lines.push(format!("what was acknowledged stays: {}", right && bytes.len() == acknowledged));
    drop((ballast, log, from));
    closed();
    fs::remove_file(directory.join("ballast")).expect("gone");
    lines.push(format!("with room again: {}", outcome(new.write_all_at(&[1; PAGE], 8192))));
    lines.push(format!("flush: {}", outcome(new.sync_all())));
    lines
}

#[test]
fn a_full_disk_gives_the_errors_of_outside_and_loses_nothing() {
    for policy in POLICIES {
        let Some(below) = Below::new(policy, "32M", PROFILE) else { return };
        let free = || rustix::fs::statvfs(&below.plain).expect("mounted").f_bfree;
        let empty = free();
        let clean = || {
            for name in ["new", "link"] {
                let _ = fs::remove_file(below.plain.join(name));
                let _ = fs::remove_file(below.source.join(name));
            }
            // Deleted blocks are free again only after a commit of the journal, and after their write-back
            // has ended.
            let begun = Instant::now();
            loop {
                rustix::fs::syncfs(File::open(&below.plain).expect("opened")).expect("flushed");
                if free() + DIRECTORY_BLOCKS >= empty {
                    break;
                }
                assert!(begun.elapsed() < LIMIT, "{} blocks are free of {empty}", free());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let expected = fill(&below.plain, || ());
        assert!(expected.iter().any(|line| line == "write: 28"), "{expected:?}");
        clean();
        // The kernel reports a close to the mount some time after it.
        let closed = || assert!(until(LIMIT, || below.status()["files_open"] == 1), "{}", below.status());
        let seen = fill(&below.point, closed);
        assert_eq!(seen, expected, "{policy}");
        clean();
    }
}

#[test]
fn a_store_without_room_fails_at_its_flush() {
    let Some(below) = Below::new("adaptive", "32M", PROFILE) else { return };
    let path = below.point.join("mapped");
    let file = File::options().read(true).write(true).create_new(true).open(path).expect("made");
    file.set_len(1 << 20).expect("a hole");
    let ballast = File::create(below.source.join("ballast")).expect("made");
    let mut at = 0;
    while let Ok(written) = ballast.write_at(&[5; PAGE], at) {
        at += written as u64;
    }
    let refused = store(&file, 4096, 7).expect_err("there is no room for it");
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    let free = || rustix::fs::statvfs(&below.source).expect("mounted").f_bfree;
    let full = free();
    drop(ballast);
    fs::remove_file(below.source.join("ballast")).expect("gone");
    // A child that a test beside this one has just forked may hold the file until it runs its program.
    let has_room = until(LIMIT, || {
        rustix::fs::syncfs(File::open(&below.source).expect("opened")).expect("flushed");
        free() > full
    });
    assert!(has_room, "its blocks are free");
    store(&file, 4096, 8).expect("there is now");
    assert_eq!(fs::read(below.source.join("mapped")).expect("read")[4096], 8);
}

/// The first pages of a file, in memory until this is dropped: a memory monitor (DAMON) may evict other pages
/// that look idle to it.
struct Locked(*mut std::ffi::c_void, usize);

impl Locked {
    fn new(file: &File, length: usize) -> Self {
        // SAFETY: a new mapping of a file's pages that no code reads through; it is unmapped in `drop`.
        unsafe {
            let start = mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0);
            let start = start.expect("mapped");
            mlock(start, length).expect("locked");
            Self(start, length)
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which there is no reference.
        let _ = unsafe { munmap(self.0, self.1) };
    }
}

/// Removes the disk under a mount with files open: readers get an error, and do not wait.
fn without_its_disk(policy: &str, take_away: impl Fn(&Below)) {
    let Some(below) = Below::new(policy, "96M", PROFILE) else { return };
    let (cold, hot) = (contents(8 << 20, 6), contents(64 << 10, 7));
    below.put("cold", &cold);
    below.put("hot", &hot);
    let file = File::open(below.point.join("cold")).expect("opened");
    assert!(fs::read(below.point.join("hot")).expect("read") == hot);
    let cached = File::open(below.point.join("hot")).expect("opened");
    let locked = Locked::new(&cached, hot.len());
    assert!(read(&file, 0, PAGE).is_ok_and(|bytes| bytes == cold[..PAGE]));
    take_away(&below);
    let begun = Instant::now();
    let far = 6 << 20;
    assert_eq!(read(&file, far, PAGE), Err(EIO), "{policy}");
    assert!(read(&cached, 0, hot.len()).is_ok_and(|bytes| bytes == hot), "{policy}: what is cached");
    assert_eq!(below.reads()["policy"], policy);
    assert!(begun.elapsed() < LIMIT);
    drop((file, locked, cached));
    assert!(below.ends_on(&[Signal::TERM]), "{policy}: the mount's server does not end");
}

#[test]
fn a_disk_that_dies_is_an_error_and_no_wait() {
    POLICIES.iter().for_each(|policy| without_its_disk(policy, Below::kill_disk));
}

#[test]
fn a_disk_detached_by_force_is_an_error_and_no_wait() {
    without_its_disk("adaptive", |below| {
        let ended = below.lab.disk(&["detach", "below", "--force"]);
        // The mount's server uses the file system until it ends; its users wait for nothing.
        assert!(ended.status == Some(0) || ended.err.contains("still in use"), "{ended:?}");
    });
}

/// Operations that fail on a read-only file system.
fn change(directory: &Path) -> Vec<String> {
    let outcome =
        |what: &str, result: std::io::Result<()>| format!("{what}: {:?}", result.map_err(|e| number(&e)));
    let file = directory.join("file");
    let time = std::time::SystemTime::UNIX_EPOCH;
    let open = |path: &Path| File::options().append(true).open(path).map(drop);
    vec![
        outcome("read", fs::read(&file).map(drop)),
        outcome("open to append", open(&file)),
        outcome("make", File::create(directory.join("new")).map(drop)),
        outcome("mkdir", fs::create_dir(directory.join("dir"))),
        outcome("rename", fs::rename(&file, directory.join("moved"))),
        outcome("link", fs::hard_link(&file, directory.join("link"))),
        outcome("symlink", std::os::unix::fs::symlink("file", directory.join("symlink"))),
        outcome("unlink", fs::remove_file(&file)),
        outcome("chmod", fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))),
        outcome(
            "shorten",
            rustix::fs::open(&file, OFlags::WRONLY | OFlags::TRUNC, rustix::fs::Mode::empty())
                .map(drop)
                .map_err(Into::into),
        ),
        outcome("times", File::open(&file).and_then(|file| file.set_modified(time))),
        outcome("flush", File::open(&file).and_then(|file| file.sync_all())),
    ]
}

#[test]
fn a_read_only_source_refuses_changes_as_outside() {
    let Some(below) = Below::new("adaptive", "32M", PROFILE) else { return };
    fs::write(below.plain.join("file"), "text").expect("room");
    fs::write(below.point.join("file"), "text").expect("room");
    let file_system = below.lab.mount_point();
    // The mount's server has files open for writing until the kernel reports their close, some time after it.
    assert!(until(LIMIT, || below.status()["files_open"] == 0), "{}", below.status());
    let remount = |how: &str| {
        let point = file_system.to_str().expect("plain");
        below.lab.once_it_is_not_busy("mount", &["-o", &format!("remount,{how}"), point]);
    };
    remount("ro");
    let expected = change(&below.plain);
    assert!(expected.iter().any(|line| line == "make: Err(30)"), "{expected:?}");
    assert_eq!(change(&below.point), expected);
    remount("rw");
    fs::write(below.point.join("file"), "other").expect("it may be written again");
}
