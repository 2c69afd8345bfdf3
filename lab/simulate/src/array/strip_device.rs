//! A driver with a strip cache, above an array: a device around a device.
//!
//! It carries out what [`StripEngine`] commands. A read that the cache answers costs the driver's processor
//! time, one read after the other. All others take in addition as long as the array below needs.
//!
//! Writes go through: they are acknowledged when the array has them, and the cache drops what they changed.
//! With a [write cache](StripDevice::with_write_cache) they are acknowledged at once and go to the array stripe
//! by stripe; reads of data in it are answered from there. A flush does not destage: such a cache counts as
//! non-volatile, like one with a battery.
//!
//! Limits: the processor time is the driver's own, not that of a processor of the machine above. It delays
//! answers and does not count as processor use there. A read of a part of a page reads the page.

use super::write_cache::{Destage, WriteCache};
use foreseek_device::{Counters, Device, Finished, Full, Io, IoId, Op, Outcome, Submitter};
use foreseek_seam::{FetchId, RequestId};
use foreseek_strips::{self as strips, Command, Commands, Event, Stats, StripEngine};
use foreseek_strips::{Geometry, StripeNo};
use foreseek_units::{
    Instant, Lba, Nanos, PageIndex, PageSpan, Pages, SECTORS_PER_PAGE, SectorSpan, Sectors,
};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// How many requests it takes at a time: as many as reads may wait in the engine.
pub const REQUESTS_LIMIT: usize = strips::WAITING_LIMIT;

/// A request of the host.
#[derive(Clone, Copy, Debug)]
struct Request {
    io: Io,
    submitter: Submitter,
}

/// What a request to the array below is for.
#[derive(Clone, Copy, Debug)]
enum Below {
    /// Blocks of a strip, for the cache.
    Fetch(FetchId, Pages),
    /// A request of the host, as it is.
    Own(usize),
    /// Dirty blocks of a stripe.
    Destage(StripeNo),
}

/// A request to the array below.
#[derive(Clone, Copy, Debug)]
struct Sent {
    what: Below,
    pages: PageSpan,
    /// Whether it may involve several members.
    wide: bool,
    begun: Instant,
}

/// The statistics of a [`StripDevice`]'s cache, readable from outside.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Stats>>);

impl Seen {
    /// The statistics up to now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver.
pub struct StripDevice {
    engine: StripEngine,
    below: Box<dyn Device>,
    /// Processor time of a request, and of a page.
    costs: (Nanos, Nanos),
    now: Instant,
    processor_free: Instant,
    requests: Slab<Request>,
    /// Requests below, and those for which it has no room yet.
    sent: Slab<Sent>,
    unsent: VecDeque<(Io, Submitter)>,
    /// Answers by the time at which they leave, in order.
    leaving: BTreeMap<(Instant, u64), (usize, Outcome)>,
    answers: u64,
    /// Blocks that occupy memory.
    held: Pages,
    writes: Option<WriteCache>,
    /// Writes that wait for room there, with their blocks that have none yet.
    writers: VecDeque<(usize, PageSpan)>,
    /// Stripes on their way to the array: how many of their requests are still below, and their blocks.
    destaging: BTreeMap<StripeNo, (usize, Vec<PageSpan>)>,
    commands: Commands,
    finished: Vec<Finished>,
    counters: Counters,
    seen: Seen,
    #[cfg(test)]
    pub(super) audit: super::tests::Audit,
}

impl StripDevice {
    /// An empty cache above an idle array. `costs`: processor time of a request that the cache answers, and of
    /// each of its pages.
    #[must_use]
    pub fn new(engine: StripEngine, below: Box<dyn Device>, costs: (Nanos, Nanos)) -> Self {
        Self {
            engine,
            below,
            costs,
            now: Instant::ZERO,
            processor_free: Instant::ZERO,
            requests: Slab::new(),
            sent: Slab::new(),
            unsent: VecDeque::new(),
            leaving: BTreeMap::new(),
            answers: 0,
            held: Pages::ZERO,
            writes: None,
            writers: VecDeque::new(),
            destaging: BTreeMap::new(),
            commands: Commands::default(),
            finished: Vec::new(),
            counters: Counters::default(),
            seen: Seen::default(),
            #[cfg(test)]
            audit: super::tests::Audit::default(),
        }
    }

    /// The same with this many blocks of memory for written data.
    #[must_use]
    pub fn with_write_cache(mut self, geometry: Geometry, blocks: Pages) -> Self {
        self.writes = Some(WriteCache::new(geometry, blocks));
        self
    }

