//! The frame of every prefetcher: it keeps the streams and makes their answers fulfil the contract.
//!
//! A [`Machine`] decides for one stream at one touch; [`Streams`] makes a [`Prefetcher`] of it. The duties of
//! all machines are done here:
//!
//! - ranges are cut at the end of the object, and empty ones are dropped;
//! - ranges that are in memory are not requested;
//! - a missing page that the machine left out is read alone.

use super::prefetcher::{Ahead, Found, Opened, Prefetcher, Touch};
use super::slab::Slab;
use super::view::View;
use crate::depth::{Depth, DepthQuery, Served};
use crate::learn::Learning;
use foreseek_seam::{StreamId, StreamInfo};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages, Span};

/// Decides what is read ahead for one stream.
pub trait Machine: Send {
    /// Its state of a stream.
    type Stream: Send;

    /// A stream begins.
    fn open(&self, opened: &Opened) -> Self::Stream;

    /// More is known about its file or its reader.
    fn describe(&self, _stream: &mut Self::Stream, _about: &StreamInfo<'_>) {}

    /// Its file has grown to this length.
    fn resize(&self, _stream: &mut Self::Stream, _length: Pages) {}

    /// A stream has ended.
    fn close(&mut self, _stream: &mut Self::Stream) {}

    /// A page of it is touched.
    fn touch(&mut self, stream: &mut Self::Stream, answer: &mut Answer<'_>);

    /// The device has served a request.
    fn served(&mut self, now: Instant, served: Served);

    /// What it has learnt.
    fn learning(&mut self) -> Option<&mut dyn Learning> {
        None
    }
}

/// The state of every stream.
#[derive(Debug)]
struct Open<S> {
    end: PageIndex,
    announced: Option<Pages>,
    /// The first page touched.
    first: Option<PageIndex>,
    own: S,
}

/// All streams of a machine.
pub struct Streams<M: Machine> {
    machine: M,
    open: Slab<Open<M::Stream>>,
}

impl<M: Machine> Streams<M> {
    /// Without a stream.
    #[must_use]
    pub fn new(machine: M) -> Self {
        Self { machine, open: Slab::new() }
    }
}

impl<M: Machine> Prefetcher for Streams<M> {
    fn opened(&mut self, now: Instant, opened: Opened) {
        let end = PageIndex::ZERO + opened.length;
        self.closed(now, opened.stream);
        let own = self.machine.open(&opened);
        self.open.insert(opened.stream, Open { end, announced: opened.announced, first: None, own });
    }

    fn described(&mut self, stream: StreamId, about: &StreamInfo<'_>) {
        if let Some(open) = self.open.get_mut(stream) {
            self.machine.describe(&mut open.own, about);
        }
    }

    fn closed(&mut self, _now: Instant, stream: StreamId) {
        if let Some(open) = self.open.get_mut(stream) {
            self.machine.close(&mut open.own);
            self.open.remove(stream);
        }
    }

    fn touch(&mut self, _now: Instant, touch: Touch, view: &dyn View, out: &mut Vec<Ahead>) {
        let Some(stream) = self.open.get_mut(touch.stream) else {
            // The stream was never opened: of its object only the page is known.
            let end = touch.page.next();
            return Answer { touch, view, out, end, first: touch.page, announced: None, demanded: false }
                .finish();
        };
        // An object may have grown since it was opened.
        stream.end = stream.end.max(touch.page.next());
        let first = *stream.first.get_or_insert(touch.page);
        let (end, announced) = (stream.end, stream.announced);
        let mut answer = Answer { touch, view, out, end, first, announced, demanded: false };
        self.machine.touch(&mut stream.own, &mut answer);
        answer.finish();
    }

    fn resized(&mut self, stream: StreamId, length: Pages) {
        if let Some(open) = self.open.get_mut(stream) {
            open.end = PageIndex::ZERO + length;
            self.machine.resize(&mut open.own, length);
        }
    }

    fn served(&mut self, now: Instant, served: Served) {
        self.machine.served(now, served);
    }

    fn learning(&mut self) -> Option<&mut dyn Learning> {
        self.machine.learning()
    }
}

/// The answer to one touch, in the making, with all that a machine may query.
pub struct Answer<'a> {
    /// The touch.
    pub touch: Touch,
    /// The view of the page cache and the device.
    pub view: &'a dyn View,
    out: &'a mut Vec<Ahead>,
    end: PageIndex,
    first: PageIndex,
    announced: Option<Pages>,
    demanded: bool,
}

impl Answer<'_> {
    /// The touched page.
    pub fn page(&self) -> PageIndex {
        self.touch.page
    }

    /// Whether the touched page is missing and not in the answer so far.
    pub fn missing(&self) -> bool {
        matches!(self.touch.found, Found::Miss | Found::Thrashed) && !self.demanded
    }

    /// The page after the object's last.
    pub fn end(&self) -> PageIndex {
        self.end
    }

    /// The depth that a rule gives for a fetch that begins at `page`, within the bound of memory.
    pub fn most(&self, depth: &mut dyn Depth, page: PageIndex) -> Pages {
        let asked = DepthQuery {
            page,
            lba: self.view.lba(page),
            consumed: page - self.first,
            announced: self.announced.map(|announced| (self.first + announced) - page),
            measured: self.view.measured(),
        };
        let most = depth.most(&asked);
        self.view.bound().map_or(most, |bound| most.min(bound.max(Pages(1))))
    }

    /// Reads a window, cut to the object. Returns false where all of it is in memory, in flight, or past the
    /// end.
    pub fn read(&mut self, window: PageSpan, marker: Option<PageIndex>) -> bool {
        let range = Span::new(window.start, window.end.min(self.end));
        let demand = self.missing() && range.contains(self.touch.page);
        if range.is_empty() || !(demand || range.iter().any(|page| !self.here(page))) {
            return false;
        }
        self.demanded |= demand;
        self.out.push(Ahead { range, marker: marker.filter(|page| range.contains(*page)), demand });
        true
    }

    fn here(&self, page: PageIndex) -> bool {
        page == self.touch.page || self.view.cached(page)
    }

    /// Reads a missing page alone if no window holds it.
    fn finish(mut self) {
        if self.missing() {
            self.read(Span::at(self.touch.page, Pages(1)), None);
        }
    }
}
