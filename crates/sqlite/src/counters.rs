//! What the planner of a database file counts.

/// What the planner has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read by SQLite.
    pub pages: u64,
    /// Among them leaves of tables and indexes: what can be predicted.
    pub leaves: u64,
    /// Scans recognised.
    pub scans: u64,
    /// Among them those whose end was visible.
    pub ends_known: u64,
    /// Scans that were read to their end.
    pub finished: u64,
    /// Pages read that a scan had predicted.
    pub predicted: u64,
    /// Row pages read on a scan's stream that no scan had predicted.
    pub unpredicted: u64,
    /// Accesses generated.
    pub planned: u64,
    /// Evidence that led to no index, and sequences that a damaged or changed page ended.
    pub failed: u64,
}
