//! One walk.
//!
//! State is kept by tree and not by process: `find | xargs` is two programs and one walk. A walk is the topmost
//! directory that was opened and all directories below it that were reached through opened ones.

use crate::classes::CLASSES_LIMIT;
use crate::contents::Manner;
use crate::ledger::Account;
use crate::order::{LARGE, Order, Orders};
use crate::ordered::InOrder;
use crate::pace::Pace;
use crate::parts::{ToExamine, WAITING_LIMIT};
use crate::quiet::{Quiet, Sample};
use crate::random::{InRandomOrder, Jumps};
use crate::recognise::OVER;
use crate::state::Asked;
use crate::tree::{Directory, Item, Key, Tree, flag};
use crate::unplaced::Unplaced;
use crate::{Kind, Stopped};
use foreseek_seam::{FetchId, ProcessId};
use foreseek_units::{Bytes, Instant, Lba, Nanos};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// After so many opens elsewhere a directory counts as left: several threads work in as many directories.
pub(crate) const ACTIVE: u64 = 64;
/// The most votes for one way to descend that count.
const DESCENT_LIMIT: i32 = 16;
/// The least number of inodes in one block of 4 KiB (ext4 with inodes of 256 bytes): if one is in memory, its
/// neighbours are.
const INODES_TOGETHER: u64 = 16;
/// Blocks of inodes known to be in memory that are remembered.
const TOUCHED_LIMIT: usize = 1 << 16;

/// Processes in one walk that each have a place of their own.
const READERS: usize = 4;
/// A process that has opened no file of a walk for so long has left it: a read of a busy disk takes less.
const GONE: Nanos = Nanos::from_secs(1);

/// Files opened or passed before it is known whether a walk selects.
const SELECTION_SAMPLE: u32 = 16;
/// Files after which older ones count half.
const RECENT: u32 = 256;

/// The number of the block that holds an inode whose address is not known.
pub(crate) fn inode_block(inode: u64) -> u64 {
    inode.wrapping_sub(1) / INODES_TOGETHER
}

/// Inodes that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Inodes {
    At(Lba),
    Block(u64),
}

/// Whether files are worth fetching of which so many were opened and passed: at least a quarter is opened. In a sorted
/// batch a file costs less than a quarter of a single read.
fn are_worth(opened: u32, passed: u32) -> bool {
    (u64::from(opened) + 1) * 4 >= u64::from(opened) + u64::from(passed) + 2
}

fn inodes_of(item: &Item) -> Inodes {
    item.inode_at().map_or_else(|| Inodes::Block(inode_block(item.inode)), Inodes::At)
}

/// A process that opens files of a walk.
#[derive(Clone, Copy, Debug)]
struct Reader {
    pid: ProcessId,
    program: Option<u64>,
    /// The directory of the file that it opened last, and when.
    place: Key,
    last: Instant,
    /// All that it is expected to open was fetched: the clock and the cost of the walk at which the next look is due.
    due: Option<(u64, Nanos)>,
}

