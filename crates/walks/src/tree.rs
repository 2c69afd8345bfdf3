//! The known directories, and their entries.
//!
//! 40 bytes an entry: [`Item`] and its positions in two permutations, by inode number and by name; names
//! themselves are not stored. A file that was placed, and neither used nor passed, takes a [`Pieces`] in
//! addition, 24 bytes and 24 an extent.

use crate::order::{By, Order, Orders};
use crate::shares::{bound_for, share_left};
use crate::{Entry, InodeReads, Kind, Node};
use foreseek_seam::{Extent, ProcessId};
use foreseek_units::{Bytes, Lba, PageIndex, Pages};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The most known directories of all users; one gets 65,536. The measured tree of 30,000 files has 2,542; some 400
/// bytes each, 32 MiB.
pub(crate) const DIRECTORIES_LIMIT: u64 = bound_for(1 << 16);
/// The most known entries; one user gets 1,048,576, which take 40 MiB.
pub(crate) const ENTRIES_LIMIT: u64 = bound_for(1 << 20);
/// The most nested directories that are followed: paths of 4,096 bytes hold 2,048 names.
pub(crate) const DEPTH_LIMIT: usize = 2048;
/// The most directories, from the present one up to the top, that are looked at or reported on the way up.
pub(crate) const CHAIN_LIMIT: usize = 64;
/// Opens that are remembered of a directory before it is listed.
pub(crate) const EARLY_LIMIT: usize = 64;
/// Extents of a file that are stored: only so much of a file with more is read. A bound on memory; on aged file
/// systems one file in thousands has more.
pub(crate) const EXTENTS_LIMIT: usize = 16;

/// The state of an entry.
pub(crate) mod flag {
    /// A program opened it.
    pub(crate) const OPENED: u16 = 1;
    /// Its inode is in memory: a program looked it up, it was fetched, or it was there when it was listed.
    pub(crate) const INODE_IN: u16 = 1 << 1;
    /// Its inode is in flight, or was fetched.
    pub(crate) const INODE_ASKED: u16 = 1 << 2;
    /// A fetched inode was used.
    pub(crate) const INODE_USED: u16 = 1 << 3;
    /// Its address was requested.
    pub(crate) const PLACE_ASKED: u16 = 1 << 4;
    /// Its address was reported.
    pub(crate) const PLACED: u16 = 1 << 5;
    /// Its contents, or its blocks, were fetched or are in flight.
    pub(crate) const FETCHED: u16 = 1 << 6;
    /// The walk passed it.
    pub(crate) const PASSED: u16 = 1 << 7;
    /// A program looked it up.
    pub(crate) const LOOKED: u16 = 1 << 8;
    /// All that is to be fetched of it was in memory when it was placed.
    pub(crate) const RESIDENT: u16 = 1 << 9;
    /// A fetch of its inode, its contents or its blocks is under way.
    pub(crate) const IN_FLIGHT: u16 = 1 << 10;
    /// Of a file: not all that is missing is to be fetched.
    pub(crate) const PART: u16 = 1 << 11;
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) inode: u64,
    inode_at: u64,
    inode_rank: u32,
    name_rank: u32,
    pub(crate) pieces: u32,
    pub(crate) flags: u16,
    /// Of a file. Of a directory, its number of blocks; 0 while that is not known.
    pub(crate) class: u8,
    pub(crate) kind: Kind,
}

/// Directories of this many blocks, 8,000 names and more, are not listed ahead if their blocks have no known
/// address.
pub(crate) const BLOCKS_LIMIT: u64 = u8::MAX as u64;

/// No [`Pieces`].
pub(crate) const NO_PIECES: u32 = u32::MAX;

impl Item {
    /// The address of its inode.
    pub(crate) fn inode_at(&self) -> Option<Lba> {
        (self.inode_at != u64::MAX).then_some(Lba(self.inode_at))
    }

