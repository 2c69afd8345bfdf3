//! Page replacement: which page is evicted when memory is short.
//!
//! The machine reports what happens to each frame to a [`Reclaim`] and asks it for victims. The lists of Linux
//! 2.6 are one implementation ([`LinuxLists`]), a prefetch cache beside them is another ([`Cpem`], TR-840
//! section 4): what that needs to know of processes, misses and time are the methods that the lists leave at
//! their defaults.

mod contract;
mod cpem;
mod lists;
mod zone;

pub use contract::{Inserted, Reclaim, Why};
pub use cpem::Cpem;
pub use lists::LinuxLists;
pub(super) use zone::PRIORITY;
pub use zone::Pass;

use super::settings::Memory;
use foreseek_cache::{ActiveStreams, CeilingSettings, Direction, StreamCount};
use foreseek_units::{Nanos, Pages};

/// How long a stream that reads nothing ahead counts as active: four epochs of the ceiling controller. With 512
/// streams of 64 pages the papers' disk takes some 13 s to serve each once at a third of its rate; a shorter
/// window would count too few just where it matters.
pub const ACTIVE_WINDOW: Nanos = Nanos::from_secs(16);

/// The names that [`by_name`] knows, with what they mean.
pub const NAMES: &[(&str, &str)] = &[
    ("linux-2.6", "an active and an inactive list"),
    ("linux-6", "the same, the active one kept no longer than the other"),
    ("cpem", "these, and a prefetch cache shared by all open files"),
    ("cpem-active", "the same, shared by the files that are read ahead"),
    ("cpem-fixed", "as cpem, but no miss moves its ceiling"),
];

/// The page replacement of this name, for a machine with this memory.
#[must_use]
pub fn by_name(name: &str, memory: &Memory) -> Option<Box<dyn Reclaim>> {
    let cpem = |unit, streams| {
        let ceiling = CeilingSettings::paper(unit, Direction::Up);
        Box::new(Cpem::new(memory, ceiling, streams))
    };
    Some(match name {
        "linux-2.6" => Box::new(LinuxLists::linux_2_6(memory)),
        "linux-6" => Box::new(LinuxLists::linux_6()),
        "cpem" => cpem(memory.low, StreamCount::Open),
        "cpem-active" => cpem(memory.low, StreamCount::Active(ActiveStreams::new(ACTIVE_WINDOW))),
        "cpem-fixed" => cpem(Pages::ZERO, StreamCount::Open),
        _ => return None,
    })
}
