//! Everything that `foreseek mount` is told, and the read path that it asks for.

use crate::{MountOptions, Plain, ReadPath};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Memory for prefetched data unless told otherwise. A drive of the depth of 4 MiB and 64 streams
/// then have room for twice what is fetched at a time.
pub const DEFAULT_MEMORY: Bytes = Bytes::mib(512);

/// A mount and what answers its reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// What is mounted where.
    pub mount: MountOptions,
    /// Who decides what is prefetched.
    pub policy: Policy,
    /// Memory for prefetched data, in bytes.
    pub memory_bytes: u64,
    /// The device that the source lies on: a built-in profile's name or a file. `None` to learn it.
    pub profile: Option<String>,
}

/// Who decides what is prefetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// As much at a time as could be transferred while the head moves.
    #[default]
    Competitive,
    /// As Linux does: up to 128 KiB.
    Linux,
    /// As much as there is memory for.
    Aggressive,
    /// Nothing.
    None,
    /// Nothing, and nothing cached either: each read is a read of the backing file.
    Plain,
}

impl Settings {
    /// What answers the reads.
    pub(crate) fn read_path(&self) -> Arc<dyn ReadPath> {
        if self.policy != Policy::Plain {
            tracing::warn!("no policy prefetches yet: reads are passed on as they are");
        }
        Arc::new(Plain::default())
    }
}
