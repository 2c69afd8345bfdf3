//! The endless pass of the pipelined mode: which pages the head fetches, and which are kept.
//!
//! A *round* fills the memory, and then waits until all of it was read: averaged over filling and reading, half
//! of the memory is empty. A *sweep* is one C-LOOK pass (ATC'09 section 3.1) without an end. The head cycles
//! over the pages of the list in disk order. A page that was read, and is not needed before the head returns to
//! it, is released at once. Its memory goes to pages ahead of the head, whose reads are further in the future
//! than a round could reach.
//!
//! Let the application make `reach` reads during one cycle of the head. Then two rules suffice, and no read
//! waits for more than the head's next step:
//!
//! - A page that the head reaches is *wanted* if its next read is less than `reach` reads away.
//! - A page that was read is *kept* if its next read comes before the head does: if it is less than `reach`,
//!   times the part of the cycle that the head has yet to go to it, away.
//!
//! A page at a part `a` of the cycle behind the head therefore holds reads up to `reach * (1 - a)` away. The
//! sweep takes as much memory as the mean, over the list's next `reach` entries, of the number of distinct
//! pages up to each entry. [`Sweep::plan`] walks the list until this mean is the memory, where a round's walk
//! stops when the number itself is. For random reads over a file of twice the memory that is 1.6 file lengths
//! instead of 0.7: 2.3 times as much of the list for one pass.
//!
//! During the first cycle the application waits. When the head returns, the application has read only as much
//! of `reach` as the head has done of the cycle, therefore only so much is wanted.
//!
//! The arithmetic assumes reads that are spread evenly. Others may need more memory than planned; then
//! [`Sweep::shorten`] releases the pages that are needed last, and the engine plans with less.
//!
//! Limit: the cycle of the head is measured in pages of the list, not in time. This is right where skipping a
//! page takes as long as reading it, or where skipped and read pages are spread evenly.

use crate::access_list::AccessList;
use crate::entry::ListIndex;
use crate::held::join;
use crate::objects::{Objects, PageKey, Slot};
use crate::order::DiskAddress;
use crate::plan::FetchRun;
use crate::settings::{FETCH_LIMIT, Order};
use foreseek_units::{PageSpan, Pages, Span};
use std::collections::VecDeque;

/// No entry, no page.
const NONE: u32 = u32::MAX;

/// A device may complete the requests in its queue in any order. The queue of a disk holds 32.
const OUT_OF_ORDER: u32 = 32;

/// A block device of today queues at most so many requests (`nr_requests` is 64 to 256 by default). Advice to
/// fetch more blocks until earlier requests have completed.
const QUEUE: u32 = 256;

/// The factor by which the reach shrinks where memory is short. It is close to one, as it takes a whole cycle
/// to look as far again.
const SHORTER: f64 = 15.0 / 16.0;

/// When memory is full, pages are released whose next read is so many times later than the return of the head,
/// then those with a smaller factor, until a part of the pages has been released.
const SLACKS: [f64; 6] = [8.0, 4.0, 2.0, 1.5, 1.2, 1.0];

/// That part.
const RELIEF: u64 = 16;

/// After a walk over all pages of the list that gained little, one part in so many of the list is read before another.
const STALE: usize = 128;

/// The largest part of the cycle that counts as in flight. 128 requests, which a stock block device accepts
/// before advice blocks, are about that part of a cycle in which some thousand pages are fetched.
const LAG: u64 = 16;

/// The next reads are wanted in any case: those of one large page of a database, and some more.
const NEAR: u64 = 64;

/// A reach beyond every list. It can be multiplied by any number of pages that a list has.
const BEYOND: u64 = 1 << 32;

/// A page of the list.
#[derive(Clone, Copy, Debug)]
struct Stop {
    page: PageKey,
    /// The next entry for it.
    next: u32,
    state: State,
}

/// In one word: the number of the fetch that read it, and whether it was read since. Zero: not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u32);

impl State {
    const ABSENT: Self = Self(0);
    const READ: u32 = 1 << 31;

    fn fetched(number: u32) -> Self {
        Self((number & !Self::READ).max(1))
    }

    fn is_held(self) -> bool {
        self != Self::ABSENT
    }

    fn is_read(self) -> bool {
        self.0 & Self::READ != 0
    }

    fn number(self) -> u32 {
        self.0 & !Self::READ
    }
}

/// An entry of the list: its page, and the next entry for the same.
#[derive(Clone, Copy, Debug)]
struct Step {
    stop: u32,
    next: u32,
}

