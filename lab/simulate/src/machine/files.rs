//! The files: their extents on the device and their pages in memory.
//!
//! The page table of a file is a flat array of 4 bytes a page: nothing is hashed to find a page, and the zeroed
//! parts of an array that no process has touched take no memory. 24 GB of files need 24 MB.

use super::names::FrameNo;
use foreseek_seam::Extent;
use foreseek_units::{Bytes, Lba, PageIndex, Pages};

/// A page's entry in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageEntry {
    /// Neither in memory nor in flight.
    Absent,
    /// Evicted before its first use: it was read ahead for this opening of the file.
    Evicted(u32),
    /// In this frame, or in flight to it.
    Held(FrameNo),
}

/// Set in the word of a page that was evicted before its first use.
const EVICTED: u32 = 1 << 31;

/// The mask of the number of an opening, beside [`EVICTED`]; then counting begins again.
pub(super) const OPENINGS: u32 = EVICTED - 1;

impl PageEntry {
    fn of(word: u32) -> Self {
        match word {
            0 => Self::Absent,
            _ if word & EVICTED != 0 => Self::Evicted(word & !EVICTED),
            _ => Self::Held(FrameNo(word - 1)),
        }
    }

    fn word(self) -> u32 {
        match self {
            Self::Absent => 0,
            Self::Evicted(opening) => EVICTED | opening,
            Self::Held(frame) => frame.0 + 1,
        }
    }
}

/// A file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) length: Bytes,
    /// Ascending and disjoint.
    extents: Vec<Extent>,
    table: Vec<u32>,
    /// Pages from here on have never been written: a write of a part of one does not read it first.
    pub(super) written_end: PageIndex,
    /// Dirty pages, ascending.
    pub(super) dirty: std::collections::BTreeSet<u32>,
    /// How many are being written.
    pub(super) writing: Pages,
}

impl File {
    pub(super) fn new(length: Bytes, extents: Vec<Extent>) -> Self {
        Self {
            length,
            extents,
            table: Vec::new(),
            written_end: PageIndex(length.pages_ceil().get()),
            dirty: std::collections::BTreeSet::new(),
            writing: Pages::ZERO,
        }
    }

    pub(super) fn pages(&self) -> Pages {
        self.length.pages_ceil()
    }

    pub(super) fn entry(&self, page: PageIndex) -> PageEntry {
        self.table.get(page.get() as usize).map_or(PageEntry::Absent, |word| PageEntry::of(*word))
    }

    pub(super) fn cached(&self, page: PageIndex) -> bool {
        matches!(self.entry(page), PageEntry::Held(_))
    }

    pub(super) fn set(&mut self, page: PageIndex, entry: PageEntry) {
        let at = page.get() as usize;
        if at >= self.table.len() {
            // At once for the whole file: the allocator gives zeroed memory, which is used page by page.
            let pages = (self.pages().get() as usize).max(at + 1);
            if self.table.is_empty() {
                self.table = vec![0; pages];
            } else {
                self.table.resize(pages, 0);
            }
        }
        self.table[at] = entry.word();
    }

    /// The address of a page, and the number of contiguous pages from it on.
    pub(super) fn address(&self, page: PageIndex) -> Option<(Lba, Pages)> {
        let after = self.extents.partition_point(|extent| extent.page <= page);
        let extent = self.extents.get(after.checked_sub(1)?)?;
        let into = page - extent.page;
        (into < extent.pages).then(|| (extent.lba + into.sectors(), extent.pages - into))
    }

    /// Its extents, ascending.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The first page without an address.
    pub(super) fn mapped_end(&self) -> PageIndex {
        self.extents.last().map_or(PageIndex::ZERO, |extent| extent.page + extent.pages)
    }

    /// Adds an extent at the end.
    pub(super) fn extend(&mut self, extent: Extent) {
        self.extents.push(extent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_each_state() {
        for entry in [
            PageEntry::Absent,
            PageEntry::Held(FrameNo(0)),
            PageEntry::Held(FrameNo(9)),
            PageEntry::Evicted(0),
        ] {
            assert_eq!(PageEntry::of(entry.word()), entry);
        }
        assert_eq!(PageEntry::of(PageEntry::Evicted(OPENINGS - 1).word()), PageEntry::Evicted(OPENINGS - 1));
    }

    #[test]
    fn a_place_is_found_in_its_extent_and_nowhere_else() {
        let extent = |page, pages, lba| Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(lba) };
        let file = File::new(Pages(9).bytes(), vec![extent(0, 4, 800), extent(6, 3, 80)]);
        assert_eq!(file.address(PageIndex(1)), Some((Lba(808), Pages(3))));
        assert_eq!(file.address(PageIndex(8)), Some((Lba(96), Pages(1))));
        for page in [4, 5, 9] {
            assert_eq!(file.address(PageIndex(page)), None);
        }
    }
}
