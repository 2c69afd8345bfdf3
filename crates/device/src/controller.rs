//! A disk's controller beside moving heads: its overheads, its read-ahead, its write cache.
//!
//! The overhead of a command depends on whether the buffer holds its data and on the command before, since
//! firmware has work to finish and state to switch (Worthington and others, SIGMETRICS 1995; the DiskSim 4.0
//! manual lists the same eight times). A command's overhead delays the arm as well as the bus.
//!
//! Limits: no disconnection from the bus during a command; a write's overhead does not depend on whether it
//! follows another on the media.

use crate::io::Op;
use foreseek_units::{Nanos, Sectors};

/// The properties of a controller.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Controller {
    pub(crate) overheads: Overheads,
    pub(crate) read_ahead: ReadAhead,
    /// Whether sectors that pass under the head while it waits for a read's first sector are kept.
    pub(crate) reads_on_arrival: bool,
    pub(crate) write_cache: WriteCache,
    /// Whether written data can be read from the buffer afterwards.
    pub(crate) keeps_written: bool,
    /// Whether a sector must be off the media before it can pass over the bus, and over the bus before a read
    /// is done; otherwise both happen at the same time without a delay.
    pub(crate) by_sector: bool,
}

/// Time in the controller for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overheads {
    /// The same for each.
    Uniform(Nanos),
    /// By the command and the command before it.
    Split(SplitOverheads),
}

/// Overheads by command, each after a read and after a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SplitOverheads {
    pub(crate) read_hit: After,
    pub(crate) read_miss: After,
    /// For a write that the cache accepts.
    pub(crate) write_hit: After,
    /// For a write that goes to the media.
    pub(crate) write_miss: After,
    /// From the end of a read's data to its completion.
    pub(crate) read_completion: Nanos,
    /// The same for a write.
    pub(crate) write_completion: Nanos,
}

/// An overhead by the command before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) read: Nanos,
    pub(crate) write: Nanos,
}

/// How far a disk reads ahead beyond a request while it is otherwise idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAhead {
    pub(crate) until: Until,
    /// Whether read-ahead must leave the request itself in its segment.
    pub(crate) keeps_request: bool,
    /// The most that is read ahead, in addition to the segment's limit.
    pub(crate) most: Option<Sectors>,
}

/// The end of read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// No read-ahead.
    Nothing,
    /// At the end of the track with the request's end.
    Track,
    /// At the end of its cylinder.
    Cylinder,
    /// When the segment is full.
    #[default]
    Segment,
    /// By track: at the end of the track, and after a sequential stream at that of the next. A drive whose
    /// segments do not hold a track reads ahead only after a stream.
    NextTrack,
}

/// The capacity of the write cache; zero ranges and sectors switch it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteCache {
    /// Ranges that are not adjacent.
    pub(crate) ranges: usize,
    pub(crate) sectors: Sectors,
}

impl Controller {
    /// A controller with the same overhead for each command, which reads ahead until a segment is full, and
    /// writes through.
    pub(crate) fn plain(overhead: Nanos) -> Self {
        Self {
            overheads: Overheads::Uniform(overhead),
            read_ahead: ReadAhead::default(),
            reads_on_arrival: false,
            write_cache: WriteCache::default(),
            keeps_written: false,
            by_sector: false,
        }
    }
}

impl Overheads {
    /// The time before a command, depending on the one before.
    pub(crate) fn before(&self, op: Op, hit: bool, previous: Op) -> Nanos {
        match self {
            Self::Uniform(time) => *time,
            Self::Split(split) => {
                let after = match (op, hit) {
                    (Op::Read, true) => split.read_hit,
                    (Op::Read, false) => split.read_miss,
                    (Op::Write, true) => split.write_hit,
                    (Op::Write | Op::Flush, _) => split.write_miss,
                };
                if previous == Op::Write { after.write } else { after.read }
            }
        }
    }

    /// The time from the end of a command's data to its completion.
    pub(crate) fn completion(&self, op: Op) -> Nanos {
        match (self, op) {
            (Self::Split(split), Op::Read) => split.read_completion,
            (Self::Split(split), Op::Write) => split.write_completion,
            _ => Nanos::ZERO,
        }
    }
}
