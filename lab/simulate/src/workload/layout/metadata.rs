//! The places of inodes, directories and indirect blocks: what a kernel reads before it can read a file.
//!
//! The places are pages of the whole device, which is how a kernel of ext3 or ext4 caches them.
//!
//! Limits: a directory is a list of entries of 32 bytes in the order in which they were made, without an index.
//! The root is in memory, and all directories are its children but are placed as if they were below the first
//! of them. In an aged file system each slot of an inode table is used at random, with the probability of its
//! blocks. Extents of ext4 always fit into the inode.

use crate::program::FileNumber;
use foreseek_units::{PageIndex, PageSpan, Pages};
use std::collections::BTreeMap;

/// Entries of a block of a directory: 8 bytes and a name of some 20 letters each, rounded up.
pub(super) const ENTRIES: u64 = 4096 / 32;

/// The file system whose rules hold for metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Inodes of 128 bytes in each group, read a block at a time; indirect blocks.
    Ext3,
    /// Inodes of 256 bytes; 16 groups keep their tables together in the first of them (`flex_bg`); 32 blocks
    /// are read at a time (`inode_readahead_blks`); extents instead of indirect blocks.
    Ext4,
}

impl FileSystem {
    pub(super) fn inodes_of_a_block(self) -> u64 {
        match self {
            Self::Ext3 => 32,
            Self::Ext4 => 16,
        }
    }

    /// Groups whose metadata lie together.
    pub(super) fn flex(self) -> u64 {
        match self {
            Self::Ext3 => 1,
            Self::Ext4 => 16,
        }
    }

    pub(super) fn has_indirect(self) -> bool {
        self == Self::Ext3
    }

    fn inode_ahead(self) -> u64 {
        match self {
            Self::Ext3 => 1,
            Self::Ext4 => 32,
        }
    }
}

/// An inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Its number: inodes are placed in the order of their numbers.
    pub number: u64,
    /// The page that holds it.
    pub page: PageIndex,
}

/// A directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Its inode.
    pub inode: Inode,
    /// Its blocks, in order.
    pub blocks: Vec<PageIndex>,
}

/// The indirect blocks of a file's pages from one on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    from: PageIndex,
    /// From the one in the inode downwards.
    chain: Vec<PageIndex>,
}

/// The metadata of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Of {
    inode: Inode,
    directory: u32,
    /// The index of the directory's block that names it.
    entry: usize,
    mapped: Vec<Mapped>,
}

/// All metadata of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    system: FileSystem,
    /// Pages of the device.
    pages: Pages,
    files: Vec<Of>,
    directories: BTreeMap<u32, Directory>,
    /// The tables of inodes, ascending.
    tables: Vec<PageSpan>,
}

impl Metadata {
    pub(super) fn new(system: FileSystem, pages: Pages, tables: Vec<PageSpan>) -> Self {
        Self { system, pages, files: Vec::new(), directories: BTreeMap::new(), tables }
    }

    pub(super) fn file(&mut self, inode: Inode, directory: u32, entry: u64) {
        let entry = (entry / ENTRIES) as usize;
        self.files.push(Of { inode, directory, entry, mapped: Vec::new() });
    }

    pub(super) fn directories(&mut self, directories: BTreeMap<u32, Directory>) {
        self.directories = directories;
    }

    /// The last file has new indirect blocks, which map its pages from one on.
    pub(super) fn indirect(&mut self, from: u64, blocks: &[u64]) {
        let Some(file) = self.files.last_mut() else { return };
        let pages = blocks.iter().map(|block| PageIndex(*block));
        // A single new leaf hangs below the same blocks as the one before it.
        let above = file.mapped.last().map_or(&[][..], |last| &last.chain[..last.chain.len() - 1]);
        let chain = match blocks.len() {
            1 => above.iter().copied().chain(pages).collect(),
            _ => pages.collect(),
        };
        file.mapped.push(Mapped { from: PageIndex(from), chain });
    }

