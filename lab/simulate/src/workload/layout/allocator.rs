//! The allocator of ext2: the groups of directories and files, and their blocks.

use super::group::{BLOCKS, Group};
use super::metadata::{Directory, ENTRIES, FileSystem, Inode};
use super::settings::{Aging, LayoutSettings};
use foreseek_units::{PageIndex, PageSpan, Pages};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp};
use std::collections::BTreeMap;

/// Inodes of a group, and blocks of their table: `mke2fs` of 2003 to 2006 made an inode of 128 bytes for each 8
/// KiB. For ext4 it makes one of 256 bytes for each 16 KiB: a table of the same length.
const INODES: u64 = BLOCKS * 4096 / 8192;
const INODE_TABLE: u64 = INODES * 128 / 4096;
/// Bytes of a group descriptor.
const DESCRIPTOR: u64 = 32;
/// Blocks of a journal: `mke2fs` made one of 32 MiB on a file system of more than 1 GiB; it and its
/// indirect blocks come first in the first group.
const JOURNAL: u64 = 8192 + 9;
/// Below this size (1 GiB) the journal has 4096 blocks.
const JOURNAL_FULL_FROM: u64 = 32_768 * 8;
/// The root's block and the four blocks of `lost+found`.
const ROOT: u64 = 5;
/// A last group with fewer blocks than its metadata and this is left out, as `mke2fs` does.
const GROUP_LEAST: u64 = 50;
/// Reserved inodes of a file system (`EXT2_GOOD_OLD_FIRST_INO` less one).
const INODES_RESERVED: u64 = 10;

/// A directory that has been made.
struct NewDirectory {
    group: usize,
    inode: u64,
    /// Files in it.
    entries: u64,
    places: Directory,
}

/// A file that has been made.
pub(super) struct NewFile {
    /// Where the search for its first block begins.
    pub(super) goal: u64,
    pub(super) inode: Inode,
    /// How many files its directory had before it.
    pub(super) entry: u64,
}

pub(super) struct Allocator {
    groups: Vec<Group>,
    colour: u64,
    directories: BTreeMap<u32, NewDirectory>,
    /// The file system whose metadata are to be known.
    system: Option<FileSystem>,
    /// The share of used slots of an inode table, if they are not used in order.
    inodes_used: f64,
    /// Inodes of a group.
    inodes: u64,
    free_blocks: u64,
    free_inodes: u64,
}

impl Allocator {
    /// A file system of this many blocks; `None` if they are too few for one.
    pub(super) fn new(blocks: u64, settings: &LayoutSettings, random: &mut dyn Rng) -> Option<Self> {
        let count = blocks.div_ceil(BLOCKS);
        let descriptors = (count * DESCRIPTOR).div_ceil(4096);
        let mut groups: Vec<Group> = Vec::new();
        let inodes = match settings.metadata {
            Some(system) => INODE_TABLE * system.inodes_of_a_block(),
            None => INODES,
        };
        for number in 0..count {
            let end = (blocks - number * BLOCKS).min(BLOCKS);
            let head = if has_super(number) { 1 + descriptors } else { 0 };
            // With flex_bg the first of some groups has the bitmaps and tables of all of them.
            let flex = settings.metadata.map_or(1, FileSystem::flex);
            let here = if number % flex == 0 { flex.min(count - number) } else { 0 };
            let metadata = head + here * (2 + INODE_TABLE);
            if end < metadata + GROUP_LEAST {
                break;
            }
            groups.push(Group::new(metadata, end, inodes));
        }
        let first = groups.first_mut()?;
        let journal = match settings.journal {
            false => 0,
            true if blocks > JOURNAL_FULL_FROM => JOURNAL,
            true => JOURNAL / 2,
        };
        let taken = (ROOT + journal).min(first.free_blocks);
        first.mark(first.first(), taken);
        first.free_inodes -= INODES_RESERVED;
        if let Some(aging) = settings.aging {
            groups.iter_mut().for_each(|group| age(group, aging, random));
        }
        let (free_blocks, free_inodes) =
            (groups.iter().map(|g| g.free_blocks).sum(), groups.iter().map(|g| g.free_inodes).sum());
        let colour = u64::from(settings.colour) * (BLOCKS / 16);
        let inodes_used =
            settings.aging.filter(|_| settings.metadata.is_some()).map_or(0.0, |aging| aging.used);
        Some(Self {
            groups,
            colour,
            directories: BTreeMap::new(),
            system: settings.metadata,
            inodes_used,
            inodes,
            free_blocks,
            free_inodes,
        })
    }

