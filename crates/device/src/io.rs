//! The interface between a device and its driver.

use foreseek_units::{Bytes, Instant, Nanos, SectorSpan, Sectors};

/// Names a request between its submission and its completion. Chosen by the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read the sectors.
    Read,
    /// Write the sectors.
    Write,
    /// Make earlier writes durable; the range is ignored.
    Flush,
}

/// The origin of a request. Only a device with a scheduler by process uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Submitter(pub u32);

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The driver's name for it.
    pub id: IoId,
    /// Read, write or flush.
    pub op: Op,
    /// The sectors; must be within the device's capacity.
    pub range: SectorSpan,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was transferred.
    Done,
    /// A sector of it is out of the device's range, unreadable, or lost with a failed member.
    Failed,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The driver's name for the request.
    pub id: IoId,
    /// When it completed; never later than the time given to [`Device::advance`].
    pub at: Instant,
    /// Whether it succeeded.
    pub outcome: Outcome,
}

/// The device's queue is full: submit again after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device's queue is full")]
pub struct Full;

/// Counters of a device since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests completed, by any outcome.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes transferred for reads.
    pub read: Bytes,
    /// Bytes transferred for writes.
    pub written: Bytes,
    /// Requests that went to the media and did not start at the end of the request before.
    pub seeks: u64,
    /// Sum over those of the distance in logical sectors between that end and this start.
    pub seek_distance: Sectors,
    /// Reads that the device's own buffer answered.
    pub buffer_hits: u64,
    /// Time during which at least one request was in service, summed over the members of an array.
    pub busy: Nanos,
    /// Media accesses: time in which the arm moved or heads were switched.
    pub seek_time: Nanos,
    /// Media accesses: time in which the head waited for the first sector.
    pub rotation_time: Nanos,
    /// Media accesses: time in which sectors passed under the head.
    pub transfer_time: Nanos,
}

impl Counters {
    /// Counts a completed request.
    pub(crate) fn count(&mut self, io: Io, outcome: Outcome) {
        self.requests += 1;
        match (outcome, io.op) {
            (Outcome::Failed, _) => self.failed += 1,
            (Outcome::Done, Op::Read) => self.read += io.range.len().bytes(),
            (Outcome::Done, Op::Write) => self.written += io.range.len().bytes(),
            (Outcome::Done, Op::Flush) => {}
        }
    }
}

/// A disk, a whole array or a remote volume, its queue inside.
///
/// The driver calls [`submit`](Device::submit) as requests arrive, and [`next`](Device::next) for the time of
/// the next event. It calls [`advance`](Device::advance) with a time not later than it needs completions for.
/// Times must not run backwards. A device is deterministic: the same calls give the same answers.
pub trait Device: Send {
    /// Puts a request into the queue.
    ///
    /// # Errors
    /// [`Full`] if the queue is full; nothing is changed then.
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full>;

    /// The same, with the origin of the request.
    ///
    /// # Errors
    /// As [`submit`](Device::submit).
    fn submit_for(&mut self, now: Instant, io: Io, _whom: Submitter) -> Result<(), Full> {
        self.submit(now, io)
    }

    /// The time of the device's next event without further requests: the driver then calls `advance`. `None`
    /// when it is idle.
    fn next(&self) -> Option<Instant>;

    /// Lets time pass up to `now` and appends the requests that completed, in order of time.
    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>);

    /// Its sectors.
    fn capacity(&self) -> Sectors;

    /// Its counters.
    fn counters(&self) -> Counters;
}
