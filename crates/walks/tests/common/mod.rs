//! Trees on a disk, programs that walk them, and a driver, all in virtual time.
//!
//! The disk serves one request at a time: positioning or reading through, then transfer, as in the bound. Its
//! times are computed here and not taken from the engine. Data that was read stays in memory.
#![allow(dead_code)]

use foreseek_seam::{Extent, ProcessId};
use foreseek_units::{
    Bytes, DeviceCosts, Instant, Lba, Nanos, PageIndex, Pages, Rate, SECTORS_PER_PAGE, Sectors,
};
use foreseek_walks::{
    Command, Commands, DeviceNo, Entered, Entry, Event, InDirectory, InodeFetch, InodeReads, Kind,
    ListCondition, Node, Outcome, Placed, Settings, Walks,
};
use rustc_hash::FxHashSet;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Pseudo-random numbers, the same in each run.
#[derive(Clone)]
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.roll(at as u64 + 1) as usize);
        }
    }
}

/// A disk of 500 GB with one rate and a seek that grows with the root of the distance.
#[derive(Clone, Copy)]
pub(crate) struct Flat;

impl DeviceCosts for Flat {
    fn seek_time(&self, distance: Sectors) -> Nanos {
        if distance.is_zero() {
            return Nanos::ZERO;
        }
        Nanos::from_millis_f64(0.8 + 15.2 * (distance.get() as f64 / 1e9).sqrt())
    }

    fn rate_at(&self, _place: Lba) -> Rate {
        self.mean_rate()
    }

    fn mean_rate(&self) -> Rate {
        Rate::mb_per_second(102.4)
    }

    fn average_seek(&self) -> Nanos {
        Nanos::from_millis(9)
    }

    fn half_rotation(&self) -> Nanos {
        Nanos::from_millis_f64(4.17)
    }

    fn capacity(&self) -> Sectors {
        Sectors(1_000_000_000)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) inode: u64,
    pub(crate) name: String,
    pub(crate) lba: u64,
    pub(crate) pages: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) inode: u64,
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    pub(crate) lba: u64,
    /// Its further blocks, each anywhere.
    pub(crate) more: Vec<u64>,
    pub(crate) files: Vec<File>,
    /// Entries in the order of the listing: files, then directories beyond [`BELOW`].
    pub(crate) listing: Vec<usize>,
    pub(crate) below: Vec<usize>,
}

impl Directory {
    /// The addresses of its blocks.
    fn blocks(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.lba).chain(self.more.iter().copied())
    }

    /// The same as extents.
    fn extents(&self) -> Vec<Extent> {
        let extent = |(at, lba)| Extent { page: PageIndex(at), pages: Pages(1), lba: Lba(lba) };
        (0..).zip(self.blocks()).map(extent).collect()
    }
}

/// From here on an entry of a listing is a subdirectory.
pub(crate) const BELOW: usize = 1 << 32;
/// Extents of a directory that the driver reports.
const REPORTED: usize = 16;
/// Files that are opened until a late listing is answered.
const LATE: u32 = 50;

/// Directories; the first is a top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) directories: Vec<Directory>,
}

/// A directory to list, and when.
type Listed = (Node, ListCondition);

pub(crate) fn node(inode: u64) -> Node {
    Node { device: DeviceNo(1), inode }
}

/// Sectors of a flexible group: 16 groups of 128 MiB, whose tables of inodes lie in front (ext4's flex_bg).
const FLEX: u64 = 16 * (128 << 11);
/// Inodes of a flexible group.
const FLEX_INODES: u64 = 16 * 8192;
/// Sectors of its tables.
const TABLES: u64 = FLEX_INODES / 16 * SECTORS_PER_PAGE;

/// The address of an inode.
pub(crate) fn inode_at(inode: u64) -> u64 {
    inode / FLEX_INODES * FLEX + 2048 + inode % FLEX_INODES / 16 * SECTORS_PER_PAGE
}

/// The address of so many blocks of a table, of which one holds the inode.
fn inode_unit(inode: u64, blocks: Pages) -> u64 {
    let base = inode_at(inode / FLEX_INODES * FLEX_INODES);
    let unit = blocks.sectors().get();
    base + (inode_at(inode) - base) / unit * unit
}

/// The layout of a tree on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Written at once: inodes and contents in the order of creation.
    Fresh,
    /// Inodes and contents anywhere in so many groups of 128 MiB.
    Aged(u64),
    /// The same in 40 groups. Every fourth directory has up to 60 blocks anywhere on the disk.
    Torn,
    /// Directories of a dozen files in turn in four groups of 16 GiB, each with its files, as xfs lays them out,
    /// written one after the other.
    Groups,
    /// The same, with the files of a group written in random order.
    Mixed,
    /// The same, with the blocks of directories anywhere on the disk.
    Scattered,
}

