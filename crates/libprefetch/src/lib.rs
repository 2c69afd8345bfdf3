//! Application-directed prefetching: the Rust API (ATC'09 section 4).
//!
//! A program that knows what it will read says so: it makes a [`Client`], declares the regions of
//! its files whose reads are to be watched ([`Client::watch`]), and answers when it is asked for its
//! coming accesses ([`Client::hint`]). Before each read of a watched region the program (or the
//! interposition of the C library, or a database's VFS) calls [`Client::before_read`]; the client
//! then has the kernel fetch as much of the list as memory holds, in disk order, and lets the read
//! go on. What a program reads never changes; only when it waits.
//!
//! The library is a guest in another program's process: it closes no descriptor, starts no thread,
//! is off with `FORESEEK_DISABLE=1`, does nothing in a forked child, and steps aside for good, with
//! one line on standard error, if something inside fails.
//!
//! Limits: reads through memory maps and through descriptors opened with `O_DIRECT` are not seen.

mod client;
mod entry;
mod error;
mod settings;
mod stats;

pub use client::Client;
pub use entry::{Entry, Region, Want};
pub use error::Error;
pub use foreseek_prefetch::engine::HintMode;
pub use settings::{Order, Settings};
pub use stats::Stats;
