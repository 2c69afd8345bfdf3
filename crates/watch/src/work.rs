//! The work for an engine, and the threads of one disk that do it.
//!
//! | threads | work |
//! |---|---|
//! | [`LISTERS`] | list directories; look up where files lie |
//! | one | inodes: by looking them up, with [`LOOKERS`] threads while it does. On ext4 the kernel reads the neighbours with each ([`foreseek_walks::InodeReads`]). Single blocks, and all while others read from the disk: through ext4's block device |
//! | one | contents, and blocks of directories through the block device, in the order that the engine gives: `WILLNEED`, which waits while the disk's queue is full |
//!
//! All have the lowest ordinary I/O priority ([`LowIoPriority`]): under BFQ programs' own requests get four times their share, and
//! other schedulers treat both alike. The idle class would let a fetch, and the walker with it, wait behind every
//! other reader.
//!
//! Bounds: [`QUEUE`] jobs a queue; further jobs are refused, and the engine retries. Each thread has few
//! descriptors open ([`TOGETHER`], [`OPEN`]).

use crate::counters::Counters;
use crate::directories::{Directories, Listing};
use crate::file_system::FileSystem;
use crate::leases::LastLeases;
use crate::processes;
use crate::reach::{Opened, Reach, TOGETHER};
use crate::room::{Room, Taken};
use crate::unused::Unused;
use crate::wake::Wake;
use foreseek_places::Cached::LeftOut;
use foreseek_places::{
    Entries, Map, OrderBy, SharedDisk, blocks_of, entries_while, extents_of_directory, placed,
};
use foreseek_seam::{Extent, FetchId, ProcessId};
use foreseek_storage::fanotify::Marker;
use foreseek_storage::{HostFd, LowIoPriority, batch_scheduling, reclaimed, thread_reads, xfs_directory};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Lba, Pages};
use foreseek_walks::{
    DeviceNo, InDirectory, InodeFetch, Kind, ListCondition, Node, OPENED_LIMIT, Outcome, Part,
};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that list and look up. On ext4 the metadata was read from the disk beforehand and one would suffice.
/// Elsewhere each thread waits for the disk, and half of a SATA disk's queue of 32 is left for others.
pub(crate) const LISTERS: usize = 8;
/// Threads that look inodes up at a time, each the next one in the order of the disk: as many requests are in
/// the disk's queue.
const LOOKERS: usize = LISTERS;
/// After so many look-ups it looks again whether others read.
const LOOKS_EVERY: usize = 32;
/// Jobs that wait for each kind of thread: the most of eight walks of an engine, 128 listings each, and as many
/// look-ups of addresses in parts of [`PLACED`].
const QUEUE: usize = 1024;
/// Files whose addresses are looked up in one job.
const PLACED: usize = 256;
/// Files that the fetching thread keeps open, for files whose pieces lie among those of others.
pub(crate) const OPEN: usize = 64;
/// The time between two looks for deleted ones among them: a look takes some 0.02 ms.
const LET_GO: Duration = Duration::from_millis(10);
/// The block device is closed after this time without work.
const IDLE: Duration = Duration::from_secs(2);
/// The time between two looks who else reads while there is nothing to fetch. A look takes 0.05 ms, and what was read
/// ahead is used for longer.
const LOOK: Duration = Duration::from_millis(5);

/// The readers of the metadata of a disk's file systems.
type Metadata = foreseek_places::Metadata<DeviceNo>;

/// State shared by all threads of all disks.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) directories: Directories,
    pub(crate) counters: Counters,
    leases: Arc<LastLeases>,
    room: Arc<Room>,
    pub(crate) file_systems: RwLock<FxHashMap<DeviceNo, Arc<FileSystem>>>,
    pub(crate) unused: Mutex<Unused>,
    /// The most unused bytes that may be read for one user.
    pub(crate) allowance: Mutex<Bytes>,
    pub(crate) wake: Wake,
}

impl Shared {
    pub(crate) fn file_system(&self, number: DeviceNo) -> Option<Arc<FileSystem>> {
        let all = self.file_systems.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&number).cloned()
    }

    pub(crate) fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn allowance(&self) -> Bytes {
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach<'a>(&'a self, file_system: &'a FileSystem) -> Reach<'a> {
        Reach { file_system, directories: &self.directories, leases: &self.leases, counters: &self.counters }
    }
}

/// The addresses of a file, for the engine.
#[derive(Debug)]
pub(crate) struct PlacedFile {
    pub(crate) file: Node,
    pub(crate) length: Bytes,
    pub(crate) resident: Pages,
    pub(crate) residency_known: bool,
    pub(crate) missing: Vec<Extent>,
}