impl Tree {
    /// A tree of about so many files: directories of 1 to 22, each below an earlier one.
    pub(crate) fn new(files: usize, layout: Layout, seed: u64) -> Self {
        let mut dice = Dice(seed);
        if matches!(layout, Layout::Groups | Layout::Mixed | Layout::Scattered) {
            return Self::in_groups(files, layout, &mut dice);
        }
        let mut tree = Self::default();
        let mut made = 0;
        while made < files {
            let count = 1 + dice.roll(22) as usize;
            let parent = match tree.directories.len() {
                0 => None,
                all => Some(dice.roll(all as u64) as usize),
            };
            let at = tree.directories.len();
            let name = format!("d{:04}", dice.roll(10_000));
            let files = (0..count).map(|_| File {
                inode: 0,
                name: format!("f{:05}.{}", dice.roll(100_000), ["c", "h", "txt"][dice.roll(3) as usize]),
                lba: 0,
                pages: 1 + dice.roll(5),
            });
            let files = files.collect();
            tree.directories.push(Directory { name, parent, files, ..Directory::default() });
            if let Some(parent) = parent {
                tree.directories[parent].below.push(at);
            }
            made += count;
        }
        tree.lay_out(layout, &mut dice);
        tree
    }

    fn lay_out(&mut self, layout: Layout, dice: &mut Dice) {
        let total: usize = self.directories.iter().map(|it| it.files.len() + 1).sum();
        let groups = match layout {
            Layout::Fresh => total as u64 / 8192 + 1,
            Layout::Aged(groups) => groups,
            Layout::Torn => 40,
            Layout::Groups | Layout::Mixed | Layout::Scattered => unreachable!(),
        };
        let mut inodes: Vec<u64> = match layout {
            Layout::Fresh => (12..12 + total as u64).collect(),
            _ => {
                let mut all = BTreeSet::new();
                while all.len() < total {
                    all.insert(12 + dice.roll(groups * 8192 - 12));
                }
                all.into_iter().collect()
            }
        };
        if layout != Layout::Fresh {
            dice.shuffle(&mut inodes);
        }
        let mut inodes = inodes.into_iter();
        // Blocks of directories lie in the first group of a flexible group, contents in the others.
        let mut next = [2048 + TABLES, 128 << 11];
        let mut slots: Vec<u64> =
            (1..groups).filter(|it| it % 16 > 0).flat_map(|it| it * 4096..(it + 1) * 4096).collect();
        let flexes = groups.div_ceil(16);
        let mut blocks: Vec<u64> = (0..flexes).flat_map(|it| it * 65_536..it * 65_536 + 4096).collect();
        dice.shuffle(&mut slots);
        dice.shuffle(&mut blocks);
        let (mut slots, mut blocks) = (slots.into_iter(), blocks.into_iter());
        let mut place = |pages: u64, is_directory: bool| match layout {
            Layout::Fresh => {
                let next = &mut next[usize::from(!is_directory)];
                let at = *next;
                *next += pages * SECTORS_PER_PAGE;
                at
            }
            _ if is_directory => {
                let block = blocks.next().expect("enough");
                block / 65_536 * FLEX + 2048 + TABLES + block % 65_536 * SECTORS_PER_PAGE
            }
            _ => slots.next().expect("groups enough") * 64,
        };
        // Directories in the order of a copy, each followed by its subtree.
        let mut order = vec![0];
        let mut created = Vec::new();
        while let Some(at) = order.pop() {
            created.push(at);
            order.extend(self.directories[at].below.iter().rev());
        }
        for at in created {
            let directory = &mut self.directories[at];
            directory.inode = inodes.next().expect("enough");
            directory.lba = place(1, true);
            for file in &mut directory.files {
                file.inode = inodes.next().expect("enough");
                file.lba = place(file.pages, false);
            }
            let below = directory.below.iter().map(|below| BELOW + below);
            directory.listing = (0..directory.files.len()).chain(below).collect();
            dice.shuffle(&mut directory.listing);
            if layout == Layout::Torn && dice.roll(4) == 0 {
                let count = 10 + dice.roll(50);
                let anywhere = |_| (50_000_000 + dice.roll(50_000_000)) * SECTORS_PER_PAGE;
                directory.more = (0..count).map(anywhere).collect();
            }
        }
    }

    /// Ten directories below the top, and the small ones below these.
    fn in_groups(files: usize, layout: Layout, dice: &mut Dice) -> Self {
        const TOPS: usize = 10;
        const EACH: usize = 12;
        let mut tree = Self::default();
        let count = files / EACH;
        // Blocks of directories lie near each other, in any order.
        let mut blocks: Vec<u64> = (0..count as u64 + 20).collect();
        dice.shuffle(&mut blocks);
        let mut next = [(12u64, 0u64); 4];
        let mut place = |group: usize, pages: u64, is_directory: bool| {
            let (inode, contents) = &mut next[group];
            let base = group as u64 * 8 * FLEX + 2048 + TABLES;
            let lba = match is_directory.then(|| blocks.pop()).flatten() {
                Some(block) => base + block * SECTORS_PER_PAGE,
                None => base + (1 << 16) + *contents,
            };
            *contents += if is_directory { 0 } else { pages * SECTORS_PER_PAGE };
            *inode += 1;
            (group as u64 * 8 * FLEX_INODES + *inode, lba)
        };
        for at in 0..=TOPS + count {
            let parent = (at > 0).then(|| if at <= TOPS { 0 } else { 1 + (at - 1 - TOPS) * TOPS / count });
            let (inode, mut lba) = place(at % 4, 1, true);
            if layout == Layout::Scattered {
                lba = dice.roll(100_000_000) * SECTORS_PER_PAGE;
            }
            let each = if at <= TOPS { 0 } else { EACH };
            let name = |dice: &mut Dice| format!("f{:08}", dice.roll(100_000_000));
            let files = (0..each)
                .map(|_| File { inode: 0, name: name(dice), lba: 0, pages: 1 + dice.roll(5) })
                .collect();
            let name = format!("d{at:05}");
            tree.directories.push(Directory { inode, lba, name, parent, files, ..Directory::default() });
            if let Some(parent) = parent {
                tree.directories[parent].below.push(at);
            }
        }
        let mut all: Vec<(usize, usize)> =
            (0..count * EACH).map(|at| (1 + TOPS + at / EACH, at % EACH)).collect();
        if layout != Layout::Groups {
            dice.shuffle(&mut all);
        }
        for (at, nth) in all {
            let file = &mut tree.directories[at].files[nth];
            (file.inode, file.lba) = place(at % 4, file.pages, false);
        }
        for directory in &mut tree.directories {
            // Entries are listed in the order of creation.
            directory.listing = (0..directory.files.len()).collect();
            directory.listing.sort_by_key(|nth| directory.files[*nth].inode);
            directory.listing.extend(directory.below.iter().map(|below| BELOW + below));
        }
        tree
    }

