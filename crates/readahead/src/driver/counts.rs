//! A driver's counters beside those of its engine.

use foreseek_units::Bytes;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads answered without waiting.
    pub hits: u64,
    /// Reads that waited for fetches in flight or already wanted, and caused none.
    pub joined: u64,
    /// Bytes in answers.
    pub read: Bytes,
    /// Bytes of passed reads.
    pub passed: Bytes,
    /// Reads answered with an error.
    pub failed: u64,
    /// Errors of the engine or the backing.
    pub internal_errors: u64,
}