    /// Whether any of these is set.
    pub(crate) fn is(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Sets a flag, and returns whether it was not set before.
    pub(crate) fn set(&mut self, flag: u16) -> bool {
        let new = self.flags & flag == 0;
        self.flags |= flag;
        new
    }

    /// Its address is to be asked for again.
    pub(crate) fn forget_place(&mut self) {
        self.flags &= !(flag::PLACED | flag::PLACE_ASKED | flag::RESIDENT | flag::PART);
    }

    /// The blocks of a directory, at most [`BLOCKS_LIMIT`]: at least as many as listing it reads.
    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.class.max(1))
    }

    /// Sets the number of blocks of a directory.
    pub(crate) fn set_blocks(&mut self, blocks: Pages) {
        self.class = u8::try_from(blocks.get()).unwrap_or(u8::MAX);
    }

    fn rank(&self, at: u32, by: By) -> u32 {
        match by {
            By::Listing => at,
            By::Inode => self.inode_rank,
            By::Name => self.name_rank,
        }
    }
}

/// The parts of a file that are not in memory and have an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces(pub(crate) Box<[Extent]>);

impl Pieces {
    /// The parts of these extents before a byte of the file.
    pub(crate) fn of(extents: &[Extent], limit: Bytes) -> Self {
        let end = PageIndex(limit.pages_ceil().get());
        let within = extents.iter().take(EXTENTS_LIMIT).filter(|it| it.page < end && !it.pages.is_zero());
        let cut = within.map(|it| Extent { pages: it.pages.min(end - it.page), ..*it });
        Self(cut.collect())
    }

    /// Their size.
    pub(crate) fn bytes(&self) -> Bytes {
        bytes_of(&self.0)
    }

    /// Whether they are all that is missing.
    pub(crate) fn are_all_of(&self, missing: &[Extent]) -> bool {
        self.bytes() == bytes_of(missing)
    }
}

fn bytes_of(extents: &[Extent]) -> Bytes {
    extents.iter().map(|it| it.pages).sum::<Pages>().bytes()
}

/// How far the opens of a directory's files have reached in each order.
#[derive(Clone, Copy, Debug)]
struct Reach {
    least: [u32; 3],
    most: [u32; 3],
}

impl Default for Reach {
    fn default() -> Self {
        Self { least: [u32::MAX; 3], most: [0; 3] }
    }
}

/// Whether a directory's entries are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Not requested.
    None,
    /// Requested.
    Asked,
    /// Known.
    Known,
    /// It cannot be listed.
    Never,
}

/// How a program comes to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// It opened the directory, to list it.
    Opened,
    /// It has a list of files, and opened one there or below.
    Entered,
    /// It opened directories below. Whether it has listed this one is not known: what it listed is in memory.
    FromBelow,
}

/// A directory. A [`Key`] always finds the same one.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) node: Node,
    pub(crate) parent: Option<Node>,
    /// The user for which it is known.
    pub(crate) user: Option<u32>,
    /// The slot of its walk.
    pub(crate) walk: u32,
    pub(crate) listing: Listing,
    pub(crate) reported: bool,
    /// A round waits for its listing.
    pub(crate) awaited: bool,
    /// The most blocks that may be read for its listing, if that is under way without knowing where they lie.
    pub(crate) unplaced: Option<u64>,
    /// Files may have been opened in it without a report.
    pub(crate) unseen: bool,
    /// A program came to it.
    pub(crate) opened: bool,
    /// How. Unless a program has opened it to list it, a listing may read from the device.
    pub(crate) visit: Visit,
    /// If it cannot be listed at present, that may change.
    pub(crate) may_ask_again: bool,
    /// Its walk's clock from which on a listing may be requested again.
    pub(crate) list_from: u64,
    /// The last process that opened it.
    pub(crate) opener: Option<ProcessId>,
    /// Its place among the directories that programs opened.
    pub(crate) rank: u64,
    /// Files that were opened in it, and that it lists.
    pub(crate) files: u32,
    listed_files: u32,
    /// Listed files, and listed subdirectories, that no program has opened.
    unopened: [u32; 2],
    /// Its walk's clock at the last open of a file.
    pub(crate) touched: u64,
    pub(crate) items: Vec<Item>,
    /// What is read for an inode of these.
    pub(crate) inodes: InodeReads,
    by_inode: Vec<u32>,
    by_name: Vec<u32>,
    /// Files opened before it was listed.
    pub(crate) early: Vec<u64>,
    pub(crate) orders: Orders,
    /// The file and the subdirectory opened last.
    last: [Option<u32>; 2],
    reach: Reach,
    /// The same for opened subdirectories.
    below: Reach,
    /// The position up to which entries were marked as passed, in each order and its reverse.
    passed: [[u32; 2]; 3],
    /// All entries were marked as passed.
    all_passed: bool,
}

