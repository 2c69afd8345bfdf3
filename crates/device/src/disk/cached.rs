//! The contents of the write cache: ranges, with adjacent ones merged.

use foreseek_units::{SectorSpan, Sectors, Span};

/// The contents of the cache that are not on the media.
#[derive(Clone, Debug, Default)]
pub(super) struct Cached {
    /// Writes in the queue.
    pub(super) requests: usize,
    /// Ranges, each contiguous.
    pub(super) ranges: Vec<SectorSpan>,
    pub(super) sectors: Sectors,
    /// The range that the head is writing.
    pub(super) leaving: Option<SectorSpan>,
}

impl Cached {
    /// Cached writes in the queue.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    pub(super) fn covers(&self, range: SectorSpan) -> bool {
        self.ranges.iter().any(|held| held.covers(range))
    }

    /// The range that a write would extend.
    pub(super) fn adjoining(&self, range: SectorSpan) -> Option<usize> {
        self.ranges.iter().position(|held| held.end == range.start || held.start == range.end)
    }

    pub(super) fn add(&mut self, range: SectorSpan) {
        self.requests += 1;
        self.sectors += range.len();
        match self.adjoining(range) {
            Some(at) => self.ranges[at] = self.ranges[at].hull(range),
            None => self.ranges.push(range),
        }
    }

    pub(super) fn remove(&mut self, range: SectorSpan) {
        self.sectors -= range.len();
        let Some(at) = self.ranges.iter().position(|held| held.covers(range)) else { return };
        let held = self.ranges.swap_remove(at);
        let rest = [Span::new(held.start, range.start), Span::new(range.end, held.end)];
        self.ranges.extend(rest.into_iter().filter(|part| !part.is_empty()));
    }
}