    /// The statistics of its cache, readable while it is part of a machine.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// Its cache.
    #[must_use]
    pub fn cache(&self) -> &strips::StripCache {
        self.engine.cache()
    }

    /// Blocks that occupy memory now.
    #[must_use]
    pub fn held(&self) -> Pages {
        self.held
    }

    /// Sends an event to the engine and carries out its commands. `submitter`: the process for which reads below are
    /// made.
    fn notify(&mut self, event: Event, submitter: Submitter) {
        let mut commands = std::mem::take(&mut self.commands);
        let mut event = event;
        loop {
            self.engine.on(event, &mut commands);
            for command in commands.drain() {
                self.carry_out(command, submitter);
            }
            if !self.engine.has_more() {
                break;
            }
            event = Event::Tick;
        }
        self.commands = commands;
        *self.seen.0.lock().unwrap_or_else(PoisonError::into_inner) = self.engine.cache().stats();
    }

    fn carry_out(&mut self, command: Command, submitter: Submitter) {
        #[cfg(test)]
        self.audit.commanded(&command, |request| self.requests[request.0 as usize].io.range);
        match command {
            Command::Fetch { fetch, blocks, pages, .. } => {
                let blocks = Pages(blocks.count());
                self.held += blocks;
                self.send(Below::Fetch(fetch, blocks), Op::Read, sectors_of(pages), submitter);
            }
            Command::Serve { request } => self.serve(request.0 as usize),
            Command::Pass { request } => {
                let at = request.0 as usize;
                let Some(Request { io, submitter }) = self.requests.get(at).copied() else { return };
                self.send(Below::Own(at), io.op, io.range, submitter);
            }
            Command::Drop { blocks, .. } => self.held -= Pages(blocks.count()),
        }
    }

    /// Answers a request from the cache, or puts its data there.
    fn serve(&mut self, at: usize) {
        let Some(request) = self.requests.get(at) else { return };
        let time = self.costs.0 + self.costs.1 * pages_of(request.io.range).len().get();
        self.processor_free = self.processor_free.max(self.now) + time;
        self.counters.buffer_hits += u64::from(request.io.op == Op::Read);
        self.leave(self.processor_free, at, Outcome::Done);
    }

    fn leave(&mut self, when: Instant, at: usize, outcome: Outcome) {
        self.answers += 1;
        self.leaving.insert((when, self.answers), (at, outcome));
    }

    fn send(&mut self, what: Below, op: Op, range: SectorSpan, submitter: Submitter) {
        let pages = pages_of(range);
        let wide = op != Op::Read || self.engine.is_wide(pages);
        let id = IoId(self.sent.insert(Sent { what, pages, wide, begun: self.now }) as u64);
        self.unsent.push_back((Io { id, op, range }, submitter));
        self.feed();
    }

    /// Submits what the array below has room for.
    fn feed(&mut self) {
        while let Some((io, submitter)) = self.unsent.front().copied() {
            if self.below.submit_for(self.now, io, submitter).is_err() {
                return;
            }
            let sent = &mut self.sent[io.id.0 as usize];
            sent.begun = self.now;
            if sent.wide {
                self.engine.wide_begins();
            }
            self.unsent.pop_front();
        }
    }

    /// Takes waiting writes as far as there is room.
    fn take_writes(&mut self) {
        while let (Some(writes), Some((at, rest))) = (&mut self.writes, self.writers.front_mut()) {
            let taken = PageSpan::at(rest.start, writes.write(*rest));
            rest.start = taken.end;
            let (at, over) = (*at, rest.is_empty());
            if !taken.is_empty() {
                self.notify(Event::Changed { pages: taken }, Submitter::default());
            }
            self.destage();
            if !over {
                return;
            }
            self.writers.pop_front();
            self.serve(at);
        }
    }

    /// Sends the stripes that are due to the array.
    fn destage(&mut self) {
        while let Some(destage) =
            self.writes.as_mut().and_then(|writes| writes.destage(!self.writers.is_empty()))
        {
            let Destage { stripe, runs } = destage;
            self.destaging.insert(stripe, (runs.len(), runs.clone()));
            for run in runs {
                self.send(Below::Destage(stripe), Op::Write, sectors_of(run), Submitter::default());
            }
        }
    }

