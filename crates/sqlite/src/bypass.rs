//! Streams that find all of their pages in memory are bypassed: their reads are not followed.
//!
//! Following a scan takes half a microsecond a row. For reads from disk, that is nothing. If every page is in
//! the page cache already, it is half of the cost of the whole read, without a gain. Therefore one read in
//! [`SAMPLE`] is looked up in the page cache before it is made. When [`SAMPLES_TO_BYPASS`] in a row were
//! resident, the stream is *bypassed*: only its samples are looked up. The first sample that is not resident
//! ends that, and a scan that goes on is recognised again.

use std::collections::HashMap;

/// One read in so many is looked up: an eighth of a look-up for each read. A bypassed stream whose table was
/// evicted makes at most so many random reads before it is followed again.
const SAMPLE: u32 = 8;
/// A table that is not cached shows a miss in far fewer reads than this number times [`SAMPLE`].
const SAMPLES_TO_BYPASS: u32 = 8;
/// After so many reads without a wait, a stream whose scans need not be followed may be bypassed. With fewer,
/// another side of a join that still misses would be bypassed as well.
const QUIET: u32 = 1024;
/// Streams of one file: at least as many as the planner's.
const STREAMS_LIMIT: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct StreamCache {
    reads: u32,
    /// Consecutive samples that were in memory.
    resident: u32,
    /// The number of `reads` when a read last waited.
    waited: u32,
}

/// How to handle a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Follow it.
    Follow,
    /// Ignore it: its stream is bypassed.
    Bypass,
    /// The stream is bypassed from this read on.
    Suspend,
}

/// The streams of one file.
#[derive(Debug, Default)]
pub(crate) struct CacheBypass {
    streams: HashMap<u64, StreamCache>,
    /// Reads of bypassed streams, for the status.
    pub(crate) passed: u64,
}

impl CacheBypass {
    /// A stream is about to read. `resident` returns whether its page is in memory, if that is known; it is
    /// called only for a sample.
    pub(crate) fn read(&mut self, stream: u64, resident: impl FnOnce() -> Option<bool>) -> Look {
        if self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream) {
            self.streams.clear();
        }
        let state = self.streams.entry(stream).or_default();
        state.reads = state.reads.wrapping_add(1);
        let bypassed = state.resident >= SAMPLES_TO_BYPASS;
        if state.reads.is_multiple_of(SAMPLE) {
            state.resident =
                if resident() == Some(true) { (state.resident + 1).min(SAMPLES_TO_BYPASS) } else { 0 };
        }
        match (bypassed, state.resident >= SAMPLES_TO_BYPASS) {
            (true, true) => {
                self.passed += 1;
                Look::Bypass
            }
            (false, true) => Look::Suspend,
            (_, false) => Look::Follow,
        }
    }

    /// The stream's pages are in memory because they were fetched for it: the samples do not count.
    pub(crate) fn resume(&mut self, stream: u64) {
        if let Some(state) = self.streams.get_mut(&stream) {
            state.resident = 0;
        }
    }

    /// A read of the stream has waited for storage.
    pub(crate) fn waited(&mut self, stream: u64) {
        if let Some(state) = self.streams.get_mut(&stream) {
            state.waited = state.reads;
        }
    }

    /// Whether the last reads of the stream have not waited.
    pub(crate) fn is_quiet(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|state| state.reads.wrapping_sub(state.waited) >= QUIET)
    }

    /// A stream was closed.
    pub(crate) fn closed(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_stream_is_bypassed_until_its_first_miss() {
        let mut bypass = CacheBypass::default();
        let looks: Vec<Look> = (0..200).map(|_| bypass.read(1, || Some(true))).collect();
        assert_eq!(looks.iter().position(|look| *look == Look::Suspend), Some(63));
        assert!(looks[64..].iter().all(|look| *look == Look::Bypass));
        assert_eq!(bypass.read(2, || Some(true)), Look::Follow, "another stream");
        let cold = (0..100).map(|_| bypass.read(1, || Some(false))).position(|look| look == Look::Follow);
        assert!(cold.is_some_and(|reads| reads < SAMPLE as usize));
        assert!((0..63).all(|_| bypass.read(1, || Some(true)) == Look::Follow));
    }

    #[test]
    fn a_stream_is_quiet_after_a_thousand_reads_without_a_wait() {
        let mut bypass = CacheBypass::default();
        let quiet_after = |bypass: &mut CacheBypass| {
            bypass.waited(1);
            (0..2 * QUIET).position(|_| {
                bypass.resume(1);
                bypass.read(1, || Some(true));
                bypass.is_quiet(1)
            })
        };
        assert_eq!(quiet_after(&mut bypass), Some(QUIET as usize - 1));
        assert_eq!(quiet_after(&mut bypass), Some(QUIET as usize - 1));
        assert!(!bypass.is_quiet(2));
    }

    #[test]
    fn where_residency_is_unknown_no_stream_is_bypassed() {
        let mut bypass = CacheBypass::default();
        assert!((0..1000).all(|_| bypass.read(1, || None) == Look::Follow));
    }

    #[test]
    fn prefetched_pages_are_no_sign() {
        let mut bypass = CacheBypass::default();
        assert!((0..1000).all(|_| {
            bypass.resume(1);
            bypass.read(1, || Some(true)) == Look::Follow
        }));
    }
}
