//! The interface to a kernel's page cache for an engine that gives advice.
//!
//! `storage` implements it with system calls, tests with tables. A process in virtual time has nothing to
//! call: the requests of its pump are steps of its program (`foreseek_simulate::directed`).

use crate::{Extent, ObjectId, Refusal};
use foreseek_units::{Instant, PageSpan, Pages};

/// A kernel's page cache as an unprivileged process reaches it: advice and residency.
pub trait PageCache {
    /// The time: monotonic, from an origin of the implementation's choice.
    fn now(&mut self) -> Instant;

    /// Requests pages (`POSIX_FADV_WILLNEED`). It may block until the device's queue has room, never until
    /// the data has arrived. Returns how many pages from the start of the range were requested. A kernel
    /// clamps one call to its read-ahead or request size; an implementation therefore splits a longer range
    /// into calls that are accepted as a whole.
    ///
    /// # Errors
    /// The reason why the kernel refused it.
    fn fetch(&mut self, object: ObjectId, range: PageSpan) -> Result<Pages, Refusal>;

    /// Gives clean, unused pages back (`POSIX_FADV_DONTNEED`), best effort.
    fn forget(&mut self, object: ObjectId, range: PageSpan);

    /// Appends the resident runs of a range to `runs`, ascending (`cachestat`). Returns false if residency is
    /// unknown for this object; the engine then uses its own account.
    fn resident(&mut self, object: ObjectId, range: PageSpan, runs: &mut Vec<PageSpan>) -> bool;

    /// The location of the object on its device, ascending; empty if it is unknown (`FIEMAP`).
    fn extents(&mut self, object: ObjectId) -> Vec<Extent>;

    /// The current memory for cached pages: the tighter of the machine's and the control group's limits, less
    /// the memory in use for other purposes.
    fn budget(&mut self) -> Pages;
}