/// A live walk.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) top: Key,
    /// The user that began it.
    pub(crate) user: Option<u32>,
    /// All of its directories.
    pub(crate) all: Vec<Key>,
    pub(crate) directories: u64,
    pub(crate) files: u64,
    pub(crate) lookups: u64,
    /// Opens and look-ups so far: the walk's clock.
    pub(crate) clock: u64,
    /// The clock at the last search for skipped directories.
    pub(crate) skipped_at: u64,
    pub(crate) account: Account,
    /// The directory of the last opened file.
    pub(crate) cursor: Option<Key>,
    /// The directory opened last.
    pub(crate) opened: Key,
    /// The orders of its opens, in small and in large directories.
    pub(crate) orders: [Orders; 2],
    pub(crate) jumps: Jumps,
    /// Its opens follow no order.
    pub(crate) random: bool,
    /// Positive: files first; negative: descends in between.
    pub(crate) descent: i32,
    /// For each class of files: opened, and passed.
    pub(crate) tallies: Vec<[u32; 2]>,
    /// Expected files, recently: opened, and passed.
    pub(crate) recent: [u32; 2],
    pub(crate) fetched: u64,
    pub(crate) used: u64,
    pub(crate) wasted: u64,
    pub(crate) fetched_bytes: Bytes,
    pub(crate) held: Bytes,
    /// Unanswered listings, and those of them that a round waits for: not those of directories that a program has
    /// just opened.
    pub(crate) lists: u32,
    /// See above.
    pub(crate) awaited: u32,
    /// The last processes that opened files, the last one first.
    readers: Vec<Reader>,
    /// Those of directories whose blocks have no known address.
    pub(crate) unplaced: Unplaced,
    /// All requested listings.
    pub(crate) listed: u64,
    /// Files whose addresses were requested.
    pub(crate) file_places: u32,
    /// Directories whose addresses were requested.
    pub(crate) directory_places: u32,
    /// The present round has nothing to do until the addresses of files are known.
    pub(crate) needs_places: bool,
    /// Inodes or blocks of directories in flight.
    pub(crate) metadata: Option<FetchId>,
    /// Contents in flight.
    pub(crate) contents: Option<FetchId>,
    /// Opened files that had not been fetched, when the last batch was made.
    pub(crate) files_at_batch: u64,
    /// Files of the last batch that were expected next, and those of earlier ones that were left then.
    pub(crate) batch: u64,
    /// Fetched files that had been used or passed when the last batch was made.
    pub(crate) done_at_batch: u64,
    /// In a round: how much may still be spent on directories and inodes.
    pub(crate) round: Option<Nanos>,
    /// The cost of directories and inodes that did not pay by themselves.
    pub(crate) tried: Nanos,
    /// The cost of directories and inodes since the last batch, and whether a batch of their files would not have paid.
    pub(crate) prepared: Nanos,
    pub(crate) in_vain: bool,
    /// The walk's cost at which the next round begins.
    pub(crate) next_cost: Nanos,
    /// The allowance with which it may begin sooner.
    pub(crate) awaited_allowance: Option<Nanos>,
    pub(crate) pace: Pace,
    /// The cost of a file of the last batch.
    pub(crate) price: Option<Nanos>,
    pub(crate) last: Instant,
    /// The clock at which the next look is due.
    pub(crate) look_at: u64,
    /// After a refused fetch: no round begins before the clock has come to this.
    pub(crate) refused_until: u64,
    /// The clock from which on it is checked again whether the walk is over.
    pub(crate) over_at: u64,
    pub(crate) stopped: Stopped,
    /// Consecutively placed entries that were in memory.
    pub(crate) resident: u32,
    /// An entry was not in memory.
    pub(crate) missing: bool,
    pub(crate) quiet: Option<Quiet>,
    /// Consecutive opens of files that were opened before.
    pub(crate) again: u32,
    /// The present round examines only some files.
    pub(crate) sample: Option<Sample>,
    /// Its programs open files without listing directories.
    pub(crate) has_list: bool,
    /// A program has opened directories of it to list them.
    pub(crate) opens_directories: bool,
    /// It was quiet once: the number of its opened files is not known.
    pub(crate) unseen: bool,
    pub(crate) program: Option<u64>,
    /// Inodes in memory.
    touched: FxHashSet<Inodes>,
    /// The left directories, and when they were left.
    pub(crate) left: VecDeque<(Key, u64)>,
    /// Opened files that are to be examined, and how many are under way.
    pub(crate) to_examine: VecDeque<ToExamine>,
    pub(crate) examining: u32,
}

impl Walk {
    /// Begins at a directory.
    pub(crate) fn new(top: Key, user: Option<u32>, now: Instant) -> Self {
        Self {
            top,
            user,
            all: vec![top],
            directories: 0,
            files: 0,
            lookups: 0,
            clock: 0,
            skipped_at: 0,
            account: Account::default(),
            cursor: None,
            opened: top,
            orders: [Orders::default(); 2],
            jumps: Jumps::default(),
            random: false,
            descent: 0,
            tallies: Vec::new(),
            recent: [0; 2],
            fetched: 0,
            used: 0,
            wasted: 0,
            fetched_bytes: Bytes::ZERO,
            held: Bytes::ZERO,
            lists: 0,
            awaited: 0,
            readers: Vec::new(),
            unplaced: Unplaced::default(),
            listed: 0,
            file_places: 0,
            directory_places: 0,
            needs_places: false,
            metadata: None,
            contents: None,
            files_at_batch: 0,
            batch: 0,
            done_at_batch: 0,
            round: None,
            tried: Nanos::ZERO,
            prepared: Nanos::ZERO,
            in_vain: false,
            next_cost: Nanos::ZERO,
            awaited_allowance: None,
            pace: Pace::default(),
            price: None,
            last: now,
            look_at: 0,
            refused_until: 0,
            over_at: 0,
            stopped: Stopped::TooShort,
            resident: 0,
            missing: false,
            quiet: None,
            again: 0,
            sample: None,
            has_list: false,
            opens_directories: false,
            unseen: false,
            program: None,
            touched: FxHashSet::default(),
            left: VecDeque::new(),
            to_examine: VecDeque::new(),
            examining: 0,
        }
    }

