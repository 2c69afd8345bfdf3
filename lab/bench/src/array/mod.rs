//! An array of disks read as a block device: by the kernel's own read-ahead, and through `foreseek array`.
//!
//! An emulated array is read by the [loads](Load) of ATC'08 (sequential, reverse, with a stride, at random) in
//! several [ways](Way): the raw device with several settings of `read_ahead_kb`, and the device that `foreseek
//! array` makes of it, with each policy. Reads are buffered, each reader has a part of the device for itself,
//! and nothing is in memory at the start. All ways of a load follow each other; each pair begins with another
//! one.
//!
//! Limits: the device has no file system. dbench, queries after TPC-H and NBD servers are measured by `scripts/bench-array`; cscope and glimpse
//! are not run.

mod judge;
mod load;
mod options;
mod record;
mod report;
mod run;
mod way;

pub use load::Load;
pub use options::{Options, PAIRS, PROFILE, SECONDS};
pub use report::{Report, write};
pub use run::run;
pub use way::Way;
