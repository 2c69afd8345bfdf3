//! Visits of a device, put together from completed fetches.
//!
//! A device that serves one request at a time gives each request its *service time*. It lasts from the completion
//! before it, or from its own issue if that is later, to its completion. This holds for any queue and order. Adjacent
//! fetches that follow each other without a pause are one visit, also with a gap so small that it passes under the
//! head. Its time is the sum of their service times.
//!
//! A block layer merges adjacent fetches into one request and reports their ends at once, in an order of its own. A late
//! driver gets the ends of several requests at once. Fetches that end at the same time are therefore put together
//! whatever their order. If they are several visits, their order is unknown: each gets its share of their time and of
//! their length.

use super::buffered::apart;
use foreseek_units::{Bytes, Instant, Nanos, SectorSpan, Sectors};

/// A fetch that the device has completed: a visit, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// When it was handed to the device.
    pub issued: Instant,
    /// When it was complete.
    pub completed: Instant,
    /// Its address; if that is unknown, any numbers that keep neighbours adjacent.
    pub range: SectorSpan,
    /// Whether the device has had only this visit since it was last idle.
    pub alone: bool,
}

/// A longer visit is cut here, and continues as one without a positioning.
pub(super) const VISIT_LIMIT: Bytes = Bytes::mib(64);
/// The most visits that end at the same time. More are a burst after a stall, and further fetches count as a
/// visit by themselves. It is as many requests as a drive queues.
const RUNS_MOST: usize = 32;

/// How a visit begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// With a positioning.
    Positioned,
    /// Where the last one was cut.
    Continued,
    /// Where the last one ended, some time after it: possibly out of the drive's own read-ahead.
    Later,
}

/// A visit, or several that ended at the same time.
#[derive(Clone, Debug)]
pub(super) struct Together {
    /// Its addresses; each run is a visit.
    pub(super) runs: Vec<SectorSpan>,
    /// The time of all.
    pub(super) time: Nanos,
    pub(super) begins: Begins,
    /// Whether the device had nothing else to do.
    pub(super) alone: bool,
}

impl Together {
    /// Whether a fetch is adjacent to one of its runs, or so near that the gap passes under the head.
    fn is_beside(&self, range: SectorSpan, gap: Sectors) -> bool {
        self.runs.iter().any(|run| apart(*run, range) <= gap)
    }

    /// Adds a fetch. If it lies between two runs, they become one.
    fn add(&mut self, mut range: SectorSpan, gap: Sectors) {
        self.runs.retain(|run| {
            let beside = apart(*run, range) <= gap;
            if beside {
                range = range.hull(*run);
            }
            !beside
        });
        self.runs.push(range);
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes(self.runs.iter().map(|run| run.len().bytes().get()).sum())
    }
}

/// Puts visits together.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    /// The visit that may go on.
    open: Option<Together>,
    /// The last completion.
    last: Instant,
}

impl Assembly {
    /// The device has completed a fetch; a gap of up to `gap` passes under the head. Returns the visits that are over by
    /// it.
    pub(super) fn completed(&mut self, fetch: Visit, gap: Sectors) -> Option<Together> {
        let Visit { issued, completed, range, alone } = fetch;
        let waited = issued <= self.last;
        let time = completed - issued.max(self.last);
        self.last = self.last.max(completed);
        let beside = self.open.as_ref().is_some_and(|open| open.is_beside(range, gap));
        match &mut self.open {
            Some(open) if waited && (beside || (time.is_zero() && open.runs.len() < RUNS_MOST)) => {
                open.add(range, gap);
                open.time += time;
                open.alone &= alone;
                if open.bytes() < VISIT_LIMIT {
                    return None;
                }
                let rest = vec![SectorSpan::new(range.end, range.end)];
                self.begin(rest, Nanos::ZERO, Begins::Continued, alone)
            }
            _ => {
                let begins = if beside { Begins::Later } else { Begins::Positioned };
                self.begin(vec![range], time, begins, alone)
            }
        }
    }

    /// A visit begins. Returns the ones before it.
    fn begin(&mut self, runs: Vec<SectorSpan>, time: Nanos, begins: Begins, alone: bool) -> Option<Together> {
        self.open.replace(Together { runs, time, begins, alone })
    }
}
