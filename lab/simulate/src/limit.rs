//! The modelled time of the best schedule in rounds at a memory size: no prefetcher with that memory that waits
//! for each filling of its buffer is faster (ATC'09 section 4.5).
//!
//! The future is known. The accesses are cut into rounds of as many unique pages as the memory holds. Of a
//! round's pages, those in memory are kept. The missing ones are read in one pass over the device in ascending
//! order (C-LOOK, ATC'09 section 3.1); gaps between them are read where that is cheaper (infill, section 3.3).
//! The device's own queue is kept full, so that it may choose among as many requests as it can hold. The next
//! pass begins when the last page of the one before has arrived. Infill takes no memory here, and the processor
//! no time: both make the limit lower.
//!
//! Whether reading a gap is cheaper depends on the device and on how dense a round is. The whole schedule is
//! computed with each of [`GAPS`], and the shortest is taken.
//!
//! Limits: it is no bound for a prefetcher that fetches while the application reads (`Mode::Pipelined`), which
//! can reuse the memory of a page as soon as it was read. Rounds are cut greedily; a schedule that leaves a
//! sparse region for a later round could be shorter. Requests are at most [`LONGEST_REQUEST`] long.

use foreseek_device::{Build, BuildError, Device, Full, Io, IoId, Op, Outcome, Profile};
use foreseek_units::{Bytes, Instant, Lba, Nanos, Pages, Position, SECTORS_PER_PAGE, SectorSpan, Sectors};
use std::collections::HashSet;

/// The longest gaps to be read that are tried: none, and from a page to 1 MiB by factors of two to four. A disk
/// passes 1 MiB in about the time of its shortest seek and a revolution, so that reading longer gaps is never
/// cheaper.
pub const GAPS: [Bytes; 8] = [
    Bytes::ZERO,
    Bytes::kib(4),
    Bytes::kib(16),
    Bytes::kib(32),
    Bytes::kib(64),
    Bytes::kib(128),
    Bytes::kib(256),
    Bytes::mib(1),
];

/// The longest request: Linux's block layer splits longer ones at about this size (1280 KiB on a loop device),
/// and requests of more than 64 KiB gain nothing more (ATC'09 figure 5).
pub const LONGEST_REQUEST: Bytes = Bytes::mib(1);

/// A schedule and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Time on the device.
    pub time: Nanos,
    /// Rounds: passes over the device.
    pub passes: usize,
    /// Pages read, gaps included.
    pub read: Pages,
    /// Requests made.
    pub requests: u64,
    /// The longest gap that was read.
    pub gap: Bytes,
}

/// Why there is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// No device can be built from the profile.
    #[error(transparent)]
    Device(#[from] BuildError),
    /// There is no memory for a single page.
    #[error("a schedule needs memory for at least one page")]
    NoMemory,
    /// The device could not read a page.
    #[error("the modelled device cannot read the page at sector {}", .0.get())]
    Unreadable(Lba),
    /// The device has requests and no next event: a bug of its model.
    #[error("the modelled device has requests in its queue and no next event")]
    Stuck,
}

/// The best schedule for `accesses`, each the first sector of a page on the device, in the order of access,
/// with memory for `memory` pages, on an idle device of this profile.
///
/// # Errors
/// Without memory, where no device can be built from the profile, or where a page lies outside of it or cannot
/// be read.
pub fn best_schedule(
    accesses: &[Lba],
    memory: Pages,
    profile: &Profile,
    build: &Build,
) -> Result<Limit, LimitError> {
    best_on(accesses, memory, &mut || profile.build(build))
}

/// The same on devices made anew for each schedule that is tried.
fn best_on(
    accesses: &[Lba],
    memory: Pages,
    device: &mut dyn FnMut() -> Result<Box<dyn Device>, BuildError>,
) -> Result<Limit, LimitError> {
    if memory.is_zero() {
        return Err(LimitError::NoMemory);
    }
    let rounds = rounds(accesses, memory);
    let mut best = schedule(&rounds, GAPS[0], device()?.as_mut())?;
    for gap in &GAPS[1..] {
        let limit = schedule(&rounds, *gap, device()?.as_mut())?;
        if limit.time < best.time {
            best = limit;
        }
    }
    Ok(best)
}

