//! The engine and what its driver has to remember, behind the lock.

use super::about::Described;
use super::objects::{Found, Objects, Opening};
use super::pass::{PASSING, Part, Pass};
use super::token::Token;
use super::work::{Reply, Work};
use crate::read_path::{Answer, Change, OpenedFile, Read, Version};
use foreseek_readahead::ServingEngine;
use foreseek_seam::Measured;
use foreseek_seam::record::Recorder;
use foreseek_seam::{
    Command, Commands, Engine, Epoch, Event, FetchId, FetchOutcome, FrameId, Into, ObjectId, Refusal,
    RequestId, ServingCommand, ServingEvent, StreamId, Urgency,
};
use foreseek_storage::Frames;
use foreseek_storage::reads::{self, ReadFile, Target};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Nanos, PAGE_SIZE, Pages, Span};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;

/// Ticks after one event: an engine has no more to say than its bound of commands many times over.
const TICKS_MOST: usize = 64;
/// Every byte that an object can have.
const ALL: ByteSpan = Span { start: ByteOffset::ZERO, end: ByteOffset(i64::MAX as u64) };
/// Over which time thrashing is counted: the epoch of the ceiling's controller (TR-840 section 4.1).
const EPOCH: Nanos = Nanos::from_secs(4);

/// See the module's documentation.
pub(super) struct Core {
    pub(super) engine: ServingEngine,
    commands: Commands,
    recorder: Option<Recorder>,
    frames: Arc<Frames>,
    pub(super) objects: Objects,
    streams: FxHashMap<StreamId, ObjectId>,
    requests: FxHashMap<RequestId, Asked>,
    /// Fetches under way, of which object and epoch they are.
    fetches: FxHashMap<FetchId, (ObjectId, Epoch)>,
    /// Passed reads that wait for a buffer.
    waiting: VecDeque<Pass>,
    /// The fetch that failed last and how; the engine names it in its very answer.
    failure: Option<(FetchId, Errno)>,
    next_stream: u64,
    next_request: u64,
    stopped: bool,
    /// Whether it began with costs of the device that were learnt before.
    recalled_device: bool,
    pub(super) counts: Counts,
    pub(super) thrashing: Thrashing,
    pub(super) remarks: Vec<String>,
}

/// A read that waits for its answer.
struct Asked {
    object: ObjectId,
    range: ByteSpan,
    /// Which bytes of what is read for it are the answer, once it is passed.
    part: Part,
    answer: Answer,
}

/// What the engine does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Reads answered before they had to wait.
    pub(super) hits: u64,
    /// Reads that waited for what was under way or about to be, and had nothing fetched for them.
    pub(super) joined: u64,
    /// Bytes answered.
    pub(super) read: Bytes,
    /// Bytes of passed reads.
    pub(super) passed: Bytes,
    /// Reads answered with an error.
    pub(super) failed: u64,
    /// How often the engine, or who makes its reads, said what cannot be.
    pub(super) contradictions: u64,
}

/// How fast prefetched pages are dropped and missed again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thrashing {
    since: Instant,
    missed: Pages,
    rate: f64,
}

/// A file that may not be what it is known to be.
pub(super) struct Doubt {
    object: ObjectId,
    version: Version,
    pub(super) file: Arc<ReadFile>,
}

impl Core {
    pub(super) fn new(engine: ServingEngine, mut recorder: Option<Recorder>, frames: Arc<Frames>) -> Self {
        recorder.iter_mut().for_each(|recorder| recorder.begin(engine.settings()));
        Self {
            engine,
            commands: Commands::new(),
            recorder,
            frames,
            objects: Objects::default(),
            streams: FxHashMap::default(),
            requests: FxHashMap::default(),
            fetches: FxHashMap::default(),
            waiting: VecDeque::new(),
            failure: None,
            next_stream: 0,
            next_request: 0,
            stopped: false,
            recalled_device: false,
            counts: Counts::default(),
            thrashing: Thrashing::default(),
            remarks: Vec::new(),
        }
    }

