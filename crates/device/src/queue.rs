//! The disk's queue: requests that wait, and in which order they are chosen.

use crate::geometry::Place;
use crate::io::{Io, Op};
use foreseek_units::{Instant, Nanos};

/// How a device chooses among the requests that wait in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Shortest positioning time first, with [`AGE_LIMIT`]: native command queueing.
    #[default]
    Sptf,
    /// In order of arrival.
    Fifo,
}

/// A request that has waited this long is served next, whatever is nearer. Nearest-access choice by
/// itself can starve a request for ever. With 32 waiting random requests a disk of 7,200 rpm serves
/// about 180 a second, so each waits 0.2 s on average; a limit near that would turn the choice into
/// arrival order, one far above it would show as outliers of seconds.
pub const AGE_LIMIT: Nanos = Nanos::from_millis(1000);

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) io: Io,
    /// Order of arrival.
    pub(crate) sequence: u64,
    pub(crate) arrived: Instant,
    /// When the controller has understood it.
    pub(crate) ready: Instant,
    /// Whether the disk has looked at it since.
    pub(crate) seen: bool,
    /// Where its first sector lies.
    pub(crate) place: Place,
    /// When its first sector passes in the sequential pass.
    pub(crate) passes: Nanos,
}

impl Waiting {
    /// Whether it waits for the head.
    pub(crate) fn wants_head(&self) -> bool {
        self.seen && self.io.op != Op::Flush
    }
}

/// Chooses the request that the head serves next: its position in `waiting`. `cost` is asked for
/// the time until its data begin to pass.
pub(crate) fn choose(
    queue: Queue,
    waiting: &[Waiting],
    now: Instant,
    mut cost: impl FnMut(&Waiting) -> Nanos,
) -> Option<usize> {
    let candidates = || waiting.iter().enumerate().filter(|(_, one)| one.wants_head());
    let (oldest, first) = candidates().min_by_key(|(_, one)| one.sequence)?;
    if queue == Queue::Fifo || now - first.arrived >= AGE_LIMIT {
        return Some(oldest);
    }
    candidates().min_by_key(|(_, one)| (cost(one), one.sequence)).map(|(at, _)| at)
}
