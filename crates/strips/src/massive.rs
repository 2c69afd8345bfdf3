//! Massive stripe prefetching (MSP): which stripes to prefetch for sequential readers (sections 1.2.4, 2.5).
//!
//! From the paper: MSP detects *semi-sequential* reads at the block level. There a sequential read of a file
//! is mixed with reads of metadata, and the file may be fragmented. If such reads go on for long, the prefetch
//! size "becomes a multiple of the stripe size". The prefetch is aligned to stripes, so that all members work
//! at once. It serves a small number of streams. It fetches nothing for
//! random and reverse reads (figures 8(b), 9(b)). With many processes it is off (section 3.5).
//!
//! This implementation is inferred, as the earlier paper with the details is not available:
//!
//! - *Streams.* A table has [`STREAMS_LIMIT`] streams; the least recently read is replaced. A read belongs to
//!   a stream if it begins at most one strip behind or before the end of the stream's furthest read: small
//!   strides, fragments and repeated blocks are tolerated. Any other read begins a new stream and disturbs
//!   none: metadata are tolerated.
//! - *Long.* A stream is semi-sequential when it has advanced by a stripe. Steps are at most a strip, so that
//!   this takes more reads than a random reader makes near one address.
//! - *Few.* MSP is on while fewer streams are semi-sequential than the array has members. Streams are counted
//!   over the last [`ACTIVE_READS`] reads: "parallelism is only significant when the number of concurrent
//!   accesses is roughly less than the number of member disks" (section 1.1.2).
//! - *How much.* One stripe first, doubled each time, up to [`MULTIPLE_LIMIT`], as far as two such prefetches
//!   of every semi-sequential stream fit in a quarter of the cache. If not even one stripe fits, nothing is
//!   prefetched.
//! - *When.* As soon as less than that much is prefetched ahead of the stream's end.
//!
//! Beyond the paper, the amount and the time can be [learnt](crate::runs); the other rules are the same then.
//!
//! The cache leaves out blocks that are present or in flight. Memory: 140 bytes for each stream, and 8 KiB where
//! amounts are learnt; a read is compared with the ends of all streams, which are few.

use crate::geometry::{Geometry, StripeNo};
use crate::runs::{Run, RunLengths};
use foreseek_units::{DeviceCosts, PageIndex, PageSpan, Pages};
use std::sync::Arc;

/// The most streams that are followed. MSP is for fewer streams than members; the rest is room for reads of
/// metadata and random reads between the reads of a stream. A search compares the ends of all of them: 256
/// bytes.
pub const STREAMS_LIMIT: usize = 32;
/// A stream is active if it was read among this many last reads: each of 32 streams of an array in turn, and
/// as many reads in between.
pub const ACTIVE_READS: u64 = 64;
/// The most stripes of one prefetch. Four strips of 128 KiB on each member take as long to transfer as a seek
/// and half a revolution of the paper's disks.
pub const MULTIPLE_LIMIT: u64 = 4;
/// The share of the cache for MSP's prefetches of all streams together, as a divisor. Three quarters are left
/// to blocks that were read and to strips.
const SHARE: u64 = 4;

/// A reader that advances.
#[derive(Clone, Copy, Debug, Default)]
struct SequentialStream {
    start: PageIndex,
    /// The end of the prefetched range: aligned to stripes, or the device's end.
    fetched: PageIndex,
    /// The most stripes of the next prefetch.
    stripes: u64,
    /// Where prefetches are learnt: what is known of it since it is long.
    run: Option<Run>,
}

/// The end of an unused stream: no read is near it.
const NOWHERE: PageIndex = PageIndex(u64::MAX / 2);

/// The streams of one array.
#[derive(Clone, Debug)]
pub(crate) struct MassiveStripes {
    geometry: Geometry,
    cache: Pages,
    streams: [SequentialStream; STREAMS_LIMIT],
    /// The ends of the streams' furthest reads, kept separately: each read searches them.
    ends: [PageIndex; STREAMS_LIMIT],
    /// The number of the last read of each stream.
    last: [u64; STREAMS_LIMIT],
    /// The streams from the most to the least recently read.
    order: [u8; STREAMS_LIMIT],
    reads: u64,
    /// What past runs have taught; `None`: prefetches double.
    learnt: Option<RunLengths>,
}

impl MassiveStripes {
    /// Without streams, above a cache of this many pages.
    pub(crate) fn new(geometry: Geometry, cache: Pages) -> Self {
        let streams = [SequentialStream::default(); STREAMS_LIMIT];
        let (ends, last) = ([NOWHERE; STREAMS_LIMIT], [0; STREAMS_LIMIT]);
        let order = std::array::from_fn(|at| at as u8);
        Self { geometry, cache, streams, ends, last, order, reads: 0, learnt: None }
    }

