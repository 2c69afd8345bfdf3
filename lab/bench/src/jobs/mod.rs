//! Jobs of programs that nobody tuned the mount for: what the mount is worth for them, and that it is worth nothing less than stock.
//!
//! Unmodified programs, as users run them, read data on an emulated disk in several [ways](way): over stock Linux at some static settings of
//! `read_ahead_kb`, through a mount that only passes reads on, and through the mount with its defaults. All ways of a [job](job) follow each
//! other from cold, beginning with another one in each pair.
//!
//! Memory is the same in all ways: a control group of all of it for programs on stock Linux; of half of it where a server has the other half.
//!
//! Some jobs see the disk as that of a server [far away](job), over sshfs: there `read_ahead_kb` is set for the server's disk alone, and the
//! sshfs process has memory of its own.
//!
//! Limits: the way to that server is a delay with room for everything. What programs write goes to another disk, except for PostgreSQL's own files. Nothing is read twice, so that nothing is said of
//! cached data. The share of processor time that PostgreSQL's server takes is not counted.

mod data;
pub mod job;
mod judge;
mod options;
mod record;
mod report;
mod run;
pub mod way;

pub use job::Named;
pub use options::{Options, PAIRS, PROFILE};
pub use report::{Report, write};
pub use run::run;
pub use way::Way;
