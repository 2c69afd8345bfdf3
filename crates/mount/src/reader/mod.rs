//! Reads answered by the prefetching engine: its driver in real time.
//!
//! The engine ([`ServingEngine`]) decides, and its [driver](ServingDriver) has the commands carried out here.
//! Both are behind one lock, held for microseconds. Slower steps (submitting I/O, copying an answer) are
//! queued as [`Work`](work::Work) under the lock and done after it. The order of the lock is the order of the
//! engine's events, and of a [recording](foreseek_seam::record).
//!
//! - A read goes to the driver in the thread that got it from the kernel. Pages in the prefetch cache are
//!   answered at once; others later, by the thread that completes I/O. A read that the engine passes is made
//!   without it, into a buffer of its own.
//! - Fetches go to [`DiskReader`]: direct I/O by io_uring into the frames that the engine named, all those of
//!   one call together.
//! - One thread ticks at the engine's deadline and checks which readers have run or ended; another waits for
//!   memory to become scarce.
//!
//! *Memory.* `--memory` bounds the frames together with the state of each. Beside that there are [`PASSING`]
//! for passed reads, the engine's memory of delivered pages and the buffers of threads.
//!
//! *End of a file.* A version of a file has a length; answers end there, whatever a frame holds beyond.

mod about;
mod alarm;
mod budget;
mod core;
mod found;
mod options;
mod outside;
mod pass;
mod remembered;
mod shared;
#[cfg(test)]
mod simulation;
mod timers;
mod token;
mod work;

pub use budget::{Memory, SystemMemory};
pub use options::{DEFAULT_PROFILE, ReaderOptions};

use crate::LearntState;
use crate::read_path::{Answer, Change, OpenedFile, ReadPath, ReadRequest};
use crate::status::{BenefitStatus, CLASSES_REPORTED, Learnt, ReadStatus};
pub(crate) use about::kind_of;
use about::{Described, Programs};
use alarm::Alarm;
use core::Core;
use foreseek_readahead::benefit::StepAside;
use foreseek_readahead::{ServingDriver, ServingEngine};
use foreseek_seam::StreamId;
use foreseek_storage::reads::{self, DiskReader};
use foreseek_storage::{Arena, Frames};
use foreseek_units::{ByteSpan, Pages};
use found::{LaidOutFile, Places};
use outside::Outside;
use pass::PASSING;
use shared::Shared;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use timers::Timers;
use work::Below;

/// How long the end waits for reads in progress: longer than a drive retries a bad sector.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module's documentation.
pub struct Reader {
    shared: Arc<Shared>,
    timers: Mutex<Option<Timers>>,
    steps_aside: bool,
}

/// Starts a [`DiskReader`], with the sink for the ends of its reads.
type StartReads<'a> = &'a dyn Fn(reads::Sink) -> std::io::Result<(Arc<dyn DiskReader>, Option<String>)>;

impl Reader {
    /// A reader with these options.
    ///
    /// # Errors
    /// There is no memory or no thread for it, no such policy, or the recording cannot be made.
    pub fn start(options: &ReaderOptions) -> std::io::Result<Self> {
        Self::start_with(options, &reads::start, Box::new(SystemMemory::new()))
    }

    /// The same with another [`DiskReader`] and another source of memory information, for tests.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        options: &ReaderOptions,
        start_reads: StartReads<'_>,
        memory: Box<dyn Memory>,
    ) -> std::io::Result<Self> {
        let settings = options.engine_settings();
        let mut engine = ServingEngine::new(settings, &options.costs()).map_err(std::io::Error::other)?;
        let programs = engine.learning().map(|_| Programs::default());
        let no_memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let frames = Frames::new(engine.settings().memory).ok_or_else(no_memory)?;
        let mut warnings = Vec::new();
        if !frames.lock_memory() {
            warnings.push(
                "prefetched pages may be swapped out: run as root, or raise 'ulimit -l' above --memory"
                    .to_owned(),
            );
        }
        let below = Below::new(Arc::clone(&frames));
        let driver = ServingDriver::new(engine, options.recorder()?, below);
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(driver)),
            frames,
            passing: Arena::untouched(PASSING).ok_or_else(no_memory)?,
            reads: OnceLock::new(),
            processes: Mutex::default(),
            programs,
            places: Places::default(),
            alarm: Alarm::default(),
            outside: Outside::Real(std::time::Instant::now()),
        });
        let weak = Arc::downgrade(&shared);
        let (reads, warning) = start_reads(Box::new(move |ended| Shared::ended(&weak, ended)))?;
        let _ = shared.reads.set(reads);
        warnings.extend(warning);
        shared.lock().warnings = warnings;
        if let Some(LearntState { streams, device }) = &options.learnt {
            let device = device.filter(|_| options.profile.is_none());
            shared.with(|core, now| core.driver.restore(now, streams, device));
        }
        let timers = Timers::start(&shared, memory)?;
        Ok(Self { shared, timers: Mutex::new(Some(timers)), steps_aside: options.steps_aside })
    }
}

