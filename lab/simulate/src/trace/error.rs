//! What can be wrong with a trace or its replay.

use foreseek_units::{Bytes, Nanos};

/// A trace that cannot be read or replayed. Names the file, the position, the reason and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not what its format says.
    #[error("{file}: line {line}: {reason}")]
    Line {
        /// The trace.
        file: String,
        /// Counted from one.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A record of a binary trace is not what its format says.
    #[error("{file}: byte {offset}: {reason}")]
    Byte {
        /// The trace.
        file: String,
        /// Where the record begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The trace cannot be read.
    #[error("{file}: cannot be read near line or byte {near}: {source}")]
    Io {
        /// The trace.
        file: String,
        /// How far reading came.
        near: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The first line is in no known format.
    #[error(
        "{file}: its first line is of no known trace format ({head}): say which it is, one of {}",
        known.join(", ")
    )]
    Unknown {
        /// The trace.
        file: String,
        /// Its beginning.
        head: String,
        /// The known formats.
        known: Vec<&'static str>,
    },
    /// A format that is recognised but cannot be read.
    #[error("{file}: {format} traces cannot be read: {reason}")]
    Unsupported {
        /// The trace.
        file: String,
        /// The format.
        format: &'static str,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// It has no requests.
    #[error("{file}: holds no request")]
    Empty {
        /// The trace.
        file: String,
    },
    /// It names more devices or files than can be distinguished.
    #[error("{file}: names more than {limit} devices or files: cut the trace up")]
    Places {
        /// The trace.
        file: String,
        /// How many can be distinguished.
        limit: usize,
    },
    /// Its requests reach beyond the device.
    #[error(
        "{file}: its requests need {needed}, the device has {capacity}: take a larger device, or wrap addresses around its end"
    )]
    Beyond {
        /// The trace.
        file: String,
        /// The end of its requests, with all its devices one behind the other.
        needed: Bytes,
        /// The device's capacity.
        capacity: Bytes,
    },
    /// It has no times of requests.
    #[error("{file}: has no times, only pauses after each request: replay it in a closed loop")]
    NoTimes {
        /// The trace.
        file: String,
    },
    /// The device is too slow for an open loop.
    #[error(
        "{file}: after {at} of the trace {waiting} requests wait for the device: it is too slow for an open loop, replay in a closed one"
    )]
    Overload {
        /// The trace.
        file: String,
        /// The time.
        at: Nanos,
        /// How many wait.
        waiting: usize,
    },
    /// It has more requests than a machine's replay can hold.
    #[error("{file}: has more than {limit} requests: replay its first ones only, or through the block layer")]
    TooLong {
        /// The trace.
        file: String,
        /// The most requests.
        limit: usize,
    },
    /// It names more processes than a machine's replay can have.
    #[error("{file}: has more than {limit} processes: replay it through the block layer")]
    Processes {
        /// The trace.
        file: String,
        /// The most processes.
        limit: usize,
    },
    /// A request failed.
    #[error("{file}: the device failed a request at sector {lba}")]
    Failed {
        /// The trace.
        file: String,
        /// Its sector.
        lba: u64,
    },
}
