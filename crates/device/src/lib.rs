//! What storage costs: a device as an event machine in virtual or real time.
//!
//! A [`Device`] takes requests into its own queue, decides in which order to serve them and says
//! when each is finished. It reads no clock: the driver hands it the time. The simulator and the
//! emulator drive the same object, so a modelled disk and an emulated disk cannot differ.
//!
//! A [`Profile`] describes a device and makes one: `Profile::builtin("barracuda-500g")`, then
//! [`Profile::build`]. What a profile says is [`spec`]; where a disk's sectors lie is [`geometry`].
#![forbid(unsafe_code)]

mod array;
mod build;
mod controller;
mod costs;
mod credit;
mod disk;
pub mod geometry;
mod io;
mod machine;
mod mechanics;
mod profile;
mod queue;
mod random;
mod remote;
mod seek;
mod segments;
pub mod spec;

pub use build::{
    Build, BuildError, FIT_CYLINDERS_LEAST, Member, QUEUE_DEPTH_LIMIT, SIZE_LEAST, UNREADABLE_LIMIT,
};
pub use disk::RECOVERY_TURNS;
pub use io::{Counters, Device, Finished, Full, Io, IoId, Op, Outcome, Submitter};
pub use profile::{Kind, Profile};
pub use queue::{PASSED_OVER_LIMIT, Queue};
pub use spec::ProfileError;
