//! An exerciser of file operations, of the kind of `fsx`. It makes a random sequence of operations on a file
//! in the mount and on one in a plain directory: reads, writes, mapped reads and writes, truncations, holes,
//! allocations, copies, flushes and reopenings. Each result, the file in the mount, and the backing file
//! below it must be the same as of the plain file.
//!
//! `FORESEEK_EXERCISES=1000000` makes as many operations, `FORESEEK_SEED` another sequence.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]
#![allow(unsafe_code, reason = "mappings")]

mod common;

use common::{Random, mounted_with};
use foreseek_mount::{Policy, client};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Operations in a run of the tests; a million by hand.
const OPERATIONS: u64 = 20_000;
/// The greatest length of the file: fsx's own 256 KiB, and some pages more, the last of them never whole.
const LENGTH_LIMIT: u64 = (256 << 10) + 1234;
/// Longest single operation, like fsx's.
const STEP_LIMIT: u64 = 64 << 10;
/// The piece of a sequential program: a stream to the prefetcher.
const PIECE: u64 = 16 << 10;
/// How often the whole file is compared.
const COMPARE_EVERY: u64 = 1000;

/// One of the two files.
struct Subject {
    path: PathBuf,
    /// The descriptor for most operations, and one that reads what was written through the other.
    files: [File; 2],
}

impl Subject {
    fn new(directory: &Path) -> Self {
        let path = directory.join("exercised");
        File::options().create(true).append(true).open(&path).expect("made");
        Self { files: [open(&path), open(&path)], path }
    }
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("opened")
}

/// An operation.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Read {
        at: u64,
        length: u64,
    },
    /// Reads piece after piece, none of which the kernel has.
    Scan {
        at: u64,
        pieces: u64,
    },
    Write {
        at: u64,
        length: u64,
        fill: u8,
    },
    MapRead {
        at: u64,
        length: u64,
    },
    MapWrite {
        at: u64,
        length: u64,
        fill: u8,
        sync: bool,
    },
    Truncate {
        length: u64,
    },
    Punch {
        at: u64,
        length: u64,
    },
    Zero {
        at: u64,
        length: u64,
        keep: bool,
    },
    Allocate {
        at: u64,
        length: u64,
        keep: bool,
    },
    Copy {
        from: u64,
        to: u64,
        length: u64,
    },
    SeekHole {
        at: u64,
    },
    Sync {
        data: bool,
    },
    Invalidate,
    Reopen,
    ReadDirect {
        page: u64,
    },
    WriteDirect {
        page: u64,
        fill: u8,
    },
}

fn choose(random: &mut Random, length: u64) -> (Operation, usize) {
    let descriptor = usize::from(random.below(4) == 0);
    let at = random.below(LENGTH_LIMIT - 1);
    let step = 1 + random.below(STEP_LIMIT.min(LENGTH_LIMIT - at));
    let fill = random.next() as u8;
    // Mapped reads and writes stay within the file, since beyond its last page they end the process.
    let mapped_at = random.below(length);
    let mapped = 1 + random.below(STEP_LIMIT.min(length - mapped_at).max(1));
    let can_map = length > 0;
    let operation = match random.below(20) {
        0..=3 => Operation::Read { at, length: step },
        4..=7 => Operation::Write { at, length: step, fill },
        8 | 9 if can_map => Operation::MapRead { at: mapped_at, length: mapped.min(length - mapped_at) },
        10 | 11 if can_map => {
            let length = mapped.min(length - mapped_at);
            Operation::MapWrite { at: mapped_at, length, fill, sync: random.below(2) == 0 }
        }
        12 => Operation::Truncate { length: random.below(LENGTH_LIMIT) },
        13 => Operation::Punch { at, length: step },
        14 if random.below(2) == 0 => Operation::Zero { at, length: step, keep: random.below(2) == 0 },
        14 => Operation::Allocate { at, length: step, keep: random.below(2) == 0 },
        15 => Operation::Copy { from: at, to: random.below(LENGTH_LIMIT - step), length: step },
        16 => Operation::Sync { data: random.below(2) == 0 },
        17 => Operation::Invalidate,
        18 => match random.below(4) {
            0 => Operation::Reopen,
            1 => Operation::SeekHole { at },
            2 => Operation::ReadDirect { page: random.below(LENGTH_LIMIT >> 12) },
            _ => Operation::WriteDirect { page: random.below(LENGTH_LIMIT >> 12), fill },
        },
        _ => Operation::Scan { at, pieces: 2 + random.below(8) },
    };
    (operation, descriptor)
}

