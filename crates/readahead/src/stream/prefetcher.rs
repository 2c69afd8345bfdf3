//! What a prefetcher is told and what it answers: the contract between it and its caller.
//!
//! What holds for every prefetcher: ranges lie within the object and are never empty; where the
//! touched page is missing, exactly one of the answered ranges holds it and says so with
//! [`Ahead::demand`], congestion or not; a page that is there is never demanded; a range may hold
//! pages that are cached or on their way, which the caller skips.

use super::view::View;
use crate::depth::Served;
use crate::learn::Learning;
use foreseek_seam::{ObjectId, ProcessId, StreamId, StreamInfo};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages};

/// A stream that begins: somebody has opened an object. Names are best given densely, the smallest
/// free one first: a prefetcher keeps its streams in a table that it indexes with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name from now on.
    pub stream: StreamId,
    /// What it reads.
    pub object: ObjectId,
    /// Who reads.
    pub who: ProcessId,
    /// Length of the object.
    pub length: Pages,
    /// How much the stream will read from its first page on: for an oracle only.
    pub announced: Option<Pages>,
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

/// Reads ahead of streams.
pub trait Prefetcher: Send {
    /// A stream begins.
    fn opened(&mut self, now: Instant, opened: Opened);
    /// More is known of an open stream than how long its file is: what learning policies use. Told right
    /// after [`Prefetcher::opened`], or never.
    fn described(&mut self, _stream: StreamId, _about: &StreamInfo<'_>) {}
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
