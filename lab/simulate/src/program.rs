//! Programs of processes: state machines over a file system.
//!
//! A [`Program`] returns its next [`Step`] when the one before is over; it has no thread and reads no clock. A
//! [`Workload`] defines the files and makes programs: one for each request of a server's clients, or one for
//! each process of a batch of jobs. Random numbers come from the caller's generator, so that a seed determines
//! a run.

use crate::directed::Pair;
use foreseek_seam::Extent;
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PageIndex, PageSpan, Pages};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// A file of the workload, counted from 0 in the order of [`Workload::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u32);

/// A program's own name for something that it has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u32);

/// A file that must exist before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its length.
    pub length: Bytes,
    /// The directory that it lies in: a file system places files of a directory together.
    pub directory: u32,
}

/// The root of the file system, the parent of all directories; its entries are in memory.
pub const ROOT: u32 = u32::MAX;

/// A program's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a file for reading with `read` or by mapping it.
    Open {
        /// The name that later steps use.
        handle: Handle,
        /// The file.
        file: FileNumber,
        /// How much will be read through this handle from its first read on: only for an oracle, not for other
        /// policies.
        announced: Option<Bytes>,
    },
    /// Reads bytes; over when all of them are in memory and copied.
    Read {
        /// The open file.
        handle: Handle,
        /// The bytes.
        range: ByteSpan,
    },
    /// Reads pages past the page cache (`O_DIRECT`); over when all of them have arrived.
    Direct {
        /// The open file.
        handle: Handle,
        /// The pages.
        pages: PageSpan,
    },
    /// Writes pages past the page cache (`O_DIRECT`); over when the device has them.
    DirectWrite {
        /// The open file.
        handle: Handle,
        /// The pages, within the file.
        pages: PageSpan,
    },
    /// Touches a page of a mapped file; over when it is in memory.
    Touch {
        /// The open file.
        handle: Handle,
        /// The page.
        page: PageIndex,
    },
    /// Writes bytes (into the page cache; written back later).
    Write {
        /// The open file.
        handle: Handle,
        /// The bytes; past the end the file grows.
        range: ByteSpan,
    },
    /// Writes a file's dirty pages (`fsync`); over when the device has them.
    Sync {
        /// The open file.
        handle: Handle,
    },
    /// Removes a file: its dirty pages need not be written, and its pages leave memory. The next file of this
    /// number gets its space.
    Unlink {
        /// The file.
        file: FileNumber,
    },
    /// Advises the kernel that pages will be read (`POSIX_FADV_WILLNEED`): each contiguous run of missing pages
    /// becomes a request. Over when the block layer has them all; answered by [`Answer::Advised`].
    Advise {
        /// The open file.
        handle: Handle,
        /// The pages.
        pages: PageSpan,
    },
    /// Gives clean, unused pages back (`POSIX_FADV_DONTNEED`); answered by [`Answer::Forgotten`].
    Forget {
        /// The open file.
        handle: Handle,
        /// The pages.
        pages: PageSpan,
    },
    /// Asks the kernel a question.
    Ask {
        /// The open file.
        handle: Handle,
        /// The question.
        question: Question,
    },
    /// Gets a file's attributes (`stat`): over when its inode is in memory.
    Stat {
        /// The file.
        file: FileNumber,
    },
    /// Lists a directory: over when its blocks are in memory.
    List {
        /// The directory, as [`FileSpec::directory`].
        directory: u32,
    },
    /// Waits until the daemon that it belongs to has work ([`crate::watch`]).
    Await,
    /// Has this much private memory from here on.
    Hold(Bytes),
    /// Closes a handle.
    Close {
        /// The handle.
        handle: Handle,
    },
    /// Uses a processor for this long.
    Compute(Nanos),
    /// Sleeps for this long.
    Sleep(Nanos),
    /// A part of the work begins: its time counts from here, instead of from the end of the part before it or
    /// the start of the process.
    Begun,
    /// A part of the work is complete (one request, one query): counted and timed by the metrics.
    Finished,
    /// The program ends; its open files are closed.
    Exit,
}

/// A question of a program about an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which of these pages are in memory or in flight (`cachestat`, `mincore`).
    Resident(PageSpan),
    /// The file's extents (`FIEMAP`).
    Extents,
    /// The memory for cached pages (`MemAvailable`, or the control group's limit).
    Budget,
}

/// An answer of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To [`Step::Advise`]: this many pages from the first on were taken.
    Advised(Pages),
    /// To [`Step::Forget`].
    Forgotten,
    /// To [`Question::Resident`]: the runs, ascending.
    Resident(&'a [PageSpan]),
    /// To [`Question::Extents`]: ascending.
    Extents(&'a [Extent]),
    /// To [`Question::Budget`].
    Budget(Pages),
}

/// One process.
pub trait Program: Send {
    /// The step that follows the one that is over at `now`; never called again after [`Step::Exit`].
    fn next(&mut self, now: Instant, random: &mut dyn Rng) -> Step;
    /// The answer to the step before; comes at the time of the following call of [`next`](Self::next).
    fn answered(&mut self, _answer: Answer<'_>) {}
    /// The private memory of the process.
    fn memory(&self) -> Bytes;
}

impl Program for Box<dyn Program> {
    fn next(&mut self, now: Instant, random: &mut dyn Rng) -> Step {
        (**self).next(now, random)
    }

    fn answered(&mut self, answer: Answer<'_>) {
        (**self).answered(answer);
    }

    fn memory(&self) -> Bytes {
        (**self).memory()
    }
}

/// How a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// A server with a closed loop of clients: as many concurrent requests as the concurrency level, a new one
    /// as soon as one is over; measured for a time.
    Closed,
    /// This many jobs, all started at once and run to their end; their time is measured.
    Jobs(u32),
}

/// Files and the programs that use them.
pub trait Workload: Send {
    /// The files, in the order in which they were written to the file system.
    fn files(&self) -> Vec<FileSpec>;
    /// How it is run.
    fn drive(&self) -> Drive;
    /// The files of each directory in the order of its listing, where programs walk a tree.
    fn tree(&self) -> Option<Arc<Vec<Vec<FileNumber>>>> {
        None
    }
    /// How many requests a closed loop begins with; said before the first program is made.
    fn begins_with(&mut self, _requests: u32) {}
    /// The program of the request (or job) with this number.
    fn program(&mut self, number: u64, random: &mut dyn Rng) -> Box<dyn Program>;
    /// The same program with the application that answers when libprefetch asks what it will read; `None` if it
    /// does not use libprefetch. The programs of one number make the same steps.
    fn directed(&mut self, _number: u64, _random: &mut dyn Rng) -> Option<Pair> {
        None
    }
}

/// Separates the generators of a run's programs: an odd constant, so that neighbouring numbers give seeds that
/// differ in most bits (from the golden ratio, as in splitmix64).
const PARTING: u64 = 0x9e37_79b9_7f4a_7c15;

/// The program of the request (or job) with this number in a run of this seed, and the generator for its steps:
/// the accesses are the same in virtual and in real time.
pub fn begin(workload: &mut dyn Workload, seed: u64, number: u64) -> (Box<dyn Program>, Pcg64Mcg) {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ number.wrapping_mul(PARTING));
    (workload.program(number, &mut random), random)
}
