//! The least time in which a disk reads what a program needs: one ascending pass by direct I/O over contents,
//! directories and, on ext4, blocks of inodes. Ranges that lie less than a gap apart are read in one request. Programs
//! that compare files need the beginnings of those that have the size of another one.
//!
//! It is no strict lower bound: a drive's scheduler could order rotations better. No prefetching can be
//! expected to reach it, since a tree must be listed before it is known what to read.

use super::program::Contents;
use super::tree::each_below;
use crate::{Error, Result};
use foreseek_places::{Metadata, Volumes, blocks_of_directory};
use foreseek_rig::{DirectReader, Interrupt, extents_of};
use foreseek_seam::Extent;
use foreseek_storage::DeviceNumber;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Pages};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The largest gap that is read: that takes less time than another command.
const GAP: Bytes = Bytes::kib(64);
/// What jdupes and fclones read of a file at least, to compare it: a page.
const BEGINNING: Pages = Pages(1);
/// The longest request.
const REQUEST: Bytes = Bytes::mib(1);

/// The ranges of one pass, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    spans: Vec<ByteSpan>,
}

impl Pass {
    /// A pass over a tree on a mounted file system, with what a program needs of the contents.
    pub(crate) fn over(root: &Path, contents: Contents) -> Result<Self> {
        let needed = Needed::of(root, contents)?;
        let mut spans = Vec::new();
        let (mut volumes, mut metadata) = (Volumes::default(), Metadata::default());
        let top = open(root)?;
        each_below(root, &mut |path, found| {
            let device = DeviceNumber::from_raw(found.dev());
            let index = volumes.index_of(top.as_fd(), device);
            if metadata.reads(index, volumes.get(index)) {
                spans.extend(metadata.address_of(index, found.ino()));
            }
            if found.is_dir() {
                spans.extend(blocks_of_directory(open(path)?.as_fd()));
            } else if found.is_file() && !needed.of_file(found.len()).is_zero() {
                spans.extend(beginning(&extents_of(path)?, needed.of_file(found.len())));
            }
            Ok(())
        })?;
        Ok(Self { spans: merged(spans) })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.spans.iter().map(|span| span.len()).sum()
    }

    /// Makes it and returns its time.
    pub(crate) fn time(&self, device: &Path, interrupt: &Interrupt) -> Result<Duration> {
        let mut disk = DirectReader::open(device, REQUEST)?;
        let start = Instant::now();
        for span in &self.spans {
            interrupt.check()?;
            let mut at = span.start.get();
            while at < span.end.get() {
                let read = disk.read(ByteOffset(at), Bytes(span.end.get() - at))?;
                if read.is_zero() {
                    break;
                }
                at += read.get();
            }
        }
        Ok(start.elapsed())
    }
}

/// How much of each file a program needs.
struct Needed {
    contents: Contents,
    /// How many files have a size, for programs to which that matters.
    files: BTreeMap<u64, usize>,
}

impl Needed {
    fn of(root: &Path, contents: Contents) -> Result<Self> {
        let mut files = BTreeMap::new();
        if contents == Contents::OfEqualSizes {
            each_below(root, &mut |_, found| {
                *files.entry(found.len()).or_default() += usize::from(found.is_file());
                Ok(())
            })?;
        }
        Ok(Self { contents, files })
    }

    /// The first pages of a file of this size.
    fn of_file(&self, size: u64) -> Pages {
        match self.contents {
            Contents::All if size > 0 => Pages(u64::MAX),
            Contents::OfEqualSizes if size > 0 && self.files.get(&size) > Some(&1) => BEGINNING,
            _ => Pages::ZERO,
        }
    }
}

/// The ranges of the first pages of a file.
fn beginning(extents: &[Extent], pages: Pages) -> impl Iterator<Item = ByteSpan> {
    extents.iter().filter_map(move |extent| {
        let within = pages.saturating_sub(Pages(extent.page.0)).min(extent.pages);
        (!within.is_zero()).then(|| ByteSpan::at(extent.lba.offset(), within.bytes()))
    })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::io("cannot open", path.display(), error))
}

/// In order, with ranges that are close together merged.
fn merged(mut spans: Vec<ByteSpan>) -> Vec<ByteSpan> {
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let mut merged: Vec<ByteSpan> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= ByteOffset(last.end.get() + GAP.get()) => {
                last.end = last.end.max(span.end)
            }
            _ => merged.push(span),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{Lba, PageIndex};

    #[test]
    fn what_lies_close_is_read_in_one_and_nothing_is_read_twice() {
        let at = |kib: u64, length: u64| ByteSpan::at(ByteOffset(kib << 10), Bytes::kib(length));
        let spans = merged(vec![at(1000, 8), at(0, 4), at(4, 4), at(40, 4), at(0, 16), at(200, 4)]);
        assert_eq!(spans, [at(0, 44), at(200, 4), at(1000, 8)]);
    }

    #[test]
    fn of_files_to_be_compared_the_beginnings_of_those_of_equal_size_are_needed() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, size) in [("a", 9000), ("b", 9000), ("c", 9001), ("d", 0), ("e", 0)] {
            std::fs::write(folder.path().join(name), vec![1; size]).expect("written");
        }
        let pages = |contents| {
            let needed = Needed::of(folder.path(), contents).expect("listed");
            [9000, 9001, 0].map(|size| needed.of_file(size).0)
        };
        assert_eq!(pages(Contents::OfEqualSizes), [1, 0, 0]);
        assert_eq!(pages(Contents::None), [0; 3]);
        assert_eq!(pages(Contents::All), [u64::MAX, u64::MAX, 0]);
        let extent =
            |page, pages, sector| Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(sector) };
        let (extents, at) = ([extent(0, 2, 80), extent(2, 5, 800)], |kib: u64, length: u64| {
            ByteSpan::at(ByteOffset(kib << 10), Bytes::kib(length))
        });
        let first = |pages| beginning(&extents, Pages(pages)).collect::<Vec<_>>();
        assert_eq!(first(0), []);
        assert_eq!(first(1), [at(40, 4)]);
        assert_eq!(first(3), [at(40, 8), at(400, 4)]);
        assert_eq!(first(u64::MAX), [at(40, 8), at(400, 20)]);
    }
}
