//! Virtual time: machines over modelled devices.
//!
//! [`machine`] is a machine of the papers: processes, memory, a page cache with its read-ahead and
//! replacement, over [`block`] and a device. [`workload`] says what processes do, [`experiment`]
//! sweeps and repeats.
//!
//! [`VirtualKernel`] is a stock kernel to a process that reads files and gives advice: the driver of
//! real programs runs on it unchanged. [`limit`] tells what no prefetcher of a memory beats that works in
//! rounds.
#![forbid(unsafe_code)]

pub mod block;
pub mod experiment;
pub mod kernel;
pub mod limit;
pub mod machine;
mod options;
mod page_lists;
pub mod program;
pub mod trace;
pub mod truth;
pub mod workload;

pub use kernel::VirtualKernel;
pub use options::{
    Costs, KernelCounters, KernelOptions, LOG_LIMIT, Logged, REQUEST_LIMIT, REQUESTS_LIMIT, ReadError,
};
