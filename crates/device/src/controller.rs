//! What a disk's controller does beside moving heads: its overheads, how far it reads ahead, which
//! writes it caches.
//!
//! The overhead of a command depends on whether the buffer holds what is asked for and on what the
//! command before was, since firmware has work to finish and state to switch (Worthington and others,
//! SIGMETRICS 1995; the DiskSim 4.0 manual lists the same eight times). A command's overhead delays
//! the arm as well as the bus.
//!
//! Limits: no disconnection from the bus during a command; a write's overhead does not depend on
//! whether it follows another on the media.

use crate::io::Op;
use foreseek_units::{Nanos, Sectors};

/// What a controller does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Controller {
    pub(crate) overheads: Overheads,
    pub(crate) read_ahead: ReadAhead,
    /// Whether what passes under the head while it waits for a read's first sector is kept.
    pub(crate) reads_on_arrival: bool,
    pub(crate) write_cache: WriteCache,
    /// Whether data that were written can be read from the buffer afterwards.
    pub(crate) keeps_written: bool,
    /// Whether a sector must be off the media before it can go over the bus, and over the bus before
    /// a read is done; otherwise both run beside one another without a delay.
    pub(crate) by_sector: bool,
}

/// Time in the controller for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overheads {
    /// The same for each.
    Uniform(Nanos),
    /// By what it is and what the command before was.
    Split(SplitOverheads),
}

/// Overheads by what a command is, each after a read and after a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SplitOverheads {
    pub(crate) read_hit: After,
    pub(crate) read_miss: After,
    /// Of a write that the cache takes.
    pub(crate) write_hit: After,
    /// Of a write that goes to the media.
    pub(crate) write_miss: After,
    /// From the end of a read's data to its completion.
    pub(crate) read_completion: Nanos,
    /// The same for a write.
    pub(crate) write_completion: Nanos,
}

/// An overhead by what the command before was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) read: Nanos,
    pub(crate) write: Nanos,
}

/// How far a disk reads on behind a request while it has nothing else to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAhead {
    pub(crate) until: Until,
    /// Whether what is read ahead must leave the request itself in its segment.
    pub(crate) keeps_request: bool,
    /// The most that is read ahead, beside what the segment holds.
    pub(crate) most: Option<Sectors>,
}

/// Where reading ahead ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// There is none.
    Nothing,
    /// With the track that holds the end of the request.
    Track,
    /// With its cylinder.
    Cylinder,
    /// When the segment is full.
    #[default]
    Segment,
    /// Track by track: with the end of the track, and behind a sequential stream with that of the
    /// next. A drive whose segments do not hold a track reads ahead only behind a stream.
    NextTrack,
}

/// What the write cache holds at most; nothing in no requests switches it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteCache {
    /// Ranges that do not adjoin.
    pub(crate) ranges: usize,
    pub(crate) sectors: Sectors,
}

impl Controller {
    /// A controller that does alike for each command, reads on until a segment is full, and writes
    /// through.
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
    /// The time before a command, given what the one before was.
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
