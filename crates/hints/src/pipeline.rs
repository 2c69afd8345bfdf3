//! The pipelined mode of the access-list engine: fetching goes on while the application reads.
//!
//! For a list that is longer than a buffer, and that is trusted with a whole one, a [`Sweep`] replaces the
//! rounds, unless a round needs few long runs for many accesses ([`Walk::joins`]). At each read of a watched
//! page the engine:
//!
//! 1. advances its position on the list,
//! 2. releases in batches the pages that are not needed any more,
//! 3. requests the next few runs of the sweep, so that the device always has work ([`LEAD`]).
//!
//! It needs no thread for that. A read of a page that the head has not reached waits until all pages up to it
//! have been requested. Advice blocks when the device's queue is full, which slows the application down to the
//! device's pace. During one read the head passes each page at most once: since nothing is read meanwhile, a
//! second pass would only fetch again pages that memory had no room for.
//!
//! The engine asks for more of the list when less than the reach is left of it, so that the head always knows
//! the reads of a whole pass. Contention and trust work as in rounds. They are judged when half a buffer was
//! read, and when the head has come around.

use crate::access_list::Progress;
use crate::entry::ListIndex;
use crate::objects::PageKey;
use crate::plan::{self, Walk};
use crate::settings::Mode;
use crate::state::{AccessListEngine, Ledger, Look, Waiting};
use crate::sweep::{Inputs, Limits, Met, Sweep};
use crate::trust::Verdict;
use foreseek_seam::{Command, Commands, HintCommand, HintMode, RequestId};
use foreseek_units::{PageSpan, Pages};

/// Fetches that are kept in flight while no read waits: twice the queue of a disk, and half of the 128 tags of
/// a stock block device, above which advice would block the application.
const LEAD: u32 = 64;

/// A buffer that the lead alone could fill is used for rounds.
const SMALLEST: Pages = Pages(LEAD as u64);

/// Pages of the list that the head passes at one read, at most, to keep its lead. A read costs some
/// microseconds; to look at so many pages costs about one.
const SCAN: usize = 256;

/// Pages that are released together: DONTNEED is cheaper in batches (ATC'09 section 4.5).
const BATCH: Pages = Pages(64);

/// The part of the buffer for which a sweep is planned: the factor after it was too large, the growth with each
/// other pass, and the smallest part.
const FIT_CUT: f64 = 0.97;
const FIT_GROWTH: f64 = 0.01;
const FIT_FLOOR: f64 = 0.5;

/// One part in so many of the list must have been read before the engine asks for more of it, or plans again.
const PART: usize = 16;

/// What one read has met.
#[derive(Clone, Copy, Debug, Default)]
struct Meeting {
    /// The last entry that it reached, and its page.
    at: Option<(ListIndex, PageKey)>,
    /// A page was missing.
    missed: bool,
    /// The entry of a page that the sweep has yet to fetch.
    needed: Option<ListIndex>,
    /// A missing page that is not on the list.
    strayed: Option<PageKey>,
    lost: Pages,
}

impl AccessListEngine {
    /// Whether a sweep is to begin, or to continue with another list: the list is longer than a buffer, is
    /// trusted with one, and does not [join](Walk::joins).
    pub(crate) fn may_sweep(&self, walk: &Walk) -> bool {
        let calm = !self.pipeline.shaken && self.contention.buffer() > SMALLEST;
        self.settings.mode == Mode::Pipelined && calm && !walk.ended && self.is_trusted() && !walk.joins()
    }

    /// Begins a round at an entry. If the list is shorter than a buffer, it asks the application first.
    pub(crate) fn begin(&mut self, look: Look, page: PageKey, at: ListIndex, out: &mut Commands) {
        let walk = plan::walk(&self.list, &self.objects, at, self.round_size());
        let more = !self.list.is_complete() && self.list.room(HintMode::Append) > 0;
        if walk.ended && more && self.patience.may_ask() {
            return self.ask(look, page, Some(at), out);
        }
        self.begin_with(look, page, at, &walk, out);
    }

