//! A modelled kernel: a page cache of limited size over a modelled device, in virtual time.
//!
//! A process calls [`VirtualKernel::read`]; the clock moves by what the call takes. It is also the
//! [`PageCache`] of the fadvise door, so that the [`foreseek_hints::Driver`] that runs in real
//! programs runs on it unchanged:
//!
//! - advice to fetch makes one request for each missing run that lies together on the device, at
//!   most [`REQUEST_LIMIT`] long, not merged with those of other calls; the caller waits only while
//!   [`REQUESTS_LIMIT`] are outstanding. Pages that are there stay where they are in the lists;
//! - a read of a missing page makes the kernel's own read-ahead (today's on-demand one, see
//!   [`foreseek_readahead::stream`]) and waits for the page; one of a page on its way waits for that
//!   request;
//! - what does not fit is reclaimed (see [`crate::page_lists`]).
//!
//! One process, one device. The block layer has no elevator: requests go to the device in order, and
//! the device chooses among those in its own queue.

use crate::options::{KernelCounters, KernelOptions, LOG_LIMIT, Logged, REQUEST_LIMIT, REQUESTS_LIMIT};
use crate::page_lists::{PageLists, PageName, Presence};
use foreseek_device::{Counters, Device, Finished, Io, IoId, Op, Outcome};
use foreseek_readahead::stream::{self, Ahead, Found, Generation, Opened, Prefetcher, Settings, Touch, View};
use foreseek_seam::{Extent, ObjectId, PageCache, Refusal, StreamId, Who, lba_of};
use foreseek_units::{ByteSpan, Instant, Lba, Nanos, PageIndex, PageSpan, Pages, SectorSpan, Span};
use std::collections::{HashMap, VecDeque};

pub use crate::options::ReadError;

#[derive(Debug)]
struct File {
    extents: Vec<Extent>,
    end: PageIndex,
    /// The one process reads every file through one opening.
    stream: StreamId,
}

/// What the read-ahead sees of a file.
struct Sight<'a> {
    lists: &'a PageLists,
    object: ObjectId,
    extents: &'a [Extent],
}

impl View for Sight<'_> {
    fn cached(&self, page: PageIndex) -> bool {
        self.lists.presence((self.object, page)) != Presence::Absent
    }

    /// The caller waits for a place in the queue; nothing is cancelled.
    fn congested(&self) -> bool {
        false
    }

    fn place(&self, page: PageIndex) -> Option<Lba> {
        lba_of(self.extents, page)
    }
}

#[derive(Debug)]
struct Request {
    io: Io,
    made: Instant,
    object: ObjectId,
    pages: PageSpan,
    advised: bool,
}

/// The modelled kernel.
pub struct VirtualKernel {
    device: Box<dyn Device>,
    options: KernelOptions,
    now: Instant,
    lists: PageLists,
    files: HashMap<ObjectId, File>,
    read_ahead: Box<dyn Prefetcher>,
    /// What the read-ahead answered; kept for its allocation.
    aheads: Vec<Ahead>,
    /// Requests that the device has not finished.
    outstanding: HashMap<IoId, Request>,
    /// Those among them that wait for room in the device's queue.
    waiting: VecDeque<IoId>,
    next_io: u64,
    finished: Vec<Finished>,
    counters: KernelCounters,
    log: Vec<Logged>,
}

impl VirtualKernel {
    /// A kernel with an empty page cache over a device at rest.
    #[must_use]
    pub fn new(device: Box<dyn Device>, options: KernelOptions) -> Self {
        let window = options.read_ahead.pages_floor().max(Pages(1));
        let settings = Settings { window, ..Settings::default() };
        Self {
            device,
            options,
            now: Instant::ZERO,
            lists: PageLists::new(),
            files: HashMap::new(),
            read_ahead: stream::stock(Generation::ON_DEMAND, &settings),
            aheads: Vec::new(),
            outstanding: HashMap::new(),
            waiting: VecDeque::new(),
            next_io: 0,
            finished: Vec::new(),
            counters: KernelCounters::default(),
            log: Vec::new(),
        }
    }

    /// Puts an object on the device: extents ascending by page. What was cached of it is dropped.
    pub fn place(&mut self, object: ObjectId, extents: &[Extent]) {
        if let Some(file) = self.files.get(&object) {
            self.forget(object, Span::new(PageIndex::ZERO, file.end));
        }
        let end = extents.iter().map(|extent| extent.page + extent.pages).max().unwrap_or_default();
        let next = StreamId(self.files.len() as u64);
        let stream = self.files.get(&object).map_or(next, |file| file.stream);
        let length = end - PageIndex::ZERO;
        self.read_ahead.opened(self.now, Opened { stream, object, who: Who(0), length, told: None });
        self.files.insert(object, File { extents: extents.to_vec(), end, stream });
    }

