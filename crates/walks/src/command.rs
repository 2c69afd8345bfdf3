//! What the engine asks its driver to do.

use crate::{InDirectory, Node};
use foreseek_seam::{CommandBuffer, FetchId, ProcessId};
use foreseek_units::{Lba, PageSpan};

/// How many commands answer one event at most: the directories that are listed at once, and one of each
/// other kind for each walk.
pub const COMMANDS_LIMIT: usize = 256;
/// How many [`Command::List`] are unanswered at once: enough to keep a device's queue of 32 full while
/// answers are processed.
pub const LISTS_LIMIT: usize = 128;
/// How many nodes one [`Command::Place`] or [`Command::FetchMetadata`] names at most: an answer is processed in about a millisecond.
pub const NODES_LIMIT: usize = 4096;
/// How many parts one [`Command::Fetch`] names at most. A batch is one pass over the disk, so that few large
/// ones gain most: the measured tree of 30,000 files is one batch where memory allows. 56 bytes a part: 3.5 MiB.
pub const PARTS_LIMIT: usize = 65_536;

/// A piece of a file to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of which file or directory.
    pub file: InDirectory,
    /// Which pages. They lie in one piece.
    pub pages: PageSpan,
    /// Where the first of them lies.
    pub lba: Lba,
}

/// What to do. A driver may carry commands out in any order and several at a time, but each walk's
/// fetches in the order in which they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// List a directory, and answer [`Event::Listed`](crate::Event::Listed) or [`Event::Unlistable`](crate::Event::Unlistable). Its blocks were read by the walker, or
    /// fetched before where their place is known.
    List {
        /// Which, and where its name is. For the directory with which a walk begins, `directory` is itself.
        directory: InDirectory,
        /// For the top of a walk, the process that opened it and then directories below. Where it has this one still open and has listed nothing of it,
        /// it walks through it and not over it: the answer is [`Event::Unlistable`](crate::Event::Unlistable). A driver that cannot tell lists it.
        passes: Option<ProcessId>,
    },
    /// Bring inodes of files and directories into memory; answered by [`Event::Done`](crate::Event::Done).
    FetchMetadata {
        /// Names it in the answer.
        fetch: FetchId,
        /// In the order of inode numbers.
        nodes: Vec<InDirectory>,
    },
    /// Say where files lie and what of them is in memory; answered by [`Event::Placed`](crate::Event::Placed). Their inodes are in memory. Of
    /// a directory, where its blocks lie: a driver that cannot tell, or cannot fetch them, answers with no extents.
    Place {
        /// In the order of inode numbers.
        files: Vec<InDirectory>,
    },
    /// Bring pages of files, or blocks of directories, into memory; answered by [`Event::Done`](crate::Event::Done).
    Fetch {
        /// Names it in the answer.
        fetch: FetchId,
        /// In the order of the disk: one ascending pass.
        parts: Vec<Part>,
    },
    /// Report opens of files in this directory, or no longer.
    WatchOpens {
        /// Which directory.
        directory: Node,
        /// Whether to report.
        on: bool,
    },
    /// What of this fetch has not been handed to the device is not wanted any more. It is answered all the same.
    Cancel {
        /// Which.
        fetch: FetchId,
    },
    /// The engine will not name entries of this directory again unless it lists it anew: what the driver
    /// keeps of it can go, and opens of its files need not be reported any more.
    Forget {
        /// Which directory.
        directory: Node,
    },
}

/// The commands that answer one event.
pub type Commands = CommandBuffer<Command, COMMANDS_LIMIT>;
