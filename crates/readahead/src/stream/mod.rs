//! Streams: reading ahead for readers that announce nothing.
//!
//! A [`Prefetcher`] is a kernel's (or a mount's) read-ahead. It gets each page that a reader touches and
//! answers with the ranges to read. It keeps the state of every open stream. Memory, queues and clocks are
//! known to it only through its caller: the time, and a [`View`] of the page cache. The caller skips pages
//! that are cached or in flight.
//!
//! A prefetcher has two parts:
//!
//! - a *window machine* decides when and where to read. There is one for each interface of a prefetcher;
//!   those of the papers' kernels are in the lab;
//! - a *depth rule* limits how much (TR-840 section 3, EuroSys'07 sections 4 and 5).

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
