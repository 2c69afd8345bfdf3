//! Application-directed prefetching as an [`Engine`] (ATC'09 section 4.5), for the fadvise interface.
//!
//! Before each read of a watched range the engine asks which of its pages are in the page cache, and moves its
//! position on the [access list](crate::access_list). A read that finds all of its pages passes at once. The
//! engine handles a read that misses according to the reason:
//!
//! - *End of the buffer*: the page is on the list, after the last entry that the present round answers. A new
//!   round begins while the reader waits:
//!   1. If the list is shorter than the buffer, the engine asks the application for more.
//!   2. It walks the list from the read on until it has seen as many unique pages as the buffer holds.
//!   3. It releases held pages that the new round does not need.
//!   4. It fetches the missing pages in disk order.
//! - *Early eviction* of more than a few pages: contention. The engine halves the buffer and begins a new
//!   round. The smaller round leaves out the pages that are needed last. The engine releases these, because a
//!   stock kernel, unlike the paper's, has no call to choose the pages that are evicted first.
//! - *A stray read*: the engine asks the application what it will read, and begins a new round at the read's
//!   position in the answer.
//! - *Any other*: the round left the page out, or the list does not predict the read (a page that is read
//!   again, a suspicion). The read passes without prefetching.
//!
//! By the engine's own account, pages of the last round that the new one needs are still in memory, and it does
//! not request them again. After an early eviction it requests all of the new round: to advise a resident page
//! costs as little as to ask about it, and evicted pages are fetched again.
//!
//! The reader waits for a whole round, as in the paper ([`crate::Mode::Blocking`]): a sorted batch is faster
//! than overlapping, and the reader would soon wait anyway. For long lists, [`crate::pipeline`] is faster.
//!
//! [`crate::trust`] and [`crate::patience`] bound the cost of a wrong list and of an application that gives no
//! hints.

use crate::access_list::Progress;
use crate::entry::{Entry, ListIndex};
use crate::held::Met;
use crate::objects::{PageKey, Slot};
use crate::plan::{self, FetchRun};
use crate::state::{AccessListEngine, Look, Work};
use crate::{Settings, Stats};
use foreseek_seam::{
    Access, Command, Commands, Engine, Epoch, Event, FetchId, FetchOutcome, HintCommand, HintEvent, HintMode,
    ObjectId, QueryId, Refusal, RequestId, StreamId,
};
use foreseek_units::{ByteSpan, Bytes, Instant, PageIndex, PageSpan, Pages, Position, Span};

/// The number of reads that may wait for the answer about their residency. A driver answers before it passes
/// the next read, so that one is usual; reads beyond the limit pass unseen.
const LOOKS_LIMIT: usize = 64;

/// The longest read that Linux makes at once: 2 GiB less a page. Only this much of a longer read is followed.
const READ_LIMIT: Pages = Bytes::gib(2).pages_floor();

/// Why a read missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Miss {
    /// No action follows.
    Aside,
    Strayed,
    Listed(ListIndex),
    Evicted(ListIndex),
}

impl Miss {
    /// A read of several pages counts as the gravest of its misses.
    fn gravity(self) -> u8 {
        match self {
            Self::Aside => 0,
            Self::Strayed => 1,
            Self::Listed(_) => 2,
            Self::Evicted(_) => 3,
        }
    }
}

impl AccessListEngine {
    /// The settings, every value within its bounds.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether the whole list has been requested in a round that holds it: there is no work left until the next
    /// hint.
    #[must_use]
    pub fn has_fetched_all(&self) -> bool {
        let is_busy = self.pipeline.is_sweeping() || self.work.is_some() || self.asked.is_some();
        !is_busy && self.round.is_some_and(|round| round.end >= self.list.end())
    }

    /// How many more accesses a hint of this mode may hold; the list drops any beyond.
    #[must_use]
    pub fn room(&self, mode: HintMode) -> usize {
        self.list.room(mode)
    }

    fn intern(&mut self, id: ObjectId) -> Option<Slot> {
        if self.objects.crowded() && self.objects.find(id).is_none() {
            let listed = self.list.pages().map(PageKey::slot);
            let under_way = self.under_way.iter().map(|(_, run)| run.slot);
            let looked = self.looks.iter().map(|look| look.slot);
            let asked = self.asked.iter().map(|asked| asked.look.slot);
            let marked = self.list.marked().into_iter().map(PageKey::slot);
            let work = self.work.iter().flat_map(Work::slots);
            let held = self.held.slots();
            let used = listed.chain(under_way).chain(looked).chain(asked).chain(marked).chain(work);
            self.objects.sweep(used.chain(held).chain(self.pipeline.slots()));
        }
        self.objects.intern(id)
    }

