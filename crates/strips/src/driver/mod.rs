//! A block device above an array, without its I/O: requests in, actions out.
//!
//! [`StripDriver`] carries out the commands of the [engine](crate::StripEngine). It knows which frame holds
//! which page, and the order in which requests may go below; its caller moves the bytes.
//!
//! *Reads* are answered out of frames, or below, cut at strips so that each part touches one member.
//! *Changes* (writes and discards) go below whole: if they were cut, an array with parity would read for
//! them. They are acknowledged when the device has made them (write-through).
//!
//! *The rules of changes:*
//!
//! - Overlapping changes reach the device in their order of arrival.
//! - A read that overlaps an earlier change waits until that has ended.
//! - A change that has ended, with success or not, empties its pages before it is answered, and fetches of
//!   them count as failed. An error affects only that request.
//! - An acknowledged change is with the device. A flush therefore goes below at once, without this driver,
//!   and covers everything that was acknowledged before it; FUA is a write followed by a flush.
//!
//! A read is therefore answered with contents that the device had at each of its sectors at some time between
//! the read's arrival and its answer. The tests compare this with a naive device, over all interleavings of
//! small cases.
//!
//! *Frames.* A page has a frame from its fetch until it is dropped. A fetch with holes reads these into spare
//! frames, so that it is one access and overwrites nothing. If no frames are left the fetch fails, and its
//! readers read without the cache. Frames are used first in, first out: a frame that a slow reply still reads
//! is not filled again soon.
//!
//! *Bounds.* As many frames as given; as many requests as its caller has in flight.

#[cfg(test)]
mod model;
mod order;

use crate::command::{Command, Commands};
use crate::engine::StripEngine;
use crate::event::{Event, Outcome};
use crate::geometry::{Geometry, StripNo};
use crate::{Blocks, StripCache};
use foreseek_seam::{FetchId, FrameId, RequestId, Urgency};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, PAGE_SIZE, PageIndex, PageSpan, Pages};
use order::Order;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// An action, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read these pages, which are on one member, into these frames; report the end by
    /// [`StripDriver::fetched`].
    Fetch {
        /// Its id.
        fetch: FetchId,
        /// The pages.
        pages: PageSpan,
        /// A frame for each.
        frames: Vec<FrameId>,
        /// Whether a reader waits.
        urgency: Urgency,
    },
    /// Answer a read out of frames. They must be claimed for reading before the next action is begun.
    Serve {
        /// The read.
        request: RequestId,
        /// The requested bytes.
        range: ByteSpan,
        /// The frames of its pages.
        frames: Vec<FrameId>,
    },
    /// Answer a read with the current contents of the device, read in the parts of [`StripDriver::parts`].
    Pass {
        /// The read.
        request: RequestId,
        /// The requested bytes.
        range: ByteSpan,
    },
    /// Make a change below, whole; report its end by [`StripDriver::changed`].
    Change {
        /// The change.
        request: RequestId,
    },
    /// These frames are empty from now on.
    Empty {
        /// The frames.
        frames: Vec<FrameId>,
    },
}

