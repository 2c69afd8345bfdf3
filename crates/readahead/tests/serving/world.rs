//! A driver over a naive storage, that holds everything an engine says to what it may say.
//!
//! Every page of the storage has a stamp, which a change raises. Frames remember which page and stamp came
//! into them; an answer is right if each frame has the page that was asked for, and no older stamp than the
//! page had when the read was told.

use foreseek_device::Profile;
use foreseek_readahead::ServingEngine;
use foreseek_readahead::serving::{MEMORY_LEAST, READ_LIMIT, Settings, Stats};
use foreseek_seam::record::Recorder;
use foreseek_seam::{
    Command, Commands, Engine, Epoch, Event, FetchId, FetchOutcome, FrameId, Into, ObjectId, Refusal,
    RequestId, ServingCommand, ServingEvent, StreamId, Urgency, Who,
};
use foreseek_units::{
    ByteOffset, ByteSpan, Bytes, DeviceCosts, Instant, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, Rate,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The costs that the tests' engines guess: a competitive depth of 95 pages.
pub(crate) fn costs() -> Arc<dyn DeviceCosts> {
    Arc::new(Profile::builtin("ibm-36g-37").expect("a built-in profile"))
}

/// The settings of the tests' engines.
pub(crate) fn settings() -> Settings {
    Settings::default()
}

/// A fetch under way.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) object: u64,
    pub(crate) pages: PageSpan,
    pub(crate) urgency: Urgency,
    frames: Vec<FrameId>,
    epoch: Epoch,
    /// What each page was when the fetch was issued.
    stamps: Vec<Option<u64>>,
}

/// A read that was told and not answered.
#[derive(Clone, Debug)]
struct Open {
    object: u64,
    pages: PageSpan,
    /// The stamps of its pages when it was told.
    stamps: Vec<u64>,
    /// The least length that its object had since.
    least: u64,
}

/// What became of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// So many pages.
    Served(u64),
    Failed,
    Passed,
}

#[derive(Debug, Default)]
struct Object {
    length: u64,
    stamps: BTreeMap<u64, u64>,
    epoch: u32,
}

impl Object {
    fn pages(&self) -> u64 {
        self.length.div_ceil(PAGE_SIZE)
    }

    fn stamp(&self, page: u64) -> u64 {
        self.stamps.get(&page).copied().unwrap_or(0)
    }
}

