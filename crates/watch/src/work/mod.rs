//! The work for an engine, and the threads of one disk that do it.
//!
//! | threads | work |
//! |---|---|
//! | [`LISTERS`] | list directories; look up where files lie |
//! | one | inodes: by looking them up, with several threads while it does. On ext4 the kernel reads the neighbours with each ([`foreseek_walks::InodeReads`]). Single blocks, and all while others read from the disk: through ext4's block device |
//! | one | contents, and blocks of directories through the block device, in the order that the engine gives: `WILLNEED`, which waits while the disk's queue is full. Files in a row on the disk go out [together](foreseek_places::Requests) |
//!
//! All have the lowest ordinary I/O priority ([`LowIoPriority`]): under BFQ programs' own requests get four times their share, and
//! other schedulers treat both alike. The idle class would let a fetch, and the walker with it, wait behind every
//! other reader.
//!
//! Bounds: [`QUEUE`] jobs a queue; further jobs are refused, and the engine retries. Each thread has few
//! descriptors open ([`TOGETHER`](crate::reach::TOGETHER), [`OPEN`]).

mod contents;
mod inodes;
mod lists;
mod places;

use crate::aside::Aside;
use crate::counters::Counters;
use crate::directories::{Directories, Listing};
use crate::file_system::FileSystem;
use crate::leases::LastLeases;
use crate::reach::Reach;
use crate::room::Room;
use crate::unused::Unused;
use crate::wake::Wake;
use foreseek_places::SharedDisk;
use foreseek_seam::{Extent, FetchId};
use foreseek_storage::fanotify::Marker;
use foreseek_storage::{LowIoPriority, batch_scheduling, reclaimed};
use foreseek_units::{Bytes, Lba, Pages};
use foreseek_walks::{DeviceNo, InDirectory, InodeFetch, Kind, ListCondition, Node, Outcome, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that list and look up. On ext4 the metadata was read from the disk beforehand and one would suffice.
/// Elsewhere each thread waits for the disk, and half of a SATA disk's queue of 32 is left for others.
pub(crate) const LISTERS: usize = 8;
/// Jobs that wait for each kind of thread: the listings that an engine requests at a time (640), and look-ups of
/// addresses in parts of [`PLACED`].
const QUEUE: usize = 1024;
/// Files whose addresses are looked up in one job.
const PLACED: usize = 256;
/// Files that the fetching thread keeps open, for files whose pieces lie among those of others.
pub(crate) const OPEN: usize = 64;
/// The block device is closed after this time without work.
const IDLE: Duration = Duration::from_secs(2);
/// The readers of the metadata of a disk's file systems.
type Metadata = foreseek_places::Metadata<DeviceNo>;

/// State shared by all threads of all disks.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) directories: Directories,
    pub(crate) counters: Counters,
    leases: Arc<LastLeases>,
    room: Arc<Room>,
    aside: Aside,
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
    /// Starts the threads. `most` is fetched of a file.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        marker: Option<&Arc<Marker>>,
        disk: &Arc<SharedDisk>,
        most: Bytes,
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
            most,
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
    /// The most that is fetched of a file, from its start.
    most: Bytes,
}

impl Worker {
    /// One that works for the disk of the first of these file systems.
    #[cfg(test)]
    fn for_tests(file_systems: &[&Arc<FileSystem>], answer: Sender<Answer>) -> Self {
        let shared = Arc::new(Shared::default());
        *shared.allowance.lock().unwrap() = Bytes::gib(1);
        shared
            .file_systems
            .write()
            .unwrap()
            .extend(file_systems.iter().map(|it| (it.number, Arc::clone(it))));
        let disk = Arc::clone(&file_systems[0].volume.disk);
        Self { shared, answer, cancelled: Arc::default(), disk, most: Bytes::mib(8) }
    }

    fn notify(&self, answer: Answer) {
        // The receiver may be ending.
        let _ = self.answer.send(answer);
        self.shared.wake.wake();
    }

    /// Closes the devices of file systems that were left.
    fn close_left(&self, metadata: &mut Metadata) {
        let all = self.shared.file_systems.read().unwrap_or_else(PoisonError::into_inner);
        metadata.retain(|number| all.get(&number).is_some_and(|file_system| !file_system.is_left()));
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

    fn is_directory(&self, which: InDirectory) -> bool {
        let listing = self.shared.directories.get(which.directory).and_then(|above| above.listing());
        let listed = listing.and_then(|listing| Some(listing.find(which.node.inode)?.1));
        which.node == which.directory || listed == Some(Kind::Directory)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