/// Where an inode is, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InodePlace {
    pub(crate) at: Option<Lba>,
    pub(crate) in_memory: bool,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A directory's entries, and where the inode of each is.
    Listed(Node, Arc<Listing>, Vec<InodePlace>),
    Unlistable(Node),
    /// The blocks of a directory that had to be read to list it.
    BlocksRead(Node, Vec<Extent>),
    Placed(Vec<PlacedFile>),
    Done(FetchId, Bytes, Outcome),
}

#[derive(Debug)]
enum Look {
    List(InDirectory, ListCondition),
    Place(Vec<InDirectory>),
    /// The time at which this was asked for: a directory that a program has opened since is of the next walk.
    Leave(Vec<Node>, Instant),
    CloseLeft,
}

/// A job for a thread that fetches.
#[derive(Debug)]
enum Job<T> {
    Fetch(FetchId, Vec<T>),
    CloseLeft,
}

type Looks = Arc<Mutex<Receiver<Look>>>;

/// The threads of one disk.
#[derive(Debug)]
pub(crate) struct Workers {
    looks: Option<SyncSender<Look>>,
    metadata: Option<SyncSender<Job<InodeFetch>>>,
    contents: Option<SyncSender<Job<Part>>>,
    answers: Receiver<Answer>,
    refused: Sender<Answer>,
    cancelled: Arc<Mutex<FxHashSet<FetchId>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        marker: Option<&Arc<Marker>>,
        disk: &Arc<SharedDisk>,
    ) -> std::io::Result<Self> {
        let (looks, looks_in) = sync_channel(QUEUE);
        let (metadata, metadata_in) = sync_channel(QUEUE);
        let (contents, contents_in) = sync_channel(QUEUE);
        let (answer, answers) = channel();
        let cancelled = Arc::new(Mutex::default());
        let mut workers = Self {
            looks: Some(looks),
            metadata: Some(metadata),
            contents: Some(contents),
            answers,
            refused: answer.clone(),
            cancelled,
            threads: Vec::new(),
        };
        let worker = || Worker {
            shared: shared.clone(),
            answer: answer.clone(),
            cancelled: workers.cancelled.clone(),
            disk: Arc::clone(disk),
        };
        let looks_in: Looks = Arc::new(Mutex::new(looks_in));
        let tables = Arc::new(Mutex::new(Metadata::default()));
        let mut started = Vec::new();
        for _ in 0..LISTERS {
            let (worker, looks, tables, marker) =
                (worker(), looks_in.clone(), tables.clone(), marker.cloned());
            started.push(spawn("watch-list", move || worker.look(&looks, &tables, marker.as_deref()))?);
        }
        let worker_of_metadata = worker();
        started.push(spawn("watch-inodes", move || worker_of_metadata.fetch_metadata_jobs(&metadata_in))?);
        let worker_of_contents = worker();
        started.push(spawn("watch-fetch", move || worker_of_contents.fetch_contents_jobs(&contents_in))?);
        workers.threads = started;
        Ok(workers)
    }

    pub(crate) fn list(&self, directory: InDirectory, condition: ListCondition) {
        if !give(self.looks.as_ref(), Look::List(directory, condition)) {
            self.refuse(Answer::Unlistable(directory.node));
        }
    }

    /// Ends reports of opened files in directories.
    pub(crate) fn leave(&self, directories: Vec<Node>) {
        // If the queue is full, they end when no walk is left.
        give(self.looks.as_ref(), Look::Leave(directories, Instant::now()));
    }

    /// Closes the block devices of file systems that were left, but not those that this disk still has.
    pub(crate) fn close_left(&self) {
        // If a queue is full, its thread closes them before its next job.
        give(self.looks.as_ref(), Look::CloseLeft);
        give(self.metadata.as_ref(), Job::CloseLeft);
        give(self.contents.as_ref(), Job::CloseLeft);
    }

    pub(crate) fn place(&self, files: &[InDirectory]) {
        for part in files.chunks(PLACED) {
            if !give(self.looks.as_ref(), Look::Place(part.to_vec())) {
                self.refuse(Answer::Placed(part.iter().map(|file| without_place(file.node)).collect()));
            }
        }
    }

    pub(crate) fn fetch_metadata(&self, fetch: FetchId, nodes: Vec<InodeFetch>) {
        if !give(self.metadata.as_ref(), Job::Fetch(fetch, nodes)) {
            self.refuse(Answer::Done(fetch, Bytes::ZERO, Outcome::Refused));
        }
    }

    pub(crate) fn fetch(&self, fetch: FetchId, parts: Vec<Part>) {
        if !give(self.contents.as_ref(), Job::Fetch(fetch, parts)) {
            self.refuse(Answer::Done(fetch, Bytes::ZERO, Outcome::Refused));
        }
    }

    /// The names of its threads that have failed: they end with this object.
    pub(crate) fn ended(&self) -> Vec<String> {
        let ended = self.threads.iter().filter(|thread| thread.is_finished());
        ended.map(|it| it.thread().name().unwrap_or("a thread").to_owned()).collect()
    }

    pub(crate) fn cancel(&self, fetch: FetchId) {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).insert(fetch);
    }

    pub(crate) fn answer(&self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        if let Answer::Done(fetch, ..) = &answer {
            self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).remove(fetch);
        }
        Some(answer)
    }

    fn refuse(&self, answer: Answer) {
        // The receiver is this object's own.
        let _ = self.refused.send(answer);
    }
}