    /// The same tree with files of so many pages, anywhere in 60 GB.
    pub(crate) fn with_files_of(mut self, pages: Pages) -> Self {
        const FROM: u64 = 100_000_000;
        const STEP: u64 = 20_000;
        let mut files: Vec<&mut File> = self.directories.iter_mut().flat_map(|it| &mut it.files).collect();
        Dice(1).shuffle(&mut files);
        for (at, file) in (0..).zip(files) {
            (file.pages, file.lba) = (pages.get(), FROM + at * STEP);
        }
        self
    }

    pub(crate) fn files(&self) -> usize {
        self.directories.iter().map(|it| it.files.len()).sum()
    }

    pub(crate) fn bytes(&self) -> Bytes {
        let files = self.directories.iter().flat_map(|it| &it.files);
        Pages(files.map(|file| file.pages).sum()).bytes()
    }
}

/// The order in which a program opens the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Listing,
    Reversed,
    Inode,
    Name,
    ReversedInode,
    ReversedName,
}

/// An action of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Directory(usize),
    File(usize, usize),
    /// Looks up the inode of a file.
    Look(usize, usize),
    /// Opens a file by its path, without listing a directory.
    Named(usize, usize),
}

/// All actions of a program that walks a whole tree.
pub(crate) fn walk(tree: &Tree, reading: Reading, files_first: bool) -> Vec<Act> {
    walk_in(tree, [reading; 2], files_first)
}

/// The same, with files and subdirectories each in an order.
pub(crate) fn walk_in(tree: &Tree, [files, directories]: [Reading; 2], files_first: bool) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut stack = vec![BELOW];
    while let Some(entry) = stack.pop() {
        let (at, entry) = (entry >> 33, entry & ((1 << 33) - 1));
        if entry < BELOW {
            acts.push(Act::File(at, entry));
            continue;
        }
        let here = entry - BELOW;
        acts.push(Act::Directory(here));
        let directory = &tree.directories[here];
        let mut entries = directory.listing.clone();
        let inode = |entry: &usize| match entry.checked_sub(BELOW) {
            Some(below) => tree.directories[below].inode,
            None => directory.files[*entry].inode,
        };
        let name = |entry: &usize| match entry.checked_sub(BELOW) {
            Some(below) => tree.directories[below].name.clone(),
            None => directory.files[*entry].name.clone(),
        };
        let sort = |entries: &mut [usize], reading| {
            match reading {
                Reading::Listing | Reading::Reversed => {}
                Reading::Inode | Reading::ReversedInode => entries.sort_by_key(inode),
                Reading::Name | Reading::ReversedName => entries.sort_by_key(name),
            }
            if matches!(reading, Reading::Reversed | Reading::ReversedInode | Reading::ReversedName) {
                entries.reverse();
            }
        };
        if files_first {
            entries.sort_by_key(|entry| *entry >= BELOW);
            let (of_files, below) = entries.split_at_mut(directory.files.len());
            sort(of_files, files);
            sort(below, directories);
        } else {
            assert_eq!(files, directories, "files and directories in between are in one order");
            sort(&mut entries, files);
        }
        stack.extend(entries.iter().rev().map(|entry| (here << 33) | entry));
    }
    acts
}

/// The work of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) time: Nanos,
    pub(crate) requests: u64,
    pub(crate) positionings: u64,
}

fn transfer(costs: &dyn DeviceCosts, at: Lba, sectors: u64) -> Nanos {
    costs.rate_at(at).time_for(Sectors(sectors).bytes())
}

fn step(costs: &dyn DeviceCosts, from: Lba, to: Lba) -> Nanos {
    if from == to {
        return Nanos::ZERO;
    }
    let positioning = costs.seek_time(from.distance(to)) + costs.half_rotation();
    if from < to { positioning.min(transfer(costs, from, to.get() - from.get())) } else { positioning }
}

/// One ascending pass over blocks.
#[derive(Clone, Debug, Default)]
struct Pass {
    blocks: BTreeSet<u64>,
    cost: Nanos,
}

