//! The main job, shown: SQLite's scan by a secondary index on an emulated disk, stock and with
//! Foreseek, and the report on it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that cannot run says so"))]

pub mod cgroup;
mod customer;
pub mod database;
mod error;
mod interrupt;
pub mod outcome;
mod process;
pub mod report;

pub use customer::QUERY;
pub use error::{Error, Result};
pub use interrupt::Interrupt;
pub use process::Program;
