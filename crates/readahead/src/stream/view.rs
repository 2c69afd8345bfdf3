//! What a prefetcher may look at: the page cache, the device and its queue, as its caller shows them.

use foreseek_seam::Measured;
use foreseek_units::{Lba, PageIndex, Pages};

/// What a prefetcher may look at while it decides.
pub trait View {
    /// Whether a page of the touched object is in memory or on its way.
    fn cached(&self, page: PageIndex) -> bool;
    /// Whether the device's queue is congested: read-ahead is to be cancelled.
    fn congested(&self) -> bool;
    /// Where a page of the touched object lies on its device.
    fn place(&self, page: PageIndex) -> Option<Lba>;
    /// The most that one stream may have read ahead of it, where memory sets a bound (TR-840
    /// section 4.2).
    fn bound(&self) -> Option<Pages> {
        None
    }
    /// Whether a page of the touched object was given to a cache in front of this one, and may be there
    /// still.
    fn delivered(&self, _page: PageIndex) -> bool {
        false
    }
    /// What the device was measured to cost lately, where that is known better than from its profile.
    fn measured(&self) -> Option<Measured> {
        None
    }
}
