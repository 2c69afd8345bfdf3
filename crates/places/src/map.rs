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

use foreseek_storage::{HostFd, Layout, Residency, cachestat};
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
        // For an order the first extent is enough.
        let limit = if cached == Cached::Kept { 1 } else { EXTENTS_PER_FILE };
        let layout = || Layout::exactly(fd, Sectors::ZERO, limit);
        Self::new(whole, &resident, residency_known, by_address.then_some(layout))
    }

    /// The same of the first bytes of a file, those in memory left out. The rest is not examined, however long and scattered
    /// it is: what is in memory of it counts as its beginning, and what is missing of it as one piece behind the last extent.
    #[must_use]
    pub fn of_first(fd: HostFd, size: Bytes, first: Bytes, by_address: bool) -> Self {
        let whole = PageSpan::at(PageIndex::ZERO, size.pages_ceil());
        let (first, rest) = whole.split(PageIndex(first.pages_ceil().get()));
        let mut resident = Vec::new();
        let known = whole.is_empty() || Residency::of(fd).runs(fd, first, &mut resident);
        let held =
            if known { cachestat(fd, rest).unwrap_or(Pages::ZERO).min(rest.len()) } else { Pages::ZERO };
        resident.extend((!held.is_zero()).then(|| PageSpan::at(rest.start, held)));
        let layout = || {
            let of_first = Layout::exactly_of_first(fd, Sectors::ZERO, EXTENTS_PER_FILE, first.len())?;
            Ok(Layout { cut_short: of_first.cut_short || !rest.is_empty(), ..of_first })
        };
        Self::new(whole, &resident, known, by_address.then_some(layout))
    }

    fn new(
        whole: PageSpan,
        resident: &[PageSpan],
        residency_known: bool,
        layout: Option<impl FnOnce() -> Result<Layout, Errno>>,
    ) -> Self {
        let missing = missing(whole, resident);
        let layout = layout.filter(|_| !missing.is_empty()).map_or_else(|| Ok(Layout::default()), |it| it());
        Self { resident: resident.iter().map(|run| run.len()).sum(), residency_known, missing, layout }
    }
}