impl Pass {
    fn insert(&mut self, costs: &dyn DeviceCosts, block: u64) {
        if !self.blocks.insert(block) {
            return;
        }
        let end = |block: &u64| Lba(block + SECTORS_PER_PAGE);
        let before = self.blocks.range(..block).next_back().map(end);
        let after = self.blocks.range(block + 1..).next().copied().map(Lba);
        let way = |from: Option<Lba>, to: Option<Lba>| {
            from.zip(to).map_or(Nanos::ZERO, |(from, to)| step(costs, from, to))
        };
        self.cost += way(before, Some(Lba(block))) + transfer(costs, Lba(block), SECTORS_PER_PAGE);
        self.cost += way(Some(end(&block)), after);
        self.cost -= way(before, after);
    }
}

/// The disk, memory, a driver and an engine, or no engine: stock.
pub(crate) struct World {
    pub(crate) costs: Arc<dyn DeviceCosts>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) engine: Option<Walks>,
    pub(crate) now: Instant,
    head: Lba,
    /// Of each opened file, at most this many pages are read.
    pub(crate) reads: Pages,
    /// The addresses of directories are not known.
    pub(crate) blind: bool,
    /// Directories are opened by a program of its own, and each one is listed when that has opened the next one, or the
    /// other program so many files: the driver waits for the block that the program reads.
    pub(crate) lists_late: bool,
    /// The process that opens directories and files.
    pub(crate) process: u32,
    /// Requests for the addresses of files wait for [`Self::answer_places`]. Those of files that programs have read do not:
    /// all that the driver needs is in memory.
    pub(crate) places_late: bool,
    late_places: Vec<Vec<InDirectory>>,
    /// The most files whose addresses were under way so.
    pub(crate) most_late: usize,
    /// The disk sorts its queue: fetches take half of the time that one request after the other takes.
    pub(crate) sorts: bool,
    /// The files that were opened before the first fetch of contents.
    pub(crate) first_batch_at: Option<u64>,
    /// The directory that was opened last, and the listing that is late.
    opened: Option<Node>,
    late: Option<Node>,
    /// Files opened since that was requested.
    opened_since: u32,
    /// Whether the driver tells where the blocks of a directory lay when it has read them.
    pub(crate) tells: bool,
    /// Whether a listing shows where inodes are.
    pub(crate) shows_inodes: bool,
    /// Whether a listing shows which inodes are in memory.
    pub(crate) tells_inodes: bool,
    /// Blocks of 4 KiB in memory, by their first sector. Contents, inodes and directories alike.
    memory: FxHashSet<u64>,
    /// Those that were there at the beginning of this period.
    warmed: FxHashSet<u64>,
    /// Data of this period that programs used and that was not in memory.
    used: Pass,
    /// The same of all periods.
    used_ever: Pass,
    /// Contents that fetches read, and that no program has opened since.
    brought: BTreeSet<u64>,
    /// The optimum of earlier periods.
    pub(crate) settled: Nanos,
    /// Requests by programs, and by fetches.
    pub(crate) own: Work,
    pub(crate) fetches: Work,
    /// Of each fetch: the disk's time for programs before it, that for fetches, and its own.
    pub(crate) each_fetch: Vec<[Nanos; 3]>,
    /// What is read for an inode, as the driver states it.
    pub(crate) inodes: InodeReads,
    directories: HashMap<u64, usize>,
    files: HashMap<u64, (usize, usize)>,
    /// Directories with reported opens, and how many there were.
    attended: BTreeSet<u64>,
    /// Of programs that list nothing.
    entered: Entered,
    pub(crate) reported: u64,
    pub(crate) last: Vec<Command>,
    /// Other programs read contents and blocks of directories before they are fetched.
    pub(crate) overtaken: bool,
    /// The driver refuses one batch of this many parts or more.
    pub(crate) refuses: Option<usize>,
    /// Opens that were reported when it did, and when the next batch came.
    pub(crate) refused_at: Vec<u64>,
    /// Requested pieces of files that end before the file does.
    pub(crate) parts_of_files: usize,
    /// Directories of live walks in which something was fetched.
    fetched_in: BTreeSet<u64>,
    /// Those of them that were there at the end of a period, until the engine forgets them.
    outlive_period: BTreeSet<u64>,
    /// Periods and walks that were over after the last event.
    ends: [u64; 2],
    /// Ends of periods at which no walk ended, or one went on for which something was fetched.
    pub(crate) early_ends: usize,
    /// Bytes fetched by the last batch, and by the largest.
    pub(crate) batches: Vec<usize>,
    pub(crate) most_held: Bytes,
    pub(crate) most_commands: usize,
    /// The engine's processor time, and its number of events.
    pub(crate) processor: std::time::Duration,
    pub(crate) events: u32,
}