    /// Takes over the sums of a walk whose top lies below this one, and whose clock shows the same.
    pub(crate) fn join(&mut self, other: &mut Self) {
        self.all.append(&mut other.all);
        self.directories += other.directories;
        self.files += other.files;
        self.lookups += other.lookups;
        self.account.join(&other.account);
        self.cursor = other.cursor.or(self.cursor);
        self.opened = other.opened;
        self.orders[0].join(&other.orders[0]);
        self.orders[1].join(&other.orders[1]);
        self.jumps.join(other.jumps);
        self.random |= other.random;
        self.descent = (self.descent + other.descent).clamp(-DESCENT_LIMIT, DESCENT_LIMIT);
        for (class, counts) in other.tallies.iter().enumerate() {
            for (way, count) in counts.iter().enumerate() {
                self.tally(class as u8, way, *count);
            }
        }
        self.fetched += other.fetched;
        self.used += other.used;
        self.wasted += other.wasted;
        self.fetched_bytes += other.fetched_bytes;
        self.held += other.held;
        self.lists += other.lists;
        self.awaited += other.awaited;
        let is_other = |own: &Reader| other.readers.iter().all(|other| other.pid != own.pid);
        self.readers.retain(is_other);
        self.readers.splice(0..0, other.readers.drain(..));
        self.readers.truncate(READERS);
        self.unplaced.join(&other.unplaced);
        self.listed += other.listed;
        self.file_places += other.file_places;
        self.directory_places += other.directory_places;
        self.needs_places |= other.needs_places;
        self.metadata = self.metadata.or(other.metadata);
        self.contents = self.contents.or(other.contents);
        self.batch += other.batch;
        self.done_at_batch += other.done_at_batch;
        self.files_at_batch += other.files_at_batch;
        self.tried += other.tried;
        self.prepared += other.prepared;
        self.in_vain |= other.in_vain;
        self.awaited_allowance =
            [self.awaited_allowance, other.awaited_allowance].into_iter().flatten().min();
        self.price = self.price.or(other.price);
        self.pace.join(&other.pace);
        self.program = other.program.or(self.program);
        self.resident = self.resident.min(other.resident);
        self.has_list |= other.has_list;
        self.opens_directories |= other.opens_directories;
        self.unseen |= other.unseen;
        self.missing |= other.missing;
        self.left.extend(other.left.drain(..));
        self.left.make_contiguous().sort_by_key(|(_, left)| *left);
        self.to_examine.extend(other.to_examine.drain(..));
        self.to_examine.make_contiguous().sort_by_key(|it| it.opened);
        self.examining += other.examining;
        self.to_examine.truncate(WAITING_LIMIT);
    }

    /// A process opened a file in this directory.
    pub(crate) fn read_by(&mut self, pid: ProcessId, program: Option<u64>, place: Key, now: Instant) {
        let known = self.readers.iter().position(|reader| reader.pid == pid);
        let due = match known {
            Some(at) => self.readers.remove(at).due,
            // What was found for the first one, when it opened directories alone, counts.
            None if self.readers.is_empty() => Some((self.look_at, self.next_cost)),
            None if self.readers.len() < READERS => None,
            // Its looks are those of the other one, so that processes that come and go cause no more.
            None => self.readers.pop().and_then(|oldest| oldest.due),
        };
        let program = program.or(self.program);
        self.readers.insert(0, Reader { pid, program, place, last: now, due });
    }

    /// The process that opened the last file.
    pub(crate) fn reader(&self) -> Option<ProcessId> {
        self.readers.first().map(|reader| reader.pid)
    }

    /// Its program; where that is not known, the one that opened directories.
    pub(crate) fn reading_program(&self) -> Option<u64> {
        self.readers.first().and_then(|reader| reader.program)
    }

