//! The driver and the state beside it, behind the lock.

use super::about::Described;
use super::found::{Disks, LaidOutFile};
use super::pass::Pass;
use super::work::{Below, Reply, Work};
use crate::read_path::{Answer, OpenedFile, ReadRequest};
use foreseek_readahead::driver::{Opening, ServingDriver};
use foreseek_seam::StreamId;
use foreseek_storage::reads::ReadMode;
use foreseek_units::{Instant, Nanos, Pages};
use rustix::io::Errno;
use std::collections::VecDeque;

/// The period over which thrashing is counted: the epoch of the ceiling's controller (TR-840 section 4.1).
const EPOCH: Nanos = Nanos::from_secs(4);

/// See the module's documentation.
pub(super) struct Core {
    pub(super) driver: ServingDriver<Below>,
    disks: Disks,
    /// Passed reads that wait for a buffer.
    waiting: VecDeque<Pass>,
    pub(super) thrashing: Thrashing,
    pub(super) warnings: Vec<String>,
}

/// The rate at which prefetched pages are evicted and missed again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thrashing {
    since: Instant,
    missed: Pages,
    rate: f64,
}

impl Core {
    pub(super) fn new(driver: ServingDriver<Below>) -> Self {
        Self {
            driver,
            disks: Disks::default(),
            waiting: VecDeque::new(),
            thrashing: Thrashing::default(),
            warnings: Vec::new(),
        }
    }

    /// The work that is to be done and was not taken yet.
    pub(super) fn work(&mut self) -> &mut Work {
        &mut self.driver.below_mut().work
    }

    pub(super) fn opened(
        &mut self,
        now: Instant,
        opened: &OpenedFile,
        found: LaidOutFile,
        described: Option<Described>,
    ) -> StreamId {
        if found.file.mode() == ReadMode::Buffered {
            self.warn_once(
                "the file system of the source refuses direct I/O for some files: they are read through the page \
                 cache and dropped from it",
            );
        }
        let placed = match found.layout {
            Some((disk, Ok(layout))) => {
                if layout.cut_short {
                    self.warn_once("a file has too many extents to know them all: defragment it");
                }
                Some(self.disks.placed(disk, layout))
            }
            Some((_, Err(errno))) => {
                self.warn_once(&format!(
                    "cannot see where files lie on their disk (FIEMAP: {errno}); distances are not known: ext4, \
                     xfs and btrfs support it"
                ));
                None
            }
            None => None,
        };
        let OpenedFile { object, version, pid, .. } = *opened;
        let (about, placed) = (described.as_ref().map(Described::about), placed.as_deref());
        self.driver.open(now, Opening { object, version, file: found.file, pid, about, placed })
    }

    pub(super) fn read(&mut self, now: Instant, read: ReadRequest, answer: Answer) {
        if let Some(call) = read.call {
            self.driver.called(now, read.stream, call);
        }
        if let Err(answer) = self.driver.read(now, read.stream, read.range, read.pid, answer) {
            self.work().replies.push(Reply::Error(answer, Errno::BADF));
        }
    }

    /// Queues passed reads for which there was no buffer, in order.
    pub(super) fn unmade(&mut self, passes: Vec<Pass>) {
        self.waiting.extend(passes);
    }

    /// A buffer may be free: retries the queued passed reads.
    pub(super) fn retry_passes(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.work().passes.extend(waiting);
    }

    /// Restarts the count of thrashing if an epoch has passed.
    pub(super) fn count_thrashing(&mut self, now: Instant) {
        let missed = self.driver.engine().stats().prefetch_missed;
        let time = now - self.thrashing.since;
        if time >= EPOCH {
            let rate = (missed - self.thrashing.missed).get() as f64 / time.as_secs_f64();
            self.thrashing = Thrashing { since: now, missed, rate };
        }
    }

    /// Adds a warning once.
    fn warn_once(&mut self, warning: &str) {
        if !self.warnings.iter().any(|known| known == warning) {
            tracing::warn!("{warning}");
            self.warnings.push(warning.to_owned());
        }
    }

    /// Stops: reads that still wait get an error.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        self.driver.stop();
    }
}

impl Thrashing {
    /// Pages per second, over the last epoch.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
}
