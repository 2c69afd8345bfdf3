//! The driver over a naive storage, which checks every command of an engine.
//!
//! Every page of the storage has a stamp, which a change raises. Each frame records the page and stamp that
//! were fetched into it. An answer is right if each frame has the requested page, and no older stamp than the
//! page had when the read arrived.

use foreseek_device::Profile;
use foreseek_readahead::ServingEngine;
use foreseek_readahead::driver::{
    Backing, FetchEnd, FrameFetch, Opening, Reply, ServingDriver, Version, WaitingRead,
};
use foreseek_readahead::serving::{MEMORY_LEAST, READ_LIMIT, Settings, Stats};
use foreseek_seam::record::Recorder;
use foreseek_seam::{
    Epoch, Event, FetchId, FetchOutcome, FrameId, ObjectId, ProcessId, Refusal, RequestId, StreamId, Urgency,
};
use foreseek_units::{
    ByteOffset, ByteSpan, Bytes, DeviceCosts, Instant, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, Rate,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The initial costs of the tests' engines: a competitive depth of 95 pages.
pub(crate) fn costs() -> Arc<dyn DeviceCosts> {
    Arc::new(Profile::builtin("ibm-36g-37").expect("a built-in profile"))
}

/// The settings of the tests' engines.
pub(crate) fn settings() -> Settings {
    Settings::default()
}

/// A fetch in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) object: u64,
    pub(crate) pages: PageSpan,
    pub(crate) urgency: Urgency,
    frames: Vec<FrameId>,
    /// The stamp of each page when the fetch was issued.
    stamps: Vec<Option<u64>>,
}

/// A read that is not answered yet.
#[derive(Clone, Debug)]
struct Open {
    object: u64,
    range: ByteSpan,
    /// The stamps of its pages when it arrived.
    stamps: Vec<u64>,
    /// The least length of its object since.
    least: u64,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With this many pages.
    Served(u64),
    Failed,
    Passed,
}

#[derive(Debug, Default)]
struct Object {
    length: u64,
    stamps: BTreeMap<u64, u64>,
}

impl Object {
    fn pages(&self) -> u64 {
        self.length.div_ceil(PAGE_SIZE)
    }

    fn stamp(&self, page: u64) -> u64 {
        self.stamps.get(&page).copied().unwrap_or(0)
    }
}

/// A version of an object: its length, and the change that made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Made {
    length: u64,
    change: u64,
}

impl Version for Made {
    fn length(&self) -> Bytes {
        Bytes(self.length)
    }
}

/// The interface below the driver: objects, frames, replies.
#[derive(Default)]
pub(crate) struct Storage {
    pub(crate) flying: BTreeMap<u64, Flying>,
    pub(crate) answers: BTreeMap<u64, Answer>,
    pub(crate) dropped: Vec<FrameId>,
    /// The fetches in order: the object and the first page.
    pub(crate) handed_out: Vec<(u64, u64)>,
    settings: Settings,
    objects: BTreeMap<u64, Object>,
    streams: BTreeMap<u64, (u64, StreamId)>,
    /// The contents of each frame.
    contents: BTreeMap<FrameId, (u64, u64, u64)>,
    filling: BTreeSet<FrameId>,
    /// Replies that are not over, and how often each frame is lent.
    replies: BTreeMap<u64, Vec<FrameId>>,
    lent: BTreeMap<FrameId, u32>,
    open: BTreeMap<u64, Open>,
    /// Passed reads that the driver still has.
    passed: Vec<RequestId>,
    /// Fetches that failed, with the pages that did not arrive; and those that were refused.
    failed: BTreeMap<u64, (u64, PageSpan)>,
    refused: Vec<(u64, PageSpan)>,
    stamp: u64,
    /// Whether a stream was ever closed: its reads may then be passed.
    closed: bool,
    /// The number of invalid reports to the driver: reads may be passed for each.
    lies: u64,
}

pub(crate) struct World {
    pub(crate) driver: ServingDriver<Storage>,
    pub(crate) now: Instant,
    next_request: u64,
    /// The end of the last fetch.
    head: (u64, PageIndex),
}