impl ReadPath for Reader {
    fn steps_aside(&self) -> bool {
        if !self.steps_aside {
            return false;
        }
        let mut core = self.shared.lock();
        let now = self.shared.now();
        core.driver.steps_aside(now)
    }

    fn opened(&self, opened: OpenedFile) -> StreamId {
        let object = opened.object;
        let file = self.shared.lock().driver.file(object);
        // Opening and mapping the file takes system calls; two threads that do it at once do no harm.
        let found = match file {
            Some(file) => LaidOutFile { file, layout: None },
            None => LaidOutFile::of(&opened.file, &self.shared.places),
        };
        if opened.writes {
            found.file.keep();
        }
        let programs = self.shared.programs.as_ref();
        let described = programs.map(|programs| Described::of(&opened.file, opened.pid, programs));
        self.shared.with(|core, now| core.opened(now, &opened, found, described))
    }

    fn asks_for_call(&self, stream: StreamId, range: ByteSpan) -> bool {
        self.shared.lock().driver.asks_for_call(stream, range)
    }

    fn read(&self, read: ReadRequest, answer: Answer) {
        if let Ok(mut processes) = self.shared.processes.try_lock() {
            processes.watch(read.pid.0);
        }
        self.shared.with(|core, now| core.read(now, read, answer));
    }

    fn closed(&self, stream: StreamId) {
        let unused = self.shared.with(|core, now| core.driver.close(now, stream));
        // Closing takes one or several system calls.
        drop(unused);
    }

    fn changed(&self, change: Change) {
        let Change { object, range, version } = change;
        self.shared.with(|core, now| core.driver.changed(now, object, range, version));
    }

    fn learnt(&self) -> Option<LearntState> {
        let mut core = self.shared.lock();
        let device = core.driver.device();
        Some(LearntState { streams: core.driver.engine_mut().learning()?.save(), device })
    }

    fn status(&self) -> ReadStatus {
        let mut core = self.shared.lock();
        let Core { driver, thrashing, warnings, .. } = &mut *core;
        let (stats, counts, device) = (driver.stats(), driver.counts, driver.device());
        let (policy, rho) =
            (driver.engine().settings().policy.clone(), driver.engine().settings().stream.rho);
        let learning = driver.engine_mut().learning();
        let rho = learning.is_some().then_some(rho);
        let (classes, known) = learning
            .map(|learning| (learning.explain(CLASSES_REPORTED), learning.classes()))
            .unwrap_or_default();
        let bytes = |pages: Pages| pages.bytes().get();
        ReadStatus {
            policy,
            rho,
            streams_open: stats.streams,
            streams_active: stats.active_streams,
            reads: stats.reads,
            read_bytes: counts.read.get(),
            failed: counts.failed,
            internal_errors: stats.internal_errors,
            calls: stats.calls,
            hits: counts.hits,
            joined: counts.joined,
            fetched_bytes: bytes(stats.fetched_on_demand + stats.fetched_ahead) + counts.passed.get(),
            prefetched_bytes: bytes(stats.fetched_ahead),
            wasted_bytes: bytes(stats.dropped),
            cancelled_bytes: bytes(stats.cancelled),
            lru_misses: stats.lru_missed.get(),
            prefetch_misses: stats.prefetch_missed.get(),
            thrashing_pages_per_s: thrashing.rate(),
            prefetch_size_bytes: bytes(stats.depth.min(stats.bound)),
            bound_bytes: bytes(stats.bound),
            ceiling_bytes: bytes(stats.ceiling),
            cached_bytes: bytes(stats.cached),
            memory_bytes: bytes(self.shared.frames.backed()),
            benefit: benefit(driver.benefit()),
            learnt: device.map(|device| Learnt {
                positioning_ms: device.positioning.as_millis_f64(),
                rate_mb_per_s: device.rate.as_mb_per_second(),
                samples: stats.learnt_from,
            }),
            classes,
            classes_known: known as u64,
            warnings: warnings.clone(),
        }
    }

    fn stop(&self) {
        let timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(timers) = timers else { return };
        timers.stop(&self.shared);
        if let Some(reads) = self.shared.reads.get()
            && !reads.stop(PATIENCE)
        {
            tracing::warn!("reads of the source are still under way after {} s", PATIENCE.as_secs());
        }
        self.shared.lock().stop();
    }
}

/// The judgement of prefetching, for the status.
fn benefit(judged: &StepAside) -> BenefitStatus {
    let last = judged.last();
    BenefitStatus {
        aside: judged.is_aside(),
        trying: judged.tries(),
        times: judged.times(),
        opens_aside: judged.opened_aside(),
        sample_bytes: last.ahead.bytes().get(),
        sample_used_bytes: last.used.bytes().get(),
        sample_saved_ms: last.saved.as_millis_f64(),
        sample_spent_ms: last.spent.as_millis_f64(),
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("frames", &self.shared.frames.count()).finish_non_exhaustive()
    }
}
