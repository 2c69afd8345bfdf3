//! What to read next: policies as state machines, without I/O, clock, thread or random source.
//!
//! Everything that decides implements [`Engine`]: events and the time go in, bounded commands come
//! out. The same object runs in real time behind the real doors and in virtual time in the
//! simulator; a recorder holds the two to each other.
//!
//! [`AccessListEngine`] is the policy of application-directed prefetching (ATC'09), and [`Driver`]
//! carries out its commands on any [`PageCache`].
#![forbid(unsafe_code)]

mod access_engine;
mod access_list;
pub mod competitive;
mod contention;
pub mod depth;
pub mod driver;
pub mod engine;
mod held;
mod infill;
pub mod learn;
mod lookahead;
mod objects;
mod order;
pub mod page_cache;
mod patience;
mod percent;
mod pipeline;
mod plan;
pub mod record;
mod regions;
mod round;
pub mod serving;
mod settings;
mod stats;
pub mod stream;
mod tour;
mod trust;

pub use access_engine::AccessListEngine;
pub use contention::Contention;
pub use driver::{Driver, Step, Want};
pub use engine::{Command, Commands, Engine, Event};
pub use page_cache::PageCache;
pub use record::{Recorder, Recording, replay};
pub use serving::ServingEngine;
pub use settings::{
    GROWTH, INFILL, LIST_CEILING, LIST_FLOOR, LIST_LIMIT, Mode, Order, ParseModeError, ParseShareError,
    Settings, Share,
};
pub use stats::Stats;