    pub(crate) fn begin_with(
        &mut self,
        look: Look,
        page: PageKey,
        from: ListIndex,
        walk: &Walk,
        out: &mut Commands,
    ) {
        if self.may_sweep(walk) {
            return self.sweep_from(look, from, true, out);
        }
        self.end_sweep();
        self.fetch_all(look, page, walk, out);
    }

    /// Whether the list is trusted with a whole buffer.
    pub(crate) fn is_trusted(&self) -> bool {
        let buffer = self.contention.buffer();
        self.trust.limit(buffer) == buffer
    }

    /// Begins or continues a sweep at the entry of a waiting read. `missing`: its page is not in memory.
    pub(crate) fn sweep_from(&mut self, look: Look, from: ListIndex, missing: bool, out: &mut Commands) {
        if !self.pipeline.is_sweeping() {
            self.round = None;
            self.stats.rounds += 1;
            self.pipeline.ledger = Ledger::default();
        }
        self.plan_sweep(from);
        let needed = self.pipeline.sweep.as_ref().filter(|_| missing).and_then(|sweep| sweep.missing(from));
        self.go_on(look.request, needed, out);
    }

    fn plan_sweep(&mut self, from: ListIndex) {
        let before = self.pipeline.sweep.take();
        let begins = before.is_none();
        let inputs = Inputs {
            list: &self.list,
            objects: &self.objects,
            order: self.settings.order,
            from,
            head: self.head,
            memory: self.contention.buffer().scale(self.pipeline.fit),
        };
        let mut sweep = Sweep::plan(&inputs, before);
        if begins {
            sweep.adopt(self.held.clear());
        }
        self.pipeline.sweep = Some(sweep);
        self.pipeline.stale = false;
        if let Some(waiting) = &mut self.pipeline.waiting {
            // It named a page by its index in the old plan.
            waiting.needed = None;
        }
        self.note_buffer();
    }

    /// Returns to rounds. Pages of the sweep are kept until a round needs their memory.
    pub(crate) fn end_sweep(&mut self) {
        if let Some(sweep) = self.pipeline.sweep.take() {
            self.held.take_over(sweep.into_pages());
            self.note_buffer();
        }
    }

    /// Continues with a read that waited for an answer which did not help.
    pub(crate) fn sweep_on(&mut self, request: RequestId, out: &mut Commands) {
        self.go_on(request, None, out);
    }

    fn go_on(&mut self, request: RequestId, needed: Option<usize>, out: &mut Commands) {
        let distance = self.pipeline.sweep.as_ref().map_or(0, Sweep::pages);
        self.pump(Waiting { request, needed, distance }, out);
    }

    /// Gives further commands.
    pub(crate) fn pump_on(&mut self, out: &mut Commands) {
        if let Some(waiting) = self.pipeline.waiting.take() {
            self.pump(waiting, out);
        }
    }

    /// A read during a sweep, whose pages in memory are known.
    pub(crate) fn read_in_sweep(&mut self, look: Look, runs: Option<&[PageSpan]>, out: &mut Commands) {
        let met = self.meet(look, runs);
        match met.missed {
            false => self.stats.hits += 1,
            true => self.stats.misses += 1,
        }
        if self.pipeline.is_busy() || self.asked.is_some() {
            return out.push(Command::Pass { request: look.request });
        }
        if self.size(met.lost) {
            return self.fall_back_to_rounds(look, met, out);
        }
        if let Some(page) = met.strayed {
            self.stats.unlisted += 1;
            if self.trust.may_act() && self.patience.may_ask() {
                if let Some(mut sweep) = self.pipeline.sweep.take() {
                    self.judge_sweep(&mut sweep, false);
                    self.pipeline.sweep = Some(sweep);
                }
                return self.ask(look, page, None, out);
            }
        }
        if let Some((at, page)) = met.at
            && self.is_running_short()
        {
            return self.ask_on(look, page, at, met.needed == Some(at), out);
        }
        if let Some((at, _)) = met.at.filter(|_| self.pipeline.stale) {
            self.plan_sweep(at);
        }
        let needed = met.needed.and_then(|at| self.pipeline.sweep.as_ref()?.missing(at));
        self.go_on(look.request, needed, out);
    }

