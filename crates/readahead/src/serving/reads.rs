//! Reads that wait for fetches.
//!
//! A read holds all its frames from its arrival: those of cached pages, and those into which the missing ones
//! are fetched. No later event, such as a change of the object or a shortage of memory, can take them away.

use foreseek_seam::objects::Slot;
use foreseek_seam::{FetchId, FrameId, ObjectId, ProcessId, RequestId, StreamId};
use foreseek_units::{PageIndex, PageSpan, Pages, Span};
use rustc_hash::FxHashMap;

/// Names a waiting read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// A read that is not answered yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: RequestId,
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) object: ObjectId,
    pub(super) pid: ProcessId,
    pub(super) pages: PageSpan,
    /// One for each page, held.
    pub(super) frames: Vec<FrameId>,
    /// The number of fetches that it waits for.
    pub(super) outstanding: u32,
    /// The end of the pages that the object was found to have.
    pub(super) end: PageIndex,
    /// The least length that the object has had since the read arrived.
    pub(super) length: Pages,
    /// Whether the read is passed because a check failed. Its frames are then some, and not one for each
    /// page.
    pub(super) passes: bool,
    /// The pages of it that a shared fetch failed to bring.
    pub(super) failed: Vec<PageSpan>,
    /// The fetch for it alone that failed.
    pub(super) error: Option<FetchId>,
}

impl Waiting {
    /// The frames of some of its pages.
    pub(super) fn frames_of(&self, pages: PageSpan) -> &[FrameId] {
        let at = |page: PageIndex| (page - self.pages.start).get() as usize;
        &self.frames[at(pages.start)..at(pages.end)]
    }

    /// Whether it would be answered with less than the object has: a program takes that for the end of the
    /// file.
    pub(super) fn is_cut(&self) -> bool {
        self.end < self.pages.end.min(PageIndex::ZERO + self.length)
    }

    /// The runs of `pages` that this read expected from a fetch of `range` into `frames`. If a change
    /// overtook a page before the read arrived, a fetch of its own brings it, into another frame.
    pub(super) fn lacks(&self, pages: PageSpan, range: PageSpan, frames: &[FrameId]) -> Vec<PageSpan> {
        let pages = pages.intersection(self.pages);
        let (start, mut rows) = (pages.start, Vec::new());
        if pages.is_empty() {
            return rows;
        }
        let at = (start - range.start).get() as usize;
        let theirs = &frames[at..at + pages.len().get() as usize];
        let same: Vec<bool> = self.frames_of(pages).iter().zip(theirs).map(|(own, one)| own == one).collect();
        let mut from = start;
        for row in same.chunk_by(|one, next| one == next) {
            let span = Span::at(from, Pages(row.len() as u64));
            from = span.end;
            rows.extend(row[0].then_some(span));
        }
        rows
    }
}

#[derive(Debug, Default)]
pub(super) struct WaitingReads {
    waiting: FxHashMap<Ticket, Waiting>,
    next: u64,
}

impl WaitingReads {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The ticket of the next read that will wait.
    pub(super) fn next(&self) -> Ticket {
        Ticket(self.next)
    }

    /// Adds a waiting read.
    pub(super) fn wait(&mut self, read: Waiting) -> Ticket {
        let ticket = self.next();
        self.next += 1;
        self.waiting.insert(ticket, read);
        ticket
    }

    /// The length of an object has changed.
    pub(super) fn resized(&mut self, slot: Slot, length: Pages) {
        for read in self.waiting.values_mut().filter(|read| read.slot == slot) {
            read.length = read.length.min(length);
        }
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiting> {
        self.waiting.get_mut(&ticket)
    }

    pub(super) fn end(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.waiting.remove(&ticket)
    }
}
