//! Why a machine cannot be made or cannot go on.

use foreseek_units::{Bytes, Nanos};

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The layout belongs to another workload.
    #[error("the workload has {files} files, the layout places {placed}: lay out the same workload's files")]
    Files {
        /// Files of the workload.
        files: usize,
        /// Files of the layout.
        placed: usize,
    },
    /// A number of processors that is not possible.
    #[error("a machine with {processors} processors: give 1 to {most}")]
    Processors {
        /// The requested number.
        processors: u32,
        /// The largest possible number.
        most: u32,
    },
    /// More memory than frame numbers can count.
    #[error("a machine with {total} of memory: give at most {most}")]
    TooMuchMemory {
        /// The requested size.
        total: Bytes,
        /// The largest possible size.
        most: Bytes,
    },
    /// More concurrent requests than a machine can hold.
    #[error("concurrency {concurrency}: give 1 to {most}")]
    Concurrency {
        /// The requested number.
        concurrency: u32,
        /// The largest possible number.
        most: u32,
    },
    /// No memory would be left for the page cache.
    #[error(
        "{total} of memory leave no room for a page cache beside full private memory: give at least {least}"
    )]
    Memory {
        /// The machine's memory.
        total: Bytes,
        /// The least memory.
        least: Bytes,
    },
    /// A program made a step that is not possible.
    #[error("program {number}: cannot {step}: {reason}")]
    Program {
        /// The number of its request or job.
        number: u64,
        /// The step.
        step: &'static str,
        /// The reason.
        reason: String,
    },
    /// A page without an address.
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
        /// The device's capacity.
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
        /// The page after its last.
        end: u64,
    },
    /// Every process waits and no event is left.
    #[error("the machine is stuck after {at}: no event is left, but {waits}")]
    Stuck {
        /// Virtual time.
        at: Nanos,
        /// What each process waits for.
        waits: String,
    },
    /// Jobs that did not end in time.
    #[error("{left} jobs have not ended after {limit} of virtual time: raise the duration")]
    TooLong {
        /// The time limit.
        limit: Nanos,
        /// How many are left.
        left: usize,
    },
}
