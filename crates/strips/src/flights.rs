//! Fetches in flight, and the reads that wait for them.
//!
//! A read waits until as many fetches have ended as it waits for. Fetches of one strip are linked, so that a
//! read finds those that bring its blocks. Memory: 112 bytes for each fetch, 32 bytes for each waiting read
//! and 4 for each fetch that it waits for; bounded by [`FLIGHTS_LIMIT`] and [`WAITING_LIMIT`].

use crate::blocks::Blocks;
use crate::geometry::StripNo;
use foreseek_seam::{FetchId, RequestId};
use foreseek_units::PageSpan;
use rustc_hash::FxHashMap;

/// The most fetches in flight: 32 for each of 32 members, whose queues have as many entries.
pub const FLIGHTS_LIMIT: usize = 1024;
/// The most waiting reads. Further ones are read without the cache. A block device of Linux has 256 requests
/// by default.
pub const WAITING_LIMIT: usize = 4096;

/// No slot.
const NONE: u32 = u32::MAX;

/// A fetch in flight.
#[derive(Clone, Debug)]
pub(crate) struct StripFetch {
    pub(crate) strip: StripNo,
    pub(crate) blocks: Blocks,
    /// Whether its blocks have changed since it began: it then counts as failed.
    pub(crate) stale: bool,
    name: FetchId,
    /// The slot of another fetch of the strip.
    next: u32,
    /// The waiting reads: most often one.
    first: Option<RequestId>,
    others: Vec<RequestId>,
}

/// A read that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    pages: PageSpan,
    fetches: u32,
}

/// All fetches in flight and waiting reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights {
    places: Vec<Option<StripFetch>>,
    free: Vec<u32>,
    /// The slot of the last fetch of each strip.
    of_strip: FxHashMap<StripNo, u32>,
    waiting: FxHashMap<RequestId, Waiting>,
    started: u64,
}

impl Flights {
    /// Whether this many more fetches may start.
    pub(crate) fn have_room(&self, fetches: usize) -> bool {
        self.len().0 + fetches <= FLIGHTS_LIMIT
    }

    /// Whether another read may wait.
    pub(crate) fn may_wait(&self) -> bool {
        self.waiting.len() < WAITING_LIMIT
    }

    /// Starts a fetch; there must be room.
    pub(crate) fn start(&mut self, strip: StripNo, blocks: Blocks) -> FetchId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        // The slot can be computed from the name, and each name is given once.
        let name = FetchId(self.started * FLIGHTS_LIMIT as u64 + u64::from(place));
        self.started += 1;
        let next = self.of_strip.insert(strip, place).unwrap_or(NONE);
        let (stale, first, others) = (false, None, Vec::new());
        self.places[place as usize] = Some(StripFetch { strip, blocks, stale, name, next, first, others });
        name
    }

    /// A read of `pages` waits for those blocks of a strip, which are in flight.
    pub(crate) fn wait(&mut self, request: RequestId, pages: PageSpan, strip: StripNo, blocks: Blocks) {
        let mut fetches = 0;
        self.each_of(strip, blocks, |flight| {
            fetches += 1;
            match flight.first {
                None => flight.first = Some(request),
                Some(_) => flight.others.push(request),
            }
        });
        if fetches > 0 {
            self.waiting.entry(request).or_insert(Waiting { pages, fetches: 0 }).fetches += fetches;
        }
    }

    /// Blocks of a strip have changed while they were in flight.
    pub(crate) fn overtake(&mut self, strip: StripNo, blocks: Blocks) {
        self.each_of(strip, blocks, |flight| flight.stale = true);
    }

    /// A fetch has ended: returns it. The reads that wait for nothing more are added to `ready`. `None` if
    /// there is no fetch of this name.
    pub(crate) fn end(
        &mut self,
        name: FetchId,
        ready: &mut Vec<(RequestId, PageSpan)>,
    ) -> Option<StripFetch> {
        let place = (name.0 % FLIGHTS_LIMIT as u64) as u32;
        let flight = self.places.get_mut(place as usize)?.take_if(|flight| flight.name == name)?;
        self.free.push(place);
        self.unlink(&flight, place);
        for request in flight.first.iter().chain(&flight.others) {
            let Some(waiting) = self.waiting.get_mut(request) else { continue };
            waiting.fetches -= 1;
            if waiting.fetches == 0 {
                ready.push((*request, waiting.pages));
                self.waiting.remove(request);
            }
        }
        Some(flight)
    }

    /// The numbers of fetches in flight and of waiting reads.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.places.len() - self.free.len(), self.waiting.len())
    }

    /// The fetches of a strip that bring any of these blocks.
    fn each_of(&mut self, strip: StripNo, blocks: Blocks, mut act: impl FnMut(&mut StripFetch)) {
        let mut place = self.of_strip.get(&strip).copied().unwrap_or(NONE);
        while let Some(flight) = self.places.get_mut(place as usize).and_then(Option::as_mut) {
            if !flight.blocks.and(blocks).is_empty() {
                act(flight);
            }
            place = flight.next;
        }
    }

    /// Unlinks a fetch from those of its strip.
    fn unlink(&mut self, gone: &StripFetch, place: u32) {
        let head = self.of_strip.get(&gone.strip).copied().unwrap_or(NONE);
        if head == place {
            match gone.next {
                NONE => self.of_strip.remove(&gone.strip),
                next => self.of_strip.insert(gone.strip, next),
            };
            return;
        }
        let mut at = head;
        while let Some(flight) = self.places.get_mut(at as usize).and_then(Option::as_mut) {
            if flight.next == place {
                flight.next = gone.next;
                return;
            }
            at = flight.next;
        }
    }
}