    /// A round has stopped, at the process that opened the last file.
    pub(crate) fn stops(&mut self, stopped: Stopped) {
        self.stopped = stopped;
        let due = (stopped == Stopped::Complete).then_some((self.look_at, self.next_cost));
        if let Some(reader) = self.readers.first_mut() {
            reader.due = due;
        }
    }

    /// Whether a look may find something to fetch.
    pub(crate) fn is_due(&self) -> bool {
        let (clock, cost) = (self.clock, self.account.cost());
        let is_due = |(at, from): (u64, Nanos)| clock >= at && cost >= from;
        if is_due((self.look_at, self.next_cost)) {
            return true;
        }
        // All was fetched for another process, which may be elsewhere in the tree.
        self.stopped == Stopped::Complete
            && self.readers.first().is_some_and(|reader| reader.due.is_none_or(is_due))
    }

    /// The directories in which its processes have opened files lately: they may wait for the disk.
    pub(crate) fn places(&self, now: Instant) -> impl Iterator<Item = Key> {
        self.readers.iter().filter(move |reader| reader.last + GONE > now).map(|reader| reader.place)
    }

    /// Its clock shows this from now on. What is so many opens ago stays so.
    pub(crate) fn advance_clock(&mut self, tree: &mut Tree, clock: u64) {
        let more = clock.saturating_sub(self.clock);
        if more == 0 {
            return;
        }
        self.clock = clock;
        for directory in &self.all {
            if let Some(directory) = tree.get_mut(*directory) {
                directory.touched += more;
                directory.list_from += more;
            }
        }
        self.left.iter_mut().for_each(|(_, left)| *left += more);
        self.to_examine.iter_mut().for_each(|it| it.opened += more);
        for at in [&mut self.look_at, &mut self.refused_until, &mut self.over_at] {
            *at += more;
        }
        self.readers.iter_mut().filter_map(|reader| reader.due.as_mut()).for_each(|due| due.0 += more);
    }

    fn tally(&mut self, class: u8, way: usize, count: u32) {
        if self.tallies.is_empty() {
            self.tallies = vec![[0; 2]; CLASSES_LIMIT];
        }
        let counts = &mut self.tallies[usize::from(class)][way];
        *counts = counts.saturating_add(count);
    }

    /// Counts an expected file: 0 for an opened one, 1 for a passed one.
    fn count_recent(&mut self, way: usize) {
        self.recent[way] += 1;
        if self.recent[0] + self.recent[1] > RECENT {
            self.recent = self.recent.map(|count| count / 2);
        }
    }

    /// Whether it opens too few of the expected files.
    pub(crate) fn selects(&self) -> bool {
        let [opened, passed] = self.recent;
        opened + passed >= SELECTION_SAMPLE && !are_worth(opened, passed)
    }

    /// Whether it opens only a part of the expected files.
    pub(crate) fn passes_some(&self) -> bool {
        let [opened, passed] = self.recent;
        opened + passed >= SELECTION_SAMPLE && passed * 8 > opened
    }

    /// The time that the program takes for so many expected files, of which it opens a part, without
    /// prefetching; `None` if it is not known.
    pub(crate) fn time_without_fetches(&self, files: u64) -> Option<Nanos> {
        self.pace.cost_of(files).map(|all| self.part_opened(all))
    }

    /// The most that the program's own reads of expected files take, if all of these would take `alone`.
    pub(crate) fn without_fetches(&self, files: u64, alone: Nanos) -> Nanos {
        let alone = self.part_opened(alone);
        self.time_without_fetches(files).map_or(alone, |pace| pace.min(alone))
    }

    /// The part of this that is for expected files which it opens.
    fn part_opened(&self, all: Nanos) -> Nanos {
        let [opened, passed] = self.recent.map(u64::from);
        if opened + passed < u64::from(SELECTION_SAMPLE) { all } else { all / (opened + passed) * opened }
    }

    /// A file of this class was opened. Those of classes that are not worth it are not expected.
    pub(crate) fn opened_one(&mut self, class: u8) {
        self.tally(class, 0, 1);
        if self.wants(class) {
            self.count_recent(0);
        }
    }

    /// A file of this class was passed.
    pub(crate) fn passed_one(&mut self, class: u8) {
        if self.wants(class) {
            self.count_recent(1);
        }
        self.tally(class, 1, 1);
    }

