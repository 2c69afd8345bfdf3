//! A watcher of one file system for a server in this process that reports the opens of programs: `foreseek
//! mount`.
//!
//! It needs no notifications of the kernel, and gets every open that reaches the server. Look-ups are not
//! reported: a server looks up each file that it lists, which shows nothing about the program. Engine, threads,
//! rights and bounds are those of the daemon. A server reports a directory while the program still waits for
//! the answer, so that the process cannot have ended.
//!
//! Reports are queued and read every [`PAUSE`] during a walk: the server's threads never wait here.

use crate::budget::{Budget, window_of};
use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::mounts::left_alone;
use crate::processes::{Opener, Processes};
use crate::work::Shared;
use crate::{CounterValues, Engine, Options};
use foreseek_places::Volume;
use foreseek_seam::ProcessId;
use foreseek_storage::{DeviceNumber, FileHandle};
use foreseek_units::{Bytes, Instant};
use foreseek_walks::{DeviceNo, Event, Node, Walks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

/// The number of the one file system.
const NUMBER: DeviceNo = DeviceNo(0);
/// Reports that may wait: some hundred times as many as a program causes in [`PAUSE`]. A further one is an
/// overflow.
const REPORTS: usize = 65_536;
/// The time between two reads: a walk that waits for its disk opens few files in this time.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest wait without reports: the window is measured, and what is idle is closed, at least this often.
const REST_PERIOD: Duration = Duration::from_secs(1);
/// How long the end waits for a disk: one request of a slow one.
const PATIENCE: Duration = Duration::from_secs(3);
/// Descriptors that its threads may have open: those that list, and the one that fetches.
pub const DESCRIPTORS: u64 = (crate::work::LISTERS * crate::reach::TOGETHER * 2 + crate::work::OPEN) as u64;
/// Answers that are passed on before reports.
const ANSWERS: usize = 64;

/// An open, or a new program.
#[derive(Debug)]
enum Report {
    Program { pid: ProcessId, user: u32, name: Vec<u8> },
    Directory { pid: ProcessId, directory: Node, parent: Option<Node> },
    File { pid: ProcessId, directory: Node, file: Node },
}

#[derive(Debug, Default)]
struct Queue {
    reports: VecDeque<Report>,
    lost: bool,
    /// The engine's thread reads nothing until it is woken.
    asleep: bool,
}

/// State shared by the server's threads and the engine's.
#[derive(Debug)]
struct Between {
    queue: Mutex<Queue>,
    shared: Arc<Shared>,
    processes: Mutex<Processes>,
    stop: AtomicBool,
}

impl Between {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_up(&self, reports: impl IntoIterator<Item = Report>) {
        let mut queue = self.queue();
        for report in reports {
            if queue.reports.len() < REPORTS {
                queue.reports.push_back(report);
            } else {
                queue.lost = true;
            }
        }
        if std::mem::take(&mut queue.asleep) {
            drop(queue);
            self.shared.wake.wake();
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Reported {
    between: Arc<Between>,
    file_system: Arc<FileSystem>,
    root: u64,
    thread: Option<JoinHandle<()>>,
}

impl Reported {
    /// Starts for the file system of a directory that is and stays open here. The options' paths are ignored.
    ///
    /// # Errors
    /// [`Error::Nothing`] if the file system is not worth watching; other errors if the profile or a thread is
    /// missing.
    pub fn start(root: BorrowedFd<'_>, options: &Options) -> Result<Self> {
        let failed = |operation| move |cause| Error::System { operation, cause };
        // By the descriptor: another file system may be mounted on the path later.
        let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        let file_system = FileSystem::at(&path, NUMBER, Volume::of);
        let file_system = file_system.map_err(failed("cannot look at the file system"))?;
        let file_system = Arc::new(file_system);
        if let Some(reason) = left_alone(&file_system.volume) {
            return Err(Error::Nothing(reason));
        }
        let root =
            rustix::fs::statat(root, "", AtFlags::EMPTY_PATH).map_err(failed("cannot look at the source"))?;
        let shared = Arc::new(Shared::default());
        shared
            .file_systems
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(NUMBER, Arc::clone(&file_system));
        let budget = Budget::new(options);
        let make = |settings, costs| -> Box<dyn Engine> { Box::new(Walks::new(settings, costs)) };
        let mut disks = Disks::new(Arc::clone(&shared), None, Box::new(make), options);
        disks.add(&file_system, budget.window())?;
        let (queue, processes) = (Mutex::default(), Mutex::default());
        let between = Arc::new(Between { queue, shared, processes, stop: AtomicBool::new(false) });
        let listener = Listener { between: Arc::clone(&between), disks, budget, begun: Clock::now() };
        listener.set_allowance();
        let file_system_of_thread = Arc::clone(&file_system);
        let thread = std::thread::Builder::new()
            .name("walks".to_owned())
            .spawn(move || listener.run(&file_system_of_thread))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
            .map_err(failed("cannot start a thread"))?;
        Ok(Self { between, file_system, root: root.st_ino, thread: Some(thread) })
    }

    /// A process opens this directory, and waits for the answer.
    pub fn directory_opened(&self, process: u32, directory: BorrowedFd<'_>) {
        let at = |path: &str, flags| rustix::fs::statat(directory, path, flags);
        let Ok(stat) = at("", AtFlags::EMPTY_PATH) else { return };
        let Some(node) = self.node(&stat) else { return };
        let Ok(handle) = FileHandle::of(directory) else { return };
        // Directories above the source are not shown.
        let above = if node.inode == self.root { None } else { at("..", AtFlags::SYMLINK_NOFOLLOW).ok() };
        let parent = above.and_then(|above| self.node(&above));
        let opener = self.between.processes().waiting(process, Clock::now());
        let Some(Opener { credentials, name }) = opener else { return };
        let shared = &self.between.shared;
        shared.counters.directories_opened.add(1);
        let user = credentials.user;
        shared.directories.opened(node, handle, parent, credentials, Clock::now());
        let pid = ProcessId(process);
        let program = name.map(|name| Report::Program { pid, user, name });
        self.between.queue_up(program.into_iter().chain([Report::Directory {
            pid,
            directory: node,
            parent,
        }]));
    }

    /// A process opens a file for reading, in the directory with this inode. Returns how much of it was read
    /// ahead.
    pub fn file_opened(&self, process: u32, directory: u64, file: &Stat) -> Bytes {
        let Some(file) = self.node(file) else { return Bytes::ZERO };
        let shared = &self.between.shared;
        shared.counters.files_opened.add(1);
        let used = shared.unused().used(file).unwrap_or_default();
        if !used.is_zero() {
            shared.counters.files_found_read.add(1);
            shared.counters.used_bytes.add(used.get());
        }
        let directory = self.file_system.node(directory);
        let by = self.between.processes().waiting_rights(process, Clock::now());
        shared.directories.entered(directory, by.as_ref(), Clock::now());
        self.between.queue_up([Report::File { pid: ProcessId(process), directory, file }]);
        used
    }

    /// The counters so far.
    #[must_use]
    pub fn counted(&self) -> CounterValues {
        self.between.shared.counters.now()
    }

    /// The engine's node for an inode of the file system.
    fn node(&self, stat: &Stat) -> Option<Node> {
        let device = DeviceNumber::from_raw(stat.st_dev);
        (device == self.file_system.volume.device).then(|| self.file_system.node(stat.st_ino))
    }

    /// Begins to end: starts nothing more.
    pub fn stop(&self) {
        self.between.stop.store(true, Ordering::Release);
        self.file_system.leave();
        self.between.shared.wake.wake();
    }
}

impl Drop for Reported {
    /// Ends it: waits for operations in progress, but not for ever. The rest ends by itself.
    fn drop(&mut self) {
        self.stop();
        let begun = Clock::now();
        let finished = |thread: &JoinHandle<()>| thread.is_finished();
        while !self.thread.as_ref().is_none_or(finished) && begun.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The thread of the engine.
struct Listener {
    between: Arc<Between>,
    disks: Disks,
    budget: Budget,
    begun: Clock,
}

impl Listener {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn run(mut self, file_system: &FileSystem) {
        let _ = foreseek_storage::batch_scheduling();
        let mut rested = Clock::now();
        let mut busy = false;
        while !self.between.stop.load(Ordering::Acquire) {
            self.wait(busy);
            self.between.shared.wake.take();
            self.pass_reports_on();
            let now = self.now();
            busy = self.disks.answer(now, ANSWERS);
            if rested.elapsed() >= REST_PERIOD {
                rested = Clock::now();
                file_system.rest(rested);
                // The server's threads do not wait for the search.
                let is_short = self.between.processes().is_short();
                if is_short {
                    self.between.shared.directories.forget_openers(rested);
                }
                if self.budget.is_due(rested) {
                    let window = window_of(&mut self.budget);
                    self.set_allowance();
                    self.disks.divide(now, window);
                }
            }
        }
    }

    fn set_allowance(&self) {
        let shared = &self.between.shared;
        *shared.allowance.lock().unwrap_or_else(PoisonError::into_inner) = self.budget.window();
    }

    /// Waits for answers, for the next read of reports, or for the engine's deadline.
    fn wait(&self, busy: bool) {
        if busy {
            return;
        }
        let until = self
            .disks
            .deadline()
            .map(|deadline| Duration::from_nanos(deadline.get().saturating_sub(self.now().get())));
        let wait = until.unwrap_or(REST_PERIOD).min(REST_PERIOD);
        let woken = self.between.shared.wake.fd();
        let poll = |wait: Duration| {
            let wait = Timespec::try_from(wait).ok();
            let mut ready: Vec<PollFd<'_>> = woken.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            // An interrupted wait is only a shorter one.
            let _ = poll(&mut ready, wait.as_ref());
        };
        poll(wait.min(PAUSE));
        let mut queue = self.between.queue();
        if queue.reports.is_empty() {
            queue.asleep = true;
            drop(queue);
            poll(wait.saturating_sub(PAUSE));
            self.between.queue().asleep = false;
        }
    }

    fn pass_reports_on(&mut self) {
        let (reports, lost) = {
            let mut queue = self.between.queue();
            (std::mem::take(&mut queue.reports), std::mem::take(&mut queue.lost))
        };
        let now = self.now();
        if lost {
            self.between.shared.counters.overflows.add(1);
            self.disks.notify_all(now, Event::Overflow);
        }
        for report in reports {
            match report {
                Report::Program { pid, user, name } => {
                    self.disks.notify(NUMBER, now, Event::Program { pid, user, name: &name })
                }
                Report::Directory { pid, directory, parent } => {
                    self.disks.notify(NUMBER, now, Event::DirectoryOpened { pid, directory, parent });
                }
                Report::File { pid, directory, file } => {
                    self.disks.notify(NUMBER, now, Event::FileOpened { pid, directory, file });
                }
            }
        }
    }
}
