//! The addresses of files: FIEMAP of every file, in the order of inodes, by several threads.
//!
//! [`foreseek_places::Map`] holds the result for a file. A file with several paths (hard links, bind mounts) is
//! placed once, at the first of them in the order of reading: the program meets it there.
//!
//! If the file system does not report addresses, a file is one piece, or one for each part with data, ordered by
//! its inode.
//!
//! Memory: 32 bytes a piece; an unfragmented file is one piece. 40 bytes a file while they are looked up.
//!
//! Limits: of a file that is mounted over another one the first path is that of its directory entry or of the
//! mount, whichever has the lower inode number. Where inode numbers are not unique (servers of FUSE that give none),
//! files of one number count as one.

use crate::tree::{File, Tree};
use crate::trouble::ReadErrors;
use crate::{Step, Work, parallel};
use foreseek_places::{Cached, Map, OrderBy, Volumes, data_in, placed};
use foreseek_storage::{DeviceNumber, HostFd};
use foreseek_units::{Bytes, Lba, PageSpan, Pages};
use rustc_hash::FxHashSet;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// The most of a file in one piece: a tenth of a second of a disk. What is requested, checked and requested again is
/// counted by pieces.
const PIECE: Pages = Pages(4096);

/// Files that are mapped between two reports of progress.
const REPORTED: usize = 2048;

/// A contiguous piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file, by its number in the tree.
    pub file: u32,
    /// Its pages.
    pub pages: PageSpan,
    /// The first sector on the disk; `None` if it is not known.
    pub lba: Option<Lba>,
}

impl Piece {
    /// A part of it.
    pub(crate) fn part(&self, pages: PageSpan) -> Self {
        let lba = self.lba.map(|lba| lba + (pages.start - self.pages.start).sectors());
        Self { pages, lba, ..*self }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.pages.len().bytes()
    }
}

/// Takes at most `most` of each file, from its start on, in pieces of at most [`PIECE`]. The pieces are grouped by
/// file.
pub(crate) fn cut(pieces: &[Piece], most: Bytes) -> Vec<Piece> {
    let mut taken: Vec<Piece> = Vec::new();
    for of_file in pieces.chunk_by(|a, b| a.file == b.file) {
        let mut left = most.pages_floor();
        for piece in of_file {
            let mut pages = PageSpan::at(piece.pages.start, piece.pages.len().min(left));
            left -= pages.len();
            while !pages.is_empty() {
                let (part, rest) = pages.split(pages.start + PIECE);
                taken.push(piece.part(part));
                pages = rest;
            }
        }
    }
    taken
}

/// The addresses of a tree's files.
#[derive(Debug, Default)]
pub struct TreeAddresses {
    /// The pieces to read, in no order.
    pub pieces: Vec<Piece>,
    /// The size of each file, by its number in the tree; zero for further paths of one.
    pub sizes: Vec<Bytes>,
    /// Bytes of files that are in memory already.
    pub resident: Bytes,
    /// Bytes that are neither in memory nor at an address: delayed, inline or encoded extents, and holes.
    pub unmapped: Bytes,
    /// Files with more extents than are placed.
    pub cut_short: u64,
    /// Whether the residency of a file was not visible.
    pub residency_unknown: bool,
    /// Files that could not be examined.
    pub errors: ReadErrors,
}

/// The result for one file.
struct Mapped {
    device: DeviceNumber,
    inode: u64,
    size: Bytes,
    map: Map,
}

