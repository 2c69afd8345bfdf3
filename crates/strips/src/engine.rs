//! The engine of an array: events in, bounded commands out.
//!
//! Each read is cut at strips. The [cache](crate::StripCache) decides which blocks of a strip are present, in
//! flight, or to be fetched, with one fetch for each strip and therefore one member for each fetch. A read is
//! served when all of its blocks are present. MSP sees each read; the stripes that it wants are fetched strip
//! by strip, without blocks that are present or in flight (section 2.5).
//!
//! - *Order.* A read's own fetches come first, then those of MSP, so that a reader does not wait behind a
//!   prefetch.
//! - *Failure.* A failed fetch empties its blocks. Reads that waited for it [pass](crate::Command::Pass) the
//!   cache: the driver reads only their pages, and the reader gets that error or none.
//! - *Changes.* A fetch of changed blocks counts as failed as a whole when it ends.
//! - *Room.* If the cache has no room for a part of a read, the read passes, and nothing is fetched for it.
//! - *A read is served only if all of its blocks are present* at that moment. A block that was present at the
//!   read's arrival may be evicted while the read waits for other strips: then it passes.
//! - *Bounds.* At most [`FLIGHTS_LIMIT`](crate::FLIGHTS_LIMIT) fetches are in flight, no read of more than
//!   [`READ_LIMIT`] is cached, and at most [`WAITING_LIMIT`](crate::WAITING_LIMIT) reads wait: reads beyond
//!   these limits pass. Commands that do not fit follow at the next event; [`StripEngine::has_more`] is then
//!   true, and the driver sends a tick.
//!
//! The engine has no clock, and no rule of the paper needs one. If the costs of members are measured, the
//! driver reports when a read [began and ended](StripEngine::took). The cache is inclusive: it keeps the
//! blocks that were read. The driver keeps memory for each block from its `Fetch` to its `Drop` or the
//! fetch's failure.
//!
//! Limits: reads only. Writes go to the device directly and are reported as changes.

use crate::blocks::Blocks;
use crate::cache::{Dropped, StripCache};
use crate::command::{Command, Commands};
use crate::error::StripsError;
use crate::event::{Event, Outcome};
use crate::flights::Flights;
use crate::geometry::{Geometry, StripNo};
use crate::massive::MassiveStripes;
use crate::measured::Measured;
use crate::replacement::Replacement;
use crate::rules::{Massive, Rules, Settings};
use foreseek_seam::{FetchId, RequestId, Urgency};
use foreseek_units::{Bytes, DeviceCosts, Instant, PageSpan, Pages};
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest read that is cached: the largest request of the loop driver and of Linux's default
/// `max_sectors_kb`.
pub const READ_LIMIT: Bytes = Bytes::kib(1280);

/// The policy of an array.
#[derive(Debug)]
pub struct StripEngine {
    geometry: Geometry,
    cache: StripCache,
    massive: Option<MassiveStripes>,
    flights: Flights,
    outbox: VecDeque<Command>,
    dropped: Vec<Dropped>,
    /// Reads whose last fetch has ended; empty between events.
    ready: Vec<(RequestId, PageSpan)>,
}

