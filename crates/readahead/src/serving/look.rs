//! A read that arrived, and how its pages were found.

use crate::stream::Found;
use foreseek_seam::objects::Slot;
use foreseek_seam::{FrameId, ProcessId, RequestId, StreamId};
use foreseek_units::{ByteSpan, PageIndex, PageSpan};

/// A read that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRead {
    pub(super) request: RequestId,
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) range: ByteSpan,
    pub(super) pid: ProcessId,
}

/// How a page of a read was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) found: Found,
    pub(super) marker: bool,
    /// Its frame if it is cached, held for the read.
    pub(super) frame: Option<FrameId>,
    /// Whether the read takes it over: it reads the page's last byte.
    pub(super) whole: bool,
}

impl PendingRead {
    pub(super) fn pages(&self) -> PageSpan {
        self.range.pages()
    }
}

/// Whether a page of a read was cached: it is held for the read and may have left the table.
pub(super) fn held(pages: PageSpan, looks: &[Look], page: PageIndex) -> bool {
    pages.contains(page) && looks[(page - pages.start).get() as usize].frame.is_some()
}