impl World {
    pub(crate) fn new(costs: Arc<dyn DeviceCosts>, tree: Tree, settings: Option<Settings>) -> Self {
        let directories = tree.directories.iter().enumerate().map(|(at, it)| (it.inode, at)).collect();
        let files = tree.directories.iter().enumerate();
        let files = files
            .flat_map(|(at, it)| it.files.iter().enumerate().map(move |(nth, file)| (file.inode, (at, nth))));
        let files = files.collect();
        let engine = settings.map(|settings| Walks::new(settings, Arc::clone(&costs)));
        Self {
            costs,
            tree: Arc::new(tree),
            engine,
            now: Instant::ZERO,
            head: Lba(0),
            memory: FxHashSet::default(),
            warmed: FxHashSet::default(),
            used: Pass::default(),
            used_ever: Pass::default(),
            brought: BTreeSet::new(),
            settled: Nanos::ZERO,
            own: Work::default(),
            fetches: Work::default(),
            each_fetch: Vec::new(),
            inodes: InodeReads::EXT4,
            reads: Pages(u64::MAX),
            lists_late: false,
            process: 1,
            places_late: false,
            late_places: Vec::new(),
            most_late: 0,
            sorts: false,
            first_batch_at: None,
            opened: None,
            late: None,
            opened_since: 0,
            blind: false,
            tells: false,
            shows_inodes: true,
            tells_inodes: true,
            directories,
            files,
            attended: BTreeSet::new(),
            entered: Entered::default(),
            reported: 0,
            last: Vec::new(),
            overtaken: false,
            refuses: None,
            refused_at: Vec::new(),
            parts_of_files: 0,
            fetched_in: BTreeSet::new(),
            outlive_period: BTreeSet::new(),
            ends: [0; 2],
            early_ends: 0,
            batches: Vec::new(),
            most_held: Bytes::ZERO,
            most_commands: 0,
            processor: std::time::Duration::ZERO,
            events: 0,
        }
    }

    fn transfer(&self, at: Lba, sectors: u64) -> Nanos {
        transfer(&*self.costs, at, sectors)
    }

    fn step(&self, from: Lba, to: Lba) -> Nanos {
        step(&*self.costs, from, to)
    }

    /// Reads the blocks that are not in memory.
    fn request(&mut self, lba: u64, blocks: u64, by_fetch: bool) {
        let missing: Vec<u64> = (0..blocks)
            .map(|at| lba + at * SECTORS_PER_PAGE)
            .filter(|at| !self.memory.contains(at))
            .collect();
        let Some(first) = missing.first().copied() else { return };
        let last = missing[missing.len() - 1] + SECTORS_PER_PAGE;
        let step = self.step(self.head, Lba(first));
        let time = step + self.transfer(Lba(first), last - first);
        let time = if by_fetch && self.sorts { time / 2 } else { time };
        self.head = Lba(last);
        self.memory.extend(missing);
        self.now += time;
        let work = if by_fetch { &mut self.fetches } else { &mut self.own };
        work.time += time;
        work.requests += 1;
        work.positionings += u64::from(step > Nanos::ZERO);
    }

    /// A program uses blocks.
    fn use_blocks(&mut self, lba: u64, blocks: u64, fetched_bytes: u64) {
        self.count_used(lba, blocks);
        self.request(lba, blocks.max(fetched_bytes), false);
    }

    /// A program lists a directory.
    fn use_directory(&mut self, at: usize) {
        let tree = Arc::clone(&self.tree);
        tree.directories[at].blocks().for_each(|lba| self.use_blocks(lba, 1, 1));
    }

    fn count_used(&mut self, lba: u64, blocks: u64) {
        let used = (0..blocks).map(|at| lba + at * SECTORS_PER_PAGE);
        let used: Vec<u64> = used.filter(|at| !self.warmed.contains(at)).collect();
        for at in used {
            self.used.insert(&*self.costs, at);
            self.used_ever.insert(&*self.costs, at);
        }
    }

    /// A program opens a file. What was fetched of it counts as used, also what the program does not read.
    fn count_brought(&mut self, file: &File) {
        for lba in (0..file.pages).map(|page| file.lba + page * SECTORS_PER_PAGE) {
            if self.brought.remove(&lba) {
                self.count_used(lba, 1);
            }
        }
    }

    /// A program finds a name in a directory: that takes one of its blocks.
    pub(crate) fn use_name(&mut self, at: usize) {
        self.use_blocks(self.tree.directories[at].lba, 1, 1);
    }

    /// A program changes a directory: its entries are listed in another order from here on.
    pub(crate) fn change(&mut self, at: usize) {
        let inode = self.tree.directories[at].inode;
        self.use_inode(inode);
        self.use_name(at);
        Arc::make_mut(&mut self.tree).directories[at].listing.rotate_left(1);
        self.notify(Event::Changed { directory: node(inode) });
    }

    /// A directory and those above it.
    pub(crate) fn chain(&self, at: usize) -> Vec<Node> {
        let chain = std::iter::successors(Some(at), |at| self.tree.directories[*at].parent);
        chain.map(|at| node(self.tree.directories[at].inode)).collect()
    }

    /// Whether the opens of files in a directory are reported.
    pub(crate) fn reports(&self, at: usize) -> bool {
        self.attended.contains(&self.tree.directories[at].inode)
    }

    /// The blocks that hold an inode.
    fn inode_blocks(&self, inode: u64) -> (u64, u64) {
        (inode_unit(inode, self.inodes.least), self.inodes.least.get())
    }

    /// The kernel reads neighbours as well, unless the inode is in memory.
    fn look_up(&mut self, inode: u64, by_fetch: bool) {
        let (lba, blocks) = self.inode_blocks(inode);
        if (0..blocks).any(|at| !self.memory.contains(&(lba + at * SECTORS_PER_PAGE))) {
            let together = self.inodes.together;
            self.request(inode_unit(inode, together), together.get(), by_fetch);
        }
    }

