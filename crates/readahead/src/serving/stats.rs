//! Counters and gauges of a serving engine.

use super::flight::Fetch;
use foreseek_seam::Urgency;
use foreseek_units::{Nanos, Pages, Rate};

/// Counters since it was made, and current gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Reads that arrived.
    pub reads: u64,
    /// Reads that were passed on: longer than the limit, of no known stream, or after a failed check.
    pub passed: u64,
    /// Known calls of programs that are longer than the reads in which they arrive.
    pub calls: u64,
    /// Pages of reads that were found in the prefetch cache.
    pub hits: Pages,
    /// Pages of reads that were already in flight.
    pub joined: Pages,
    /// Pages of reads that were fetched on demand.
    pub missed: Pages,
    /// Missed pages that had been delivered before: the cache in front has evicted them.
    pub lru_missed: Pages,
    /// Missed pages that had been prefetched and evicted before use: thrashing.
    pub prefetch_missed: Pages,
    /// Fetches handed to the driver.
    pub fetches: u64,
    /// Those of them that a reader waited for, or that lay beside such a one.
    pub demand_fetches: u64,
    /// Visits of the device: adjacent fetches count as one.
    pub visits: u64,
    /// Those of them that only read ahead.
    pub visits_ahead: u64,
    /// Pages of fetches that were requested because they were read.
    pub fetched_on_demand: Pages,
    /// Pages of fetches that were requested ahead.
    pub fetched_ahead: Pages,
    /// Pages fetched ahead and then read.
    pub used: Pages,
    /// Pages fetched ahead and evicted unused, to make room.
    pub dropped: Pages,
    /// Pages that a change of their object has overtaken.
    pub stale: Pages,
    /// Pages that were deferred for a single reader and cancelled, since it left or they changed.
    pub cancelled: Pages,
    /// Pages that were wanted ahead and not fetched, since there was no memory for them.
    pub forgone: Pages,
    /// Fetches that failed, came short or were refused.
    pub failed_fetches: u64,
    /// Reads answered with an error.
    pub failed_reads: u64,
    /// Reads that had to wait for memory.
    pub starved: u64,
    /// Failed checks: errors of this engine or of its driver. The reads concerned were passed.
    pub internal_errors: u64,

    /// Open streams.
    pub streams: u64,
    /// Streams that were read lately, as the cap on the depth counts them.
    pub active_streams: u64,
    /// Reads that wait for their answer.
    pub waiting: u64,
    /// Fetches in flight.
    pub in_flight: u32,
    /// Queued fetches.
    pub queued: u64,
    /// Those of them that are deferred because their reader is the only one.
    pub deferred: u64,
    /// How many frames may be in use.
    pub budget: Pages,
    /// Frames whose memory is in use or ready for use.
    pub backed: Pages,
    /// Frames that are free.
    pub free: Pages,
    /// Pages in the prefetch cache.
    pub cached: Pages,
    /// The most pages that the prefetch cache may hold.
    pub ceiling: Pages,
    /// The most that one stream may read ahead, by its share of memory.
    pub bound: Pages,
    /// The learnt cost of moving to another place of the device.
    pub positioning: Nanos,
    /// The same while the device has nothing else to do: the cost from which depths are computed, and the
    /// initial cost of a later run.
    pub unloaded: Nanos,
    /// The learnt transfer rate there.
    pub rate: Rate,
    /// The competitive depth that follows from both.
    pub depth: Pages,
    /// Completed fetches from which these were learnt.
    pub learnt_from: u64,
}

impl Stats {
    /// A fetch was handed to the driver.
    pub(super) fn handed_out(&mut self, fetch: &Fetch) {
        self.visits += u64::from(!fetch.follows);
        self.visits_ahead += u64::from(!fetch.follows && fetch.urgency != Urgency::Demand);
        self.fetches += 1;
        self.demand_fetches += u64::from(fetch.urgency == Urgency::Demand);
        self.fetched_ahead += fetch.ahead;
        self.fetched_on_demand += fetch.range.len() - fetch.ahead;
    }
}
