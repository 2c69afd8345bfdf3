//! What a client did.

/// Counters of one client since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Reads of watched regions that were seen.
    pub reads: u64,
    /// Questions put to the application.
    pub questions: u64,
    /// Entries that the application gave and that were taken.
    pub hinted: u64,
}