    /// Makes a file in a directory (and the directory with its first file): returns where the search for its
    /// first block begins, and its metadata. `None` if there is no room.
    pub(super) fn file(&mut self, directory: u32, random: &mut dyn Rng) -> Option<NewFile> {
        let known = self.directories.get(&directory).map(|made| (made.group, made.inode));
        let (parent, inode) = match known {
            Some(known) => known,
            None => self.directory(directory, random)?,
        };
        let entry = self.entry(directory)?;
        let group = self.group_of_file(parent, inode)?;
        let inode = self.inode(group, random);
        Some(NewFile { goal: group as u64 * BLOCKS + self.colour, inode, entry })
    }

    /// Whether a file's run is interrupted by indirect blocks.
    pub(super) fn has_indirect(&self) -> bool {
        self.system.is_none_or(FileSystem::has_indirect)
    }

    /// The tables of inodes, ascending.
    pub(super) fn tables(&self, system: FileSystem) -> Vec<PageSpan> {
        let all = 0..self.groups.len() as u64;
        all.map(|group| PageSpan::at(self.table(system, group), Pages(INODE_TABLE))).collect()
    }

    /// The directories that have been made.
    pub(super) fn directories(self) -> BTreeMap<u32, Directory> {
        self.directories.into_iter().map(|(number, made)| (number, made.places)).collect()
    }

    /// The beginning of a group's table of inodes.
    fn table(&self, system: FileSystem, group: u64) -> PageIndex {
        let flex = system.flex();
        let first = group / flex * flex;
        let together = flex.min(self.groups.len() as u64 - first);
        // The metadata of the first group end with the tables.
        let end = first * BLOCKS + self.groups[first as usize].first();
        PageIndex(end - (together - group % flex) * INODE_TABLE)
    }

    /// Takes an inode of a group.
    fn inode(&mut self, group: usize, random: &mut dyn Rng) -> Inode {
        let mut slot = self.inodes - self.groups[group].free_inodes;
        // Slots that older files use are skipped.
        while self.inodes_used > 0.0
            && self.groups[group].free_inodes > 1
            && random.random::<f64>() < self.inodes_used
        {
            self.groups[group].free_inodes -= 1;
            self.free_inodes -= 1;
            slot += 1;
        }
        self.groups[group].free_inodes -= 1;
        self.free_inodes -= 1;
        let Some(system) = self.system else { return Inode::default() };
        let page = self.table(system, group as u64) + Pages(slot / system.inodes_of_a_block());
        Inode { number: group as u64 * self.inodes + slot + 1, page }
    }

    /// Adds an entry to a directory; returns how many it had. Its blocks grow if metadata are to be known.
    fn entry(&mut self, directory: u32) -> Option<u64> {
        let made = self.directories.get_mut(&directory)?;
        let entry = made.entries;
        made.entries += 1;
        let goal = made.places.blocks.last().map(|block| block.get() + 1);
        if self.system.is_some() && entry > 0 && entry.is_multiple_of(ENTRIES) {
            let (block, _) = self.take(goal?, 1)?;
            self.directories.get_mut(&directory)?.places.blocks.push(PageIndex(block));
        }
        Some(entry)
    }

    /// Takes up to `want` blocks in one run, as near behind `goal` as the kernel finds them: returns their
    /// start and their number. `None` if nothing is free.
    pub(super) fn take(&mut self, goal: u64, want: u64) -> Option<(u64, u64)> {
        let total = self.groups.len();
        let goal = if goal >= total as u64 * BLOCKS { 0 } else { goal };
        let first = (goal / BLOCKS) as usize;
        // The goal's group from the goal on, then each further one, and finally this one again.
        for turn in 0..=total {
            let number = (first + turn) % total;
            let within = if turn == 0 { goal % BLOCKS } else { 0 };
            let group = &mut self.groups[number];
            if group.free_blocks == 0 {
                continue;
            }
            if let Some((start, got)) = group.grab(within, want) {
                self.free_blocks -= got;
                return Some((number as u64 * BLOCKS + start, got));
            }
        }
        None
    }

