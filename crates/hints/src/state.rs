//! The state of the access-list engine between events, and operations that all its parts share.
//!
//! [`crate::access_engine`] follows the reads. [`crate::round`] fetches by rounds, and [`crate::pipeline`] by a
//! sweep where possible.

use crate::access_list::AccessList;
use crate::contention::Contention;
use crate::entry::ListIndex;
use crate::held::Held;
use crate::objects::{Objects, PageKey, Slot};
use crate::order::DiskAddress;
use crate::patience::Patience;
use crate::plan::FetchRun;
use crate::settings::Mode;
use crate::sweep::Sweep;
use crate::trust::Trust;
use crate::{Settings, Stats};
use foreseek_seam::{Checks, Command, Commands, FetchId, QueryId, RequestId};
use foreseek_units::{Instant, PageSpan, Pages};
use std::collections::VecDeque;

/// The part of the buffer for which the first sweep is planned. Random reads at times take up to 2 % more than
/// the mean, and the lead takes some too.
const FIT: f64 = 0.95;

/// A read whose residency was requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) query: QueryId,
    pub(crate) request: RequestId,
    pub(crate) slot: Slot,
    pub(crate) span: PageSpan,
}

/// A read that waits for the application's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) look: Look,
    /// The page that led to the question.
    pub(crate) page: PageKey,
    /// Its position on the list; `None` when it is not on it.
    pub(crate) at: Option<ListIndex>,
    /// Whether the page was missing; otherwise only the list was about to end.
    pub(crate) missing: bool,
    /// The position and the end of the list at the time of the question.
    pub(crate) list: (ListIndex, ListIndex),
}

/// The present round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// The first entry of the list that it does not answer.
    pub(crate) end: ListIndex,
    /// The list was replaced before the application had reached this entry.
    pub(crate) abandoned: bool,
}

/// Commands that are still to be given, as one event holds a bounded number.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) forget: VecDeque<(Slot, PageSpan)>,
    pub(crate) fetch: VecDeque<FetchRun>,
    /// Wanted pages that are to be advised a second time, in this order.
    pub(crate) again: VecDeque<PageKey>,
    /// The read that waits for them.
    pub(crate) request: RequestId,
}

impl Work {
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let fetch = self.fetch.iter().map(|run| run.slot);
        let again = self.again.iter().map(|page| page.slot());
        self.forget.iter().map(|(slot, _)| *slot).chain(fetch).chain(again)
    }
}

/// How much of a list was used since it was last judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Since the head came around.
    pub(crate) fetched: Pages,
    pub(crate) used: Pages,
    /// Since the buffer was last sized.
    pub(crate) read: Pages,
    pub(crate) lost: Pages,
}

/// A read that waits while commands are given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: RequestId,
    /// The page that it waits for, if that has yet to be requested.
    pub(crate) needed: Option<usize>,
    /// How many pages of the list the head may still pass at this read: at most all of them, once.
    pub(crate) distance: usize,
}

/// The engine's state for sweeps.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) sweep: Option<Sweep>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) ledger: Ledger,
    /// The part of the buffer for which sweeps are planned.
    pub(crate) fit: f64,
    /// Something was fetched since the head last came around.
    pub(crate) moved: bool,
    /// Memory was short since the head last came around.
    pub(crate) short: bool,
    /// The sweep must be planned again: the buffer has changed, or a file cannot be fetched.
    pub(crate) stale: bool,
    /// Pages were evicted: the next sweep waits for a round without contention.
    pub(crate) shaken: bool,
    /// Pages to release.
    pub(crate) forget: VecDeque<(Slot, PageSpan)>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            sweep: None,
            waiting: None,
            ledger: Ledger::default(),
            fit: FIT,
            moved: false,
            short: false,
            stale: false,
            shaken: false,
            forget: VecDeque::new(),
        }
    }
}

