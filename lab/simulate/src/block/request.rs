//! A request on its way to the device.

use foreseek_device::{Op, Outcome};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, SectorSpan};

/// The submitter's name for a submission; a merged request completes several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// What a file system submits to the block layer: contiguous sectors of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Comes back with [`Completed`].
    pub tag: Tag,
    /// Read or write.
    pub op: Op,
    /// Where; of any length.
    pub range: SectorSpan,
    /// The process for which it is made.
    pub pid: ProcessId,
    /// Whether a process waits or will wait for it: reads, including read-ahead, and synchronous writes.
    pub synchronous: bool,
}

/// A completed submission, with all of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The submitter's name for it.
    pub tag: Tag,
    /// When it was submitted.
    pub submitted: Instant,
    /// When its last piece was completed.
    pub at: Instant,
    /// Failed if a request with one of its pieces failed.
    pub outcome: Outcome,
}

/// No request is free: the submitter sleeps until [`super::BlockLayer::room`] says that there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block layer's request pool is empty")]
pub struct Full;

/// The block layer's name for a request until its completion; reused afterwards. Small, since schedulers keep
/// tables by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// What a scheduler orders: neighbours are merged and long ones split before they reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The block layer's name for it.
    pub id: RequestId,
    /// Read or write.
    pub op: Op,
    /// Where.
    pub range: SectorSpan,
    /// The process for which it is made; a scheduler that is blind to processes sees one for all.
    pub pid: ProcessId,
    /// Whether a process waits for it (reads and synchronous writes).
    pub synchronous: bool,
    /// When it reached the scheduler.
    pub at: Instant,
}