/// The pages that each round has to read: ascending, without those that the round before holds.
fn rounds(accesses: &[Lba], memory: Pages) -> Vec<Vec<Lba>> {
    let mut rounds = Vec::new();
    let mut held: HashSet<Lba> = HashSet::new();
    let mut needed: HashSet<Lba> = HashSet::new();
    for &page in accesses {
        if needed.len() as u64 == memory.get() && !needed.contains(&page) {
            rounds.push(missing(&needed, &held));
            held = std::mem::take(&mut needed);
        }
        needed.insert(page);
    }
    rounds.push(missing(&needed, &held));
    rounds.retain(|round| !round.is_empty());
    rounds
}

fn missing(needed: &HashSet<Lba>, held: &HashSet<Lba>) -> Vec<Lba> {
    let mut missing: Vec<Lba> = needed.difference(held).copied().collect();
    missing.sort_unstable();
    missing
}

/// Runs the rounds on a device, reading gaps of up to `gap`.
fn schedule(rounds: &[Vec<Lba>], gap: Bytes, device: &mut dyn Device) -> Result<Limit, LimitError> {
    let mut limit = Limit { time: Nanos::ZERO, passes: rounds.len(), read: Pages::ZERO, requests: 0, gap };
    let mut now = Instant::ZERO;
    for round in rounds {
        let requests = requests(round, gap.sectors_floor());
        limit.requests += requests.len() as u64;
        limit.read += requests.iter().map(|range| range.len().pages_ceil()).sum();
        now = pass(&requests, now, device)?;
    }
    limit.time = now.since(Instant::ZERO);
    Ok(limit)
}

/// Joins pages that are at most `gap` apart into requests of at most [`LONGEST_REQUEST`].
fn requests(pages: &[Lba], gap: Sectors) -> Vec<SectorSpan> {
    let longest = LONGEST_REQUEST.sectors_floor();
    let mut requests: Vec<SectorSpan> = Vec::new();
    for &page in pages {
        let page = SectorSpan::at(page, Sectors(SECTORS_PER_PAGE));
        match requests.last_mut() {
            Some(last) if page.start.since(last.end) <= gap && last.hull(page).len() <= longest => {
                *last = last.hull(page);
            }
            // A gap that is cheaper to read is read, even if that makes a request too long: the next one then
            // starts where it ends.
            Some(last) if page.start.since(last.end) <= gap => {
                let from = last.end;
                requests.push(SectorSpan::new(from, page.end));
            }
            _ => requests.push(page),
        }
    }
    requests
}