    /// Reads bytes as a process does; the clock moves to when they are there.
    ///
    /// # Errors
    /// Where the object is not placed, or the device cannot read it.
    pub fn read(&mut self, object: ObjectId, range: ByteSpan) -> Result<(), ReadError> {
        self.spend(self.options.costs.read);
        let pages = range.pages();
        for page in pages.iter() {
            self.read_page(object, page, pages)?;
            self.spend(self.options.costs.page);
        }
        Ok(())
    }

    /// Lets the process compute for a while.
    pub fn compute(&mut self, time: Nanos) {
        self.spend(time);
    }

    /// The virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.now - Instant::ZERO
    }

    /// Sets how much memory there is: less of it reclaims at once, as when others need it.
    pub fn set_memory(&mut self, memory: Pages) {
        self.options.memory = memory;
        self.make_room(Pages::ZERO);
    }

    /// Reclaims this many pages, as when others needed memory for a moment.
    pub fn reclaim(&mut self, pages: Pages) {
        for _ in 0..pages.get() {
            if self.lists.reclaim() {
                self.counters.reclaimed += Pages(1);
            }
        }
    }

    /// What the kernel has done.
    #[must_use]
    pub fn counters(&self) -> &KernelCounters {
        &self.counters
    }

    /// What the device has done.
    #[must_use]
    pub fn device(&self) -> Counters {
        self.device.counters()
    }

    /// The requests so far, in order of completion; the first [`LOG_LIMIT`].
    #[must_use]
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// How many pages are cached or on their way.
    #[must_use]
    pub fn cached(&self) -> Pages {
        self.lists.pages()
    }

    /// Reads one of the pages that a call wants.
    fn read_page(&mut self, object: ObjectId, page: PageIndex, call: PageSpan) -> Result<(), ReadError> {
        let name = (object, page);
        let found = match self.lists.presence(name) {
            Presence::Present => {
                self.counters.hits += Pages(1);
                Found::Hit
            }
            Presence::InFlight => {
                self.counters.late += Pages(1);
                Found::InFlight
            }
            Presence::Absent => {
                self.counters.misses += Pages(1);
                Found::Miss
            }
        };
        // A page that is there or on its way is held by its reader before anything else is asked
        // for: what follows may reclaim it, which is no longer the reader's concern.
        if found != Found::Miss {
            self.await_page(name)?;
            let marker = self.lists.referenced(name);
            return self.look_ahead(name, call, found, marker);
        }
        self.look_ahead(name, call, found, false)?;
        self.await_page(name)?;
        self.lists.referenced(name);
        Ok(())
    }

    /// The kernel's own read-ahead at a page that a call reads, with the page itself where it is
    /// missing.
    fn look_ahead(
        &mut self,
        name: PageName,
        call: PageSpan,
        found: Found,
        marker: bool,
    ) -> Result<(), ReadError> {
        let (object, page) = name;
        let unplaced = ReadError::Unplaced(object, page);
        let file = self.files.get(&object).ok_or(unplaced)?;
        if found == Found::Miss {
            lba_of(&file.extents, page).ok_or(unplaced)?;
        }
        let touch = Touch {
            stream: file.stream,
            page,
            request: call.end - page,
            first: page == call.start,
            mapped: false,
            found,
            marker,
        };
        let sight = Sight { lists: &self.lists, object, extents: &file.extents };
        let mut aheads = std::mem::take(&mut self.aheads);
        self.read_ahead.touch(self.now, touch, &sight, &mut aheads);
        for ahead in aheads.drain(..) {
            self.make_requests(object, ahead.range, ahead.marker, false);
        }
        self.aheads = aheads;
        Ok(())
    }

    /// Makes requests for the missing pages of a span. Answers how many pages those are.
    fn make_requests(
        &mut self,
        object: ObjectId,
        span: PageSpan,
        marker: Option<PageIndex>,
        advised: bool,
    ) -> Pages {
        let Some(end) = self.files.get(&object).map(|file| file.end) else { return Pages::ZERO };
        let mut asked = Pages::ZERO;
        let mut run: Option<(PageSpan, Lba)> = None;
        for page in span.intersection(Span::new(PageIndex::ZERO, end)).iter() {
            let missing = self.lists.presence((object, page)) == Presence::Absent;
            let lba = self.files.get(&object).and_then(|file| lba_of(&file.extents, page));
            let Some(lba) = lba.filter(|_| missing) else {
                self.submit(object, run.take(), advised);
                continue;
            };
            match &mut run {
                Some((pages, start))
                    if *start + pages.len().sectors() == lba && pages.len() < REQUEST_LIMIT =>
                {
                    pages.end = page.next();
                }
                _ => {
                    self.submit(object, run.take(), advised);
                    run = Some((Span::at(page, Pages(1)), lba));
                }
            }
            self.make_room(Pages(1));
            self.lists.insert((object, page), marker == Some(page));
            asked += Pages(1);
        }
        self.submit(object, run, advised);
        asked
    }

    /// Hands a request to the device, after waiting for a place among those outstanding.
    fn submit(&mut self, object: ObjectId, run: Option<(PageSpan, Lba)>, advised: bool) {
        let Some((pages, lba)) = run else { return };
        while self.outstanding.len() >= REQUESTS_LIMIT {
            if !self.wait() {
                break;
            }
        }
        let id = IoId(self.next_io);
        self.next_io += 1;
        self.counters.requests += 1;
        let io = Io { id, op: Op::Read, range: SectorSpan::at(lba, pages.len().sectors()) };
        self.outstanding.insert(id, Request { io, made: self.now, object, pages, advised });
        self.waiting.push_back(id);
        self.feed();
    }

    /// Fills the device's queue.
    fn feed(&mut self) {
        while let Some(id) = self.waiting.front() {
            let accepted =
                self.outstanding.get(id).is_none_or(|one| self.device.submit(self.now, one.io).is_ok());
            if !accepted {
                break;
            }
            self.waiting.pop_front();
        }
    }

    /// Reclaims until there is room for some more pages; waits where everything is on its way.
    fn make_room(&mut self, pages: Pages) {
        while self.lists.pages() + pages > self.options.memory {
            if self.lists.reclaim() {
                self.counters.reclaimed += Pages(1);
            } else if !self.wait() {
                // What is on its way but not yet submitted cannot come; let it be too much.
                break;
            }
        }
    }

    fn await_page(&mut self, name: PageName) -> Result<(), ReadError> {
        while self.lists.presence(name) == Presence::InFlight {
            if !self.wait() {
                self.lists.discard(name);
            }
        }
        match self.lists.presence(name) {
            Presence::Present => Ok(()),
            _ => Err(ReadError::Failed(name.0, name.1)),
        }
    }

    /// Lets time pass to the device's next event; false where there is none.
    fn wait(&mut self) -> bool {
        let Some(next) = self.device.next() else { return false };
        self.advance(next.max(self.now));
        true
    }

    fn spend(&mut self, time: Nanos) {
        let until = self.now + time;
        while let Some(next) = self.device.next().filter(|next| *next <= until) {
            self.advance(next.max(self.now));
        }
        self.now = until;
    }

    fn advance(&mut self, to: Instant) {
        self.now = to;
        let mut finished = std::mem::take(&mut self.finished);
        self.device.advance(to, &mut finished);
        for one in finished.drain(..) {
            self.complete(one);
        }
        self.finished = finished;
        self.feed();
    }

    fn complete(&mut self, finished: Finished) {
        let Some(request) = self.outstanding.remove(&finished.id) else { return };
        for page in request.pages.iter() {
            match finished.outcome {
                Outcome::Done => self.lists.arrived((request.object, page)),
                Outcome::Failed => self.lists.discard((request.object, page)),
            }
        }
        if self.log.len() < LOG_LIMIT {
            self.log.push(Logged {
                made: request.made,
                finished: finished.at,
                lba: request.io.range.start,
                sectors: request.io.range.len(),
                advised: request.advised,
            });
        }
    }
}