    /// The device's pages.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The pages that are read to open a file by its name: the inode of its directory, the block that names it,
    /// its inode. Empty for a file that does not exist.
    #[must_use]
    pub fn path(&self, file: FileNumber) -> Vec<PageIndex> {
        let Some(of) = self.files.get(file.0 as usize) else { return Vec::new() };
        let directory = self.directories.get(&of.directory);
        let named = directory.and_then(|directory| directory.blocks.get(of.entry));
        let above = directory.map(|directory| directory.inode.page).into_iter().chain(named.copied());
        above.chain([of.inode.page]).collect()
    }

    /// A file's inode and its directory.
    #[must_use]
    pub fn inode(&self, file: FileNumber) -> Option<(Inode, u32)> {
        self.files.get(file.0 as usize).map(|of| (of.inode, of.directory))
    }

    /// All directories by their numbers.
    #[must_use]
    pub fn all_directories(&self) -> &BTreeMap<u32, Directory> {
        &self.directories
    }

    /// The pages that are read to list a directory: its inode, its blocks.
    #[must_use]
    pub fn listing(&self, directory: u32) -> Vec<PageIndex> {
        let Some(Directory { inode, blocks }) = self.directories.get(&directory) else { return Vec::new() };
        std::iter::once(inode.page).chain(blocks.iter().copied()).collect()
    }

    /// The indirect blocks of a page of a file, from the top down.
    #[must_use]
    pub fn mapping(&self, file: FileNumber, page: PageIndex) -> &[PageIndex] {
        let Some(of) = self.files.get(file.0 as usize) else { return &[] };
        let after = of.mapped.partition_point(|mapped| mapped.from <= page);
        after.checked_sub(1).map_or(&[], |at| &of.mapped[at].chain)
    }

    /// How many pages of an inode table are read together.
    #[must_use]
    pub fn read_together(&self) -> Pages {
        Pages(self.system.inode_ahead())
    }

    /// The pages that are read with a page of metadata: its neighbours in an inode table.
    #[must_use]
    pub fn around(&self, page: PageIndex) -> PageSpan {
        let after = self.tables.partition_point(|table| table.start <= page);
        let table = after.checked_sub(1).map(|at| self.tables[at]).filter(|table| page < table.end);
        let Some(table) = table else { return PageSpan::at(page, Pages(1)) };
        let ahead = self.system.inode_ahead();
        let start = PageIndex(page.get() / ahead * ahead);
        PageSpan::at(start, Pages(ahead)).intersection(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_hang_below_the_double_indirect_block_that_came_with_the_first_of_them() {
        let mut metadata = Metadata::new(FileSystem::Ext3, Pages(1000), Vec::new());
        metadata.file(Inode { number: 1, page: PageIndex(5) }, 0, 0);
        metadata.indirect(12, &[100]);
        metadata.indirect(1036, &[200, 201]);
        metadata.indirect(2060, &[300]);
        let chain = |page| -> Vec<u64> {
            metadata.mapping(FileNumber(0), PageIndex(page)).iter().map(|block| block.get()).collect()
        };
        assert_eq!(chain(11), [0; 0]);
        assert_eq!(chain(12), [100]);
        assert_eq!(chain(1035), [100]);
        assert_eq!(chain(1036), [200, 201]);
        assert_eq!(chain(2060), [200, 300]);
    }

    #[test]
    fn neighbours_are_read_within_an_inode_table_alone() {
        let table = PageSpan::new(PageIndex(40), PageIndex(100));
        let around = |system, page| {
            let metadata = Metadata::new(system, Pages(1000), vec![table]);
            let span = metadata.around(PageIndex(page));
            (span.start.get(), span.end.get())
        };
        assert_eq!(around(FileSystem::Ext4, 45), (40, 64));
        assert_eq!(around(FileSystem::Ext4, 64), (64, 96));
        assert_eq!(around(FileSystem::Ext4, 97), (96, 100));
        assert_eq!(around(FileSystem::Ext4, 100), (100, 101));
        assert_eq!(around(FileSystem::Ext3, 45), (45, 46));
    }
}
