//! Reading files past the kernel's page cache, many reads at a time, out of order.
//!
//! A [`DiskReader`] takes reads from any thread, makes so many of them at a time as its module says, and
//! tells how they ended from a thread of its own. [`start`] chooses the best that this kernel lets:
//! io_uring, or else a pool of threads. What happens around one read (pieces, short reads, what is
//! tried again) is the same for both.
//!
//! *Errors.* A read that fails tells how much of it had arrived and what the kernel said. It is not
//! divided here: whoever waits for a part of it reads that part by itself, so that an error reaches
//! the bytes concerned alone.
//!
//! *Who owns the memory.* A [`Read`] owns its buffer until it has ended, whoever asked for it and
//! whatever becomes of them: memory is never given back while the kernel may write into it.

mod either;
mod file;
mod flight;
mod pool;
mod read;
mod uring;

pub use file::{Access, ReadFile};
pub use pool::PoolReads;
pub use read::{DiskRead, DiskReader, Ended, Sink, Target};
pub use uring::UringReads;

use either::EitherReads;
use read::{SharedSink, sink_to};
use std::sync::Arc;

/// Something that makes reads (by threads those of files of FUSE), and a warning where it is not the best.
///
/// # Errors
/// Not even a thread could be started.
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
