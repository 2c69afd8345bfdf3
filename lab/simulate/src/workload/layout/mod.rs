//! The places of files on a device: the block groups of ext2 and ext3.
//!
//! [`Layout::place`] does what `mkfs` and one process that copies the files in order would do, with the
//! allocator of Linux 2.6.3 to 2.6.18 (`fs/ext2/balloc.c`, `ialloc.c`, `inode.c`; ext3 differs in its journal
//! and, with one writer, in nothing else that matters here):
//!
//! - Blocks have 4 KiB, and a group is what one block of bitmap covers: 32,768 blocks or 128 MiB. Its metadata
//!   lie at its start: in some groups a superblock and the group descriptors (`sparse_super`), in all of them
//!   two bitmaps and the table of inodes.
//! - A directory's group follows Orlov's rule for children of the root: from a random group on, the first of
//!   those with the fewest directories that has no less than the average of free inodes and blocks. All of a
//!   workload's directories count as children of the root.
//! - A file's inode lies in its directory's group while that has room, then in groups found by hashing. The
//!   search for its first block begins at the group's start (plus the `colour` that the kernel makes of the
//!   writer's process id), that for each later one after the one before it.
//! - The search for a free block is `grab_block`'s: the goal itself, the rest of its 64 blocks, a free byte of
//!   the bitmap, any free bit; then the same from the start of each further group.
//! - Indirect blocks interrupt a file's run before its block 12, and then every 1024 blocks.
//!
//! [`Aging`] makes a file system that has been in use. [`Metadata`] has the places of inodes, directories and
//! indirect blocks, if [`LayoutSettings::metadata`] asks for them; otherwise no directory grows beyond its
//! first block. Limits: directories are not nested; files are not written at the same time, which would
//! interleave their blocks.

mod allocator;
mod group;
mod metadata;
mod settings;

pub use metadata::{Directory, FileSystem, Inode, Metadata};
pub use settings::{Aging, LayoutSettings};

use super::WorkloadError;
use crate::program::{FileNumber, FileSpec};
use allocator::Allocator;
use foreseek_seam::Extent;
use foreseek_units::{Bytes, Lba, PageIndex, Pages, Sectors};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Data blocks that an inode points at directly (`EXT2_NDIR_BLOCKS`).
const DIRECT: u64 = 12;
/// Block numbers in an indirect block of 4 KiB.
const FAN: u64 = 1024;
/// The most blocks of a file system: numbers of 32 bits, as ext2 and ext3 have them (16 TiB). On a larger
/// device it is on the first part.
const BLOCKS_LIMIT: u64 = (1 << 32) - 1;

/// The places of a workload's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    extents: Vec<Extent>,
    /// Where each file's extents begin in `extents`; one more at the end.
    starts: Vec<usize>,
    metadata: Option<Metadata>,
}

impl Layout {
    /// Places files, in the order in which they are copied, on a device of this capacity.
    ///
    /// # Errors
    /// The files do not fit, the device is too small for a file system, or a setting is out of its range.
    pub fn place(
        files: &[FileSpec],
        capacity: Sectors,
        settings: &LayoutSettings,
    ) -> Result<Self, WorkloadError> {
        check(settings)?;
        if settings.raw {
            return Self::without_file_system(files, capacity);
        }
        let blocks = capacity.bytes().pages_floor().get().min(BLOCKS_LIMIT);
        let mut random = Pcg64Mcg::seed_from_u64(settings.seed);
        let mut allocator = Allocator::new(blocks, settings, &mut random)
            .ok_or(WorkloadError::DeviceTooSmall { capacity: capacity.bytes() })?;
        let metadata =
            settings.metadata.map(|system| Metadata::new(system, Pages(blocks), allocator.tables(system)));
        let mut layout = Self { extents: Vec::new(), starts: vec![0], metadata };
        for (number, file) in files.iter().enumerate() {
            let placed = layout.place_one(file, &mut allocator, &mut random);
            placed.ok_or_else(|| no_room(number, files, capacity))?;
            layout.starts.push(layout.extents.len());
        }
        if let Some(metadata) = &mut layout.metadata {
            metadata.directories(allocator.directories());
        }
        Ok(layout)
    }