impl Deref for World {
    type Target = Storage;

    fn deref(&self) -> &Storage {
        self.driver.below()
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Storage {
        self.driver.below_mut()
    }
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::recorded(settings, None)
    }

    /// The same, recorded.
    pub(crate) fn recorded(settings: Settings, recorder: Option<Recorder>) -> Self {
        let engine = ServingEngine::new(settings, &costs()).expect("a policy");
        let storage = Storage { settings: engine.settings().clone(), ..Storage::default() };
        let driver = ServingDriver::new(engine, recorder, storage);
        Self { driver, now: Instant::ZERO, next_request: 0, head: (0, PageIndex::ZERO) }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// Creates an object of this many bytes.
    pub(crate) fn create(&mut self, object: u64, length: u64) {
        self.objects.insert(object, Object { length, ..Object::default() });
    }

    /// Opens a stream; it may be another object's, which is then closed first.
    pub(crate) fn open(&mut self, stream: u64, object: u64) {
        if self.streams.contains_key(&stream) {
            self.close(stream);
        }
        let version = self.made(object);
        let (pid, about, placed) = (ProcessId(stream as u32), None, None);
        let opening = Opening { object: ObjectId(object), version, file: (), pid, about, placed };
        let name = self.driver.open(self.now, opening);
        self.streams.insert(stream, (object, name));
        self.settle();
    }

    fn made(&self, object: u64) -> Made {
        let known = self.objects.get(&object);
        let change = known.and_then(|known| known.stamps.values().max()).copied().unwrap_or(0);
        Made { length: known.map_or(0, |known| known.length), change }
    }

    pub(crate) fn close(&mut self, stream: u64) {
        self.closed = true;
        if let Some((_, name)) = self.streams.remove(&stream) {
            self.driver.close(self.now, name);
            self.settle();
        }
    }

    /// Reads bytes; returns the read's number.
    pub(crate) fn read(&mut self, stream: u64, start: u64, bytes: u64) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        let range = ByteSpan::at(ByteOffset(start), Bytes(bytes));
        let (object, name) = self.streams.get(&stream).copied().unwrap_or((u64::MAX, StreamId(u64::MAX)));
        let known = self.objects.get(&object);
        let stamps = range.pages().iter().map(|page| known.map_or(0, |known| known.stamp(page.0))).collect();
        let least = known.map_or(0, |known| known.length);
        self.open.insert(request, Open { object, range, stamps, least });
        if self.driver.read(self.now, name, range, ProcessId(stream as u32), request).is_err() {
            assert!(!self.streams.contains_key(&stream));
            self.open.remove(&request);
            self.answers.insert(request, Answer::Passed);
        }
        self.settle();
        request
    }

    /// The next read of a stream is a part of a call for these pages.
    pub(crate) fn call(&mut self, stream: u64, first: u64, pages: u64) {
        let Some((_, name)) = self.streams.get(&stream).copied() else { return };
        let range = ByteSpan::at(ByteOffset(first * PAGE_SIZE), Bytes(pages * PAGE_SIZE));
        self.driver.called(self.now, name, range);
        self.settle();
    }

    /// Whether the driver should inspect the call of a read of these pages.
    pub(crate) fn asks_for_call(&self, stream: u64, first: u64, pages: u64) -> bool {
        let range = ByteSpan::at(ByteOffset(first * PAGE_SIZE), Bytes(pages * PAGE_SIZE));
        self.driver.asks_for_call(self.streams[&stream].1, range)
    }

    /// Reads pages; returns the fetches that this caused, oldest first.
    pub(crate) fn read_pages(&mut self, stream: u64, first: u64, pages: u64) -> Vec<(u64, u64)> {
        let before = self.flying.keys().next_back().copied();
        self.read(stream, first * PAGE_SIZE, pages * PAGE_SIZE);
        let new = self.flying.iter().filter(|(id, _)| before.is_none_or(|before| **id > before));
        new.map(|(_, one)| (one.pages.start.0, one.pages.len().get())).collect()
    }

