//! Metrics of the block layer.

use foreseek_device::Op;
use foreseek_units::{Lba, Nanos, SectorSpan, Sectors};

/// Request sizes are counted by page up to this one (4 MiB, four times the largest request of any Linux
/// modelled here); longer ones count as this.
pub const SIZES_LIMIT: usize = 1024;

/// Counters of a block layer since it was made. The difference of two of them is what happened between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Submissions taken.
    pub submissions: u64,
    /// Pieces beyond the first into which submissions were split.
    pub splits: u64,
    /// Pieces that became part of a waiting request.
    pub merges: u64,
    /// Pieces that joined a waiting request across a gap.
    pub infilled: u64,
    /// Sectors of those gaps.
    pub infill: Sectors,
    /// Pieces that lay in the gap of a waiting request.
    pub served_by_infill: u64,
    /// Submissions that found no free request.
    pub refused: u64,
    /// Requests handed to the device.
    pub dispatched: u64,
    /// Requests that the device has finished.
    pub requests: u64,
    /// Requests among them that failed.
    pub failed: u64,
    /// Sectors read by requests that are over.
    pub read: Sectors,
    /// Sectors written by requests that are over.
    pub written: Sectors,
    /// Requests that did not start where the one before them ended.
    pub seeks: u64,
    /// Sum of the distances of those in sectors.
    pub seek_distance: Sectors,
    /// Time during which the device held a request.
    pub busy: Nanos,
    /// Time that requests spent from their making to their dispatch, summed.
    pub queued: Nanos,
    /// How many completed requests had how many pages, rounded up; at most [`SIZES_LIMIT`].
    pub sizes: Vec<u64>,
    /// How anticipations ended.
    pub anticipations: Anticipations,
}

impl Metrics {
    /// Counts a completed request; returns the end of the one before it.
    pub(super) fn served(&mut self, head: &mut Lba, op: Op, range: SectorSpan) -> Lba {
        let from = std::mem::replace(head, range.end);
        self.requests += 1;
        if from != range.start {
            self.seeks += 1;
            self.seek_distance += from.distance(range.start);
        }
        match op {
            Op::Read => self.read += range.len(),
            Op::Write => self.written += range.len(),
            Op::Flush => {}
        }
        let size = usize::try_from(range.len().pages_ceil().get()).unwrap_or(SIZES_LIMIT).min(SIZES_LIMIT);
        if self.sizes.len() <= size {
            self.sizes.resize(size + 1, 0);
        }
        self.sizes[size] += 1;
        from
    }

    /// The mean distance of a seek.
    #[must_use]
    pub fn mean_seek(&self) -> Sectors {
        Sectors(self.seek_distance.get().checked_div(self.seeks).unwrap_or(0))
    }
}

/// How a scheduler's anticipations ended: each as exactly one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anticipations {
    /// The process that was waited for made its request.
    pub met: u64,
    /// A request of another process came that was near enough to be served at once.
    pub near: u64,
    /// Nothing came in time.
    pub timed_out: u64,
    /// Waiting became pointless because of what became known about the process: it thinks too long, it has
    /// ended, or an older request must not wait any longer.
    pub given_up: u64,
    /// Time during which the device was idle for it although requests waited.
    pub idle: Nanos,
}

/// How an anticipation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Met,
    Near,
    TimedOut,
    GivenUp,
}

impl Anticipations {
    /// Counts one, and the time that the device was idle for it.
    pub(super) fn ended_by(&mut self, end: End, idle: Nanos) {
        self.idle += idle;
        match end {
            End::Met => self.met += 1,
            End::Near => self.near += 1,
            End::TimedOut => self.timed_out += 1,
            End::GivenUp => self.given_up += 1,
        }
    }

    /// How many have ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.met + self.near + self.timed_out + self.given_up
    }
}
