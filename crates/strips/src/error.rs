//! Errors of this crate.

use foreseek_units::{Lba, Pages, Sectors};

/// A geometry, a setting or a name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripsError {
    /// A strip that does not consist of whole pages, or of too many.
    #[error("a strip of {} sectors: it must be 8 to {} sectors and a multiple of 8", .0.get(), crate::STRIP_PAGES_LIMIT * 8)]
    Strip(Sectors),
    /// Too few or too many members.
    #[error("an array of {0} members: give 2 to {limit} for RAID-0, 3 to {limit} for RAID-5, 4 to {limit} for RAID-6", limit = crate::MEMBERS_LIMIT)]
    Members(u64),
    /// Pages would cross the border of two strips.
    #[error("the device begins at sector {} of the array, which is not a multiple of 8", .0.get())]
    Origin(Lba),
    /// The cache is too small for its lists to have a bottom.
    #[error("a cache of {} pages: it must hold at least {} pages ({} strips)", .given.get(), .least.get(), crate::CACHE_STRIPS_LEAST)]
    Cache {
        /// The given size.
        given: Pages,
        /// The least size.
        least: Pages,
    },
    /// No combination has this name.
    #[error("no array policy is called '{name}': give one of {}", known.join(", "))]
    UnknownPolicy {
        /// The given name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
}