    /// A single reader reads an object to its end, and its fetches end in order: the engine measures the
    /// device with all of them dispatched at once.
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

    /// The oldest fetch ends, in full.
    pub(crate) fn complete_first(&mut self) {
        if let Some(id) = self.flying.keys().next().copied() {
            self.complete(id, None, false);
        }
    }

    /// All fetches end in order until none is in flight.
    pub(crate) fn complete_all(&mut self) {
        while !self.flying.is_empty() {
            self.complete_first();
        }
    }

    /// The time that the disk of [`costs`] takes for a fetch, one after the other.
    fn serve_time(&mut self, object: u64, pages: PageSpan) {
        let switch =
            if self.head == (object, pages.start) { Nanos::ZERO } else { Nanos::from_millis_f64(10.53) };
        self.now += switch + Rate::mb_per_second(37.3).time_for(pages.len().bytes());
        self.head = (object, pages.end);
    }

    /// A fetch ends, with an error after `error` pages if that is set. `late`: the device read the pages as
    /// they are at the end, not at the beginning.
    pub(crate) fn complete(&mut self, id: u64, error: Option<u64>, late: bool) {
        let Some(flying) = self.flying.remove(&id) else { return };
        self.serve_time(flying.object, flying.pages);
        let object = &self.objects[&flying.object];
        let there = object.pages().saturating_sub(flying.pages.start.0).min(flying.pages.len().get());
        let got = there.min(error.unwrap_or(u64::MAX));
        let stamp =
            |at: usize, page: PageIndex| if late { Some(object.stamp(page.0)) } else { flying.stamps[at] };
        let stamps: Vec<Option<u64>> =
            flying.pages.iter().enumerate().map(|(at, page)| stamp(at, page)).collect();
        let come = self.fill(&flying, &stamps, got);
        if error.is_some() {
            let lacks = PageSpan::new(flying.pages.start + Pages(come), flying.pages.end);
            self.failed.insert(id, (flying.object, lacks));
        }
        let end = match error {
            None if id.is_multiple_of(8) => FetchEnd::FromMemory,
            error => FetchEnd::of(error.map(|_| id)),
        };
        self.driver.done(self.now, FetchId(id), Pages(come), end);
        self.settle();
    }

    /// A fetch arrives with this many pages, although the object has more.
    pub(crate) fn cut_short(&mut self, id: u64, pages: u64) {
        let flying = self.flying.remove(&id).expect("a fetch under way");
        self.fill(&flying, &flying.stamps, pages);
        self.lies += 1;
        self.driver.done(self.now, FetchId(id), Pages(pages), FetchEnd::Read);
        self.settle();
    }

    /// Reports the arrival of a fetch that is not in flight.
    pub(crate) fn invent(&mut self, id: u64) {
        assert!(!self.flying.contains_key(&id));
        self.lies += 1;
        let (fetch, got, outcome) = (FetchId(id), Pages(1), FetchOutcome::Arrived);
        let in_flight = self.flying.len() as u32;
        self.send(Event::Done { fetch, epoch: Epoch(0), got, outcome, in_flight });
    }

    /// A fetch is not made after all.
    pub(crate) fn refuse(&mut self, id: u64, why: Refusal) {
        let Some(flying) = self.flying.remove(&id) else { return };
        flying.frames.iter().for_each(|frame| assert!(self.filling.remove(frame)));
        if why != Refusal::Busy {
            self.refused.push((flying.object, flying.pages));
        }
        self.driver.refused(self.now, FetchId(id), why);
        self.settle();
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
        self.driver.unpinned(self.now, &frames);
        self.settle();
    }

    pub(crate) fn unpin_all(&mut self) {
        while !self.replies.is_empty() {
            self.unpin_first();
        }
    }

    /// Pages of an object change, as a write changes them.
    pub(crate) fn change(&mut self, object: u64, first: u64, pages: u64) {
        self.stamp += 1;
        let stamp = self.stamp;
        let Some(known) = self.objects.get_mut(&object) else { return };
        known.stamps.extend((first..first + pages).map(|page| (page, stamp)));
        let (range, version) = (PageSpan::at(PageIndex(first), Pages(pages)).bytes(), self.made(object));
        self.driver.changed(self.now, ObjectId(object), Some(range), version);
        self.settle();
    }