    fn fetch_inode(&mut self, fetch: InodeFetch) {
        let inode = fetch.which.node.inode;
        if fetch.together {
            self.look_up(inode, true);
        } else {
            let (lba, blocks) = self.inode_blocks(inode);
            self.request(lba, blocks, true);
        }
    }

    fn use_inode(&mut self, inode: u64) {
        let (lba, blocks) = self.inode_blocks(inode);
        self.count_used(lba, blocks);
        self.look_up(inode, false);
    }

    /// An action of a program: it reads, and the engine gets the events.
    pub(crate) fn act(&mut self, act: Act) {
        match act {
            Act::Directory(at) => {
                let directory = &self.tree.directories[at];
                let inode = directory.inode;
                let parent = directory.parent.map(|parent| node(self.tree.directories[parent].inode));
                self.use_inode(inode);
                self.use_directory(at);
                let pid = ProcessId(if self.lists_late { 2 } else { self.process });
                self.opened = Some(node(inode));
                let late = self.late.take();
                self.notify(Event::DirectoryOpened { pid, directory: node(inode), parent });
                self.answer_late(late);
            }
            Act::Look(at, nth) => {
                let directory = node(self.tree.directories[at].inode);
                let inode = self.tree.directories[at].files[nth].inode;
                self.use_inode(inode);
                self.notify(Event::LookedUp { pid: ProcessId(self.process), directory, node: node(inode) });
            }
            Act::Named(at, nth) => {
                let chain: Vec<usize> =
                    std::iter::successors(Some(at), |at| self.tree.directories[*at].parent).collect();
                for at in chain.iter().rev() {
                    self.use_inode(self.tree.directories[*at].inode);
                    // One block has the name.
                    self.use_blocks(self.tree.directories[*at].lba, 1, 1);
                }
                let chain = self.chain(at);
                let file = self.tree.directories[at].files[nth].clone();
                self.use_inode(file.inode);
                self.count_brought(&file);
                let pages = file.pages.min(self.reads.get());
                self.use_blocks(file.lba, pages, pages);
                let pid = ProcessId(self.process);
                if !self.attended.contains(&chain[0].inode) {
                    // The root of the file system lies above the tree.
                    let chain_to_root: Vec<Node> = chain.iter().copied().chain([node(2)]).collect();
                    for (directory, parent) in self.entered.opened(pid, &chain_to_root).visited {
                        self.notify(Event::DirectoryEntered { pid, directory, parent });
                    }
                }
                self.reported += 1;
                self.notify(Event::FileOpened { pid, directory: chain[0], file: node(file.inode) });
            }
            Act::File(at, nth) => {
                let directory = node(self.tree.directories[at].inode);
                let file = self.tree.directories[at].files[nth].clone();
                self.use_inode(file.inode);
                self.count_brought(&file);
                let pages = file.pages.min(self.reads.get());
                self.use_blocks(file.lba, pages, pages);
                if !self.attended.contains(&directory.inode) {
                    return;
                }
                self.reported += 1;
                self.opened_since += 1;
                if self.opened_since > LATE {
                    let late = self.late.take();
                    self.answer_late(late);
                }
                self.notify(Event::FileOpened {
                    pid: ProcessId(self.process),
                    directory,
                    file: node(file.inode),
                });
            }
        }
    }

    fn answer_late(&mut self, late: Option<Node>) {
        if let Some(late) = late
            && let Some(mut engine) = self.engine.take()
        {
            let mut out = Commands::new();
            self.list(&mut engine, (late, ListCondition::Always), &mut out);
            self.carry_all_out(engine, out);
        }
    }

    /// Whether all of a file is in memory.
    pub(crate) fn holds(&self, at: usize, nth: usize) -> bool {
        let file = &self.tree.directories[at].files[nth];
        (0..file.pages).all(|page| self.memory.contains(&(file.lba + page * SECTORS_PER_PAGE)))
    }

    /// All of the tree is in memory from here on.
    pub(crate) fn warm(&mut self, acts: &[Act]) {
        let engine = self.engine.take();
        acts.iter().for_each(|act| self.act(*act));
        self.engine = engine;
        (self.own, self.settled) = (Work::default(), Nanos::ZERO);
        self.used = Pass::default();
        self.warmed = self.memory.clone();
    }

    /// Other reads have replaced everything: memory is empty.
    pub(crate) fn evict(&mut self) {
        self.memory.clear();
        self.warmed.clear();
    }

    /// What was used is in memory in the next period.
    pub(crate) fn end_period(&mut self) {
        self.settled = self.optimum();
        self.warmed.extend(std::mem::take(&mut self.used).blocks);
    }

    /// Without events for so long that all walks are over.
    pub(crate) fn rest(&mut self) {
        self.end_period();
        self.now += Nanos::from_secs(100);
        self.notify(Event::Tick);
    }

    /// The cheapest order of the used data: one pass, a period at a time.
    pub(crate) fn optimum(&self) -> Nanos {
        self.settled + self.used.cost
    }

    /// The same, as if all were one period.
    pub(crate) fn optimum_of_all(&self) -> Nanos {
        self.used_ever.cost
    }

