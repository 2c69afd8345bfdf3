//! The contract between a prefetcher and its caller: its inputs and its answers.
//!
//! For every prefetcher:
//!
//! - ranges lie within the object and are never empty;
//! - where the touched page is missing, exactly one of the answered ranges holds it, with [`Ahead::demand`],
//!   under congestion as well;
//! - a page that is cached is never demanded;
//! - a range may hold pages that are cached or in flight; the caller skips them.

use super::view::View;
use crate::depth::Served;
use crate::learn::Learning;
use foreseek_seam::{ObjectId, ProcessId, StreamId, StreamInfo};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages};

/// A stream begins: a program has opened an object. Names are best given densely, the smallest free one
/// first: a prefetcher indexes its table of streams with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name.
    pub stream: StreamId,
    /// The object that it reads.
    pub object: ObjectId,
    /// The process that reads.
    pub pid: ProcessId,
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
    /// In flight: the reader waits for a read that began earlier.
    InFlight,
    /// Missing.
    Miss,
    /// Missing although it was read ahead: evicted before its first use.
    Thrashed,
}

/// A reader touches a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The stream.
    pub stream: StreamId,
    /// The page of its object.
    pub page: PageIndex,
    /// How many pages the reader's call wants from this one on, including it: at least one.
    pub request: Pages,
    /// Whether it is the first page that the call touches.
    pub first: bool,
    /// Whether it is a page fault in a mapping and not a read call: kernels read around it. Then `request` is
    /// one page and `first` holds.
    pub mapped: bool,
    /// How the page was found.
    pub found: Found,
    /// Whether the page has the marker that was set with [`Ahead::marker`]; the caller clears it.
    pub marker: bool,
}

/// A range to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The pages; within the object, never empty.
    pub range: PageSpan,
    /// The page of it that gets the marker: a touch of it has [`Touch::marker`].
    pub marker: Option<PageIndex>,
    /// Whether the touched page is among them and its reader waits for it.
    pub demand: bool,
}

/// Reads ahead of streams.
pub trait Prefetcher: Send {
    /// A stream begins.
    fn opened(&mut self, now: Instant, opened: Opened);
    /// More is known about an open stream than the length of its file, for learning policies. Called right
    /// after [`Prefetcher::opened`], or never.
    fn described(&mut self, _stream: StreamId, _about: &StreamInfo<'_>) {}
    /// A stream has ended; its name may be reused.
    fn closed(&mut self, now: Instant, stream: StreamId);
    /// A page is touched; the ranges to read are appended to `out`, in the order of submission.
    fn touch(&mut self, now: Instant, touch: Touch, view: &dyn View, out: &mut Vec<Ahead>);
    /// The length of a stream's object has changed.
    fn resized(&mut self, _stream: StreamId, _length: Pages) {}
    /// The device has served a request: a rule may learn the positioning cost from it.
    fn served(&mut self, now: Instant, served: Served);
    /// What it has learnt about its readers, to be saved, loaded and explained. `None` for one that learns
    /// nothing.
    fn learning(&mut self) -> Option<&mut dyn Learning> {
        None
    }
}
