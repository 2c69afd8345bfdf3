//! Reads answered by the prefetching engine: its driver in real time.
//!
//! The engine ([`ServingEngine`]) decides; here its commands are carried out. It stands behind one
//! lock, held for microseconds: what takes longer (submitting I/O, copying an answer) is put down as
//! [`Work`] under the lock and done after it. What the engine is told has one order, that of the
//! lock, which is the order of a [recording](foreseek_seam::record).
//!
//! - A read is told to the engine in the thread that took it from the kernel. What lies in the
//!   prefetch cache is answered there and then; anything else later, by the thread that completes
//!   I/O. A read that the engine passes is made as it is, into a buffer of its own.
//! - Fetches go to [`Reads`]: direct I/O by io_uring into the frames that the engine named, all those of
//!   one call together.
//! - A thread of its own ticks at the engine's deadline and looks which readers have run or ended;
//!   another waits for memory to become scarce.
//!
//! *Memory.* `--memory` bounds the frames together with what is kept about each. Beside that there are
//! [`PASSING`] for passed reads, the engine's memory of delivered pages and the buffers of threads.
//!
//! *What the end of a file means.* A version of a file has a length; answers end there, whatever a frame
//! holds beyond.

mod about;
mod budget;
mod chores;
mod core;
mod objects;
mod options;
mod remembered;
mod work;

pub use budget::{Memory, SystemMemory};
pub use options::{GUESS, ReaderOptions};

use crate::Lessons;
use crate::read_path::{Answer, Change, OpenedFile, Read, ReadPath, Version};
use crate::status::{CLASSES_TOLD, Learnt, ReadStatus};
use about::{Described, Programs};
use chores::Chores;
use core::{Core, Doubt, Pass};
use foreseek_readahead::ServingEngine;
use foreseek_seam::{Event, FetchId, FetchOutcome, ServingEvent, StreamId};
use foreseek_storage::reads::{self, Ended, Reads, Target};
use foreseek_storage::{Arena, Frames, ProcessWatch};
use foreseek_units::{ByteOffset, Bytes, Instant, Nanos, Pages};
use objects::{Found, Places};
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use work::{Reply, Token, Work};

/// Memory for reads that are passed: sixteen of the longest that FUSE sends at a time. It is taken
/// as it is used.
const PASSING: Bytes = Bytes::mib(16);
/// How long the end waits for reads under way: longer than a drive tries to read a bad sector.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module's documentation.
pub struct Reader {
    shared: Arc<Shared>,
    chores: Mutex<Option<Chores>>,
}

/// What all threads share.
struct Shared {
    core: Mutex<Core>,
    frames: Arc<Frames>,
    passing: Arc<Arena>,
    /// Set once, right after this was made: its sink knows this.
    reads: OnceLock<Arc<dyn Reads>>,
    processes: Mutex<ProcessWatch>,
    /// The programs of readers, for a policy that learns.
    programs: Option<Programs>,
    places: Places,
    alarm: chores::Alarm,
    origin: std::time::Instant,
}

/// Starts something that makes reads, given who hears of their ends.
type StartReads<'a> = &'a dyn Fn(reads::Sink) -> std::io::Result<(Arc<dyn Reads>, Option<String>)>;

impl Reader {
    /// A reader as the options say.
    ///
    /// # Errors
    /// There is no memory or no thread for it, no such policy, or the recording cannot be made.
    pub fn start(options: &ReaderOptions) -> std::io::Result<Self> {
        Self::start_with(options, &reads::start, Box::new(SystemMemory::new()))
    }

    /// The same over something else that makes reads, and another sight of memory: for tests.
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
        let mut remarks = Vec::new();
        if !frames.lock_memory() {
            remarks.push(
                "prefetched pages may be swapped out: run as root, or raise 'ulimit -l' above --memory"
                    .to_owned(),
            );
        }
        let recorder = options.recorder()?;
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(engine, recorder, Arc::clone(&frames))),
            frames,
            passing: Arena::untouched(PASSING).ok_or_else(no_memory)?,
            reads: OnceLock::new(),
            processes: Mutex::default(),
            programs,
            places: Places::default(),
            alarm: chores::Alarm::default(),
            origin: std::time::Instant::now(),
        });
        let weak = Arc::downgrade(&shared);
        let (reads, remark) = start_reads(Box::new(move |ended| Shared::ended(&weak, ended)))?;
        let _ = shared.reads.set(reads);
        remarks.extend(remark);
        shared.lock().remarks = remarks;
        if let Some(Lessons { streams, device }) = &options.lessons {
            let device = device.filter(|_| options.profile.is_none());
            shared.with(|core, now, work| core.recall(now, streams, device, work));
        }
        let chores = Chores::start(&shared, memory)?;
        Ok(Self { shared, chores: Mutex::new(Some(chores)) })
    }
}

