//! Streams: reading ahead of readers who tell nothing about themselves.
//!
//! A [`Prefetcher`] is a kernel's (or a mount's) read-ahead: it is told of each page that a reader
//! touches and answers with the ranges to be read. It keeps the state of every open stream, and
//! knows nothing of memory, queues or clocks but what its caller shows it: the time, and a [`View`]
//! of the page cache. The caller skips pages that are cached or on their way already.
//!
//! What holds for every prefetcher: ranges lie within the object and are never empty; where the
//! touched page is missing, exactly one of the answered ranges holds it and says so with
//! [`Ahead::demand`], congestion or not; a page that is there is never demanded; a range may hold
//! pages that are cached or on their way, which the caller skips.
//!
//! Two parts make a prefetcher: a *window machine*, which decides when to read and where (one for
//! each place where a prefetcher can stand; those of the papers' kernels are in the laboratory), and a *depth rule*, which says how much at
//! most (TR-840 section 3, EuroSys'07 sections 4 and 5).

mod aggressive;
mod behind;
mod competitive;
mod demand;
mod generation;
mod lasting;
mod learnt;
pub mod machine;
pub mod mapped;
mod none;
mod on_demand;
mod oracle;
mod ramp;
mod registry;
mod settings;
mod slab;
mod stock;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use generation::{Generation, Windows};
pub use ramp::{Ramp, SLOW_START};
pub use registry::{TOLD, UnknownPolicy, about, by_name, names, offered};
pub use settings::{RHO, RHO_LIMIT, RHO_RANGE, Settings};
pub use stock::stock;

use crate::learn::Learning;
use foreseek_seam::{About, Measured, ObjectId, StreamId, Who};
use foreseek_units::{Instant, Lba, PageIndex, PageSpan, Pages, SectorSpan};

/// A stream that begins: somebody has opened an object. Names are best given densely, the smallest
/// free one first: a prefetcher keeps its streams in a table that it indexes with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name from now on.
    pub stream: StreamId,
    /// What it reads.
    pub object: ObjectId,
    /// Who reads.
    pub who: Who,
    /// Length of the object.
    pub length: Pages,
    /// How much the stream will read from its first page on: for an oracle only.
    pub told: Option<Pages>,
}

/// How a touched page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// In memory.
    Hit,
    /// On its way: the reader waits for a read that somebody began.
    InFlight,
    /// Not there.
    Miss,
    /// Not there, although it had been read ahead: evicted before its first use.
    Thrashed,
}

/// A reader touches a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Which stream.
    pub stream: StreamId,
    /// Which page of its object.
    pub page: PageIndex,
    /// How many pages the reader's call wants from this one on, itself counted: at least one.
    pub request: Pages,
    /// Whether it is the first page that the call touches.
    pub first: bool,
    /// Whether it is a page fault in a mapping and not a call that reads: kernels read around it.
    /// Then `request` is one page and `first` holds.
    pub mapped: bool,
    /// How the page was found.
    pub found: Found,
    /// Whether the page bears the marker that was set with [`Ahead::marker`]; the caller clears it.
    pub marker: bool,
}

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Which pages; within the object, never empty.
    pub range: PageSpan,
    /// The page of it that is to bear the marker: touching it tells [`Touch::marker`].
    pub marker: Option<PageIndex>,
    /// Whether the touched page is among them and its reader waits for it.
    pub demand: bool,
}

/// A device that is kept idle for a reader, since he will probably read on: an anticipatory scheduler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Where its last request ended.
    pub at: Lba,
    /// How much of a fetch it would be given at once: the rest would come after what others have queued.
    pub room: Pages,
}

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
    /// Whether and where the device is kept idle for the reader of the touched page.
    fn awaited(&self) -> Option<Awaited> {
        None
    }
    /// The longest request, where the queue gives the device one after the other: what is longer goes there in part.
    fn request(&self) -> Option<Pages> {
        None
    }
    /// How much memory there is for each stream that is open, for those who go by that where there is no bound.
    /// The papers' policies do not: a deep fetch loses its pages under them (TR-840 section 4).
    fn share(&self) -> Option<Pages> {
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

/// A request that the device has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where the request before it ended.
    pub from: Lba,
    /// What was transferred.
    pub range: SectorSpan,
}

/// Reads ahead of streams.
pub trait Prefetcher: Send {
    /// A stream begins.
    fn opened(&mut self, now: Instant, opened: Opened);
    /// More is known of an open stream than how long its file is: what those who learn go by. Told right
    /// after [`Prefetcher::opened`], or never.
    fn described(&mut self, _stream: StreamId, _about: &About<'_>) {}
    /// A stream has ended; its name may be given again.
    fn closed(&mut self, now: Instant, stream: StreamId);
    /// A page is touched; what is to be read is appended to `out`, in the order of submission.
    fn touch(&mut self, now: Instant, touch: Touch, view: &dyn View, out: &mut Vec<Ahead>);
    /// The object of a stream has this length from now on.
    fn resized(&mut self, _stream: StreamId, _length: Pages) {}
    /// The device has served a request: what a rule learns the switch cost from.
    fn served(&mut self, now: Instant, served: Served);
    /// What it has learnt of its readers: to be saved, loaded and explained. None where it learns nothing.
    fn learning(&mut self) -> Option<&mut dyn Learning> {
        None
    }
}
