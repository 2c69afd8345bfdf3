//! A directory seen through the competitive prefetcher and its prefetch cache (FUSE).
//!
//! Two layers. The file system (`file_system`, `source`) passes every operation on to the source
//! directory and keeps what the kernel caches true. A [`ReadPath`] answers the reads that miss the
//! kernel's page cache: [`Plain`] with a `pread` of the backing file and nothing else, the reader by
//! prefetching. [`Mounted`] is a mount in this process; `docs/mount.md` says what users can rely on.
//!
//! Limits: root is needed. No `O_TMPFILE`, no `ioctl`, no creation times: FUSE or fuser has them not.

#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that cannot run says so"))]

mod anchor;
mod attributes;
mod caller;
pub mod client;
mod directory;
mod errands;
mod error;
mod file_system;
mod handles;
mod keeper;
mod kernel_cache;
mod lessons;
mod mount_point;
mod mounted;
mod names;
mod nodes;
mod options;
mod place;
mod plain;
mod policy;
mod protocol;
mod read_path;
mod reader;
pub mod serve;
mod settings;
mod source;
mod status;

pub use error::Error;
pub use foreseek_server::state_directory;
pub use lessons::Lessons;
pub use mounted::Mounted;
pub use options::MountOptions;
pub use plain::Plain;
pub use policy::Policy;
pub use read_path::{Answer, Change, OpenedFile, Read, ReadPath, Version};
pub use reader::{GUESS, Memory, Reader, ReaderOptions, SystemMemory};
pub use settings::{DEFAULT_MEMORY, Settings};
pub use status::{Kept, Learnt, MountStatus, ReadStatus};