/// The result of an operation, for the comparison.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Bytes(Vec<u8>),
    Count(u64),
    Failed(Errno),
}

fn outcome<T>(result: Result<T, impl Into<std::io::Error>>, done: impl FnOnce(T) -> Outcome) -> Outcome {
    match result {
        Ok(value) => done(value),
        Err(error) => Outcome::Failed(Errno::from_io_error(&error.into()).unwrap_or(Errno::IO)),
    }
}

fn act(subject: &mut Subject, operation: Operation, descriptor: usize) -> Outcome {
    let file = &subject.files[descriptor];
    let done = |()| Outcome::Done;
    match operation {
        Operation::Read { at, length } => read(file, at, length),
        Operation::Scan { at, pieces } => scan(file, at, pieces),
        Operation::Write { at, length, fill } => {
            outcome(file.write_all_at(&pattern(at, length, fill), at), done)
        }
        Operation::MapRead { at, length } => {
            map(file, at, length, ProtFlags::READ, |bytes| Outcome::Bytes(bytes.to_vec()))
        }
        Operation::MapWrite { at, length, fill, sync } => {
            map(file, at, length, ProtFlags::READ | ProtFlags::WRITE, |bytes| {
                bytes.copy_from_slice(&pattern(at, length, fill));
                if sync { Outcome::Count(1) } else { Outcome::Done }
            })
        }
        Operation::Truncate { length } => outcome(file.set_len(length), done),
        Operation::Punch { at, length } => {
            allocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)
        }
        Operation::Zero { at, length, keep } => {
            let keep = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
            allocate(file, FallocateFlags::ZERO_RANGE | keep, at, length)
        }
        Operation::Allocate { at, length, keep } => {
            let mode = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
            allocate(file, mode, at, length)
        }
        Operation::Copy { from, to, length } => {
            let (mut read, mut written) = (from, to);
            let copied = rustix::fs::copy_file_range(
                file,
                Some(&mut read),
                &subject.files[1 - descriptor],
                Some(&mut written),
                length as usize,
            );
            outcome(copied, |copied| Outcome::Count(copied as u64))
        }
        Operation::SeekHole { at } => seek_hole(file, at),
        Operation::Sync { data: true } => outcome(file.sync_data(), done),
        Operation::Sync { data: false } => outcome(file.sync_all(), done),
        Operation::Invalidate => {
            outcome(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed), done)
        }
        Operation::Reopen => {
            subject.files[descriptor] = open(&subject.path);
            Outcome::Done
        }
        Operation::ReadDirect { page } => {
            let mut buffer = Aligned([0; 8192]);
            let at = page << 12;
            outcome(direct(&subject.path).read_at(&mut buffer.0, at), |read| {
                Outcome::Bytes(buffer.0[..read].to_vec())
            })
        }
        Operation::WriteDirect { page, fill } => {
            let mut buffer = Aligned([0; 8192]);
            buffer.0.copy_from_slice(&pattern(page << 12, 8192, fill));
            outcome(direct(&subject.path).write_all_at(&buffer.0, page << 12), done)
        }
    }
}

