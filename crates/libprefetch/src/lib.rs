//! Application-directed prefetching: the Rust API (ATC'09 section 4).
//!
//! A program that knows what it will read says so: it makes a [`Client`], declares the regions of
//! its files whose reads are to be watched ([`Client::watch`]), and answers when it is asked for its
//! coming accesses ([`Client::hint`]). Before each read of a watched region the program (or the
//! interposition of the C library, or a database's VFS) calls [`Client::before_read`]; the client
//! then has the kernel fetch as much of the list as memory holds, in disk order, and lets the read
//! go on. What a program reads never changes; only when it waits.
//!
//! The library is a guest in another program's process: it closes no descriptor of the host, starts
//! no thread, is off with `FORESEEK_DISABLE=1`, does nothing in a forked child, and steps aside for
//! good, with one line on standard error, if something inside fails.
//!
//! Limits: reads through descriptors with `O_DIRECT` go past the page cache and are only counted.
//! Advice goes out on a descriptor that was found to be the file's an instant before; a host that
//! closes and reuses the number in that instant has another file of its own advised, which costs
//! time and changes no data. Calls may allocate and lock, so that none is fit for a signal handler.

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

pub use client::Client;
pub use entry::{CallbackRequest, Entry, Region};
pub use error::Error;
pub use foreseek_hints::{Mode, Order, Share};
pub use foreseek_seam::HintMode;
pub use settings::{Settings, with_process_id};
pub use stats::Stats;

/// What an ABI edge around this API needs to behave as a guest.
pub mod guest {
    pub use crate::aside::{is_aside, print_line, step_aside};
    pub use crate::thread::{ReentryGuard, is_inside};
    use foreseek_storage::HostFd;
    pub use foreseek_storage::{process_id, renew_process_id};
    use foreseek_units::ByteOffset;
    use std::os::fd::RawFd;

    /// Where the next `read` of a descriptor starts; `None` for a pipe or socket. It goes past the C
    /// library and leaves errno alone.
    #[must_use]
    pub fn position(fd: RawFd) -> Option<ByteOffset> {
        HostFd::new(fd)?.position()
    }
}
