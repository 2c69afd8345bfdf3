//! The block layer: between a file system's requests and the device.
//!
//! What a kernel submits is merged with its neighbours, held back for a moment (plugged), split to
//! what the driver takes, put in order by an I/O [`Scheduler`] and handed to the device.

mod request;
pub mod scheduler;

pub use request::{Request, Tag};
pub use scheduler::Scheduler;