/// One pass: submits the requests in order, as fast as the device's queue takes them, and returns when the last
/// was complete.
fn pass(requests: &[SectorSpan], start: Instant, device: &mut dyn Device) -> Result<Instant, LimitError> {
    let mut now = start;
    let mut done = Vec::new();
    let mut waiting = requests.iter().enumerate();
    let mut next = waiting.next();
    let mut under_way = 0usize;
    loop {
        while let Some((number, &range)) = next {
            let io = Io { id: IoId(number as u64), op: Op::Read, range };
            match device.submit(now, io) {
                Ok(()) => {
                    under_way += 1;
                    next = waiting.next();
                }
                Err(Full) => break,
            }
        }
        if under_way == 0 {
            return Ok(now);
        }
        let at = device.next().ok_or(LimitError::Stuck)?;
        now = now.max(at);
        done.clear();
        device.advance(now, &mut done);
        for finished in &done {
            if finished.outcome != Outcome::Done {
                return Err(LimitError::Unreadable(requests[finished.id.0 as usize].start));
            }
        }
        under_way -= done.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_device::{Counters, Finished};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Serves in the order of submission: a seek of 1 ms unless the head is there already, 1 us a sector; holds
    /// two requests.
    #[derive(Default)]
    struct Slow {
        queue: VecDeque<(Io, Instant)>,
        free: Instant,
        head: Lba,
    }

    const END: Lba = Lba(1 << 20);

    impl Device for Slow {
        fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
            if self.queue.len() == 2 {
                return Err(Full);
            }
            let seek = if io.range.start == self.head { Nanos::ZERO } else { Nanos::from_millis(1) };
            self.free = self.free.max(now) + seek + Nanos::from_micros(io.range.len().get());
            self.head = io.range.end;
            self.queue.push_back((io, self.free));
            Ok(())
        }

        fn next(&self) -> Option<Instant> {
            self.queue.front().map(|(_, at)| *at)
        }

        fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
            while let Some((io, at)) = self.queue.pop_front_if(|(_, at)| *at <= now) {
                let outcome = if io.range.end <= END { Outcome::Done } else { Outcome::Failed };
                done.push(Finished { id: io.id, at, outcome });
            }
        }

        fn capacity(&self) -> Sectors {
            END.since(Lba::ZERO)
        }

        fn counters(&self) -> Counters {
            Counters::default()
        }
    }

    fn limit(pages: &[u64], memory: u64) -> Result<Limit, LimitError> {
        let accesses: Vec<Lba> = pages.iter().map(|page| Lba(page * SECTORS_PER_PAGE)).collect();
        best_on(&accesses, Pages(memory), &mut || Ok(Box::new(Slow::default())))
    }

    #[test]
    fn what_fits_is_read_once_in_order() {
        let limit = limit(&[3, 1, 0, 2, 3, 1, 0], 4).expect("it is scheduled");
        assert_eq!((limit.passes, limit.requests, limit.read), (1, 1, Pages(4)));
        assert_eq!(limit.time, Nanos::from_micros(4 * 8));
    }

    #[test]
    fn pages_that_are_held_are_not_read_again() {
        // Rounds of three: {0 1 2}, then {3 1 2} of which only 3 is missing.
        let limit = limit(&[0, 1, 2, 3, 1, 2], 3).expect("it is scheduled");
        assert_eq!((limit.passes, limit.read), (2, Pages(4)));
        assert_eq!(limit.time, Nanos::from_micros(4 * 8));
    }

    #[test]
    fn a_gap_is_read_where_that_is_cheaper_and_skipped_where_not() {
        // Nine pages lie between: 72 us to read, 1 ms to skip.
        let near = limit(&[0, 10], 2).expect("it is scheduled");
        assert_eq!((near.requests, near.read, near.time), (1, Pages(11), Nanos::from_micros(88)));
        let far = limit(&[0, 1000], 2).expect("it is scheduled");
        assert_eq!((far.requests, far.read, far.time), (2, Pages(2), Nanos::from_micros(1016)));
    }

    #[test]
    fn what_cannot_be_scheduled_is_said() {
        assert_eq!(limit(&[1], 0), Err(LimitError::NoMemory));
        let outside = END.get() / SECTORS_PER_PAGE;
        assert_eq!(limit(&[1, outside], 2), Err(LimitError::Unreadable(END)));
        assert_eq!(limit(&[], 1).map(|limit| limit.time), Ok(Nanos::ZERO));
    }

    proptest! {
        /// Replays the rounds in a memory of that size: every access finds its page.
        #[test]
        fn no_round_holds_more_than_the_memory_and_every_access_is_served(
            pages in proptest::collection::vec(0..40u64, 0..200), memory in 1..50usize,
        ) {
            let accesses: Vec<Lba> = pages.iter().map(|&page| Lba(page)).collect();
            let rounds = rounds(&accesses, Pages(memory as u64));
            let mut rounds = rounds.into_iter();
            let mut held: HashSet<Lba> = HashSet::new();
            let mut served = 0;
            for (at, page) in accesses.iter().enumerate() {
                if !held.contains(page) {
                    let fetched = rounds.next().expect("a missing page starts a round");
                    // Held pages that the new round needs stay; the others are dropped first.
                    let mut ahead: HashSet<Lba> = HashSet::new();
                    for next in &accesses[at..] {
                        if ahead.len() == memory && !ahead.contains(next) {
                            break;
                        }
                        ahead.insert(*next);
                    }
                    held.retain(|page| ahead.contains(page));
                    held.extend(fetched);
                    prop_assert!(held.len() <= memory);
                }
                prop_assert!(held.contains(page));
                served += 1;
            }
            prop_assert_eq!(served, accesses.len());
            prop_assert!(rounds.next().is_none());
        }

        #[test]
        fn requests_cover_every_page_in_order_without_overlap(
            mut pages in proptest::collection::vec(0..5000u64, 1..300), gap in 0..2000u64,
        ) {
            pages.sort_unstable();
            pages.dedup();
            let pages: Vec<Lba> = pages.into_iter().map(|page| Lba(page * SECTORS_PER_PAGE)).collect();
            let requests = requests(&pages, Sectors(gap));
            for pair in requests.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
            for page in pages {
                let range = SectorSpan::at(page, Sectors(SECTORS_PER_PAGE));
                prop_assert!(requests.iter().any(|request| request.covers(range)));
            }
        }
    }
}
