//! Reads answered out of prefetched pages: the engine behind a mount, one for each device.
//!
//! In front of it stands a cache that keeps what it was given, the kernel's page cache before a FUSE
//! server; the engine is told only of what misses there. The two divide the labour as
//! the prefetch cache and the LRU lists of TR-840 section 4.1 do: pages that were prefetched and not
//! yet read lie in frames of ours, and a page that is read is handed over and leaves them.
//!
//! # How a read is answered
//!
//! Page by page the read is looked up in the prefetch cache and among the pages on their way, and the
//! [`Prefetcher`] is asked, as a kernel would ask it. What is missing is fetched; what the prefetcher wants
//! beside that goes into the same fetches, so that the device is sent to a place once. The read is
//! answered when the last of its pages has come. A page whose last byte was read leaves the prefetch cache with
//! that; it is remembered as delivered.
//!
//! While one stream alone has something fetched, the device is given little of it at a time, and the rest is taken
//! back when its reader leaves.
//!
//! # Memory
//!
//! Every page that is kept, on its way or in a reply has a frame. Demand goes before prefetching: a read
//! takes frames from the prefetch cache where none is free, and waits, in order, where there is none. What is
//! read ahead stays below the ceiling of the prefetch cache and leaves a [reserve](RESERVE) of frames, and
//! no stream reads farther ahead than its share ([`depth_cap`]); to make room, pages are dropped by the
//! second-chance rule of TR-840 section 4.1. Pages that are read again tell the ceiling where memory is
//! short: one that was delivered before is a miss of the LRU lists, one that was dropped unused a prefetch miss.
//!
//! # Failures and changes
//!
//! A fetch that fails brings what came before the error and is otherwise forgotten. A read that waited
//! for it has its own pages fetched once more, alone; only if that fails too is it failed. A change of the object
//! drops the pages that it concerns; those on their way still answer the reads that waited for them
//! before, and are then dropped.
//!
//! What must hold is [checked](foreseek_seam::Checks) always. A read of which a page should be on its way and is not, whose
//! frames are not all filled, or that would be answered with less than its object has, is passed: an error of ours or of
//! the driver's costs time and is counted ([`Stats::contradictions`]), and nobody takes it for the end of a file.
//!
//! # What a driver does
//!
//! - It may begin with [`Recalled`]. It tells [`Opened`] (and [`Described`], [`Placed`]), [`Closed`], and each [`Read`]. Every read is answered by one
//!   of [`Serve`], [`Fail`] and [`Pass`], at once or at a later event. A passed read is the driver's to
//!   make; it is one that is longer than [`READ_LIMIT`], of a stream that is not open, or one of which something
//!   contradicts itself.
//! - It carries out [`Fetch`], into the named frames, and answers each with one [`Done`] or [`Refused`].
//!   Fetches of one call that lie together on the device are best handed on together and in order, so that
//!   a block layer makes one request of them; one that is to go `apart` goes before those that follow. `got` counts whole pages from the start, the one that
//!   the end of the object cuts among them; `Arrived` with less than was asked for means that the object
//!   ends there, so a driver goes on after a short read until it gets nothing.
//! - When the reply made of a `Serve` is out, it tells [`Unpinned`] with the same frames.
//! - It tells [`Changed`] and [`Resized`] when the object has its new bytes and before who changed
//!   them hears of it. Reads that are told after that never get older ones.
//! - It tells [`Budget`] when there is more or less memory; [`Drop`] names the frames whose memory may go.
//! - It tells [`Ran`] and [`Exited`] of readers, as often as it knows; and [`Tick`] at the deadline.
//!
//! [`Opened`]: Event::Opened
//! [`Recalled`]: ServingEvent::Recalled
//! [`Described`]: ServingEvent::Described
//! [`Placed`]: Event::Placed
//! [`Closed`]: Event::Closed
//! [`Read`]: Event::Read
//! [`Serve`]: ServingCommand::Serve
//! [`Fail`]: ServingCommand::Fail
//! [`Pass`]: Command::Pass
//! [`Fetch`]: Command::Fetch
//! [`Done`]: Event::Done
//! [`Refused`]: Event::Refused
//! [`Unpinned`]: ServingEvent::Unpinned
//! [`Changed`]: Event::Changed
//! [`Resized`]: Event::Resized
//! [`Budget`]: Event::Budget
//! [`Drop`]: ServingCommand::Drop
//! [`Ran`]: ServingEvent::Ran
//! [`Exited`]: ServingEvent::Exited
//! [`Tick`]: Event::Tick

mod arrive;
mod fetch;
mod flight;
mod frames;
mod header;
mod pace;
mod pages;
mod reads;
mod serve;
mod settings;
mod sight;
mod stats;

