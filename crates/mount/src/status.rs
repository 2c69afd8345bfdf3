//! The status of a mount.

use foreseek_readahead::learn::Explained;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Classes of streams that are reported: a screen of them.
pub(crate) const CLASSES_REPORTED: usize = 20;

/// A mount and its read path. Counts are since the mount began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The directory that is shown.
    pub source: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The server's process.
    pub pid: u32,
    /// How long it has been mounted.
    pub seconds: f64,
    /// Files that are open.
    pub files_open: u64,
    /// Files that the kernel knows.
    pub files_known: u64,
    /// Changes of files in the source by other programs that were noticed.
    #[serde(alias = "foreign_changes")]
    pub external_changes: u64,
    /// Prefetching for programs that walk trees; `None` where it is off.
    #[serde(default)]
    pub walks: Option<WalkStatus>,
    /// FUSE passthrough of files that are in memory; `None` where it is off.
    #[serde(default)]
    pub passthrough: Option<PassthroughStatus>,
    /// Opens of files with a long window, for programs that read in longer calls than the default window; the
    /// kernel requests these calls whole.
    #[serde(default)]
    pub long_windows: u64,
    /// Opens of files with a shorter window than the default, since many share the memory of the program's
    /// control group.
    #[serde(default)]
    pub short_windows: u64,
    /// The read path.
    pub reads: ReadStatus,
    /// The file that keeps what is learnt, if there is one.
    pub kept: Option<Kept>,
}

/// Prefetching for programs that walk trees. Counts are since the mount began.
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

/// FUSE passthrough: the kernel itself reads files that lie in the source's page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassthroughStatus {
    /// Opens of such files since the mount began.
    pub opens: u64,
    /// Why passthrough is unavailable, where it is.
    #[serde(default, alias = "why_not")]
    pub unavailable: Option<String>,
}

/// The file in which what is learnt outlives the mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The file.
    pub path: PathBuf,
    /// Classes of streams that were loaded from it when the mount began.
    #[serde(alias = "begun_with_classes")]
    pub loaded_classes: u64,
    /// Seconds since this mount wrote it last; `None` before the first time.
    pub saved_seconds_ago: Option<f64>,
    /// The error that keeps it from being written, if any.
    pub problem: Option<String>,
}

/// What a read path has done and learnt. Counts are since the mount began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadStatus {
    /// The prefetching policy; `plain` prefetches nothing.
    pub policy: String,
    /// The bound on the competitive ratio of each stream; `None` where the policy has no bound that can be
    /// chosen.
    pub rho: Option<f64>,
    /// Streams that are open.
    pub streams_open: u64,
    /// Streams that have read in the last seconds, as the cap on the prefetch size counts them.
    pub streams_active: u64,
    /// Reads that came.
    pub reads: u64,
    /// Bytes in their answers.
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
    /// Reads whose pages were all in the prefetch cache.
    pub hits: u64,
    /// Reads that waited for a fetch in flight.
    pub joined: u64,
    /// Bytes fetched from the backing files.
    pub fetched_bytes: u64,
    /// Of these, fetched ahead.
    pub prefetched_bytes: u64,
    /// Of these, evicted before use.
    pub wasted_bytes: u64,
    /// Bytes of deferred prefetches that were cancelled when their single stream ended; not among those above.
    #[serde(default, alias = "taken_back_bytes")]
    pub cancelled_bytes: u64,
    /// Misses of pages that had been read before.
    pub lru_misses: u64,
    /// Misses of pages that had been prefetched and evicted before use.
    pub prefetch_misses: u64,
    /// The same per second, over the last epoch.
    pub thrashing_pages_per_s: f64,
    /// The competitive prefetch size of this device, as far as memory allows it.
    #[serde(alias = "depth_bytes")]
    pub prefetch_size_bytes: u64,
    /// The cap on the prefetch size of one stream: its share of the ceiling.
    pub bound_bytes: u64,
    /// The ceiling: the cap on the prefetch cache.
    pub ceiling_bytes: u64,
    /// The size of the prefetch cache.
    pub cached_bytes: u64,
    /// Memory set aside for data.
    pub memory_bytes: u64,
    /// Whether prefetching pays.
    #[serde(default)]
    pub benefit: BenefitStatus,
    /// What was learnt about the device; `None` before anything was.
    pub learnt: Option<Learnt>,
    /// What was learnt about streams: the classes of which most was read, at most twenty. Empty for a policy
    /// that does not learn about them.
    pub classes: Vec<Explained>,
    /// How many classes there are.
    pub classes_known: u64,
    /// Warnings, one line each.
    #[serde(alias = "remarks")]
    pub warnings: Vec<String>,
}

impl ReadStatus {
    /// Adds the reads that another path has answered.
    pub(crate) fn add(&mut self, other: &Self) {
        self.streams_open += other.streams_open;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.failed += other.failed;
        self.calls += other.calls;
        self.fetched_bytes += other.fetched_bytes;
    }
}

/// The benefit and the cost of prefetching, by samples of what is fetched ahead. After two samples in a row
/// that do not pay, files are opened without prefetching until a trial pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenefitStatus {
    /// Whether files are opened without prefetching now.
    pub aside: bool,
    /// Whether prefetching is being tried again.
    pub trying: bool,
    /// How often it was found not to pay.
    pub times: u64,
    /// Opens of files without prefetching.
    pub opens_aside: u64,
    /// Bytes fetched ahead in the last sample; zero before the first.
    pub sample_bytes: u64,
    /// Of these, read.
    pub sample_used_bytes: u64,
    /// Waits for the device that they saved.
    pub sample_saved_ms: f64,
    /// Device time spent on those that were not read.
    pub sample_spent_ms: f64,
}

/// The costs of the device as learnt from the mount's own reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// The positioning time.
    #[serde(alias = "switch_ms")]
    pub positioning_ms: f64,
    /// The transfer rate, in 10^6 bytes a second.
    pub rate_mb_per_s: f64,
    /// The reads of this mount that it was learnt from; zero where an earlier mount learnt it.
    pub samples: u64,
}
