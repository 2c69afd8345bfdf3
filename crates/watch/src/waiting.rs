//! Opens of directories that wait until their disk reads.
//!
//! While a disk reads nothing, programs find everything in memory. Nothing can be gained then, and each look at a
//! directory takes processor time from them. Their opens *wait* here unexamined. They are passed on as soon as the disk
//! reads. So a walk that comes to the end of what is in memory is known from its top, and so is a program that lists a
//! whole tree in memory before it reads files.
//!
//! Bounds: the [`FIRST`] opens, those of the tops of walks, and the last ones, [`MOST`] in all. None stays after
//! [`RECENT`] without opens: the walks are over then.
//!
//! Pure: its inputs are counts and times.

use crate::directories::RECENT;
use foreseek_units::{Instant, Nanos};
use std::collections::VecDeque;
use std::time::Duration;

/// The first opens, which stay while others are dropped: more than there are directories above any.
const FIRST: usize = 64;
/// The most opens that wait: some 200 bytes each. To examine them takes as long as to read eight files.
const MOST: usize = 8192;
const OVER: Nanos = Nanos::from_secs(RECENT.as_secs());
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
    /// Reads of the disk that were over at the last look, and when there was one last.
    looked: Option<Instant>,
    reads: Option<u64>,
    read: Instant,
    rests: bool,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let never = Instant::ZERO;
        Self { list: VecDeque::new(), begun: never, looked: None, reads: None, read: never, rests: false }
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
        self.rests = may() && {
            let reads = reads();
            let over = reads.map(|[over, _]| over);
            let in_flight = reads.is_none_or(|[_, in_flight]| in_flight > 0);
            if std::mem::replace(&mut self.reads, over) != over || in_flight {
                self.read = now;
            }
            self.read + REST <= now
        };
    }

    /// Whether opens wait.
    pub(crate) fn rests(&self) -> bool {
        self.rests
    }

    /// A directory was opened. Returns an open that is dropped for it.
    pub(crate) fn push(&mut self, now: Instant, opened: T) -> Option<T> {
        if self.list.back().is_none_or(|(last, _)| *last + GOES_ON <= now) {
            self.begun = now;
        }
        let dropped = if self.list.len() >= MOST { self.list.remove(FIRST) } else { None };
        self.list.push_back((now, opened));
        dropped.map(|(_, opened)| opened)
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Drops opens of walks that are over; returns how many.
    pub(crate) fn expire(&mut self, now: Instant) -> usize {
        if self.list.back().is_some_and(|(last, _)| *last + OVER <= now) {
            std::mem::take(&mut self.list).len()
        } else {
            0
        }
    }

    /// All of them, in their order, if the disk reads.
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

    proptest! {
        /// The first and the last ones stay, in their order; what is dropped is counted.
        #[test]
        fn the_first_and_last_stay(opens in 0..3 * MOST as u32) {
            let (mut waiting, now) = resting();
            let dropped = (0..opens).filter(|opened| waiting.push(now, *opened).is_some()).count();
            waiting.look(now + MS, || false, NONE);
            let left: Vec<u32> = waiting.take().collect();
            prop_assert_eq!(left.len() + dropped, opens as usize);
            prop_assert!(left.len() <= MOST && left.is_sorted());
            let first = FIRST.min(opens as usize);
            prop_assert!(left[..first].iter().copied().eq(0..first as u32));
            prop_assert_eq!(left.last().copied(), opens.checked_sub(1));
        }

        /// Those of a walk stay while it goes on, and no longer.
        #[test]
        fn all_expire_together(pauses in prop::collection::vec(0..12_000_u64, 1..60)) {
            let (mut waiting, mut now) = resting();
            for pause in pauses {
                now += MS * pause;
                let before = waiting.list.len();
                prop_assert_eq!(waiting.expire(now), if pause < 10_000 { 0 } else { before });
                waiting.push(now, 0);
            }
            waiting.expire(now + OVER);
            prop_assert!(waiting.is_empty());
        }
    }
}