pub use settings::{IN_FLIGHT_LIMIT, MEMORY_LEAST, MEMORY_LIMIT, READ_LIMIT, Settings};
pub use stats::Stats;

use crate::depth::LoneCosts;
use crate::learn::Learning;
use crate::stream::{self, Ahead, Opened, Prefetcher, UnknownPolicy};
use flight::{Flight, Turn};
use foreseek_cache::{
    ActiveStreams, Activity, Ceiling, CeilingSettings, Direction, EvictionHistory, Process, STREAMS_LIMIT,
    StreamCount, depth_cap,
};
use foreseek_seam::objects::{Objects, PageKey, Slot};
use foreseek_seam::{Checks, Measured};
use foreseek_seam::{
    Command, Commands, Engine, Epoch, Event, Extent, Into, ObjectId, ServingCommand, ServingEvent, StreamId,
    Who,
};
use foreseek_units::DeviceCosts;
use foreseek_units::{ByteOffset, Bytes, Instant, Lba, Nanos, PageIndex, PageSpan, Pages, Span};
use frames::Frames;
use pace::Pace;
use pages::Table;
use reads::{Reads, Ticket};
use rustc_hash::FxHashMap;
use serve::Asked;
use std::collections::VecDeque;
use std::sync::Arc;

/// The share of the frames that prefetching leaves to demand: one in so many. Demand can take more from the
/// prefetch cache; the reserve spares it the wait while most of the rest is on its way.
const RESERVE: usize = 16;

/// The least ceiling of the prefetch cache: a megabyte, so that one stream can always be read ahead.
const CEILING_LEAST: Pages = Bytes::mib(1).pages_floor();

/// How long a stream counts as active after a read: the epoch of the ceiling. A reader that thinks
/// longer than that has no claim on memory.
const ACTIVE: Nanos = Nanos::from_secs(4);

/// How long to wait after a driver refused a fetch because it was busy, where no end of another fetch
/// comes before: short against a switch of a disk.
const BUSY_PAUSE: Nanos = Nanos::from_millis(1);

/// What is kept of a stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    who: Who,
    /// The length of its object that the prefetcher knows.
    length: Pages,
    /// Where the range ends that the prefetcher wanted last.
    reach: PageIndex,
}

/// The engine that serves reads.
pub struct ServingEngine {
    settings: Settings,
    prefetcher: Box<dyn Prefetcher>,
    objects: Objects,
    streams: FxHashMap<StreamId, Stream>,
    frames: Frames,
    table: Table,
    flight: Flight,
    reads: Reads,
    /// Reads for which there was no memory, in order.
    starved: VecDeque<Asked>,
    /// Reads that are to be answered and found no room among the commands.
    ready: VecDeque<Ticket>,
    history: EvictionHistory<PageKey>,
    ceiling: Ceiling,
    activity: Activity,
    active: StreamCount<StreamId>,
    learner: LoneCosts,
    pace: Pace,
    /// Where the fetch that completed last ended.
    head: Lba,
    /// No fetch is issued before that: the driver was busy.
    pause: Option<Instant>,
    stats: Stats,
    checks: Checks,
    now: Instant,
    /// Whether anything was told yet.
    begun: bool,
    /// Room for the prefetcher's answers, used again.
    wanted: Vec<Ahead>,
}

impl ServingEngine {
    /// An engine without a stream. `costs` are those of the device's profile, or of one like it: a
    /// guess, which what is learnt from completed fetches soon outweighs.
    ///
    /// # Errors
    /// No prefetcher has the name that the settings give.
    pub fn new(settings: Settings, costs: &Arc<dyn DeviceCosts>) -> Result<Self, UnknownPolicy> {
        let settings = settings.bounded();
        let guess = Measured { switch: costs.average_seek() + costs.half_turn(), rate: costs.mean_rate() };
        Ok(Self {
            prefetcher: stream::by_name(&settings.policy, &settings.stream, costs)?,
            objects: Objects::new(),
            streams: FxHashMap::default(),
            frames: Frames::new(settings.memory),
            table: Table::new(),
            flight: Flight::new(settings.in_flight),
            reads: Reads::default(),
            starved: VecDeque::new(),
            ready: VecDeque::new(),
            history: EvictionHistory::new(settings.history),
            ceiling: ceiling(&settings, settings.memory, Instant::ZERO),
            activity: Activity::new(),
            active: StreamCount::Active(ActiveStreams::new(ACTIVE)),
            learner: LoneCosts::new(guess, settings.overlapping),
            pace: Pace::new(),
            head: Lba(0),
            pause: None,
            stats: Stats::default(),
            checks: Checks::default(),
            now: Instant::ZERO,
            begun: false,
            wanted: Vec::new(),
            settings,
        })
    }

