//! A block device that reads an array by strips and stripes.
//!
//! [`client::attach`] starts a server process. It opens the array's device for itself alone and serves it as
//! `/dev/loopN`, through the strip cache of `foreseek-strips`. `serve` is that process. `served` carries out
//! the driver's actions. `below` is the device, `changes` are the threads that write to it, and `gather` joins
//! what they write.
//!
//! Limits:
//!
//! - Root and `/dev/fuse` are required.
//! - Supported are RAID-0, RAID-5 and RAID-6 (left-symmetric), and RAID-10 in pairs.
//! - Writes go through.
//! - A device that grows keeps its size here until it is attached again.
#![forbid(unsafe_code)]

mod below;
mod changes;
pub mod client;
mod error;
mod found;
mod gather;
mod options;
mod pause;
pub mod serve;
mod served;
mod state;
mod volume;

pub use error::Error;
pub use foreseek_export::NbdAddress;
pub use foreseek_server::Health;
pub use options::{AttachOptions, DEFAULT_MEMBER, Shape};
pub use served::Status;
pub use state::Attached;

/// The default policy of an array.
pub use foreseek_strips::registry::DEFAULT as DEFAULT_POLICY;

/// Whether an array can be attached with a policy of this name.
#[must_use]
pub fn is_policy(name: &str) -> bool {
    foreseek_strips::registry::by_name(name).is_ok_and(|policy| policy.host_window.is_none())
}
