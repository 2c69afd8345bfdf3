//! Application-directed prefetching: the Rust API (ATC'09 section 4).
//!
//! A program that knows its coming reads announces them. It creates a [`Client`], declares the regions of its
//! files whose reads are to be watched ([`Client::watch`]), and answers questions about its coming accesses
//! ([`Client::hint`]). Before each read of a watched region the program (or the interposition of the C library,
//! or a database's VFS) calls [`Client::before_read`]. The client then has the kernel fetch as much of the list
//! as memory holds, in disk order, and lets the read go on. The data that a program reads is the same; only its
//! waits change.
//!
//! The library is a guest in another program's process:
//!
//! - it closes no descriptor of the host, and starts no thread;
//! - it is off with `FORESEEK_DISABLE=1`;
//! - it does nothing in a forked child;
//! - after an internal failure it steps aside for good, with one line on standard error.
//!
//! Limits:
//!
//! - Reads through descriptors with `O_DIRECT` bypass the page cache and are only counted.
//! - Advice is given on a descriptor that has just been checked to belong to the file. If the host closes and
//!   reuses the number at that moment, another of its files gets the advice, which costs time and changes no
//!   data.
//! - Calls may allocate and lock, therefore none may be used in a signal handler.

mod aside;
mod claims;
mod client;
mod descriptors;
mod entry;
mod error;
mod report;
mod settings;
mod shared;
mod sink;
mod state;
mod stats;
mod thread;
mod watched;

pub use client::Client;
pub use entry::{CallbackRequest, Entry, Region};
pub use error::Error;
pub use foreseek_hints::{Mode, Order, Share};
pub use foreseek_seam::HintMode;
pub use settings::{Settings, with_process_id};
pub use stats::Stats;

/// Functions that an ABI around this API needs to behave as a guest.
pub mod guest {
    pub use crate::aside::{is_aside, print_line_of, step_aside};
    pub use crate::thread::{ReentryGuard, is_inside};
    use foreseek_storage::HostFd;
    pub use foreseek_storage::{process_id, renew_process_id};
    use foreseek_units::ByteOffset;
    use std::os::fd::RawFd;

    /// The offset of the next `read` of a descriptor; `None` for a pipe or socket. It bypasses the C library
    /// and leaves errno alone.
    #[must_use]
    pub fn position(fd: RawFd) -> Option<ByteOffset> {
        HostFd::new(fd)?.position()
    }
}
