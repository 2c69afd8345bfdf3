//! One request of a trace.

use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{ByteSpan, Instant, Nanos};

/// The most devices or files: the largest published collections have some dozens in a trace.
pub const TARGETS_LIMIT: usize = 1024;

/// When a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time, counted from the trace's own origin.
    At(Instant),
    /// This long after the completion of the request before it, or after the start.
    After(Nanos),
}

/// The target of a request. Devices have the trace's numbers, files numbers in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceTarget {
    /// A block device.
    Device(u32),
    /// A file, or a virtual disk.
    File(u32),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was made.
    pub at: When,
    /// Read, write or flush.
    pub op: Op,
    /// The target.
    pub target: TraceTarget,
    /// The bytes; empty for a flush.
    pub range: ByteSpan,
    /// The process that made it, if the trace has processes.
    pub pid: Option<ProcessId>,
    /// Its response time, if the trace has response times.
    pub response: Option<Nanos>,
}
