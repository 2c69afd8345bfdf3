//! The disk addresses of one file's missing pages.
//!
//! Nothing is written back for it (`FIEMAP_FLAG_SYNC` is left out). Extents without their own address are
//! left out: holes, preallocated and delayed blocks (those are in memory) and inline data (read with the
//! inode). So are encoded extents (compressed or encrypted): their address is not that of their pages. Pages
//! in memory are left out as far as this process may know them (`cachestat`: root, the owner, a process with
//! write permission).
//!
//! Limits: of a file with more than [`EXTENTS_PER_FILE`] extents the rest is one piece that follows the last
//! extent, holes included.

use foreseek_storage::{HostFd, Layout, Residency};
use foreseek_units::{Bytes, Lba, PageIndex, PageSpan, Pages, SECTORS_PER_PAGE, Sectors, Span};
use rustix::io::Errno;

/// The most extents of one file that are read: 128 KiB of memory. A file with more is so fragmented that the
/// pass over it is long in any case.
pub const EXTENTS_PER_FILE: usize = 4096;

/// Whether pages in memory are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// They are left out, since they need not be read.
    LeftOut,
    /// They are kept: only the address is needed.
    Kept,
}

/// Missing pages that are contiguous on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRun {
    /// The pages.
    pub pages: PageSpan,
    /// Their first sector on the disk.
    pub lba: Lba,
}

/// The missing pages of one file.
#[derive(Clone, Debug)]
pub struct Map {
    /// The number of pages in memory.
    pub resident: Pages,
    /// Whether the residency is known.
    pub residency_known: bool,
    /// The pages that are not in memory, as far as known.
    pub missing: Vec<PageSpan>,
    /// The layout of its extents on its partition; empty if no page is missing.
    pub layout: Result<Layout, Errno>,
}

impl Map {
    /// Queries an open file of this size; its addresses only if `by_address`.
    #[must_use]
    pub fn of(fd: HostFd, size: Bytes, by_address: bool, cached: Cached) -> Self {
        let whole = PageSpan::at(PageIndex::ZERO, size.pages_ceil());
        let mut resident = Vec::new();
        let residency_known = match cached {
            Cached::Kept => true,
            Cached::LeftOut => whole.is_empty() || Residency::of(fd).runs(fd, whole, &mut resident),
        };
        let missing = missing(whole, &resident);
        // For an order the first extent is enough.
        let limit = if cached == Cached::Kept { 1 } else { EXTENTS_PER_FILE };
        let layout = if by_address && !missing.is_empty() {
            Layout::exactly(fd, Sectors::ZERO, limit)
        } else {
            Ok(Layout::default())
        };
        Self { resident: resident.iter().map(|run| run.len()).sum(), residency_known, missing, layout }
    }
}

/// The missing pages of a file, split by its extents, on a partition that starts at `start`.
#[must_use]
pub fn placed(layout: &Layout, missing: &[PageSpan], start: Sectors, size: Bytes) -> Vec<DiskRun> {
    let end = PageIndex(size.pages_ceil().get());
    let within =
        |span: PageSpan| missing.iter().map(move |run| run.intersection(span)).filter(|run| !run.is_empty());
    let mut runs = Vec::new();
    let mut rest = None;
    for extent in &layout.extents {
        let pages = PageSpan::at(extent.page, extent.pages);
        runs.extend(within(pages).map(|run| {
            let lba = extent.lba + start + (run.start - extent.page).sectors();
            DiskRun { pages: run, lba }
        }));
        rest = Some((pages.end, extent.lba + start + Sectors(extent.pages.get() * SECTORS_PER_PAGE)));
    }
    if let (true, Some((from, lba))) = (layout.cut_short, rest) {
        let beyond = Span::new(from, end.max(from));
        runs.extend(within(beyond).map(|pages| DiskRun { pages, lba }));
    }
    runs
}

/// The parts of a range that are in none of the runs, which are ascending.
#[must_use]
pub fn missing(whole: PageSpan, resident: &[PageSpan]) -> Vec<PageSpan> {
    let mut missing = Vec::new();
    let mut rest = whole;
    for run in resident {
        let (before, after) = rest.split(run.start);
        missing.push(before);
        rest = after.split(run.end).1;
    }
    missing.push(rest);
    missing.retain(|run| !run.is_empty());
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> PageSpan {
        Span::new(PageIndex(start), PageIndex(end))
    }

    proptest! {
        #[test]
        fn missing_and_resident_pages_make_the_whole(
            length in 0..60u64, cuts in prop::collection::btree_set(0..60u64, 0..12),
        ) {
            let cuts: Vec<u64> = cuts.into_iter().filter(|cut| *cut < length).collect();
            let resident: Vec<_> = cuts.chunks_exact(2).map(|two| span(two[0], two[1])).collect();
            let whole = span(0, length);
            let missing = missing(whole, &resident);
            for page in whole.iter() {
                let there = resident.iter().any(|run| run.contains(page));
                prop_assert_eq!(missing.iter().any(|run| run.contains(page)), !there);
            }
        }
    }

    #[test]
    fn a_file_is_split_by_its_extents_and_missing_pages() {
        let extent = |page, pages, lba| foreseek_storage::Extent {
            page: PageIndex(page),
            pages: Pages(pages),
            lba: Lba(lba),
        };
        let layout = Layout { extents: vec![extent(0, 4, 800), extent(8, 2, 80)], cut_short: true };
        let runs = placed(&layout, &[span(1, 3), span(9, 14)], Sectors(1000), Bytes(4096 * 12));
        let run = |start, end, lba| DiskRun { pages: span(start, end), lba: Lba(lba) };
        // The hole between the extents is not read; the pages after the last extent follow it.
        assert_eq!(runs, [run(1, 3, 1808), run(9, 10, 1088), run(10, 12, 1096)]);
    }
}
