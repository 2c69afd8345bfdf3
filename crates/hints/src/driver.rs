//! Carries out a [`Pump`]'s needs on a page cache, without threads, locks or a clock of its own.
//!
//! `libprefetch` drives one for each client over the kernel's page cache.
//! A call returns when the engine needs nothing more for it: a [`read`](Driver::read) that begins a round
//! returns when the round has been requested.
//!
//! A read returns [`Step::Callback`] when the application should first announce its reads: the caller runs the
//! application's callback, which calls [`hint`](Driver::hint), and then [`answered`](Driver::answered).

use crate::pump::{Need, Next, Pump, Step};
use crate::{Settings, Stats};
use foreseek_seam::{Access, HintMode, ObjectId, PageCache, ProcessId, Recorder, RequestId, StreamId};
use foreseek_units::{ByteSpan, Bytes, Instant, PageSpan};

/// An engine and the execution of its commands.
pub struct Driver {
    pump: Pump,
    runs: Vec<PageSpan>,
}

impl Driver {
    /// A driver with an empty list.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { pump: Pump::new(settings), runs: Vec::new() }
    }

    /// See [`Pump::record_into`].
    pub fn record_into(&mut self, recorder: Recorder) {
        self.pump.record_into(recorder);
    }

    /// A stream was opened on an object of `length` bytes, or its object's length has changed to `length`.
    pub fn open(
        &mut self,
        cache: &mut dyn PageCache,
        stream: StreamId,
        object: ObjectId,
        length: Bytes,
        pid: ProcessId,
    ) {
        let (now, extents) = (cache.now(), cache.extents(object));
        self.pump.open(now, (stream, object, pid), length, &extents);
        self.carry_out(cache, now);
    }

    /// A stream was closed.
    pub fn close(&mut self, cache: &mut dyn PageCache, stream: StreamId) {
        let now = cache.now();
        self.pump.close(now, stream);
        self.carry_out(cache, now);
    }

    /// Starts to watch reads of this range.
    pub fn watch(&mut self, cache: &mut dyn PageCache, object: ObjectId, range: ByteSpan) {
        let now = cache.now();
        self.pump.watch(now, object, range);
        self.carry_out(cache, now);
    }

    /// Ends the watch of a range that was passed to `watch`.
    pub fn unwatch(&mut self, cache: &mut dyn PageCache, object: ObjectId, range: ByteSpan) {
        let now = cache.now();
        self.pump.unwatch(now, object, range);
        self.carry_out(cache, now);
    }

    /// The application announces its reads: see [`Pump::hint`].
    pub fn hint(
        &mut self,
        cache: &mut dyn PageCache,
        mode: HintMode,
        accesses: &[Access],
        done: bool,
    ) -> usize {
        let now = cache.now();
        let accepted = self.pump.hint(now, mode, accesses, done);
        self.carry_out(cache, now);
        accepted
    }

    /// A read is about to be made. Call it before each read of an object with watched ranges.
    pub fn read(&mut self, cache: &mut dyn PageCache, stream: StreamId, range: ByteSpan) -> Step {
        let now = cache.now();
        if self.pump.wants_budget(now) {
            self.pump.budget(now, cache.budget());
        }
        self.pump.read(now, stream, range);
        self.carry_out(cache, now)
    }

    /// The application has answered a [`CallbackRequest`](crate::CallbackRequest), with or without hints.
    pub fn answered(&mut self, cache: &mut dyn PageCache, request: RequestId) -> Step {
        let now = cache.now();
        self.pump.budget(now, cache.budget());
        self.pump.answered(now, request);
        self.carry_out(cache, now)
    }

    /// The bytes of a range changed: pages fetched of it no longer count as prefetched.
    pub fn changed(&mut self, cache: &mut dyn PageCache, object: ObjectId, range: ByteSpan) {
        let now = cache.now();
        self.pump.changed(now, object, range);
        self.carry_out(cache, now);
    }

    /// Whether the whole list has been fetched in a round that holds it.
    #[must_use]
    pub fn has_fetched_all(&self) -> bool {
        self.pump.has_fetched_all()
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.pump.stats()
    }

    /// Carries out what the call needs, until it is over. `now` is when the call began. To ask what is in memory takes
    /// no longer than to read the clock, so that such an answer has the time of what was before it.
    fn carry_out(&mut self, cache: &mut dyn PageCache, mut now: Instant) -> Step {
        loop {
            match self.pump.advance() {
                Next::Over(step) => return step,
                Next::Do(Need::Fetch(object, range)) => {
                    let result = cache.fetch(object, range);
                    now = cache.now();
                    self.pump.fetched(now, result);
                }
                Next::Do(Need::Forget(object, range)) => {
                    cache.forget(object, range);
                    now = cache.now();
                    self.pump.forgotten(now);
                }
                Next::Do(Need::Resident(object, range)) => {
                    self.runs.clear();
                    let known = cache.resident(object, range, &mut self.runs);
                    self.pump.resident(now, known.then_some(&self.runs));
                }
            }
        }
    }
}
