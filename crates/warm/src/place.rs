//! Where files lie: FIEMAP of every file, asked in the order of inodes by several threads.
//!
//! Nothing is written back for it (`FIEMAP_FLAG_SYNC` is left out). What has no place of its own is
//! left out: holes, preallocated and delayed blocks (those are in memory), inline data (read with
//! the inode), encoded extents (compressed or encrypted: their place is not that of their pages).
//! What is in memory already is left out as far as this process may know it (`cachestat`: root, the
//! owner, whoever may write). A file with several links is placed once.
//!
//! Where the file system tells no places a file is one piece, ordered by its inode.
//!
//! Memory: 32 bytes a piece; an unfragmented file is one piece.
//!
//! Limits: of a file with more than [`EXTENTS_A_FILE`] extents the rest is one piece that follows
//! the last extent, holes included.

use crate::tree::{File, Tree};
use crate::trouble::Troubles;
use crate::volume::{By, Volumes};
use crate::{Work, parallel};
use foreseek_storage::{DeviceNumber, HostFd, Layout, Residency};
use foreseek_units::{Bytes, Lba, PageIndex, PageSpan, Pages, SECTORS_PER_PAGE, Sectors, Span};
use rustc_hash::FxHashSet;
use rustix::io::Errno;
use std::os::fd::AsRawFd;

/// How many extents of one file are placed: 128 KiB of memory. A file with more has extents of 4 KiB
/// at most in its first 16 MiB, and the pass over it is long whatever is done.
pub const EXTENTS_A_FILE: usize = 4096;

/// Files that are mapped between two reports of progress.
const REPORTED: usize = 2048;

/// A piece of a file that lies in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file, by its number in the tree.
    pub file: u32,
    /// Which pages.
    pub pages: PageSpan,
    /// The first sector on the disk; `None` where it is not known.
    pub lba: Option<Lba>,
}

/// What is known of the places of a tree's files.
#[derive(Debug, Default)]
pub struct Places {
    /// What has to be read, in no order.
    pub pieces: Vec<Piece>,
    /// The size of each file, by its number in the tree; zero for further links of one.
    pub sizes: Vec<Bytes>,
    /// In memory already.
    pub resident: Bytes,
    /// Neither in memory nor placed: delayed, inline or encoded, and holes.
    pub placeless: Bytes,
    /// Further links of files.
    pub links: u64,
    /// Files with more extents than are placed.
    pub cut_short: u64,
    /// Whether the residency of some file could not be known.
    pub residency_unknown: bool,
    /// Files that could not be looked at.
    pub troubles: Troubles,
}

/// What one file told.
struct Mapped {
    device: DeviceNumber,
    inode: u64,
    links: bool,
    size: Bytes,
    resident: Pages,
    residency_known: bool,
    layout: Result<Layout, Errno>,
    /// The pages of the file that have to be read, where it told no places.
    missing: Vec<PageSpan>,
}

/// Whether pages that are in memory already are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// They need not be read.
    LeftOut,
    /// Only the place matters.
    Kept,
}

impl Places {
    /// Finds the places of all files of a tree. Volumes that tell no places become known as such.
    pub fn of(tree: &mut Tree, cached: Cached, work: &Work<'_>) -> Self {
        let mut places = Self { sizes: vec![Bytes::ZERO; tree.files().len()], ..Self::default() };
        let mut order: Vec<u32> = (0..tree.files().len() as u32).collect();
        order.sort_unstable_by_key(|index| {
            let file = &tree.files()[*index as usize];
            (file.volume, file.inode)
        });
        let mut seen: FxHashSet<(DeviceNumber, u64)> = FxHashSet::default();
        for (number, part) in order.chunks(REPORTED).enumerate() {
            let share = (number * REPORTED) as f64 / order.len() as f64;
            work.tell(share, &format!("finding the places of {} files", order.len()));
            let shared: &Tree = tree;
            let mapped =
                parallel::map(part, work.stop, |index| map(shared, &shared.files()[*index as usize], cached));
            for (index, mapped) in part.iter().zip(mapped) {
                match mapped {
                    Err(cause) => {
                        let path = tree.path(&tree.files()[*index as usize]);
                        places.troubles.add("open", &path, cause);
                    }
                    Ok(mapped)
                        if cached == Cached::LeftOut
                            && mapped.links
                            && !seen.insert((mapped.device, mapped.inode)) =>
                    {
                        places.links += 1
                    }
                    Ok(mapped) => {
                        let volume = tree.files()[*index as usize].volume;
                        places.add(*index, volume, mapped, &mut tree.volumes);
                    }
                }
            }
        }
        places
    }