    /// Files one behind the other, each in one piece.
    fn without_file_system(files: &[FileSpec], capacity: Sectors) -> Result<Self, WorkloadError> {
        let mut layout = Self { extents: Vec::new(), starts: vec![0], metadata: None };
        let mut lba = Lba::ZERO;
        for (number, file) in files.iter().enumerate() {
            let pages = file.length.pages_ceil();
            if lba.get() + pages.sectors().get() > capacity.get() {
                return Err(no_room(number, files, capacity));
            }
            layout.extents.push(Extent { page: PageIndex::ZERO, pages, lba });
            layout.starts.push(layout.extents.len());
            lba += pages.sectors();
        }
        Ok(layout)
    }

    /// The extents of a file, ascending; a page of the file is a block of the file system. Empty for an empty
    /// file and for one that the workload does not have.
    #[must_use]
    pub fn extents(&self, file: FileNumber) -> &[Extent] {
        let at = file.0 as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&start), Some(&end)) => &self.extents[start..end],
            _ => &[],
        }
    }

    /// The places of metadata, if they were asked for.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The number of files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.starts.len() - 1
    }

    fn place_one(&mut self, file: &FileSpec, allocator: &mut Allocator, random: &mut Pcg64Mcg) -> Option<()> {
        let made = allocator.file(file.directory, random)?;
        if let Some(metadata) = &mut self.metadata {
            metadata.file(made.inode, file.directory, made.entry);
        }
        let mut goal = made.goal;
        let indirect = allocator.has_indirect();
        let pages = file.length.pages_ceil().get();
        let mut page = 0;
        while page < pages {
            let mut blocks = Vec::new();
            for _ in 0..if indirect { indirect_before(page) } else { 0 } {
                let (start, got) = allocator.take(goal, 1)?;
                blocks.push(start);
                goal = start + got;
            }
            if let Some(metadata) = self.metadata.as_mut().filter(|_| !blocks.is_empty()) {
                metadata.indirect(page, &blocks);
            }
            let end = if indirect { next_indirect(page).min(pages) } else { pages };
            while page < end {
                let (start, got) = allocator.take(goal, end - page)?;
                self.push(page, start, got);
                page += got;
                goal = start + got;
            }
        }
        Some(())
    }

    /// Appends an extent to the current file, joined with the one before if it continues that.
    fn push(&mut self, page: u64, block: u64, blocks: u64) {
        let file_start = self.starts.last().copied().unwrap_or_default();
        let lba = Lba(Pages(block).sectors().get());
        if let Some(last) = self.extents[file_start..].last_mut()
            && last.lba + last.pages.sectors() == lba
        {
            last.pages += Pages(blocks);
            return;
        }
        self.extents.push(Extent { page: PageIndex(page), pages: Pages(blocks), lba });
    }
}

fn no_room(file: usize, files: &[FileSpec], capacity: Sectors) -> WorkloadError {
    let data = files.iter().map(|file| file.length).sum();
    WorkloadError::NoRoom { file, files: files.len(), data, capacity: capacity.bytes() }
}

fn check(settings: &LayoutSettings) -> Result<(), WorkloadError> {
    let wrong = |name, given: String, reason| Err(WorkloadError::Setting { name, given, reason });
    if settings.colour > 15 {
        return wrong("colour", settings.colour.to_string(), "it must be from 0 to 15");
    }
    match settings.aging {
        Some(aging) if !(0.0..1.0).contains(&aging.used) => {
            wrong("aging.used", aging.used.to_string(), "it must be from 0 to less than 1")
        }
        Some(aging) if aging.free_run.is_zero() => {
            wrong("aging.free_run", "0".to_owned(), "it must be at least one page")
        }
        _ => Ok(()),
    }
}

/// The number of indirect blocks that are allocated just before this block of a file.
fn indirect_before(page: u64) -> u32 {
    let Some(past) = page.checked_sub(DIRECT) else { return 0 };
    let double = FAN;
    let triple = FAN + FAN * FAN;
    match past {
        0 => 1,
        _ if !past.is_multiple_of(FAN) => 0,
        _ if past == double => 2,
        _ if past == triple => 3,
        // Below the triple indirect block each double indirect one covers FAN indirect ones.
        _ if past > triple && (past - triple).is_multiple_of(FAN * FAN) => 2,
        _ => 1,
    }
}

/// The first block after this one with indirect blocks before it.
fn next_indirect(page: u64) -> u64 {
    match page.checked_sub(DIRECT) {
        None => DIRECT,
        Some(past) => DIRECT + (past / FAN + 1) * FAN,
    }
}

/// The least space that the files of a workload need on a device, without metadata.
#[must_use]
pub fn data(files: &[FileSpec]) -> Bytes {
    files.iter().map(|file| file.length.pages_ceil().bytes()).sum()
}

#[cfg(test)]
mod tests;