impl Directory {
    fn new(node: Node, parent: Option<Node>, user: Option<u32>, walk: u32) -> Self {
        Self {
            node,
            parent,
            user,
            walk,
            listing: Listing::None,
            reported: false,
            awaited: false,
            unplaced: None,
            unseen: false,
            opened: false,
            visit: Visit::Opened,
            may_ask_again: false,
            list_from: 0,
            opener: None,
            rank: 0,
            files: 0,
            listed_files: 0,
            unopened: [0; 2],
            touched: 0,
            items: Vec::new(),
            inodes: InodeReads::default(),
            by_inode: Vec::new(),
            by_name: Vec::new(),
            early: Vec::new(),
            orders: Orders::default(),
            last: [None; 2],
            reach: Reach::default(),
            below: Reach::default(),
            passed: [[0; 2]; 3],
            all_passed: false,
        }
    }

    fn list(&mut self, entries: &[Entry<'_>], mut class: impl FnMut(&[u8]) -> u8) {
        let mut by_inode: Vec<u32> = (0..entries.len() as u32).collect();
        let mut by_name = by_inode.clone();
        by_inode.sort_unstable_by_key(|at| (entries[*at as usize].node.inode, *at));
        by_name.sort_unstable_by_key(|at| entries[*at as usize].name);
        let mut class = |entry: &Entry<'_>| if entry.kind == Kind::File { class(entry.name) } else { 0 };
        self.items = entries.iter().map(|entry| item(entry, class(entry))).collect();
        self.listed_files = self.items.iter().filter(|item| item.kind == Kind::File).count() as u32;
        let below = self.items.iter().filter(|item| item.kind == Kind::Directory).count() as u32;
        self.unopened = [self.listed_files, below];
        for (rank, at) in by_inode.iter().enumerate() {
            self.items[*at as usize].inode_rank = rank as u32;
        }
        for (rank, at) in by_name.iter().enumerate() {
            self.items[*at as usize].name_rank = rank as u32;
        }
        (self.by_inode, self.by_name) = (by_inode, by_name);
        (self.reach, self.below) = (Reach::default(), Reach::default());
        self.last = [None; 2];
        (self.passed, self.all_passed) = ([[0; 2]; 3], false);
        self.listing = Listing::Known;
    }

    /// Whether as many files were opened in it as it lists, or it is not listed.
    pub(crate) fn is_read(&self) -> bool {
        self.listing != Listing::Known || self.files >= self.listed_files
    }

    /// Whether each listed file was opened. There is at least one.
    pub(crate) fn is_used_up(&self) -> bool {
        self.listing == Listing::Known && self.unopened[0] == 0 && self.listed_files > 0
    }

    /// How many of its files and subdirectories no program has opened.
    pub(crate) fn unopened(&self) -> u64 {
        self.unopened.iter().copied().map(u64::from).sum()
    }

    /// The entry of an inode.
    pub(crate) fn find(&self, inode: u64) -> Option<u32> {
        let at = self.by_inode.partition_point(|at| self.items[*at as usize].inode < inode);
        let entry = *self.by_inode.get(at)?;
        (self.items[entry as usize].inode == inode).then_some(entry)
    }

    /// The entry at a position of an order.
    pub(crate) fn nth(&self, order: Order, position: usize) -> Option<u32> {
        let position = if order.reversed { self.items.len().checked_sub(position + 1)? } else { position };
        match order.by {
            By::Listing => (position < self.items.len()).then_some(position as u32),
            By::Inode => self.by_inode.get(position).copied(),
            By::Name => self.by_name.get(position).copied(),
        }
    }

    /// Files that were passed, and not fetched, are expected again.
    pub(crate) fn take_back_passed(&mut self) {
        (self.passed, self.all_passed) = ([[0; 2]; 3], false);
        for item in self.items.iter_mut().filter(|item| !item.is(flag::FETCHED)) {
            item.flags &= !flag::PASSED;
        }
    }

    /// The entries up to this position of an order are marked as passed; returns up to where they were before.
    pub(crate) fn pass(&mut self, order: Order, until: usize) -> usize {
        let passed = &mut self.passed[order.by as usize][usize::from(order.reversed)];
        let from = *passed as usize;
        *passed = until.max(from) as u32;
        from
    }

    /// All entries are marked as passed; returns those that may not be.
    pub(crate) fn pass_all(&mut self) -> Range<u32> {
        let all = if self.all_passed { 0 } else { self.items.len() as u32 };
        self.all_passed = true;
        0..all
    }

    /// What was in memory is asked for again. So are inodes that were neither fetched nor used.
    pub(crate) fn forget_residents(&mut self) {
        for item in self.items.iter_mut().filter(|item| !item.is(flag::INODE_ASKED | flag::INODE_USED)) {
            item.flags &= !flag::INODE_IN;
        }
        for item in self.items.iter_mut().filter(|item| item.is(flag::RESIDENT) && !item.is(flag::OPENED)) {
            item.forget_place();
        }
    }

    /// The position of an entry in an order.
    pub(crate) fn position(&self, order: Order, entry: u32) -> usize {
        let rank = self.items[entry as usize].rank(entry, order.by) as usize;
        if order.reversed { self.items.len() - 1 - rank } else { rank }
    }

    /// The position right after the furthest opened file.
    pub(crate) fn reached(&self, order: Order) -> usize {
        reached(&self.reach, order, self.items.len())
    }

    /// The position right after the furthest opened subdirectory.
    pub(crate) fn reached_below(&self, order: Order) -> usize {
        reached(&self.below, order, self.items.len())
    }

    /// An entry that is a directory and was not opened.
    pub(crate) fn skipped(&self, entry: u32) -> Option<Node> {
        let item = self.items.get(entry as usize)?;
        let is_one = item.kind == Kind::Directory && !item.is(flag::OPENED);
        is_one.then_some(Node { device: self.node.device, inode: item.inode })
    }

    /// The first position in an order at which a subdirectory was opened.
    pub(crate) fn first_below(&self, order: Order) -> Option<usize> {
        let at = order.by as usize;
        if self.below.least[at] == u32::MAX {
            return None;
        }
        Some(if order.reversed {
            self.items.len() - 1 - self.below.most[at] as usize
        } else {
            self.below.least[at] as usize
        })
    }

    /// Records that an entry was opened for the first time. Returns its distance from the last opened one of its kind,
    /// in each order.
    pub(crate) fn open(&mut self, entry: u32) -> Option<[i64; 3]> {
        let item = self.items[entry as usize];
        let ranks = [entry, item.inode_rank, item.name_rank];
        let is_directory = item.kind == Kind::Directory;
        if item.kind != Kind::Other {
            self.unopened[usize::from(is_directory)] -= 1;
        }
        let reach = if is_directory { &mut self.below } else { &mut self.reach };
        for (at, rank) in ranks.into_iter().enumerate() {
            reach.least[at] = reach.least[at].min(rank);
            reach.most[at] = reach.most[at].max(rank);
        }
        let last = self.last[usize::from(is_directory)].replace(entry)?;
        let before = self.items[last as usize];
        let before = [last, before.inode_rank, before.name_rank];
        Some([0, 1, 2].map(|at| i64::from(ranks[at]) - i64::from(before[at])))
    }
}

fn reached(reach: &Reach, order: Order, count: usize) -> usize {
    let at = order.by as usize;
    if reach.least[at] == u32::MAX {
        return 0;
    }
    if order.reversed { count - reach.least[at] as usize } else { reach.most[at] as usize + 1 }
}

fn item(entry: &Entry<'_>, class: u8) -> Item {
    Item {
        inode: entry.node.inode,
        inode_at: entry.inode_at.map_or(u64::MAX, Lba::get),
        inode_rank: 0,
        name_rank: 0,
        pieces: NO_PIECES,
        flags: if entry.inode_in_memory { flag::INODE_IN } else { 0 },
        class,
        kind: entry.kind,
    }
}

/// A key to a directory of the table; it finds nothing once that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    at: u32,
    generation: u32,
}