impl Pipeline {
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.waiting.is_some()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let forget = self.forget.iter().map(|(slot, _)| *slot);
        self.sweep.iter().flat_map(Sweep::slots).chain(forget)
    }

    /// Pages do not count as prefetched: they changed, or were not fetched after all.
    pub(crate) fn disown(&mut self, slot: Slot, span: PageSpan) {
        if let Some(sweep) = &mut self.sweep {
            sweep.disown(slot, span);
        }
    }

    /// Plans again at the next read.
    pub(crate) fn replan(&mut self) {
        self.stale = true;
    }
}

/// The engine that fetches the reads that an application has announced.
#[derive(Debug)]
pub struct AccessListEngine {
    pub(crate) settings: Settings,
    pub(crate) stats: Stats,
    pub(crate) checks: Checks,
    pub(crate) objects: Objects,
    pub(crate) list: AccessList,
    pub(crate) contention: Contention,
    pub(crate) trust: Trust,
    pub(crate) patience: Patience,
    pub(crate) held: Held,
    pub(crate) round: Option<Round>,
    pub(crate) work: Option<Work>,
    pub(crate) pipeline: Pipeline,
    pub(crate) asked: Option<Question>,
    /// Fetches in flight, oldest first.
    pub(crate) under_way: VecDeque<(FetchId, FetchRun)>,
    pub(crate) head: Option<DiskAddress>,
    /// Held pages may be missing: some were evicted.
    pub(crate) doubtful: bool,
    pub(crate) next_fetch: u64,
    pub(crate) looks: Vec<Look>,
    pub(crate) next_query: u64,
    /// The page read last: to read more of it needs no query.
    pub(crate) last: Option<PageKey>,
    pub(crate) now: Instant,
}

fn contention(settings: &Settings) -> Contention {
    let contention = Contention::new(settings.share);
    if settings.controlled { contention } else { contention.fixed() }
}

impl AccessListEngine {
    /// An engine with an empty list.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = settings.bounded();
        Self {
            stats: Stats::default(),
            checks: Checks::default(),
            objects: Objects::new(),
            list: AccessList::new(settings.list_limit),
            contention: contention(&settings),
            trust: Trust::new(settings.first_round, settings.growth),
            patience: Patience::default(),
            held: Held::default(),
            round: None,
            work: None,
            pipeline: Pipeline::default(),
            asked: None,
            under_way: VecDeque::new(),
            head: None,
            doubtful: false,
            next_fetch: 0,
            looks: Vec::new(),
            next_query: 0,
            last: None,
            now: Instant::ZERO,
            settings,
        }
    }

    /// The buffer, or the reach of the sweep, has changed: updates how much the application should announce.
    pub(crate) fn note_buffer(&mut self) {
        let buffer = self.contention.buffer();
        self.stats.buffer = buffer;
        let (pages, reads) = match (self.settings.mode, &self.pipeline.sweep) {
            (Mode::Blocking, _) => (buffer, 0),
            // As far as a sweep looks if no page repeats.
            (Mode::Pipelined, None) => (Pages(buffer.get().saturating_mul(2)), 0),
            // A quarter of the reach is read before the engine asks again: more would take more memory from the
            // pages. There are at most as many pages as reads.
            (Mode::Pipelined, Some(sweep)) => {
                let reads = (sweep.reach() + sweep.reach() / 4).max(buffer.get().saturating_mul(2));
                let reads = reads.min(self.list.limit() as u64);
                (Pages(reads), reads)
            }
        };
        (self.stats.lookahead, self.stats.lookahead_reads) = (pages, reads);
    }

    /// Lets a read pass; it will move the head to the missing page.
    pub(crate) fn pass(&mut self, request: RequestId, missing: Option<PageKey>, out: &mut Commands) {
        if let Some(page) = missing {
            self.head = Some(DiskAddress::of(&self.objects, self.settings.order, page));
        }
        out.push(Command::Pass { request });
    }

    /// Pages do not count as prefetched: they changed, or were not fetched after all.
    pub(crate) fn disown(&mut self, slot: Slot, span: PageSpan) {
        self.held.disown(slot, span);
        self.pipeline.disown(slot, span);
    }
}
