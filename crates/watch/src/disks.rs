//! The disks below the watched file systems: each has one engine, and threads that work for it.

use crate::attention::Attention;
use crate::division::{Share, divide};
use crate::engine::MakeEngine;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::handles::DirectoryOpened;
use crate::recorded::{self, RECORDINGS, Recorded};
use crate::waiting::Waiting;
use crate::work::{Answer, Shared, Workers};
use crate::{Engine, Options};
use foreseek_places::{SharedDisk, costs_of};
use foreseek_storage::fanotify::Marker;
use foreseek_storage::{DeviceNumber, DiskLoad};
use foreseek_units::{Bytes, Instant};
use foreseek_walks::{Command, DeviceNo, Entry, Event, InodeReads, Placed, Settings, Stopped, WalkStatus};
use rustc_hash::FxHashSet;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The most disks with an engine: each has ten threads.
pub(crate) const DISKS: usize = 16;

/// One disk.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) number: DeviceNumber,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) shared: Arc<SharedDisk>,
    workers: Workers,
    /// Whether all opens of files are observed; never if the kernel does not count the work of the disk.
    attention: Attention,
    load: Option<DiskLoad>,
    /// How many of its threads are known to have failed.
    ended: usize,
    /// Opens of directories that wait until it reads.
    waiting: Waiting<DirectoryOpened>,
    file_systems: FxHashSet<DeviceNo>,
    /// Its part of the memory limit.
    pub(crate) share: Share,
}

/// All of them.
pub(crate) struct Disks {
    pub(crate) list: Vec<Disk>,
    shared: Arc<Shared>,
    /// Through it, opens of files are reported; `None` for a server that reports all opens itself.
    marker: Option<Arc<Marker>>,
    make: Box<MakeEngine>,
    profile: Option<String>,
    record: Option<PathBuf>,
    /// The disks of the recordings so far.
    recorded: Vec<DeviceNumber>,
    /// Whether opens of files may be reported.
    reporting: bool,
}

impl Disks {
    pub(crate) fn new(
        shared: Arc<Shared>,
        marker: Option<Marker>,
        make: Box<MakeEngine>,
        options: &Options,
    ) -> Self {
        let (profile, record) = (options.profile.clone(), options.record.clone());
        let (list, marker) = (Vec::new(), marker.map(Arc::new));
        Self { list, shared, marker, make, profile, record, recorded: Vec::new(), reporting: false }
    }

    /// A file system is watched from now on.
    ///
    /// # Errors
    /// There are too many disks, threads cannot be started, or a recording that is wanted cannot be made.
    pub(crate) fn add(&mut self, file_system: &FileSystem, window: Bytes) -> Result<()> {
        let backing = &file_system.volume.backing;
        if let Some(known) = self.list.iter_mut().find(|disk| disk.number == backing.disk) {
            known.file_systems.insert(file_system.number);
            return Ok(());
        }
        if self.list.len() >= DISKS {
            return Err(Error::Nothing(format!("{DISKS} disks are watched already")));
        }
        let costs = costs_of(self.profile.as_deref(), backing.length)?;
        let settings = Settings { budget: window, ..Settings::default() };
        let mut engine = (self.make)(settings, costs);
        let shared = Arc::clone(&file_system.volume.disk);
        let workers = Workers::start(&self.shared, self.marker.as_ref(), &shared, settings.file_limit)
            .map_err(|error| Error::System {
                operation: "cannot start a thread",
                cause: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
            })?;
        if let Some(record) = self.record.as_ref().filter(|_| self.recorded.len() < RECORDINGS) {
            let earlier = self.recorded.iter().filter(|disk| **disk == backing.disk).count();
            let name = recorded::name(record, backing.disk, earlier);
            engine = Box::new(Recorded::new(engine, &settings, name)?);
            self.recorded.push(backing.disk);
        }
        let file_systems = FxHashSet::from_iter([file_system.number]);
        let (attention, load) = (Attention::default(), DiskLoad::of(backing.disk));
        self.list.push(Disk {
            number: backing.disk,
            engine,
            shared,
            workers,
            attention,
            load,
            ended: 0,
            waiting: Waiting::default(),
            file_systems,
            share: Share::default(),
        });
        Ok(())
    }

