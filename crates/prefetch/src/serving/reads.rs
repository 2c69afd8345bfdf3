//! Reads that wait for fetches.
//!
//! A read holds all its frames from the moment when it was told: those of pages that are there, and
//! those into which the missing ones come. So nothing that happens to the pages later, be it a change of the
//! object or a shortage of memory, takes them away from under it.

use crate::engine::{FetchId, FrameId, ObjectId, RequestId, Who};
use crate::objects::Slot;
use foreseek_units::{PageIndex, PageSpan};
use rustc_hash::FxHashMap;

/// Names a waiting read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// A read that was not answered yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: RequestId,
    pub(super) slot: Slot,
    pub(super) object: ObjectId,
    pub(super) who: Who,
    pub(super) pages: PageSpan,
    /// One a page, each held.
    pub(super) frames: Vec<FrameId>,
    /// The fetches that it waits for.
    pub(super) outstanding: u32,
    /// The page after the last one that the object was found to have.
    pub(super) end: PageIndex,
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
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: FxHashMap<Ticket, Waiting>,
    next: u64,
}

impl Reads {
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

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiting> {
        self.waiting.get_mut(&ticket)
    }

    pub(super) fn end(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.waiting.remove(&ticket)
    }
}
