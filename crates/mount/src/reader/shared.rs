//! The state that all threads of a reader share: the engine behind its lock, and the execution of its
//! commands.

use super::about::Programs;
use super::alarm::Alarm;
use super::core::Core;
use super::found::Places;
use super::outside::Outside;
use super::pass::Pass;
use super::token::Token;
use super::work::{Below, Reply, Work};
use foreseek_readahead::driver::{FetchEnd, Revalidation, WaitingRead};
use foreseek_seam::{FetchId, Refusal, RequestId};
use foreseek_storage::reads::{self, DiskReader, Ended, Target};
use foreseek_storage::{Arena, Frames, ProcessWatch};
use foreseek_units::{ByteOffset, Bytes, Instant, Pages};
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The state that all threads share.
pub(super) struct Shared {
    pub(super) core: Mutex<Core>,
    pub(super) frames: Arc<Frames>,
    pub(super) passing: Arc<Arena>,
    /// Set once, right after this was made: its sink refers to this.
    pub(super) reads: OnceLock<Arc<dyn DiskReader>>,
    pub(super) processes: Mutex<ProcessWatch>,
    /// The programs of readers, for a policy that learns.
    pub(super) programs: Option<Programs>,
    pub(super) places: Places,
    pub(super) alarm: Alarm,
    pub(super) outside: Outside,
}

impl Shared {
    /// The core is consistent after every call of it. A panic within a call is a bug; readers then still get
    /// errors instead of waiting for ever.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        self.outside.now()
    }

    /// Calls the driver under the lock, and does the resulting work.
    pub(super) fn with<T>(&self, call: impl FnOnce(&mut Core, Instant) -> T) -> T {
        let mut core = self.lock();
        let answer = call(&mut core, self.now());
        let work = self.leave(core);
        self.carry_out(work);
        answer
    }

    /// Releases the lock; returns the work to do after it.
    fn leave(&self, mut core: MutexGuard<'_, Core>) -> Work {
        let deadline = core.driver.deadline();
        let work = std::mem::take(core.work());
        drop(core);
        self.alarm.set(deadline);
        work
    }

    /// Does the work, and all work that results from it.
    fn carry_out(&self, mut work: Work) {
        loop {
            let refused = self.start_reads(work.reads);
            let unmade = self.start_passes(work.passes);
            let unpinned: Vec<_> = work.replies.into_iter().filter_map(Reply::send).flatten().collect();
            self.frames.give_back(&work.dropped);
            if refused.is_empty() && unmade.is_empty() && unpinned.is_empty() {
                return;
            }
            let mut core = self.lock();
            let now = self.now();
            core.unmade(unmade);
            refused.into_iter().for_each(|fetch| core.driver.refused(now, fetch, Refusal::Gone));
            if !unpinned.is_empty() {
                core.driver.unpinned(now, &unpinned);
            }
            work = self.leave(core);
        }
    }

    /// Starts fetches; returns those that were refused.
    fn start_reads(&self, wanted: Vec<reads::DiskRead>) -> Vec<FetchId> {
        let Some(reads) = self.reads.get().filter(|_| !wanted.is_empty()) else { return Vec::new() };
        let refused = reads.start(wanted);
        refused.iter().filter_map(|read| Token::fetch(read.token)).collect()
    }

    /// Starts passed reads, as far as there are buffers; returns the others.
    fn start_passes(&self, passes: Vec<Pass>) -> Vec<Pass> {
        let Some(reads) = self.reads.get() else { return Vec::new() };
        let mut unmade = Vec::new();
        for pass in passes {
            match self.passing.try_take(pass.length()) {
                Some(buffer) => {
                    let refused = reads.start(vec![pass.into_read(buffer)]);
                    for read in refused {
                        self.pass_ended(Token::pass(read.token), read.offset, Err(Errno::IO));
                    }
                }
                None => unmade.push(pass),
            }
        }
        unmade
    }

    /// Reads have ended.
    pub(super) fn ended(shared: &Weak<Self>, ended: Vec<Ended>) {
        // Without it the reader has ended.
        let Some(shared) = shared.upgrade() else { return };
        let mut fetched = Vec::with_capacity(ended.len());
        for Ended { read, got, error, from_memory, .. } in ended {
            let (token, offset) = (read.token, read.offset);
            match (Token::fetch(token), read.into) {
                (Some(fetch), Target::Frames(filling)) => {
                    // Whole pages before an error count.
                    let got = if error.is_some() { got.pages_floor().bytes() } else { got };
                    let short = error.is_none() && got.get() < filling.len() as u64;
                    filling.finish(got);
                    let end = short.then_some(offset + got);
                    let how = if from_memory && error.is_none() {
                        FetchEnd::FromMemory
                    } else {
                        FetchEnd::of(error)
                    };
                    fetched.push(Fetched { fetch, got: got.pages_ceil(), how, end });
                }
                (None, Target::Buffer(buffer)) => {
                    let result = error.map_or(Ok(&buffer[..got.get() as usize]), Err);
                    shared.pass_ended(Token::pass(token), offset, result);
                }
                // Fetches use frames, passed reads buffers. The waiters of this one get an error
                // nevertheless.
                (Some(fetch), Target::Buffer(_)) => {
                    shared.lock().driver.counts.internal_errors += 1;
                    let how = FetchEnd::Failed(Errno::IO);
                    fetched.push(Fetched { fetch, got: Pages::ZERO, how, end: None });
                }
                (None, Target::Frames(_)) => {
                    shared.lock().driver.counts.internal_errors += 1;
                    shared.pass_ended(Token::pass(token), offset, Err(Errno::IO));
                }
            }
        }
        let doubts = shared.with(|core, now| {
            let mut doubts = Vec::new();
            for fetched in fetched {
                match fetched.end.and_then(|end| core.driver.ended_early(fetched.fetch, end)) {
                    Some(doubt) => doubts.push((fetched, doubt)),
                    None => core.driver.done(now, fetched.fetch, fetched.got, fetched.how),
                }
            }
            // A buffer may be free.
            core.retry_passes();
            doubts
        });
        doubts.into_iter().for_each(|(fetched, doubt)| shared.look_and_settle(fetched, &doubt));
    }

    /// A file ended early: its readers get its current end, and not zeros up to the old one.
    fn look_and_settle(&self, fetched: Fetched, doubt: &Revalidation<Below>) {
        let version = self.outside.version(&doubt.file);
        self.with(|core, now| {
            if let Some(version) = version {
                core.driver.revalidate(now, doubt, version);
            }
            core.driver.done(now, fetched.fetch, fetched.got, fetched.how);
        });
    }

    /// Answers a passed read, of which these bytes from `offset` on were read.
    fn pass_ended(&self, request: RequestId, offset: ByteOffset, result: Result<&[u8], Errno>) {
        let mut core = self.lock();
        let Some(WaitingRead { range, answer, .. }) = core.driver.take(request) else { return };
        let counts = &mut core.driver.counts;
        counts.passed += range.len();
        match result {
            Ok(bytes) => {
                let at = |place: ByteOffset| ((place - offset).get() as usize).min(bytes.len());
                let bytes = &bytes[at(range.start)..at(range.end)];
                counts.read += Bytes(bytes.len() as u64);
                drop(core);
                answer.data(bytes);
            }
            Err(errno) => {
                counts.failed += 1;
                drop(core);
                answer.fail(errno);
            }
        }
    }
}

/// A fetch that has ended.
struct Fetched {
    fetch: FetchId,
    got: Pages,
    how: FetchEnd<Errno>,
    /// Its end, if that is before the requested one.
    end: Option<ByteOffset>,
}
