//! The driver: events to its engine, commands to its backing.

use super::backing::{Backing, FrameFetch, Reply, Version, WaitingRead};
use super::counts::Counts;
use super::files::Files;
use crate::benefit::{StepAside, Totals};
use crate::serving::{ServingEngine, Stats};
use foreseek_seam::record::Recorder;
use foreseek_seam::{
    Command, Commands, Destination, Engine, Epoch, Event, Extent, FetchId, FetchOutcome, FrameId, Measured,
    ObjectId, ProcessId, Refusal, RequestId, ServingCommand, ServingEvent, StreamId, StreamInfo, Urgency,
};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, PAGE_SIZE, Pages, Span};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The most ticks after one event: an engine's commands never fill its bound as many times. If they did, its
/// deadline would be past, and the next tick would continue.
const TICKS_MOST: usize = 64;
/// The most errors that are remembered: one for each fetch that a read waits for, and a read has at most 256
/// pages.
const FAILURES_MOST: usize = 256;
/// Every byte that an object can have.
const ALL: ByteSpan = Span { start: ByteOffset::ZERO, end: ByteOffset(i64::MAX as u64) };

/// See the [module's](super) documentation.
pub struct ServingDriver<B: Backing> {
    engine: ServingEngine,
    below: B,
    commands: Commands,
    recorder: Option<Recorder>,
    files: Files<B::File, B::Version>,
    streams: FxHashMap<StreamId, ObjectId>,
    requests: FxHashMap<RequestId, WaitingRead<B::Answer>>,
    /// The fetches in flight, with the object and epoch of each.
    fetches: FxHashMap<FetchId, (ObjectId, Epoch)>,
    /// The fetches that failed last and their errors, for the reads that waited for them.
    failures: VecDeque<(FetchId, B::Error)>,
    /// Fetches that the backing refused and frames that it could not read during a call. The engine gets them
    /// in the same call.
    refused: Vec<(FetchId, Refusal)>,
    unread: Vec<FrameId>,
    /// Whether during a call something was fetched for a waiting reader, or a read was passed.
    demanded: bool,
    /// Names of closed streams, reused, the smallest first: a prefetcher's table is as long as the largest
    /// name.
    names: BinaryHeap<Reverse<StreamId>>,
    next_request: u64,
    stopped: bool,
    aside: StepAside,
    /// Whether it began with costs of the device that an earlier run has learnt.
    restored_device: bool,
    /// Counters beside those of the engine.
    pub counts: Counts,
}

/// A file that is opened for reading.
#[derive(Clone, Debug)]
pub struct Opening<'a, B: Backing> {
    /// The object.
    pub object: ObjectId,
    /// Its version.
    pub version: B::Version,
    /// The file. Where the object is open already, its first file is kept.
    pub file: B::File,
    /// The process that opens it.
    pub pid: ProcessId,
    /// What else is known about it.
    pub about: Option<StreamInfo<'a>>,
    /// Its addresses on the device, if they were looked up.
    pub placed: Option<&'a [Extent]>,
}

/// How a fetch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchEnd<E> {
    /// Without an error.
    Read,
    /// Without an error, and some of its pages came out of the page cache.
    FromMemory,
    /// With an error right after the pages that arrived.
    Failed(E),
}

impl<E> FetchEnd<E> {
    /// The end of a fetch from the device.
    pub fn of(error: Option<E>) -> Self {
        error.map_or(Self::Read, Self::Failed)
    }
}

/// A file whose version is in doubt.
#[derive(Debug)]
pub struct Revalidation<B: Backing> {
    object: ObjectId,
    version: B::Version,
    /// The file to examine.
    pub file: B::File,
}

impl<B: Backing> ServingDriver<B> {
    /// A driver of a new engine, with or without a recorder.
    pub fn new(engine: ServingEngine, mut recorder: Option<Recorder>, below: B) -> Self {
        recorder.iter_mut().for_each(|recorder| recorder.begin(engine.settings()));
        Self {
            engine,
            below,
            commands: Commands::new(),
            recorder,
            files: Files::default(),
            streams: FxHashMap::default(),
            requests: FxHashMap::default(),
            fetches: FxHashMap::default(),
            failures: VecDeque::new(),
            refused: Vec::new(),
            unread: Vec::new(),
            demanded: false,
            names: BinaryHeap::new(),
            next_request: 0,
            stopped: false,
            aside: StepAside::default(),
            restored_device: false,
            counts: Counts::default(),
        }
    }

