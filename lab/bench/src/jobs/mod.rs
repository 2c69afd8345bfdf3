//! Jobs of programs that the mount was not tuned for: what the mount gains, and whether it ever loses against
//! stock.
//!
//! Unmodified programs read data on an emulated disk in several [ways](way): over stock Linux at some static
//! settings of `read_ahead_kb`, through a mount that only passes reads on, and through the mount with its
//! defaults. All ways of a [job](job) follow each other from cold; each pair begins with another one.
//!
//! Memory is the same in all ways: on stock Linux the programs' control group has all of it, and half of it
//! where a server has the other half.
//!
//! Some jobs read the disk of a [remote server](job) over sshfs. There `read_ahead_kb` is set for the server's
//! disk alone, and the sshfs process has memory of its own.
//!
//! Limits: the network to that server is a delay without a limit on bandwidth. What programs write goes to
//! another disk, except for PostgreSQL's own files. One job reads something twice; of data in memory there is no
//! result. The processor time of PostgreSQL's server is not counted.

mod data;
pub mod job;
mod judge;
mod options;
mod record;
mod report;
mod run;
pub mod way;

pub use job::NamedJob;
pub use options::{Options, PAIRS, PROFILE};
pub use report::{Report, write};
pub use run::run;
pub use way::Way;
