//! The addresses of files: FIEMAP of every file, in the order of inodes, by several threads.
//!
//! [`foreseek_places::Map`] holds the result for a file. A file with several links is placed once.
//!
//! If the file system does not report addresses, a file is one piece, ordered by its inode.
//!
//! Memory: 32 bytes a piece; an unfragmented file is one piece.

use crate::tree::{File, Tree};
use crate::trouble::ReadErrors;
use crate::{Work, parallel};
use foreseek_places::{Cached, Map, OrderBy, Volumes, placed};
use foreseek_storage::{DeviceNumber, HostFd};
use foreseek_units::{Bytes, Lba, PageSpan, Pages};
use rustc_hash::FxHashSet;
use rustix::io::Errno;
use std::os::fd::AsRawFd;

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

/// The addresses of a tree's files.
#[derive(Debug, Default)]
pub struct TreeAddresses {
    /// The pieces to read, in no order.
    pub pieces: Vec<Piece>,
    /// The size of each file, by its number in the tree; zero for further links of one.
    pub sizes: Vec<Bytes>,
    /// Bytes of files that are in memory already.
    pub resident: Bytes,
    /// Bytes that are neither in memory nor at an address: delayed, inline or encoded extents, and holes.
    pub unmapped: Bytes,
    /// Further links of files.
    pub links: u64,
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
    links: bool,
    size: Bytes,
    map: Map,
}

impl TreeAddresses {
    /// Finds the addresses of all files of a tree. Marks volumes that do not report addresses.
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
            work.report(share, &format!("finding the addresses of {} files", order.len()));
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
    let by_address = tree.volumes.get(file.volume).by == OrderBy::Address;
    Ok(Mapped {
        device: DeviceNumber::from_raw(stat.st_dev),
        inode: stat.st_ino,
        links: stat.st_nlink > 1,
        size,
        map: Map::of(host, size, by_address, cached),
    })
}