impl StripEngine {
    /// An engine with an empty cache. `member`: the costs of one member, not of the array.
    ///
    /// # Errors
    /// The cache is too small for the array's strips.
    pub fn new(
        geometry: Geometry,
        settings: Settings,
        rules: Rules,
        member: Arc<dyn DeviceCosts>,
        replacement: Box<dyn Replacement>,
    ) -> Result<Self, StripsError> {
        Ok(Self {
            geometry,
            massive: match rules.massive {
                Massive::Never => None,
                Massive::Doubling => Some(MassiveStripes::new(geometry, settings.cache)),
                Massive::Learnt => {
                    Some(MassiveStripes::new(geometry, settings.cache).learning(Arc::clone(&member)))
                }
            },
            cache: StripCache::new(geometry, settings, rules, member, replacement)?,
            flights: Flights::default(),
            outbox: VecDeque::new(),
            dropped: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// Handles an event. The resulting commands are added to `out`, which is empty at the call.
    pub fn on(&mut self, event: Event, out: &mut Commands) {
        match event {
            Event::Read { request, pages } => self.read(request, pages),
            Event::Done { fetch, outcome } => self.done(fetch, outcome),
            Event::Changed { pages } => self.changed(pages),
            Event::Tick => {}
        }
        while out.room() > 0 {
            let Some(command) = self.outbox.pop_front() else { break };
            out.push(command);
        }
    }

    /// Pauses prefetching, or resumes it. The cache stays.
    pub fn pause(&mut self, paused: bool) {
        self.cache.pause(paused);
    }

    /// A read was sent below at `begun` and has succeeded, with or without the cache. Reads of one member are
    /// reported in the order of their ends. A read of several strips is reported as [wide](Self::wide_begins)
    /// and ignored here.
    pub fn took(&mut self, pages: PageSpan, begun: Instant, now: Instant) {
        let Some(costs) = self.cache.costs_mut() else { return };
        let mut strips = self.geometry.strips(pages);
        if let (Some((strip, blocks)), None) = (strips.next(), strips.next()) {
            blocks.hull().into_iter().for_each(|hull| costs.took(strip, hull, begun, now));
        }
    }

    /// Whether a read touches more than one strip.
    #[must_use]
    pub fn is_wide(&self, pages: PageSpan) -> bool {
        self.geometry.strips(pages).nth(1).is_some()
    }

    /// A request goes below that may touch several members: a write, a discard, a [wide](Self::is_wide) read.
    pub fn wide_begins(&mut self) {
        self.measured().into_iter().for_each(Measured::wide_begins);
    }

    /// Such a request has ended, with success or not.
    pub fn wide_ends(&mut self, now: Instant) {
        self.measured().into_iter().for_each(|measured| measured.wide_ends(now));
    }

    /// How many of them are under way, where that is counted.
    #[cfg(test)]
    pub(crate) fn wide_under_way(&mut self) -> Option<u32> {
        self.measured().map(|measured| measured.wide())
    }

    fn measured(&mut self) -> Option<&mut Measured> {
        self.cache.costs_mut()?.measuring()
    }

    /// Whether the engine wants [`Event::Tick`] at once.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &StripCache {
        &self.cache
    }

    /// The numbers of fetches in flight and of waiting reads.
    #[must_use]
    pub fn under_way(&self) -> (usize, usize) {
        self.flights.len()
    }

    fn read(&mut self, request: RequestId, pages: PageSpan) {
        if !self.may_cache(pages) {
            self.outbox.push_back(Command::Pass { request });
            return;
        }
        if self.is_wide(pages) && !self.cache.begin_wide(self.geometry.strips(pages)) {
            self.outbox.push_back(Command::Pass { request });
            return self.prefetch_stripes(pages, true);
        }
        let (mut waits, mut uncached) = (false, false);
        for (strip, blocks) in self.geometry.strips(pages) {
            let answer = self.cache.read(strip, blocks, &mut self.dropped);
            self.drop_all();
            self.fetch(strip, answer.fetch, Urgency::Demand);
            waits |= !answer.coming.with(answer.fetch).is_empty();
            uncached |= !answer.past.is_empty();
        }
        self.cache.end_wide();
        if waits && !uncached {
            self.wait(request, pages);
        } else {
            self.answer(request, pages);
        }
        self.prefetch_stripes(pages, false);
    }

    /// Whether a read is on the device, and its needs are within the bounds.
    fn may_cache(&self, pages: PageSpan) -> bool {
        let within = pages.end.get() <= self.geometry.length().get() && pages.len().bytes() <= READ_LIMIT;
        // At most one fetch for each strip.
        within && self.flights.may_wait() && self.flights.have_room(self.geometry.strips(pages).count())
    }

    /// Lets a read wait for those of its blocks that are in flight.
    fn wait(&mut self, request: RequestId, pages: PageSpan) {
        for (strip, blocks) in self.geometry.strips(pages) {
            let (_, arriving) = self.cache.held(strip);
            self.flights.wait(request, pages, strip, blocks.and(arriving));
        }
    }

    /// Answers a read that waits for nothing: out of the cache if all of it is present.
    fn answer(&mut self, request: RequestId, pages: PageSpan) {
        let is_there = |(strip, blocks)| {
            let (held, arriving) = self.cache.held(strip);
            held.without(arriving).covers(blocks)
        };
        let all = self.geometry.strips(pages).all(is_there);
        self.outbox.push_back(if all { Command::Serve { request } } else { Command::Pass { request } });
    }

    /// Fetches the stripes that MSP wants after a read; none for a `passed` read, which is read already.
    fn prefetch_stripes(&mut self, read: PageSpan, passed: bool) {
        if self.cache.is_paused() {
            return;
        }
        let Some(wanted) = self.massive.as_mut().and_then(|massive| massive.read(read)) else { return };
        for (strip, _) in self.geometry.strips(wanted) {
            if passed && self.geometry.pages_of(strip).overlaps(read) {
                continue;
            }
            if !self.flights.have_room(1) {
                return;
            }
            let blocks = self.cache.prefetch(strip, &mut self.dropped);
            self.drop_all();
            self.fetch(strip, blocks, Urgency::Prefetch);
        }
    }

    fn fetch(&mut self, strip: StripNo, blocks: Blocks, urgency: Urgency) {
        let Some((first, end)) = blocks.hull() else { return };
        let fetch = self.flights.start(strip, blocks);
        let pages = PageSpan::at(self.geometry.page_of(strip, first), Pages(end - first));
        self.outbox.push_back(Command::Fetch { fetch, strip, blocks, pages, urgency });
    }

    fn done(&mut self, fetch: FetchId, outcome: Outcome) {
        let mut ready = std::mem::take(&mut self.ready);
        let Some(flight) = self.flights.end(fetch, &mut ready) else { return };
        let well = outcome == Outcome::Arrived && !flight.stale;
        self.cache.arrived(flight.strip, flight.blocks, well, &mut self.dropped);
        if outcome == Outcome::Arrived && !well {
            // The driver has memory for blocks that arrived too late.
            self.dropped.push(Dropped { strip: flight.strip, blocks: flight.blocks });
        }
        self.drop_all();
        ready.drain(..).for_each(|(request, pages)| self.answer(request, pages));
        self.ready = ready;
    }

    fn changed(&mut self, pages: PageSpan) {
        for (strip, blocks) in self.geometry.strips(pages) {
            self.flights.overtake(strip, blocks);
            self.cache.changed(strip, blocks, &mut self.dropped);
            self.drop_all();
        }
    }

    fn drop_all(&mut self) {
        let commands =
            self.dropped.drain(..).map(|Dropped { strip, blocks }| Command::Drop { strip, blocks });
        self.outbox.extend(commands);
    }
}
