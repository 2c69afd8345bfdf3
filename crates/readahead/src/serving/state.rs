//! The state of a serving engine between events.

use super::calls::Calls;
use super::flight::FetchTable;
use super::frames::FrameTable;
use super::look::PendingRead;
use super::pace::Pace;
use super::pages::Table;
use super::reads::{Ticket, WaitingReads};
use super::settings::Settings;
use super::stats::Stats;
use crate::depth::UnloadedCosts;
use crate::learn::Learning;
use crate::stream::{self, Ahead, Prefetcher, UnknownPolicy};
use foreseek_cache::{
    ActiveStreams, Activity, Ceiling, CeilingSettings, Direction, EvictionHistory, StreamCount, depth_cap,
};
use foreseek_seam::objects::{Objects, PageKey, Slot};
use foreseek_seam::{Checks, Measured, ProcessId, StreamId};
use foreseek_units::{Bytes, DeviceCosts, Instant, Lba, Nanos, PageIndex, Pages};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// The share of the frames that prefetching leaves to demand: one in this many. Demand can take more from the
/// prefetch cache. The reserve saves it the wait while most other frames are in flight.
pub(super) const RESERVE: usize = 16;

/// The least ceiling of the prefetch cache: a megabyte, so that one stream can always be read ahead.
const CEILING_LEAST: Pages = Bytes::mib(1).pages_floor();

/// How long a stream counts as active after a read: the epoch of the ceiling. A reader that pauses longer has
/// no claim on memory.
const ACTIVE: Nanos = Nanos::from_secs(4);

/// The state of a stream.
#[derive(Debug)]
pub(super) struct ServedStream {
    pub(super) pid: ProcessId,
    /// The length of its object that the prefetcher knows.
    pub(super) length: Pages,
    /// The end of the range that the prefetcher wanted last.
    pub(super) reach: PageIndex,
    /// Present from the first read of a whole window.
    pub(super) calls: Option<Box<Calls>>,
}

/// The engine that serves reads.
pub struct ServingEngine {
    pub(super) settings: Settings,
    pub(super) prefetcher: Box<dyn Prefetcher>,
    pub(super) objects: Objects,
    pub(super) streams: FxHashMap<StreamId, ServedStream>,
    pub(super) frames: FrameTable,
    pub(super) table: Table,
    pub(super) flight: FetchTable,
    pub(super) reads: WaitingReads,
    /// Reads that wait for memory, in order.
    pub(super) starved: VecDeque<PendingRead>,
    /// Reads to be answered that found no room among the commands.
    pub(super) ready: VecDeque<Ticket>,
    pub(super) history: EvictionHistory<PageKey>,
    pub(super) ceiling: Ceiling,
    pub(super) activity: Activity,
    pub(super) active: StreamCount<StreamId>,
    pub(super) learner: UnloadedCosts,
    pub(super) pace: Pace,
    /// The end of the fetch that completed last.
    pub(super) head: Lba,
    /// No fetch is issued before this time: the driver was busy.
    pub(super) pause: Option<Instant>,
    pub(super) stats: Stats,
    pub(super) checks: Checks,
    pub(super) now: Instant,
    /// Whether any event has arrived.
    pub(super) begun: bool,
    /// A buffer for the prefetcher's answers.
    pub(super) wanted: Vec<Ahead>,
}

impl ServingEngine {
    /// An engine without streams. `costs` are those of the device's profile, or of a similar one: an estimate
    /// that completed fetches soon outweigh.
    ///
    /// # Errors
    /// [`UnknownPolicy`] where the registry has no prefetcher of the name in the settings.
    pub fn new(settings: Settings, costs: &Arc<dyn DeviceCosts>) -> Result<Self, UnknownPolicy> {
        let settings = settings.bounded();
        let guess =
            Measured { positioning: costs.average_seek() + costs.half_rotation(), rate: costs.mean_rate() };
        Ok(Self {
            prefetcher: stream::by_name(&settings.policy, &settings.stream, costs)?,
            objects: Objects::new(),
            streams: FxHashMap::default(),
            frames: FrameTable::new(settings.memory),
            table: Table::new(),
            flight: FetchTable::new(settings.in_flight, !settings.overlapping, guess),
            reads: WaitingReads::default(),
            starved: VecDeque::new(),
            ready: VecDeque::new(),
            history: EvictionHistory::new(settings.history),
            ceiling: ceiling(&settings, settings.memory, Instant::ZERO),
            activity: Activity::new(),
            active: StreamCount::Active(ActiveStreams::new(ACTIVE)),
            learner: UnloadedCosts::new(guess, settings.overlapping),
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

    /// Its counters and gauges.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (costs, unloaded) = (self.learner.marginal(), self.learner.unloaded());
        let active = self.active.clone().count(self.now, self.streams.len());
        Stats {
            internal_errors: self.checks.internal_errors() + self.frames.internal_errors(),
            streams: self.streams.len() as u64,
            active_streams: active as u64,
            waiting: (self.reads.len() + self.starved.len()) as u64,
            in_flight: self.flight.under_way() as u32,
            queued: self.flight.queued() as u64,
            deferred: self.flight.deferred() as u64,
            budget: self.frames.budget(),
            backed: self.frames.backed(),
            free: self.frames.free(),
            cached: self.table.cached(),
            ceiling: self.ceiling(),
            bound: self.share(active),
            positioning: costs.positioning,
            rate: costs.rate,
            unloaded: unloaded.positioning,
            depth: unloaded.depth().pages_floor(),
            learnt_from: self.learner.visits(),
            ..self.stats
        }
    }

    /// Pages that were fetched ahead, without the work of all [`stats`](Self::stats).
    #[must_use]
    pub fn fetched_ahead(&self) -> Pages {
        self.stats.fetched_ahead
    }

    /// What its policy has learnt, to be saved and explained. `None` for one that learns nothing.
    pub fn learning(&mut self) -> Option<&mut dyn Learning> {
        self.prefetcher.learning()
    }

    /// The most pages read ahead that may be kept, including those in flight.
    pub(super) fn ceiling(&self) -> Pages {
        if !self.settings.is_bounded {
            return self.frames.budget();
        }
        self.ceiling.pages().max(CEILING_LEAST)
    }

    /// How far each of this many active streams may read ahead.
    pub(super) fn share(&self, active: usize) -> Pages {
        depth_cap(self.ceiling(), if self.settings.is_bounded { active } else { 1 })
    }

    /// Pages of an object are neither cached nor in flight any more.
    pub(super) fn unkeep(&mut self, slot: Slot, pages: u64) {
        let kept = &mut self.objects.get_mut(slot).kept;
        *kept = self.checks.some(kept.checked_sub(pages)).unwrap_or(0);
    }
}

/// The ceiling's controller, for a kernel with the machine's memory.
pub(super) fn ceiling(settings: &Settings, most: Pages, now: Instant) -> Ceiling {
    let unit = low_mark(settings.machine);
    Ceiling::new(CeilingSettings::paper(unit, Direction::Up), settings.machine, most, now)
}

/// The number of free pages at which Linux begins to reclaim in a machine of this memory. It is five quarters
/// of `min_free_kbytes`, which is four times the square root of the memory in KiB.
fn low_mark(machine: Pages) -> Pages {
    let kibibytes = machine.bytes().get() as f64 / 1024.0;
    Bytes::kib((5.0 * kibibytes.sqrt()) as u64).pages_ceil()
}