/// The meaning of a read for the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// Its page is held and was read for the first time since it was fetched.
    First,
    /// Its page is held and was read before.
    Again,
    /// Its page was fetched and evicted.
    Gone,
    /// Its page was not fetched yet, or the sweep does not fetch it.
    Other,
}

/// The state of the pass.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The position of the first entry.
    base: ListIndex,
    steps: Vec<Step>,
    /// Every page of them that can be fetched, in disk order.
    stops: Vec<Stop>,
    /// The entry that is being read.
    here: usize,
    /// The next stop of the head.
    head: usize,
    /// How many entries ahead reads are wanted at present.
    reach: f64,
    /// The value that `reach` climbs to, and its growth with each stop.
    summit: u64,
    climb: f64,
    held: Pages,
    unread: Pages,
    /// Pages that are on the list and not held.
    lacking: usize,
    /// The entry from which on another search for pages to release may pay.
    relieved: usize,
    /// The number of fetches; the last fetch that a read has waited for; the last fetch up to which all have
    /// certainly completed.
    fetches: u32,
    arrived: u32,
    settled: u32,
    /// The fetch that the present read waits for, and the last one that is then certainly complete.
    awaited: (u32, u32),
    /// How many stops the head has passed since the beginning, and had passed at each fetch that may be in
    /// flight.
    passed: u64,
    issued: VecDeque<(u32, u64)>,
    /// Pages to release, with what was known of each: the fetch that read it (0: it was in memory before), and whether the application has
    /// read it.
    drops: Vec<(PageKey, State)>,
    /// How many of these there were when the last read returned.
    past: usize,
    /// Pages released unread for want of memory, since the last [`take_withdrawn`](Self::take_withdrawn).
    withdrawn: Pages,
}

/// The inputs of a plan.
pub(crate) struct Inputs<'a> {
    pub(crate) list: &'a AccessList,
    pub(crate) objects: &'a Objects,
    pub(crate) order: Order,
    /// The entry that is being read.
    pub(crate) from: ListIndex,
    /// The position of the head.
    pub(crate) head: Option<DiskAddress>,
    /// How much memory to use.
    pub(crate) memory: Pages,
}

impl Sweep {
    /// A new sweep, or `before` continued along a list that was extended or replaced. It releases the pages of
    /// `before` that it does not need.
    pub(crate) fn plan(inputs: &Inputs<'_>, before: Option<Self>) -> Self {
        let begins = before.is_none();
        let mut sweep = before.unwrap_or_else(Self::new);
        sweep.renumber();
        // A list is long, and its memory is taken from pages: it is not held twice.
        sweep.steps = Vec::new();
        let (steps, stops) = entries_and_pages(inputs);
        let old = std::mem::replace(&mut sweep.stops, stops);
        sweep.base = inputs.from;
        sweep.steps = steps;
        (sweep.here, sweep.relieved) = (0, 0);
        let mut summit = reach(&sweep.steps, &sweep.stops, inputs.list.is_complete(), inputs.memory);
        let address = |page| DiskAddress::of(inputs.objects, inputs.order, page);
        sweep.head =
            inputs.head.map_or(0, |head| sweep.stops.partition_point(|stop| address(stop.page) < head));
        sweep.head %= sweep.stops.len().max(1);
        sweep.take_over(&old, address);
        if begins {
            summit = sweep.first_cycle(summit, inputs.memory);
        }
        sweep.aim(summit);
        sweep
    }

    /// The reach at the end of the first cycle for which the wanted pages fit. Where reads are spread evenly
    /// that is the full reach.
    fn first_cycle(&self, summit: u64, memory: Pages) -> u64 {
        let all = self.stops.len() as f64;
        let (after, before) = self.stops.split_at(self.head);
        let fits = |summit: u64| {
            let within = |at: usize| (summit as f64 * at as f64 / all).max(NEAR as f64) as u64;
            let way = (0..).zip(before.iter().chain(after));
            Pages(way.filter(|(at, stop)| self.away(**stop) < within(*at)).count() as u64) <= memory
        };
        let (mut most, mut least) = (summit, 0);
        while !fits(most) && most - least > most / 16 {
            let half = least + (most - least) / 2;
            if fits(half) { least = half } else { most = half }
        }
        if fits(most) { most } else { least }
    }

    fn new() -> Self {
        Self {
            base: ListIndex::default(),
            steps: Vec::new(),
            stops: Vec::new(),
            here: 0,
            head: 0,
            reach: 0.0,
            summit: 0,
            climb: 0.0,
            held: Pages::ZERO,
            unread: Pages::ZERO,
            lacking: 0,
            relieved: 0,
            fetches: 0,
            arrived: 0,
            settled: 0,
            awaited: (0, 0),
            passed: 0,
            issued: VecDeque::new(),
            drops: Vec::new(),
            past: 0,
            withdrawn: Pages::ZERO,
        }
    }

