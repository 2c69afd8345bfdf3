//! Why a machine cannot be made or cannot go on.

use foreseek_units::{Bytes, Nanos};

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The layout is not that of the workload.
    #[error("the workload has {files} files, the layout places {placed}: lay out the same workload's files")]
    Files {
        /// Of the workload.
        files: usize,
        /// Of the layout.
        placed: usize,
    },
    /// Nothing could run, or too much.
    #[error("a machine with {processors} processors: give 1 to {most}")]
    Processors {
        /// What was asked for.
        processors: u32,
        /// The most that is possible.
        most: u32,
    },
    /// More memory than frames are counted in.
    #[error("a machine with {total} of memory: give at most {most}")]
    TooMuchMemory {
        /// What was asked for.
        total: Bytes,
        /// The most that is possible.
        most: Bytes,
    },
    /// More concurrent requests than a machine should hold.
    #[error("concurrency {concurrency}: give 1 to {most}")]
    Concurrency {
        /// What was asked for.
        concurrency: u32,
        /// The most that is possible.
        most: u32,
    },
    /// Nothing would be left for the page cache.
    #[error(
        "{total} of memory leave no room for a page cache beside full private memory: give at least {least}"
    )]
    Memory {
        /// What there is.
        total: Bytes,
        /// What is needed.
        least: Bytes,
    },
    /// A program asked for what cannot be.
    #[error("program {number}: cannot {step}: {reason}")]
    Program {
        /// The number of its request or job.
        number: u64,
        /// What it tried.
        step: &'static str,
        /// Why not.
        reason: String,
    },
    /// A page that lies nowhere.
    #[error("read of file {file}: the layout does not say where page {page} lies")]
    Unplaced {
        /// The file.
        file: u32,
        /// The page.
        page: u64,
    },
    /// The device is full.
    #[error("write to file {file}: the device of {capacity} is full: choose a larger one")]
    NoSpace {
        /// The file.
        file: u32,
        /// What the device holds.
        capacity: Bytes,
    },
    /// The device failed.
    #[error(
        "the device failed at pages {first}..{end} of file {file}: use a device without unreadable sectors"
    )]
    Device {
        /// The file.
        file: u32,
        /// The first page of the request.
        first: u64,
        /// The first page past it.
        end: u64,
    },
    /// Everything waits.
    #[error("the machine is stuck after {at}: nothing is arranged, but {waits}")]
    Stuck {
        /// Virtual time.
        at: Nanos,
        /// Who waits for what.
        waits: String,
    },
    /// Jobs that do not end.
    #[error("{left} jobs have not ended after {limit} of virtual time: raise the duration")]
    TooLong {
        /// How long they were given.
        limit: Nanos,
        /// How many are left.
        left: usize,
    },
}
