//! What all threads of a reader share: the engine behind its lock, and carrying out what it said.

use super::about::Programs;
use super::alarm::Alarm;
use super::core::{Core, Doubt};
use super::objects::Places;
use super::pass::Pass;
use super::token::Token;
use super::work::{Reply, Work};
use crate::read_path::Version;
use foreseek_seam::{Event, FetchId, ServingEvent};
use foreseek_storage::reads::{self, Ended, Reads, Target};
use foreseek_storage::{Arena, Frames, ProcessWatch};
use foreseek_units::{ByteOffset, Instant, Nanos, Pages};
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What all threads share.
pub(super) struct Shared {
    pub(super) core: Mutex<Core>,
    pub(super) frames: Arc<Frames>,
    pub(super) passing: Arc<Arena>,
    /// Set once, right after this was made: its sink knows this.
    pub(super) reads: OnceLock<Arc<dyn Reads>>,
    pub(super) processes: Mutex<ProcessWatch>,
    /// The programs of readers, for a policy that learns.
    pub(super) programs: Option<Programs>,
    pub(super) places: Places,
    pub(super) alarm: Alarm,
    pub(super) origin: std::time::Instant,
}

impl Shared {
    /// The core is whole after every call of it; a panic within is a bug, and readers still get errors
    /// rather than wait for ever.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        Instant(Nanos::from(self.origin.elapsed()).get())
    }

    /// Tells the engine something, and does what follows.
    pub(super) fn with<T>(&self, tell: impl FnOnce(&mut Core, Instant, &mut Work) -> T) -> T {
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
    pub(super) fn ended(shared: &Weak<Self>, ended: Vec<Ended>) {
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