    /// An object gets another length, as by truncation; its bytes are not reported as changed.
    pub(crate) fn resize(&mut self, object: u64, length: u64) {
        self.stamp += 1;
        let stamp = self.stamp;
        let Some(known) = self.objects.get_mut(&object) else { return };
        // Pages beyond the shorter length have changed, including the page that it cuts.
        let from = known.length.min(length) / PAGE_SIZE;
        let to = known.length.max(length).div_ceil(PAGE_SIZE);
        known.stamps.extend((from..to).map(|page| (page, stamp)));
        known.length = length;
        for read in self.open.values_mut().filter(|read| read.object == object) {
            read.least = read.least.min(length);
        }
        let version = self.made(object);
        self.driver.changed(self.now, ObjectId(object), Some(ByteSpan::default()), version);
        self.settle();
    }

    pub(crate) fn budget(&mut self, pages: u64) {
        self.send(Event::Budget { pages: Pages(pages) });
    }

    pub(crate) fn pass_time(&mut self, nanos: u64) {
        self.now += Nanos(nanos);
        self.tick();
    }

    pub(crate) fn tick(&mut self) {
        self.send(Event::Tick);
    }

    /// Sends an event, and carries out what is due after it.
    pub(crate) fn send(&mut self, event: Event<'_>) {
        self.driver.send(self.now, event);
        self.settle();
    }