    /// Restarts the count of fetches before it becomes too large for a [`State`].
    fn renumber(&mut self) {
        if self.fetches < State::READ / 2 {
            return;
        }
        for stop in self.stops.iter_mut().filter(|stop| stop.state.is_held()) {
            stop.state = State(stop.state.0 & State::READ | 1);
        }
        self.drops.iter_mut().for_each(|(_, state)| *state = State::ABSENT);
        (self.fetches, self.arrived, self.settled, self.awaited) = (1, 1, 0, (1, 0));
        self.issued.clear();
    }

    /// Sets the reach: a smaller one at once, a larger one step by step during one cycle.
    fn aim(&mut self, summit: u64) {
        let all = self.stops.len().max(1) as f64;
        let more = summit as f64 - self.reach;
        // A climb in progress keeps its end, unless that is less than half a cycle away.
        let left = if self.climb > 0.0 { (self.summit as f64 - self.reach) / self.climb } else { all };
        self.summit = summit;
        self.reach = self.reach.min(summit as f64);
        self.climb = if more > 0.0 { more / left.clamp(all / 2.0, all) } else { 0.0 };
    }

    /// Marks the stops that were held before; releases the other pages.
    fn take_over(&mut self, old: &[Stop], address: impl Fn(PageKey) -> DiskAddress) {
        (self.held, self.unread, self.lacking) = (Pages::ZERO, Pages::ZERO, self.stops.len());
        for stop in old.iter().filter(|stop| stop.state.is_held()) {
            match find(&self.stops, &address, stop.page) {
                Some(at) => self.take(at, stop.state),
                None => self.drops.push((stop.page, stop.state)),
            }
        }
    }

    /// Takes over pages that were in memory before the sweep: it holds or releases them.
    pub(crate) fn adopt(&mut self, pages: impl Iterator<Item = PageKey>) {
        let mut pages: Vec<PageKey> = pages.collect();
        pages.sort_unstable();
        let mut needed = vec![false; pages.len()];
        for at in 0..self.stops.len() {
            if let Ok(found) = pages.binary_search(&self.stops[at].page) {
                needed[found] = true;
                self.take(at, State::fetched(self.fetches));
            }
        }
        let rest = pages.into_iter().zip(needed).filter(|(_, needed)| !needed);
        self.drops.extend(rest.map(|(page, _)| (page, State::ABSENT)));
    }

    /// How much memory is taken, including by pages in flight.
    pub(crate) fn memory(&self) -> Pages {
        self.held + Pages(self.drops.len() as u64)
    }

    /// How much of that is to be kept.
    pub(crate) fn held(&self) -> Pages {
        self.held
    }

    /// Pages that were fetched and not read yet.
    pub(crate) fn unread(&self) -> Pages {
        self.unread
    }

    /// How many entries ahead it looks.
    pub(crate) fn reach(&self) -> u64 {
        self.summit
    }

    /// Pages on the list that were released unread, since the last call.
    pub(crate) fn take_withdrawn(&mut self) -> Pages {
        std::mem::take(&mut self.withdrawn)
    }

    /// How many entries it knows from the start of the plan.
    pub(crate) fn length(&self) -> usize {
        self.steps.len()
    }

    /// How many distinct pages of them can be fetched.
    pub(crate) fn pages(&self) -> usize {
        self.stops.len()
    }

    /// How many of them have been read.
    pub(crate) fn passed(&self) -> usize {
        self.here
    }

    /// How many fetches are likely to be in flight.
    pub(crate) fn under_way(&self) -> u32 {
        self.fetches.saturating_sub(self.arrived)
    }

    /// Whether it knows an entry.
    pub(crate) fn covers(&self, position: ListIndex) -> bool {
        position >= self.base && position.since(self.base) < self.steps.len()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let drops = self.drops.iter().map(|(page, _)| page.slot());
        self.stops.iter().map(|stop| stop.page.slot()).chain(drops)
    }

    /// The last read has returned: what it and the reads before it have read has arrived.
    pub(crate) fn returns(&mut self) {
        self.past = self.drops.len();
    }

