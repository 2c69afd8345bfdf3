//! Opens of directories that wait until their disk reads.
//!
//! While a disk reads nothing, programs find everything in memory. Nothing can be gained then, and each look at a
//! directory takes processor time from them. Their opens *wait* here unexamined. They are passed on as soon as the disk
//! reads. So a walk that comes to the end of what is in memory is known from its top, and so is a program that lists a
//! whole tree in memory before it reads files.
//!
//! Bounds: with [`MOST`] of them all are passed on. So they are when the first one is [`LONGEST`] old: its opener still
//! counts then ([`RECENT`](crate::participants::RECENT)), and the walk that it is part of is not over yet. If none came
//! lately ([`PAUSE`]), they are dropped.
//!
//! Pure: its inputs are counts and times.

use foreseek_units::{Instant, Nanos};
use std::collections::VecDeque;
use std::time::Duration;

/// The most opens that wait, and those of one batch of events: some 200 bytes each. To examine them takes as long as to
/// read eight files.
const MOST: usize = 8192;
const LONGEST: Nanos = Nanos::from_secs(8);
/// A walk that goes on in memory opens something within this time.
const PAUSE: Nanos = Nanos::from_secs(4);
/// The time between two looks at a disk.
const LOOK: Nanos = Nanos::from_millis(1);
/// A disk without reads for this time rests: a program that reads from it starts the next read sooner. Requests in flight
/// count as reads.
const REST: Nanos = Nanos::from_millis(5);
/// The first read of a walk follows its first open within this time, and is looked for so often.
const BEGINS: Nanos = Nanos::from_millis(20);
const OFTEN: Duration = Duration::from_millis(2);
/// The same until so long after the last open.
const GOES_ON: Nanos = Nanos::from_millis(100);
const RARELY: Duration = Duration::from_millis(10);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    list: VecDeque<(Instant, T)>,
    /// The first open after a pause.
    begun: Instant,
    /// The last look at the disk, its reads that were over then, and whether it rested.
    looked: Option<Instant>,
    reads: Option<u64>,
    rests: bool,
    /// Whether it did read at the last look at its reads.
    is_reading: bool,
    /// When it last read.
    read: Instant,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let never = Instant::ZERO;
        Self {
            list: VecDeque::new(),
            begun: never,
            looked: None,
            reads: None,
            rests: false,
            is_reading: false,
            read: never,
        }
    }
}

