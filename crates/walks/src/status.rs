//! The status of an engine.

use crate::Node;
use foreseek_units::{Bytes, Nanos};

/// Why nothing more is fetched for a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Something is being fetched, or will be.
    No,
    /// Too few directories and files were opened to recognise a walk.
    TooShort,
    /// The order of its opens fits no known order.
    NoOrder,
    /// It opens less than a quarter of the files that are expected.
    Selective,
    /// The allowance from its uses so far is spent.
    Allowance,
    /// One pass over the files costs hardly less than the program's own reads: it reads in disk order anyway,
    /// or there are too few files for now.
    NoGain,
    /// The held bytes fill the memory.
    Memory,
    /// Everything that it is expected to use is in memory, or was requested.
    Complete,
    /// It finds everything in memory; opens of its files are not reported.
    InMemory,
}

/// One walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkStatus {
    /// The topmost directory that was opened.
    pub top: Node,
    /// Directories that the walkers opened.
    pub directories: u64,
    /// Files that the walkers opened.
    pub files: u64,
    /// Files that were fetched for it.
    pub fetched: u64,
    /// Those of them that were used.
    pub used: u64,
    /// Those of them that it passed without use.
    pub wasted: u64,
    /// Bytes that were fetched for it.
    pub fetched_bytes: Bytes,
    /// Bytes that are held for it.
    pub held: Bytes,
    /// The order of its opens within a directory, or "random"; `None` if it is not known.
    pub order: Option<&'static str>,
    /// Its programs have a list of files, and list no directories.
    pub has_list: bool,
    /// Whether a program has opened directories of it to list them.
    pub opens_directories: bool,
    /// Why nothing more is fetched.
    pub stopped: Stopped,
}

/// The engine's state. All times are device times of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The live walks, the largest first.
    pub walks: Vec<WalkStatus>,
    /// Walks that are over.
    pub ended: u64,
    /// Periods that are over, each with an optimum of its own.
    pub periods: u64,
    /// Directories that are known.
    pub directories: u64,
    /// Entries that are known.
    pub entries: u64,
    /// The expected cost of all fetches for the device.
    pub spent: Nanos,
    /// The cheapest pass over the data that was fetched or placed, and used.
    pub optimum: Nanos,
    /// The rest of the allowance before any use is confirmed.
    pub allowance: Nanos,
    /// Bytes that were fetched, for ended walks, too.
    pub fetched_bytes: Bytes,
    /// Bytes of these that were used.
    pub used: Bytes,
    /// Bytes of these that were passed without use, or left when their walk was over.
    pub wasted: Bytes,
    /// Bytes that are held at present.
    pub held: Bytes,
}