impl ReadPath for Reader {
    fn opened(&self, opened: OpenedFile) -> StreamId {
        let object = opened.object;
        let file = self.shared.lock().objects.file(object);
        // Opening and mapping the file takes system calls; two that do it at once do no harm.
        let found = match file {
            Some(file) => Found { file, layout: None },
            None => Found::of(&opened.file, &self.shared.places),
        };
        let programs = self.shared.programs.as_ref();
        let described = programs.map(|programs| Described::of(&opened.file, opened.who, programs));
        self.shared.with(|core, now, work| core.opened(now, &opened, found, described, work))
    }

    fn read(&self, read: Read, answer: Answer) {
        if let Ok(mut processes) = self.shared.processes.try_lock() {
            processes.watch(read.who.0);
        }
        self.shared.with(|core, now, work| core.read(now, read, answer, work));
    }

    fn closed(&self, stream: StreamId) {
        let unused = self.shared.with(|core, now, work| core.closed(now, stream, work));
        // Closing takes a system call, or several.
        drop(unused);
    }

    fn changed(&self, change: Change) {
        self.shared.with(|core, now, work| core.changed(now, &change, work));
    }

    fn lessons(&self) -> Option<Lessons> {
        let mut core = self.shared.lock();
        let device = core.device();
        Some(Lessons { streams: core.engine.learning()?.save(), device })
    }

    fn status(&self) -> ReadStatus {
        let mut core = self.shared.lock();
        let (stats, device) = (core.engine.stats(), core.device());
        let rho = core.engine.settings().stream.rho;
        let learning = core.engine.learning();
        let rho = learning.is_some().then_some(rho);
        let (classes, known) =
            learning.map(|learning| (learning.explain(CLASSES_TOLD), learning.classes())).unwrap_or_default();
        let bytes = |pages: Pages| pages.bytes().get();
        ReadStatus {
            policy: core.engine.settings().policy.clone(),
            rho,
            streams_open: stats.streams,
            streams_active: stats.active_streams,
            reads: stats.reads,
            read_bytes: core.counts.read.get(),
            failed: core.counts.failed,
            contradictions: stats.contradictions + core.counts.contradictions,
            hits: core.counts.hits,
            joined: core.counts.joined,
            fetched_bytes: bytes(stats.fetched_on_demand + stats.fetched_ahead) + core.counts.passed.get(),
            prefetched_bytes: bytes(stats.fetched_ahead),
            wasted_bytes: bytes(stats.dropped),
            taken_back_bytes: bytes(stats.taken_back),
            lru_misses: stats.lru_missed.get(),
            prefetch_misses: stats.prefetch_missed.get(),
            thrashing_pages_per_s: core.thrashing.rate(),
            depth_bytes: bytes(stats.depth.min(stats.bound)),
            bound_bytes: bytes(stats.bound),
            ceiling_bytes: bytes(stats.ceiling),
            cached_bytes: bytes(stats.cached),
            memory_bytes: bytes(self.shared.frames.backed()),
            learnt: device.map(|device| Learnt {
                switch_ms: device.switch.as_millis_f64(),
                rate_mb_per_s: device.rate.as_mb_per_second(),
                samples: stats.learnt_from,
            }),
            classes,
            classes_known: known as u64,
            remarks: core.remarks.clone(),
        }
    }

    fn stop(&self) {
        let chores = self.chores.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(chores) = chores else { return };
        chores.stop(&self.shared);
        if let Some(reads) = self.shared.reads.get()
            && !reads.stop(PATIENCE)
        {
            tracing::warn!("reads of the source are still under way after {} s", PATIENCE.as_secs());
        }
        self.shared.lock().stop();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// The core is whole after every call of it; a panic within is a bug, and readers still get errors
    /// rather than wait for ever.
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant(Nanos::from(self.origin.elapsed()).get())
    }

    /// Tells the engine something, and does what follows.
    fn with<T>(&self, tell: impl FnOnce(&mut Core, Instant, &mut Work) -> T) -> T {
        let mut work = Work::default();
        let mut core = self.lock();
        let answer = tell(&mut core, self.now(), &mut work);
        let deadline = core.deadline();
        drop(core);
        self.alarm.set(deadline);
        self.carry_out(work);
        answer
    }

    /// Does what there is to do, and what follows from having done it.
    fn carry_out(&self, mut work: Work) {
        loop {
            let refused = self.start_reads(std::mem::take(&mut work.reads));
            let passes = std::mem::take(&mut work.passes);
            let unmade = self.start_passes(passes);
            let mut unpinned = std::mem::take(&mut work.unpinned);
            unpinned.extend(work.replies.drain(..).filter_map(Reply::send).flatten());
            if std::mem::take(&mut work.dropped) {
                self.frames.trim(self.lock().engine.stats().budget);
            }
            if refused.is_empty() && unmade.is_empty() && unpinned.is_empty() {
                return;
            }
            let mut core = self.lock();
            let now = self.now();
            core.unmade(unmade);
            refused.into_iter().for_each(|fetch| core.refused(now, fetch, &mut work));
            if !unpinned.is_empty() {
                core.tell(now, Event::Serving(ServingEvent::Unpinned { frames: &unpinned }), &mut work);
            }
            let deadline = core.deadline();
            drop(core);
            self.alarm.set(deadline);
        }
    }

