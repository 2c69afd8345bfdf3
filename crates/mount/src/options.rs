//! What to mount where, and how.

use crate::Policy;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How a source is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// The directory to show.
    pub source: PathBuf,
    /// An empty directory that exists, or the source itself, which is then hidden behind the mount.
    pub mount_point: PathBuf,
    /// Let nothing be changed through the mount.
    pub read_only: bool,
    /// Let the kernel give the mount up when a request is not answered in this time (Linux 6.14).
    pub request_timeout: Option<Duration>,
    /// Remember files by handles where the file system gives them. False only to test what happens
    /// where it does not.
    pub use_handles: bool,
    /// Read ahead of programs that walk trees, where the source's disk seeks. `None` not to.
    pub walks: Option<WalkOptions>,
    /// Have the kernel read files by itself that lie in the source's page cache (Linux 6.9).
    #[serde(default)]
    pub passthrough: bool,
    /// Descriptors that the server may have. `None` for as many as the system lets it.
    pub descriptors: Option<u64>,
}

/// How to read ahead of programs that walk trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkOptions {
    /// At most so much is held that was read ahead and not used yet, in the source's page cache.
    pub memory_bytes: u64,
    /// The device that the source lies on; without one, a disk like it is taken.
    pub profile: Option<String>,
}

impl WalkOptions {
    /// What suits a mount with this policy, so much memory for streams and this profile. Only the policies that go by what they know of programs
    /// read ahead of walks, so that the others stay what those are measured against. What is brought and not used yet takes half as much as
    /// what is prefetched of streams.
    #[must_use]
    pub fn for_policy(policy: Policy, memory: Bytes, profile: Option<&str>) -> Option<Self> {
        let knows = [Policy::ADAPTIVE, Policy::COMPETITIVE].contains(&policy);
        knows.then(|| Self { memory_bytes: (memory / 2).get(), profile: profile.map(str::to_owned) })
    }
}

impl MountOptions {
    /// A mount that can be written to.
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
