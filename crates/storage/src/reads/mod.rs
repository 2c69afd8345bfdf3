//! Reads files past the kernel's page cache, many at a time, completed out of order.
//!
//! A [`DiskReader`] takes reads from any thread, keeps a bounded number of them in flight (its module says
//! how many) and reports completions from a thread of its own. [`start`] chooses the best one that this
//! kernel allows: io_uring, or else a pool of threads. Requests, short reads and retries are the same for
//! both.
//!
//! *Errors.* A failed read reports how much of it arrived and the kernel's error. It is not divided here: a
//! reader that waits for a part of it reads that part on its own, so that only the bytes concerned fail.
//!
//! *Memory.* A [`DiskRead`] owns its buffer until it has ended, whatever happens to the program that
//! requested it: memory is never returned while the kernel may write to it.

mod either;
mod file;
mod flight;
mod pool;
mod read;
mod uring;

pub use file::{ReadFile, ReadMode};
pub use pool::{PoolReads, read_here};
pub use read::{DiskRead, DiskReader, Ended, Sink, Target};
pub use uring::UringReads;

use either::EitherReads;
use read::{SharedSink, sink_to};
use std::sync::Arc;

/// A reader, and a warning where it is not the best. Files of FUSE file systems are always read by threads.
///
/// # Errors
/// Not even one thread could be started.
pub fn start(sink: Sink) -> std::io::Result<(Arc<dyn DiskReader>, Option<String>)> {
    let sink = SharedSink::from(sink);
    match EitherReads::start(&sink) {
        Ok(reads) => Ok((Arc::new(reads), None)),
        Err(error) => {
            let warning = format!(
                "io_uring cannot be used ({error}): reading with {} threads instead; allow it with \
                 'sysctl kernel.io_uring_disabled=0', in a container by its seccomp profile",
                pool::THREADS
            );
            Ok((Arc::new(PoolReads::start(sink_to(&sink))?), Some(warning)))
        }
    }
}

#[cfg(test)]
mod tests;
