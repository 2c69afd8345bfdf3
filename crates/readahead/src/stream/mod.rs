//! Streams: reading ahead of readers who tell nothing about themselves.
//!
//! A [`Prefetcher`] is a kernel's (or a mount's) read-ahead: it is told of each page that a reader
//! touches and answers with the ranges to be read. It keeps the state of every open stream, and
//! knows nothing of memory, queues or clocks but what its caller shows it: the time, and a [`View`]
//! of the page cache. The caller skips pages that are cached or on their way already.
//!
//! Two parts make a prefetcher: a *window machine*, which decides when to read and where (one for
//! each place where a prefetcher can stand; those of the papers' kernels are in the laboratory), and a *depth rule*, which says how much at
//! most (TR-840 section 3, EuroSys'07 sections 4 and 5).

mod adaptive;
mod aggressive;
mod behind;
mod competitive;
mod demand;
mod generation;
pub mod machine;
pub mod mapped;
mod none;
mod on_demand;
mod oracle;
mod parts;
mod prefetcher;
mod registry;
mod settings;
mod slab;
mod stock;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transfer;
mod view;

pub use crate::depth::{Ramp, SLOW_START, Served};
pub use generation::{Generation, Windows};
pub use prefetcher::{Ahead, Found, Opened, Prefetcher, Touch};
pub use registry::{KNOWN_LENGTHS, UnknownPolicy, about, by_name, names, of_today, offered};
pub use settings::{RHO, RHO_LIMIT, RHO_RANGE, Settings};
pub use stock::stock;
pub use view::View;
