//! Counters of a strip cache.

/// Counters. Hits and misses are in blocks of the host's reads; each block that is read is in exactly one of the first four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks that the host had requested since they were read (section 1.1.4: the narrow cache hit).
    pub cache_hits: u64,
    /// Blocks that had been prefetched and not requested since; they may still have been in flight.
    pub prefetch_hits: u64,
    /// Blocks that were read for this request.
    pub misses: u64,
    /// Blocks that were read without the cache, since it had no room.
    pub uncached: u64,
    /// Of the prefetch hits: blocks that were requested in an earlier life of their strip.
    pub past_hits: u64,
    /// Blocks that strip prefetching has read in addition to those requested.
    pub strip_blocks: u64,
    /// Blocks that massive stripe prefetching has read.
    pub massive_blocks: u64,
    /// Misses whose strip was not prefetched because of the virtual costs (section 2.4).
    pub refused_by_cost: u64,
    /// Misses whose strip was not prefetched because the upstream had shrunk to its floor (section 2.3), where the costs
    /// allowed it.
    pub refused_by_size: u64,
    /// Prefetched blocks that were culled.
    pub culled: u64,
    /// Strip caches that were evicted under memory pressure.
    pub evicted: u64,
    /// Ghosts that became strip caches again.
    pub reincarnated: u64,
}
