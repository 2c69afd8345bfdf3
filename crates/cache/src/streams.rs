//! How many streams share the prefetch cache, and how far each may prefetch (TR-840 section 4.2).
//!
//! If the streams together want more than the prefetch cache holds, no order of eviction helps: each gets an
//! equal part. The paper counts the files that are open in all processes. That is too many if files are open
//! and not read (a database, a server's document cache). [`ActiveStreams`] counts those that were read within
//! a window of time.

use crate::queue::Queue;
use foreseek_units::{Instant, Nanos, Pages};
use std::hash::Hash;

/// The most active streams: as many files as a server process on Linux may usually have open (`nr_open` is 1
/// Mi, servers raise their limit to 64 Ki); 3 MB.
pub const STREAMS_LIMIT: usize = 1 << 16;

/// The most that each stream may prefetch: an equal part of the ceiling, and at least a page.
#[must_use]
pub fn depth_cap(ceiling: Pages, streams: usize) -> Pages {
    (ceiling / (streams as u64).max(1)).max(Pages(1))
}

/// The streams that are counted.
#[derive(Clone, Debug)]
pub enum StreamCount<S> {
    /// Every open file, as in the paper.
    Open,
    /// Open files that have been read lately.
    Active(ActiveStreams<S>),
}

impl<S: Copy + Eq + Hash> StreamCount<S> {
    /// A stream is read.
    pub fn touched(&mut self, now: Instant, stream: S) {
        if let Self::Active(active) = self {
            active.touched(now, stream);
        }
    }

    /// A stream is closed.
    pub fn closed(&mut self, stream: &S) {
        if let Self::Active(active) = self {
            active.closed(stream);
        }
    }

    /// The number of streams, with this many open ones.
    pub fn count(&mut self, now: Instant, open: usize) -> usize {
        match self {
            Self::Open => open,
            Self::Active(active) => active.count(now).min(open),
        }
    }
}

/// Streams that were read within a window of time. A stream beyond [`STREAMS_LIMIT`] replaces the one that
/// has not been read for longest.
#[derive(Clone, Debug)]
pub struct ActiveStreams<S> {
    touched: Queue<S, Instant>,
    window: Nanos,
}

impl<S: Copy + Eq + Hash> ActiveStreams<S> {
    /// Without streams. A stream that is not read for the length of `window` is not active any more.
    #[must_use]
    pub fn new(window: Nanos) -> Self {
        Self { touched: Queue::with_capacity(0), window }
    }

    /// A stream is read.
    pub fn touched(&mut self, now: Instant, stream: S) {
        if let Some(slot) = self.touched.find(&stream) {
            if let Some(last) = self.touched.at(slot) {
                *last = now;
            }
            self.touched.renew(slot);
            return;
        }
        if self.touched.len() >= STREAMS_LIMIT {
            self.forget_oldest();
        }
        self.touched.push(stream, now);
    }

    /// A stream is closed.
    pub fn closed(&mut self, stream: &S) {
        if let Some(slot) = self.touched.find(stream) {
            self.touched.remove(slot);
        }
    }

    /// The number of active streams. Each stream is removed once, so that this is O(1) for each touch.
    pub fn count(&mut self, now: Instant) -> usize {
        while let Some(slot) = self.touched.oldest() {
            if self.touched.at(slot).is_none_or(|last| *last + self.window > now) {
                break;
            }
            self.forget_oldest();
        }
        self.touched.len()
    }

    fn forget_oldest(&mut self) {
        if let Some(slot) = self.touched.oldest() {
            self.touched.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn the_papers_depth_at_512_streams_is_64_pages() {
        let ceiling = Pages(131_072).scale(0.25);
        assert_eq!(depth_cap(ceiling, 512), Pages(64));
        assert_eq!(depth_cap(ceiling, 0), ceiling);
        assert_eq!(depth_cap(Pages(3), 512), Pages(1));
    }

    #[test]
    fn open_counts_open_streams_and_active_at_most_these() {
        let mut open = StreamCount::Open;
        open.touched(Instant::ZERO, 1u32);
        assert_eq!(open.count(Instant::ZERO, 700), 700);
        let mut active = StreamCount::Active(ActiveStreams::new(Nanos(10)));
        (0..5u32).for_each(|stream| active.touched(Instant(u64::from(stream)), stream));
        assert_eq!(active.count(Instant(4), 700), 5);
        assert_eq!(active.count(Instant(4), 3), 3);
        active.closed(&4);
        // The stream that was read at 0 is not active any more 10 later.
        assert_eq!(active.count(Instant(10), 700), 3);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut active = ActiveStreams::new(Nanos(1));
        (0..=STREAMS_LIMIT as u32).for_each(|stream| active.touched(Instant::ZERO, stream));
        assert_eq!(active.count(Instant::ZERO), STREAMS_LIMIT);
    }

    proptest! {
        /// Against a map of the last touches.
        #[test]
        fn active_streams_are_those_touched_within_the_window(
            window in 1..20u64,
            ops in proptest::collection::vec((0..4u8, 0..10u32, 0..5u64), 0..200),
        ) {
            let mut active = ActiveStreams::new(Nanos(window));
            let mut model = HashMap::new();
            let mut now = 0;
            for (op, stream, passed) in ops {
                now += passed;
                if op == 0 {
                    active.closed(&stream);
                    model.remove(&stream);
                } else {
                    active.touched(Instant(now), stream);
                    model.insert(stream, now);
                }
                let expected = model.values().filter(|last| **last + window > now).count();
                prop_assert_eq!(active.count(Instant(now)), expected);
            }
        }
    }
}
