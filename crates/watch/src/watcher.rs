//! A watcher in this process: start, status and end.

use crate::budget::{Budget, Confined};
use crate::counters::Counters;
use crate::disks::Disks;
use crate::driver::Driver;
use crate::engine::MakeEngine;
use crate::error::{Error, Result};
use crate::handles::path_of;
use crate::mounts::{Look, Pace};
use crate::processes::Processes;
use crate::silence::Silence;
use crate::status::{Snapshot, WatchStatus};
use crate::watched::{Watching, device_of};
use crate::work::Shared;
use crate::{Engine, Options, recorded};
use foreseek_places::costs_of;
use foreseek_server::precautions;
use foreseek_storage::fanotify::Group;
use foreseek_storage::{SideCosts, sees_all_programs};
use foreseek_walks::{Entered, Walks};
use rustix::io::Errno;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Descriptors that all threads of all disks may have open: 16 disks with 8 threads of 64 files and 64 directories above
/// them, and the files that are being fetched.
const DESCRIPTORS: u64 = 16 * (8 * (64 + 64) + 64 + 64) + 256;

/// See the module's documentation.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    status: Arc<Mutex<Snapshot>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts watching.
    ///
    /// # Errors
    /// [`Error::System`] if fanotify is not available, [`Error::Nothing`] if no given path is worth watching.
    pub fn start(options: &Options) -> Result<Self> {
        Self::start_confined(options, None)
    }

    /// The same with other engines, for tests.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(options: &Options, make: Box<MakeEngine>) -> Result<Self> {
        Self::begin(options, make, None)
    }

    /// The same in this process's own control group.
    pub(crate) fn start_confined(options: &Options, confined: Option<Confined>) -> Result<Self> {
        let make = |settings, costs| -> Box<dyn Engine> { Box::new(Walks::new(settings, costs)) };
        Self::begin(options, Box::new(make), confined)
    }

    fn begin(options: &Options, make: Box<MakeEngine>, confined: Option<Confined>) -> Result<Self> {
        for path in &options.paths {
            device_of(path).map_err(|cause| Error::Path { path: path.clone(), cause })?;
        }
        recorded::check(options.record.as_deref())?;
        // A file system whose costs are not known later is left alone.
        costs_of(options.profile.as_deref(), None)?;
        let failed = |operation| move |cause| Error::System { operation, cause };
        let directories = Group::of_directories().map_err(failed("cannot watch opens (fanotify)"))?;
        let files = Group::of_files().map_err(failed("cannot watch opens (fanotify)"))?;
        let all_files = Group::of_all_files().map_err(failed("cannot watch opens (fanotify)"))?;
        if !sees_all_programs() {
            return Err(Error::Blind);
        }
        let marker = files.marker().map_err(failed("cannot watch opens (fanotify)"))?;
        // With fewer, some files are not read ahead, and count as failed.
        let _ = precautions::allow_descriptors(DESCRIPTORS);
        let shared = Arc::new(Shared::default());
        let (status, stop) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let budget = Budget::confined(options, confined);
        let mounts = File::open("/proc/self/mountinfo").map_err(|error| Error::System {
            operation: "cannot read /proc/self/mountinfo",
            cause: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        let mut driver = Driver {
            disks: Disks::new(shared.clone(), Some(marker), make, options),
            window: budget.window(),
            shared: shared.clone(),
            directories,
            files,
            all_files,
            entered: Entered::default(),
            after_silence: Entered::default(),
            silence: Silence::default(),
            unmarked: false,
            processes: Processes::default(),
            watching: Watching::new(&options.paths),
            budget,
            status: status.clone(),
            stop: stop.clone(),
            mounts,
            begun: Instant::now(),
            last_read: Instant::now(),
            overflows: 0,
            lost_opens: 0,
            pace: Pace::default(),
        };
        let any = driver.look_at_mounts(Look::All)?;
        if !any && !options.paths.is_empty() {
            let reasons = driver.watching.left_alone.iter();
            let reasons: Vec<_> =
                reasons.map(|it| format!("{}: {}", it.mount.display(), it.reason)).collect();
            let remedy = "give a path on a hard disk";
            return Err(Error::Nothing(format!("{}; {remedy}", reasons.join("; "))));
        }
        driver.write_status();
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || driver.run());
        let thread = thread.map_err(|error| Error::System {
            operation: "cannot start a thread",
            cause: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
        })?;
        Ok(Self { shared, status, stop, thread: Some(thread) })
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> WatchStatus {
        let snapshot = self.status.lock().unwrap_or_else(PoisonError::into_inner).at(Instant::now());
        let (mut status, tops) = snapshot;
        for (disk, tops) in status.disks.iter_mut().zip(tops) {
            for (walk, top) in disk.walks.iter_mut().zip(tops) {
                walk.path = path_of(&self.shared, top);
            }
        }
        let costs = SideCosts::now();
        WatchStatus {
            pid: std::process::id(),
            processor_seconds: costs.processor.as_secs_f64(),
            fiemap_calls: costs.fiemap_calls,
            counted: self.counters().now(),
            ..status
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Whether its thread is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Watcher {
    /// Ends it: waits for operations in progress.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.shared.wake.wake();
        for file_system in self.shared.file_systems.read().unwrap_or_else(PoisonError::into_inner).values() {
            file_system.leave();
        }
        if let Some(thread) = self.thread.take() {
            // The thread itself has reported a panic.
            let _ = thread.join();
        }
    }
}