    /// A file system was unmounted. A disk without file systems is dropped: its threads end by themselves.
    pub(crate) fn remove(&mut self, file_system: &FileSystem) {
        let Some(at) = self.list.iter().position(|disk| disk.number == file_system.volume.backing.disk)
        else {
            return;
        };
        let disk = &mut self.list[at];
        disk.file_systems.remove(&file_system.number);
        if disk.file_systems.is_empty() {
            let disk = self.list.swap_remove(at);
            // The drop waits for requests of its threads; this thread must not wait.
            let _ = std::thread::Builder::new().name("watch-end".to_owned()).spawn(move || drop(disk));
        } else {
            disk.workers.close_left();
        }
    }

    /// Passes an event on a file system to the engine of its disk.
    pub(crate) fn notify(&mut self, number: DeviceNo, now: Instant, event: Event<'_>) {
        let found = self.list.iter_mut().find(|disk| disk.file_systems.contains(&number));
        if let Some(disk) = found {
            disk.notify(now, event, &self.shared, self.marker.as_deref());
        }
    }

    /// Whether no disk read anything at the last look.
    pub(crate) fn all_rest(&self) -> bool {
        self.list.iter().all(|disk| disk.waiting.rests())
    }

    /// Whether opens of directories on the disk of a file system wait.
    pub(crate) fn rests(&self, number: DeviceNo) -> bool {
        self.list.iter().any(|disk| disk.holds(number) && disk.waiting.rests())
    }

    /// An open waits until its disk reads.
    pub(crate) fn wait(&mut self, now: Instant, opened: DirectoryOpened) {
        let number = opened.file_system.number;
        if let Some(disk) = self.list.iter_mut().find(|disk| disk.holds(number)) {
            disk.waiting.push(now, opened);
        }
    }

