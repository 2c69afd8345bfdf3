//! Events for the engine.

use crate::{Entry, InodeReads, Node};
use foreseek_seam::{Extent, FetchId, ProcessId};
use foreseek_units::{Bytes, Pages};

/// An event. All nodes are of the device of the engine that gets it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A program opened a directory to list it. A driver at rest reports only this event.
    DirectoryOpened {
        /// The process.
        pid: ProcessId,
        /// The opened directory.
        directory: Node,
        /// The directory that holds it, if it is known and on the same file system.
        parent: Option<Node>,
    },
    /// A program opened a file in this directory, or in one below it, and has not listed the directory: it has a list
    /// of files. Passed before [`Event::FileOpened`], from the top down, as [`Entered`](crate::Entered) finds it.
    DirectoryEntered {
        /// The process.
        pid: ProcessId,
        /// The directory.
        directory: Node,
        /// The directory that holds it, if it is known and on the same file system.
        parent: Option<Node>,
    },
    /// A program opened directories below this one. Its own open was not reported, if there was any: a driver may have
    /// reported nothing for a while. Passed before the [`Event::DirectoryOpened`] of the directory below, from the top down.
    OpenedBelow {
        /// The process.
        pid: ProcessId,
        /// The directory.
        directory: Node,
        /// The directory that holds it, if it is known and on the same file system.
        parent: Option<Node>,
    },
    /// A program opened a regular file. Reported for directories under
    /// [`Command::WatchOpens`](crate::Command::WatchOpens); a driver may report it for other directories, too.
    /// Each open is reported, even of a file that is in memory; if all files are, the engine ends the reports.
    FileOpened {
        /// The process.
        pid: ProcessId,
        /// The directory through which it was opened.
        directory: Node,
        /// The opened file.
        file: Node,
    },
    /// A program looked an inode up without opening it (`stat`). `watch` does not see that, and `mount` does not report it.
    LookedUp {
        /// The process.
        pid: ProcessId,
        /// The directory of the look-up.
        directory: Node,
        /// The file or directory.
        node: Node,
    },
    /// The answer to [`Command::List`](crate::Command::List): all entries in the order of the listing, without
    /// `.` and `..`. The engine drops entries beyond its limit.
    Listed {
        /// The directory.
        directory: Node,
        /// Its entries.
        entries: &'a [Entry<'a>],
        /// What is read for one of their inodes.
        inodes: InodeReads,
    },
    /// What had to be read of the device to list a directory whose blocks had no known address, from a driver that
    /// learns it then (xfs): it comes before [`Event::Listed`], in the order in which directories were read. The
    /// charge for the listing falls from the worst case to what that cost. Without this event it falls to an
    /// average positioning.
    BlocksRead {
        /// The directory.
        directory: Node,
        /// Its blocks; none if they were in memory.
        blocks: &'a [Extent],
    },
    /// The other answer to [`Command::List`](crate::Command::List): the directory is gone, the walking process
    /// may not list it, it must not be read for another reason, or the condition does not hold. Nothing of
    /// its entries is fetched.
    Unlistable {
        /// The directory.
        directory: Node,
    },
    /// The answer to [`Command::Place`](crate::Command::Place), in one or several parts. Each requested file is
    /// answered once. A file that must not be read, or has no address of its own, is answered without extents.
    Placed {
        /// The files.
        files: &'a [Placed<'a>],
    },
    /// The answer to [`Command::Fetch`](crate::Command::Fetch) and
    /// [`Command::FetchMetadata`](crate::Command::FetchMetadata): it is complete, or the driver has passed it
    /// on and does not know when it will be.
    Done {
        /// The fetch.
        fetch: FetchId,
        /// The bytes that had to be read from the device, without those in memory. A driver that does not know
        /// this reports how much it requested.
        fetched_bytes: Bytes,
        /// The result.
        outcome: Outcome,
    },
    /// A directory's entries changed: the engine drops its listing, and requests it again if needed. No driver reports
    /// it at present.
    Changed {
        /// The directory.
        directory: Node,
    },
    /// The most bytes that may be held for a user, fetched and not used yet. Replaces
    /// [`Settings::budget`](crate::Settings::budget).
    Budget {
        /// The limit.
        bytes: Bytes,
    },
    /// The program and the user of a process, if the driver knows them. Walks of one program are expected to be alike.
    /// Users have [shares](crate::share_left).
    Program {
        /// The process.
        pid: ProcessId,
        /// The number of its user.
        user: u32,
        /// The program's name (`comm`).
        name: &'a [u8],
    },
    /// A process ended. No driver reports it at present.
    Exited {
        /// The process.
        pid: ProcessId,
    },
    /// Events were lost. The engine forgets the live walks; bytes that they hold count as wasted.
    Overflow,
    /// The time of [`Walks::deadline`](crate::Walks::deadline) has come.
    Tick,
}

/// The addresses of a file and the part of it that is in memory.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The file.
    pub file: Node,
    /// Its length. Of a directory whose blocks have no known address, the most that is read to list it; 0 stands for
    /// one block.
    pub length: Bytes,
    /// How many of its pages are in memory.
    pub resident: Pages,
    /// Whether it is known what is in memory. If it is not known (directories of xfs), this answer says nothing
    /// about whether the walk finds its data in memory.
    pub residency_known: bool,
    /// Its pieces that are *not* in memory and have an address, in the order of the file. Pieces in memory,
    /// holes, and extents without an address are left out. What lies beyond
    /// [`Settings::file_limit`](crate::Settings::file_limit) may be one piece behind the last one, since it is not fetched.
    pub missing: &'a [Extent],
}

/// The result of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is in memory or in flight.
    Arrived,
    /// A part of it failed, was gone, or was cancelled.
    Partly,
    /// Nothing of it was started: too much is in flight, or the driver's own limits forbid it. The engine tries
    /// it again later if it is still wanted.
    Refused,
}