    fn hinted(&mut self, mode: HintMode, accesses: &[Access], done: bool) {
        let mut last: Option<(ObjectId, Option<Slot>)> = None;
        let mut entries = Vec::with_capacity(accesses.len());
        for access in accesses {
            let slot = match last {
                Some((id, slot)) if id == access.object => slot,
                _ => self.intern(access.object),
            };
            last = Some((access.object, slot));
            // Pages that no object can have, and objects beyond the limit, are left out of the list.
            let key = slot.and_then(|slot| PageKey::new(slot, access.page));
            entries.extend(key.map(|key| Entry::new(key, access.mark)));
        }
        self.stats.hinted += entries.len() as u64;
        if let Some(round) = self.round.as_mut().filter(|_| mode != HintMode::Append) {
            round.abandoned |= self.list.position() < round.end;
        }
        self.list.hint(mode, entries.into_iter(), done);
    }

    fn read(&mut self, request: RequestId, stream: StreamId, range: ByteSpan, out: &mut Commands) {
        let Some((slot, span)) = self.watched(stream, range) else {
            out.push(Command::Pass { request });
            return;
        };
        self.stats.reads += 1;
        let first = PageKey::new(slot, span.start);
        if span.len() == Pages(1) && first == self.last || self.looks.len() >= LOOKS_LIMIT {
            self.stats.hits += 1;
            out.push(Command::Pass { request });
            return;
        }
        let query = QueryId(self.next_query);
        self.next_query += 1;
        self.stats.queries += 1;
        self.looks.push(Look { query, request, slot, span });
        out.push(Command::Hint(HintCommand::AskResident {
            query,
            object: self.objects.id(slot),
            range: span,
        }));
    }

    /// The watched pages of a read that its object has.
    fn watched(&self, stream: StreamId, range: ByteSpan) -> Option<(Slot, PageSpan)> {
        let slot = self.objects.of_stream(stream)?;
        let object = self.objects.get(slot);
        let end = PageIndex(object.length?.pages_ceil().get());
        let watched = object.own.watched(range);
        let end = end.min(watched.start + READ_LIMIT);
        let span = watched.intersection(Span::new(PageIndex::ZERO, end));
        (!span.is_empty()).then_some((slot, span))
    }

    fn looked(&mut self, query: QueryId, runs: Option<&[PageSpan]>, out: &mut Commands) {
        let asked = self.looks.iter().position(|look| look.query == query);
        let Some(at) = self.checks.some(asked) else { return };
        let look = self.looks.swap_remove(at);
        if self.pipeline.is_sweeping() {
            if self.is_trusted() {
                return self.read_in_sweep(look, runs, out);
            }
            self.end_sweep();
        }
        match self.follow(look.slot, look.span, runs) {
            None => {
                self.stats.hits += 1;
                out.push(Command::Pass { request: look.request });
            }
            Some((page, miss)) => {
                self.stats.misses += 1;
                self.missed(look, page, miss, out);
            }
        }
    }

    /// Follows the pages of a read on the list; returns the gravest miss among them.
    fn follow(
        &mut self,
        slot: Slot,
        span: PageSpan,
        mut runs: Option<&[PageSpan]>,
    ) -> Option<(PageKey, Miss)> {
        let mut gravest: Option<(PageKey, Miss)> = None;
        for page in span.iter() {
            let Some(key) = PageKey::new(slot, page) else { break };
            while let Some([run, rest @ ..]) = runs
                && run.end <= page
            {
                runs = Some(rest);
            }
            // Without an answer from the cache, the engine's own account decides.
            let resident = match runs {
                Some(runs) => runs.first().is_some_and(|run| run.contains(page)),
                None => self.held.contains(key),
            };
            let before = self.list.position();
            let progress = self.list.read(key);
            let listed = matches!(progress, Progress::On(_));
            let met = self.held.met(key, resident, listed);
            self.last = Some(key);
            if met == Met::First {
                self.stats.used += Pages(1);
            }
            if resident {
                continue;
            }
            let miss = match (met, progress) {
                (Met::Gone, Progress::On(at)) => Miss::Evicted(at),
                (Met::Gone, _) => Miss::Evicted(before),
                (_, Progress::On(at)) => Miss::Listed(at),
                (_, Progress::Off) => Miss::Strayed,
                (_, Progress::Behind | Progress::Far) => Miss::Aside,
            };
            if gravest.is_none_or(|(_, worst)| worst.gravity() < miss.gravity()) {
                gravest = Some((key, miss));
            }
        }
        gravest
    }

    fn missed(&mut self, look: Look, page: PageKey, miss: Miss, out: &mut Commands) {
        let busy = self.work.is_some() || self.asked.is_some();
        match miss {
            Miss::Evicted(at) => {
                self.stats.evicted += Pages(1);
                let account = self.held.account();
                let contention = self.contention.is_contention(account.lost, account.wanted);
                if contention && !busy && self.round.take().is_some() {
                    self.shrink();
                    if self.trust.may_act() {
                        return self.begin(look, page, at, out);
                    }
                }
            }
            Miss::Listed(at) => {
                let answered = self.round.is_some_and(|round| at < round.end);
                if !busy && !answered && self.trust.may_act() {
                    self.judge(at);
                    return self.begin(look, page, at, out);
                }
            }
            Miss::Strayed => {
                self.stats.unlisted += 1;
                if !busy && self.trust.may_act() && self.patience.may_ask() {
                    return self.ask(look, page, None, out);
                }
            }
            Miss::Aside => {}
        }
        self.pass(look.request, Some(page), out);
    }

