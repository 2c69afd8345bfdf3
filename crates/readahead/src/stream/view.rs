//! The view of a prefetcher: the page cache, the device and its queue, as its caller shows them.

use foreseek_seam::Measured;
use foreseek_units::{Lba, PageIndex, Pages};

/// What a prefetcher may query while it decides.
pub trait View {
    /// Whether a page of the touched object is in memory or in flight.
    fn cached(&self, page: PageIndex) -> bool;
    /// Whether the device's queue is congested: then read-ahead is cancelled.
    fn congested(&self) -> bool;
    /// The address of a page of the touched object on its device.
    fn lba(&self, page: PageIndex) -> Option<Lba>;
    /// The most that one stream may have read ahead, where memory sets a bound (TR-840 section 4.2).
    fn bound(&self) -> Option<Pages> {
        None
    }
    /// Whether a page of the touched object was given to a cache in front of this one, which may still have
    /// it.
    fn delivered(&self, _page: PageIndex) -> bool {
        false
    }
    /// The costs of the device as measured lately, if they are known better than from its profile.
    fn measured(&self) -> Option<Measured> {
        None
    }
}