    /// A read has reached this entry, and its page is in the page cache or not. The entries before it are over.
    pub(crate) fn read(&mut self, position: ListIndex, resident: bool) -> Met {
        // The last read has returned, therefore the fetch that it waited for has completed.
        self.arrived = self.arrived.max(self.awaited.0);
        self.settled = self.settled.max(self.awaited.1).max(self.fetches.saturating_sub(QUEUE));
        let arrived = self.arrived;
        while self.issued.front().is_some_and(|(fetch, _)| *fetch <= arrived) {
            self.issued.pop_front();
        }
        let at = position.since(self.base).min(self.steps.len());
        while self.here < at {
            let step = self.steps[self.here];
            self.here += 1;
            if step.stop != NONE {
                self.stops[step.stop as usize].next = step.next;
                if step.next == NONE {
                    self.end_with(step.stop as usize);
                }
            }
        }
        let Some(stop) = self.steps.get(at).and_then(|step| self.stops.get_mut(step.stop as usize)) else {
            return Met::Other;
        };
        let state = stop.state;
        if !state.is_held() {
            return Met::Other;
        }
        if !resident {
            self.lose(self.steps[at].stop as usize);
            return Met::Gone;
        }
        self.awaited = (state.number(), state.number().saturating_sub(OUT_OF_ORDER));
        if state.is_read() {
            return Met::Again;
        }
        stop.state = State(state.0 | State::READ);
        self.unread -= Pages(1);
        Met::First
    }

    /// The present read fetches its page itself; earlier requests complete before it does.
    pub(crate) fn passes(&mut self) {
        self.awaited = (self.fetches, self.fetches);
    }

    /// The stop of an entry, if its page is not held.
    pub(crate) fn missing(&self, position: ListIndex) -> Option<usize> {
        let step = self.steps.get(position.since(self.base))?;
        let stop = self.stops.get(step.stop as usize)?;
        (!stop.state.is_held()).then_some(step.stop as usize)
    }

    /// Whether a stop is not held.
    pub(crate) fn lacks(&self, stop: usize) -> bool {
        self.stops.get(stop).is_some_and(|stop| !stop.state.is_held())
    }

    /// Moves the head over at most `scan` pages of the list, up to the end of a contiguous run of wanted ones;
    /// `needed` is wanted in any case.
    pub(crate) fn advance(&mut self, limits: &Limits<'_>) -> Advance {
        let mut step = Advance { run: None, passed: 0, around: false };
        let scan = if self.lacking == 0 { 0 } else { limits.scan.min(self.stops.len()) };
        for _ in 0..scan {
            let at = self.head;
            let stop = self.stops[at];
            let wanted = !stop.state.is_held() && (limits.needed == Some(at) || self.wants(stop));
            let address = DiskAddress::of(limits.objects, limits.order, stop.page);
            match &mut step.run {
                Some(run) if wanted && limits.joins(run, stop.page, address) => {
                    run.span.end = run.span.end.next();
                    run.wanted += Pages(1);
                    run.end = address.after(Pages(1));
                }
                Some(_) => break,
                None if wanted => {
                    let (slot, span) = (stop.page.slot(), Span::at(stop.page.page(), Pages(1)));
                    step.run = Some(FetchRun { slot, span, wanted: Pages(1), end: address.after(Pages(1)) });
                    self.fetches += 1;
                }
                None => {}
            }
            if wanted {
                self.take(at, State::fetched(self.fetches));
            }
            self.reach = (self.reach + self.climb).min(self.summit as f64);
            step.passed += 1;
            self.passed += 1;
            self.head += 1;
            if self.head == self.stops.len() {
                self.head = 0;
                step.around = true;
                break;
            }
        }
        if step.run.is_some() {
            self.issued.push_back((self.fetches, self.passed));
            self.issued.drain(..self.issued.len().saturating_sub(QUEUE as usize));
        }
        step
    }

    /// A page of the list is held from now on.
    fn take(&mut self, at: usize, state: State) {
        self.stops[at].state = state;
        self.lacking -= usize::from(self.stops[at].next != NONE);
        self.held += Pages(1);
        self.unread += Pages(u64::from(!state.is_read()));
    }

    /// Whether the head is to fetch a page that is not held.
    fn wants(&self, stop: Stop) -> bool {
        let all = self.stops.len() as f64;
        let within = (self.reach * (1.0 + self.lag() as f64 / all)) as u64;
        self.away(stop) < within.max(NEAR)
    }

    /// How many entries lie between here and a page's next one; `u64::MAX` if there is none.
    fn away(&self, stop: Stop) -> u64 {
        match stop.next {
            NONE => u64::MAX,
            next => u64::from(next).saturating_sub(self.here as u64),
        }
    }

