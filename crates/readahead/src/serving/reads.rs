//! Reads that wait for fetches.
//!
//! A read holds all its frames from the moment when it was told: those of pages that are there, and
//! those into which the missing ones come. So nothing that happens to the pages later, be it a change of the
//! object or a shortage of memory, takes them away from under it.

use foreseek_seam::objects::Slot;
use foreseek_seam::{FetchId, FrameId, ObjectId, ProcessId, RequestId, StreamId};
use foreseek_units::{PageIndex, PageSpan, Pages, Span};
use rustc_hash::FxHashMap;

/// Names a waiting read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// A read that was not answered yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: RequestId,
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) object: ObjectId,
    pub(super) who: ProcessId,
    pub(super) pages: PageSpan,
    /// One a page, each held.
    pub(super) frames: Vec<FrameId>,
    /// The fetches that it waits for.
    pub(super) outstanding: u32,
    /// The page after the last one that the object was found to have.
    pub(super) end: PageIndex,
    /// The least length that the object was told to have since the read was.
    pub(super) length: Pages,
    /// Whether it cannot be answered out of the frames that it holds, as something contradicted itself: it is
    /// passed, and they are some and not one a page.
    pub(super) passes: bool,
    /// What of it a fetch of others failed to bring.
    pub(super) failed: Vec<PageSpan>,
    /// The fetch that was made for it alone and failed.
    pub(super) error: Option<FetchId>,
}

impl Waiting {
    /// The frames of some of its pages.
    pub(super) fn frames_of(&self, pages: PageSpan) -> &[FrameId] {
        let at = |page: PageIndex| (page - self.pages.start).get() as usize;
        &self.frames[at(pages.start)..at(pages.end)]
    }

    /// Whether it would be answered with less than the object has: a program takes that for its end.
    pub(super) fn is_cut(&self) -> bool {
        self.end < self.pages.end.min(PageIndex::ZERO + self.length)
    }

    /// Which of some pages this read was to have of a fetch of `range` into `frames`, in rows. A page that was
    /// overtaken by a change before the read was made comes with a fetch of its own, into another frame.
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

/// All of them.
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

    /// A read waits.
    pub(super) fn wait(&mut self, read: Waiting) -> Ticket {
        let ticket = self.next();
        self.next += 1;
        self.waiting.insert(ticket, read);
        ticket
    }

    /// An object has this length from now on.
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
