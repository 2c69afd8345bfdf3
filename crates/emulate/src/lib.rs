//! A hard disk, array or network volume backed by a file, with modelled timing in real time.
//!
//! `attach` starts a server process that mounts a FUSE file system of one file, attaches a direct-I/O loop
//! device to the file, and answers each request when the modelled device would have. The kernel sees a block
//! device `/dev/loopN` with a real file system, page cache and scheduler. The model is the same
//! [`foreseek_device::Device`] that the simulator drives.
//!
//! Callers use [`client`]; the program that they run as server calls `serve::run`. Inside, `disk` receives
//! requests from the kernel and moves their data, `timer` has the model and decides when each request is
//! answered, and `clock` converts real time to modelled time.
//!
//! Limits: it needs root and `/dev/fuse`. Timing is as accurate as the machine's wake-ups (see `lateness` in
//! [`Stats`]). Discards take no modelled time.

mod backing;
mod calibrate;
pub mod client;
mod clock;
mod disk;
mod error;
mod fixed_delay;
mod flight;
mod logbook;
mod meter;
mod model;
mod options;
mod path;
mod protocol;
mod running;
mod schedule;
pub mod serve;
mod spin;
mod state;
mod stats;
mod teardown;
mod timer;
mod volatile;

pub use error::Error;
pub use foreseek_export::NbdAddress;
pub use foreseek_server::Health;
pub use options::{AttachOptions, Backing, DEFAULT_QUEUE_DEPTH, LbaRange, NO_PROFILE, QueueOrder, Set};
pub use protocol::{LogEntry, LoggedOp};
pub use stats::{Distribution, PathCost, Stats, Step};