    /// How many times later than the return of the head the next read of a held page comes. It is kept below 1.
    fn lateness(&self, at: usize) -> f64 {
        let away = self.away(self.stops[at]);
        if away < NEAR {
            return 0.0;
        }
        let all = self.stops.len();
        let ahead = if at >= self.head { at - self.head } else { at + all - self.head };
        away as f64 * all as f64 / (self.reach * (ahead as u64 + 1 + self.lag()) as f64)
    }

    /// How many stops lie between the head and the pages that have arrived, as far as reads show. While a read
    /// waits for long they show nothing, therefore it is at most a part of the cycle.
    fn lag(&self) -> u64 {
        let lag = self.issued.front().map_or(0, |(_, passed)| self.passed - passed);
        lag.min(self.stops.len() as u64 / LAG)
    }

    /// Releases a page that is not kept.
    fn settle_one(&mut self, at: usize, slack: f64) {
        let state = self.stops[at].state;
        if state.is_held() && self.lateness(at) >= slack {
            let withdrawn = !state.is_read() && self.stops[at].next != NONE;
            self.withdrawn += Pages(u64::from(withdrawn));
            self.drops.push((self.stops[at].page, state));
            self.lose(at);
        }
    }

    /// The list has no further entry for a page. If the page was not read, the application may be elsewhere
    /// than it seems and may still read it. It is therefore released only when memory is needed.
    fn end_with(&mut self, at: usize) {
        let state = self.stops[at].state;
        if state.is_read() {
            self.settle_one(at, 1.0);
        } else if !state.is_held() {
            self.lacking -= 1;
        }
    }

    /// Does so for all pages. Most of the list is not held: such a page costs one check.
    fn settle(&mut self, slack: f64) {
        for at in 0..self.stops.len() {
            if self.stops[at].state.is_held() {
                self.settle_one(at, slack);
            }
        }
    }

    /// Memory is full: releases pages that need not be kept, those needed last first. Returns whether there
    /// were any. If the last search found few, it does not search again until more was read, unless `pressing`.
    pub(crate) fn relieve(&mut self, pressing: bool) -> bool {
        if self.here < self.relieved && !pressing {
            return false;
        }
        let (held, enough) = (self.held, self.held - self.held / RELIEF);
        let mut freed = [Pages::ZERO; SLACKS.len()];
        for at in (0..self.stops.len()).filter(|at| self.stops[*at].state.is_held()) {
            let lateness = self.lateness(at);
            let slack = SLACKS.iter().position(|slack| lateness >= *slack);
            slack.into_iter().for_each(|slack| freed[slack] += Pages(1));
        }
        let sum = |slack: usize| freed[..=slack].iter().copied().sum::<Pages>();
        let slack = (0..SLACKS.len()).find(|slack| held - sum(*slack) < enough);
        self.settle(SLACKS[slack.unwrap_or(SLACKS.len() - 1)]);
        if slack.is_none() {
            self.relieved = self.here + self.steps.len() / STALE;
        }
        self.held < held
    }

    /// A page is held no longer.
    fn lose(&mut self, at: usize) {
        let state = std::mem::replace(&mut self.stops[at].state, State::ABSENT);
        self.lacking += usize::from(state.is_held() && self.stops[at].next != NONE);
        self.held -= Pages(u64::from(state.is_held()));
        self.unread -= Pages(u64::from(state.is_held() && !state.is_read()));
    }

    /// Memory is short, though all held pages are kept ones: reduces the reach until that releases some.
    /// Returns whether it did.
    pub(crate) fn shorten(&mut self) -> bool {
        let before = self.held;
        while self.reach >= 1.0 && self.held == before {
            self.reach = self.reach.min(self.steps.len() as f64) * SHORTER;
            self.settle(1.0);
        }
        self.aim(self.reach as u64);
        self.held < before
    }

    /// Pages of this object do not count as prefetched: they changed, or were not fetched after all.
    pub(crate) fn disown(&mut self, slot: Slot, span: PageSpan) {
        for at in 0..self.stops.len() {
            let page = self.stops[at].page;
            if page.slot() == slot && span.contains(page.page()) {
                self.lose(at);
            }
        }
    }