/// A fetch in flight.
#[derive(Debug)]
struct Fetch {
    strip: StripNo,
    blocks: Blocks,
    /// Frames of the holes.
    spare: Vec<FrameId>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct StripDriver {
    engine: StripEngine,
    geometry: Geometry,
    order: Order,
    /// Reads that are not answered yet.
    reads: FxHashMap<RequestId, ByteSpan>,
    /// The frame of each page that is present or in flight.
    places: FxHashMap<PageIndex, FrameId>,
    fetches: FxHashMap<FetchId, Fetch>,
    free: VecDeque<FrameId>,
    commands: Commands,
}

impl StripDriver {
    /// A driver of an engine for this geometry, with `frames` frames: those that its cache holds, and spare ones for holes.
    #[must_use]
    pub fn new(engine: StripEngine, geometry: Geometry, frames: u32) -> Self {
        let mut places = FxHashMap::default();
        // It must not grow later, when memory may be short.
        places.reserve(frames as usize);
        Self {
            engine,
            geometry,
            order: Order::default(),
            reads: FxHashMap::default(),
            places,
            fetches: FxHashMap::default(),
            free: (0..frames).map(FrameId).collect(),
            commands: Commands::default(),
        }
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &StripCache {
        self.engine.cache()
    }

    /// Pauses prefetching, or resumes it.
    pub fn pause(&mut self, paused: bool) {
        self.engine.pause(paused);
    }

    /// A read arrives.
    pub fn read(&mut self, request: RequestId, range: ByteSpan, actions: &mut Vec<Action>) {
        self.reads.insert(request, range);
        if self.order.read(request, range) {
            self.send(Event::Read { request, pages: range.pages() }, actions);
        }
    }

    /// A write or discard arrives.
    pub fn change(&mut self, request: RequestId, range: ByteSpan, actions: &mut Vec<Action>) {
        if self.order.change(request, range) {
            self.begin_change(request, actions);
        }
    }

    /// A change has ended below, with success or not, or was never started there. It is answered after this.
    pub fn changed(&mut self, request: RequestId, now: Instant, actions: &mut Vec<Action>) {
        let Some((range, free)) = self.order.end(request) else { return };
        self.engine.wide_ends(now);
        self.send(Event::Changed { pages: range.pages() }, actions);
        for request in free {
            if self.order.range(request).is_some() {
                self.begin_change(request, actions);
            } else if let Some(range) = self.reads.get(&request) {
                self.send(Event::Read { request, pages: range.pages() }, actions);
            }
        }
    }

    /// A fetch has ended.
    pub fn fetched(&mut self, fetch: FetchId, outcome: Outcome, actions: &mut Vec<Action>) {
        let Some(Fetch { strip, blocks, spare }) = self.fetches.remove(&fetch) else { return };
        self.free.extend(&spare);
        if !spare.is_empty() {
            actions.push(Action::Empty { frames: spare });
        }
        if outcome == Outcome::Failed {
            self.empty(strip, blocks, actions);
        }
        self.send(Event::Done { fetch, outcome }, actions);
    }

    /// A read below, of a fetch or of a part of a read, has succeeded; see [`StripEngine::took`].
    pub fn took(&mut self, range: ByteSpan, begun: Instant, now: Instant) {
        self.engine.took(range.pages(), begun, now);
    }

    /// A flush goes below. Changes are counted by the driver itself.
    pub fn wide_begins(&mut self) {
        self.engine.wide_begins();
    }

    /// Such a request has ended, with success or not.
    pub fn wide_ends(&mut self, now: Instant) {
        self.engine.wide_ends(now);
    }

    /// A range cut at strips: each part is on one member.
    pub fn parts(&self, range: ByteSpan) -> impl Iterator<Item = ByteSpan> + use<> {
        let (geometry, mut at) = (self.geometry, range.start);
        std::iter::from_fn(move || {
            let page = at.page();
            let left = geometry.strip_pages() - Pages(geometry.block_of(page));
            let end = ByteOffset((page + left).offset().get().min(range.end.get()));
            let part = ByteSpan::new(at, end);
            at = end;
            (!part.is_empty()).then_some(part)
        })
    }

    fn begin_change(&mut self, request: RequestId, actions: &mut Vec<Action>) {
        self.engine.wide_begins();
        actions.push(Action::Change { request });
    }

    fn send(&mut self, event: Event, actions: &mut Vec<Action>) {
        let mut commands = std::mem::take(&mut self.commands);
        let mut refused = VecDeque::new();
        let mut next = Some(event);
        while let Some(event) = next {
            self.engine.on(event, &mut commands);
            for command in commands.drain() {
                refused.extend(self.carry_out(command, actions));
            }
            let fail = |fetch| Event::Done { fetch, outcome: Outcome::Failed };
            next = if self.engine.has_more() { Some(Event::Tick) } else { refused.pop_front().map(fail) };
        }
        self.commands = commands;
    }

    /// Carries a command out; returns a fetch for which there are no frames.
    fn carry_out(&mut self, command: Command, actions: &mut Vec<Action>) -> Option<FetchId> {
        match command {
            Command::Fetch { fetch, strip, blocks, pages, urgency } => {
                if (self.free.len() as u64) < pages.len().get() {
                    return Some(fetch);
                }
                let frames: Vec<FrameId> = self.free.drain(..pages.len().get() as usize).collect();
                let mut spare = Vec::new();
                for (page, frame) in pages.iter().zip(&frames) {
                    if blocks.has(self.geometry.block_of(page)) {
                        self.places.insert(page, *frame);
                    } else {
                        spare.push(*frame);
                    }
                }
                self.fetches.insert(fetch, Fetch { strip, blocks, spare });
                actions.push(Action::Fetch { fetch, pages, frames, urgency });
            }
            Command::Serve { request } => self.serve(request, actions),
            Command::Pass { request } => {
                if let Some(range) = self.reads.remove(&request) {
                    actions.push(Action::Pass { request, range });
                }
            }
            Command::Drop { strip, blocks } => self.empty(strip, blocks, actions),
        }
        None
    }

    fn serve(&mut self, request: RequestId, actions: &mut Vec<Action>) {
        let Some(range) = self.reads.remove(&request) else { return };
        let frames: Option<Vec<FrameId>> =
            range.pages().iter().map(|page| self.places.get(&page).copied()).collect();
        // The engine serves only pages that are present: the other case would cost time and no byte.
        actions.push(match frames {
            Some(frames) => Action::Serve { request, range, frames },
            None => Action::Pass { request, range },
        });
    }

    /// Frees the frames of these blocks.
    fn empty(&mut self, strip: StripNo, blocks: Blocks, actions: &mut Vec<Action>) {
        let pages = blocks.runs().flat_map(|(start, end)| start..end);
        let frames: Vec<FrameId> =
            pages.filter_map(|block| self.places.remove(&self.geometry.page_of(strip, block))).collect();
        self.free.extend(&frames);
        if !frames.is_empty() {
            actions.push(Action::Empty { frames });
        }
    }
}

/// The offset of a range in its first page.
#[must_use]
pub fn skip(range: ByteSpan) -> Bytes {
    Bytes(range.start.get() % PAGE_SIZE)
}
