//! What a serving engine has done and how it stands.

use super::flight::Fetch;
use foreseek_seam::Urgency;
use foreseek_units::{Nanos, Pages, Rate};

/// Counters since it was made, and gauges of now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Reads that were told.
    pub reads: u64,
    /// Reads that were let through because they were longer than is served, of no known stream, or of something that
    /// contradicted itself.
    pub passed: u64,
    /// Calls of programs that were told, as they are longer than the reads in which they come.
    pub calls: u64,
    /// Pages of reads that were found in the prefetch cache.
    pub hits: Pages,
    /// Pages of reads that were on their way already.
    pub joined: Pages,
    /// Pages of reads that had to be fetched because they were read.
    pub missed: Pages,
    /// Missed pages that had been delivered before: the cache in front has lost them.
    pub lru_missed: Pages,
    /// Missed pages that had been prefetched, and dropped before anybody read them: thrashing.
    pub prefetch_missed: Pages,
    /// Fetches that were handed to the driver.
    pub fetches: u64,
    /// Those of them with or beside something for which a reader waited.
    pub demand_fetches: u64,
    /// Places to which the device was sent: fetches that lie together count as one.
    pub visits: u64,
    /// Those of them for nothing but what was read ahead.
    pub visits_ahead: u64,
    /// Pages of them that were asked for because they were read.
    pub fetched_on_demand: Pages,
    /// Pages of them that were asked for ahead of need.
    pub fetched_ahead: Pages,
    /// Pages fetched ahead and then read.
    pub used: Pages,
    /// Pages fetched ahead and dropped unused, to make room.
    pub dropped: Pages,
    /// Pages that a change of their object overtook.
    pub stale: Pages,
    /// Pages that were deferred for a single reader and never fetched, since it left or they changed before.
    pub cancelled: Pages,
    /// Pages that were wanted ahead and not fetched because there was no memory for them.
    pub forgone: Pages,
    /// Fetches that failed, came short or were refused.
    pub failed_fetches: u64,
    /// Reads answered with an error.
    pub failed_reads: u64,
    /// Reads that had to wait for memory.
    pub starved: u64,
    /// How often something was told or found that cannot be: errors of this engine or of its driver. Reads that it
    /// concerned were passed.
    pub internal_errors: u64,

    /// Streams that are open.
    pub streams: u64,
    /// Streams that were read lately, as the cap on the depth counts them.
    pub active_streams: u64,
    /// Reads that wait for their answer.
    pub waiting: u64,
    /// Fetches under way.
    pub in_flight: u32,
    /// Fetches that wait for one of those to end.
    pub queued: u64,
    /// Those of them that are deferred as their reader is the only one.
    pub deferred: u64,
    /// How many frames may be in use.
    pub budget: Pages,
    /// Frames whose memory is in use or ready for use.
    pub backed: Pages,
    /// Frames that are free.
    pub free: Pages,
    /// Pages in the prefetch cache.
    pub cached: Pages,
    /// How large the prefetch cache may be.
    pub ceiling: Pages,
    /// The depth to which memory bounds each stream.
    pub bound: Pages,
    /// What going to another place of the device costs, as it was learnt.
    pub switch: Nanos,
    /// The same while the device has nothing else to do: the cost that depths go by, and the one to begin with
    /// another time.
    pub unloaded: Nanos,
    /// The rate of reading there, as it was learnt.
    pub rate: Rate,
    /// The competitive depth that follows.
    pub depth: Pages,
    /// Completed fetches from which that was learnt.
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
