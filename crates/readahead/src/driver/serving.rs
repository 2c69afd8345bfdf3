//! The driver: events to its engine, commands to its backing.

use super::backing::{Backing, Fetch, Reply, Version, WaitingRead};
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

/// Ticks after one event: an engine has no more to say than its bound of commands many times over. If it has, its
/// deadline is past, and the next tick continues.
const TICKS_MOST: usize = 64;
/// Errors that are remembered: one for each fetch that a read waits for, which has at most 256 pages.
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
    /// Fetches under way, of which object and epoch they are.
    fetches: FxHashMap<FetchId, (ObjectId, Epoch)>,
    /// The fetches that failed last and how, to be named by the reads that wait for them and others.
    failures: VecDeque<(FetchId, B::Error)>,
    /// What the backing did not take or could not read during a call: the engine is told of it in the same.
    refused: Vec<(FetchId, Refusal)>,
    unread: Vec<FrameId>,
    /// Whether something was fetched for a reader that waits, or a read passed, during a call.
    demanded: bool,
    /// Names of closed streams, given again, the smallest first: a prefetcher's table is as long as the largest.
    names: BinaryHeap<Reverse<StreamId>>,
    next_request: u64,
    stopped: bool,
    aside: StepAside,
    /// Whether it began with costs of the device that were learnt before.
    restored_device: bool,
    /// What happened beside what the engine counts.
    pub counts: Counts,
}

/// A file that is opened for reading.
#[derive(Clone, Debug)]
pub struct Opening<'a, B: Backing> {
    /// Which file.
    pub object: ObjectId,
    /// In which state.
    pub version: B::Version,
    /// The file; where it is open already, that one is used on.
    pub file: B::File,
    /// Who opens it.
    pub who: ProcessId,
    /// What else is known of it.
    pub about: Option<StreamInfo<'a>>,
    /// Where it lies on the device, if that was looked up.
    pub placed: Option<&'a [Extent]>,
}

/// A file that may not be what it is known to be.
#[derive(Debug)]
pub struct Revalidation<B: Backing> {
    object: ObjectId,
    version: B::Version,
    /// The file to look at.
    pub file: B::File,
}

impl<B: Backing> ServingDriver<B> {
    /// A driver of a new engine, which is recorded if there is a recorder.
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

    /// What lies below.
    pub fn below(&self) -> &B {
        &self.below
    }

    /// The same, to be changed.
    pub fn below_mut(&mut self) -> &mut B {
        &mut self.below
    }

    /// The engine, to be asked.
    pub fn engine(&self) -> &ServingEngine {
        &self.engine
    }

    /// The engine, for what it has learnt.
    pub fn engine_mut(&mut self) -> &mut ServingEngine {
        &mut self.engine
    }

    /// What the engine has done, with the internal errors that were found here.
    pub fn stats(&self) -> Stats {
        let stats = self.engine.stats();
        Stats { internal_errors: stats.internal_errors + self.counts.internal_errors, ..stats }
    }

    /// When the engine wants to be ticked.
    pub fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// Reads that are not answered.
    pub fn unanswered(&self) -> usize {
        self.requests.len()
    }

    /// Takes up what was learnt before; told before anything else.
    pub fn restore(&mut self, now: Instant, learnt: &str, device: Option<Measured>) {
        self.restored_device = device.is_some();
        self.tell(now, Event::Serving(ServingEvent::Restored { learnt, device }));
    }

    /// What the device costs, where that was learnt, now or before.
    pub fn device(&self) -> Option<Measured> {
        let stats = self.engine.stats();
        let learnt = stats.learnt_from > 0 || self.restored_device;
        learnt.then_some(Measured { switch: stats.unloaded, rate: stats.rate })
    }

    /// A file is about to be opened for reading: whether it is to be read past this driver, since prefetching does not pay
    /// ([`benefit`](crate::benefit)). Asked once for each open.
    pub fn steps_aside(&mut self, now: Instant) -> bool {
        let Self { aside, engine, .. } = self;
        aside.opens(now, engine.fetched_ahead(), || Totals::from(&engine.stats()))
    }

    /// Whether prefetching pays, as far as was judged.
    pub fn benefit(&self) -> &StepAside {
        &self.aside
    }

    /// The file of an object that is open.
    pub fn file(&self, object: ObjectId) -> Option<B::File> {
        self.files.file(object)
    }

    /// A file is opened for reading; the stream that its reads bear. Where it is not what it was known to be, nothing
    /// known of it holds.
    pub fn open(&mut self, now: Instant, opening: Opening<'_, B>) -> StreamId {
        let Opening { object, version, file, who, about, placed } = opening;
        // Where none was given back, all that were given are open.
        let stream = self.names.pop().map_or(StreamId(self.streams.len() as u64), |Reverse(name)| name);
        let length = version.length();
        if let Some(epoch) = self.files.open(object, version, file) {
            self.tell(now, Event::Changed { object, range: ALL, epoch });
            self.tell(now, Event::Resized { object, length });
        }
        self.streams.insert(stream, object);
        self.tell(now, Event::Opened { stream, object, length, who });
        if let Some(about) = about {
            self.tell(now, Event::Serving(ServingEvent::Described { stream, about }));
        }
        if let Some(extents) = placed {
            self.tell(now, Event::Placed { object, extents });
        }
        stream
    }

    /// A stream is closed; the file that is used no longer. Reads that wait while the last stream of their file is
    /// closed fail where something is still to be fetched for them: whoever closes waits for them first, as a kernel
    /// does.
    pub fn close(&mut self, now: Instant, stream: StreamId) -> Option<B::File> {
        let object = self.streams.remove(&stream)?;
        self.tell(now, Event::Closed { stream });
        self.names.push(Reverse(stream));
        self.files.close(object)
    }

