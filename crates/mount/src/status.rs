//! What a mount says of itself.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A mount and its read path. Counts are since the mount began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The directory that is shown.
    pub source: PathBuf,
    /// Where.
    pub mount_point: PathBuf,
    /// The server's process.
    pub pid: u32,
    /// How long it has been mounted.
    pub seconds: f64,
    /// Files that are open.
    pub files_open: u64,
    /// Files that the kernel knows.
    pub files_known: u64,
    /// Changes of files by others than users of the mount that were noticed.
    pub foreign_changes: u64,
    /// What answers reads.
    pub reads: ReadStatus,
}

/// What a read path has done and learnt. Counts are since the mount began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadStatus {
    /// The policy that decides what is prefetched; `plain` for none of ours.
    pub policy: String,
    /// Streams that are open.
    pub streams_open: u64,
    /// Streams that have read lately, as the depth cap counts them.
    pub streams_active: u64,
    /// Reads that came.
    pub reads: u64,
    /// Bytes that they were answered with.
    pub read_bytes: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Reads that found all they asked for in the prefetch cache.
    pub hits: u64,
    /// Reads that waited for a fetch already under way.
    pub joined: u64,
    /// Bytes fetched from the backing files.
    pub fetched_bytes: u64,
    /// Of these, fetched ahead of need.
    pub prefetched_bytes: u64,
    /// Of these, dropped before anyone asked for them.
    pub wasted_bytes: u64,
    /// Pages read again that had been delivered before.
    pub lru_misses: u64,
    /// Pages read that had been prefetched and dropped unused.
    pub prefetch_misses: u64,
    /// The same, a second, over the last epoch.
    pub thrashing_pages_per_s: f64,
    /// How much is prefetched at a time.
    pub depth_bytes: u64,
    /// How large the prefetch cache may be.
    pub ceiling_bytes: u64,
    /// How large it is.
    pub cached_bytes: u64,
    /// Memory set aside for data.
    pub memory_bytes: u64,
    /// What was learnt of the device; `None` before anything was.
    pub learnt: Option<Learnt>,
    /// What works less well than it might, one line each.
    pub remarks: Vec<String>,
}

/// What was learnt of a device from our own reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// What moving to other data takes.
    pub switch_ms: f64,
    /// At what rate data come then, in 10^6 bytes a second.
    pub rate_mb_per_s: f64,
    /// From how many reads.
    pub samples: u64,
}
