//! A directory seen through the competitive prefetcher and its prefetch cache (FUSE).
//!
//! Two layers. The file system passes every operation on to the source directory and keeps what
//! the kernel caches true. A [`ReadPath`] answers the reads that miss the kernel's page cache:
//! [`Plain`] with a `pread` of the backing file and nothing else, the reader by prefetching.

mod plain;
mod read_path;
mod status;

pub use plain::Plain;
pub use read_path::{Answer, Change, OpenedFile, Read, ReadPath, Version};
pub use status::{Learnt, ReadStatus};