    /// Its settings, every value within its bounds.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What happened so far, and how it stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (costs, lone) = (self.learner.marginal(), self.learner.lone());
        let active = self.active.clone().count(self.now, self.streams.len());
        Stats {
            contradictions: self.checks.contradictions() + self.frames.contradictions(),
            streams: self.streams.len() as u64,
            active_streams: active as u64,
            waiting: (self.reads.len() + self.starved.len()) as u64,
            in_flight: self.flight.under_way() as u32,
            queued: self.flight.queued() as u64,
            held_back: self.flight.held_back() as u64,
            budget: self.frames.budget(),
            backed: self.frames.backed(),
            free: self.frames.free(),
            cached: self.table.cached(),
            ceiling: self.ceiling(),
            bound: depth_cap(self.ceiling(), active),
            switch: costs.switch,
            rate: costs.rate,
            lone: lone.switch,
            depth: lone.depth().pages_floor(),
            learnt_from: self.learner.visits(),
            ..self.stats
        }
    }

    /// What its policy has learnt: to be saved and explained. `None` for one that learns nothing.
    pub fn learning(&mut self) -> Option<&mut dyn Learning> {
        self.prefetcher.learning()
    }

    /// Takes up what was learnt in another life.
    fn recall(&mut self, learnt: &str, device: Option<Measured>) {
        if let Some(learning) = self.prefetcher.learning() {
            // Who tells it has looked at it before ([`crate::learn::check`]); whatever it says does no harm.
            let _ = learning.load(learnt);
        }
        if let Some(device) = device {
            self.learner = LoneCosts::new(device, self.settings.overlapping);
        }
    }

    /// How many pages may be kept that were read ahead, those on their way among them.
    fn ceiling(&self) -> Pages {
        self.ceiling.pages().max(CEILING_LEAST)
    }

    /// The first event: time begins.
    fn begin(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.begun, true) {
            self.ceiling = ceiling(&self.settings, self.settings.memory, now);
        }
    }

    fn opened(&mut self, opened: Opened, length: Bytes) {
        let Opened { stream, object, who, .. } = opened;
        let crowded = self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream);
        if self.objects.crowded() {
            self.objects.sweep(std::iter::empty());
        }
        // What is one too many is not followed: its reads are passed.
        let Some(slot) = self.objects.intern(object).filter(|_| !crowded) else { return };
        if self.objects.get(slot).length.is_some_and(|known| known != length) {
            self.resized(slot, length);
        }
        self.objects.open(stream, slot, length);
        self.streams.insert(stream, Stream { who, length: opened.length, reach: PageIndex::ZERO });
        self.activity.ran(Process(who.0), self.now);
        self.prefetcher.opened(self.now, opened);
    }

    fn closed(&mut self, stream: StreamId) {
        if self.streams.remove(&stream).is_some() {
            self.leave(stream, Span::new(PageIndex::ZERO, PageIndex::ZERO));
            self.objects.close(stream);
            self.active.closed(&stream);
            self.prefetcher.closed(self.now, stream);
        }
    }

    fn placed(&mut self, object: ObjectId, extents: &[Extent]) {
        if let Some(slot) = self.objects.find(object) {
            self.objects.get_mut(slot).place(extents);
        }
    }

    /// An object has another length: what lies beyond the lesser of both is not what it was, the page
    /// that it cuts included.
    fn resized(&mut self, slot: Slot, length: Bytes) {
        let before = self.objects.get_mut(slot).length.replace(length).unwrap_or(length);
        let from = ByteOffset(before.min(length).get()).page();
        self.reads.resized(slot, length.pages_ceil());
        self.overtake(slot, Span::new(from, PageKey::END));
    }

    /// Pages of an object are not what they were.
    fn overtake(&mut self, slot: Slot, range: PageSpan) {
        if self.objects.get(slot).kept == 0 {
            return;
        }
        self.take_back(|fetch| fetch.slot == slot && range.covers(fetch.range));
        let frames = &mut self.frames;
        let gone = self.table.overtake(slot, range, |frame| frames.let_go(frame));
        self.unkeep(slot, gone.get());
        self.stats.stale += gone;
    }

    /// Pages of an object are neither there nor on their way any longer.
    fn unkeep(&mut self, slot: Slot, pages: u64) {
        let kept = &mut self.objects.get_mut(slot).kept;
        *kept = self.checks.some(kept.checked_sub(pages)).unwrap_or(0);
    }

    /// There is more memory, or less: what is too much and not in use goes at once.
    fn budget(&mut self, pages: Pages) {
        self.frames.set_budget(pages.clamp(MEMORY_LEAST, self.settings.memory));
        while self.frames.excess() > 0 && self.evict() {}
        self.ceiling.resized(self.frames.budget());
        while self.table.ahead() > self.ceiling() && self.evict() {}
    }

    /// Says what there is to say, as far as there is room.
    fn speak(&mut self, out: &mut Commands) {
        while out.room() > 0
            && let Some(ticket) = self.ready.pop_front()
        {
            self.answer(ticket, out);
        }
        if self.pause.is_none_or(|until| until <= self.now) {
            self.pause = None;
            self.issue(out);
        }
        if out.room() > 0 && self.frames.has_dropped() {
            let frames = self.frames.take_dropped();
            if !frames.is_empty() {
                out.push(Command::Serving(ServingCommand::Drop { frames }));
            }
        }
    }

    /// Hands fetches to the driver, as many as may be under way.
    fn issue(&mut self, out: &mut Commands) {
        while out.room() > 0
            && let Some(turn) = self.flight.issue(self.now, &self.pace)
        {
            let Turn { id: fetch, fetch: asked, apart, again } = turn;
            let flight::Fetch { object, range, urgency, .. } = *asked;
            if !again {
                self.stats.handed_out(asked);
            }
            // As it is now: what changed while the fetch waited will be fetched as it has become.
            let epoch = self.objects.find(object).map_or(Epoch(0), |slot| self.objects.get(slot).epoch);
            let into = Into::Frames(asked.frames.clone());
            out.push(Command::Fetch { fetch, object, range, epoch, into, urgency, apart });
        }
    }
}

