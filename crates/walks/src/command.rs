//! Commands of the engine to its driver.

use crate::{InDirectory, Node};
use foreseek_seam::{CommandBuffer, FetchId, ProcessId};
use foreseek_units::{Bytes, Lba, PageSpan};

/// The most commands that answer one event: the directories that are listed at once, and one of each other kind
/// for each walk, or three of [`Command::Place`].
pub const COMMANDS_LIMIT: usize = 256;
/// The most unanswered [`Command::List`] at a time: enough to keep a device's queue of 32 full while answers
/// are processed.
pub const LISTS_LIMIT: usize = 128;
/// The most nodes in one [`Command::Place`] or [`Command::FetchMetadata`]: an answer is processed in about a
/// millisecond.
pub const NODES_LIMIT: usize = 4096;
/// The most parts in one [`Command::Fetch`]. A batch is one pass over the disk, and a few large ones gain most.
/// The measured tree of 30,000 files is one batch where memory allows. 56 bytes a part: 3.5 MiB.
pub const PARTS_LIMIT: usize = 65_536;

/// A directory of more than this is not read for a program that has only opened it: some programs open directories
/// and list nothing (`fsync`). It holds some 5,000 names, more than 99 of 100 directories of source trees or mail.
pub const OPENED_LIMIT: Bytes = Bytes::kib(256);

/// An inode that is to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InodeFetch {
    /// The file or directory.
    pub which: InDirectory,
    /// Whether to read its neighbours with it, as a look-up does ([`InodeReads::together`](crate::InodeReads::together)).
    /// If not, a driver that can reads no more than what holds the inode ([`InodeReads::least`](crate::InodeReads::least)).
    pub together: bool,
}

/// When a directory is to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListCondition {
    /// In any case: the engine has paid for it.
    Always,
    /// For the top of a walk, with the process that opened it and then directories below it: not if the process still
    /// has this directory open and has listed nothing of it. It only passes through. Otherwise as
    /// [`ListCondition::Opened`]. A driver without this information lists it.
    UnlessPassedBy(ProcessId),
    /// A program, this process, has opened the directory and probably lists it itself, so that the engine has not paid for it. One of
    /// more than [`OPENED_LIMIT`] only if that reads nothing from the device, or if the process has begun to list it.
    Opened(ProcessId),
    /// If that reads nothing from the device: no program has listed it, and the engine has not paid for it.
    InMemory,
}

/// A piece of a file that is to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file or directory.
    pub file: InDirectory,
    /// The pages, contiguous on the disk.
    pub pages: PageSpan,
    /// The address of the first page.
    pub lba: Lba,
}

/// A command. A driver may carry out commands in any order and several at a time, but each walk's fetches in
/// the order of the commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// List a directory, and answer with [`Event::Listed`](crate::Event::Listed) or
    /// [`Event::Unlistable`](crate::Event::Unlistable). Its blocks were read by the walker, or fetched before
    /// if their address is known.
    List {
        /// The directory, and one that lists it. For the directory with which a walk begins, `directory` is
        /// itself.
        directory: InDirectory,
        /// When. If the condition does not hold, the answer is [`Event::Unlistable`](crate::Event::Unlistable).
        condition: ListCondition,
    },
    /// Read inodes of files and directories into memory; answered by [`Event::Done`](crate::Event::Done).
    FetchMetadata {
        /// The identifier for the answer.
        fetch: FetchId,
        /// The nodes, in the order of inode numbers.
        nodes: Vec<InodeFetch>,
    },
    /// Report the addresses of files and the part of them that is in memory; answered by
    /// [`Event::Placed`](crate::Event::Placed). Their inodes are in memory. A file may be open: the engine learns
    /// how much of it its program has read. For a directory, report the
    /// addresses of its blocks. A driver that does not know them, or cannot fetch them, answers without
    /// extents.
    Place {
        /// The files, in the order of inode numbers.
        files: Vec<InDirectory>,
    },
    /// Read pages of files, or blocks of directories, into memory; answered by
    /// [`Event::Done`](crate::Event::Done).
    Fetch {
        /// The identifier for the answer.
        fetch: FetchId,
        /// The parts, in disk order: one ascending pass.
        parts: Vec<Part>,
    },
    /// Start or stop to report opens of files in this directory.
    WatchOpens {
        /// The directory.
        directory: Node,
        /// Whether to report.
        on: bool,
    },
    /// Cancel the part of this fetch that the device has not got yet. The fetch is answered all the same.
    Cancel {
        /// The fetch.
        fetch: FetchId,
    },
    /// The engine will not name entries of this directory again unless it lists it again. The driver can drop
    /// its data about the directory, and need not report opens of its files.
    Forget {
        /// The directory.
        directory: Node,
    },
}

/// The commands that answer one event.
pub type Commands = CommandBuffer<Command, COMMANDS_LIMIT>;