    /// When the engine wants to be ticked.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// Takes up what was learnt before.
    pub(super) fn recall(&mut self, now: Instant, learnt: &str, device: Option<Measured>, work: &mut Work) {
        self.recalled_device = device.is_some();
        self.tell(now, Event::Serving(ServingEvent::Recalled { learnt, device }), work);
    }

    /// What the device costs, where that was learnt, now or before.
    pub(super) fn device(&self) -> Option<Measured> {
        let stats = self.engine.stats();
        let learnt = stats.learnt_from > 0 || self.recalled_device;
        learnt.then_some(Measured { switch: stats.lone, rate: stats.rate })
    }

    pub(super) fn opened(
        &mut self,
        now: Instant,
        opened: &OpenedFile,
        found: Found,
        described: Option<Described>,
        work: &mut Work,
    ) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        let (object, length) = (opened.object, opened.version.length);
        if let Opening::Changed(epoch) = self.objects.open(object, opened.version, &found.file) {
            self.tell(now, Event::Changed { object, range: ALL, epoch }, work);
            self.tell(now, Event::Resized { object, length }, work);
        }
        self.streams.insert(stream, object);
        self.tell(now, Event::Opened { stream, object, length, who: opened.who }, work);
        if let Some(described) = &described {
            self.tell(
                now,
                Event::Serving(ServingEvent::Described { stream, about: described.about() }),
                work,
            );
        }
        match found.layout {
            Some((disk, Ok(layout))) => {
                if layout.cut_short {
                    self.remark("a file has too many extents to know them all: defragment it");
                }
                let extents = self.objects.placed(disk, layout);
                self.tell(now, Event::Placed { object, extents: &extents }, work);
            }
            Some((_, Err(errno))) => self.remark(&format!(
                "cannot see where files lie on their disk (FIEMAP: {errno}); distances are not known: ext4, xfs \
                 and btrfs support it"
            )),
            None => {}
        }
        if found.file.access() == reads::Access::Buffered {
            self.remark(
                "the file system of the source refuses direct I/O for some files: they are read through the page \
                 cache and dropped from it",
            );
        }
        stream
    }

    pub(super) fn read(&mut self, now: Instant, read: Read, answer: Answer, work: &mut Work) {
        let Some(object) = self.streams.get(&read.stream).copied().filter(|_| !self.stopped) else {
            work.replies.push(Reply::Error(answer, Errno::BADF));
            return;
        };
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, Asked { object, range: read.range, part: Part::default(), answer });
        let (stream, range, who) = (read.stream, read.range, Some(read.who));
        let under_way = work.reads.len();
        self.tell(now, Event::Read { request, stream, range, who }, work);
        // Gone already: it was answered out of memory. Else it waits for what is fetched for it, or for
        // what was to be fetched anyway.
        let fetched = work.reads[under_way..].iter().any(|read| read.urgent);
        let passed = work.passes.iter().any(|pass| pass.request == request);
        if !self.requests.contains_key(&request) {
            self.counts.hits += 1;
        } else if !fetched && !passed {
            self.counts.joined += 1;
        }
    }

    /// A stream was closed; the file that is used no longer.
    pub(super) fn closed(
        &mut self,
        now: Instant,
        stream: StreamId,
        work: &mut Work,
    ) -> Option<Arc<ReadFile>> {
        let object = self.streams.remove(&stream)?;
        self.tell(now, Event::Closed { stream }, work);
        self.objects.close(object)
    }

    pub(super) fn changed(&mut self, now: Instant, change: &Change, work: &mut Work) {
        let Change { object, range, version } = *change;
        let Some(before) = self.objects.known(object) else { return };
        let epoch = self.objects.change(object, version);
        self.tell(now, Event::Changed { object, range: range.unwrap_or(ALL), epoch }, work);
        if before.length != version.length {
            self.tell(now, Event::Resized { object, length: version.length }, work);
        }
    }

    /// Whether a fetch that ended at `end`, without an error, ended before its file does by what is known of
    /// it: then others may have shortened it.
    pub(super) fn ended_early(&self, fetch: FetchId, end: ByteOffset) -> Option<Doubt> {
        let (object, _) = *self.fetches.get(&fetch)?;
        let version = self.objects.known(object)?;
        let early = end < ByteOffset::ZERO + version.length;
        early.then_some(Doubt { object, version, file: self.objects.file(object)? })
    }

    /// What was known of a file was in doubt, and this is what it is; unless it was told otherwise meanwhile.
    pub(super) fn settle(&mut self, now: Instant, doubt: &Doubt, version: Version, work: &mut Work) {
        let Doubt { object, version: before, .. } = *doubt;
        if version != before && self.objects.known(object) == Some(before) {
            self.changed(now, &Change { object, range: None, version }, work);
        }
    }

    /// A fetch has ended: so many pages of it came.
    pub(super) fn done(
        &mut self,
        now: Instant,
        fetch: FetchId,
        got: Pages,
        error: Option<Errno>,
        work: &mut Work,
    ) {
        let Some((_, epoch)) = self.fetches.remove(&fetch) else { return };
        self.failure = error.map(|errno| (fetch, errno));
        let in_flight = self.fetches.len() as u32;
        let outcome = if error.is_some() { FetchOutcome::Failed } else { FetchOutcome::Arrived };
        self.tell(now, Event::Done { fetch, epoch, got, outcome, in_flight }, work);
    }

    /// A fetch was not taken.
    pub(super) fn refused(&mut self, now: Instant, fetch: FetchId, work: &mut Work) {
        self.fetches.remove(&fetch);
        self.failure = Some((fetch, Errno::IO));
        self.tell(now, Event::Refused { fetch, why: Refusal::Gone }, work);
    }

    /// Tells the engine something and puts down what it says, until it has no more to say.
    pub(super) fn tell(&mut self, now: Instant, event: Event<'_>, work: &mut Work) {
        let mut refused = Vec::new();
        self.say(now, &event, &mut refused, work);
        for _ in 0..TICKS_MOST {
            if let Some(fetch) = refused.pop() {
                self.say(now, &Event::Refused { fetch, why: Refusal::Gone }, &mut refused, work);
            } else if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
                self.say(now, &Event::Tick, &mut refused, work);
            } else {
                return;
            }
        }
    }

    fn say(&mut self, now: Instant, event: &Event<'_>, refused: &mut Vec<FetchId>, work: &mut Work) {
        self.engine.on(now, event.clone(), &mut self.commands);
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, event);
            recorder.commands(self.commands.as_slice());
        }
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain() {
            self.put_down(command, refused, work);
        }
        self.commands = commands;
    }

    /// Puts down what a command asks for.
    fn put_down(&mut self, command: Command, refused: &mut Vec<FetchId>, work: &mut Work) {
        match command {
            Command::Fetch { fetch, object, range, epoch, into: Into::Frames(frames), urgency, apart } => {
                self.fetches.insert(fetch, (object, epoch));
                let file = self.objects.file(object);
                let Some((file, filling)) = file.zip(self.frames.fill(&frames)) else {
                    self.fetches.remove(&fetch);
                    refused.push(fetch);
                    return;
                };
                let (token, offset) = (Token::of_fetch(fetch), range.start.offset());
                let (into, urgent) = (Target::Frames(filling), urgency == Urgency::Demand);
                work.reads.push(reads::Read { token, file, offset, into, urgent, apart });
            }
            Command::Serving(ServingCommand::Serve { request, frames }) => self.serve(request, frames, work),
            Command::Serving(ServingCommand::Fail { request, fetch }) => {
                let failure = self.failure.filter(|(failed, _)| *failed == fetch);
                let errno = failure.map_or(Errno::IO, |(_, errno)| errno);
                if let Some(asked) = self.requests.remove(&request) {
                    self.counts.failed += 1;
                    work.replies.push(Reply::Error(asked.answer, errno));
                }
            }
            Command::Pass { request } => self.pass(request, work),
            Command::Serving(ServingCommand::Drop { frames }) => {
                self.frames.empty(&frames);
                work.dropped = true;
            }
            // A serving engine fetches into frames, and asks nothing of a page cache.
            Command::Fetch { .. } | Command::Hint(_) => {}
        }
    }

    /// Answers a read out of frames.
    fn serve(&mut self, request: RequestId, frames: Vec<FrameId>, work: &mut Work) {
        let Some(asked) = self.requests.get(&request) else { return };
        let Some(reading) = self.frames.read(&frames) else {
            // An error of the engine must not become one of the reader.
            self.contradicted();
            work.unpinned.extend(frames);
            return self.pass(request, work);
        };
        let range = asked.range;
        let skip = range.start.get() % PAGE_SIZE;
        let there = Bytes(frames.len() as u64 * PAGE_SIZE).saturating_sub(Bytes(skip));
        let of_file = self.objects.length(asked.object).saturating_sub(range.start - ByteOffset::ZERO);
        let length = range.len().min(there).min(of_file).get() as usize;
        let Some(Asked { answer, .. }) = self.requests.remove(&request) else { return };
        self.answered(length);
        work.replies.push(Reply::Frames { answer, reading, skip: skip as usize, length, frames });
    }

    /// Lets a read be made as it is.
    fn pass(&mut self, request: RequestId, work: &mut Work) {
        let Some(asked) = self.requests.get_mut(&request) else { return };
        let Some(file) = self.objects.file(asked.object) else {
            if let Some(asked) = self.requests.remove(&request) {
                work.replies.push(Reply::Error(asked.answer, Errno::BADF));
            }
            return;
        };
        let unit = file.alignment().get();
        let start = ByteOffset(asked.range.start.get() / unit * unit);
        let end = ByteOffset(asked.range.end.get().next_multiple_of(unit));
        let aligned = Span::new(start, end);
        let skip = (asked.range.start - start).get() as usize;
        asked.part = Part { skip, length: asked.range.len().get() as usize };
        if aligned.len() > PASSING {
            if let Some(asked) = self.requests.remove(&request) {
                work.replies.push(Reply::Error(asked.answer, Errno::INVAL));
            }
            return;
        }
        work.passes.push(Pass { request, file, aligned });
    }

    /// Passed reads for which there was no buffer: they wait, in order.
    pub(super) fn unmade(&mut self, passes: Vec<Pass>) {
        self.waiting.extend(passes);
    }

    /// A buffer may have come free: those that waited are tried again.
    pub(super) fn retry_passes(&mut self, work: &mut Work) {
        work.passes.extend(self.waiting.drain(..));
    }

    /// A passed read is over: where its answer goes, and which part of what was read that is.
    pub(super) fn pass_ended(&mut self, request: RequestId) -> Option<(Answer, Part)> {
        let Asked { part, answer, .. } = self.requests.remove(&request)?;
        self.counts.passed += Bytes(part.length as u64);
        Some((answer, part))
    }

    pub(super) fn answered(&mut self, bytes: usize) {
        self.counts.read += Bytes(bytes as u64);
    }

    pub(super) fn failed(&mut self) {
        self.counts.failed += 1;
    }

    pub(super) fn contradicted(&mut self) {
        self.counts.contradictions += 1;
    }

    /// Counts thrashing anew where an epoch has passed.
    pub(super) fn count_thrashing(&mut self, now: Instant) {
        let missed = self.engine.stats().prefetch_missed;
        let time = now - self.thrashing.since;
        if time >= EPOCH {
            let rate = (missed - self.thrashing.missed).get() as f64 / time.as_secs_f64();
            self.thrashing = Thrashing { since: now, missed, rate };
        }
    }

    /// Says something once.
    fn remark(&mut self, remark: &str) {
        if !self.remarks.iter().any(|said| said == remark) {
            tracing::warn!("{remark}");
            self.remarks.push(remark.to_owned());
        }
    }

    /// Whether nothing more is read.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Nothing more is read: who still waits gets an error.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.waiting.clear();
        // An answer that is dropped is an error.
        self.requests.clear();
        // Closes the recording.
        self.recorder = None;
    }
}

impl Thrashing {
    /// Pages a second, over the last epoch.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
}
