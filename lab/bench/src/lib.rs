//! Foreseek measured against stock Linux and its peers, real against real, in one run: the mount on the papers'
//! microbenchmarks (all but [`walk`] and [`array`]), programs that read trees of files ([`walk`]), and arrays of disks ([`array`]).
//!
//! The mount: on an emulated disk with ext4 the four microbenchmarks of TR-840 run in turn over each policy:
//! the kernel's own read-ahead at several settings, nbdkit's read-ahead filter, a plain FUSE
//! pass-through and the mount. Runs of one pair share their seed and follow each other, so that what
//! the machine does meanwhile meets all of them; pairs are what the intervals are taken over
//! ([`judge`]). Two more cells measure what the mount costs where there is nothing to gain: hot
//! reads, and cold reads of 4 KiB from a disk without delays.
//!
//! The accesses are those of the simulator ([`foreseek_simulate::program::begin`]), so that the same
//! machine with an oracle in virtual time ([`modelled`]) says how much was to be had, and with the mount in virtual
//! time, whether the simulator predicts what the disk has to do for it.
//!
//! Memory: all of `memory` limits the readers of stock Linux. Where a server has a part in it (the
//! mount, nbdkit), the readers are limited to what is left of it; a server never shares its readers'
//! group. A handler holds its buffer of 64 KiB, and not the papers' 1 MB.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that cannot run says so"))]

pub mod array;
pub mod cell;
mod data;
mod error;
pub mod jobs;
pub mod judge;
mod measure;
mod modelled;
mod options;
mod outcome;
pub mod pairs;
mod policy;
pub mod reader;
pub mod record;
pub mod report;
mod run;
mod server;
mod setup;
mod timed;
pub mod walk;

pub use cell::Cell;
pub use error::{Error, Result};
pub use options::{DATA_SIZE, Options, PAIRS, PROFILE, SECONDS, TIME_SCALE};
pub use outcome::Outcome;
pub use policy::Policy;
pub use run::{Ahead, Reporting, run};