    /// Whether files of this class are worth fetching.
    pub(crate) fn wants(&self, class: u8) -> bool {
        let [opened, passed] = self.tallies.get(usize::from(class)).copied().unwrap_or_default();
        are_worth(opened, passed)
    }

    /// Records the order in which two siblings of a kind were opened.
    pub(crate) fn vote(&mut self, directory: &mut Directory, kind: Kind, distances: [i64; 3]) {
        directory.orders.vote(kind, distances);
        self.orders[usize::from(directory.items.len() > LARGE)].vote(kind, distances);
    }

    /// Records whether files were opened before the walk descended.
    pub(crate) fn descend(&mut self, files_first: bool) {
        let vote = if files_first { 1 } else { -1 };
        self.descent = (self.descent + vote).clamp(-DESCENT_LIMIT, DESCENT_LIMIT);
    }

    /// The order of opens of a directory's files, if it is known.
    pub(crate) fn order(&self, directory: &Directory) -> Option<Order> {
        if self.random { None } else { directory.orders.of_files(self.orders_of_all(directory)) }
    }

    /// The order of opens of a directory's subdirectories, if it is known.
    pub(crate) fn order_of_directories(&self, directory: &Directory) -> Option<Order> {
        directory.orders.of_directories(self.orders_of_all(directory))
    }

    fn orders_of_all(&self, directory: &Directory) -> &Orders {
        &self.orders[usize::from(directory.items.len() > LARGE)]
    }

    /// The order of most of its opens.
    pub(crate) fn usual(&self) -> Option<Order> {
        self.orders.iter().find_map(Orders::usual)
    }

    /// An inode is in memory, and with it those that the device reads together with it.
    pub(crate) fn touch(&mut self, item: &Item) {
        if self.touched.len() >= TOUCHED_LIMIT {
            self.touched.clear();
        }
        self.touched.insert(inodes_of(item));
    }

    /// Whether an inode is known to be in memory.
    pub(crate) fn holds(&self, item: &Item) -> bool {
        item.is(flag::INODE_IN) || self.touched.contains(&inodes_of(item))
    }

    /// The number of requested addresses of directories, or of files to fetch.
    pub(crate) fn places_mut(&mut self, asked: Asked) -> &mut u32 {
        if asked == Asked::Directory { &mut self.directory_places } else { &mut self.file_places }
    }

    /// Whether listings, addresses, inodes or directories that a round waits for are under way.
    pub(crate) fn is_asking(&self) -> bool {
        // Before a round they may show that all is in memory.
        let needs_files = self.needs_places || (self.round.is_none() && !self.missing);
        let waits_for_files = needs_files && self.file_places > 0;
        self.awaited > 0 || self.directory_places > 0 || waits_for_files || self.metadata.is_some()
    }

    /// Whether anything that was requested for it is under way.
    pub(crate) fn is_fetching(&self) -> bool {
        self.lists > 0 || self.file_places > 0 || self.is_asking() || self.contents.is_some()
    }

    /// Fetched files that were used or passed.
    pub(crate) fn done(&self) -> u64 {
        self.used + self.wasted
    }

    /// Fetched files that were neither used nor passed yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.fetched.saturating_sub(self.done())
    }

    /// Whether it goes on in memory, or has used what was fetched. Of all that there is, a program leaves some files out.
    pub(crate) fn has_used_all(&self) -> bool {
        let all = if self.stopped == Stopped::Complete { self.fetched } else { 0 };
        self.quiet.is_some() || self.waiting() * OVER <= all
    }

    /// How many of the last batch are left, if each file that was used or passed since is one of those that were expected
    /// next.
    pub(crate) fn batch_left(&self) -> u64 {
        self.batch.saturating_sub(self.done().saturating_sub(self.done_at_batch))
    }

    /// How its contents are planned.
    pub(crate) fn manner(&self) -> &'static dyn Manner {
        if self.random { &InRandomOrder } else { &InOrder }
    }

    /// Visits the entries that the walk is expected to open: files that were neither opened nor passed, and
    /// directories. It ends when the visitor returns `false`.
    pub(crate) fn expect(&self, tree: &Tree, mut visit: impl FnMut(Key, u32, &Item) -> bool) {
        self.manner().expect(self, tree, &mut visit);
    }
}