/// The file system may choose where a hole begins (pages of zeros in memory may count as data). But every
/// hole that it reports must be one.
fn seek_hole(file: &File, at: u64) -> Outcome {
    // Data in memory alone may count as a hole: flushed first.
    rustix::fs::fsync(file).expect("flushed");
    let hole = match rustix::fs::seek(file, SeekFrom::Hole(at)) {
        Ok(hole) => hole,
        Err(errno) => return Outcome::Failed(errno),
    };
    let end = file.metadata().expect("there").len();
    let data = rustix::fs::seek(file, SeekFrom::Data(hole)).unwrap_or(end);
    assert!(at <= hole && hole <= data && data <= end, "{at}, hole {hole}, data {data}, end {end}");
    let mut bytes = vec![0; (data - hole) as usize];
    file.read_exact_at(&mut bytes, hole).expect("read");
    Outcome::Count(bytes.iter().filter(|byte| **byte != 0).count() as u64)
}

#[repr(align(4096))]
struct Aligned([u8; 8192]);

fn direct(path: &Path) -> File {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).expect("opened").into()
}

fn read(file: &File, at: u64, length: u64) -> Outcome {
    let mut bytes = vec![0; length as usize];
    outcome(file.read_at(&mut bytes, at), |read| {
        bytes.truncate(read);
        Outcome::Bytes(bytes)
    })
}

fn scan(file: &File, at: u64, pieces: u64) -> Outcome {
    if let Err(errno) = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed) {
        return Outcome::Failed(errno);
    }
    let mut bytes = Vec::new();
    for piece in 0..pieces {
        match read(file, at + piece * PIECE, PIECE) {
            Outcome::Bytes(more) => bytes.extend(more),
            other => return other,
        }
    }
    Outcome::Bytes(bytes)
}

fn allocate(file: &File, mode: FallocateFlags, at: u64, length: u64) -> Outcome {
    outcome(rustix::fs::fallocate(file, mode, at, length), |()| Outcome::Done)
}

/// Calls `use_them` with the mapped bytes; the outcome `Count` requests a flush of the mapping.
fn map(
    file: &File,
    at: u64,
    length: u64,
    protection: ProtFlags,
    use_them: impl FnOnce(&mut [u8]) -> Outcome,
) -> Outcome {
    let start = at & !4095;
    let skip = (at - start) as usize;
    let whole = skip + length as usize;
    // SAFETY: the mapping is new, lies within the file, which no other program shortens meanwhile, and is
    // used only until it is unmapped below. Only writable mappings are written to.
    unsafe {
        let address =
            match rustix::mm::mmap(std::ptr::null_mut(), whole, protection, MapFlags::SHARED, file, start) {
                Ok(address) => address,
                Err(errno) => return Outcome::Failed(errno),
            };
        let bytes = std::slice::from_raw_parts_mut(address.cast::<u8>().add(skip), length as usize);
        let outcome = use_them(bytes);
        if matches!(outcome, Outcome::Count(_)) {
            rustix::mm::msync(address, whole, MsyncFlags::SYNC).expect("flushed");
        }
        rustix::mm::munmap(address, whole).expect("unmapped");
        outcome
    }
}