    /// Takes out the pages to release, if they are at least `batch`. Pages in flight stay, as a kernel keeps
    /// them: those of the last fetches, unless the application has read them. Pages that were fetched again meanwhile are not released.
    pub(crate) fn drops(&mut self, batch: Pages, objects: &Objects, order: Order) -> Vec<(Slot, PageSpan)> {
        if Pages(self.drops.len() as u64) < batch {
            return Vec::new();
        }
        let settled = self.settled.max(self.fetches.saturating_sub(QUEUE));
        let address = |page: PageKey| DiskAddress::of(objects, order, page);
        let stops = &self.stops;
        let is_held = |page| find(stops, address, page).is_some_and(|at| stops[at].state.is_held());
        let mut given = Vec::new();
        let (mut seen, mut past) = (0, 0);
        self.drops.retain(|(page, state)| {
            let is_past = seen < self.past;
            let has_arrived = state.number() <= settled || is_past && state.is_read();
            seen += 1;
            past += usize::from(is_past && !has_arrived);
            if has_arrived && !is_held(*page) {
                given.push(one(*page));
            }
            !has_arrived
        });
        self.past = past;
        join(given)
    }

    /// Every page that it holds, at its end.
    pub(crate) fn into_pages(self) -> impl Iterator<Item = PageKey> {
        let held = self.stops.into_iter().filter(|stop| stop.state.is_held()).map(|stop| stop.page);
        held.chain(self.drops.into_iter().map(|(page, _)| page))
    }
}

/// A page as a span.
fn one(page: PageKey) -> (Slot, PageSpan) {
    (page.slot(), Span::at(page.page(), Pages(1)))
}

/// How the head may move.
pub(crate) struct Limits<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) order: Order,
    /// The longest run.
    pub(crate) most: Pages,
    /// How many pages of the list it may pass.
    pub(crate) scan: usize,
    /// The page that a read waits for.
    pub(crate) needed: Option<usize>,
}

impl Limits<'_> {
    /// Whether a page lies right behind a run and there is room for it.
    fn joins(&self, run: &FetchRun, page: PageKey, address: DiskAddress) -> bool {
        page.slot() == run.slot
            && page.page() == run.span.end
            && address == run.end
            && run.span.len() < FETCH_LIMIT.min(self.most)
    }
}

/// The result of a move of the head.
pub(crate) struct Advance {
    /// The run to fetch.
    pub(crate) run: Option<FetchRun>,
    /// How many pages of the list it has passed.
    pub(crate) passed: usize,
    /// The head has reached the end of its cycle.
    pub(crate) around: bool,
}

/// An entry for sorting: its page's address, in halves so that it takes 12 bytes and not 16, and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    address: [u32; 2],
    entry: u32,
}

/// The list as entries, each with the next one for the same page, and the pages in disk order.
fn entries_and_pages(inputs: &Inputs<'_>) -> (Vec<Step>, Vec<Stop>) {
    let length = inputs.list.end().since(inputs.from);
    let mut steps = Vec::with_capacity(length);
    let mut reads: Vec<Placed> = Vec::with_capacity(length);
    for (entry, (_, page)) in (0..NONE).zip(inputs.list.from(inputs.from)) {
        steps.push(Step { stop: NONE, next: NONE });
        if inputs.objects.get(page.slot()).can_fetch(page.page()) {
            reads.push(Placed {
                address: DiskAddress::of(inputs.objects, inputs.order, page).halves(),
                entry,
            });
        }
    }
    reads.sort_unstable();
    let page = |read: &Placed| inputs.list.page(inputs.from.plus(read.entry as usize));
    let mut stops = Vec::with_capacity(reads.chunk_by(|a, b| a.address == b.address).count());
    for together in reads.chunk_by_mut(|a, b| a.address == b.address) {
        // Files may share blocks, and addresses of two devices may be the same.
        if together.iter().any(|read| page(read) != page(&together[0])) {
            together.sort_unstable_by_key(|read| (page(read), read.entry));
        }
        for reads in together.chunk_by(|a, b| page(a) == page(b)) {
            for (at, read) in reads.iter().enumerate() {
                let next = reads.get(at + 1).map_or(NONE, |next| next.entry);
                steps[read.entry as usize] = Step { stop: stops.len() as u32, next };
            }
            stops.extend(page(&reads[0]).map(|page| Stop {
                page,
                next: reads[0].entry,
                state: State::ABSENT,
            }));
        }
    }
    (steps, stops)
}

/// The index of a page among stops in disk order.
fn find(stops: &[Stop], address: impl Fn(PageKey) -> DiskAddress, page: PageKey) -> Option<usize> {
    let here = address(page);
    let from = stops.partition_point(|stop| address(stop.page) < here);
    let same = stops[from..].iter().take_while(|stop| address(stop.page) == here);
    same.into_iter().position(|stop| stop.page == page).map(|at| from + at)
}

