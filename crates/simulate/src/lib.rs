//! Virtual time: a page cache and a fadvise door over a modelled device.
#![forbid(unsafe_code)]

pub mod kernel;
pub mod limit;
mod page_lists;
mod readahead;

pub use kernel::{KernelOptions, VirtualKernel};
