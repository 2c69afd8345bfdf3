//! Foreseek compared with stock Linux and other programs, on a real kernel and in one run: the mount with the
//! papers' microbenchmarks (all but [`walk`] and [`array`]), programs that read trees of files ([`walk`]), and
//! arrays of disks ([`array`]).
//!
//! The mount: on an emulated disk with ext4 the four microbenchmarks of TR-840 run in turn over each policy:
//! the kernel's read-ahead at several settings, nbdkit's read-ahead filter, a plain FUSE pass-through and the
//! mount. Runs of one pair share their seed and follow each other, so that other load on the machine affects
//! all of them. Intervals are taken over pairs ([`judge`]). Two more cells measure the overhead of the mount
//! where there is nothing to gain: hot reads, and cold reads of 4 KiB from a disk without delays.
//!
//! The accesses are those of the simulator ([`foreseek_simulate::program::begin`]). So the same machine with an
//! oracle in virtual time ([`modelled`]) shows how much can be gained, and the mount in virtual time shows
//! whether the simulator predicts the disk's work.
//!
//! Memory: on stock Linux the readers are limited to all of `memory`. Where a server has a part of it (the
//! mount, nbdkit), the readers are limited to the rest; a server is never in its readers' group. A handler has
//! a buffer of 64 KiB, and on request private memory beside it, as the papers' handlers have 1 MB.
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
mod named;
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
pub use policy::{Policy, mounted};
pub use run::{Ahead, Reporting, run};
