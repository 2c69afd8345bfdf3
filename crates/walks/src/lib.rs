//! Tree walks as known futures: a program that lists directories and opens their files has told
//! which files it will open next.
//!
//! [`Walks`] is a state machine for one physical device. Its driver turns what programs do into
//! [`Event`]s, hands them over with the time, and carries out the [`Command`]s that come back. The same
//! object runs in a daemon that watches a file system, in a mount, and in virtual time. It reads no
//! clock, file or random source.
//!
//! # Parts
//!
//! - `tree`: directories and entries that are known; `order`: votes on the order of opens; `classes`: what programs and extensions
//!   have in common; `walk`: one walk, and what it is expected to open next.
//! - `costs`: the model of the device; `sweep`: the cheapest order of reading a set of places, exactly; `ledger`: what may be
//!   fetched, with the bound, its proof, and what no rule can guarantee.
//! - `recognise`: what programs do; `answers`: what the driver answers; `plan`: what is fetched next; `quiet`: walks over what is in memory.
//!
//! # What a driver does
//!
//! - At rest it reports opens of directories alone, with their parent where it knows it, and opens of files in directories under
//!   [`Command::WatchOpens`]. An open is reported whether or not it needs the device.
//! - It answers each [`Command::List`], [`Command::Place`], [`Command::FetchMetadata`] and [`Command::Fetch`], in any order. Until it has, nothing
//!   more is asked for that walk. What cannot be done is answered, too: [`Event::Unlistable`], no extents, [`Outcome::Partly`] or
//!   [`Outcome::Refused`].
//! - It asks for nothing that the walking program could not read itself: the engine names only entries of directories that were listed.
//! - It tells [`Event::Tick`] at the [`deadline`](Walks::deadline), also while commands are left over that did not fit.
#![forbid(unsafe_code)]

mod answers;
mod classes;
mod command;
mod costs;
mod engine;
mod event;
mod ledger;
mod node;
mod order;
mod pace;
mod plan;
mod quiet;
mod recognise;
mod settings;
mod state;
mod status;
mod sweep;
mod tree;
mod walk;

pub use command::{COMMANDS_LIMIT, Command, Commands, LISTS_LIMIT, NODES_LIMIT, PARTS_LIMIT, Part};
pub use engine::Walks;
pub use event::{Event, Outcome, Placed};
pub use node::{DeviceNo, Entry, InDirectory, Kind, Node};
pub use settings::{BUDGET, RHO, START, Settings};
pub use status::{Status, Stopped, WalkStatus};
