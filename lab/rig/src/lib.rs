//! The set-up of measured comparisons on a real kernel.
//!
//! An emulated disk with a file system on it ([`Disk`], [`Mounted`]) and its block queue ([`queue`]), a control
//! group that limits memory ([`MemoryGroup`]), programs with a time limit ([`Program`], [`Running`]), and the
//! handling of signals meanwhile ([`Interrupt`]). Each is undone when it is dropped, so that an error or a
//! Ctrl-C leaves nothing behind.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that cannot run says so"))]

mod cgroup;
mod direct;
mod disk;
mod error;
mod interrupt;
mod machine;
mod process;
pub mod queue;
mod used;

pub use cgroup::{CgroupParent, MemoryGroup, Usage, Version, command_in};
pub use direct::DirectReader;
pub use disk::{Disk, DiskPlan, Mounted, extents_of, mount_ext4, mount_memory};
pub use error::{Error, Result};
pub use interrupt::{Interrupt, POLL};
pub use machine::{check_space, missing, pages_out_idle_memory};
pub use process::{Program, Running};
pub use used::{memory_peak, processor_time, waited_time};