    fn pass_event(&mut self, engine: &mut Walks, event: Event<'_>, out: &mut Commands) {
        let begin = std::time::Instant::now();
        engine.on(self.now, event, out);
        self.processor += begin.elapsed();
        self.events += 1;
        let status = engine.status();
        let [periods, ended] = std::mem::replace(&mut self.ends, [status.periods, status.ended]);
        if status.periods > periods {
            self.early_ends += usize::from(status.ended == ended);
            self.outlive_period.extend(&self.fetched_in);
            // A walk that begins at the top of one that is over keeps this directory.
            if let Event::DirectoryOpened { directory, .. } = event {
                self.outlive_period.remove(&directory.inode);
            }
        }
    }

    /// Passes an event to the engine, and carries out its commands until there are none.
    pub(crate) fn notify(&mut self, event: Event<'_>) {
        let Some(mut engine) = self.engine.take() else { return };
        let mut out = Commands::new();
        self.last.clear();
        self.pass_event(&mut engine, event, &mut out);
        self.carry_all_out(engine, out);
    }

    fn is_unread_file(&self, inode: u64) -> bool {
        let file = self.files.get(&inode).map(|(at, nth)| &self.tree.directories[*at].files[*nth]);
        file.is_some_and(|file| !self.memory.contains(&file.lba))
    }

    /// Answers the first of the late requests for addresses.
    pub(crate) fn answer_places(&mut self) {
        if self.late_places.is_empty() {
            return;
        }
        let files = self.late_places.remove(0);
        let Some(mut engine) = self.engine.take() else { return };
        let mut out = Commands::new();
        self.place(&mut engine, files.iter().map(|it| it.node), &mut out);
        self.carry_all_out(engine, out);
    }

    fn carry_all_out(&mut self, mut engine: Walks, mut out: Commands) {
        let mut queue: VecDeque<Command> = VecDeque::new();
        let mut answers = 0;
        loop {
            self.most_commands = self.most_commands.max(out.as_slice().len());
            queue.extend(out.drain());
            self.most_held = self.most_held.max(engine.status().held);
            match queue.pop_front() {
                Some(Command::List { directory, .. })
                    if self.lists_late && self.opened == Some(directory.node) =>
                {
                    (self.late, self.opened_since) = (Some(directory.node), 0);
                }
                Some(command @ Command::List { directory, condition }) => {
                    self.last.push(command);
                    self.list_sorted(&mut engine, (directory.node, condition), &mut queue, &mut out);
                }
                Some(command) => {
                    self.last.push(command.clone());
                    let before = [self.own.time, self.fetches.time];
                    self.carry_out(&mut engine, command, &mut out);
                    if self.fetches.time > before[1] {
                        self.each_fetch.push([before[0], before[1], self.fetches.time - before[1]]);
                    }
                }
                None if engine.deadline().is_some_and(|it| it <= self.now) => {
                    self.pass_event(&mut engine, Event::Tick, &mut out);
                }
                None => break,
            }
            answers += 1;
            assert!(answers < 1_000_000, "the engine and its driver never come to rest");
        }
        // Of walks that are over, all directories were forgotten.
        self.early_ends += usize::from(!std::mem::take(&mut self.outlive_period).is_empty());
        self.engine = Some(engine);
    }

    fn carry_out(&mut self, engine: &mut Walks, command: Command, out: &mut Commands) {
        match command {
            Command::List { directory, condition } => self.list(engine, (directory.node, condition), out),
            Command::FetchMetadata { fetch, nodes } => {
                assert!(nodes.is_sorted());
                let before = self.fetches.requests;
                nodes.iter().for_each(|it| self.fetch_inode(*it));
                let requests = self.fetches.requests - before;
                if requests > 0 {
                    self.fetched_in.extend(nodes.iter().map(|it| it.which.directory.inode));
                }
                let fetched_bytes = self.inodes.least.bytes() * requests;
                self.pass_event(engine, Event::Done { fetch, fetched_bytes, outcome: Outcome::Arrived }, out);
            }
            Command::Place { files }
                if self.places_late && files.iter().any(|it| self.is_unread_file(it.node.inode)) =>
            {
                self.late_places.push(files);
                self.most_late = self.most_late.max(self.late_places.iter().map(Vec::len).sum());
            }
            Command::Place { files } => {
                assert!(files.is_sorted());
                self.place(engine, files.iter().map(|it| it.node), out);
            }
            Command::Fetch { fetch, parts } => {
                assert!(parts.is_sorted_by_key(|part| part.lba));
                let mut fetched_bytes = Pages::ZERO;
                self.batches.push(parts.len());
                if self.files.contains_key(&parts[0].file.node.inode) {
                    self.first_batch_at.get_or_insert(self.reported);
                }
                if self.refused_at.len() == 1 {
                    self.refused_at.push(self.reported);
                }
                if self.refuses.take_if(|least| parts.len() >= *least).is_some() {
                    self.refused_at.push(self.reported);
                    let refused =
                        Event::Done { fetch, fetched_bytes: Bytes::ZERO, outcome: Outcome::Refused };
                    return self.pass_event(engine, refused, out);
                }
                for part in &parts {
                    let blocks = part.pages.len().get();
                    let all = (0..blocks).map(|at| part.lba.get() + at * SECTORS_PER_PAGE);
                    if self.overtaken {
                        self.memory.extend(all.clone());
                        self.warmed.extend(all.clone());
                    }
                    let missing: Vec<u64> = all.filter(|at| !self.memory.contains(at)).collect();
                    fetched_bytes += Pages(missing.len() as u64);
                    if let Some((at, nth)) = self.files.get(&part.file.node.inode) {
                        let pages = self.tree.directories[*at].files[*nth].pages;
                        self.parts_of_files += usize::from(part.pages.end.get() < pages);
                        self.brought.extend(&missing);
                    }
                    if !missing.is_empty() {
                        self.fetched_in.insert(part.file.directory.inode);
                    }
                    self.request(part.lba.get(), blocks, true);
                }
                let done =
                    Event::Done { fetch, fetched_bytes: fetched_bytes.bytes(), outcome: Outcome::Arrived };
                self.pass_event(engine, done, out);
            }
            Command::WatchOpens { directory, on: true } => drop(self.attended.insert(directory.inode)),
            Command::WatchOpens { directory, on: false } => {
                self.attended.remove(&directory.inode);
            }
            Command::Forget { directory } => {
                self.attended.remove(&directory.inode);
                self.fetched_in.remove(&directory.inode);
                self.outlive_period.remove(&directory.inode);
            }
            Command::Cancel { .. } => {}
        }
    }

