//! Striped disk arrays: adaptive strip prefetching (ASP) and massive stripe prefetching (MSP).
//!
//! Source: Baek and Park, *Prefetching with Adaptive Cache Culling for Striped Disk Arrays*, USENIX ATC 2008;
//! section numbers in this crate are that paper's. A miss reads the whole *strip*, the part of a stripe on
//! one member: other members stay free for other readers. [`StripCache`] keeps blocks in units of strips. It
//! *culls* blocks that were prefetched and not requested, by feedback from hits, and stops prefetching strips
//! where that costs more than it saves. A few sequential readers would leave members idle that way; for these
//! whole stripes are prefetched, as the paper's rule or the lengths of past runs say. [`StripEngine`] is both
//! as a state machine, [`driver`] serves a block device
//! with it, [`registry`] has its policies by name.
//!
//! It has no clock, file, thread or random source, and no `unsafe`.
#![forbid(unsafe_code)]

mod blocks;
mod cache;
mod command;
mod costs;
mod credit;
pub mod driver;
mod engine;
mod error;
mod event;
mod feedback;
mod flights;
mod geometry;
#[cfg(test)]
mod golden;
mod links;
mod lists;
mod massive;
mod measured;
#[cfg(test)]
mod model;
mod recent;
pub mod registry;
mod replacement;
mod rules;
mod runs;
mod stats;
mod stripe_table;
#[cfg(test)]
mod testing;

pub use blocks::{Blocks, STRIP_PAGES_LIMIT};
pub use cache::{Answer, BYTES_PER_STRIP, Dropped, GHOSTS_PER_STRIP, StripCache};
pub use command::{COMMANDS_LIMIT, Command, Commands};
pub use costs::Following;
pub use engine::{READ_LIMIT, StripEngine};
pub use error::StripsError;
pub use event::{Event, Outcome};
pub use flights::{FLIGHTS_LIMIT, WAITING_LIMIT};
pub use geometry::{Geometry, MEMBERS_LIMIT, Member, MemberAddress, StripNo, StripeNo};
pub use massive::{ACTIVE_READS, MULTIPLE_LIMIT, STREAMS_LIMIT};
pub use measured::{BEYOND_LIMIT, MEAN_OF};
pub use replacement::{Fifo, Lru, Replacement};
pub use rules::{CACHE_STRIPS_LEAST, Massive, Rules, Settings, Strips, TRIAL_EVERY};
pub use stats::Stats;