/// The number of entries over which the mean number of distinct pages from the first on is `memory`.
fn reach(steps: &[Step], stops: &[Stop], complete: bool, memory: Pages) -> u64 {
    let (mut distinct, mut sum) = (0, 0);
    for (at, step) in (0..).zip(steps) {
        distinct += u64::from(stops.get(step.stop as usize).is_some_and(|stop| u64::from(stop.next) == at));
        sum += distinct;
        if distinct > memory.get() && sum >= memory.get() * (at + 1) {
            return at + 1;
        }
    }
    let known = steps.len() as u64;
    if !complete {
        return known;
    }
    // The list ends here: as if all of it were read again and again.
    let missing = (memory.get() * known).saturating_sub(sum);
    distinct
        .checked_sub(memory.get())
        .and_then(|more| missing.checked_div(more))
        .map_or(BEYOND, |more| (known + more).min(BEYOND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use foreseek_seam::{Extent, HintMode, ObjectId};
    use foreseek_units::{Bytes, Lba, PageIndex};
    use proptest::prelude::*;

    /// Two files of 1000 pages; the second shares its first 100 blocks with the end of the first.
    struct Files {
        objects: Objects,
        slots: [Slot; 2],
    }

    impl Files {
        fn new() -> Self {
            let mut objects = Objects::new();
            let slots = [1, 2].map(|id| objects.intern(ObjectId(id)).expect("room"));
            for (slot, lba) in slots.into_iter().zip([8000, 8000 + 900 * 8]) {
                objects.get_mut(slot).set_extents(&[Extent {
                    page: PageIndex(0),
                    pages: Pages(1000),
                    lba: Lba(lba),
                }]);
                objects.get_mut(slot).length = Some(Bytes::mib(4));
            }
            Self { objects, slots }
        }

        fn page(&self, page: u64) -> PageKey {
            PageKey::new(self.slots[(page / 1000) as usize % 2], PageIndex(page % 1000)).expect("small")
        }

        fn list(&self, pages: &[u64], complete: bool) -> AccessList {
            let mut list = AccessList::new(1 << 20);
            let entries = pages.iter().map(|page| Entry::new(self.page(*page), false));
            list.hint(HintMode::Set, entries, complete);
            list
        }

        fn plan(&self, list: &AccessList, from: ListIndex, memory: u64, before: Option<Sweep>) -> Sweep {
            let (objects, order, head) = (&self.objects, Order::Disk, None);
            Sweep::plan(&Inputs { list, objects, order, from, head, memory: Pages(memory) }, before)
        }

        fn limits(&self, most: Pages, needed: Option<usize>) -> Limits<'_> {
            Limits { objects: &self.objects, order: Order::Disk, most, scan: usize::MAX, needed }
        }
    }

    /// Recomputes the counts of the sweep and compares them.
    fn check(sweep: &Sweep) {
        let held: Vec<&Stop> = sweep.stops.iter().filter(|stop| stop.state.is_held()).collect();
        assert_eq!(sweep.held, Pages(held.len() as u64));
        assert_eq!(sweep.unread, Pages(held.iter().filter(|stop| !stop.state.is_read()).count() as u64));
        let lacking = sweep.stops.iter().filter(|stop| !stop.state.is_held() && stop.next != NONE);
        assert_eq!(sweep.lacking, lacking.count());
        let next =
            |at: usize| (sweep.here..sweep.steps.len()).find(|step| sweep.steps[*step].stop as usize == at);
        for (at, stop) in sweep.stops.iter().enumerate() {
            assert_eq!(next(at).map_or(NONE, |next| next as u32), stop.next);
        }
    }

    #[test]
    fn the_reach_ends_where_the_mean_of_distinct_pages_is_the_memory() {
        let files = Files::new();
        let reach = |pages: &[u64], complete, memory| {
            let sweep = files.plan(&files.list(pages, complete), ListIndex(0), memory, None);
            super::reach(&sweep.steps, &sweep.stops, complete, Pages(memory))
        };
        // No page twice: the mean of 1 to n is (n + 1) / 2.
        let once: Vec<u64> = (0..1000).map(|n| n * 7 % 1000).collect();
        assert_eq!(reach(&once, true, 100), 199);
        // 50 pages again and again: all of it fits, however long the list is.
        let again: Vec<u64> = (0..1000).map(|n| n % 50).collect();
        assert_eq!(reach(&again, true, 60), BEYOND);
        // A list that is not complete is known only up to its end.
        assert_eq!(reach(&again, false, 60), 1000);
        assert_eq!(reach(&[], true, 10), BEYOND);
    }

    #[test]
    fn the_first_cycle_fills_the_memory_and_no_more() {
        let files = Files::new();
        let orders: [fn(u64) -> u64; 2] = [|n| n * 7919 % 1000, |n| 999 - n];
        for order in orders {
            let list: Vec<u64> = (0..1000).map(order).collect();
            let mut sweep = files.plan(&files.list(&list, true), ListIndex(0), 100, None);
            while !sweep.advance(&files.limits(Pages(1000), None)).around {}
            check(&sweep);
            assert!((75..=110).contains(&sweep.held.get()), "{:?}", sweep.held);
        }
    }

    #[test]
    fn a_page_is_released_once_it_was_read_and_is_not_listed_again() {
        let files = Files::new();
        let list = files.list(&[5, 6, 5, 7], true);
        let mut sweep = files.plan(&list, ListIndex(0), 100, None);
        while sweep.advance(&files.limits(Pages(100), None)).run.is_some() {}
        assert_eq!(sweep.held, Pages(3));
        assert_eq!(
            [0, 1, 2, 3].map(|at| sweep.read(ListIndex(at), true)),
            [Met::First, Met::First, Met::Again, Met::First]
        );
        sweep.passes();
        sweep.read(ListIndex(4), true);
        check(&sweep);
        let given = sweep.drops(Pages(1), &files.objects, Order::Disk);
        assert_eq!(given, [(files.slots[0], Span::new(PageIndex(5), PageIndex(8)))]);
        assert_eq!(sweep.memory(), Pages::ZERO);
    }

    #[test]
    fn a_page_that_was_read_is_released_though_its_fetch_is_among_the_last() {
        let files = Files::new();
        let mut sweep = files.plan(&files.list(&[5, 6, 7], true), ListIndex(0), 100, None);
        while sweep.advance(&files.limits(Pages(100), None)).run.is_some() {}
        sweep.read(ListIndex(0), true);
        sweep.read(ListIndex(1), true);
        // The first page is over, and the read of both has not returned.
        assert_eq!(sweep.drops(Pages(1), &files.objects, Order::Disk), []);
        sweep.returns();
        sweep.read(ListIndex(2), true);
        let given = sweep.drops(Pages(1), &files.objects, Order::Disk);
        assert_eq!(given, [(files.slots[0], Span::at(PageIndex(5), Pages(1)))]);
        check(&sweep);
    }

    #[test]
    fn a_page_that_was_fetched_again_is_not_released() {
        let files = Files::new();
        let mut sweep = files.plan(&files.list(&[5, 6], true), ListIndex(0), 100, None);
        sweep.drops.push((files.page(5), State::ABSENT));
        sweep.drops.push((files.page(9), State::ABSENT));
        sweep.advance(&files.limits(Pages(100), Some(0)));
        let given = sweep.drops(Pages(1), &files.objects, Order::Disk);
        assert_eq!(given, [(files.slots[0], Span::at(PageIndex(9), Pages(1)))]);
    }

    proptest! {
        #[test]
        fn its_counts_are_right_after_any_operations(
            pages in proptest::collection::vec(0..2000u64, 1..200),
            ops in proptest::collection::vec((0..8u8, 0..2000u64), 0..80),
            memory in 1..100u64,
        ) {
            let files = Files::new();
            let list = files.list(&pages, true);
            let mut sweep = files.plan(&list, ListIndex(0), memory, None);
            sweep.adopt([3, 1003, 1999].map(|page| files.page(page)).into_iter());
            let mut place = 0;
            for (op, number) in ops {
                match op {
                    0 | 1 => drop(sweep.advance(&files.limits(Pages(number % 9 + 1), None))),
                    2 => {
                        let needed = (number as usize) % sweep.stops.len();
                        sweep.advance(&files.limits(Pages(5), Some(needed)));
                    }
                    3 | 4 => {
                        place = (place + number % 7).min(pages.len() as u64 - 1);
                        let at = ListIndex(sweep.base.0.max(place));
                        sweep.read(at, number % 11 != 0);
                    }
                    5 => drop(sweep.relieve(true)),
                    6 => drop(sweep.drops(Pages(1), &files.objects, Order::Disk)),
                    _ if number % 3 == 0 => drop(sweep.shorten()),
                    _ if number % 3 == 1 => {
                        sweep.disown(files.slots[0], Span::new(PageIndex(number), PageIndex(number + 50)));
                    }
                    _ => sweep = files.plan(&list, ListIndex(sweep.base.0.max(place)), memory, Some(sweep)),
                }
                check(&sweep);
            }
        }
    }
}
