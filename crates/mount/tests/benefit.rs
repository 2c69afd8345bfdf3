//! A mount whose prefetching does not pay steps aside and reports it, and reads stay right. A mount whose
//! prefetching pays does not step aside.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_mount::{BenefitStatus, MountOptions, MountStatus, Mounted, Reader, ReaderOptions};
use foreseek_units::Bytes;
use rustix::fs::{Advice, fadvise};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The length of each file. The files are holes, which every device reads fast.
const FILE: u64 = 4 << 20;
/// The most files of which the beginning is read: with the least that is read ahead of one, 64 KiB, these are
/// three samples.
const FILES: u64 = 3072;

/// Longest wait for files to be closed.
const LIMIT: Duration = Duration::from_secs(60);
/// Files open at a time: for a single stream little is fetched ahead before it is read.
const OPEN: usize = 4;

/// A mount in this process; it ends before its directories are removed.
struct TestMount {
    mounted: Mounted,
    source: PathBuf,
    point: PathBuf,
    _place: tempfile::TempDir,
}

/// A mount with this policy, which may step aside; `None`, with a message, if it is not possible.
fn mounted(policy: &str, passthrough: bool) -> Option<TestMount> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: a mount needs root and /dev/fuse");
        return None;
    }
    let place = tempfile::tempdir_in("/var/tmp").expect("a writable directory");
    let [source, point] = ["source", "mount"].map(|name| place.path().join(name));
    [&source, &point].into_iter().for_each(|path| fs::create_dir(path).expect("made"));
    let mut options = MountOptions::new(&source, &point);
    options.passthrough = passthrough;
    options.request_timeout = Some(Duration::from_secs(60));
    let mut reads = ReaderOptions::new(policy, Bytes::mib(64));
    reads.steps_aside = true;
    let reader = Reader::start(&reads).expect("a reader");
    let mounted = Mounted::start(&options, Arc::new(reader)).expect("a mount");
    Some(TestMount { mounted, source, point, _place: place })
}

fn status(mount: &TestMount) -> MountStatus {
    mount.mounted.status()
}

fn benefit(mount: &TestMount) -> BenefitStatus {
    status(mount).reads.benefit
}

/// Makes a file in the source and opens it in the mount.
fn open(mount: &TestMount, number: u64) -> File {
    let name = format!("{number}");
    File::create(mount.source.join(&name)).and_then(|file| file.set_len(FILE)).expect("made");
    File::open(mount.point.join(&name)).expect("opened")
}

/// Reads 128 KiB of each of many files, some open at a time, until the mount steps aside; returns the number
/// of files.
fn read_beginnings(mount: &TestMount) -> u64 {
    let mut files = VecDeque::new();
    for number in 0..FILES {
        let file = open(mount, number);
        for at in [0, 64 << 10] {
            file.read_exact_at(&mut vec![0; 64 << 10], at).expect("read");
        }
        files.push_back(file);
        if files.len() > OPEN {
            files.pop_front();
        }
        if number % 64 == 63 && benefit(mount).aside {
            return number + 1;
        }
    }
    panic!("it has not stepped aside after {FILES} files: {:?}", status(mount).reads);
}

/// Waits until the kernel has reported the close of each file.
fn wait_for_releases(mount: &TestMount) {
    let begun = Instant::now();
    while status(mount).reads.streams_open > 0 {
        assert!(begun.elapsed() < LIMIT, "{:?}", status(mount));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn evict(path: &Path) {
    let file = File::open(path).expect("opened");
    file.sync_all().expect("written");
    fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
}

#[test]
fn beginnings_of_files_are_read_without_prefetching_and_right() {
    let steps_aside = |passthrough: bool| {
        // What the other policies read ahead depends on the machine's device.
        let mount = mounted("aggressive", passthrough)?;
        let read = read_beginnings(&mount);
        let judged = benefit(&mount);
        assert!(judged.times == 1 && judged.sample_bytes >= 64 << 20, "{judged:?}");
        assert!(judged.sample_spent_ms > judged.sample_saved_ms, "{judged:?}");
        println!("after {read} files");
        Some((mount, read))
    };
    let Some((mount, _)) = steps_aside(false) else { return };
    wait_for_releases(&mount);
    let (before, bytes) = (status(&mount).reads, vec![7; 1 << 20]);
    let (below, path) = (mount.source.join("a"), mount.point.join("a"));
    fs::write(&below, &bytes).expect("written");
    evict(&below);
    let reader = File::open(&path).expect("opened");
    let mut read = vec![0; bytes.len()];
    reader.read_exact_at(&mut read, 0).expect("read");
    assert!(read == bytes);
    let after = status(&mount).reads;
    assert_eq!(after.prefetched_bytes, before.prefetched_bytes);
    assert_eq!(after.benefit.opens_aside, before.benefit.opens_aside + 1);
    assert_eq!(after.streams_open, 1);
    assert!(after.reads > before.reads);
    // Writes are visible, those through the mount and those of other programs.
    let writer = File::options().write(true).open(&path).expect("opened");
    writer.write_all_at(&[8; 5000], 100_000).expect("written");
    reader.read_exact_at(&mut read[..1], 104_999).expect("read");
    assert_eq!(read[0], 8);
    let outside = File::options().write(true).open(&below).expect("opened");
    outside.write_all_at(&[9; 5000], 200_000).expect("written");
    File::open(&path).and_then(|file| file.read_exact_at(&mut read[..1], 204_999)).expect("read");
    assert_eq!(read[0], 9);
    drop((reader, writer));
    wait_for_releases(&mount);

    let Some((mount, _)) = steps_aside(true) else { return };
    let passthrough = status(&mount).passthrough.expect("it is wanted");
    if let Some(unavailable) = passthrough.unavailable {
        return println!("SKIPPED: {unavailable}");
    }
    let before = status(&mount).reads.reads;
    let (below, path) = (mount.source.join("a"), mount.point.join("a"));
    fs::write(&below, &bytes).expect("written");
    evict(&below);
    assert!(fs::read(&path).expect("read") == bytes);
    assert_eq!(status(&mount).reads.reads, before, "the kernel reads it by itself");
    assert_eq!(
        status(&mount).passthrough.expect("it is wanted").opens,
        passthrough.opens,
        "it was not in memory"
    );
}

#[test]
fn whole_files_stay_prefetched() {
    for policy in ["aggressive", "competitive", "adaptive"] {
        let Some(mount) = mounted(policy, false) else { return };
        for number in 0..64 {
            let file = open(&mount, number);
            for at in (0..FILE).step_by(64 << 10) {
                file.read_exact_at(&mut vec![0; 64 << 10], at).expect("read");
            }
        }
        let judged = benefit(&mount);
        assert!(!judged.aside && judged.times == 0 && judged.opens_aside == 0, "{judged:?}");
    }
}
