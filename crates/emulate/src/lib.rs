//! A hard disk, array or network volume that is a file, with modelled timing in real time.
//!
//! `attach` starts a server process that mounts a FUSE file system of one file, lays a direct-I/O
//! loop device over the file, and answers each request when the modelled device would have: the
//! kernel sees a block device `/dev/loopN`, on which a real file system, page cache and scheduler
//! run. The model is the same [`foreseek_device::Device`] that the simulator drives.
//!
//! Callers use [`client`]; the program that they run as server calls `serve::run`. Inside:
//! `disk` takes requests from the kernel and moves their data, `timer` owns the
//! model and decides when each is answered, `clock` maps real time to modelled time.
//!
//! Limits: root and `/dev/fuse` are needed; timing is as good as the machine's wake-ups (the
//! `lateness` in [`Stats`] says how good); discards cost no modelled time.

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
pub use options::{AttachOptions, Backing, DEFAULT_QUEUE_DEPTH, LbaRange, NO_PROFILE, Queue, Set};
pub use protocol::{LogEntry, LoggedOp};
pub use stats::{Distribution, PathCost, Stats, Step};