    /// Pages of the sweep were evicted, and it is not known which others. Rounds need their pages for a shorter
    /// time, and fetch again all that may be missing.
    fn fall_back_to_rounds(&mut self, look: Look, met: Meeting, out: &mut Commands) {
        self.end_sweep();
        self.doubtful = true;
        self.pipeline.shaken = true;
        match met.at {
            Some((at, page)) if self.trust.may_act() => self.begin(look, page, at, out),
            _ => self.pass(look.request, None, out),
        }
    }

    /// Follows the pages of a read on the list.
    fn meet(&mut self, look: Look, mut runs: Option<&[PageSpan]>) -> Meeting {
        let mut met = Meeting::default();
        if let Some(sweep) = &mut self.pipeline.sweep {
            sweep.returns();
        }
        for page in look.span.iter() {
            let Some(key) = PageKey::new(look.slot, page) else { break };
            while let Some([run, rest @ ..]) = runs
                && run.end <= page
            {
                runs = Some(rest);
            }
            let known = runs.map(|runs| runs.first().is_some_and(|run| run.contains(page)));
            let progress = self.list.read(key);
            self.last = Some(key);
            let Progress::On(at) = progress else {
                if known == Some(false) {
                    met.missed = true;
                    met.strayed = met.strayed.or(Some(key).filter(|_| progress == Progress::Off));
                }
                continue;
            };
            if self.pipeline.sweep.as_ref().is_none_or(|sweep| !sweep.covers(at)) {
                self.plan_sweep(at);
            }
            // The sweep did not fetch a page that it does not know.
            let Some(sweep) = self.checks.some(self.pipeline.sweep.as_mut()) else { continue };
            let kind = sweep.read(at, known.unwrap_or(true));
            met.at = Some((at, key));
            match kind {
                Met::First => {
                    self.stats.used += Pages(1);
                    self.pipeline.ledger.used += Pages(1);
                    self.pipeline.ledger.read += Pages(1);
                }
                Met::Again => {}
                Met::Gone => {
                    met.lost += Pages(1);
                    met.missed = true;
                }
                // Without an answer from the cache, the engine's own account decides.
                Met::Other if known != Some(true) => {
                    met.needed = met.needed.or(Some(at));
                    met.missed = true;
                }
                Met::Other => {}
            }
        }
        met
    }

    /// Sizes the buffer by the pages read and evicted. Returns whether there is contention.
    fn size(&mut self, lost: Pages) -> bool {
        self.stats.evicted += lost;
        let ledger = &mut self.pipeline.ledger;
        ledger.lost += lost;
        let buffer = self.contention.buffer();
        let contention = !lost.is_zero() && self.contention.is_contention(ledger.lost, buffer);
        if contention {
            self.contention.evicted();
        } else if ledger.read >= buffer / 2 {
            self.contention.consumed(ledger.read, ledger.lost, ledger.read + ledger.lost);
        } else {
            return false;
        }
        (ledger.read, ledger.lost) = (Pages::ZERO, Pages::ZERO);
        self.note_buffer();
        self.pipeline.stale |= self.contention.buffer() != buffer;
        contention
    }

    /// Whether to ask for more of the list.
    fn is_running_short(&mut self) -> bool {
        let Some(sweep) = &self.pipeline.sweep else { return false };
        let left = self.list.end().since(self.list.position()) as u64;
        let more = !self.list.is_complete() && self.list.room(HintMode::Set) > 0;
        // Not at every read, for an application that never has enough.
        let due = sweep.passed() >= sweep.length() / PART;
        more && due && left < sweep.reach() && self.patience.may_ask()
    }