    fn add(&mut self, file: u32, volume: u16, mapped: Mapped, volumes: &mut Volumes) {
        if let Some(size) = self.sizes.get_mut(file as usize) {
            *size = mapped.size;
        }
        self.resident += mapped.resident.bytes();
        self.residency_unknown |= !mapped.residency_known;
        let about = volumes.get(volume);
        let start = about.backing.start;
        match mapped.layout {
            Ok(layout) if about.by == By::Place => {
                self.cut_short += u64::from(layout.cut_short);
                let before = self.pieces.len();
                self.place(file, &layout, &mapped.missing, start, mapped.size);
                let placed: Pages = self.pieces[before..].iter().map(|piece| piece.pages.len()).sum();
                let known = placed + mapped.resident;
                self.placeless += (mapped.size.pages_ceil() - known).bytes();
            }
            Ok(_) | Err(_) if matches!(about.by, By::Memory | By::Nothing) => {}
            Ok(_) | Err(_) => {
                // Any other error is that of one file.
                let never = [Errno::OPNOTSUPP, Errno::NOTTY, Errno::INVAL, Errno::NOSYS];
                if mapped.layout.is_err_and(|error| never.contains(&error)) {
                    volumes.tells_no_places(volume);
                }
                let pieces = mapped.missing.iter().map(|pages| Piece { file, pages: *pages, lba: None });
                self.pieces.extend(pieces);
            }
        }
    }

    /// The missing pages of a file, by its extents.
    fn place(&mut self, file: u32, layout: &Layout, missing: &[PageSpan], start: Sectors, size: Bytes) {
        let end = PageIndex(size.pages_ceil().get());
        let mut rest = None;
        for extent in &layout.extents {
            let pages = PageSpan::at(extent.page, extent.pages);
            for run in missing.iter().map(|run| run.intersection(pages)).filter(|run| !run.is_empty()) {
                let lba = extent.lba + start + (run.start - extent.page).sectors();
                self.pieces.push(Piece { file, pages: run, lba: Some(lba) });
            }
            rest = Some((pages.end, extent.lba + start + Sectors(extent.pages.get() * SECTORS_PER_PAGE)));
        }
        if let (true, Some((from, lba))) = (layout.cut_short, rest) {
            let beyond = Span::new(from, end.max(from));
            let runs = missing.iter().map(|run| run.intersection(beyond)).filter(|run| !run.is_empty());
            self.pieces.extend(runs.map(|pages| Piece { file, pages, lba: Some(lba) }));
        }
    }
}

fn map(tree: &Tree, file: &File, cached: Cached) -> Result<Mapped, Errno> {
    let (fd, stat) = tree.open(file)?;
    let host = HostFd::new(fd.as_raw_fd()).ok_or(Errno::BADF)?;
    let size = Bytes(u64::try_from(stat.st_size).unwrap_or(0));
    let whole = PageSpan::at(PageIndex::ZERO, size.pages_ceil());
    let mut resident = Vec::new();
    let residency_known = match cached {
        Cached::Kept => true,
        Cached::LeftOut => whole.is_empty() || Residency::of(host).runs(host, whole, &mut resident),
    };
    let missing = missing(whole, &resident);
    let by_place = tree.volumes.get(file.volume).by == By::Place;
    // For an order the first extent is enough.
    let limit = if cached == Cached::Kept { 1 } else { EXTENTS_A_FILE };
    let layout = if by_place && !missing.is_empty() {
        Layout::exactly(host, Sectors::ZERO, limit)
    } else {
        Ok(Layout::default())
    };
    Ok(Mapped {
        device: DeviceNumber::from_raw(stat.st_dev),
        inode: stat.st_ino,
        links: stat.st_nlink > 1,
        size,
        resident: resident.iter().map(|run| run.len()).sum(),
        residency_known,
        layout,
        missing,
    })
}

/// What of a range is in none of the runs, which ascend.
fn missing(whole: PageSpan, resident: &[PageSpan]) -> Vec<PageSpan> {
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
    use foreseek_storage::Layout;
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> PageSpan {
        Span::new(PageIndex(start), PageIndex(end))
    }

    proptest! {
        #[test]
        fn what_is_missing_and_what_is_there_make_the_whole(
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
    fn a_file_is_cut_by_its_extents_and_by_what_is_missing() {
        let extent = |page, pages, lba| foreseek_storage::Extent {
            page: PageIndex(page),
            pages: Pages(pages),
            lba: Lba(lba),
        };
        let layout = Layout { extents: vec![extent(0, 4, 800), extent(8, 2, 80)], cut_short: true };
        let mut places = Places::default();
        places.place(7, &layout, &[span(1, 3), span(9, 14)], Sectors(1000), Bytes(4096 * 12));
        let piece = |start, end, lba| Piece { file: 7, pages: span(start, end), lba: Some(Lba(lba)) };
        // The hole between the extents is nothing to read; what follows the last follows it.
        assert_eq!(places.pieces, [piece(1, 3, 1808), piece(9, 10, 1088), piece(10, 12, 1096)]);
    }
}