    /// The same with prefetches as past runs make them worth while, above members that cost so much.
    pub(crate) fn learning(mut self, member: Arc<dyn DeviceCosts>) -> Self {
        self.learnt = Some(RunLengths::new(self.geometry, member));
        self
    }

    /// The host reads this. Returns the pages to prefetch, in whole stripes.
    pub(crate) fn read(&mut self, pages: PageSpan) -> Option<PageSpan> {
        self.reads += 1;
        let at = self.follow(pages);
        if !self.is_long(at) {
            return None;
        }
        let wanted = if self.learnt.is_some() { self.learnt_prefetch(at) } else { self.doubled_prefetch(at) };
        wanted.filter(|wanted| !wanted.is_empty())
    }

    /// What the paper's rule prefetches for a long stream.
    fn doubled_prefetch(&mut self, at: usize) -> Option<PageSpan> {
        let (most, end) = (self.room().min(MULTIPLE_LIMIT), self.ends[at]);
        let stream = &mut self.streams[at];
        let stripes = stream.stripes.min(most);
        let ahead = stream.fetched - end;
        if stripes == 0 || ahead >= self.geometry.stripe_pages() * stripes {
            return None;
        }
        let from = stream.fetched.max(end);
        let first = self.geometry.stripe_of(self.geometry.strip_of(from));
        let wanted = self.geometry.pages_of_stripes(StripeNo(first.0), stripes);
        stream.fetched = wanted.end.max(stream.fetched);
        stream.stripes = (stream.stripes * 2).min(MULTIPLE_LIMIT);
        Some(wanted)
    }

    /// What past runs make worth while to prefetch for a long stream.
    fn learnt_prefetch(&mut self, at: usize) -> Option<PageSpan> {
        let (learnt, end) = (self.learnt.as_mut()?, self.ends[at]);
        let mut run = self.streams[at].run.unwrap_or_else(|| learnt.recognised(end));
        let mut wanted = None;
        if run.is_due(end) {
            let room = self.room();
            wanted = self.learnt.as_mut()?.prefetch(&mut run, end, room);
        }
        self.streams[at].run = Some(run);
        wanted.map(|(first, stripes)| self.geometry.pages_of_stripes(first, stripes))
    }

    /// The stream of a read, updated.
    fn follow(&mut self, pages: PageSpan) -> usize {
        let near = self.geometry.strip_pages();
        // Within `near` on either side. All are compared, without a branch for each: that is faster than
        // stopping at the first.
        let low = pages.start.get().wrapping_sub(near.get());
        let nearby = (0..).zip(&self.ends).fold(0u32, |set, (at, end)| {
            set | u32::from(end.get().wrapping_sub(low) <= 2 * near.get()) << at
        });
        let at = if nearby == 0 { self.begin(pages) } else { nearby.trailing_zeros() as usize };
        self.ends[at] = self.ends[at].max(pages.end);
        self.last[at] = self.reads;
        let place = self.order.iter().position(|one| usize::from(*one) == at).unwrap_or(0);
        self.order[..=place].rotate_right(1);
        at
    }

    /// A stream begins with this read, and replaces the least recently read one.
    fn begin(&mut self, pages: PageSpan) -> usize {
        let at = usize::from(self.order[STREAMS_LIMIT - 1]);
        if let (Some(learnt), Some(run)) = (&mut self.learnt, &self.streams[at].run) {
            learnt.over(run, self.ends[at]);
        }
        self.streams[at] =
            SequentialStream { start: pages.start, fetched: PageIndex::ZERO, stripes: 1, run: None };
        self.ends[at] = pages.end;
        at
    }

    fn is_long(&self, at: usize) -> bool {
        self.ends[at] != NOWHERE && self.ends[at] - self.streams[at].start >= self.geometry.stripe_pages()
    }

