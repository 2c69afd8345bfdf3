//! The array of ATC'08: a driver with a cache of its own above disks that each have a scheduler.
//!
//! [`StripDevice`] is the driver. It runs the engine of `foreseek-strips` in virtual time above an array.
//! [`Member`] is a disk with a block layer in front of it. The host above both is [`crate::machine`] with its
//! page cache and read-ahead. The host's own block layer defers nothing, since such a driver has no scheduler
//! above it.

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

/// Delays each request of the first disk that it gets by this much; the others stay as they are.
pub fn slow_first(by: Nanos) -> impl FnMut(Box<dyn Device>) -> Box<dyn Device> {
    let mut is_due = !by.is_zero();
    move |disk| if std::mem::take(&mut is_due) { Box::new(slowed::Slowed::new(disk, by)) } else { disk }
}