/// The missing pages of a file, split by its extents, on a partition that starts at `start`. Both ascend and are disjoint.
#[must_use]
pub fn placed(layout: &Layout, missing: &[PageSpan], start: Sectors, size: Bytes) -> Vec<DiskRun> {
    let end = PageIndex(size.pages_ceil().get());
    let mut runs = Vec::new();
    let mut rest = None;
    // Those that end before the extent under way are passed: files have thousands of both.
    let mut left = missing;
    let mut within = |span: PageSpan| {
        left = &left[left.partition_point(|run| run.end <= span.start)..];
        let here = left;
        let reached = here.iter().take_while(move |run| run.start < span.end);
        reached.map(move |run| run.intersection(span)).filter(|run| !run.is_empty())
    };
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

/// Whether so little of what was requested is missing that it may be requested again: at most a sixteenth. Otherwise
/// memory is short.
#[must_use]
pub fn is_little(missing: Bytes, requested: Bytes) -> bool {
    missing <= requested / 16
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use foreseek_storage::{Extent, dont_need};
    use proptest::prelude::*;
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

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

    fn extent(page: u64, pages: u64, lba: u64) -> Extent {
        Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(lba) }
    }

    /// Spans that ascend, with a gap or none between them, from pairs of a gap and a length.
    fn ascending(parts: &[(u64, u64)]) -> Vec<PageSpan> {
        let mut end = 0;
        let next = |(gap, length): &(u64, u64)| {
            let start = end + gap;
            end = start + length;
            span(start, end)
        };
        parts.iter().map(next).collect()
    }

    /// Each missing page by itself: in its extent, or behind the last one.
    fn one_by_one(layout: &Layout, missing: &[PageSpan], end: u64) -> Vec<(PageIndex, Lba)> {
        let last = layout.extents.last();
        let beyond = last.map(|last| last.page + last.pages).filter(|_| layout.cut_short);
        let address = |page: PageIndex| {
            let holds = |it: &&Extent| PageSpan::at(it.page, it.pages).contains(page);
            let known = layout.extents.iter().find(holds).map(|it| it.lba + (page - it.page).sectors());
            known.or_else(|| {
                let last = last.filter(|_| page.get() < end && beyond.is_some_and(|it| it <= page))?;
                let run = missing.iter().find(|run| run.contains(page))?;
                Some(last.lba + last.pages.sectors() + (page - run.start.max(beyond?)).sectors())
            })
        };
        missing.iter().flat_map(|run| run.iter()).filter_map(|page| Some((page, address(page)?))).collect()
    }

    proptest! {
        #[test]
        fn extents_and_missing_pages_meet_as_if_each_page_were_looked_up(
            extents in prop::collection::vec((0..4u64, 1..6u64), 0..12),
            missing in prop::collection::vec((0..4u64, 1..6u64), 0..12),
            cut_short in any::<bool>(),
            end in 0..100u64,
        ) {
            let extents = ascending(&extents);
            let extents = extents.iter().zip(1..).map(|(it, at)| extent(it.start.get(), it.len().get(), at * 1000));
            let layout = Layout { extents: extents.collect(), cut_short };
            let missing = ascending(&missing);
            let runs = placed(&layout, &missing, Sectors::ZERO, Pages(end).bytes());
            let pages = |run: &DiskRun| {
                let DiskRun { pages, lba } = *run;
                pages.iter().map(move |page| (page, lba + (page - pages.start).sectors()))
            };
            prop_assert_eq!(runs.iter().flat_map(pages).collect::<Vec<_>>(), one_by_one(&layout, &missing, end));
            prop_assert!(runs.iter().all(|run| !run.pages.is_empty()));
        }
    }

    /// With a look at each pair of them it takes hours.
    #[test]
    fn scattered_extents_of_a_scattered_file_are_met_in_time() {
        const MANY: u64 = 1 << 20;
        let layout =
            Layout { extents: (0..MANY).map(|n| extent(n * 4, 4, n * 64)).collect(), cut_short: false };
        let missing: Vec<PageSpan> = (0..MANY * 2).map(|n| span(n * 2, n * 2 + 1)).collect();
        let runs = placed(&layout, &missing, Sectors::ZERO, Pages(MANY * 4).bytes());
        assert_eq!(runs.len() as u64, MANY * 2);
        assert_eq!(runs[7], DiskRun { pages: span(14, 15), lba: Lba(3 * 64 + 2 * 8) });
    }

    #[test]
    fn of_a_long_file_no_more_is_examined_than_its_first_part() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = place.path().join("file");
        fs::write(&path, vec![7; 64 * 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.sync_all().unwrap();
        let fd = HostFd::new(file.as_raw_fd()).unwrap();
        let size = Pages(64).bytes();
        dont_need(fd, PageSpan::at(PageIndex(0), Pages(64))).unwrap();
        if cachestat(fd, span(0, 64)) != Ok(Pages::ZERO) {
            return println!("SKIPPED: what is in memory of /var/tmp is not to be seen");
        }
        // Some pages of the rest are in memory, but not its first ones.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        for page in [2, 3, 40, 50, 51] {
            file.read_at(&mut [0], page * 4096).unwrap();
        }
        let first = Pages(16).bytes();
        let map = Map::of_first(fd, size, first, true);
        assert_eq!((map.resident, map.residency_known), (Pages(5), true));
        assert_eq!(map.missing, [span(0, 2), span(4, 16), span(19, 64)]);
        let layout = map.layout.clone().unwrap();
        let known = layout.extents.first().is_some_and(|it| it.page == PageIndex::ZERO);
        assert!(layout.cut_short && (known || layout.extents.is_empty()), "{layout:?}");
        if known {
            let whole = Layout::exactly(fd, Sectors::ZERO, EXTENTS_PER_FILE).unwrap();
            let in_first = |runs: Vec<DiskRun>| -> Vec<DiskRun> {
                runs.into_iter().filter(|run| run.pages.end <= PageIndex(16)).collect()
            };
            let found = placed(&layout, &map.missing, Sectors::ZERO, size);
            assert_eq!(in_first(found.clone()), in_first(placed(&whole, &map.missing, Sectors::ZERO, size)));
            assert_eq!(found.last().map(|run| run.pages.end), Some(PageIndex(64)), "the rest is one piece");
        }
        // A shorter one is examined as a whole.
        let [part, whole] = [Map::of_first(fd, size, size, true), Map::of(fd, size, true, Cached::LeftOut)];
        assert_eq!((part.resident, part.missing), (whole.resident, whole.missing));
        assert_eq!(part.layout, whole.layout);
    }

    #[test]
    fn a_file_is_split_by_its_extents_and_missing_pages() {
        let layout = Layout { extents: vec![extent(0, 4, 800), extent(8, 2, 80)], cut_short: true };
        let runs = placed(&layout, &[span(1, 3), span(9, 14)], Sectors(1000), Bytes(4096 * 12));
        let run = |start, end, lba| DiskRun { pages: span(start, end), lba: Lba(lba) };
        // The hole between the extents is not read; the pages after the last extent follow it.
        assert_eq!(runs, [run(1, 3, 1808), run(9, 10, 1088), run(10, 12, 1096)]);
    }
}