    /// Hands fetches on; those that were not taken.
    fn start_reads(&self, wanted: Vec<reads::Read>) -> Vec<FetchId> {
        let Some(reads) = self.reads.get().filter(|_| !wanted.is_empty()) else { return Vec::new() };
        let refused = reads.start(wanted);
        refused.iter().filter_map(|read| Token::fetch(read.token)).collect()
    }

    /// Makes reads that the engine passed, as far as there are buffers; the others.
    fn start_passes(&self, passes: Vec<Pass>) -> Vec<Pass> {
        let Some(reads) = self.reads.get() else { return Vec::new() };
        let mut unmade = Vec::new();
        for pass in passes {
            match self.passing.try_take(pass.length()) {
                Some(buffer) => {
                    let refused = reads.start(vec![pass.into_read(buffer)]);
                    refused.iter().for_each(|read| self.pass_ended(read.token, &[], Err(Errno::IO)));
                }
                None => unmade.push(pass),
            }
        }
        unmade
    }

    /// Reads are over.
    fn ended(shared: &Weak<Self>, ended: Vec<Ended>) {
        // Without it there is nobody to tell.
        let Some(shared) = shared.upgrade() else { return };
        let mut fetched = Vec::with_capacity(ended.len());
        for Ended { read, got, error, .. } in ended {
            match (Token::fetch(read.token), read.into) {
                (Some(fetch), Target::Frames(filling)) => {
                    // What came before an error counts, whole pages of it.
                    let got = if error.is_some() { got.pages_floor().bytes() } else { got };
                    let short = error.is_none() && got.get() < filling.len() as u64;
                    filling.finish(got);
                    let end = short.then_some(read.offset + got);
                    fetched.push(Fetched { fetch, got: got.pages_ceil(), error, end });
                }
                (None, Target::Buffer(buffer)) => {
                    let result = error.map_or(Ok(()), Err);
                    shared.pass_ended(read.token, &buffer[..got.get() as usize], result);
                }
                // Fetches go to frames, passed reads to buffers: who waits for this one hears of it all the same.
                (Some(fetch), Target::Buffer(_)) => {
                    shared.lock().contradicted();
                    fetched.push(Fetched { fetch, got: Pages::ZERO, error: Some(Errno::IO), end: None });
                }
                (None, Target::Frames(_)) => {
                    shared.lock().contradicted();
                    shared.pass_ended(read.token, &[], Err(Errno::IO));
                }
            }
        }
        let doubts = shared.with(|core, now, work| {
            let mut doubts = Vec::new();
            for fetched in fetched {
                match fetched.end.and_then(|end| core.ended_early(fetched.fetch, end)) {
                    Some(doubt) => doubts.push((fetched, doubt)),
                    None => core.done(now, fetched.fetch, fetched.got, fetched.error, work),
                }
            }
            // A buffer may have come free.
            core.retry_passes(work);
            doubts
        });
        doubts.into_iter().for_each(|(fetched, doubt)| shared.look_and_settle(fetched, &doubt));
    }

    /// A file ended before it should have: who reads it gets what it is now, and not zeros to its old end.
    fn look_and_settle(&self, fetched: Fetched, doubt: &Doubt) {
        let version =
            doubt.file.any().and_then(|fd| rustix::fs::fstat(fd).ok()).map(|stat| Version::of(&stat));
        self.with(|core, now, work| {
            if let Some(version) = version {
                core.settle(now, doubt, version, work);
            }
            core.done(now, fetched.fetch, fetched.got, fetched.error, work);
        });
    }

    /// Answers a passed read.
    fn pass_ended(&self, token: u64, bytes: &[u8], result: Result<(), Errno>) {
        let Some((answer, span)) = self.lock().pass_ended(Token::pass(token)) else { return };
        match result {
            Ok(()) => {
                let from = span.skip.min(bytes.len());
                let bytes = &bytes[from..(from + span.length).min(bytes.len())];
                self.lock().answered(bytes.len());
                answer.data(bytes);
            }
            Err(errno) => {
                self.lock().failed();
                answer.fail(errno);
            }
        }
    }
}

/// A fetch that is over.
struct Fetched {
    fetch: FetchId,
    got: Pages,
    error: Option<Errno>,
    /// Where it ended, if that was short of what was asked for.
    end: Option<ByteOffset>,
}

/// How a fetch ended, in the engine's words.
fn outcome(error: Option<Errno>) -> FetchOutcome {
    if error.is_some() { FetchOutcome::Failed } else { FetchOutcome::Arrived }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("frames", &self.shared.frames.count()).finish_non_exhaustive()
    }
}
