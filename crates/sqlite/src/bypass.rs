//! Looking away while a stream finds all of its pages in memory.
//!
//! Following a scan takes half a microsecond a row. Where the disk is asked, that is nothing; where
//! every page is in the page cache already, it is half of what the whole read costs, and there is
//! nothing to gain. So one read in [`SAMPLE`] is looked up in the page cache before it is made. When
//! [`SAMPLES_TO_DOZE`] in a row were there, the stream *dozes*: its reads pass, but for the samples. The first
//! sample that is not there wakes it, and a scan that goes on is recognised anew.

use std::collections::HashMap;

/// One read in so many is looked up: an eighth of a look a read. A dozing stream whose table is no
/// longer cached makes at most so many random reads before it wakes.
const SAMPLE: u32 = 8;
/// A table that is not cached shows a miss in much fewer reads than these times [`SAMPLE`].
const SAMPLES_TO_DOZE: u32 = 8;
/// Reads without a wait after which a stream whose scans need no following any more may doze: another side of a join
/// that still misses would be left alone.
const QUIET: u32 = 1024;
/// Streams of one file: as many as the planner's, at least.
const STREAMS_LIMIT: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Temper {
    reads: u32,
    /// Samples in a row that were in memory.
    there: u32,
    /// When a read last waited, in terms of `reads`.
    waited: u32,
}

/// What a read is to be done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Follow it.
    Follow,
    /// Let it pass.
    Pass,
    /// The stream falls asleep with it.
    Asleep,
}

/// The streams of one file.
#[derive(Debug, Default)]
pub(crate) struct Doze {
    streams: HashMap<u64, Temper>,
    /// Reads that passed, for the status.
    pub(crate) passed: u64,
}

impl Doze {
    /// A stream is about to read. `resident` tells whether its page is in memory, if that can be
    /// known; it is asked for a sample only.
    pub(crate) fn read(&mut self, stream: u64, resident: impl FnOnce() -> Option<bool>) -> Look {
        if self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream) {
            self.streams.clear();
        }
        let temper = self.streams.entry(stream).or_default();
        temper.reads = temper.reads.wrapping_add(1);
        let dozed = temper.there >= SAMPLES_TO_DOZE;
        if temper.reads.is_multiple_of(SAMPLE) {
            temper.there = if resident() == Some(true) { (temper.there + 1).min(SAMPLES_TO_DOZE) } else { 0 };
        }
        match (dozed, temper.there >= SAMPLES_TO_DOZE) {
            (true, true) => {
                self.passed += 1;
                Look::Pass
            }
            (false, true) => Look::Asleep,
            (_, false) => Look::Follow,
        }
    }

    /// The stream's pages are in memory because they were fetched for it: that is no sign.
    pub(crate) fn awake(&mut self, stream: u64) {
        if let Some(temper) = self.streams.get_mut(&stream) {
            temper.there = 0;
        }
    }

    /// A read of the stream has waited for storage.
    pub(crate) fn waited(&mut self, stream: u64) {
        if let Some(temper) = self.streams.get_mut(&stream) {
            temper.waited = temper.reads;
        }
    }

    /// Whether the last reads of the stream have not waited.
    pub(crate) fn is_quiet(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|temper| temper.reads.wrapping_sub(temper.waited) >= QUIET)
    }

    /// A stream is gone.
    pub(crate) fn closed(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_stream_dozes_and_the_first_miss_wakes_it() {
        let mut doze = Doze::default();
        let looks: Vec<Look> = (0..200).map(|_| doze.read(1, || Some(true))).collect();
        assert_eq!(looks.iter().position(|look| *look == Look::Asleep), Some(63));
        assert!(looks[64..].iter().all(|look| *look == Look::Pass));
        assert_eq!(doze.read(2, || Some(true)), Look::Follow, "another stream");
        let cold = (0..100).map(|_| doze.read(1, || Some(false))).position(|look| look == Look::Follow);
        assert!(cold.is_some_and(|reads| reads < SAMPLE as usize));
        assert!((0..63).all(|_| doze.read(1, || Some(true)) == Look::Follow));
    }

    #[test]
    fn a_stream_is_quiet_after_a_thousand_reads_without_a_wait() {
        let mut doze = Doze::default();
        let quiet_after = |doze: &mut Doze| {
            doze.waited(1);
            (0..2 * QUIET).position(|_| {
                doze.awake(1);
                doze.read(1, || Some(true));
                doze.is_quiet(1)
            })
        };
        assert_eq!(quiet_after(&mut doze), Some(QUIET as usize - 1));
        assert_eq!(quiet_after(&mut doze), Some(QUIET as usize - 1));
        assert!(!doze.is_quiet(2));
    }

    #[test]
    fn where_residency_is_unknown_nobody_dozes() {
        let mut doze = Doze::default();
        assert!((0..1000).all(|_| doze.read(1, || None) == Look::Follow));
    }

    #[test]
    fn what_was_fetched_for_it_is_no_sign() {
        let mut doze = Doze::default();
        assert!((0..1000).all(|_| {
            doze.awake(1);
            doze.read(1, || Some(true)) == Look::Follow
        }));
    }
}
