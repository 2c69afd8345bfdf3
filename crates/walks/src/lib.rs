//! Tree walks as known futures: a program that lists directories and opens their files shows which files it
//! will open next.
//!
//! [`Walks`] is a state machine for one physical device. Its driver turns the actions of programs into
//! [`Event`]s, passes them on with the time, and carries out the [`Command`]s that it gets back. The same
//! object runs in a daemon that watches a file system, in a mount, and in virtual time. It reads no clock, file
//! or random source.
//!
//! # Parts
//!
//! - `tree`: known directories and entries; `order`: votes on the order of opens; `classes`: the common
//!   behaviour of programs; `parts`: how much of a file they read; `walk`: one walk.
//! - `costs`: the model of the device; `sweep`: the cheapest order of reading a set of addresses, exactly;
//!   `speed`: how long passes really take; `ledger`: the limit of fetches, with the bound, its proof, and what no rule can guarantee.
//! - `entered`: the directories of programs that have a list of files, for drivers.
//! - `shares`: what each user may have of what all have in common.
//! - `recognise`: actions of programs; `answers`: answers of the driver; `plan`: the next fetch; `contents`: batches
//!   of files; `ordered` and `random`: the entries that a walk is expected to open next, in an order and in none, and
//!   the plan for their contents; `quiet`: walks over files in memory.
//! - `bursts`: how much is requested at a time beside other readers; `proof`: whether there are any, for certain.
//! - `record`: events and commands as lines of a recording.
//!
//! # Duties of a driver
//!
//! - At rest it reports only opens of directories, with their parent if it knows it. It also reports opens of
//!   files in directories under [`Command::WatchOpens`], whether or not they need the device. Of others it may report
//!   them at any time, with the directories that it finds by [`Entered`].
//! - It answers each [`Command::List`], [`Command::Place`], [`Command::FetchMetadata`] and [`Command::Fetch`],
//!   in any order. Until then, the engine requests nothing more for that walk, other than listings of directories that
//!   programs open. While addresses of files are under way, it goes on with directories and inodes. Requests that cannot
//!   be carried out are answered, too: by [`Event::Unlistable`], no extents, [`Outcome::Partly`] or
//!   [`Outcome::Refused`].
//! - It reads nothing that the walking program could not read itself. The engine names only entries of
//!   directories that were listed.
//! - It passes [`Event::Tick`] at the [`deadline`](Walks::deadline), also while there are commands that did not
//!   fit.
#![forbid(unsafe_code)]

mod answers;
mod bursts;
mod classes;
mod command;
mod contents;
mod costs;
mod engine;
mod entered;
mod event;
mod ledger;
mod node;
mod order;
mod ordered;
mod pace;
mod parts;
mod plan;
mod proof;
mod quiet;
mod random;
mod recognise;
mod record;
mod settings;
mod shares;
mod speed;
mod state;
mod status;
mod sweep;
mod tree;
mod unplaced;
mod walk;

pub use bursts::{Bursts, Counted, QUIET};
pub use command::{
    COMMANDS_LIMIT, Command, Commands, InodeFetch, LISTS_LIMIT, ListCondition, NODES_LIMIT, OPENED_LIMIT,
    PARTS_LIMIT, Part,
};
pub use engine::Walks;
pub use entered::{Entered, Opened, Visited};
pub use event::{Event, Outcome, Placed};
pub use node::{DeviceNo, Entry, InDirectory, InodeReads, Kind, Node};
pub use proof::Proof;
pub use settings::{BUDGET, RHO, START, Settings};
pub use shares::share_left;
pub use status::{Status, Stopped, WalkStatus};
