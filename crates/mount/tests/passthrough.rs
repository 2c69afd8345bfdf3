//! FUSE passthrough of files in memory: when it happens, and that no program notices it. Programs open,
//! write, map and truncate the files meanwhile, through the mount or behind it.
//!
//! Linux 6.9 and a file system below that is not stacked on another are required; without them these tests
//! are skipped with a message.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]
#![allow(unsafe_code, reason = "cachestat")]

mod common;

use common::{Mapped, Random, TestMount, byte, mounted_with, wait_for};
use foreseek_mount::{MountStatus, Policy, client};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const LENGTH: usize = 1 << 20;

/// A mount with passthrough, if that is possible.
fn passing() -> Option<TestMount> {
    let mount = mounted_with(Policy::ADAPTIVE, |options| options.passthrough = true)?;
    let passthrough = status(&mount).passthrough.expect("it is wanted");
    if let Some(unavailable) = passthrough.unavailable {
        println!("SKIPPED: {unavailable}");
        return None;
    }
    Some(mount)
}

fn status(mount: &TestMount) -> MountStatus {
    client::status(&mount.point).expect("status")
}

/// Waits until the server knows of the close of every file, which the kernel reports some time after it: a file that it
/// takes for open keeps its mode.
fn wait_for_closes(mount: &TestMount) {
    wait_for("the close of all files", || status(mount).files_open == 0);
}

fn passed(mount: &TestMount) -> u64 {
    status(mount).passthrough.expect("it is wanted").opens
}

/// Whether the source's file system has evicted a file's pages; tmpfs keeps them.
fn evict(path: &Path) {
    let file = File::open(path).expect("opened");
    file.sync_all().expect("written");
    fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
}

fn to_write(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("opened")
}

#[test]
fn only_a_file_in_memory_is_passed_through() {
    let Some(mount) = passing() else { return };
    let (below, path) = (mount.source.join("a"), mount.point.join("a"));
    fs::write(&below, vec![7; LENGTH]).expect("written");
    assert_eq!(fs::read(&path).expect("read"), vec![7; LENGTH]);
    assert_eq!((passed(&mount), status(&mount).reads.reads), (1, 0));
    wait_for_closes(&mount);
    evict(&below);
    assert_eq!(fs::read(&path).expect("read"), vec![7; LENGTH]);
    assert_eq!(passed(&mount), 1);
    assert!(status(&mount).reads.reads > 0);
    // A small one is not worth it.
    fs::write(mount.source.join("small"), vec![7; 128 << 10]).expect("written");
    assert_eq!(fs::read(mount.point.join("small")).expect("read"), vec![7; 128 << 10]);
    assert_eq!(passed(&mount), 1);
}

#[test]
fn without_the_option_none_is_passed_through() {
    let Some(mount) = mounted_with(Policy::ADAPTIVE, |options| options.passthrough = false) else { return };
    fs::write(mount.source.join("a"), vec![7; LENGTH]).expect("written");
    assert_eq!(fs::read(mount.point.join("a")).expect("read"), vec![7; LENGTH]);
    assert!(status(&mount).passthrough.is_none());
    assert!(status(&mount).reads.reads > 0);
}

