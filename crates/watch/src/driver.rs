//! The thread that receives opens, passes them to the engines, and has their commands carried out.
//!
//! It leaves work on the disk to [`crate::work`]. Of opened directories it looks up those above, and opened files by
//! their names: that reads only what has left memory since the open. It waits for several things at once: opens of directories, opens
//! of files in directories of walks, opens of all files where a disk seeks ([`crate::attention`]), changes of mounts,
//! and answers.
//!
//! At rest, each directory that a program opens costs one event, one look-up of the process every 100 ms, and
//! one of the directory above (by handle, without a listing). While the disk reads nothing there are no look-ups of
//! directories ([`crate::waiting`]), and no events either once programs open many ([`crate::silence`]).

use crate::Result;
use crate::budget::{Budget, window_of};
use crate::disks::Disks;
use crate::handles::{DirectoryOpened, file_of};
use crate::mounts::{Look, Pace};
use crate::processes::Processes;
use crate::silence::Silence;
use crate::status::{Disk as DiskStatus, Snapshot, Watched};
use crate::watched::{Changes, Watching};
use crate::work::Shared;
use foreseek_seam::ProcessId;
use foreseek_storage::Credentials;
use foreseek_storage::LowIoPriority;
use foreseek_storage::fanotify::{Group, OpenEvent};
use foreseek_units::{Bytes, Instant};
use foreseek_walks::{Entered, Event, Node};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

/// Longest wait: the window is measured, and what is idle is closed, at least this often.
const REST_PERIOD: Duration = Duration::from_secs(1);
/// Buffers of events that are read before answers: some 800 opens, 5 ms. An answer may end the reports of more.
const BUFFERS: usize = 2;
/// Answers that are passed on before events.
const ANSWERS: usize = 64;
/// The time between two reads of events. To read each event at once would interrupt the program that causes it
/// for as long as some opens of cached files take. A walk that waits for its disk causes fewer than one event
/// in this time.
const PAUSE: Duration = Duration::from_millis(2);
/// The same while programs find everything in memory. They open a hundred directories in this time. While disks
/// read nothing the first event after a pause waits as long: programs that read little have ended by then.
pub(crate) const QUIET_PAUSE: Duration = Duration::from_millis(10);
/// How often the status is updated while there are events.
const STATUS: Duration = Duration::from_millis(100);

/// See the module's documentation.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) directories: Group,
    pub(crate) files: Group,
    pub(crate) all_files: Group,
    /// The trees of programs that have a list of files.
    pub(crate) entered: Entered,
    /// Those of programs that opened directories after a silence.
    pub(crate) after_silence: Entered,
    pub(crate) silence: Silence,
    /// Reports could not begin again everywhere.
    pub(crate) unmarked: bool,
    pub(crate) processes: Processes,
    pub(crate) watching: Watching,
    pub(crate) disks: Disks,
    pub(crate) budget: Budget,
    pub(crate) status: Arc<Mutex<Snapshot>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) mounts: File,
    pub(crate) begun: Clock,
    /// The time of the last read of events.
    pub(crate) last_read: Clock,
    pub(crate) overflows: u64,
    /// The same of opens of all files.
    pub(crate) lost_opens: u64,
    pub(crate) window: Bytes,
    pub(crate) pace: Pace,
}

/// An event of the group of files.
pub(crate) struct FileOpened {
    pub(crate) process: u32,
    /// The credentials of the process; `None` if it could not be examined.
    pub(crate) by: Option<Arc<Credentials>>,
    pub(crate) directory: Node,
    pub(crate) file: Node,
}

