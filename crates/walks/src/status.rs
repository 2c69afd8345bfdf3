//! What is going on, for people.

use crate::Node;
use foreseek_units::{Bytes, Nanos};

/// Why nothing more is fetched for a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Something is fetched, or will be.
    No,
    /// Too few directories and files were opened to tell that it is a walk.
    TooShort,
    /// The order of its opens fits none of the orders that are known.
    NoOrder,
    /// It uses less than half of what is fetched for it.
    Selective,
    /// What is allowed by what was used so far is spent.
    Allowance,
    /// One pass over what can be fetched costs hardly less than the program's own reads: it reads in the order of
    /// the disk anyway, or there is too little of it for now.
    NoGain,
    /// What is held fills the memory.
    Memory,
    /// Everything that it is expected to use is in memory, or was asked for.
    Complete,
    /// It finds everything in memory; opens of its files are not reported.
    InMemory,
}

/// One walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkStatus {
    /// The topmost directory that was opened.
    pub top: Node,
    /// Directories and files that the walkers opened.
    pub directories: u64,
    /// The same of files.
    pub files: u64,
    /// Files that were fetched for it.
    pub fetched: u64,
    /// Those of them that were used.
    pub used: u64,
    /// Those of them that it passed over.
    pub wasted: u64,
    /// What was brought for it.
    pub fetched_bytes: Bytes,
    /// What is held for it.
    pub held: Bytes,
    /// The order of its opens within a directory; none where it is not known.
    pub order: Option<&'static str>,
    /// Why nothing more is fetched.
    pub stopped: Stopped,
}

/// The engine's state. All times are device times of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The walks under way, the largest first.
    pub walks: Vec<WalkStatus>,
    /// Walks that are over.
    pub ended: u64,
    /// Directories and entries that are known.
    pub directories: u64,
    /// The same of entries.
    pub entries: u64,
    /// What all fetches were expected to cost the device.
    pub spent: Nanos,
    /// The cheapest pass over what was fetched or placed, and used.
    pub optimum: Nanos,
    /// What is left of the allowance before anything is confirmed.
    pub allowance: Nanos,
    /// What was brought, used and wasted, of walks that are over, too.
    pub fetched_bytes: Bytes,
    /// What of it was used.
    pub used: Bytes,
    /// What of it was passed over, or left when its walk was over.
    pub wasted: Bytes,
    /// What is held now.
    pub held: Bytes,
}
