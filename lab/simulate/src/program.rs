//! What processes do: programs as state machines over a file system.
//!
//! A [`Program`] is asked for its next [`Step`] when the one before is over; it holds no thread and
//! reads no clock. A [`Workload`] says which files there are and makes programs: one a request of a
//! server's clients, or one a process of a batch of jobs. Random numbers come from the generator
//! that the caller hands over, so that a seed fixes a run.

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

/// What a program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a file for reading with `read` or by mapping it.
    Open {
        /// The name that later steps use.
        handle: Handle,
        /// The file.
        file: FileNumber,
        /// How much will be read through this handle from its first read on: shown to an oracle
        /// only, to no other policy.
        announced: Option<Bytes>,
    },
    /// Reads bytes; over when all of them are in memory and copied.
    Read {
        /// From what.
        handle: Handle,
        /// Which.
        range: ByteSpan,
    },
    /// Reads pages past the page cache (`O_DIRECT`); over when all of them have come.
    Direct {
        /// From what.
        handle: Handle,
        /// Which.
        pages: PageSpan,
    },
    /// Writes pages past the page cache (`O_DIRECT`); over when the device has them.
    DirectWrite {
        /// To what.
        handle: Handle,
        /// Which, within the file.
        pages: PageSpan,
    },
    /// Touches a page of a mapped file; over when it is in memory.
    Touch {
        /// Of what.
        handle: Handle,
        /// Which page.
        page: PageIndex,
    },
    /// Writes bytes (into the page cache; written back later).
    Write {
        /// To what.
        handle: Handle,
        /// Which; past the end the file grows.
        range: ByteSpan,
    },
    /// Writes what is dirty of a file (`fsync`); over when the device has it.
    Sync {
        /// Of what.
        handle: Handle,
    },
    /// Removes a file: what is dirty of it need not be written any more, and its pages leave memory. Its space is
    /// that of the next file of this number.
    Unlink {
        /// Which.
        file: FileNumber,
    },
    /// Advises the kernel that pages will be read (`POSIX_FADV_WILLNEED`): each run of missing pages
    /// that lie together becomes a request. Over when the block layer has them all; answered by
    /// [`Answer::Advised`].
    Advise {
        /// Of what.
        handle: Handle,
        /// Which.
        pages: PageSpan,
    },
    /// Gives clean pages that nobody uses back (`POSIX_FADV_DONTNEED`); answered by
    /// [`Answer::Forgotten`].
    Forget {
        /// Of what.
        handle: Handle,
        /// Which.
        pages: PageSpan,
    },
    /// Asks the kernel.
    Ask {
        /// Of what.
        handle: Handle,
        /// What.
        question: Question,
    },
    /// Asks for a file's attributes (`stat`): over when its inode is in memory.
    Stat {
        /// Which.
        file: FileNumber,
    },
    /// Lists a directory: over when its blocks are in memory.
    List {
        /// Which, as [`FileSpec::directory`].
        directory: u32,
    },
    /// Waits until the daemon to which it belongs has work ([`crate::watch`]).
    Await,
    /// Holds so much private memory from here on.
    Hold(Bytes),
    /// Closes a handle.
    Close {
        /// Which.
        handle: Handle,
    },
    /// Uses a processor for so long.
    Compute(Nanos),
    /// Waits for so long without a processor.
    Sleep(Nanos),
    /// A part of the work begins: its time counts from here, and not from the end of the one before
    /// it or the start of the process.
    Begun,
    /// A part of the work is done (one request, one query): counted and timed by the metrics.
    Finished,
    /// The program ends; what it left open is closed.
    Exit,
}

/// What a program may ask the kernel about an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which of these pages are in memory or on their way (`cachestat`, `mincore`).
    Resident(PageSpan),
    /// Where the file lies (`FIEMAP`).
    Extents,
    /// How much memory there is for cached pages (`MemAvailable`, or the control group's limit).
    Budget,
}

/// What the kernel answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To [`Step::Advise`]: so many pages from the first on were taken.
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
    /// The answer to the step before, at the time of the call of [`next`](Self::next) that follows.
    fn answered(&mut self, _answer: Answer<'_>) {}
    /// Private memory that the process holds while it lives.
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

/// How a workload is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// A server with a closed loop of clients: as many concurrent requests as the concurrency level
    /// says, a new one as soon as one is over; measured for a time.
    Closed,
    /// So many jobs, all started at once and run to their end; measured by how long that takes.
    Jobs(u32),
}

/// Files and the programs that use them.
pub trait Workload: Send {
    /// The files, in the order in which they were written to the file system.
    fn files(&self) -> Vec<FileSpec>;
    /// How it is driven.
    fn drive(&self) -> Drive;
    /// The files of each directory in the order in which it lists them, where programs walk over a tree.
    fn tree(&self) -> Option<Arc<Vec<Vec<FileNumber>>>> {
        None
    }
    /// The program of the request (or job) with this number.
    fn program(&mut self, number: u64, random: &mut dyn Rng) -> Box<dyn Program>;
    /// The same program with what answers for it when libprefetch asks what it will read; none where it does not
    /// use libprefetch. The programs of one number make the same steps.
    fn directed(&mut self, _number: u64, _random: &mut dyn Rng) -> Option<Pair> {
        None
    }
}

/// Parts the generators of a run's programs: an odd constant, so that neighbouring numbers give seeds
/// that differ in most bits (the golden ratio's, as splitmix64 uses it).
const PARTING: u64 = 0x9e37_79b9_7f4a_7c15;

/// The program of the request (or job) with this number in a run of this seed, and the generator
/// that its steps are to draw from: whoever runs it, in virtual or in real time, makes the same
/// accesses.
pub fn begin(workload: &mut dyn Workload, seed: u64, number: u64) -> (Box<dyn Program>, Pcg64Mcg) {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ number.wrapping_mul(PARTING));
    (workload.program(number, &mut random), random)
}
