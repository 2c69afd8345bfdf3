//! One request of a trace.

use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{ByteSpan, Instant, Nanos};

/// Devices or files that are told apart: the largest published collections have some dozens in a
/// trace, and a table of them is to be read by people.
pub const PLACES_LIMIT: usize = 1024;

/// When a request was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time, counted from the trace's own origin.
    At(Instant),
    /// So long after the request before it was over, or after the start.
    After(Nanos),
}

/// What a request was made to. Numbers are the trace's own for devices, and in order of appearance
/// for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceTarget {
    /// A block device.
    Device(u32),
    /// A file (or a virtual disk, which is a file to the machine that serves it).
    File(u32),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was made.
    pub at: When,
    /// Read, write or flush.
    pub op: Op,
    /// To what.
    pub place: TraceTarget,
    /// Which bytes; empty for a flush.
    pub range: ByteSpan,
    /// The process that made it, where the trace tells.
    pub who: Option<ProcessId>,
    /// How long it took, where the trace tells.
    pub response: Option<Nanos>,
}
