//! What a driver counts beside its engine.

use foreseek_units::Bytes;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads answered before they had to wait.
    pub hits: u64,
    /// Reads that waited for what was under way or about to be, and had nothing fetched for them.
    pub joined: u64,
    /// Bytes answered.
    pub read: Bytes,
    /// Bytes of passed reads.
    pub passed: Bytes,
    /// Reads answered with an error.
    pub failed: u64,
    /// How often the engine or the backing said what cannot be.
    pub internal_errors: u64,
}