impl PageCache for VirtualKernel {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn fetch(&mut self, object: ObjectId, range: PageSpan) -> Result<Pages, Refusal> {
        self.spend(self.options.costs.advice);
        if !self.files.contains_key(&object) {
            return Err(Refusal::Gone);
        }
        let asked = self.make_requests(object, range, None, true);
        self.counters.advised += asked;
        Ok(range.len())
    }

    fn forget(&mut self, object: ObjectId, range: PageSpan) {
        self.spend(self.options.costs.advice);
        for page in range.iter() {
            self.lists.remove((object, page));
        }
    }

    fn resident(&mut self, object: ObjectId, range: PageSpan, runs: &mut Vec<PageSpan>) -> bool {
        self.spend(self.options.costs.query);
        for page in range.iter() {
            if self.lists.presence((object, page)) == Presence::Absent {
                continue;
            }
            match runs.last_mut().filter(|run| run.end == page) {
                Some(run) => run.end = page.next(),
                None => runs.push(Span::at(page, Pages(1))),
            }
        }
        true
    }

    fn extents(&mut self, object: ObjectId) -> Vec<Extent> {
        self.files.get(&object).map(|file| file.extents.clone()).unwrap_or_default()
    }

    fn budget(&mut self) -> Pages {
        self.options.memory
    }
}
