//! The array of ATC'08: a driver with a cache of its own above disks that each have an elevator.
//!
//! [`StripDevice`] is the driver. It runs the engine of `foreseek-strips`, the same object as any other driver of it, in
//! virtual time above an array. [`Member`] is a disk with a block layer in front. The host above both is [`crate::machine`] with its
//! page cache and read-ahead; its own block layer holds nothing back, since such a driver has no elevator above it.

mod member;
mod settings;
mod slowed;
mod strip_device;
#[cfg(test)]
mod tests;
mod write_cache;

use foreseek_device::Device;
use foreseek_units::Nanos;

pub use member::Member;
pub use settings::Settings;
pub use strip_device::{REQUESTS_LIMIT, Seen, StripDevice};

/// The disk, with each of its requests taking so much longer.
#[must_use]
pub fn slowed(disk: Box<dyn Device>, by: Nanos) -> Box<dyn Device> {
    Box::new(slowed::Slowed::new(disk, by))
}
