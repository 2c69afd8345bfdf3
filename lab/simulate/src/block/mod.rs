//! The block layer: between a file system's requests and the device.
//!
//! What a kernel submits is split to the driver's limit, merged with waiting neighbours, deferred for a moment
//! ("plugged") so that neighbours may come, ordered by an I/O [`Scheduler`], and handed to the device, as many
//! requests at a time as the driver keeps in it. The rules and their numbers are those of Linux 2.6.
//! [`Settings`] names each with its source; `docs/internals/simulator.md` explains them.

mod infill;
mod layer;
mod merge;
mod metrics;
mod request;
pub mod scheduler;
pub mod seek_law;
mod settings;

pub use layer::BlockLayer;
pub use metrics::{Anticipations, Metrics, SIZES_LIMIT};
pub use request::{Completed, Full, Request, RequestId, Submission, Tag};
pub use scheduler::Scheduler;
pub use settings::{AnticipationTimer, Settings, TAGS};