#[test]
fn all_handles_of_a_file_see_the_writes_of_each() {
    let Some(mount) = passing() else { return };
    let (below, path) = (mount.source.join("a"), mount.point.join("a"));
    fs::write(&below, vec![1; LENGTH]).expect("written");
    fs::hard_link(&below, mount.source.join("b")).expect("linked");
    let reader = File::open(&path).expect("opened");
    assert_eq!(passed(&mount), 1);
    let mapped = Mapped::new(&reader, LENGTH);
    assert_eq!((byte(&reader, 5), mapped.byte(6)), (1, 1));
    let writer = to_write(&mount.point.join("b"));
    let stored = Mapped::writable(&writer, LENGTH);
    let unbuffered = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path).expect("opened");
    let everyone = |at: u64, value: u8, what: &str| {
        let seen = [byte(&reader, at), byte(&writer, at), byte(&unbuffered, at)];
        assert_eq!(seen, [value; 3], "{what}");
        assert_eq!([mapped.byte(at as usize), stored.byte(at as usize)], [value; 2], "{what}, mapped");
        assert_eq!(byte(&File::open(&path).expect("opened"), at), value, "{what}, opened then");
        assert_eq!(byte(&File::open(&below).expect("opened"), at), value, "{what}, below");
    };
    everyone(0, 1, "as it was");
    writer.write_all_at(&[2; 10_000], 3).expect("written");
    everyone(7777, 2, "written");
    stored.store(50_000, 3);
    everyone(50_000, 3, "stored");
    to_write(&below).write_all_at(&[4; 100], 60_000).expect("written");
    everyone(60_010, 4, "written below");
    let appended = File::options().append(true).open(&path).expect("opened");
    std::io::Write::write_all(&mut &appended, &[5; 100]).expect("appended");
    assert_eq!((byte(&reader, LENGTH as u64 + 9), byte(&writer, LENGTH as u64 + 9)), (5, 5));
    assert_eq!(fs::metadata(&path).expect("there").len(), LENGTH as u64 + 100);
    writer.set_len(LENGTH as u64).expect("shortened");
    assert_eq!(reader.read_at(&mut [0; 10], LENGTH as u64).expect("read"), 0, "the new end");
    assert_eq!(fs::read(&below).expect("read").len(), LENGTH);
    assert_eq!(status(&mount).reads.reads, 0, "none came to the read path");
}

#[test]
fn pages_cached_before_passthrough_are_never_read_after_it() {
    let Some(mount) = passing() else { return };
    let (below, path) = (mount.source.join("a"), mount.point.join("a"));
    fs::write(&below, vec![1; LENGTH]).expect("written");
    for round in 1..6u8 {
        wait_for_closes(&mount);
        evict(&below);
        // Through the page cache of the mount.
        assert_eq!(fs::read(&path).expect("read"), vec![round; LENGTH]);
        assert_eq!(fs::read(&below).expect("read"), vec![round; LENGTH]);
        wait_for_closes(&mount);
        let reader = File::open(&path).expect("opened");
        assert_eq!(passed(&mount), u64::from(round), "in memory by now");
        to_write(&path).write_all_at(&vec![round + 1; LENGTH], 0).expect("written");
        assert_eq!(byte(&reader, 77), round + 1);
    }
}

#[test]
fn a_synchronous_write_is_written_back_when_it_returns() {
    let Some(mount) = passing() else { return };
    let (below, path) = (mount.source.join("a"), mount.point.join("a"));
    fs::write(&below, vec![1; LENGTH]).expect("written");
    let _reader = File::open(&path).expect("opened");
    assert_eq!(passed(&mount), 1);
    for flags in [0, libc::O_DSYNC, libc::O_SYNC] {
        let writer = File::options().write(true).custom_flags(flags).open(&path).expect("opened");
        writer.write_all_at(&vec![2; LENGTH], 0).expect("written");
        match unwritten(&below) {
            Some(pages) if flags != 0 => assert_eq!(pages, 0, "flags {flags:o}"),
            Some(pages) => println!("{pages} pages were not written back without flags"),
            None => return println!("SKIPPED: the kernel does not report pages that are written back"),
        }
    }
}