    /// A request of a stripe that is destaged is over.
    fn destaged(&mut self, stripe: StripeNo) {
        let Some((left, _)) = self.destaging.get_mut(&stripe) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let runs = self.destaging.remove(&stripe).map_or_else(Vec::new, |(_, runs)| runs);
        if let Some(writes) = &mut self.writes {
            writes.destaged(stripe);
        }
        // Blocks of it may have been read from the array, with others, before the new ones were there.
        for pages in runs {
            self.notify(Event::Changed { pages }, Submitter::default());
        }
        self.take_writes();
        self.destage();
    }

    /// The array below has finished a request.
    fn done(&mut self, one: Finished) {
        let Some(Sent { what, pages, wide, begun }) = self.sent.try_remove(one.id.0 as usize) else { return };
        if wide {
            self.engine.wide_ends(self.now);
        } else if one.outcome == Outcome::Done {
            self.engine.took(pages, begun, self.now);
        }
        match what {
            Below::Fetch(fetch, blocks) => {
                let arrived = one.outcome == Outcome::Done;
                if !arrived {
                    self.held -= blocks;
                }
                let outcome = if arrived { strips::Outcome::Arrived } else { strips::Outcome::Failed };
                #[cfg(test)]
                self.audit.arrived(fetch, arrived);
                self.notify(Event::Done { fetch, outcome }, Submitter::default());
            }
            Below::Destage(stripe) => {
                self.counters.failed += u64::from(one.outcome == Outcome::Failed);
                self.destaged(stripe);
            }
            Below::Own(at) => {
                let Some(Request { io, submitter }) = self.requests.get(at).copied() else { return };
                if io.op == Op::Write && one.outcome == Outcome::Done {
                    self.notify(Event::Changed { pages: pages_of(io.range) }, submitter);
                }
                self.leave(self.now, at, one.outcome);
            }
        }
    }

    fn step(&mut self, done: &mut Vec<Finished>) {
        let mut finished = std::mem::take(&mut self.finished);
        self.below.advance(self.now, &mut finished);
        for one in finished.drain(..) {
            self.done(one);
        }
        self.finished = finished;
        self.feed();
        while let Some(entry) = self.leaving.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((at, _), (request, outcome)) = entry.remove_entry();
            let Some(Request { io, .. }) = self.requests.try_remove(request) else { continue };
            self.counters.requests += 1;
            match (outcome, io.op) {
                (Outcome::Failed, _) => self.counters.failed += 1,
                (Outcome::Done, Op::Read) => self.counters.read += io.range.len().bytes(),
                (Outcome::Done, Op::Write) => self.counters.written += io.range.len().bytes(),
                (Outcome::Done, Op::Flush) => {}
            }
            done.push(Finished { id: io.id, at, outcome });
        }
    }
}

impl Device for StripDevice {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        self.submit_for(now, io, Submitter::default())
    }

    fn submit_for(&mut self, now: Instant, io: Io, submitter: Submitter) -> Result<(), Full> {
        if self.requests.len() >= REQUESTS_LIMIT {
            return Err(Full);
        }
        self.now = self.now.max(now);
        let at = self.requests.insert(Request { io, submitter });
        match io.op {
            Op::Read => {
                let (request, pages) = (RequestId(at as u64), pages_of(io.range));
                if self.writes.as_mut().is_some_and(|writes| writes.read(pages)) {
                    self.serve(at);
                } else {
                    self.notify(Event::Read { request, pages }, submitter);
                }
            }
            Op::Write if self.writes.as_ref().is_some_and(|writes| writes.takes(pages_of(io.range))) => {
                self.writers.push_back((at, pages_of(io.range)));
                self.take_writes();
            }
            Op::Write | Op::Flush => self.send(Below::Own(at), io.op, io.range, submitter),
        }
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        let leaving = self.leaving.keys().next().map(|(at, _)| *at);
        self.below.next().into_iter().chain(leaving).min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some(at) = self.next().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.step(done);
        }
        self.now = self.now.max(now);
    }

    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }

    fn counters(&self) -> Counters {
        let Counters { requests, failed, read, written, buffer_hits, .. } = self.counters;
        Counters { requests, failed, read, written, buffer_hits, ..self.below.counters() }
    }
}

fn sectors_of(pages: PageSpan) -> SectorSpan {
    let page = |at: PageIndex| Lba(at.get() * SECTORS_PER_PAGE);
    SectorSpan::new(page(pages.start), page(pages.end))
}

/// The pages that a range touches.
pub(super) fn pages_of(range: SectorSpan) -> PageSpan {
    let (start, end) = (range.start.get(), range.end.get());
    PageSpan::new(PageIndex(start / SECTORS_PER_PAGE), PageIndex(end.div_ceil(SECTORS_PER_PAGE)))
}