    /// Judges the list: the pages fetched for it against those read.
    fn judge_sweep(&mut self, sweep: &mut Sweep, consumed: bool) {
        let ledger = &mut self.pipeline.ledger;
        // Pages that are still wanted and unread are not wasted, nor are those that memory had no room for.
        ledger.fetched -= sweep.take_withdrawn();
        let unread = sweep.unread().min(ledger.fetched);
        let buffer = self.contention.buffer();
        if self.trust.judge(ledger.fetched - unread, ledger.used, consumed, buffer) == Verdict::Wasted {
            self.stats.wasted_rounds += 1;
        }
        (ledger.fetched, ledger.used) = (unread, Pages::ZERO);
    }

    /// Requests the next runs of the sweep until the page of the waiting read is among them and the device has
    /// its lead, or the memory is full, or the head has come around.
    fn pump(&mut self, mut waiting: Waiting, out: &mut Commands) {
        self.pipeline.waiting = None;
        while let Some(mut sweep) = self.pipeline.sweep.take() {
            let room = self.release_ready(&mut sweep, out);
            waiting.needed = waiting.needed.filter(|stop| sweep.lacks(*stop));
            let due = waiting.distance > 0 && (waiting.needed.is_some() || sweep.under_way() < LEAD);
            let goes_on = room && due && self.step(&mut sweep, &mut waiting, out);
            self.pipeline.sweep = Some(sweep);
            if !room {
                self.pipeline.waiting = Some(waiting);
                return;
            }
            if !goes_on {
                break;
            }
        }
        if let (Some(_), Some(sweep)) = (waiting.needed, &mut self.pipeline.sweep) {
            sweep.passes();
        }
        out.push(Command::Pass { request: waiting.request });
    }

    /// Releases the pages that are ready. Returns whether there is room for a fetch and the read as well.
    fn release_ready(&mut self, sweep: &mut Sweep, out: &mut Commands) -> bool {
        let buffer = self.contention.buffer();
        let batch = if sweep.memory() < buffer { BATCH.min(buffer / 16) } else { Pages(1) };
        if self.pipeline.forget.is_empty() {
            self.pipeline.forget.extend(sweep.drops(batch, &self.objects, self.settings.order));
        }
        while out.room() > 2
            && let Some((slot, range)) = self.pipeline.forget.pop_front()
        {
            self.stats.forgotten += range.len();
            out.push(Command::Hint(HintCommand::Forget { object: self.objects.id(slot), range }));
        }
        out.room() > 2
    }

    /// One move of the head. Returns whether another may follow.
    fn step(&mut self, sweep: &mut Sweep, waiting: &mut Waiting, out: &mut Commands) -> bool {
        let needed = waiting.needed;
        let most = self.contention.buffer() - sweep.memory();
        if most.is_zero() {
            if sweep.relieve(needed.is_some()) {
                return true;
            }
            // Pages that are released while in flight leave no room yet.
            if needed.is_none() || sweep.memory() > sweep.held() {
                return false;
            }
            self.pipeline.short = true;
            self.pipeline.fit = (self.pipeline.fit * FIT_CUT).max(FIT_FLOOR);
            return sweep.shorten();
        }
        let limits = Limits {
            objects: &self.objects,
            order: self.settings.order,
            most,
            scan: waiting.distance.min(if needed.is_some() { usize::MAX } else { SCAN }),
            needed,
        };
        let advance = sweep.advance(&limits);
        waiting.distance -= advance.passed;
        if advance.around {
            self.come_around(sweep);
        }
        let Some(run) = advance.run else { return needed.is_some() && advance.around };
        self.pipeline.ledger.fetched += run.wanted;
        self.pipeline.moved = true;
        self.fetch(run, out);
        true
    }

    /// The head has reached the end and restarts at the lowest page.
    fn come_around(&mut self, sweep: &mut Sweep) {
        if !std::mem::take(&mut self.pipeline.moved) {
            return;
        }
        self.stats.rounds += 1;
        if !std::mem::take(&mut self.pipeline.short) {
            self.pipeline.fit = (self.pipeline.fit + FIT_GROWTH).min(1.0);
        }
        self.judge_sweep(sweep, true);
        // The plan rests on reads that have been made by now.
        self.pipeline.stale |= sweep.passed() >= sweep.length() / PART;
    }
}