impl<T> Waiting<T> {
    /// Looks whether the disk reads. `may`: whether nothing needs to know of opens meanwhile. `reads`: how many are over,
    /// and how many in flight; `None` where the kernel does not count them.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        may: impl FnOnce() -> bool,
        reads: impl FnOnce() -> Option<[u64; 2]>,
    ) {
        if self.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        self.looked = Some(now);
        self.rests = !self.are_due(now) && self.list.len() < MOST && may() && {
            let reads = reads();
            let over = reads.map(|[over, _]| over);
            let in_flight = reads.is_none_or(|[_, in_flight]| in_flight > 0);
            if std::mem::replace(&mut self.reads, over) != over || in_flight {
                self.read = now;
            }
            self.is_reading = now < self.read + REST;
            !self.is_reading
        };
    }

    /// Whether the disk was found to read.
    pub(crate) fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Whether opens wait.
    pub(crate) fn rests(&self) -> bool {
        self.rests
    }

    /// A directory was opened.
    pub(crate) fn push(&mut self, now: Instant, opened: T) {
        if self.list.back().is_none_or(|(last, _)| *last + GOES_ON <= now) {
            self.begun = now;
        }
        self.list.push_back((now, opened));
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Drops opens of walks that are over; returns how many. Before [`take`](Self::take).
    pub(crate) fn expire(&mut self, now: Instant) -> usize {
        let goes_on = self.list.back().is_some_and(|(last, _)| *last + PAUSE > now);
        if goes_on || !self.are_due(now) { 0 } else { std::mem::take(&mut self.list).len() }
    }

    /// Whether the first of them has waited for long.
    fn are_due(&self, now: Instant) -> bool {
        self.list.front().is_some_and(|(first, _)| *first + LONGEST <= now)
    }

    /// All of them, in their order, if the disk reads or they have waited for long.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        let taken = if self.rests { VecDeque::new() } else { std::mem::take(&mut self.list) };
        taken.into_iter().map(|(_, opened)| opened)
    }

    /// When to look at the disk again even if there is no event until then.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Duration> {
        let (last, _) = self.list.back()?;
        match () {
            () if self.begun + BEGINS > now => Some(OFTEN),
            () if *last + GOES_ON > now => Some(RARELY),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = Nanos::from_millis(1);
    const NONE: fn() -> Option<[u64; 2]> = || Some([7, 0]);

    /// A disk that has rested for long.
    fn resting() -> (Waiting<u32>, Instant) {
        let mut waiting = Waiting::default();
        let now = Instant(1) + REST * 2;
        waiting.look(Instant(1), || true, NONE);
        waiting.look(now, || true, NONE);
        assert!(waiting.rests());
        (waiting, now)
    }

    #[test]
    fn a_disk_rests_only_while_it_is_known_to_read_nothing() {
        for (may, reads) in [(true, Some([8, 0])), (true, Some([7, 1])), (true, None), (false, Some([7, 0]))]
        {
            let (mut waiting, now) = resting();
            waiting.push(now, 0);
            assert_eq!(waiting.take().count(), 0);
            waiting.look(now + REST, || may, || reads);
            assert!(!waiting.rests(), "{may} {reads:?}");
            assert_eq!(waiting.is_reading(), may, "it was not looked at otherwise");
            assert_eq!(waiting.take().collect::<Vec<_>>(), [0]);
        }
        let (mut waiting, now) = resting();
        let now = now + LOOK;
        waiting.look(now, || true, || Some([8, 0]));
        waiting.look(now + REST - MS, || true, || Some([8, 0]));
        assert!(!waiting.rests());
        waiting.look(now + REST, || true, || Some([8, 0]));
        assert!(waiting.rests());
        waiting.look(now + REST, || panic!("looked at a moment ago"), NONE);
        waiting.look(now + REST * 2, || false, || panic!("not looked at"));
        assert!(!waiting.rests());
    }

    #[test]
    fn a_new_walk_is_looked_for_often() {
        let (mut waiting, now) = resting();
        assert_eq!(waiting.next_look(now), None);
        waiting.push(now, 0);
        let later = now + Nanos::from_secs(1);
        let looks = [now, now + BEGINS, later].map(|at| waiting.next_look(at));
        assert_eq!(looks, [Some(OFTEN), Some(RARELY), None]);
        waiting.push(later, 1);
        assert_eq!(waiting.next_look(later), Some(OFTEN));
    }

    #[test]
    fn too_many_are_passed_on_in_their_order() {
        let (mut waiting, now) = resting();
        (0..MOST as u32 - 1).for_each(|opened| waiting.push(now, opened));
        waiting.look(now + MS, || true, NONE);
        assert_eq!(waiting.take().count(), 0);
        waiting.push(now, MOST as u32 - 1);
        waiting.look(now + MS * 2, || true, NONE);
        assert!(waiting.take().eq(0..MOST as u32));
        waiting.look(now + MS * 3, || true, NONE);
        assert!(waiting.rests());
    }

    proptest! {
        /// Whatever the pauses, none waits for longer. All are passed on in their order, or dropped after a pause.
        #[test]
        fn none_waits_for_long(pauses in prop::collection::vec(0..5_000_u64, 1..60)) {
            let (mut waiting, mut now) = resting();
            let mut opened: VecDeque<(Instant, u32)> = VecDeque::new();
            for (number, pause) in pauses.into_iter().enumerate() {
                for _ in 0..pause {
                    now += MS;
                    waiting.look(now, || true, NONE);
                    let last = opened.back().map(|(at, _)| *at);
                    let dropped = waiting.expire(now);
                    prop_assert!(dropped == 0 || dropped == opened.len());
                    prop_assert!(dropped == 0 || last.is_some_and(|last| last + PAUSE <= now));
                    opened.drain(..dropped);
                    for taken in waiting.take() {
                        prop_assert_eq!(opened.pop_front().map(|(_, number)| number), Some(taken));
                    }
                    prop_assert!(opened.front().is_none_or(|(at, _)| now < *at + LONGEST));
                }
                waiting.push(now, number as u32);
                opened.push_back((now, number as u32));
            }
        }
    }
}