    /// Carries out what is due, and checks the invariants.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            for request in std::mem::take(&mut self.passed) {
                self.driver.take(request).expect("a read that was passed");
            }
            if self.driver.deadline().is_none_or(|deadline| deadline > self.now) {
                return self.check();
            }
            self.driver.send(self.now, Event::Tick);
        }
        panic!("the engine goes on without end");
    }

    /// The invariants after each event.
    fn check(&self) {
        let stats = self.stats();
        assert_eq!(stats.waiting, self.open.len() as u64);
        assert_eq!(self.driver.unanswered(), self.open.len());
        assert_eq!(u64::from(stats.in_flight), self.flying.len() as u64);
        let used =
            self.filling.len() + self.lent.keys().filter(|frame| !self.filling.contains(*frame)).count();
        assert!(used as u64 <= stats.backed.get() && stats.backed <= self.settings.memory);
        assert!(stats.budget >= MEMORY_LEAST);
        assert!(stats.deferred <= stats.queued);
        assert_eq!(stats.internal_errors, self.lies);
    }

    /// Ends everything: every read must be answered, and all memory must be free or cached.
    pub(crate) fn finish(&mut self) {
        for _ in 0..100_000 {
            let idle = self.flying.is_empty() && self.replies.is_empty() && self.open.is_empty();
            // Fetches that the busy driver refused are sent again after a while.
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

impl Storage {
    /// This many pages of a fetch arrive, if they have a stamp; returns how many.
    fn fill(&mut self, flying: &Flying, stamps: &[Option<u64>], pages: u64) -> u64 {
        flying.frames.iter().for_each(|frame| assert!(self.filling.remove(frame)));
        let stamps = stamps.iter().take(pages as usize).map_while(|stamp| *stamp);
        let mut come = 0;
        for ((page, frame), stamp) in flying.pages.iter().zip(&flying.frames).zip(stamps) {
            self.contents.insert(*frame, (flying.object, page.0, stamp));
            come += 1;
        }
        come
    }

    /// A read is answered.
    fn answered(&mut self, request: u64, answer: Answer) -> Open {
        self.answers.insert(request, answer);
        self.open.remove(&request).expect("a read that waits")
    }
}

impl Backing for Storage {
    type Answer = u64;
    type File = ();
    type Version = Made;
    /// The failed fetch.
    type Error = u64;

    const NOT_OPEN: u64 = u64::MAX;
    const UNKNOWN: u64 = u64::MAX - 1;

    fn fetch(&mut self, fetch: FrameFetch<()>) -> Result<(), Refusal> {
        let FrameFetch { id, object, range: pages, frames, urgency, apart, .. } = fetch;
        // A fetch of a closed file, which the driver refuses, is in flight until the engine gets that event.
        assert!(self.closed || apart == self.flying.is_empty(), "apart if and only if the device is idle");
        self.handed_out.push((object.0, pages.start.0));
        assert!(!pages.is_empty() && frames.len() as u64 == pages.len().get());
        let settings = &self.settings;
        let longest =
            if urgency == Urgency::Demand { settings.fetch.max(READ_LIMIT) } else { settings.fetch };
        assert!(pages.len() <= longest);
        for frame in &frames {
            assert!(u64::from(frame.0) < settings.memory.get(), "{frame:?} is beyond memory");
            assert!(!self.lent.contains_key(frame), "{frame:?} is being replied from");
            assert!(self.filling.insert(*frame), "{frame:?} is being filled already");
            self.contents.remove(frame);
        }
        let known = &self.objects[&object.0];
        let there = known.pages();
        let stamps = pages.iter().map(|page| (page.0 < there).then(|| known.stamp(page.0))).collect();
        let flying = Flying { object: object.0, pages, urgency, frames, stamps };
        assert!(self.flying.insert(id.0, flying).is_none());
        assert!(self.flying.len() <= 2 * self.settings.in_flight as usize);
        Ok(())
    }

    fn serve(&mut self, reply: Reply<u64>) -> Result<(), Reply<u64>> {
        let Reply { answer: request, frames, skip, length } = reply;
        let served = frames.len() as u64;
        let read = self.answered(request, Answer::Served(served));
        let pages = read.range.pages();
        assert!(served <= pages.len().get());
        if served < pages.len().get() {
            let end = pages.start.0 + served;
            let least = read.least;
            assert!(least.div_ceil(PAGE_SIZE) <= end, "cut at {end}, the object has {least} bytes");
        }
        let start = read.range.start.get();
        assert_eq!(skip as u64, start - pages.start.offset().get());
        let asked = read.range.len().get();
        let most = asked.min((served * PAGE_SIZE).saturating_sub(skip as u64));
        assert!(length as u64 <= most);
        assert!(length as u64 >= most.min(read.least.saturating_sub(start)), "{length} of {asked} bytes");
        for ((page, stamp), frame) in pages.iter().zip(&read.stamps).zip(&frames) {
            assert!(!self.filling.contains(frame), "{frame:?} is being filled");
            let (object, at, came) = *self.contents.get(frame).expect("something in the frame");
            assert_eq!((object, at), (read.object, page.0), "the wrong page");
            assert!(came >= *stamp, "page {at} is stale: {came} and not {stamp}");
            *self.lent.entry(*frame).or_default() += 1;
        }
        self.replies.insert(request, frames);
        Ok(())
    }

    fn pass(&mut self, request: RequestId, asked: &WaitingRead<u64>, _file: ()) -> Result<(), u64> {
        let read = self.answered(asked.answer, Answer::Passed);
        assert!(self.closed || read.range.pages().len() > READ_LIMIT || self.lies > 0);
        self.passed.push(request);
        Ok(())
    }

    fn fail(&mut self, request: u64, error: u64) {
        if error == Self::NOT_OPEN {
            assert!(self.closed);
            self.answered(request, Answer::Passed);
            return;
        }
        let read = self.answered(request, Answer::Failed);
        let lacked =
            |(object, lacks): &(u64, PageSpan)| *object == read.object && lacks.overlaps(read.range.pages());
        // A refused fetch has no other error; fetches of a closed file are all refused.
        let refused = || self.closed || self.refused.iter().any(lacked);
        let lacks = if error == Self::UNKNOWN { refused() } else { lacked(&self.failed[&error]) };
        assert!(lacks, "{error} is nothing of {:?}", read.range);
    }

    fn drop_frames(&mut self, frames: &[FrameId]) {
        for frame in frames {
            assert!(!self.filling.contains(frame) && !self.lent.contains_key(frame), "{frame:?} is in use");
            self.contents.remove(frame);
        }
        self.dropped.extend(frames);
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
