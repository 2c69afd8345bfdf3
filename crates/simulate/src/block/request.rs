//! A request on its way to the device.

use foreseek_device::Op;
use foreseek_prefetch::engine::Who;
use foreseek_units::{Instant, SectorSpan};

/// The submitter's name for what it submitted; a merged request completes several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// What a scheduler orders: neighbours are merged and long ones split before they come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The block layer's name for it.
    pub id: u64,
    /// Read or write.
    pub op: Op,
    /// Where.
    pub range: SectorSpan,
    /// The process for which it is done; a scheduler that is blind to processes sees one for all.
    pub who: Who,
    /// Whether somebody waits for it (reads, and writes that are waited for).
    pub synchronous: bool,
    /// When it came to the scheduler.
    pub at: Instant,
}
