//! Counters of the planner of a database file.

/// The planner's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read by SQLite.
    pub pages: u64,
    /// Those of them that were leaves of tables and indexes, which can be predicted.
    pub leaves: u64,
    /// Scans recognised.
    pub scans: u64,
    /// Those of them whose end was visible.
    pub ends_known: u64,
    /// Scans that were read to their end.
    pub finished: u64,
    /// Page reads that a scan had predicted.
    pub predicted: u64,
    /// Reads of row pages on a scan's stream that no scan had predicted.
    pub unpredicted: u64,
    /// Accesses generated.
    pub planned: u64,
    /// Evidence without an index, and sequences that a damaged or changed page ended.
    pub failed: u64,
}
