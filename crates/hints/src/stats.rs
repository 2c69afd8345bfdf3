//! Counters of an access-list client.

use foreseek_units::{Nanos, Pages};

/// Counters since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads of watched ranges that were reported.
    pub reads: u64,
    /// Reads that found every page in the page cache, or passed without a query because the same page had just
    /// been read.
    pub hits: u64,
    /// Reads that found a page missing.
    pub misses: u64,
    /// Reads that missed and were not on the list.
    pub unlisted: u64,
    /// Callbacks to the application.
    pub callbacks: u64,
    /// Access-list entries accepted.
    pub hinted: u64,
    /// Rounds of prefetching; in pipelined mode the times that the head began at the lowest page.
    pub rounds: u64,
    /// Rounds of which too little was used.
    pub wasted_rounds: u64,
    /// Fetches passed to the page cache (one system call each, or a few).
    pub fetches: u64,
    /// Pages requested by them, infill included.
    pub fetched: Pages,
    /// Those of these pages that are not on the list: gaps that were cheaper to read than to skip.
    pub infill: Pages,
    /// Wanted pages that were fetched and were in memory when they were read.
    pub used: Pages,
    /// Pages released.
    pub forgotten: Pages,
    /// Wanted pages that were fetched and evicted before they were read; more than one in 128 of a round is
    /// contention.
    pub evicted: Pages,
    /// Fetches that the page cache refused or cut short.
    pub refused: u64,
    /// Questions about residency.
    pub queries: u64,
    /// Internal errors: events or states that contradict each other, of the engine or of its driver.
    pub internal_errors: u64,
    /// The present size of the reorder buffer.
    pub buffer: Pages,
    /// How many distinct pages the application should announce: a buffer of them, or more where fetching goes
    /// on while it reads.
    pub lookahead: Pages,
    /// In how many reads at most; zero: no limit.
    pub lookahead_reads: u64,
    /// Time spent on fetching, while the reader waited.
    pub fetching: Nanos,
}

impl Stats {
    /// Every counter with its name, for reports. The name shows the unit: a count, pages or nanoseconds.
    #[must_use]
    pub fn entries(&self) -> [(&'static str, u64); 21] {
        [
            ("reads", self.reads),
            ("hits", self.hits),
            ("misses", self.misses),
            ("unlisted", self.unlisted),
            ("callbacks", self.callbacks),
            ("hinted", self.hinted),
            ("rounds", self.rounds),
            ("wasted_rounds", self.wasted_rounds),
            ("fetches", self.fetches),
            ("fetched_pages", self.fetched.get()),
            ("infill_pages", self.infill.get()),
            ("used_pages", self.used.get()),
            ("forgotten_pages", self.forgotten.get()),
            ("evicted_pages", self.evicted.get()),
            ("refused", self.refused),
            ("queries", self.queries),
            ("internal_errors", self.internal_errors),
            ("buffer_pages", self.buffer.get()),
            ("lookahead_pages", self.lookahead.get()),
            ("lookahead_reads", self.lookahead_reads),
            ("fetching_ns", self.fetching.get()),
        ]
    }
}