    /// Lists a directory and all that are to be listed at the same time, in the order of the disk.
    fn list_sorted(
        &mut self,
        engine: &mut Walks,
        first: Listed,
        queue: &mut VecDeque<Command>,
        out: &mut Commands,
    ) {
        let mut all = vec![first];
        queue.retain(|command| {
            let Command::List { directory, condition } = command else { return true };
            all.push((directory.node, *condition));
            false
        });
        all.sort_by_key(|(node, _)| self.tree.directories[self.directories[&node.inode]].lba);
        for listed in all {
            self.list(engine, listed, out);
        }
    }

    fn list(&mut self, engine: &mut Walks, (directory, condition): Listed, out: &mut Commands) {
        let at = self.directories[&directory.inode];
        let tree = Arc::clone(&self.tree);
        let here = &tree.directories[at];
        if condition == ListCondition::InMemory && !here.blocks().all(|lba| self.memory.contains(&lba)) {
            return self.pass_event(engine, Event::Unlistable { directory }, out);
        }
        let before = self.fetches.requests;
        here.blocks().for_each(|lba| self.request(lba, 1, true));
        if self.tells {
            let read = self.fetches.requests > before;
            let mut blocks = if read { here.extents() } else { Vec::new() };
            blocks.truncate(REPORTED);
            self.pass_event(engine, Event::BlocksRead { directory, blocks: &blocks }, out);
        }
        let entries: Vec<Entry<'_>> = here
            .listing
            .iter()
            .map(|entry| match entry.checked_sub(BELOW) {
                Some(below) => {
                    let below = &tree.directories[below];
                    (below.inode, below.name.as_str(), Kind::Directory)
                }
                None => (here.files[*entry].inode, here.files[*entry].name.as_str(), Kind::File),
            })
            .map(|(inode, name, kind)| Entry {
                node: node(inode),
                kind,
                name: name.as_bytes(),
                inode_at: self.shows_inodes.then(|| Lba(self.inode_blocks(inode).0)),
                inode_in_memory: self.tells_inodes && self.memory.contains(&self.inode_blocks(inode).0),
            })
            .collect();
        self.pass_event(engine, Event::Listed { directory, entries: &entries, inodes: self.inodes }, out);
    }

    /// The beginning of an extent may be in memory.
    fn leave_out_beginning(&self, extent: &mut Extent) {
        let page = |page: u64| Lba(extent.lba.get() + page * SECTORS_PER_PAGE);
        let held =
            (0..extent.pages.get()).take_while(|at| self.memory.contains(&page(*at).get())).count() as u64;
        *extent =
            Extent { page: extent.page + Pages(held), pages: extent.pages - Pages(held), lba: page(held) };
    }

    fn place(&mut self, engine: &mut Walks, files: impl Iterator<Item = Node>, out: &mut Commands) {
        let mut extents = Vec::new();
        for file in files {
            let (inode, blocks) = self.inode_blocks(file.inode);
            self.request(inode, blocks, true);
            let (all, blind) = match self.files.get(&file.inode) {
                Some((at, nth)) => {
                    let file = &self.tree.directories[*at].files[*nth];
                    let lba = Lba(file.lba);
                    (vec![Extent { page: PageIndex(0), pages: Pages(file.pages), lba }], false)
                }
                None => (self.tree.directories[self.directories[&file.inode]].extents(), self.blind),
            };
            let length: Pages = all.iter().map(|it| it.pages).sum();
            let mut missing = all;
            missing.iter_mut().for_each(|extent| self.leave_out_beginning(extent));
            missing.retain(|it| !blind && !it.pages.is_zero());
            let resident = length - missing.iter().map(|it| it.pages).sum();
            extents.push((file, length, if blind { Pages::ZERO } else { resident }, missing));
        }
        let placed: Vec<Placed<'_>> = extents
            .iter()
            .map(|(file, length, resident, missing)| Placed {
                file: *file,
                length: length.bytes(),
                resident: *resident,
                residency_known: true,
                missing,
            })
            .collect();
        self.pass_event(engine, Event::Placed { files: &placed }, out);
    }
}
