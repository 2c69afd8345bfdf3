//! Reads by io_uring, and by threads those of files with which io_uring does not go well: FUSE's.
//!
//! Linux (6.18 at least) reads such files within the submitting call, however long their server takes, for
//! a file that can be polled counts as one that never waits. Where the server opened the file for direct
//! I/O and an answer comes short, io_uring asks on by itself, at the place of the first answer again, and
//! tells the whole as read: bytes of another place.

use super::pool::PoolReads;
use super::read::{DiskRead, DiskReader, SharedSink, sink_to};
use super::uring::UringReads;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// See the module's documentation.
pub(super) struct EitherReads {
    ring: UringReads,
    /// Started for the first file that needs it.
    threads: OnceLock<Option<PoolReads>>,
    sink: SharedSink,
}

impl EitherReads {
    /// Makes a ring.
    ///
    /// # Errors
    /// As of [`UringReads::start`].
    pub(super) fn start(sink: &SharedSink) -> std::io::Result<Self> {
        let ring = UringReads::start(sink_to(sink))?;
        Ok(Self { ring, threads: OnceLock::new(), sink: Arc::clone(sink) })
    }

    fn by_threads(&self, reads: Vec<DiskRead>) -> Vec<DiskRead> {
        if reads.is_empty() {
            return reads;
        }
        // Without a single thread they are refused, each time.
        match self.threads.get_or_init(|| PoolReads::start(sink_to(&self.sink)).ok()) {
            Some(threads) => threads.start(reads),
            None => reads,
        }
    }
}

impl DiskReader for EitherReads {
    fn start(&self, reads: Vec<DiskRead>) -> Vec<DiskRead> {
        if !reads.iter().any(|read| read.file.is_fuse()) {
            return self.ring.start(reads);
        }
        let (fuse, others): (Vec<_>, Vec<_>) = reads.into_iter().partition(|read| read.file.is_fuse());
        let mut refused = self.by_threads(fuse);
        refused.extend(self.ring.start(others));
        refused
    }

    fn stop(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        // None are started from now on.
        let threads = self.threads.get_or_init(|| None).as_ref();
        let over = self.ring.stop(patience);
        threads.is_none_or(|threads| threads.stop(until.saturating_duration_since(Instant::now()))) && over
    }
}
