//! Known futures: fetches the reads that a program has announced, in disk order.
//!
//! [`AccessListEngine`] is the policy of application-directed prefetching (ATC'09): an access list, a reorder
//! buffer as large as memory allows, infill and contention control. [`Pump`] returns the engine's needs step by
//! step, for a modelled process in virtual time. [`Driver`] carries these needs out on a
//! [`PageCache`](foreseek_seam::PageCache), the kernel's in real time.
#![forbid(unsafe_code)]

mod access_engine;
mod access_list;
pub mod allowance;
mod contention;
mod driver;
mod entry;
mod header;
mod held;
pub mod in_order;
mod infill;
mod lookahead;
mod objects;
mod order;
mod patience;
mod pipeline;
mod plan;
mod pump;
pub mod read_around;
mod regions;
mod round;
mod settings;
mod state;
mod stats;
mod sweep;
mod trust;

pub use allowance::{Allowance, End};
pub use contention::Contention;
pub use driver::Driver;
pub use pump::{CallbackRequest, Need, Next, Pump, Step};
pub use read_around::ReadAround;
pub use settings::{
    GROWTH, INFILL, LIST_CEILING, LIST_FLOOR, LIST_LIMIT, Mode, Order, ParseModeError, ParseShareError,
    Settings, Share,
};
pub use state::AccessListEngine;
pub use stats::Stats;
