//! Reads by io_uring; files of FUSE file systems are read by threads.
//!
//! io_uring does not suit FUSE. Linux (6.18 at least) reads such files within the submitting call, however
//! long their server takes, because it takes a file that can be polled for one that never blocks. If the
//! server opened the file for direct I/O and an answer comes short, io_uring reads on by itself, but from the
//! offset of the first answer. It then reports the whole as read, with bytes of the wrong offset.

use super::pool::PoolReads;
use super::read::{DiskRead, DiskReader, SharedSink, sink_to};
use super::uring::UringReads;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// See the module's documentation.
pub(super) struct EitherReads {
    ring: UringReads,
    /// Started for the first FUSE file.
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

    fn start_on_threads(&self, reads: Vec<DiskRead>) -> Vec<DiskRead> {
        if reads.is_empty() {
            return reads;
        }
        // If not even one thread could be started, they are refused each time.
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
        let mut refused = self.start_on_threads(fuse);
        refused.extend(self.ring.start(others));
        refused
    }

    fn stop(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        // From now on no threads are started.
        let threads = self.threads.get_or_init(|| None).as_ref();
        let over = self.ring.stop(patience);
        threads.is_none_or(|threads| threads.stop(until.saturating_duration_since(Instant::now()))) && over
    }
}
