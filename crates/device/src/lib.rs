//! The costs of storage: a device as an event machine in virtual or real time.
//!
//! A [`Device`] has its own queue, decides the order of its requests and determines when each is finished. It
//! reads no clock: the driver passes the time. The simulator and the emulator drive the same object, so that
//! a modelled disk and an emulated disk cannot differ.
//!
//! A [`Profile`] describes a device and builds one: `Profile::builtin("barracuda-500g")`, then
//! [`Profile::build`]. [`spec`] has the contents of a profile, [`geometry`] the layout of a disk's sectors.
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
pub use disk::RECOVERY_ROTATIONS;
pub use io::{Counters, Device, Finished, Full, Io, IoId, Op, Outcome, Submitter};
pub use profile::{Kind, Profile};
pub use queue::{PASSED_OVER_LIMIT, Queue};
pub use spec::ProfileError;