impl Drop for Workers {
    /// Waits for each thread's request in progress: one at most, since the file systems were left before.
    fn drop(&mut self) {
        (self.looks, self.metadata, self.contents) = (None, None, None);
        for thread in self.threads.drain(..) {
            // The thread itself has reported a panic.
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        // It works without priorities as well.
        let _ = batch_scheduling();
        let _low = LowIoPriority::begin();
        work();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn give<T>(to: Option<&SyncSender<T>>, job: T) -> bool {
    to.is_some_and(|to| match to.try_send(job) {
        Ok(()) => true,
        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
    })
}

fn without_place(file: Node) -> PlacedFile {
    PlacedFile {
        file,
        length: Bytes::ZERO,
        resident: Pages::ZERO,
        residency_known: true,
        missing: Vec::new(),
    }
}

struct Worker {
    shared: Arc<Shared>,
    answer: Sender<Answer>,
    cancelled: Arc<Mutex<FxHashSet<FetchId>>>,
    disk: Arc<SharedDisk>,
}

impl Worker {
    fn notify(&self, answer: Answer) {
        // The receiver may be ending.
        let _ = self.answer.send(answer);
        self.shared.wake.wake();
    }

    fn look(&self, jobs: &Looks, tables: &Mutex<Metadata>, marker: Option<&Marker>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(IDLE);
            self.close_left(&mut tables.lock().unwrap_or_else(PoisonError::into_inner));
            match job {
                Ok(Look::List(directory, condition)) => self.list(directory, condition, tables),
                Ok(Look::Place(files)) => self.place(&files, tables),
                Ok(Look::Leave(directories, since)) => self.leave(&directories, since, marker),
                Ok(Look::CloseLeft) => {}
                Err(RecvTimeoutError::Timeout) => {
                    *tables.lock().unwrap_or_else(PoisonError::into_inner) = Metadata::default();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Closes the devices of file systems that were left.
    fn close_left(&self, metadata: &mut Metadata) {
        let all = self.shared.file_systems.read().unwrap_or_else(PoisonError::into_inner);
        metadata.retain(|number| all.contains_key(&number));
    }

    /// Ends reports of directories that a walk has finished, and drops their listings. Marks vanish together
    /// with their inodes.
    fn leave(&self, directories: &[Node], since: Instant, marker: Option<&Marker>) {
        for node in directories {
            if !self.shared.directories.forget(*node, since) {
                continue;
            }
            let Some(marker) = marker else { continue };
            let open = || {
                let known = self.shared.directories.get(*node).ok_or(Errno::STALE)?;
                let file_system = self.shared.file_system(node.device).ok_or(Errno::STALE)?;
                file_system.view()?.open(&known.handle, OFlags::PATH | OFlags::DIRECTORY)
            };
            let _ = open().and_then(|fd| marker.remove(fd.as_fd()));
        }
    }

    /// Lists a directory if the condition holds.
    fn list(&self, which: InDirectory, condition: ListCondition, tables: &Mutex<Metadata>) {
        let counters = &self.shared.counters;
        let listed = self.shared.file_system(which.node.device).and_then(|file_system| {
            if !self.may_list(&file_system, which, condition, tables) {
                return None;
            }
            // An xfs reads the first block of a directory when it is opened.
            let before = file_system.inodes.and_then(|_| thread_reads());
            let (directory, fd) = self.shared.reach(&file_system).directory(which).ok()?;
            let mut room = Taken::nothing_of(&self.shared.room);
            let goes_on = |all: &Entries| !file_system.is_left() && room.grow(all.memory_after_next());
            let mut entries = entries_while(fd.as_fd(), crate::directories::ENTRIES, goes_on).ok()?;
            if let Some(before) = before {
                self.report_blocks(which.node, &file_system, fd.as_fd(), before);
            }
            drop(fd);
            entries.names.shrink_to_fit();
            entries.list.shrink_to_fit();
            let listing = Arc::new(Listing::new(entries, &file_system.covered()).keeping(room));
            let places = places_of_inodes(&file_system, &listing, tables);
            self.shared.directories.listed(&directory, listing.clone()).then_some((listing, places))
        });
        match listed {
            Some((listing, places)) => {
                counters.listed.add(1);
                self.notify(Answer::Listed(which.node, listing, places));
            }
            None => {
                counters.unlistable.add(1);
                self.notify(Answer::Unlistable(which.node));
            }
        }
    }

    /// Whether a condition for listing a directory holds.
    fn may_list(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        condition: ListCondition,
        tables: &Mutex<Metadata>,
    ) -> bool {
        let in_memory = || self.is_in_memory(file_system, which, tables);
        let has_begun =
            |process: ProcessId| processes::has_begun(process.0, file_system.volume.device, which.node.inode);
        let is_small = || {
            let stat = self.shared.reach(file_system).stat_directory(which.node);
            // Where it cannot be examined, it cannot be listed either.
            stat.is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|it| it <= OPENED_LIMIT.get()))
        };
        match condition {
            ListCondition::Always => true,
            ListCondition::InMemory => in_memory(),
            ListCondition::Opened(process) => is_small() || has_begun(process) == Some(true) || in_memory(),
            ListCondition::UnlessPassedBy(process) => match has_begun(process) {
                Some(begun) => begun,
                None => is_small() || in_memory(),
            },
        }
    }

    /// Reports which blocks of a directory of xfs were read since this thread had read `before`.
    fn report_blocks(&self, node: Node, file_system: &FileSystem, directory: BorrowedFd<'_>, before: Bytes) {
        let read = thread_reads().is_some_and(|now| now > before);
        let Ok(mut blocks) = (if read { xfs_directory(directory) } else { Ok(Vec::new()) }) else {
            return self.shared.counters.failed.add(1);
        };
        let start = file_system.volume.backing.start;
        blocks.iter_mut().for_each(|block| block.lba += start);
        let bytes = blocks.iter().map(|block| block.pages).sum::<Pages>().bytes();
        self.shared.counters.metadata_bytes.add(bytes.get());
        // Where a block was read and none has an address, the charge falls to an average positioning.
        if !(read && blocks.is_empty()) {
            self.notify(Answer::BlocksRead(node, blocks));
        }
    }

    fn place(&self, which: &[InDirectory], tables: &Mutex<Metadata>) {
        let mut answers = Vec::with_capacity(which.len());
        let same = |a: &InDirectory, b: &InDirectory| a.directory == b.directory;
        for part in which.chunk_by(same).flat_map(|part| part.chunks(TOGETHER)) {
            let directory = part[0].directory;
            let Some(file_system) = self.shared.file_system(directory.device) else {
                answers.extend(part.iter().map(|which| without_place(which.node)));
                continue;
            };
            let (directories, files): (Vec<InDirectory>, Vec<InDirectory>) =
                part.iter().copied().partition(|it| self.is_directory(*it));
            let nodes: Vec<Node> = files.iter().map(|file| file.node).collect();
            let opened = self.shared.reach(&file_system).files(directory, &nodes);
            answers.extend(nodes.iter().zip(opened).map(|(file, opened)| match opened {
                Ok(opened) => map(&file_system, *file, &opened),
                Err(error) => {
                    self.count(error);
                    without_place(*file)
                }
            }));
            // The blocks of ext4's directories are looked up with a check of their own.
            let is_checked = directories.is_empty() || file_system.inodes.is_none();
            let may_search = is_checked || self.shared.reach(&file_system).may_search(directory);
            answers.extend(directories.into_iter().map(|which| {
                if may_search {
                    self.place_directory(&file_system, which, tables)
                } else {
                    without_place(which.node)
                }
            }));
        }
        self.shared.counters.placed.add(answers.len() as u64);
        self.notify(Answer::Placed(answers));
    }

    /// The addresses of a directory's blocks that are not in memory, if they can be read through the device. A
    /// directory of xfs without blocks is kept in its inode, and costs nothing to list. Where the blocks of others
    /// lie xfs tells only who has opened them, which reads the first.
    fn place_directory(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        tables: &Mutex<Metadata>,
    ) -> PlacedFile {
        let mut placed = without_place(which.node);
        if file_system.inodes.is_some() {
            placed.residency_known = false;
            let Ok(stat) = self.shared.reach(file_system).look_up(which) else { return placed };
            placed.resident = Pages(u64::from(stat.st_blocks == 0));
            // A directory's blocks of names end with its size; those of its index come in addition.
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            placed.length = Bytes(blocks.max(u64::try_from(stat.st_size).unwrap_or(0)));
            return placed;
        }
        for (extent, held) in self.blocks_of(file_system, which, tables).unwrap_or_default() {
            placed.length += extent.pages.bytes();
            if held {
                placed.resident += extent.pages;
            } else {
                placed.missing.push(Extent { lba: extent.lba + file_system.volume.backing.start, ..extent });
            }
        }
        placed
    }

    /// The blocks of a directory of ext4, and whether each extent is in memory; `None` if the device or the directory cannot
    /// be read.
    fn blocks_of(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        tables: &Mutex<Metadata>,
    ) -> Option<Vec<(Extent, bool)>> {
        let tables = || tables.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_reader(&mut tables(), file_system) {
            return None;
        }
        let (_, fd) = self.shared.reach(file_system).directory(which).ok()?;
        let extents = extents_of_directory(fd.as_fd());
        let tables = tables();
        Some(extents.into_iter().map(|it| (it, tables.holds(file_system.number, blocks_of(&it)))).collect())
    }

    /// Whether to list a directory reads nothing from the device. Elsewhere than on ext4 that is visible only of one that
    /// is kept in its inode.
    fn is_in_memory(&self, file_system: &FileSystem, which: InDirectory, tables: &Mutex<Metadata>) -> bool {
        let blocks = file_system.inodes.is_none().then(|| self.blocks_of(file_system, which, tables));
        if let Some(blocks) = blocks.flatten().filter(|blocks| !blocks.is_empty()) {
            return blocks.iter().all(|(_, held)| *held);
        }
        let stat = self.shared.reach(file_system).stat_directory(which.node);
        stat.is_ok_and(|stat| stat.st_blocks == 0)
    }

    /// Counts failures other than those with their own counter, and other than a file without blocks.
    fn count(&self, error: Errno) {
        if ![Errno::ACCESS, Errno::AGAIN, Errno::NODATA].contains(&error) {
            self.shared.counters.failed.add(1);
        }
    }

    /// Counts what the kernel reclaimed during a fetch, as far as the fetch may be the cause.
    fn count_reclaimed(&self, before: Bytes, fetched: Bytes) {
        if !fetched.is_zero() {
            let during = (reclaimed() - before).min(fetched);
            self.shared.counters.reclaimed_bytes.add(during.get());
        }
    }

    fn is_cancelled(&self, fetch: FetchId) -> bool {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).contains(&fetch)
    }

    fn fetch_metadata_jobs(&self, jobs: &Receiver<Job<InodeFetch>>) {
        let mut metadata = Metadata::default();
        loop {
            let job = jobs.recv_timeout(IDLE);
            self.close_left(&mut metadata);
            match job {
                Ok(Job::Fetch(fetch, nodes)) => {
                    let (before, others) = (metadata.bytes, reclaimed());
                    let (looked_up, outcome) = self.request_inodes(fetch, &nodes, &mut metadata);
                    // The engine learns how long it took.
                    metadata.wait();
                    let fetched_bytes = metadata.bytes - before + looked_up;
                    self.count_reclaimed(others, fetched_bytes);
                    self.shared.counters.metadata_bytes.add(fetched_bytes.get());
                    self.notify(Answer::Done(fetch, fetched_bytes, outcome));
                }
                Ok(Job::CloseLeft) => {}
                // Nothing is kept open without work.
                Err(RecvTimeoutError::Timeout) => metadata = Metadata::default(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Requests inodes; returns how many bytes were read to look them up.
    fn request_inodes(
        &self,
        fetch: FetchId,
        nodes: &[InodeFetch],
        metadata: &mut Metadata,
    ) -> (Bytes, Outcome) {
        let mut looked_up = Bytes::ZERO;
        let mut outcome = Outcome::Arrived;
        let same = |a: &InodeFetch, b: &InodeFetch| a.which.node.device == b.which.node.device;
        for part in nodes.chunk_by(same) {
            let file_system = self.shared.file_system(part[0].which.node.device);
            let Some(file_system) = file_system.filter(|it| !it.is_left() && !self.is_cancelled(fetch))
            else {
                outcome = Outcome::Partly;
                continue;
            };
            let reach = self.shared.reach(&file_system);
            let mut searched: FxHashMap<Node, bool> = FxHashMap::default();
            let may_look = |InodeFetch { which, .. }: &InodeFetch| {
                which.node == which.directory
                    || *searched.entry(which.directory).or_insert_with(|| reach.may_search(which.directory))
            };
            let mut permitted = part.to_vec();
            permitted.retain(may_look);
            let number = file_system.number;
            if has_reader(metadata, &file_system) {
                permitted.retain(|it| {
                    let block = metadata.address_of(number, it.which.node.inode);
                    block.is_some_and(|block| !metadata.holds(number, block))
                });
                self.disk.look();
                if self.disk.others_read() {
                    // In bursts, and nothing but their own blocks.
                    metadata.prefetch_inodes(number, permitted.iter().map(|it| it.which.node.inode));
                } else {
                    let blocks = Mutex::new(&mut *metadata);
                    looked_up +=
                        self.look_up(fetch, &file_system, Pages(1).bytes(), &permitted, Some(&blocks));
                }
            } else if let Some(geometry) = &file_system.inodes {
                looked_up += self.look_up(fetch, &file_system, geometry.cluster(), &permitted, None);
            }
        }
        (looked_up, outcome)
    }

    /// Looks inodes up in their order, which is that of the disk; returns how many bytes were read for that. `least` is
    /// read for one. Those that are wanted without their neighbours, those that are not found by their names, and all
    /// once others read, are requested as blocks of the device instead, if they can be.
    fn look_up(
        &self,
        fetch: FetchId,
        file_system: &FileSystem,
        least: Bytes,
        nodes: &[InodeFetch],
        blocks: Option<&Mutex<&mut Metadata>>,
    ) -> Bytes {
        let reach = self.shared.reach(file_system);
        let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
        let request_block = |blocks: &Mutex<&mut Metadata>, inode: u64| {
            let metadata = &mut *blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let before = metadata.bytes;
            metadata.prefetch_inodes(file_system.number, [inode]);
            metadata.bytes - before
        };
        let look = || {
            let before = thread_reads();
            let (mut asked, mut as_blocks) = (Bytes::ZERO, Bytes::ZERO);
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(InodeFetch { which, together }) = nodes.get(at) else { break };
                if self.is_cancelled(fetch) || file_system.is_left() {
                    break;
                }
                if at.is_multiple_of(LOOKS_EVERY) {
                    self.disk.look();
                }
                let as_block = blocks.filter(|_| !together || self.disk.others_read());
                if as_block.is_none() && reach.look_up(*which).is_ok() {
                    asked += least;
                } else if let Some(blocks) = blocks {
                    // The block of one that is gone by now holds inodes of others.
                    as_blocks += request_block(blocks, which.node.inode);
                }
            }
            // A kernel that does not account for reads: what was requested.
            let bytes =
                thread_reads().zip(before).map_or(asked, |(after, before)| after - before - as_blocks);
            read.fetch_add(bytes.get(), Relaxed);
        };
        std::thread::scope(|scope| {
            for _ in 1..LOOKERS.min(nodes.len()) {
                // With fewer threads it takes longer.
                let _ = std::thread::Builder::new().name("watch-look".to_owned()).spawn_scoped(scope, look);
            }
            look();
        });
        Bytes(read.into_inner())
    }

    fn is_directory(&self, which: InDirectory) -> bool {
        let listing = self.shared.directories.get(which.directory).and_then(|above| above.listing());
        let listed = listing.and_then(|listing| Some(listing.find(which.node.inode)?.1));
        which.node == which.directory || listed == Some(Kind::Directory)
    }

    /// The next job after another one. Until then it looks who else reads: the disk is often idle.
    fn next_job<T>(&self, jobs: &Receiver<T>) -> Result<T, RecvTimeoutError> {
        let begun = Instant::now();
        loop {
            match jobs.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < IDLE => self.disk.look(),
                other => return other,
            }
        }
    }

    fn fetch_contents_jobs(&self, jobs: &Receiver<Job<Part>>) {
        let mut metadata = Metadata::default();
        let mut worked = false;
        loop {
            let job = if worked { self.next_job(jobs) } else { jobs.recv_timeout(IDLE) };
            self.close_left(&mut metadata);
            match job {
                Ok(Job::Fetch(fetch, parts)) => {
                    worked = true;
                    let (before, others) = (metadata.bytes, reclaimed());
                    let (contents, outcome) = self.request_parts(fetch, &parts, &mut metadata);
                    let blocks = metadata.bytes - before;
                    self.count_reclaimed(others, contents + blocks);
                    self.shared.counters.content_bytes.add(contents.get());
                    self.shared.counters.metadata_bytes.add(blocks.get());
                    self.notify(Answer::Done(fetch, contents + blocks, outcome));
                }
                Ok(Job::CloseLeft) => {}
                Err(RecvTimeoutError::Timeout) => (metadata, worked) = (Metadata::default(), false),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Requests parts of files and blocks of directories; returns how many bytes of files were requested.
    fn request_parts(&self, fetch: FetchId, parts: &[Part], metadata: &mut Metadata) -> (Bytes, Outcome) {
        let mut files = Files { worker: self, open: VecDeque::with_capacity(OPEN), looked: Instant::now() };
        let mut fetched_bytes = Bytes::ZERO;
        let mut outcome = Outcome::Arrived;
        for part in parts {
            let file_system = self.shared.file_system(part.file.node.device);
            let Some(file_system) = file_system.filter(|it| !it.is_left() && !self.is_cancelled(fetch))
            else {
                outcome = Outcome::Partly;
                break;
            };
            let asked = if self.is_directory(part.file) {
                self.request_directory(&file_system, part, metadata).map(|()| Bytes::ZERO)
            } else {
                files.request(&file_system, part)
            };
            match asked {
                Ok(bytes) => fetched_bytes += bytes,
                Err(Errno::DQUOT) => {
                    self.shared.counters.over_allowance.add(1);
                    outcome = if fetched_bytes.is_zero() { Outcome::Refused } else { Outcome::Partly };
                    break;
                }
                Err(error) => {
                    self.count(error);
                    outcome = Outcome::Partly;
                }
            }
        }
        (fetched_bytes, outcome)
    }

    fn request_directory(
        &self,
        file_system: &FileSystem,
        part: &Part,
        metadata: &mut Metadata,
    ) -> Result<(), Errno> {
        // Checks that it is still there, and may be listed.
        self.shared.reach(file_system).directory(part.file)?;
        let start = file_system.volume.backing.start;
        let at = Lba(part.lba.get().checked_sub(start.get()).ok_or(Errno::INVAL)?);
        if has_reader(metadata, file_system) {
            metadata.prefetch(file_system.number, vec![ByteSpan::at(at.offset(), part.pages.len().bytes())]);
        }
        Ok(())
    }
}

/// The files that the fetching thread has open.
struct Files<'a> {
    worker: &'a Worker,
    open: VecDeque<(Node, Opened)>,
    /// When deleted ones were let go last.
    looked: Instant,
}

impl Files<'_> {
    /// Requests a part; returns how many bytes were requested.
    ///
    /// # Errors
    /// EDQUOT if the user's allowance is used up; otherwise the error of the open or the request.
    fn request(&mut self, file_system: &FileSystem, part: &Part) -> Result<Bytes, Errno> {
        if self.looked.elapsed() >= LET_GO {
            let_go(&mut self.open);
            self.looked = Instant::now();
        }
        let call = file_system.volume.backing.call_length();
        let shared = self.worker.shared.clone();
        let opened = self.opened(file_system, part)?;
        let (allowance, now) = (shared.allowance(), Instant::now());
        if !shared.unused().may_read(opened.user, allowance, now) {
            return Err(Errno::DQUOT);
        }
        let fd = HostFd::new(opened.fd.as_raw_fd()).ok_or(Errno::BADF)?;
        let asked = file_system.volume.disk.will_need(fd, part.pages.bytes(), call, Some(part.lba))?;
        shared.unused().read(opened.user, part.file.node, asked, allowance, now);
        Ok(asked)
    }

    fn opened(&mut self, file_system: &FileSystem, part: &Part) -> Result<&Opened, Errno> {
        let file = part.file.node;
        if let Some(at) = self.open.iter().rposition(|(known, _)| *known == file) {
            return Ok(&self.open[at].1);
        }
        let reach = self.worker.shared.reach(file_system);
        let opened = reach.files(part.file.directory, &[file]).pop().unwrap_or(Err(Errno::STALE))?;
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back((file, opened));
        self.open.back().map(|(_, opened)| opened).ok_or(Errno::BADF)
    }
}

/// Closes deleted files: their blocks are free only then.
fn let_go(open: &mut VecDeque<(Node, Opened)>) {
    open.retain(|(_, file)| rustix::fs::fstat(&file.fd).is_ok_and(|stat| stat.st_nlink > 0));
}

fn map(file_system: &FileSystem, file: Node, opened: &Opened) -> PlacedFile {
    let length = Bytes(u64::try_from(opened.stat.st_size).unwrap_or(0));
    let Some(fd) = HostFd::new(opened.fd.as_raw_fd()) else { return without_place(file) };
    let map = Map::of(fd, length, file_system.volume.by == OrderBy::Address, LeftOut);
    let runs = map.layout.as_ref().map_or_else(
        |_| Vec::new(),
        |layout| placed(layout, &map.missing, file_system.volume.backing.start, length),
    );
    let missing =
        runs.iter().map(|run| Extent { page: run.pages.start, pages: run.pages.len(), lba: run.lba });
    PlacedFile { file, length, resident: map.resident, residency_known: true, missing: missing.collect() }
}

/// Whether the metadata of a file system can be read through its device, which is open from then on. One that was left
/// is not opened again.
fn has_reader(metadata: &mut Metadata, file_system: &FileSystem) -> bool {
    let reads = !file_system.is_left() && metadata.reads(file_system.number, &file_system.volume);
    if file_system.is_left() {
        metadata.retain(|number| number != file_system.number);
    }
    reads && !file_system.is_left()
}

/// Where a listing's inodes are: the address on ext4 and xfs, on ext4 also whether it is in memory.
fn places_of_inodes(
    file_system: &FileSystem,
    listing: &Listing,
    tables: &Mutex<Metadata>,
) -> Vec<InodePlace> {
    let number = file_system.number;
    let start = file_system.volume.backing.start;
    let inodes = listing.iter().map(|(_, _, inode)| inode);
    if let Some(geometry) = &file_system.inodes {
        let place = |inode| Some(geometry.cluster_of(inode)?.start.lba() + start);
        return inodes.map(|inode| InodePlace { at: place(inode), in_memory: false }).collect();
    }
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    if !has_reader(&mut tables, file_system) {
        return vec![InodePlace::default(); listing.len()];
    }
    // Most of a directory lie in a few blocks.
    let mut held: FxHashMap<ByteOffset, bool> = FxHashMap::default();
    let mut place = |inode| {
        let block = tables.address_of(number, inode)?;
        let in_memory = *held.entry(block.start).or_insert_with(|| tables.holds(number, block));
        Some(InodePlace { at: Some(block.start.lba() + start), in_memory })
    };
    inodes.map(|inode| place(inode).unwrap_or_default()).collect()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::mounts::{mounts, one_each};
    use crate::room::LISTINGS;
    use foreseek_storage::{Credentials, DeviceNumber, FileHandle};
    use std::fs::{self, File};
    use std::path::Path;

    /// A worker, its answers, and the file system of a directory; `None`, with a message, if it cannot work here.
    fn worker(place: &Path) -> Option<(Worker, Receiver<Answer>, Arc<FileSystem>)> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: opening by handle needs root");
            return None;
        }
        let device = DeviceNumber::from_raw(rustix::fs::stat(place).unwrap().st_dev);
        let all = mounts(&fs::read("/proc/self/mountinfo").unwrap());
        let Some(mount) = one_each(&all).into_iter().find(|mount| mount.device == device) else {
            println!("SKIPPED: /var/tmp is on no mount of its own device");
            return None;
        };
        let file_system = FileSystem::at(&mount.point, DeviceNo(0), foreseek_places::Volume::of).unwrap();
        let file_system = Arc::new(file_system);
        let shared = Arc::new(Shared::default());
        shared.file_systems.write().unwrap().insert(file_system.number, file_system.clone());
        let (answer, answers) = channel();
        let disk = file_system.volume.disk.clone();
        Some((Worker { shared, answer, cancelled: Arc::default(), disk }, answers, file_system))
    }

    #[test]
    fn a_directory_is_listed_where_there_is_room_for_its_entries() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(place.path().join("file"), "text").unwrap();
        let Some((worker, answers, file_system)) = worker(place.path()) else { return };
        let directory = file_system.node(rustix::fs::stat(place.path()).unwrap().st_ino);
        let handle = FileHandle::of(File::open(place.path()).unwrap().as_fd()).unwrap();
        let own = Arc::new(Credentials::of(std::process::id()).unwrap());
        worker.shared.directories.opened(directory, handle, None, own, Instant::now());
        let which = InDirectory { node: directory, directory };
        let list = || {
            worker.list(which, ListCondition::Always, &Mutex::default());
            answers.try_iter().find(|answer| !matches!(answer, Answer::BlocksRead(..))).unwrap()
        };
        let mut others = Taken::nothing_of(&worker.shared.room);
        assert!(others.grow(LISTINGS));
        assert!(matches!(list(), Answer::Unlistable(_)));
        others.shrink(LISTINGS / 2);
        let Answer::Listed(_, listing, _) = list() else { panic!("there is room") };
        assert_eq!(listing.len(), 1);
        // A small listing keeps little, for as long as there is one.
        assert!(others.grow(LISTINGS - 256) && !others.grow(LISTINGS));
        drop(listing);
        worker.shared.directories.retain(|_| false);
        assert!(others.grow(LISTINGS));
        // One of a file system that is left is given up.
        drop(others);
        file_system.leave();
        assert!(matches!(list(), Answer::Unlistable(_)));
    }

    #[test]
    fn a_thread_that_has_failed_is_named() {
        let (_, answers) = channel();
        let (refused, _) = channel();
        let wait = || std::thread::park();
        let threads = vec![spawn("watch-list", wait).unwrap(), spawn("watch-fetch", || ()).unwrap()];
        let (looks, metadata, contents, cancelled) = (None, None, None, Arc::default());
        let workers = Workers { looks, metadata, contents, answers, refused, cancelled, threads };
        while workers.ended().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(workers.ended(), ["watch-fetch"]);
        workers.threads[0].thread().unpark();
    }

    #[test]
    fn files_that_are_deleted_while_they_are_open_are_let_go() {
        let place = tempfile::tempdir().unwrap();
        let paths = ["kept", "deleted", "linked"].map(|name| place.path().join(name));
        let opened = |(number, path): (u64, &std::path::PathBuf)| {
            fs::write(path, "text").unwrap();
            let fd = std::os::fd::OwnedFd::from(File::open(path).unwrap());
            let stat = rustix::fs::fstat(&fd).unwrap();
            (Node { device: DeviceNo(0), inode: number }, Opened { fd, stat, user: 0 })
        };
        let mut open: VecDeque<(Node, Opened)> = (0..).zip(&paths).map(opened).collect();
        fs::remove_file(&paths[1]).unwrap();
        fs::hard_link(&paths[2], place.path().join("another")).unwrap();
        fs::remove_file(&paths[2]).unwrap();
        let_go(&mut open);
        assert_eq!(open.iter().map(|(node, _)| node.inode).collect::<Vec<_>>(), [0, 2]);
    }
}