    /// The application has answered.
    fn answered(&mut self, request: RequestId, out: &mut Commands) {
        let asked = self.asked.take_if(|asked| asked.look.request == request);
        let Some(asked) = self.checks.some(asked) else {
            out.push(Command::Pass { request });
            return;
        };
        let gained = self.list.end() != asked.list.1;
        let replaced = self.list.position() != asked.list.0;
        let from = match asked.at.filter(|_| !replaced) {
            Some(at) => Some(at),
            None => self.find_again(asked),
        };
        self.patience.answered(gained && from.is_some());
        match from.or(replaced.then(|| self.list.position())) {
            Some(from) if self.pipeline.is_sweeping() && asked.at.is_some() => {
                self.sweep_from(asked.look, from, asked.missing, out);
            }
            Some(from) if self.work.is_none() => {
                self.judge(from);
                let walk = plan::walk(&self.list, &self.objects, from, self.round_size());
                self.begin_with(asked.look, asked.page, from, &walk, out);
            }
            _ if self.pipeline.is_sweeping() => self.sweep_on(request, out),
            _ => self.pass(request, Some(asked.page), out),
        }
    }

    fn done(&mut self, fetch: FetchId, epoch: Epoch, got: Pages, outcome: FetchOutcome) {
        let Some(run) = self.settled(fetch) else { return };
        // A completion of an older epoch is ignored: the change disowned those pages.
        let current = self.objects.get(run.slot).epoch == epoch;
        let got = if outcome == FetchOutcome::Failed { Pages::ZERO } else { got };
        if current && got < run.span.len() {
            self.stats.refused += 1;
            self.disown(run.slot, Span::new(run.span.start + got, run.span.end));
        }
    }

    fn refused(&mut self, fetch: FetchId, why: Refusal) {
        let Some(run) = self.settled(fetch) else { return };
        self.stats.refused += 1;
        self.disown(run.slot, run.span);
        if why != Refusal::Busy {
            self.objects.get_mut(run.slot).unfetchable = true;
            self.pipeline.replan();
        }
    }

    fn settled(&mut self, fetch: FetchId) -> Option<FetchRun> {
        let asked = self.under_way.iter().position(|(id, _)| *id == fetch);
        let at = self.checks.some(asked)?;
        self.under_way.remove(at).map(|(_, run)| run)
    }
}

impl Engine for AccessListEngine {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands) {
        let since = now.since(self.now);
        self.now = now;
        match event {
            Event::Opened { stream, object, length, .. } => {
                if let Some(slot) = self.intern(object) {
                    self.objects.open(stream, slot, length);
                }
            }
            Event::Closed { stream } => self.objects.close(stream),
            Event::Placed { object, extents } => {
                if let Some(slot) = self.intern(object) {
                    self.objects.get_mut(slot).set_extents(extents);
                }
            }
            Event::Hint(HintEvent::Watched { object, range }) => {
                if let Some(slot) = self.intern(object) {
                    self.objects.get_mut(slot).own.watch(range);
                }
            }
            Event::Hint(HintEvent::Unwatched { object, range }) => {
                if let Some(slot) = self.objects.find(object)
                    && self.objects.get_mut(slot).own.unwatch(range)
                {
                    // Its reads will not be seen, so that nothing is known about its pages.
                    self.disown(slot, Span::new(PageIndex::ZERO, PageIndex(u64::MAX)));
                }
            }
            Event::Read { request, stream, range, .. } => self.read(request, stream, range, out),
            Event::Hint(HintEvent::Hinted { mode, accesses, done }) => self.hinted(mode, accesses, done),
            Event::Hint(HintEvent::Answered { request }) => self.answered(request, out),
            Event::Hint(HintEvent::Resident { query, runs }) => self.looked(query, runs, out),
            Event::Done { fetch, epoch, got, outcome, .. } => {
                self.stats.fetching += since;
                self.done(fetch, epoch, got, outcome);
            }
            Event::Refused { fetch, why } => self.refused(fetch, why),
            Event::Changed { object, range, epoch } => {
                if let Some(slot) = self.objects.find(object) {
                    self.objects.get_mut(slot).epoch = epoch;
                    self.disown(slot, range.pages());
                }
            }
            Event::Resized { object, length } => {
                if let Some(slot) = self.objects.find(object) {
                    self.objects.get_mut(slot).length = Some(length);
                }
            }
            Event::Budget { pages } => {
                let cap = self.settings.memory.unwrap_or(pages);
                self.contention.set_maximum(pages.min(cap));
                self.note_buffer();
            }
            Event::Tick => {
                self.work_on(out);
                self.pump_on(out);
            }
            // Only read-ahead learns from this event.
            Event::Serving(_) => {}
        }
        self.stats.internal_errors = self.checks.internal_errors();
    }

    fn deadline(&self) -> Option<Instant> {
        (self.work.is_some() || self.pipeline.is_busy()).then_some(self.now)
    }
}
