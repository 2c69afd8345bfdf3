//! Real I/O: descriptors, advice, residency, physical layout, memory limits, loop devices,
//! device profiles, text files.
//!
//! Everything here works on descriptors that belong to somebody else ([`HostFd`]): none is opened,
//! duplicated or closed on the caller's behalf, since closing a descriptor of a file drops the
//! process's fcntl locks on it. System calls go past the C library where they can, so that errno
//! stays as it was and an interposed `read` is not met again.

mod advice;
mod detect;
mod error;
mod fd;
mod layout;
pub mod loop_device;
mod memory;
mod page_cache;
mod privilege;
mod proc_file;
pub mod profile;
pub mod profiler;
mod residency;
pub mod text;

pub use advice::{DEFAULT_CALL, DontNeed, Means, dont_need, will_need};
pub use detect::{Backing, DeviceNumber};
pub use error::Error;
pub use fd::{FileKind, HostFd, Identity};
pub use layout::{EXTENTS_LIMIT, Layout};
pub use memory::{Available, Bound, available};
pub use page_cache::{KernelPageCache, Notice, Options};
pub use privilege::has_gained_rights;
pub use residency::{Residency, cachestat};
