//! A directory seen through the competitive prefetcher and its prefetch cache (FUSE).
//!
//! It has two layers. The file system (`fs`) passes every operation on to the source directory and keeps the
//! kernel's caches correct. A [`ReadPath`] answers the reads that miss the kernel's page cache: [`Plain`]
//! with a `pread` of the backing file, the `reader` by prefetching. [`Mounted`] is a mount in this process,
//! `daemon` one in its own process; `docs/use/mount.md` lists what users can rely on.
//!
//! Limits: root is required. No `O_TMPFILE`, no `ioctl`, no creation times: FUSE or fuser does not have them.

#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that cannot run says so"))]

mod call;
mod daemon;
mod error;
mod fs;
mod learnt;
mod options;
mod plain;
mod policy;
mod read_path;
mod reader;
mod status;

pub use daemon::settings::{DEFAULT_MEMORY, Settings};
pub use daemon::{client, serve};
pub use error::Error;
pub use foreseek_server::state_directory;
pub use fs::mounted::Mounted;
pub use learnt::LearntState;
pub use options::{MountOptions, WalkOptions};
pub use plain::Plain;
pub use policy::Policy;
pub use read_path::{Answer, Change, OpenedFile, ReadPath, ReadRequest, Version};
pub use reader::{DEFAULT_PROFILE, Memory, Reader, ReaderOptions, SystemMemory};
pub use status::{BenefitStatus, Kept, Learnt, MountStatus, PassthroughStatus, ReadStatus, WalkStatus};