/// Directories and entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    directories: usize,
    entries: usize,
}

/// The table of directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    slots: Vec<(u32, Option<Directory>)>,
    free: Vec<u32>,
    by_node: FxHashMap<Node, Key>,
    entries: usize,
    by_user: FxHashMap<Option<u32>, Counts>,
    pieces: Vec<Pieces>,
    free_pieces: Vec<u32>,
}

impl Tree {
    /// The number of known directories and entries.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.by_node.len(), self.entries)
    }

    fn of_user(&self, user: Option<u32>) -> Counts {
        self.by_user.get(&user).copied().unwrap_or_default()
    }

    /// Changes what is counted for a user.
    fn count(&mut self, user: Option<u32>, change: impl FnOnce(&mut Counts)) {
        let counts = self.by_user.entry(user).or_default();
        change(counts);
        if *counts == Counts::default() {
            self.by_user.remove(&user);
        }
    }

    /// Whether another directory of this user fits.
    pub(crate) fn has_room(&self, user: Option<u32>) -> bool {
        let own = self.of_user(user).directories as u64;
        share_left(own, self.by_node.len() as u64, DIRECTORIES_LIMIT) > 0
    }

    /// How many entries of this user's directories fit besides.
    pub(crate) fn entries_left(&self, user: Option<u32>) -> usize {
        share_left(self.of_user(user).entries as u64, self.entries as u64, ENTRIES_LIMIT) as usize
    }

    /// Adds an unknown directory.
    pub(crate) fn add(&mut self, node: Node, parent: Option<Node>, user: Option<u32>, walk: u32) -> Key {
        let directory = Directory::new(node, parent, user, walk);
        self.count(user, |counts| counts.directories += 1);
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        slot.1 = Some(directory);
        let key = Key { at, generation: slot.0 };
        self.by_node.insert(node, key);
        key
    }

    /// The key of a node.
    pub(crate) fn key(&self, node: Node) -> Option<Key> {
        self.by_node.get(&node).copied()
    }

    /// This directory and those above it, as far as they are known. A damaged file system may have a loop: take some.
    pub(crate) fn upwards(&self, from: Option<Key>) -> impl Iterator<Item = Key> {
        std::iter::successors(from, |key| self.get(*key)?.parent.and_then(|parent| self.key(parent)))
    }

    /// The directory of a key.
    pub(crate) fn get(&self, key: Key) -> Option<&Directory> {
        let (generation, directory) = self.slots.get(key.at as usize)?;
        directory.as_ref().filter(|_| *generation == key.generation)
    }

    /// The directory of a key, mutable.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Directory> {
        let (generation, directory) = self.slots.get_mut(key.at as usize)?;
        directory.as_mut().filter(|_| *generation == key.generation)
    }

    /// An entry.
    pub(crate) fn item(&self, key: Key, entry: u32) -> Option<&Item> {
        self.get(key)?.items.get(entry as usize)
    }

    /// An entry, mutable.
    pub(crate) fn item_mut(&mut self, key: Key, entry: u32) -> Option<&mut Item> {
        self.get_mut(key)?.items.get_mut(entry as usize)
    }

    /// Stores a listing, as much of it as there is room for.
    pub(crate) fn list(&mut self, key: Key, entries: &[Entry<'_>], class: impl FnMut(&[u8]) -> u8) {
        self.unlist(key);
        let Some(user) = self.get(key).map(|directory| directory.user) else { return };
        let entries = &entries[..entries.len().min(self.entries_left(user))];
        let Some(directory) = self.get_mut(key) else { return };
        directory.list(entries, class);
        self.entries += entries.len();
        self.count(user, |counts| counts.entries += entries.len());
    }

    /// Drops the entries of a directory.
    pub(crate) fn unlist(&mut self, key: Key) {
        let Some(directory) = self.get_mut(key) else { return };
        let items = std::mem::take(&mut directory.items);
        (directory.by_inode, directory.by_name) = (Vec::new(), Vec::new());
        (directory.reach, directory.below) = (Reach::default(), Reach::default());
        directory.last = [None; 2];
        (directory.passed, directory.all_passed) = ([[0; 2]; 3], false);
        directory.listing = Listing::None;
        let user = directory.user;
        self.entries -= items.len();
        self.count(user, |counts| counts.entries -= items.len());
        for item in items.iter().filter(|item| item.pieces != NO_PIECES) {
            self.drop_pieces(item.pieces);
        }
    }

    /// Drops a directory.
    pub(crate) fn forget(&mut self, key: Key) -> Option<Node> {
        self.unlist(key);
        let Directory { node, user, .. } = *self.get(key)?;
        self.count(user, |counts| counts.directories -= 1);
        let slot = &mut self.slots[key.at as usize];
        (slot.0, slot.1) = (slot.0.wrapping_add(1), None);
        self.free.push(key.at);
        self.by_node.remove(&node);
        Some(node)
    }

    /// Stores the addresses of a file before a byte of it.
    pub(crate) fn keep_part(&mut self, key: Key, entry: u32, missing: &[Extent], limit: Bytes) {
        let pieces = Pieces::of(missing, limit);
        if let Some(item) = self.item_mut(key, entry).filter(|_| !pieces.are_all_of(missing)) {
            item.set(flag::PART);
        }
        if !pieces.0.is_empty() {
            self.keep_pieces(key, entry, pieces);
        }
    }

    /// Stores the addresses of a file or directory.
    pub(crate) fn keep_pieces(&mut self, key: Key, entry: u32, pieces: Pieces) {
        let Some(item) = self.item(key, entry).copied() else { return };
        if item.pieces != NO_PIECES {
            self.drop_pieces(item.pieces);
        }
        let at = self.free_pieces.pop().unwrap_or_else(|| {
            self.pieces.push(Pieces::default());
            self.pieces.len() as u32 - 1
        });
        self.pieces[at as usize] = pieces;
        if let Some(item) = self.item_mut(key, entry) {
            item.pieces = at;
        }
    }

    /// The stored addresses of a file.
    pub(crate) fn pieces(&self, item: &Item) -> &[Extent] {
        self.pieces.get(item.pieces as usize).map_or(&[], |pieces| &pieces.0)
    }

    /// How much of it was missing.
    pub(crate) fn missing(&self, item: &Item) -> Bytes {
        self.pieces.get(item.pieces as usize).map_or(Bytes::ZERO, Pieces::bytes)
    }

    /// Removes and returns the addresses of a file.
    pub(crate) fn take_pieces(&mut self, key: Key, entry: u32) -> Pieces {
        let Some(item) = self.item_mut(key, entry) else { return Pieces::default() };
        match std::mem::replace(&mut item.pieces, NO_PIECES) {
            NO_PIECES => Pieces::default(),
            at => self.drop_pieces(at),
        }
    }

    fn drop_pieces(&mut self, at: u32) -> Pieces {
        self.free_pieces.push(at);
        std::mem::take(&mut self.pieces[at as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceNo;
    use proptest::prelude::*;

    fn node(inode: u64) -> Node {
        Node { device: DeviceNo(1), inode }
    }

    #[test]
    fn an_entry_is_as_small_as_stated() {
        assert_eq!(size_of::<Item>() + 2 * size_of::<u32>(), 40);
        assert!(size_of::<Directory>() <= 408, "{}", size_of::<Directory>());
    }

    /// Whatever order a program seems to be in from one open to the next, each position is passed once in each.
    #[test]
    fn positions_are_passed_once_in_each_order() {
        let mut directory = Directory::new(node(1), None, None, 0);
        let orders = crate::order::ALL.map(|by| [false, true].map(|reversed| Order { by, reversed }));
        let mut passed = 0;
        for until in 0..1000 {
            for order in orders.as_flattened() {
                passed += until - directory.pass(*order, until);
            }
        }
        assert_eq!(passed, 6 * 999);
        let entries: Vec<Entry<'_>> = (0..9)
            .map(|inode| Entry {
                node: node(inode),
                kind: Kind::File,
                name: b"",
                inode_at: None,
                inode_in_memory: false,
            })
            .collect();
        directory.list(&entries, |_| 0);
        assert_eq!((directory.pass_all(), directory.pass_all()), (0..9, 0..0));
        directory.take_back_passed();
        assert_eq!(directory.pass_all(), 0..9);
    }

    proptest! {
        /// Positions against a brute-force sort.
        #[test]
        fn orders_are_permutations_and_positions_their_inverse(
            names in prop::collection::btree_map("[a-z.]{1,6}", 1..1000u64, 1..60), seed in any::<u64>(),
        ) {
            let mut names: Vec<(String, u64)> = names.into_iter().collect();
            names.sort_by_key(|(name, _)| name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)));
            let entries: Vec<Entry<'_>> = names
                .iter()
                .map(|(name, inode)| Entry { node: node(*inode), kind: Kind::File, name: name.as_bytes(), inode_at: None, inode_in_memory: false })
                .collect();
            let mut tree = Tree::default();
            let key = tree.add(node(0), None, Some(7), 0);
            tree.list(key, &entries, |_| 0);
            let directory = tree.get(key).expect("just added");
            for by in crate::order::ALL {
                for reversed in [false, true] {
                    let order = Order { by, reversed };
                    let listed: Vec<u32> = (0..).map_while(|at| directory.nth(order, at)).collect();
                    let mut naive: Vec<u32> = (0..entries.len() as u32).collect();
                    match by {
                        By::Listing => {}
                        By::Inode => naive.sort_by_key(|at| entries[*at as usize].node.inode),
                        By::Name => naive.sort_by_key(|at| entries[*at as usize].name),
                    }
                    if reversed {
                        naive.reverse();
                    }
                    prop_assert_eq!(&listed, &naive);
                    for (position, entry) in listed.iter().enumerate() {
                        prop_assert_eq!(directory.position(order, *entry), position);
                    }
                }
            }
            for entry in &entries {
                let found = directory.find(entry.node.inode).expect("listed");
                prop_assert_eq!(directory.items[found as usize].inode, entry.node.inode);
            }
            prop_assert_eq!(tree.counts(), (1, entries.len()));
            prop_assert_eq!(tree.of_user(Some(7)), Counts { directories: 1, entries: entries.len() });
            tree.forget(key);
            prop_assert_eq!(tree.counts(), (0, 0));
            prop_assert!(tree.by_user.is_empty());
            prop_assert!(tree.get(key).is_none());
        }
    }
}
