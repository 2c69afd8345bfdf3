//! Settings of an engine.

use foreseek_units::{Bytes, Nanos};

/// The default of [`Settings::rho`]: with it, rounds can double in cost even if a pass over few files costs as
/// much as one over many. No deterministic rule reaches a smaller value there (online bidding).
pub const RHO: f64 = 4.0;
/// The default of [`Settings::start`].
pub const START: u32 = 8;
/// The default of [`Settings::budget`]: free memory of a small machine of today.
pub const BUDGET: Bytes = Bytes::mib(256);

/// The settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The competitive ratio: fetches cost at most so many times the cheapest pass over the used data, and
    /// [`Settings::start`] beyond. At least 1.
    pub rho: f64,
    /// The allowance before any use was confirmed, in average positioning times of the device. One for the
    /// whole device and all of its walks together; only confirmed savings refill it.
    pub start: u32,
    /// The most bytes that are held at a time for a user, fetched and not used yet. All users together have at most a
    /// quarter more ([`share_left`](crate::share_left)).
    pub budget: Bytes,
    /// The most that is fetched of one file, from its start. The kernel's read-ahead is good beyond it.
    pub file_limit: Bytes,
    /// Whether to fetch contents. Without them only inodes and directories are fetched.
    pub contents: bool,
    /// A walk without events for this long is over.
    pub idle: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rho: RHO,
            start: START,
            budget: BUDGET,
            file_limit: Bytes::mib(8),
            contents: true,
            idle: Nanos::from_secs(10),
        }
    }
}