    /// Orlov's rule for a directory below another: its parent's group, or the first after it whose free space
    /// is at most a quarter below the average.
    fn group_below(&self, parent: usize) -> Option<usize> {
        let total = self.groups.len();
        let inodes = (self.free_inodes / total as u64).saturating_sub(self.inodes / 4);
        let blocks = (self.free_blocks / total as u64).saturating_sub(BLOCKS / 4);
        let roomy = |group: &Group| {
            group.free_inodes > 0 && group.free_inodes >= inodes && group.free_blocks >= blocks
        };
        (0..total).map(|step| (parent + step) % total).find(|number| roomy(&self.groups[*number]))
    }

    /// Orlov's rule for a child of the root (`find_group_orlov`). If metadata are to be known, all directories
    /// but the first lie below it, as in a tree.
    fn directory(&mut self, directory: u32, random: &mut dyn Rng) -> Option<(usize, u64)> {
        let total = self.groups.len();
        let start = random.random_range(0..total);
        let (average_inodes, average_blocks) =
            (self.free_inodes / total as u64, self.free_blocks / total as u64);
        let order = (0..total).map(|step| (start + step) % total);
        let roomy = |group: &Group| {
            group.free_inodes > 0
                && group.free_inodes >= average_inodes
                && group.free_blocks >= average_blocks
        };
        let top = self.directories.values().next().filter(|_| self.system.is_some()).map(|top| top.group);
        let below = top.and_then(|top| self.group_below(top));
        // The first of those with the fewest directories: `min_by_key` keeps the first of equals.
        let spread = || {
            order
                .clone()
                .filter(|&number| roomy(&self.groups[number]))
                .min_by_key(|&number| self.groups[number].directories)
                .or_else(|| order.clone().find(|&number| self.groups[number].free_inodes > 0))
        };
        let best = below.or_else(spread)?;
        let group = &mut self.groups[best];
        let inode = best as u64 * self.inodes + (self.inodes - group.free_inodes) + 1;
        group.directories += 1;
        let made = self.inode(best, random);
        let (block, _) = self.take(best as u64 * BLOCKS + self.colour, 1)?;
        let places = Directory { inode: made, blocks: vec![PageIndex(block)] };
        self.directories.insert(directory, NewDirectory { group: best, inode, entries: 0, places });
        Some((best, inode))
    }

    /// The group of a file's inode (`find_group_other`): the directory's own, then by quadratic
    /// hashing, then any.
    fn group_of_file(&self, parent: usize, inode: u64) -> Option<usize> {
        let total = self.groups.len();
        let roomy =
            |number: &usize| self.groups[*number].free_inodes > 0 && self.groups[*number].free_blocks > 0;
        let mut hashed = (parent as u64 + inode) as usize % total;
        let probes = (0..).map(|power| 1usize << power).take_while(|step| *step < total).map(|step| {
            hashed = (hashed + step) % total;
            hashed
        });
        let linear = (0..total).map(|step| (parent + step) % total);
        std::iter::once(parent)
            .chain(probes)
            .find(roomy)
            .or_else(|| linear.clone().find(|&number| self.groups[number].free_inodes > 0))
    }
}

/// Whether a group begins with a superblock: the first two and the powers of 3, 5 and 7.
fn has_super(group: u64) -> bool {
    group <= 1 || [3, 5, 7].iter().any(|base| power_of(group, *base))
}

fn power_of(mut number: u64, base: u64) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

/// Fills a group with older files: exponentially distributed runs, used and free in turn.
fn age(group: &mut Group, aging: Aging, random: &mut dyn Rng) {
    if aging.used <= 0.0 {
        return;
    }
    let free_run = aging.free_run.get() as f64;
    let used_run = free_run * aging.used / (1.0 - aging.used);
    let mut at = group.end() - group.free_blocks;
    let mut used = random.random::<f64>() < aging.used;
    // The ends of runs are real numbers, so that runs of less than a block keep their share.
    let mut exact = at as f64;
    while at < group.end() {
        let mean = if used { used_run } else { free_run };
        exact += Exp::new(1.0 / mean).map_or(mean, |lengths| lengths.sample(random));
        let next = (exact.round() as u64).clamp(at, group.end());
        if used {
            group.mark(at, next - at);
        }
        at = next;
        used = !used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_are_sparse() {
        let with: Vec<u64> = (0..130).filter(|group| has_super(*group)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }
}
