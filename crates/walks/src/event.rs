//! What the engine is notified of.

use crate::{Entry, Node};
use foreseek_seam::{Extent, FetchId, ProcessId};
use foreseek_units::{Bytes, Pages};

/// Something that happened. All nodes are of the device whose engine is told.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A program opened a directory to list it. A driver at rest reports these alone.
    DirectoryOpened {
        /// The process.
        who: ProcessId,
        /// What it opened.
        directory: Node,
        /// The directory that holds it, where that is known and lies on the same file system.
        parent: Option<Node>,
    },
    /// A program opened a regular file. Reported for directories under [`Command::WatchOpens`](crate::Command::WatchOpens);
    /// of other directories a driver may report it, too. Each open is reported, also of a file that is
    /// in memory; where all are, the engine ends the reports.
    FileOpened {
        /// The process.
        who: ProcessId,
        /// The directory through which it was opened.
        directory: Node,
        /// What it opened.
        file: Node,
    },
    /// A program looked at an inode without opening it (`stat`). Where the driver sees that: a mount does.
    LookedUp {
        /// The process.
        who: ProcessId,
        /// The directory through which it looked.
        directory: Node,
        /// What it looked at: a file or a directory.
        node: Node,
    },
    /// A program has read a file up to here. Only where [`Settings::sees_reads`](crate::Settings::sees_reads) is set; then an open
    /// alone counts as the use of an inode and not of contents.
    Read {
        /// The file.
        file: Node,
        /// The end of what was read, from the start of the file.
        end: Bytes,
    },
    /// The answer to [`Command::List`](crate::Command::List): all entries in the order of the listing, without `.` and `..`. Entries
    /// beyond the engine's limit are left out by it.
    Listed {
        /// Which directory.
        directory: Node,
        /// Its entries.
        entries: &'a [Entry<'a>],
    },
    /// The other answer to [`Command::List`](crate::Command::List): the directory is gone, or the walking process may not list it, or
    /// it must not be read for another reason, or the program passes through it. Its entries are left alone.
    Unlistable {
        /// Which directory.
        directory: Node,
    },
    /// The answer to [`Command::Place`](crate::Command::Place), in one or several parts. Each file that was asked for is answered once; one
    /// that must not be read, or has no place of its own, with no extents.
    Placed {
        /// The files.
        files: &'a [Placed<'a>],
    },
    /// The answer to [`Command::Fetch`](crate::Command::Fetch) and [`Command::FetchMetadata`](crate::Command::FetchMetadata): it is over, or the driver
    /// cannot tell when it will be and has handed it on.
    Done {
        /// Which.
        fetch: FetchId,
        /// What had to be brought from the device: what was in memory already does not count. A driver
        /// that cannot tell says how much it asked for.
        fetched_bytes: Bytes,
        /// What became of it.
        outcome: Outcome,
    },
    /// A directory's entries changed: what is known of it is forgotten, and it is listed anew if it is
    /// needed again.
    Changed {
        /// Which directory.
        directory: Node,
    },
    /// The most that may be held: brought and not used yet. In place of [`Settings::budget`](crate::Settings::budget).
    Budget {
        /// How much.
        bytes: Bytes,
    },
    /// What a process runs, where the driver knows it. Walks of one program are expected to be alike.
    Program {
        /// The process.
        who: ProcessId,
        /// The program's name (`comm`).
        name: &'a [u8],
    },
    /// A process ended.
    Exited {
        /// Which.
        who: ProcessId,
    },
    /// Events were lost. Walks under way are forgotten; what they hold is counted as wasted.
    Overflow,
    /// The time of [`Walks::deadline`](crate::Walks::deadline) has come.
    Tick,
}

/// Where a file lies and what of it is in memory.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Which file.
    pub file: Node,
    /// Its length.
    pub length: Bytes,
    /// How many of its pages are in memory already.
    pub resident: Pages,
    /// What of it is *not* in memory and has a place: pieces in the order of the file. Pieces that are in
    /// memory, holes, and extents without a place are left out.
    pub missing: &'a [Extent],
}

/// What became of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is in memory, or on its way.
    Arrived,
    /// Some of it failed, or was gone, or was cancelled.
    Partly,
    /// Nothing of it was begun: too much is in flight, or the driver's own limits forbid it. It is tried again
    /// later if it is still wanted.
    Refused,
}