    /// The backing.
    pub fn below(&self) -> &B {
        &self.below
    }

    /// The backing, mutable.
    pub fn below_mut(&mut self) -> &mut B {
        &mut self.below
    }

    /// The engine.
    pub fn engine(&self) -> &ServingEngine {
        &self.engine
    }

    /// The engine, to take what it has learnt.
    pub fn engine_mut(&mut self) -> &mut ServingEngine {
        &mut self.engine
    }

    /// The engine's counters, with the internal errors found here.
    pub fn stats(&self) -> Stats {
        let stats = self.engine.stats();
        Stats { internal_errors: stats.internal_errors + self.counts.internal_errors, ..stats }
    }

    /// When the engine needs its next tick.
    pub fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// The number of reads that are not answered.
    pub fn unanswered(&self) -> usize {
        self.requests.len()
    }

    /// Loads what an earlier run has learnt. Called before anything else.
    pub fn restore(&mut self, now: Instant, learnt: &str, device: Option<Measured>) {
        self.restored_device = device.is_some();
        self.send(now, Event::Serving(ServingEvent::Restored { learnt, device }));
    }

    /// The costs of the device, if this run or an earlier one has learnt them.
    pub fn device(&self) -> Option<Measured> {
        let stats = self.engine.stats();
        let learnt = stats.learnt_from > 0 || self.restored_device;
        learnt.then_some(Measured { positioning: stats.unloaded, rate: stats.rate })
    }

    /// Called once for each open of a file for reading. Returns whether to read the file without this driver,
    /// since prefetching does not pay ([`benefit`](crate::benefit)).
    pub fn steps_aside(&mut self, now: Instant) -> bool {
        let Self { aside, engine, .. } = self;
        aside.opens(now, engine.fetched_ahead(), || Totals::from(&engine.stats()))
    }

    /// Whether prefetching pays, as judged last.
    pub fn benefit(&self) -> &StepAside {
        &self.aside
    }

    /// The file of an object that is open.
    pub fn file(&self, object: ObjectId) -> Option<B::File> {
        self.files.file(object)
    }

    /// A file is opened for reading. Returns the stream for its reads. If its version is not the known one,
    /// everything known about it is dropped.
    pub fn open(&mut self, now: Instant, opening: Opening<'_, B>) -> StreamId {
        let Opening { object, version, file, pid, about, placed } = opening;
        // If no name is free, all names below the number of streams are in use.
        let stream = self.names.pop().map_or(StreamId(self.streams.len() as u64), |Reverse(name)| name);
        let length = version.length();
        if let Some(epoch) = self.files.open(object, version, file) {
            self.send(now, Event::Changed { object, range: ALL, epoch });
            self.send(now, Event::Resized { object, length });
        }
        self.streams.insert(stream, object);
        self.send(now, Event::Opened { stream, object, length, pid });
        if let Some(about) = about {
            self.send(now, Event::Serving(ServingEvent::Described { stream, about }));
        }
        if let Some(extents) = placed {
            self.send(now, Event::Placed { object, extents });
        }
        stream
    }

    /// Closes a stream. Returns the file if that was its last stream. Reads that wait for pages of it yet to
    /// be fetched then fail: the caller waits for them first, as a kernel does.
    pub fn close(&mut self, now: Instant, stream: StreamId) -> Option<B::File> {
        let object = self.streams.remove(&stream)?;
        self.send(now, Event::Closed { stream });
        self.names.push(Reverse(stream));
        self.files.close(object)
    }

    /// Whether to inspect the call in which the reader of these bytes waits, and to [pass it
    /// on](Self::called) before the read.
    pub fn asks_for_call(&self, stream: StreamId, range: ByteSpan) -> bool {
        self.engine.asks_for_call(stream, range)
    }