impl TreeAddresses {
    /// Finds the addresses of all files of a tree, given in the order of reading. Marks volumes that do not report
    /// addresses. A file with several paths is placed once, or with each of them if cached pages are
    /// [kept](Cached::Kept).
    pub fn of(tree: &mut Tree, reading: &[u32], cached: Cached, work: &Work<'_>) -> Self {
        let mut places = Self { sizes: vec![Bytes::ZERO; tree.files().len()], ..Self::default() };
        let mut order = reading.to_vec();
        // Paths of one inode stay in the order of reading.
        order.sort_by_key(|index| {
            let file = &tree.files()[*index as usize];
            (file.volume, file.inode)
        });
        let mut seen: FxHashSet<(DeviceNumber, u64)> = FxHashSet::default();
        for (number, part) in order.chunks(REPORTED).enumerate() {
            let share = (number * REPORTED) as f64 / order.len() as f64;
            work.report(Step::Addresses, share, &format!("finding the addresses of {} files", order.len()));
            let shared: &Tree = tree;
            let mapped =
                parallel::map(part, work.stop, |index| map(shared, &shared.files()[*index as usize], cached));
            for (index, mapped) in part.iter().zip(mapped) {
                match mapped {
                    Err(cause) => {
                        let path = tree.path(&tree.files()[*index as usize]);
                        places.errors.add("open", &path, cause);
                    }
                    Ok(mapped)
                        if cached == Cached::LeftOut && !seen.insert((mapped.device, mapped.inode)) => {}
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
        let (size, map) = (mapped.size, mapped.map);
        // Memory holds whole pages, also of a file that ends within one.
        self.resident += map.resident.bytes().min(size);
        self.residency_unknown |= !map.residency_known;
        let about = volumes.get(volume);
        match map.layout {
            Ok(layout) if about.by == OrderBy::Address => {
                self.cut_short += u64::from(layout.cut_short);
                let runs = placed(&layout, &map.missing, about.backing.start, size);
                let known = runs.iter().map(|run| run.pages.len()).sum::<Pages>() + map.resident;
                self.unmapped += (size.pages_ceil() - known).bytes();
                let pieces = runs.into_iter().map(|run| Piece { file, pages: run.pages, lba: Some(run.lba) });
                self.pieces.extend(pieces);
            }
            Ok(_) | Err(_) if matches!(about.by, OrderBy::InMemory | OrderBy::None) => {}
            Ok(_) | Err(_) => {
                // Any other error belongs to one file.
                let never = [Errno::OPNOTSUPP, Errno::NOTTY, Errno::INVAL, Errno::NOSYS];
                if map.layout.is_err_and(|error| never.contains(&error)) {
                    volumes.set_unmapped(volume);
                }
                let unread = map.missing.iter().map(|run| run.len()).sum::<Pages>() + map.resident;
                self.unmapped += (size.pages_ceil() - unread).bytes();
                let pieces = map.missing.iter().map(|pages| Piece { file, pages: *pages, lba: None });
                self.pieces.extend(pieces);
            }
        }
    }
}

fn map(tree: &Tree, file: &File, cached: Cached) -> Result<Mapped, Errno> {
    let (fd, stat) = tree.open(file)?;
    let host = HostFd::new(fd.as_raw_fd()).ok_or(Errno::BADF)?;
    let size = Bytes(u64::try_from(stat.st_size).unwrap_or(0));
    let volume = tree.volumes.get(file.volume);
    let by_address = volume.by == OrderBy::Address;
    let mut map = Map::of(host, size, by_address, cached);
    let has_extents = by_address && map.layout.is_ok();
    if cached == Cached::LeftOut && !has_extents && has_holes(&stat) && volume.shows_holes() {
        map.missing = data_in(fd.as_fd(), &map.missing);
    }
    Ok(Mapped { device: DeviceNumber::from_raw(stat.st_dev), inode: stat.st_ino, size, map })
}

/// Whether a file has fewer blocks than its size needs.
fn has_holes(stat: &Stat) -> bool {
    stat.st_blocks.saturating_mul(512) < stat.st_size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Limits, Reading};
    use crate::{Halt, Progress};
    use foreseek_places::Metadata;
    use foreseek_units::PageIndex;
    use proptest::prelude::*;

    /// The bytes of a file with many links are those of the link that is read first.
    #[test]
    fn a_file_with_several_links_belongs_to_the_first_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |n: usize| folder.path().join(format!("d{}", n * 7 % 10)).join(format!("l{}", n * 31 % 100));
        (0..10).for_each(|n| std::fs::create_dir(folder.path().join(format!("d{n}"))).expect("made"));
        std::fs::write(at(0), [1; 10_000]).expect("written");
        (1..100).for_each(|n| {
            std::fs::hard_link(at(0), at(n)).expect("linked");
            std::fs::write(at(n).with_extension("other"), [1; 10]).expect("written");
        });
        let (stop, progress) = (Halt::default(), |_: Progress<'_>| ());
        let work = Work { stop: &stop, progress: &progress };
        let tree = || {
            Tree::list(&[folder.path().into()], Limits::default(), &mut Metadata::default(), &work)
                .expect("listed")
        };
        let list: Vec<u8> = (0..100)
            .rev()
            .flat_map(|n| [at(n).to_str().expect("text"), "\n"].concat().into_bytes())
            .collect();
        for (mut tree, reading) in [
            (tree(), Reading::Listing),
            (tree(), Reading::Name),
            (tree(), Reading::Inode),
            (Tree::of_list(&list, b'\n', &work).expect("taken"), Reading::Listing),
        ] {
            let order = tree.in_order_of(reading);
            let places = TreeAddresses::of(&mut tree, &order, Cached::LeftOut, &work);
            let is_link = |file: &u32| !tree.path(&tree.files()[*file as usize]).ends_with(b"other");
            let links: Vec<u32> = order.into_iter().filter(is_link).collect();
            let sizes: Vec<Bytes> = links.iter().map(|file| places.sizes[*file as usize]).collect();
            assert_eq!((links.len(), sizes[0]), (100, Bytes(10_000)), "{reading:?}");
            assert!(sizes[1..].iter().all(|size| size.is_zero()), "{reading:?}");
        }
    }

    proptest! {
        /// Of each file the first pages are taken, as many as there are up to the limit, at their addresses.
        #[test]
        fn at_most_the_limit_is_taken_of_each_file_from_its_start_on(
            files in prop::collection::vec(prop::collection::vec((0..3u64, 1..20_000u64), 0..4), 0..6),
            most in 0..80_000_000u64,
        ) {
            let most = Bytes(most);
            let mut pieces = Vec::new();
            for (file, runs) in (0..).zip(&files) {
                let mut at = 0;
                for (gap, length) in runs {
                    let lba = (file != 1).then_some(Lba(1_000_000 - at * 8));
                    let pages = PageSpan::at(PageIndex(at + gap), Pages(*length));
                    pieces.push(Piece { file, pages, lba });
                    at = pages.end.get();
                }
            }
            let taken = cut(&pieces, most);
            prop_assert!(taken.iter().all(|piece| piece.pages.len() <= PIECE && !piece.pages.is_empty()));
            for file in 0..files.len() as u32 {
                let pages = |pieces: &[Piece]| -> Vec<(PageIndex, Option<Lba>)> {
                    let of_file = pieces.iter().filter(|piece| piece.file == file);
                    of_file.flat_map(|piece| piece.pages.iter().map(|page| {
                        (page, piece.lba.map(|lba| lba + (page - piece.pages.start).sectors()))
                    })).collect()
                };
                let (all, taken) = (pages(&pieces), pages(&taken));
                let expected = all.len().min(most.pages_floor().get() as usize);
                prop_assert_eq!(taken, &all[..expected]);
            }
        }
    }
}