impl Driver {
    pub(crate) fn now(&self) -> Instant {
        Instant(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads the mounts; returns whether anything is watched now.
    pub(crate) fn look_at_mounts(&mut self, look: Look) -> Result<bool> {
        let begun = Clock::now();
        let result = self.watch_what_is_found(look);
        let left_alone = self.watching.may_change.then_some(Look::LeftAlone);
        self.pace.read(begun, Clock::now(), if result.is_err() { Some(Look::All) } else { left_alone });
        result.map(|()| self.watching.iter().next().is_some())
    }

    fn watch_what_is_found(&mut self, look: Look) -> Result<()> {
        let Changes { left, new, unmarked } = self.watching.look(&self.directories, look)?;
        // It is tried again a second later.
        self.unmarked |= unmarked;
        let all = || self.shared.file_systems.write().unwrap_or_else(PoisonError::into_inner);
        for file_system in &left {
            all().remove(&file_system.number);
            self.disks.remove(file_system);
            self.shared.directories.retain(|node| node.device != file_system.number);
        }
        for file_system in &new {
            match self.disks.add(file_system, self.window) {
                Ok(()) => drop(all().insert(file_system.number, file_system.clone())),
                Err(error) => self.watching.give_up(file_system, &self.directories, error.to_string()),
            }
        }
        if self.silence.is_on() && (look == Look::All || !new.is_empty()) {
            self.begin_reports();
        }
        if !left.is_empty() || !new.is_empty() {
            self.set_window(self.budget.window());
            self.mark_all_files();
        }
        Ok(())
    }

    /// Works until it is stopped.
    pub(crate) fn run(mut self) {
        // Otherwise the programs that cause events are interrupted more often.
        let _ = foreseek_storage::batch_scheduling();
        let _low = LowIoPriority::begin();
        let mut rested = Clock::now();
        let mut written = Clock::now();
        let mut busy = false;
        while !self.stop.load(Ordering::Acquire) {
            if self.wait(busy) {
                self.pace.changed();
            }
            if let Some((due, look)) = self.pace.next(Clock::now())
                && due.is_zero()
                && let Err(error) = self.look_at_mounts(look)
            {
                tracing::warn!("{error}");
            }
            self.shared.wake.take();
            let waited = self.disks.look(self.now());
            self.look_at_silence();
            waited.into_iter().for_each(|opened| self.directory_opened(opened));
            let more = self.read_events();
            self.attend();
            self.handle_overflow();
            let now = self.now();
            busy = self.disks.answer(now, ANSWERS) || more;
            self.disks.divide(now, self.window);
            if rested.elapsed() >= REST_PERIOD {
                rested = Clock::now();
                self.rest(rested);
            }
            if written.elapsed() >= STATUS {
                written = Clock::now();
                self.write_status();
            }
        }
    }

    /// Waits for events or answers; returns whether mounts changed.
    fn wait(&mut self, busy: bool) -> bool {
        let until = self
            .disks
            .deadline()
            .map(|deadline| Duration::from_nanos((deadline.get()).saturating_sub(self.now().get())));
        let looks = [self.disks.next_look(self.now()), self.silence.next_look()];
        let next_look = looks.into_iter().flatten().fold(STATUS, Duration::min);
        let mut wait = if busy { Duration::ZERO } else { until.unwrap_or(REST_PERIOD).min(next_look) };
        let mut ready = vec![PollFd::new(&self.mounts, PollFlags::PRI)];
        let pause = if self.disks.are_quiet() { QUIET_PAUSE } else { PAUSE };
        let pause = pause.saturating_sub(self.last_read.elapsed());
        let may_wait = pause.is_zero() && self.disks.all_rest();
        if pause.is_zero() {
            ready.push(PollFd::new(&self.directories, PollFlags::IN));
            ready.push(PollFd::new(&self.files, PollFlags::IN));
            ready.push(PollFd::new(&self.all_files, PollFlags::IN));
        } else {
            wait = wait.min(pause);
        }
        let wait = self.pace.next(Clock::now()).map_or(wait, |(due, _)| wait.min(due));
        let wait = Timespec::try_from(wait).ok();
        let woken = self.shared.wake.fd();
        ready.extend(woken.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // An interrupted wait is only a shorter one.
        let _ = poll(&mut ready, wait.as_ref());
        let changed = ready[0].revents().contains(PollFlags::PRI);
        let first = may_wait && !changed && ready[1].revents().contains(PollFlags::IN);
        drop(ready);
        if first {
            self.wait_for_more();
        }
        changed
    }

    fn rest(&mut self, now: Clock) {
        if self.unmarked {
            self.begin_reports();
        }
        for file_system in self.watching.iter() {
            file_system.rest(now);
        }
        if self.processes.is_short() {
            self.shared.directories.forget_openers(now);
        }
        self.disks.rest();
        self.disks.report_ended();
        if self.budget.is_due(now) {
            let window = window_of(&mut self.budget);
            self.set_window(window);
        }
    }

    /// Sets the window of all disks together.
    fn set_window(&mut self, window: Bytes) {
        self.window = window;
        *self.shared.allowance.lock().unwrap_or_else(PoisonError::into_inner) = window;
        self.disks.divide(self.now(), window);
    }

    fn handle_overflow(&mut self) {
        self.handle_lost_opens();
        let overflows = self.directories.overflows() + self.files.overflows();
        if overflows > self.overflows {
            self.shared.counters.overflows.add(overflows - self.overflows);
            self.overflows = overflows;
            let now = self.now();
            self.disks.notify_all(now, Event::Overflow);
        }
    }

    /// Reads the waiting events and passes them on; returns whether there may be more.
    ///
    /// The two groups have a queue each, and events have no time. Files are read first: the opens of their
    /// directories, which came before, are then known, or among those that are read next, or wait.
    fn read_events(&mut self) -> bool {
        let (files, more_files) = self.take_files();
        let (directories, more_directories) = self.take_directories();
        if !files.is_empty() || !directories.is_empty() {
            self.last_read = Clock::now();
        }
        let mut first: FxHashMap<Node, usize> = FxHashMap::default();
        for (at, opened) in directories.iter().enumerate() {
            opened.node().map(|node| first.entry(node).or_insert(at));
        }
        self.count_directories(directories.len());
        let mut directories = directories.into_iter();
        let mut passed = 0;
        for file in files {
            let until = first.get(&file.directory).map_or(0, |at| at + 1);
            for directory in directories.by_ref().take(until.saturating_sub(passed)) {
                self.directory_opened_or_waits(directory);
            }
            passed = passed.max(until);
            self.file_opened(file);
        }
        directories.for_each(|directory| self.directory_opened_or_waits(directory));
        // Last: what is reported otherwise is known by now.
        let more_entered = self.take_entered();
        more_files || more_directories || more_entered
    }

    fn take_directories(&mut self) -> (Vec<DirectoryOpened>, bool) {
        let mut all = Vec::new();
        let unsure = self.silence.is_unsure(self.now());
        let (processes, watching, shared) = (&mut self.processes, &self.watching, &self.shared);
        let more = take(&mut self.directories, |seen| {
            if !processes.counts(seen.process, Clock::now()) {
                return shared.counters.passed_over.add(1);
            }
            let OpenEvent { process, process_fd, file_system, directory: handle, .. } = seen;
            let Some(file_system) = watching.by_id(file_system).cloned() else { return };
            let at = Clock::now();
            let Some(opener) = processes.opener(process, process_fd, at) else {
                if processes.has_ended(process, at) {
                    file_system.volume.disk.missed_a_program();
                }
                return shared.counters.gone.add(1);
            };
            // Its own reads are no reason to hold back.
            file_system.volume.disk.helps(process);
            shared.counters.directories_opened.add(1);
            all.push(DirectoryOpened { file_system, handle, process, opener, at, unsure, recorded: false });
        });
        (all, more)
    }

    fn directory_opened_or_waits(&mut self, mut opened: DirectoryOpened) {
        if !self.disks.rests(opened.file_system.number) {
            return self.directory_opened(opened);
        }
        // Its opener limits from now on what is read.
        if let Some(node) = opened.node() {
            let (handle, by) = (opened.handle.clone(), &opened.opener.credentials);
            self.shared.directories.opened_somewhere(node, handle, by, opened.at);
            opened.recorded = true;
        }
        self.disks.wait(self.now(), opened);
    }

    fn directory_opened(&mut self, opened: DirectoryOpened) {
        let Some((node, parent)) = opened.find() else { return };
        let (pid, now) = (ProcessId(opened.process), self.now());
        if let Some(name) = &opened.opener.name {
            // It may come to another disk as well.
            let user = opened.opener.credentials.user;
            self.disks.notify_all(now, Event::Program { pid, user, name });
        }
        if opened.unsure {
            self.found_below(&opened, parent);
        }
        let DirectoryOpened { file_system, handle, opener, at, recorded, .. } = opened;
        if recorded {
            self.shared.directories.found_above(node, handle, parent, &opener.credentials, at);
        } else {
            self.shared.directories.opened(node, handle, parent, opener.credentials, at);
        }
        self.disks.notify(file_system.number, now, Event::DirectoryOpened { pid, directory: node, parent });
    }

    fn take_files(&mut self) -> (Vec<FileOpened>, bool) {
        let mut all = Vec::new();
        let (processes, watching, shared) = (&mut self.processes, &self.watching, &self.shared);
        let more = take(&mut self.files, |seen| {
            if !processes.counts(seen.process, Clock::now()) {
                return shared.counters.passed_over.add(1);
            }
            let OpenEvent { process, process_fd, file_system, directory, name, .. } = seen;
            let (Some(name), Some(file_system)) = (name, watching.by_id(file_system)) else { return };
            let now = Clock::now();
            let by = processes.rights(process, process_fd, now);
            if !processes.counts(process, now) {
                return shared.counters.passed_over.add(1);
            }
            file_system.volume.disk.helps(process);
            if let Some((directory, file)) = file_of(shared, file_system, &directory, name) {
                all.push(FileOpened { process, by, directory, file });
            }
        });
        (all, more)
    }

    pub(crate) fn file_opened(&mut self, opened: FileOpened) {
        let FileOpened { process, by, directory, file } = opened;
        self.shared.counters.files_opened.add(1);
        if let Some(bytes) = self.shared.unused().used(file) {
            self.shared.counters.files_found_read.add(1);
            self.shared.counters.used_bytes.add(bytes.get());
        }
        let (pid, now) = (ProcessId(process), self.now());
        self.shared.directories.entered(directory, by.as_ref(), Clock::now());
        self.disks.notify(directory.device, now, Event::FileOpened { pid, directory, file });
    }

    pub(crate) fn write_status(&self) {
        let disk = |disk: &crate::disks::Disk| {
            let engine = disk.engine.status();
            let tops = engine.walks.iter().map(|walk| walk.top).collect();
            let ended = disk.ended();
            let number = disk.number.to_string();
            (DiskStatus::of(number, &engine, disk.share.part, &disk.shared, disk.observes_all(), ended), tops)
        };
        let mut watched: Vec<Watched> = self
            .watching
            .iter()
            .map(|it| Watched {
                mount: it.mount.clone(),
                kind: it.volume.name.to_owned(),
                device: it.volume.device.to_string(),
            })
            .collect();
        watched.sort_by(|a, b| a.mount.cmp(&b.mount));
        let (disks, tops) = self.disks.list.iter().map(disk).unzip();
        let mut snapshot = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        (snapshot.tops, snapshot.at) = (tops, Some(Clock::now()));
        let status = &mut snapshot.status;
        status.seconds = self.begun.elapsed().as_secs_f64();
        status.window_bytes = self.window.get();
        status.watched = watched;
        status.left_alone.clone_from(&self.watching.left_alone);
        status.left_alone_more = self.watching.left_alone_more;
        status.disks = disks;
        let (directories, entries) = self.shared.directories.counts();
        (status.known_directories, status.known_entries) = (directories as u64, entries as u64);
    }
}

/// Reads some buffers of events; returns whether there may be more.
pub(crate) fn take(group: &mut Group, mut each: impl FnMut(OpenEvent<'_>)) -> bool {
    (0..BUFFERS).all(|_| group.take(&mut each))
}