    /// Looks which disks read, and returns the opens that have waited for that.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<DirectoryOpened> {
        let mut all = Vec::new();
        for disk in &mut self.list {
            let load = disk.load.as_ref();
            let reads = || load.and_then(|load| Some([load.work()?.reads, load.reads_in_flight()?]));
            disk.waiting.look(now, || disk.engine.is_at_rest(now), reads);
            self.shared.counters.unexamined.add(disk.waiting.expire(now) as u64);
            all.extend(disk.waiting.take());
        }
        all
    }

    /// Whether a disk was found to read.
    pub(crate) fn is_any_reading(&self) -> bool {
        self.list.iter().any(|disk| disk.waiting.is_reading())
    }

    /// Programs may have opened directories without a report: all opens of files are observed on the disks that read.
    /// Returns whether that changes anything.
    pub(crate) fn attend_at_once(&mut self, now: Instant) -> bool {
        let reading = self.list.iter_mut().filter(|disk| disk.load.is_some() && disk.waiting.is_reading());
        reading.fold(false, |changed, disk| changed | disk.attention.begin(now))
    }

    /// When to look next even if there is no event until then.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Duration> {
        self.list.iter().filter_map(|disk| disk.waiting.next_look(now)).min()
    }

    /// A file was opened while all opens on a disk are observed.
    pub(crate) fn attended(&mut self, number: DeviceNo) {
        let found = self.list.iter_mut().find(|disk| disk.holds(number));
        if let Some(disk) = found {
            disk.attention.opened(1);
        }
    }

    /// All opens of files are observed on no disk, and for a while on none.
    pub(crate) fn attend_no_more(&mut self, now: Instant) {
        self.list.iter_mut().for_each(|disk| disk.attention.pause(now));
    }

    /// Passes an event to every engine.
    pub(crate) fn notify_all(&mut self, now: Instant, event: Event<'_>) {
        for disk in &mut self.list {
            disk.notify(now, event, &self.shared, self.marker.as_deref());
        }
    }

    /// Tells each disk its part of the memory limit, where that has changed.
    pub(crate) fn divide(&mut self, now: Instant, limit: Bytes) {
        self.list.iter_mut().for_each(|disk| disk.share.look(now, disk.engine.held()));
        let mut shares: Vec<&mut Share> = self.list.iter_mut().map(|disk| &mut disk.share).collect();
        for at in divide(limit, &mut shares) {
            let disk = &mut self.list[at];
            let event = Event::Budget { bytes: disk.share.part };
            disk.notify(now, event, &self.shared, self.marker.as_deref());
        }
    }

    /// Passes answers on, at most `most` a disk, and ticks that are due. Returns whether there may be more
    /// answers.
    pub(crate) fn answer(&mut self, now: Instant, most: usize) -> bool {
        let mut more = false;
        for disk in &mut self.list {
            let mut taken = 0;
            while let Some(answer) = disk.workers.answer() {
                disk.pass_on(now, answer, &self.shared, self.marker.as_deref());
                taken += 1;
                if taken >= most {
                    more = true;
                    break;
                }
            }
            if disk.deadline().is_some_and(|deadline| deadline <= now) {
                disk.notify(now, Event::Tick, &self.shared, self.marker.as_deref());
            }
        }
        more
    }

    /// Ends reports of opened files if there are no walks.
    pub(crate) fn rest(&mut self) {
        let walks = self.list.iter().any(|disk| !disk.engine.status().walks.is_empty());
        if self.reporting
            && !walks
            && let Some(marker) = &self.marker
        {
            marker.flush();
            self.shared.directories.rest();
        }
        self.reporting = walks;
    }

    /// Says once of each thread that it has failed.
    pub(crate) fn report_ended(&mut self) {
        for disk in &mut self.list {
            let ended = disk.ended();
            if ended.len() > disk.ended {
                let number = disk.number;
                tracing::error!(
                    "threads of disk {number} have failed ({}): what they did is not done any more; restart the watcher",
                    ended.join(", ")
                );
                disk.ended = ended.len();
            }
        }
    }

    /// Whether events may wait: wherever programs walk, they find everything in memory.
    pub(crate) fn are_quiet(&self) -> bool {
        self.list.iter().all(|disk| disk.engine.is_quiet() || !disk.waiting.is_empty())
    }

    /// The time of the next tick.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.list.iter().filter_map(Disk::deadline).min()
    }
}

impl Disk {
    /// The time of its next tick. A walk whose opens wait is not over.
    fn deadline(&self) -> Option<Instant> {
        self.engine.deadline().filter(|_| self.waiting.is_empty())
    }

    /// Whether a file system lies on it.
    pub(crate) fn holds(&self, number: DeviceNo) -> bool {
        self.file_systems.contains(&number)
    }

    /// The names of its threads that have failed.
    pub(crate) fn ended(&self) -> Vec<String> {
        self.workers.ended()
    }

    /// Whether all opens of files on it are observed.
    pub(crate) fn observes_all(&self) -> bool {
        self.attention.is_on()
    }

    /// Looks whether all opens are to be observed from now on; returns whether that changes.
    pub(crate) fn attend(&mut self, now: Instant) -> bool {
        if !self.attention.is_due(now) {
            return false;
        }
        let before = self.attention.is_on();
        let walks = self.engine.status().walks;
        let is_of_list = |walk: &&WalkStatus| walk.has_list && !walk.opens_directories;
        let of_lists = walks.iter().filter(is_of_list).filter(|walk| walk.stopped != Stopped::InMemory);
        let used = of_lists.map(|walk| walk.used).sum();
        let others = walks.iter().filter(|walk| !is_of_list(walk));
        let listed = others.map(|walk| walk.directories + walk.files).sum();
        // Of a disk that is gone nothing is known.
        let work = self.load.as_ref().and_then(DiskLoad::work).unwrap_or_default();
        self.attention.look(now, work, used, listed) != before
    }

