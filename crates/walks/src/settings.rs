//! What a user can set.

use foreseek_units::{Bytes, Nanos};

/// The default of [`Settings::rho`]: with it rounds can double in cost even where a pass over few files
/// costs as much as one over many. No deterministic rule does better there (online bidding).
pub const RHO: f64 = 4.0;
/// The default of [`Settings::start`].
pub const START: u32 = 8;
/// The default of [`Settings::budget`]: what a small machine of today can spare.
pub const BUDGET: Bytes = Bytes::mib(256);

/// The settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The competitive ratio: what is fetched costs at most so many times the cheapest pass over
    /// what was used, and [`Settings::start`] beyond. At least 1.
    pub rho: f64,
    /// The allowance before anything was confirmed, in average positioning times of the device. One for the whole
    /// device and all of its walks together; refilled by confirmed savings alone.
    pub start: u32,
    /// The most that is held at a time: brought and not used yet.
    pub budget: Bytes,
    /// The most that is fetched of one file, from its start. The kernel's read-ahead does well beyond it.
    pub file_limit: Bytes,
    /// Fetch contents. Without it only inodes and directories are fetched.
    pub contents: bool,
    /// The driver reports [`Event::Read`](crate::Event::Read). Without it an open counts as the use of what was fetched of the file.
    pub sees_reads: bool,
    /// A walk without events for so long is over.
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
            sees_reads: false,
            idle: Nanos::from_secs(10),
        }
    }
}