/// Pages of a file that are dirty or being written back (`cachestat`).
fn unwritten(path: &Path) -> Option<u64> {
    let file = File::open(path).expect("opened");
    let (range, mut counts) = ([0u64, 0], [0u64; 5]);
    // SAFETY: both are laid out as the kernel's structures and live until the call returns.
    let result = unsafe { libc::syscall(451, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    (result == 0).then_some(counts[1] + counts[2])
}

/// In any order of handles, a file never has both modes at a time, which the kernel would answer with an
/// error. No program reads anything older than the state at its open. In every second round the programs pause, so
/// that all handles are closed now and then, and the next one changes the mode while the others are opened.
#[test]
fn handles_open_and_close_in_any_order() {
    const ROUND: Duration = Duration::from_millis(300);
    const PAUSE: Duration = Duration::from_millis(3);
    let Some(mount) = passing() else { return };
    let file =
        Generations { below: mount.source.join("a"), path: mount.point.join("a"), latest: AtomicU64::new(0) };
    fs::write(&file.below, "").expect("made");
    for round in 1..=8u64 {
        let pause = PAUSE * u32::from(round % 2 == 0);
        file.write_one();
        // It is passed through once the server has got the close of all others.
        let mut first = None;
        wait_for("a handle that is passed through", || {
            fs::read(&file.below).expect("read");
            passed_anew(&mount, &file.path)
        });
        first.replace(File::open(&file.path).expect("opened"));
        let end = Instant::now() + ROUND;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(round);
                while Instant::now() < end {
                    std::thread::sleep(pause.mul_f64(random.below(100) as f64 / 100.0));
                    file.write_one();
                    if file.latest.load(SeqCst) % 5 == round % 5 {
                        evict(&file.below);
                    }
                }
            });
            let reads: [ReadAll; 4] = [
                |path| fs::read(path),
                |path| fs::read(path),
                |path| read_all(&to_write(path)),
                |path| {
                    let opened = File::open(path)?;
                    let _mapped = Mapped::new(&opened, 8).byte(0);
                    read_all(&opened)
                },
            ];
            for (reader, read) in (1..).zip(reads) {
                let file = &file;
                scope.spawn(move || {
                    let mut random = Random(round << 32 | reader);
                    while Instant::now() < end {
                        std::thread::sleep(pause.mul_f64(random.below(100) as f64 / 100.0));
                        file.check(read);
                    }
                });
            }
            std::thread::sleep(ROUND / 3);
            drop(first.take());
        });
    }
}

/// A way to read a file.
type ReadAll = fn(&Path) -> std::io::Result<Vec<u8>>;

/// A file that contains one number over and over; the number only grows.
struct Generations {
    below: PathBuf,
    path: PathBuf,
    latest: AtomicU64,
}

impl Generations {
    /// More than a small file, which is not passed through.
    const WORDS: usize = 32 << 10;

    fn write_one(&self) {
        let next = self.latest.load(SeqCst) + 1;
        to_write(&self.path).write_all_at(&next.to_le_bytes().repeat(Self::WORDS), 0).expect("written");
        self.latest.store(next, SeqCst);
    }

    fn check(&self, read: ReadAll) {
        let before = self.latest.load(SeqCst);
        let read = read(&self.path).expect("read");
        let words = read.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        let oldest = words.min().expect("not empty");
        assert!(
            read.len() == Self::WORDS * 8 && oldest >= before,
            "{} bytes of {oldest} after {before}",
            read.len()
        );
    }
}

/// Whether a newly opened file is passed through.
fn passed_anew(mount: &TestMount, path: &Path) -> bool {
    let before = passed(mount);
    drop(File::open(path).expect("opened"));
    passed(mount) > before
}

fn read_all(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut &*file, &mut bytes).map(|_| bytes)
}

#[test]
fn a_deleted_file_frees_its_space_when_it_is_closed() {
    let Some(mount) = passing() else { return };
    let path = mount.point.join("a");
    fs::write(mount.source.join("a"), vec![1; LENGTH]).expect("written");
    let reader = File::open(&path).expect("opened");
    assert_eq!(passed(&mount), 1);
    fs::remove_file(&path).expect("removed");
    assert_eq!(byte(&reader, 9), 1, "it is read on");
    drop(reader);
    wait_for("no descriptor of a deleted file in the server", || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", mount.pid())).expect("listed");
        let deleted = |fd: &fs::DirEntry| {
            fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().ends_with("(deleted)"))
        };
        !descriptors
            .flatten()
            .any(|fd| deleted(&fd) && fs::metadata(fd.path()).is_ok_and(|there| there.len() == LENGTH as u64))
    });
}