    fn notify(&mut self, now: Instant, event: Event<'_>, shared: &Shared, marker: Option<&Marker>) {
        let mut forgotten = Vec::new();
        for command in self.engine.on(now, event) {
            match command {
                Command::Forget { directory } => forgotten.push(directory),
                command => self.carry_out(command, shared, marker),
            }
        }
        if !forgotten.is_empty() {
            self.workers.leave(forgotten);
        }
    }

    fn pass_on(&mut self, now: Instant, answer: Answer, shared: &Shared, marker: Option<&Marker>) {
        match answer {
            Answer::Listed(directory, listing, places) => {
                let node = |inode| foreseek_walks::Node { device: directory.device, inode };
                let entries: Vec<Entry<'_>> = listing
                    .iter()
                    .zip(places)
                    .map(|((name, kind, inode), place)| Entry {
                        node: node(inode),
                        kind,
                        name,
                        inode_at: place.at,
                        inode_in_memory: place.in_memory,
                    })
                    .collect();
                let file_system = shared.file_system(directory.device);
                let inodes = file_system.map_or(InodeReads::EXT4, |it| it.inode_reads);
                self.notify(now, Event::Listed { directory, entries: &entries, inodes }, shared, marker);
            }
            Answer::Unlistable(directory) => {
                self.notify(now, Event::Unlistable { directory }, shared, marker);
            }
            Answer::BlocksRead(directory, blocks) => {
                self.notify(now, Event::BlocksRead { directory, blocks: &blocks }, shared, marker);
            }
            Answer::Placed(files) => {
                let files: Vec<Placed<'_>> = files
                    .iter()
                    .map(|file| Placed {
                        file: file.file,
                        length: file.length,
                        resident: file.resident,
                        residency_known: file.residency_known,
                        missing: &file.missing,
                    })
                    .collect();
                self.notify(now, Event::Placed { files: &files }, shared, marker);
            }
            Answer::Done(fetch, fetched_bytes, outcome) => {
                self.notify(now, Event::Done { fetch, fetched_bytes, outcome }, shared, marker);
            }
        }
    }

    fn carry_out(&self, command: Command, shared: &Shared, marker: Option<&Marker>) {
        match command {
            Command::List { directory, condition } => self.workers.list(directory, condition),
            Command::FetchMetadata { fetch, nodes } => self.workers.fetch_metadata(fetch, nodes),
            Command::Place { files } => self.workers.place(&files),
            Command::Fetch { fetch, parts } => self.workers.fetch(fetch, parts),
            Command::Cancel { fetch } => self.workers.cancel(fetch),
            Command::Forget { directory } => self.workers.leave(vec![directory]),
            Command::WatchOpens { directory, on } => report_opens(directory, on, shared, marker),
        }
    }
}

/// Starts or ends reports of opened files in a directory. The directory was opened by a program or listed, so
/// that its handle is known and its inode is in memory.
fn report_opens(directory: foreseek_walks::Node, on: bool, shared: &Shared, marker: Option<&Marker>) {
    let Some(marker) = marker else { return };
    let mark = || -> Result<(), Errno> {
        let known = shared.directories.get(directory).ok_or(Errno::STALE)?;
        let file_system = shared.file_system(directory.device).ok_or(Errno::STALE)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let fd = file_system.view()?.open(&known.handle, flags)?;
        known.set_reported(false);
        if !on {
            return marker.remove(fd.as_fd());
        }
        marker.add(fd.as_fd())?;
        known.set_reported(true);
        Ok(())
    };
    match mark() {
        // The mark was removed with its inode.
        Err(Errno::NOENT | Errno::STALE) if !on => {}
        Err(_) => shared.counters.failed.add(1),
        Ok(()) => {}
    }
}
