//! Virtual time: machines over modelled devices.
//!
//! [`machine`] is a machine of the papers: processes, memory, a page cache with its read-ahead and replacement,
//! over [`block`] and a device. [`workload`] defines what processes do, [`experiment`] sweeps and repeats.
//!
//! [`array`] is the driver of an array with a cache of its own, between the two.
//!
//! [`directed`] puts libprefetch into a process of such a machine. [`limit`] is the lower bound of the time of
//! prefetchers that work in rounds. [`watch`] is the daemon that reads ahead of tree walks.
#![forbid(unsafe_code)]

pub mod array;
pub mod block;
pub mod directed;
pub mod experiment;
pub mod limit;
pub mod machine;
pub mod program;
pub mod trace;
pub mod truth;
pub mod watch;
pub mod workload;