/// Bytes that depend on their offset.
fn pattern(at: u64, length: u64, fill: u8) -> Vec<u8> {
    (at..at + length).map(|place| fill ^ (place as u8) ^ ((place >> 8) as u8)).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Exercises a file, through the page cache of the mount, or with `passed` while a reader is open to which
/// the file is passed through.
fn exercise(policy: Policy, passed: bool, operations: u64, seed: u64) {
    let Some(mount) = mounted_with(policy, |options| options.passthrough = passed) else { return };
    let mut random = Random(seed);
    let _reader = passed.then(|| {
        // Made below: the server gets the close of a file in the mount a moment later.
        for directory in [&mount.source, &mount.plain] {
            std::fs::write(directory.join("exercised"), vec![1; LENGTH_LIMIT as usize]).expect("written");
        }
        File::open(mount.point.join("exercised")).expect("opened")
    });
    let mut here = Subject::new(&mount.point);
    let mut there = Subject::new(&mount.plain);
    for count in 1..=operations {
        let length = there.files[0].metadata().expect("there").len();
        let (operation, descriptor) = choose(&mut random, length);
        let expected = act(&mut there, operation, descriptor);
        let seen = act(&mut here, operation, descriptor);
        assert!(
            seen == expected,
            "operation {count} of seed {seed}: {operation:?}: {}",
            differ(&seen, &expected)
        );
        let lengths = [&here, &there].map(|subject| subject.files[0].metadata().expect("there").len());
        assert_eq!(lengths[0], lengths[1], "length after operation {count} of seed {seed}: {operation:?}");
        if count % COMPARE_EVERY == 0 || count == operations {
            compare(&mount.point, &mount.plain, &format!("through the mount, {count} of seed {seed}"));
            rustix::fs::fsync(&here.files[0]).expect("flushed");
            compare(&mount.source, &mount.plain, &format!("backing file, {count} of seed {seed}"));
        }
    }
    let status = client::status(&mount.point).expect("status");
    let reads = status.reads;
    println!(
        "{operations} operations of seed {seed}, policy {policy:?}: {} reads, {} of them failed; \
         {} KiB prefetched, {} reads hit",
        reads.reads,
        reads.failed,
        reads.prefetched_bytes >> 10,
        reads.hits
    );
    assert_eq!(reads.failed, 0);
    let passes = status.passthrough.filter(|passthrough| passthrough.unavailable.is_none());
    assert_eq!(
        passes.as_ref().map(|passes| passes.opens > 0),
        passes.as_ref().map(|_| true),
        "it was handed over"
    );
    let prefetches = policy != Policy::PLAIN && passes.is_none();
    assert_eq!(reads.prefetched_bytes > 0, prefetches, "prefetching was at work");
}

fn differ(seen: &Outcome, expected: &Outcome) -> String {
    match (seen, expected) {
        (Outcome::Bytes(seen), Outcome::Bytes(expected)) => {
            let at = seen.iter().zip(expected).position(|(a, b)| a != b);
            format!("{} bytes instead of {}, first other at {at:?}", seen.len(), expected.len())
        }
        _ => format!("{seen:?} instead of {expected:?}"),
    }
}

fn compare(one: &Path, other: &Path, when: &str) {
    let [one, other] =
        [one, other].map(|directory| std::fs::read(directory.join("exercised")).expect("read"));
    assert_eq!(one.len(), other.len(), "length {when}");
    assert!(one == other, "byte {:?} differs {when}", one.iter().zip(&other).position(|(a, b)| a != b));
}

#[test]
fn a_file_in_the_mount_equals_one_outside() {
    let operations = number("FORESEEK_EXERCISES", OPERATIONS);
    exercise(Policy::PLAIN, false, operations, number("FORESEEK_SEED", 1));
}

#[test]
fn a_file_with_competitive_prefetching_equals_one_outside() {
    let operations = number("FORESEEK_EXERCISES", OPERATIONS / 2);
    exercise(Policy::COMPETITIVE, false, operations, number("FORESEEK_SEED", 2));
}

#[test]
fn a_file_with_learnt_depth_equals_one_outside() {
    // Fewer on each of several file systems.
    let share = if common::file_systems::is_other() { 20 } else { 2 };
    let operations = number("FORESEEK_EXERCISES", OPERATIONS / share);
    exercise(Policy::ADAPTIVE, false, operations, number("FORESEEK_SEED", 3));
}

#[test]
fn a_file_passed_through_equals_one_outside() {
    let share = if common::file_systems::is_other() { 20 } else { 2 };
    let operations = number("FORESEEK_EXERCISES", OPERATIONS / share);
    exercise(Policy::ADAPTIVE, true, operations, number("FORESEEK_SEED", 4));
}

#[test]
fn on_other_file_systems() {
    common::file_systems::on_each(
        "on_other_file_systems",
        &["a_file_with_learnt_depth_equals_one_outside", "a_file_passed_through_equals_one_outside"],
    );
}