    /// A program waits in a call for these bytes: the next read is a part of it.
    pub fn called(&mut self, now: Instant, stream: StreamId, range: ByteSpan) {
        if self.streams.contains_key(&stream) {
            self.send(now, Event::Serving(ServingEvent::Called { stream, range }));
        }
    }

    /// Serves a read. The backing gets the answer during this call or later.
    ///
    /// # Errors
    /// Its stream is not open, or the driver has stopped: the answer is returned.
    pub fn read(
        &mut self,
        now: Instant,
        stream: StreamId,
        range: ByteSpan,
        pid: ProcessId,
        answer: B::Answer,
    ) -> Result<(), B::Answer> {
        let Some(object) = self.streams.get(&stream).copied().filter(|_| !self.stopped) else {
            return Err(answer);
        };
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, WaitingRead { object, range, answer });
        self.demanded = false;
        self.send(now, Event::Read { request, stream, range, pid: Some(pid) });
        // An answered request is gone. Any other waits for fetches: its own, or ones that were wanted anyway.
        if !self.requests.contains_key(&request) {
            self.counts.hits += 1;
        } else if !self.demanded {
            self.counts.joined += 1;
        }
        Ok(())
    }

    /// Bytes of a file have changed: those of `range`, or all. Called once the file has them and before the
    /// change is acknowledged.
    pub fn changed(&mut self, now: Instant, object: ObjectId, range: Option<ByteSpan>, version: B::Version) {
        let Some(before) = self.files.version(object) else { return };
        let epoch = self.files.change(object, version);
        self.send(now, Event::Changed { object, range: range.unwrap_or(ALL), epoch });
        let length = version.length();
        if before.length() != length {
            self.send(now, Event::Resized { object, length });
        }
    }

    /// Whether a fetch that ended at `end` without an error ended before the known end of its file. Another
    /// process may then have truncated it.
    pub fn ended_early(&self, fetch: FetchId, end: ByteOffset) -> Option<Revalidation<B>> {
        let (object, _) = *self.fetches.get(&fetch)?;
        let version = self.files.version(object)?;
        let early = end < ByteOffset::ZERO + version.length();
        early.then_some(Revalidation { object, version, file: self.files.file(object)? })
    }

    /// Sets the version of a file that was in doubt; ignored if the file has changed meanwhile.
    pub fn revalidate(&mut self, now: Instant, doubt: &Revalidation<B>, version: B::Version) {
        let Revalidation { object, version: before, .. } = *doubt;
        if version != before && self.files.version(object) == Some(before) {
            self.changed(now, object, None, version);
        }
    }

    /// A fetch has ended and brought `got` pages.
    pub fn done(&mut self, now: Instant, fetch: FetchId, got: Pages, end: FetchEnd<B::Error>) {
        let Some((_, epoch)) = self.fetches.remove(&fetch) else { return };
        let outcome = match end {
            FetchEnd::Read => FetchOutcome::Arrived,
            FetchEnd::FromMemory => FetchOutcome::FromMemory,
            FetchEnd::Failed(error) => {
                self.failures.truncate(FAILURES_MOST - 1);
                self.failures.push_front((fetch, error));
                FetchOutcome::Failed
            }
        };
        let in_flight = self.fetches.len() as u32;
        self.send(now, Event::Done { fetch, epoch, got, outcome, in_flight });
    }

    /// A fetch that was accepted is not made after all.
    pub fn refused(&mut self, now: Instant, fetch: FetchId, why: Refusal) {
        self.fetches.remove(&fetch);
        self.send(now, Event::Refused { fetch, why });
    }

    /// Replies out of these frames are over.
    pub fn unpinned(&mut self, now: Instant, frames: &[FrameId]) {
        self.send(now, Event::Serving(ServingEvent::Unpinned { frames }));
    }

    /// Takes a passed read that is over, to be answered.
    pub fn take(&mut self, request: RequestId) -> Option<WaitingRead<B::Answer>> {
        self.requests.remove(&request)
    }

    /// Sends the engine an event for which nothing is kept here. Has the backing carry out its commands until
    /// there are no more.
    pub fn send(&mut self, now: Instant, event: Event<'_>) {
        self.step(now, &event);
        let mut ticks = 0;
        loop {
            if let Some((fetch, why)) = self.refused.pop() {
                self.step(now, &Event::Refused { fetch, why });
            } else if !self.unread.is_empty() {
                let frames = std::mem::take(&mut self.unread);
                self.step(now, &Event::Serving(ServingEvent::Unpinned { frames: &frames }));
            } else if ticks < TICKS_MOST && self.engine.deadline().is_some_and(|deadline| deadline <= now) {
                ticks += 1;
                self.step(now, &Event::Tick);
            } else {
                return;
            }
        }
    }

    fn step(&mut self, now: Instant, event: &Event<'_>) {
        self.engine.on(now, event.clone(), &mut self.commands);
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, event);
            recorder.commands(self.commands.as_slice());
        }
        let mut commands = std::mem::take(&mut self.commands);
        commands.drain().for_each(|command| self.carry_out(command));
        self.commands = commands;
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Fetch {
                fetch,
                object,
                range,
                epoch,
                into: Destination::Frames(frames),
                urgency,
                apart,
            } => {
                self.demanded |= urgency == Urgency::Demand;
                let taken = match self.files.file(object) {
                    Some(file) => self.below.fetch(FrameFetch {
                        id: fetch,
                        object,
                        file,
                        range,
                        frames,
                        urgency,
                        apart,
                    }),
                    None => Err(Refusal::Gone),
                };
                match taken {
                    Ok(()) => drop(self.fetches.insert(fetch, (object, epoch))),
                    Err(why) => self.refused.push((fetch, why)),
                }
            }
            Command::Serving(ServingCommand::Serve { request, frames }) => self.serve(request, frames),
            Command::Serving(ServingCommand::Fail { request, fetch }) => {
                let failure = self.failures.iter().find(|(failed, _)| *failed == fetch);
                self.fail(request, failure.map_or(B::UNKNOWN, |(_, error)| *error));
            }
            Command::Pass { request } => self.pass(request),
            Command::Serving(ServingCommand::Drop { frames }) => self.below.drop_frames(&frames),
            // A serving engine fetches into frames, and does not query a page cache.
            Command::Fetch { .. } | Command::Hint(_) => {}
        }
    }

    /// Answers a read out of frames.
    fn serve(&mut self, request: RequestId, frames: Vec<FrameId>) {
        let Some(WaitingRead { object, range, answer }) = self.requests.remove(&request) else { return };
        let skip = range.start.get() % PAGE_SIZE;
        let there = Bytes(frames.len() as u64 * PAGE_SIZE).saturating_sub(Bytes(skip));
        let of_file = self.files.length(object).saturating_sub(range.start - ByteOffset::ZERO);
        let length = range.len().min(there).min(of_file);
        let reply = Reply { answer, frames, skip: skip as usize, length: length.get() as usize };
        match self.below.serve(reply) {
            Ok(()) => self.counts.read += length,
            // An error of the engine must not fail the read.
            Err(Reply { answer, frames, .. }) => {
                self.counts.internal_errors += 1;
                self.unread.extend(frames);
                self.requests.insert(request, WaitingRead { object, range, answer });
                self.pass(request);
            }
        }
    }

    /// Passes a read.
    fn pass(&mut self, request: RequestId) {
        self.demanded = true;
        let Some(asked) = self.requests.get(&request) else { return };
        let passed = match self.files.file(asked.object) {
            Some(file) => self.below.pass(request, asked, file),
            None => Err(B::NOT_OPEN),
        };
        if let Err(error) = passed {
            self.fail(request, error);
        }
    }

    fn fail(&mut self, request: RequestId, error: B::Error) {
        if let Some(asked) = self.requests.remove(&request) {
            self.counts.failed += 1;
            self.below.fail(asked.answer, error);
        }
    }

    /// Whether the driver has stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Stops: no more reads are served. Reads that still wait are dropped unanswered, and the recording ends.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.requests.clear();
        self.recorder = None;
    }
}

impl<B: Backing> std::fmt::Debug for ServingDriver<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (requests, fetches) = (self.requests.len(), self.fetches.len());
        f.debug_struct("ServingDriver")
            .field("requests", &requests)
            .field("fetches", &fetches)
            .finish_non_exhaustive()
    }
}
