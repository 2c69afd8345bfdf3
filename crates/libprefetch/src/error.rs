//! What can go wrong in a call of the application. A failed prefetch is a counter, never an error.

use foreseek_units::ByteSpan;
use std::os::fd::RawFd;

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The descriptor can't be watched.
    #[error("{operation}: descriptor {fd}: {reason}")]
    Descriptor {
        /// Which call.
        operation: &'static str,
        /// The descriptor.
        fd: RawFd,
        /// Why not, and what would help.
        reason: String,
    },
    /// The region overlaps one of another client.
    #[error(
        "watch: bytes {}..{} of descriptor {fd} are watched by another client: unwatch that region first",
        .range.start.get(), .range.end.get()
    )]
    Overlap {
        /// The descriptor.
        fd: RawFd,
        /// The range that was asked for.
        range: ByteSpan,
    },
    /// A hint names a file of which this client watches nothing.
    #[error(
        "hint: entry {index}: descriptor {fd} belongs to no file that this client watches: watch it first"
    )]
    NotWatched {
        /// Which of the entries.
        index: usize,
        /// Its descriptor.
        fd: RawFd,
    },
    /// The region is not one of this client's, or no longer.
    #[error("unwatch: no such region of this client")]
    NoSuchRegion,
    /// A bound of the library is reached.
    #[error("{operation}: more than {limit} {what} in one process: release some first")]
    TooMany {
        /// Which call.
        operation: &'static str,
        /// Of what.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// An environment variable can't be used.
    #[error("{variable}={value}: {reason}")]
    Setting {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
        /// Why not, and what is accepted.
        reason: String,
    },
}
