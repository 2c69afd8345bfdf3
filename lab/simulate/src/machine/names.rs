//! Names of files and frames: each refers to the other by its number.

/// Names a file: its number in the order of the workload's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileNo(pub(super) u32);

/// Names a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNo(pub u32);