/// The ceiling's controller, of a kernel whose memory is that of the machine.
fn ceiling(settings: &Settings, most: Pages, now: Instant) -> Ceiling {
    let unit = low_mark(settings.machine);
    Ceiling::new(CeilingSettings::paper(unit, Direction::Up), settings.machine, most, now)
}

/// At how many free pages Linux begins to reclaim in a machine of so much memory: five quarters of
/// `min_free_kbytes`, which is four times the root of the KiB.
fn low_mark(machine: Pages) -> Pages {
    let kibibytes = machine.bytes().get() as f64 / 1024.0;
    Bytes::kib((5.0 * kibibytes.sqrt()) as u64).pages_ceil()
}

impl Engine for ServingEngine {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands) {
        self.begin(now);
        self.now = self.now.max(now);
        let read = self.stats.hits + self.stats.joined + self.stats.missed;
        self.ceiling.tick(self.now, read);
        match event {
            Event::Opened { stream, object, length, who, .. } => {
                self.opened(Opened { stream, object, who, length: length.pages_ceil(), told: None }, length);
            }
            Event::Serving(ServingEvent::Described { stream, about }) => {
                if self.streams.contains_key(&stream) {
                    self.prefetcher.described(stream, &about);
                }
            }
            Event::Serving(ServingEvent::Recalled { learnt, device }) => self.recall(learnt, device),
            Event::Closed { stream } => self.closed(stream),
            Event::Placed { object, extents } => self.placed(object, extents),
            Event::Read { request, stream, range, who, .. } => self.read(request, stream, range, who, out),
            Event::Done { fetch, got, outcome, .. } => self.done(fetch, got, outcome),
            Event::Refused { fetch, why } => self.refused(fetch, why),
            Event::Changed { object, range, epoch } => {
                if let Some(slot) = self.objects.find(object) {
                    self.objects.get_mut(slot).epoch = epoch;
                    self.overtake(slot, range.pages());
                }
            }
            Event::Resized { object, length } => {
                if let Some(slot) = self.objects.find(object) {
                    self.resized(slot, length);
                }
            }
            Event::Serving(ServingEvent::Unpinned { frames }) => {
                frames.iter().for_each(|frame| self.frames.unpin(*frame))
            }
            Event::Budget { pages } => self.budget(pages),
            Event::Serving(ServingEvent::Ran { who }) => self.activity.ran(Process(who.0), self.now),
            Event::Serving(ServingEvent::Exited { who }) => self.activity.exited(Process(who.0)),
            Event::Tick => {}
            // Nobody tells a mount what will be read, nor can it ask what lies in front of it.
            Event::Hint(_) => {}
        }
        self.feed(out);
        self.speak(out);
    }

    fn deadline(&self) -> Option<Instant> {
        let pause = self.pause.filter(|until| *until > self.now);
        let more = !self.ready.is_empty() || self.frames.has_dropped();
        if more || (pause.is_none() && self.flight.has_turn(&self.pace)) {
            return Some(self.now);
        }
        let epoch = self.ceiling.deadline();
        Some(pause.map_or(epoch, |until| until.min(epoch)))
    }
}
