//! What an engine that gives advice can do to a kernel's page cache.
//!
//! `storage` implements it with system calls, tests with tables. A process in virtual time has no such thing to
//! call: its pump's needs are steps of its program (`foreseek_simulate::directed`).

use crate::{Extent, ObjectId, Refusal};
use foreseek_units::{Instant, PageSpan, Pages};

/// A kernel's page cache as an unprivileged process reaches it: advice and residency.
pub trait PageCache {
    /// The time: monotonic, from an origin of the implementation's choice.
    fn now(&mut self) -> Instant;

    /// Asks for pages (`POSIX_FADV_WILLNEED`). May block until the device's queue has room, never
    /// until the data has arrived. Answers how many pages from the start of the range were asked
    /// for: a kernel clamps one call to its read-ahead or request size, so an implementation splits
    /// a longer range into calls that are taken whole.
    ///
    /// # Errors
    /// Why the kernel did not take it.
    fn fetch(&mut self, object: ObjectId, range: PageSpan) -> Result<Pages, Refusal>;

    /// Gives clean, unused pages back (`POSIX_FADV_DONTNEED`), best effort.
    fn forget(&mut self, object: ObjectId, range: PageSpan);

    /// Appends the resident runs of a range to `runs`, ascending (`cachestat`). Answers false where
    /// residency can't be known for this object; then the engine goes by its own account.
    fn resident(&mut self, object: ObjectId, range: PageSpan, runs: &mut Vec<PageSpan>) -> bool;

    /// Where the object lies on its device, ascending; empty where that can't be known (`FIEMAP`).
    fn extents(&mut self, object: ObjectId) -> Vec<Extent>;

    /// How much memory there is for cached pages now: the tighter of the machine's and the control
    /// group's limits, less what is in use for other things.
    fn budget(&mut self) -> Pages;
}
