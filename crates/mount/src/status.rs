//! What a mount says of itself.

use foreseek_readahead::learn::Explained;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Classes of streams that are told: a screen of them.
pub(crate) const CLASSES_REPORTED: usize = 20;

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
    #[serde(alias = "foreign_changes")]
    pub external_changes: u64,
    /// What is done for programs that walk trees; `None` where nothing is.
    #[serde(default)]
    pub walks: Option<WalkStatus>,
    /// Files in memory that were handed to the kernel; `None` where that is not wanted.
    #[serde(default)]
    pub passthrough: Option<PassthroughStatus>,
    /// Opens of files by programs that read in calls longer than a window, which the kernel asks for whole.
    #[serde(default)]
    pub long_windows: u64,
    /// What answers reads.
    pub reads: ReadStatus,
    /// Where what is learnt is kept, if anywhere.
    pub kept: Option<Kept>,
}

/// What was done for programs that walk trees. Counts are since the mount began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkStatus {
    /// Bytes of inodes and directories that were read ahead.
    pub metadata_bytes: u64,
    /// Bytes of contents that were read ahead.
    pub content_bytes: u64,
    /// Those of them whose files were opened since.
    pub used_bytes: u64,
    /// Reads that were answered out of the source's page cache.
    pub reads: u64,
}

/// Files that lie in the source's page cache, which the kernel reads there by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassthroughStatus {
    /// Opens of such files since the mount began.
    pub opens: u64,
    /// Why there are none, where they are not possible.
    #[serde(default, alias = "why_not")]
    pub unavailable: Option<String>,
}

/// Where what is learnt outlives the mount, and how that goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The file.
    pub path: PathBuf,
    /// Classes of streams that it held when the mount began.
    #[serde(alias = "begun_with_classes")]
    pub loaded_classes: u64,
    /// When it was written last; `None` where this mount has not done so yet.
    pub saved_seconds_ago: Option<f64>,
    /// Why it cannot be written, where it cannot.
    pub problem: Option<String>,
}

/// What a read path has done and learnt. Counts are since the mount began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadStatus {
    /// The policy that decides what is prefetched; `plain` for none of ours.
    pub policy: String,
    /// How many times what knowing its length would cost a stream costs at most; `None` where the policy
    /// keeps no bound that can be chosen.
    pub rho: Option<f64>,
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
    /// Internal errors: states of the prefetcher that contradict each other. The reads concerned bypassed the
    /// prefetcher.
    #[serde(default, alias = "contradictions")]
    pub internal_errors: u64,
    /// Calls of programs that were fetched whole, though the kernel asked for them in parts.
    #[serde(default)]
    pub calls: u64,
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
    /// Bytes that were to be fetched ahead for a single reader and were not, since it left before; not among those
    /// above.
    #[serde(default, alias = "taken_back_bytes")]
    pub cancelled_bytes: u64,
    /// Pages read again that had been delivered before.
    pub lru_misses: u64,
    /// Pages read that had been prefetched and dropped unused.
    pub prefetch_misses: u64,
    /// The same, a second, over the last epoch.
    pub thrashing_pages_per_s: f64,
    /// How much at a time pays on this device: the competitive depth, as far as memory lets it.
    pub depth_bytes: u64,
    /// How much may be read ahead of one stream: its share of the ceiling.
    pub bound_bytes: u64,
    /// How large the prefetch cache may be.
    pub ceiling_bytes: u64,
    /// How large it is.
    pub cached_bytes: u64,
    /// Memory set aside for data.
    pub memory_bytes: u64,
    /// What was learnt of the device; `None` before anything was.
    pub learnt: Option<Learnt>,
    /// What was learnt of streams: the classes of which most was read, twenty at most. Empty for a
    /// policy that learns nothing of them.
    pub classes: Vec<Explained>,
    /// How many classes there are.
    pub classes_known: u64,
    /// What works less well than it might, one line each.
    #[serde(alias = "remarks")]
    pub warnings: Vec<String>,
}

/// What was learnt of a device from our own reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// What moving to other data takes.
    pub switch_ms: f64,
    /// At what rate data come then, in 10^6 bytes a second.
    pub rate_mb_per_s: f64,
    /// From how many reads of this mount; none where it is what one before has learnt.
    pub samples: u64,
}
