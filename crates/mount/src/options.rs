//! The options of a mount.

use crate::Policy;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The source, the mount point and their options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// The directory to show.
    pub source: PathBuf,
    /// An empty directory that exists, or the source itself, which is then hidden behind the mount.
    pub mount_point: PathBuf,
    /// Whether to forbid changes through the mount.
    pub read_only: bool,
    /// Has the kernel abort the mount when a request is not answered in this time (Linux 6.14).
    pub request_timeout: Option<Duration>,
    /// Whether to remember files by handles where the file system has them. False only for tests of the other
    /// case.
    pub use_handles: bool,
    /// Read-ahead for programs that walk trees, if the source's disk seeks. `None` for none.
    pub walks: Option<WalkOptions>,
    /// Whether the kernel itself reads files that are in the source's page cache (FUSE passthrough, Linux
    /// 6.9).
    #[serde(default)]
    pub passthrough: bool,
    /// The most descriptors of the server. `None` for as many as the system permits.
    pub descriptors: Option<u64>,
}

/// The options of the read-ahead for programs that walk trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkOptions {
    /// The most bytes of the source's page cache that may hold data read ahead and not used yet.
    pub memory_bytes: u64,
    /// The device of the source; without one, a typical disk is assumed.
    pub profile: Option<String>,
    /// Where the engine's events and commands are recorded: this name, `.` and that of the source's disk.
    #[serde(default)]
    pub record: Option<PathBuf>,
}

impl WalkOptions {
    /// The options for a mount with this policy, memory for streams and profile. Only the policies that learn
    /// about programs read ahead for walks: the others stay as they are for comparisons. Walks get half as
    /// much memory as streams.
    #[must_use]
    pub fn for_policy(policy: Policy, memory: Bytes, profile: Option<&str>) -> Option<Self> {
        let knows = [Policy::ADAPTIVE, Policy::COMPETITIVE].contains(&policy);
        knows.then(|| Self {
            memory_bytes: (memory / 2).get(),
            profile: profile.map(str::to_owned),
            record: None,
        })
    }
}

impl MountOptions {
    /// A writable mount.
    #[must_use]
    pub fn new(source: impl Into<PathBuf>, mount_point: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            mount_point: mount_point.into(),
            read_only: false,
            request_timeout: None,
            use_handles: true,
            walks: None,
            passthrough: false,
            descriptors: None,
        }
    }
}