    /// Whether to look at the call in which the reader of these bytes waits, and to [tell](Self::called) it before the read.
    pub fn asks_for_call(&self, stream: StreamId, range: ByteSpan) -> bool {
        self.engine.asks_for_call(stream, range)
    }

    /// A program waits in a call for these bytes: the read that is told next is a part of it.
    pub fn called(&mut self, now: Instant, stream: StreamId, range: ByteSpan) {
        if self.streams.contains_key(&stream) {
            self.tell(now, Event::Serving(ServingEvent::Called { stream, range }));
        }
    }

    /// A read, answered by a call of the backing, in this call or later.
    ///
    /// # Errors
    /// Its stream is not open, or nothing more is read: the answer comes back.
    pub fn read(
        &mut self,
        now: Instant,
        stream: StreamId,
        range: ByteSpan,
        who: ProcessId,
        answer: B::Answer,
    ) -> Result<(), B::Answer> {
        let Some(object) = self.streams.get(&stream).copied().filter(|_| !self.stopped) else {
            return Err(answer);
        };
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, WaitingRead { object, range, answer });
        self.demanded = false;
        self.tell(now, Event::Read { request, stream, range, who: Some(who) });
        // Gone already: it was answered out of memory. Else it waits for what is fetched for it, or for
        // what was to be fetched anyway.
        if !self.requests.contains_key(&request) {
            self.counts.hits += 1;
        } else if !self.demanded {
            self.counts.joined += 1;
        }
        Ok(())
    }

    /// Bytes of a file have changed: those of `range`, or all. Called when the file has them and before the change is
    /// acknowledged.
    pub fn changed(&mut self, now: Instant, object: ObjectId, range: Option<ByteSpan>, version: B::Version) {
        let Some(before) = self.files.version(object) else { return };
        let epoch = self.files.change(object, version);
        self.tell(now, Event::Changed { object, range: range.unwrap_or(ALL), epoch });
        let length = version.length();
        if before.length() != length {
            self.tell(now, Event::Resized { object, length });
        }
    }

    /// Whether a fetch that ended at `end`, without an error, ended before the known end of its file: then another
    /// process may have truncated it.
    pub fn ended_early(&self, fetch: FetchId, end: ByteOffset) -> Option<Revalidation<B>> {
        let (object, _) = *self.fetches.get(&fetch)?;
        let version = self.files.version(object)?;
        let early = end < ByteOffset::ZERO + version.length();
        early.then_some(Revalidation { object, version, file: self.files.file(object)? })
    }

    /// The version of a file that was in doubt is this one; ignored if the file has changed meanwhile.
    pub fn revalidate(&mut self, now: Instant, doubt: &Revalidation<B>, version: B::Version) {
        let Revalidation { object, version: before, .. } = *doubt;
        if version != before && self.files.version(object) == Some(before) {
            self.changed(now, object, None, version);
        }
    }

    /// A fetch has ended: so many pages of it came.
    pub fn done(&mut self, now: Instant, fetch: FetchId, got: Pages, error: Option<B::Error>) {
        let Some((_, epoch)) = self.fetches.remove(&fetch) else { return };
        if let Some(error) = error {
            self.failures.truncate(FAILURES_MOST - 1);
            self.failures.push_front((fetch, error));
        }
        let in_flight = self.fetches.len() as u32;
        let outcome = if error.is_some() { FetchOutcome::Failed } else { FetchOutcome::Arrived };
        self.tell(now, Event::Done { fetch, epoch, got, outcome, in_flight });
    }

    /// A fetch that was taken is not made after all.
    pub fn refused(&mut self, now: Instant, fetch: FetchId, why: Refusal) {
        self.fetches.remove(&fetch);
        self.tell(now, Event::Refused { fetch, why });
    }

    /// Replies out of these frames are over.
    pub fn unpinned(&mut self, now: Instant, frames: &[FrameId]) {
        self.tell(now, Event::Serving(ServingEvent::Unpinned { frames }));
    }

    /// Takes a passed read that is over, to be answered.
    pub fn take(&mut self, request: RequestId) -> Option<WaitingRead<B::Answer>> {
        self.requests.remove(&request)
    }

    /// Tells the engine something of which no books are kept here, and has the backing do what it says, until it has
    /// no more to say.
    pub fn tell(&mut self, now: Instant, event: Event<'_>) {
        self.say(now, &event);
        let mut ticks = 0;
        loop {
            if let Some((fetch, why)) = self.refused.pop() {
                self.say(now, &Event::Refused { fetch, why });
            } else if !self.unread.is_empty() {
                let frames = std::mem::take(&mut self.unread);
                self.say(now, &Event::Serving(ServingEvent::Unpinned { frames: &frames }));
            } else if ticks < TICKS_MOST && self.engine.deadline().is_some_and(|deadline| deadline <= now) {
                ticks += 1;
                self.say(now, &Event::Tick);
            } else {
                return;
            }
        }
    }

    fn say(&mut self, now: Instant, event: &Event<'_>) {
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
                    Some(file) => {
                        self.below.fetch(Fetch { id: fetch, object, file, range, frames, urgency, apart })
                    }
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
            // A serving engine fetches into frames, and asks nothing of a page cache.
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
            // An error of the engine must not become one of the reader.
            Err(Reply { answer, frames, .. }) => {
                self.counts.internal_errors += 1;
                self.unread.extend(frames);
                self.requests.insert(request, WaitingRead { object, range, answer });
                self.pass(request);
            }
        }
    }

    /// Lets a read be made as it is.
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

    /// Whether nothing more is read.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Nothing more is read. Answers of reads that still wait are dropped, and the recording ends.
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
