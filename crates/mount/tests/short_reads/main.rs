//! A mount of a source whose reads come short before the end of the file, are interrupted, or fail at some
//! pages (a file system of ours, [`ShortSource`]). Programs see only the failures, at exactly their pages.
//! The tests use direct I/O and the page cache, io_uring and threads, and each way to read.
//!
//! `FORESEEK_SEED` gives other answers.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[path = "../common/mod.rs"]
mod common;
mod source;

use common::one_file::FILE;
use common::{Random, TestMount, mounted_as, wait_for};
use foreseek_mount::{Policy, client};
use rustix::fs::{Advice, fadvise};
use source::{Contents, Direct, PAGE, ShortSource};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

const EIO: i32 = 5;
const POLICIES: [Policy; 3] = [Policy::ADAPTIVE, Policy::COMPETITIVE, Policy::PLAIN];
/// Two MiB and a piece of a page.
const LENGTH: usize = 512 * PAGE + 1234;
/// Pages that cannot be read: a single one, two in a row, the last whole one.
const BAD: [usize; 5] = [37, 200, 201, 330, 511];

fn seed() -> u64 {
    let seed = std::env::var("FORESEEK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("FORESEEK_SEED={seed}");
    seed
}

/// The mount is removed before its source.
struct Short {
    mount: TestMount,
    source: ShortSource,
}

impl Drop for Short {
    fn drop(&mut self) {
        // Before the directory of both is removed.
        if let Err(error) = client::unmount(&self.mount.point) {
            println!("unmount: {error}");
        }
        self.source.end();
    }
}

fn short(policy: Policy, contents: &Arc<Contents>, direct: Direct, io_uring: bool) -> Option<Short> {
    let mut source = None;
    let mount = mounted_as(policy, io_uring, |options| {
        source = Some(ShortSource::mount(&options.source, contents, direct, seed()));
    })?;
    Some(Short { mount, source: source? })
}

/// The bytes that a program gets if it reads until it has all, the file ends, or an error occurs.
fn read(file: &File, at: usize, length: usize) -> (Vec<u8>, Option<i32>) {
    let (mut bytes, mut done) = (vec![0; length], 0);
    let error = loop {
        match file.read_at(&mut bytes[done..], (at + done) as u64) {
            Ok(0) => break None,
            Ok(got) => done += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break error.raw_os_error(),
        }
        if done == length {
            break None;
        }
    };
    bytes.truncate(done);
    (bytes, error)
}

/// The same for a file that is readable except for its bad pages.
fn expected(contents: &Contents, at: usize, length: usize) -> (Vec<u8>, Option<i32>) {
    let end = (at + length).min(contents.length()).max(at.min(contents.length()));
    let bad = contents.bad.iter().map(|page| page * PAGE..(page + 1) * PAGE);
    let first = bad.filter(|bad| bad.start < end && at < bad.end).map(|bad| bad.start.max(at)).min();
    let to = first.unwrap_or(end);
    (contents.bytes[at.min(to)..to].to_vec(), first.map(|_| EIO))
}

/// Reads the file sequentially in pieces of this length; checks each piece.
fn read_in_order(contents: &Contents, path: &Path, piece: usize, what: &str) {
    let file = File::open(path).expect("opened");
    for at in (0..contents.length()).step_by(piece) {
        let (got, error) = read(&file, at, piece);
        let (bytes, expected) = expected(contents, at, piece);
        assert_eq!((got.len(), error), (bytes.len(), expected), "{what}: {piece} at {at}");
        assert!(got == bytes, "{what}: other bytes, {piece} at {at}");
    }
}

/// Reads by this many readers, each at random offsets and sequentially from there.
fn read_here_and_there(contents: &Contents, path: &Path, readers: u64, what: &str) {
    std::thread::scope(|scope| {
        for reader in 0..readers {
            scope.spawn(move || {
                let file = File::open(path).expect("opened");
                let mut random = Random(reader + 1);
                for _ in 0..20 {
                    let mut at = random.below(contents.length() as u64) as usize;
                    let piece = 1 + random.below(100_000) as usize;
                    for _ in 0..3 {
                        let (got, error) = read(&file, at, piece);
                        let (bytes, expected) = expected(contents, at, piece);
                        assert_eq!((got.len(), error), (bytes.len(), expected), "{what}: {piece} at {at}");
                        assert!(got == bytes, "{what}: other bytes, {piece} at {at}");
                        at = (at + piece).min(contents.length());
                    }
                }
            });
        }
    });
}

/// Drops the file from the kernel's cache, so that the mount is read again.
fn forget(path: &Path) {
    let file = File::open(path).expect("opened");
    fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
}

/// All ways to read, from a source of this kind.
fn reads_as_outside(direct: Direct, io_uring: bool) {
    let contents = Contents::new(LENGTH, &BAD);
    for policy in POLICIES {
        let Some(short) = short(policy, &contents, direct, io_uring) else { return };
        let Short { mount, source } = &short;
        let what = format!("{policy:?}, direct I/O {direct:?}, io_uring {io_uring}");
        let (outside, inside) = (mount.source.join(FILE), mount.point.join(FILE));
        read_in_order(&contents, &outside, PAGE, "outside");
        for piece in [PAGE, 10_000, 128 << 10] {
            forget(&inside);
            read_in_order(&contents, &inside, piece, &what);
        }
        forget(&inside);
        read_here_and_there(&contents, &inside, 8, &what);
        let [reads, short, interrupted, failed] = {
            let answers = &source.answers;
            [&answers.reads, &answers.short, &answers.interrupted, &answers.failed]
                .map(|count| count.load(SeqCst))
        };
        println!(
            "{what}: {reads} reads of the source, {short} short, {interrupted} interrupted, {failed} failed"
        );
        assert!(short > 50 && interrupted > 5 && failed > 5, "{what}: it was not put to the test");
        let status = client::status(&mount.point).expect("it answers").reads;
        let buffered = status.warnings.iter().any(|warning| warning.contains("refuses direct I/O"));
        let threads = status.warnings.iter().any(|warning| warning.contains("io_uring cannot be used"));
        if policy != Policy::PLAIN {
            assert_eq!((buffered, threads), (direct == Direct::Refused, !io_uring), "{what}: {status:?}");
        }
    }
}

#[test]
fn short_direct_reads_are_continued() {
    reads_as_outside(Direct::Taken, true);
}

#[test]
fn short_reads_by_threads_are_continued() {
    reads_as_outside(Direct::Taken, false);
}

#[test]
fn short_reads_without_direct_io_are_continued() {
    reads_as_outside(Direct::Refused, true);
}

#[test]
fn short_reads_by_threads_without_direct_io_are_continued() {
    reads_as_outside(Direct::Refused, false);
}

/// Reads that FUSE itself splits, and does not cache.
fn open_direct(path: &Path) -> File {
    File::options().read(true).custom_flags(libc::O_DIRECT).open(path).expect("opened")
}

/// The source is shortened without a report. With `O_DIRECT` a read returns the current contents, or what was
/// read ahead. Through the page cache there may be zeros up to the old end until the change is noticed (the
/// kernel's FUSE pads with them where several concurrent requests come short). Soon it is the same as
/// outside.
#[test]
fn a_shortened_source_ends_where_it_ends_outside() {
    let ways = POLICIES.into_iter().flat_map(|policy| [(policy, Direct::Taken), (policy, Direct::Refused)]);
    for (policy, direct) in ways {
        let contents = Contents::new(LENGTH, &[]);
        let Some(short) = short(policy, &contents, direct, true) else { return };
        let mount = &short.mount;
        let what = format!("{policy:?}, direct I/O {direct:?}");
        let (outside, inside) =
            (File::open(mount.source.join(FILE)).expect("opened"), mount.point.join(FILE));
        let (file, past_cache) = (File::open(&inside).expect("opened"), open_direct(&inside));
        for length in [300 * PAGE + 77, 100 * PAGE, 50 * PAGE + PAGE - 1] {
            let start = length / 2;
            let right = &contents.bytes[start..length];
            assert!(read(&file, start, PAGE).0 == right[..PAGE], "{what}");
            contents.shorten(length);
            let (got, error) = read(&past_cache, start, LENGTH);
            assert!(error.is_none() && got.len() >= right.len(), "{what}, past the cache: {}", got.len());
            let before = &contents.bytes[start..start + got.len()];
            assert!(got == before, "{what}, past the cache: what the file never held");
            let (got, error) = read(&file, start, LENGTH);
            assert_eq!(error, None, "{what}, just shortened");
            let (there, beyond) = got.split_at(right.len().min(got.len()));
            assert!(*there == right[..there.len()], "{what}: other bytes, just shortened");
            let before = &contents.bytes[length..length + beyond.len()];
            let stale = beyond.iter().zip(before).all(|(found, before)| *found == 0 || found == before);
            assert!(stale, "{what}: other bytes beyond the end");
            wait_for("the same as outside", || read(&file, start, LENGTH) == read(&outside, start, LENGTH));
            assert!(read(&file, start, LENGTH) == (right.to_vec(), None), "{what}: to {length}");
        }
    }
}