pub(crate) struct World {
    pub(crate) engine: ServingEngine,
    pub(crate) now: Instant,
    pub(crate) flying: BTreeMap<u64, Flying>,
    pub(crate) answers: BTreeMap<u64, Answer>,
    pub(crate) dropped: Vec<FrameId>,
    /// What was fetched of which object from which page on, in order.
    pub(crate) handed_out: Vec<(u64, u64)>,
    recorder: Option<Recorder>,
    out: Commands,
    objects: BTreeMap<u64, Object>,
    streams: BTreeMap<u64, u64>,
    /// What lies in each frame.
    contents: BTreeMap<FrameId, (u64, u64, u64)>,
    filling: BTreeSet<FrameId>,
    /// Replies that are not over, and how often each frame is lent.
    replies: BTreeMap<u64, Vec<FrameId>>,
    lent: BTreeMap<FrameId, u32>,
    open: BTreeMap<u64, Open>,
    failed: BTreeMap<u64, (u64, PageSpan)>,
    next_request: u64,
    stamp: u64,
    /// Where the last fetch ended.
    head: (u64, PageIndex),
    /// Whether a stream was ever closed or opened again: its reads may be passed.
    closed: bool,
    /// How often the driver said what cannot be: reads may be passed for it.
    lies: u64,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            engine: ServingEngine::new(settings, &costs()).expect("a policy"),
            now: Instant::ZERO,
            flying: BTreeMap::new(),
            answers: BTreeMap::new(),
            dropped: Vec::new(),
            handed_out: Vec::new(),
            recorder: None,
            out: Commands::new(),
            objects: BTreeMap::new(),
            streams: BTreeMap::new(),
            contents: BTreeMap::new(),
            filling: BTreeSet::new(),
            replies: BTreeMap::new(),
            lent: BTreeMap::new(),
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
            next_request: 0,
            stamp: 0,
            head: (0, PageIndex::ZERO),
            closed: false,
            lies: 0,
        }
    }

    pub(crate) fn record_into(&mut self, mut recorder: Recorder) {
        recorder.begin(self.engine.settings());
        self.recorder = Some(recorder);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// An object of so many bytes comes into being.
    pub(crate) fn create(&mut self, object: u64, length: u64) {
        self.objects.insert(object, Object { length, ..Object::default() });
    }

    pub(crate) fn open(&mut self, stream: u64, object: u64) {
        let length = Bytes(self.objects.get(&object).map_or(0, |object| object.length));
        self.closed |= self.streams.insert(stream, object).is_some();
        let (stream, object) = (StreamId(stream), ObjectId(object));
        self.tell(Event::Opened { stream, object, length, who: Who(stream.0 as u32) });
    }

    pub(crate) fn close(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.closed = true;
        self.tell(Event::Closed { stream: StreamId(stream) });
    }

    /// Reads bytes; answers the read's number.
    pub(crate) fn read(&mut self, stream: u64, start: u64, bytes: u64) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        let range = ByteSpan::at(ByteOffset(start), Bytes(bytes));
        let object = self.streams.get(&stream).copied().unwrap_or(u64::MAX);
        let known = self.objects.get(&object);
        let stamps = range.pages().iter().map(|page| known.map_or(0, |known| known.stamp(page.0))).collect();
        let least = known.map_or(0, |known| known.length);
        self.open.insert(request, Open { object, pages: range.pages(), stamps, least });
        let who = Some(Who(stream as u32));
        self.tell(Event::Read { request: RequestId(request), stream: StreamId(stream), range, who });
        request
    }

    /// Reads pages; answers what was asked for at that, oldest first.
    pub(crate) fn read_pages(&mut self, stream: u64, first: u64, pages: u64) -> Vec<(u64, u64)> {
        let before = self.flying.keys().next_back().copied();
        self.read(stream, first * PAGE_SIZE, pages * PAGE_SIZE);
        let new = self.flying.iter().filter(|(id, _)| before.is_none_or(|before| **id > before));
        new.map(|(_, one)| (one.pages.start.0, one.pages.len().get())).collect()
    }

    /// A lone reader reads an object to its end, and what is fetched for it comes in turn: the engine learns what
    /// the device does when it is handed all at once.
    pub(crate) fn teach(&mut self, stream: u64, object: u64) {
        let pages = self.objects[&object].pages();
        self.open(stream, object);
        for first in (0..pages).step_by(32) {
            self.read(stream, first * PAGE_SIZE, 32 * PAGE_SIZE);
            self.complete_all();
            self.unpin_all();
        }
        self.close(stream);
        self.closed = false;
    }

    /// The oldest fetch under way ends, in full.
    pub(crate) fn complete_first(&mut self) {
        if let Some(id) = self.flying.keys().next().copied() {
            self.complete(id, None, false);
        }
    }

    /// All fetches end in turn until none is under way.
    pub(crate) fn complete_all(&mut self) {
        while !self.flying.is_empty() {
            self.complete_first();
        }
    }

    /// As long as the disk of [`costs`] takes for it, if it serves one fetch after the other.
    fn serve_time(&mut self, object: u64, pages: PageSpan) {
        let switch =
            if self.head == (object, pages.start) { Nanos::ZERO } else { Nanos::from_millis_f64(10.53) };
        self.now += switch + Rate::mb_per_second(37.3).time_for(pages.len().bytes());
        self.head = (object, pages.end);
    }

    /// A fetch ends; with an error after so many pages where that is told. `late`: the device read what
    /// was there at the end and not at the beginning.
    pub(crate) fn complete(&mut self, id: u64, error: Option<u64>, late: bool) {
        let Some(flying) = self.flying.remove(&id) else { return };
        self.serve_time(flying.object, flying.pages);
        let object = &self.objects[&flying.object];
        let there = object.pages().saturating_sub(flying.pages.start.0).min(flying.pages.len().get());
        let got = there.min(error.unwrap_or(u64::MAX));
        let mut come = 0;
        for (at, (page, frame)) in flying.pages.iter().zip(&flying.frames).enumerate() {
            assert!(self.filling.remove(frame));
            let stamp = if late { Some(object.stamp(page.0)) } else { flying.stamps[at] };
            if (at as u64) < got && come == at as u64 {
                let Some(stamp) = stamp else { continue };
                self.contents.insert(*frame, (flying.object, page.0, stamp));
                come += 1;
            }
        }
        let outcome = if error.is_some() { FetchOutcome::Failed } else { FetchOutcome::Arrived };
        if error.is_some() {
            let lacks = PageSpan::new(flying.pages.start + Pages(come), flying.pages.end);
            self.failed.insert(id, (flying.object, lacks));
        }
        let in_flight = self.flying.len() as u32;
        let (fetch, epoch, got) = (FetchId(id), flying.epoch, Pages(come));
        self.tell(Event::Done { fetch, epoch, got, outcome, in_flight });
    }

    /// The driver says that a fetch arrived and brought so many pages, though the object has more.
    pub(crate) fn cut_short(&mut self, id: u64, pages: u64) {
        let flying = self.flying.remove(&id).expect("a fetch under way");
        for (at, (page, frame)) in flying.pages.iter().zip(&flying.frames).enumerate() {
            assert!(self.filling.remove(frame));
            if let Some(stamp) = flying.stamps[at].filter(|_| (at as u64) < pages) {
                self.contents.insert(*frame, (flying.object, page.0, stamp));
            }
        }
        self.lie(id, flying.epoch, pages);
    }

    /// The driver says that a fetch which is not under way arrived.
    pub(crate) fn invent(&mut self, id: u64) {
        assert!(!self.flying.contains_key(&id));
        self.lie(id, Epoch(0), 1);
    }

    fn lie(&mut self, id: u64, epoch: Epoch, pages: u64) {
        self.lies += 1;
        let (fetch, got, outcome) = (FetchId(id), Pages(pages), FetchOutcome::Arrived);
        self.tell(Event::Done { fetch, epoch, got, outcome, in_flight: self.flying.len() as u32 });
    }

    /// The driver does not take a fetch after all.
    pub(crate) fn refuse(&mut self, id: u64, why: Refusal) {
        let Some(flying) = self.flying.remove(&id) else { return };
        flying.frames.iter().for_each(|frame| assert!(self.filling.remove(frame)));
        if why != Refusal::Busy {
            self.failed.insert(id, (flying.object, flying.pages));
        }
        self.tell(Event::Refused { fetch: FetchId(id), why });
    }

    /// The oldest reply is over.
    pub(crate) fn unpin_first(&mut self) {
        let Some((_, frames)) = self.replies.pop_first() else { return };
        for frame in &frames {
            let lent = self.lent.get_mut(frame).expect("a lent frame");
            *lent -= 1;
            if *lent == 0 {
                self.lent.remove(frame);
            }
        }
        self.tell(Event::Serving(ServingEvent::Unpinned { frames: &frames }));
    }

    pub(crate) fn unpin_all(&mut self) {
        while !self.replies.is_empty() {
            self.unpin_first();
        }
    }

    /// Pages of an object change, as a write changes them.
    pub(crate) fn change(&mut self, object: u64, first: u64, pages: u64) {
        let Some(known) = self.objects.get_mut(&object) else { return };
        self.stamp += 1;
        known.stamps.extend((first..first + pages).map(|page| (page, self.stamp)));
        known.epoch += 1;
        let epoch = Epoch(known.epoch);
        let range = PageSpan::at(PageIndex(first), Pages(pages)).bytes();
        self.tell(Event::Changed { object: ObjectId(object), range, epoch });
    }

    /// An object gets another length, as truncation gives it.
    pub(crate) fn resize(&mut self, object: u64, length: u64) {
        let Some(known) = self.objects.get_mut(&object) else { return };
        self.stamp += 1;
        // What lies beyond the lesser length is not what it was, the page that it cuts included.
        let from = known.length.min(length) / PAGE_SIZE;
        let to = known.length.max(length).div_ceil(PAGE_SIZE);
        known.stamps.extend((from..to).map(|page| (page, self.stamp)));
        known.length = length;
        for read in self.open.values_mut().filter(|read| read.object == object) {
            read.least = read.least.min(length);
        }
        self.tell(Event::Resized { object: ObjectId(object), length: Bytes(length) });
    }

    pub(crate) fn budget(&mut self, pages: u64) {
        self.tell(Event::Budget { pages: Pages(pages) });
    }

    pub(crate) fn pass_time(&mut self, nanos: u64) {
        self.now += Nanos(nanos);
        self.tick();
    }

    pub(crate) fn tick(&mut self) {
        self.tell(Event::Tick);
    }

    /// Tells an event, and whatever is due at once after it.
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        self.tell_once(event);
        for _ in 0..10_000 {
            if self.engine.deadline().is_none_or(|deadline| deadline > self.now) {
                return self.check();
            }
            self.tell_once(Event::Tick);
        }
        panic!("the engine goes on without end");
    }

    fn tell_once(&mut self, event: Event<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(self.now, &event);
        }
        self.engine.on(self.now, event, &mut self.out);
        if let Some(recorder) = &mut self.recorder {
            recorder.commands(self.out.as_slice());
        }
        let said: Vec<Command> = self.out.drain().collect();
        said.into_iter().for_each(|command| self.carry_out(command));
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Fetch { fetch, object, range, epoch, into: Into::Frames(frames), urgency, apart } => {
                assert_eq!(apart, self.flying.is_empty(), "by itself is what finds the device idle");
                self.handed_out.push((object.0, range.start.0));
                self.fetch(fetch, object, range, epoch, frames, urgency);
            }
            Command::Serving(ServingCommand::Serve { request, frames }) => self.serve(request, frames),
            Command::Serving(ServingCommand::Fail { request, fetch }) => {
                let read = self.open.remove(&request.0).expect("a read that waits");
                let (object, lacks) = self.failed.get(&fetch.0).expect("a fetch that failed");
                assert_eq!(*object, read.object);
                assert!(lacks.overlaps(read.pages), "{lacks:?} is nothing of {:?}", read.pages);
                self.answers.insert(request.0, Answer::Failed);
            }
            Command::Pass { request } => {
                let read = self.open.remove(&request.0).expect("a read that waits");
                let known = self.streams.values().any(|object| *object == read.object);
                assert!(self.closed || !known || read.pages.len() > READ_LIMIT || self.lies > 0);
                self.answers.insert(request.0, Answer::Passed);
            }
            Command::Serving(ServingCommand::Drop { frames }) => {
                for frame in &frames {
                    assert!(
                        !self.filling.contains(frame) && !self.lent.contains_key(frame),
                        "{frame:?} is in use"
                    );
                    self.contents.remove(frame);
                }
                self.dropped.extend(frames);
            }
            other => panic!("{other:?} is not for this door"),
        }
    }

    fn fetch(
        &mut self,
        fetch: FetchId,
        object: ObjectId,
        pages: PageSpan,
        epoch: Epoch,
        frames: Vec<FrameId>,
        urgency: Urgency,
    ) {
        let settings = self.engine.settings();
        assert!(!pages.is_empty() && frames.len() as u64 == pages.len().get());
        let longest =
            if urgency == Urgency::Demand { settings.fetch.max(READ_LIMIT) } else { settings.fetch };
        assert!(pages.len() <= longest);
        let known = &self.objects[&object.0];
        assert_eq!(epoch, Epoch(known.epoch));
        for frame in &frames {
            assert!(u64::from(frame.0) < settings.memory.get(), "{frame:?} is beyond memory");
            assert!(!self.lent.contains_key(frame), "{frame:?} is being replied from");
            assert!(self.filling.insert(*frame), "{frame:?} is being filled already");
            self.contents.remove(frame);
        }
        let there = known.pages();
        let stamps = pages.iter().map(|page| (page.0 < there).then(|| known.stamp(page.0))).collect();
        let flying = Flying { object: object.0, pages, urgency, frames, epoch, stamps };
        assert!(self.flying.insert(fetch.0, flying).is_none());
        assert!(self.flying.len() <= 2 * settings.in_flight as usize);
    }

    fn serve(&mut self, request: RequestId, frames: Vec<FrameId>) {
        let read = self.open.remove(&request.0).expect("a read that waits");
        let asked = read.pages.len().get();
        let served = frames.len() as u64;
        assert!(served <= asked);
        if served < asked {
            let end = read.pages.start.0 + served;
            assert!(
                read.least.div_ceil(PAGE_SIZE) <= end,
                "cut at {end}, the object has {} bytes",
                read.least
            );
        }
        for ((page, stamp), frame) in read.pages.iter().zip(&read.stamps).zip(&frames) {
            assert!(!self.filling.contains(frame), "{frame:?} is being filled");
            let (object, at, came) = *self.contents.get(frame).expect("something in the frame");
            assert_eq!((object, at), (read.object, page.0), "the wrong page");
            assert!(came >= *stamp, "page {at} is stale: {came} and not {stamp}");
            *self.lent.entry(*frame).or_default() += 1;
        }
        self.replies.insert(request.0, frames);
        self.answers.insert(request.0, Answer::Served(served));
    }

    /// What holds after each event.
    fn check(&self) {
        let stats = self.engine.stats();
        assert_eq!(stats.waiting, self.open.len() as u64);
        assert_eq!(u64::from(stats.in_flight), self.flying.len() as u64);
        let used =
            self.filling.len() + self.lent.keys().filter(|frame| !self.filling.contains(*frame)).count();
        assert!(used as u64 <= stats.backed.get() && stats.backed <= self.engine.settings().memory);
        assert!(stats.budget >= MEMORY_LEAST);
        assert!(stats.held_back <= stats.queued);
        assert_eq!(stats.contradictions, self.lies);
    }

    /// Everything comes to its end: every read has been answered, and all memory is free or cached.
    pub(crate) fn finish(&mut self) {
        for _ in 0..100_000 {
            let idle = self.flying.is_empty() && self.replies.is_empty() && self.open.is_empty();
            // What the driver was too busy to take is asked for again when a while has passed.
            if idle && self.stats().queued == 0 {
                break;
            }
            self.complete_first();
            self.unpin_first();
            self.pass_time(2_000_000);
        }
        assert!(self.open.is_empty(), "reads wait for ever: {:?}, {:?}", self.open, self.stats());
        let stats = self.stats();
        assert_eq!(self.answers.len() as u64, self.next_request);
        assert_eq!(stats.in_flight, 0);
        assert_eq!(stats.free + stats.cached, stats.budget, "a frame is lost: {stats:?}");
        assert!(stats.backed <= stats.budget);
    }
}

/// The bytes of pages.
pub(crate) fn bytes(pages: u64) -> u64 {
    pages * PAGE_SIZE
}

/// The spans of fetches under way.
pub(crate) fn spans(world: &World) -> Vec<(u64, u64)> {
    world.flying.values().map(|one| (one.pages.start.0, one.pages.len().get())).collect()
}
