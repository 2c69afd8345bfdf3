//! Errors in calls of the application. A failed prefetch is a counter, never an error.

use foreseek_units::ByteSpan;
use std::os::fd::RawFd;

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The descriptor can't be watched.
    #[error("{operation}: descriptor {fd}: {reason}")]
    Descriptor {
        /// The call.
        operation: &'static str,
        /// The descriptor.
        fd: RawFd,
        /// The reason, and a remedy.
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
        /// The given range.
        range: ByteSpan,
    },
    /// A hint names a file without a region of this client.
    #[error(
        "hint: entry {index}: descriptor {fd} belongs to no file that this client watches: watch it first"
    )]
    NotWatched {
        /// The index of the entry.
        index: usize,
        /// Its descriptor.
        fd: RawFd,
    },
    /// The region is not, or not any more, one of this client's.
    #[error("unwatch: no such region of this client")]
    NoSuchRegion,
    /// A bound of the library is reached.
    #[error("{operation}: more than {limit} {what} in one process: release some first")]
    TooMany {
        /// The call.
        operation: &'static str,
        /// The things.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// An environment variable can't be used.
    #[error("{variable}={value}: {reason}")]
    Setting {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The reason, and the accepted values.
        reason: String,
    },
}