    /// The most stripes of a prefetch now: two for each semi-sequential stream fit in the share of the cache.
    fn room(&self) -> u64 {
        let active = |at: &usize| self.is_long(*at) && self.last[*at] + ACTIVE_READS > self.reads;
        let streams = (0..STREAMS_LIMIT).filter(active).count() as u64;
        if streams >= u64::from(self.geometry.members()) {
            return 0;
        }
        let each = self.cache / SHARE / (2 * streams.max(1));
        each / self.geometry.stripe_pages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::array;
    use proptest::prelude::*;

    /// Strips of 4 blocks, stripes of 16.
    fn massive(cache: u64) -> MassiveStripes {
        MassiveStripes::new(array(4, 4000), Pages(cache))
    }

    fn span(start: u64, end: u64) -> PageSpan {
        PageSpan::new(PageIndex(start), PageIndex(end))
    }

    fn read(massive: &mut MassiveStripes, page: u64) -> Option<PageSpan> {
        massive.read(span(page, page + 1))
    }

    fn all(massive: &mut MassiveStripes, pages: impl IntoIterator<Item = u64>) -> Vec<(u64, PageSpan)> {
        pages.into_iter().filter_map(|page| read(massive, page).map(|wanted| (page, wanted))).collect()
    }

    /// By hand. With block 115 it has read a stripe: the stripe of block 116 is fetched, 112 to 127. The next
    /// prefetch is due as soon as less than its own size is ahead. At 116 that is 11 of 32. At 117 it is 42 of
    /// 64, at 160 63 of 64.
    #[test]
    fn a_sequential_reader_gets_stripes_ahead_of_it() {
        let fetched = all(&mut massive(10_000), 100..260);
        let expected = [
            (115, span(112, 128)),
            (116, span(128, 160)),
            (117, span(160, 224)),
            (160, span(224, 288)),
            (224, span(288, 352)),
        ];
        assert_eq!(fetched, expected);
    }

    #[test]
    fn strides_metadata_and_repeats_are_tolerated() {
        let mut stride = massive(10_000);
        assert!(!all(&mut stride, (0..40).map(|step| 100 + 3 * step)).is_empty());
        let mut mixed = massive(10_000);
        let metadata = (0..40).flat_map(|step| [100 + step, 2000 + 37 * (step % 7), 100 + step]);
        let fetched = all(&mut mixed, metadata);
        assert!(!fetched.is_empty() && fetched.iter().all(|(_, wanted)| wanted.end < PageIndex(250)));
    }

    /// Figure 9(b).
    #[test]
    fn reverse_and_random_reads_fetch_nothing() {
        assert_eq!(all(&mut massive(10_000), (0..3000).rev()), []);
        let mut seed = 1u64;
        let random = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % 4000
        });
        assert_eq!(all(&mut massive(10_000), random.take(2000)), []);
    }

    #[test]
    fn it_is_for_fewer_streams_than_members() {
        for (streams, works) in [(1, true), (4, true), (5, false), (16, false)] {
            let mut massive = massive(10_000);
            let reads = (0..100).flat_map(|step| (0..streams).map(move |stream| stream * 200 + step));
            let fetched = all(&mut massive, reads);
            // Until the fifth is recognised there are four.
            let late: Vec<_> = fetched.iter().filter(|(page, _)| page % 200 > 20).collect();
            assert_eq!(!late.is_empty(), works, "{streams} streams: {late:?}");
        }
    }

    #[test]
    fn memory_bounds_it() {
        // A quarter of 127 pages is less than two stripes of 16; of 128 it is not.
        assert_eq!(all(&mut massive(127), 100..200), []);
        let fetched = all(&mut massive(128), 100..200);
        assert!(fetched.iter().all(|(_, wanted)| wanted.len() == Pages(16)) && fetched.len() > 3);
    }

    #[test]
    fn it_ends_with_the_device() {
        let fetched = all(&mut massive(10_000), 3900..4000);
        assert_eq!(fetched.last().map(|(_, wanted)| wanted.end), Some(PageIndex(4000)));
        assert!(fetched.len() < 8, "{fetched:?}");
    }

    proptest! {
        /// Prefetches are whole stripes ahead of a reader, each once, at most two prefetches ahead of the
        /// read.
        #[test]
        fn prefetches_are_aligned_and_bounded(
            start in 0..2000u64, steps in proptest::collection::vec((0..5u64, 1..9u64), 0..200),
        ) {
            let mut massive = massive(10_000);
            let (mut at, mut until) = (start, 0);
            for (skip, len) in steps {
                let read = span(at + skip, (at + skip + len).min(4000));
                at = read.end.get();
                if read.is_empty() { break }
                if let Some(wanted) = massive.read(read) {
                    prop_assert!(wanted.start.get().is_multiple_of(16));
                    prop_assert!(wanted.end.get().is_multiple_of(16) || wanted.end == PageIndex(4000));
                    prop_assert!(wanted.len() <= Pages(16 * MULTIPLE_LIMIT));
                    prop_assert!(wanted.end > read.end && wanted.start.get() >= until);
                    prop_assert!(wanted.end.get() <= read.end.get() + 2 * 16 * MULTIPLE_LIMIT);
                    until = wanted.end.get();
                }
            }
        }
    }
}
