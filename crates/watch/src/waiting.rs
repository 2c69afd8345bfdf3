//! Opens of directories that wait until their disk reads.
//!
//! While a disk reads nothing, programs find everything in memory. Nothing can be gained then, and each look at a
//! directory takes processor time from them. Their opens *wait* here unexamined. They are passed on as soon as the disk
//! reads, so that a walk that comes to the end of what is in memory is known from its top.
//!
//! The kernel's reports cost programs time as well: some microseconds for a directory, and a third of one for each file
//! that is not reported. Hence they end after [`BURST`] opens without a read, for [`AWAY`] or until the disk reads.
//! Directories that were missed meanwhile are found from those below them ([`Waiting::was_away`]).
//!
//! Bounds: the [`FIRST`] opens, those of the tops of walks, and the last ones, [`MOST`] in all. None waits longer than
//! [`LONGEST`], and none stays after [`RECENT`] without opens: the walks are over then.
//!
//! Pure: its inputs are counts and times.

use crate::directories::RECENT;
use foreseek_units::{Instant, Nanos};
use std::collections::VecDeque;
use std::time::Duration;

/// The first opens, which stay while others are dropped: more than there are directories above any.
const FIRST: usize = 64;
/// The most opens that wait: some 200 bytes each. It takes 10 ms to examine them.
const MOST: usize = 1024;
const LONGEST: Nanos = Nanos::from_secs(60);
const OVER: Nanos = Nanos::from_secs(RECENT.as_secs());
/// A disk without reads for this time rests: a program that reads from it starts the next read sooner. Requests in flight
/// count as reads.
const REST: Nanos = Nanos::from_millis(5);
/// The first read of a walk follows its first open within this time, and is looked for so often.
const BEGINS: Nanos = Nanos::from_millis(20);
const OFTEN: Duration = Duration::from_millis(2);
/// The same until so long after the last open, and while there are no reports.
const GOES_ON: Nanos = Nanos::from_millis(100);
const RARELY: Duration = Duration::from_millis(10);
/// Directories that a program opens in a moment only if it finds them in memory, and that moment.
const BURST: u32 = 64;
const MOMENT: Nanos = Nanos::from_millis(100);
/// The longest time without reports. What one burst costs is then a thousandth of the time.
const AWAY: Nanos = Nanos::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    list: VecDeque<(Instant, T)>,
    /// Reads of the disk that were over at the last look, and when there was one last.
    reads: Option<u64>,
    read: Instant,
    rests: bool,
    /// Opens in this moment.
    burst: u32,
    moment: Instant,
    /// Since when there are no reports.
    away: Option<Instant>,
    /// When reports began again last.
    back: Option<Instant>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        let never = Instant::ZERO;
        Self {
            list: VecDeque::new(),
            reads: None,
            read: never,
            rests: false,
            burst: 0,
            moment: never,
            away: None,
            back: None,
        }
    }
}

impl<T> Waiting<T> {
    /// Looks whether the disk reads. `may`: whether nothing needs to know of opens meanwhile. `reads`: how many are over,
    /// and how many in flight; `None` where the kernel does not count them.
    pub(crate) fn look(&mut self, now: Instant, may: bool, reads: impl FnOnce() -> Option<[u64; 2]>) {
        self.rests = may && {
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
        if self.moment + MOMENT <= now {
            (self.burst, self.moment) = (0, now);
        }
        self.burst += 1;
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
        let all = self.list.len();
        if self.list.back().is_some_and(|(last, _)| *last + OVER <= now) {
            self.list.clear();
        }
        while self.list.front().is_some_and(|(first, _)| *first + LONGEST <= now) {
            self.list.pop_front();
        }
        all - self.list.len()
    }

    /// All of them, in their order: the disk reads.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.list).into_iter().map(|(_, opened)| opened)
    }

    /// Whether reports are to end.
    pub(crate) fn looks_away(&mut self, now: Instant) -> bool {
        let is_due = self.rests && self.away.is_none() && self.burst >= BURST;
        if is_due {
            self.away = Some(now);
        }
        is_due
    }

    /// Whether reports are to begin again.
    pub(crate) fn looks_back(&mut self, now: Instant) -> bool {
        let is_due = self.away.is_some_and(|since| !self.rests || since + AWAY <= now);
        if is_due {
            (self.away, self.back, self.burst) = (None, Some(now), 0);
        }
        is_due
    }

    /// Whether opens were missed lately.
    pub(crate) fn was_away(&self, now: Instant) -> bool {
        self.back.is_some_and(|back| now < back + OVER)
    }

    /// When to look at the disk again even if there is no event until then.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Duration> {
        if self.away.is_some() {
            return Some(RARELY);
        }
        let ((first, _), (last, _)) = (self.list.front()?, self.list.back()?);
        match () {
            () if *first + BEGINS > now => Some(OFTEN),
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
        waiting.look(Instant(1), true, NONE);
        waiting.look(now, true, NONE);
        assert!(waiting.rests());
        (waiting, now)
    }

    #[test]
    fn a_disk_rests_only_while_it_is_known_to_read_nothing() {
        for (may, reads) in [(true, Some([8, 0])), (true, Some([7, 1])), (true, None), (false, Some([7, 0]))]
        {
            let (mut waiting, now) = resting();
            waiting.look(now + REST, may, || reads);
            assert!(!waiting.rests(), "{may} {reads:?}");
        }
        let (mut waiting, now) = resting();
        waiting.look(now, true, || Some([8, 0]));
        waiting.look(now + REST - MS, true, || Some([8, 0]));
        assert!(!waiting.rests());
        waiting.look(now + REST, true, || Some([8, 0]));
        assert!(waiting.rests());
        waiting.look(now + REST, false, || panic!("not looked at"));
        assert!(!waiting.rests());
    }

    #[test]
    fn reports_end_after_a_burst_until_the_disk_reads() {
        let (mut waiting, now) = resting();
        for opened in 0..BURST {
            assert!(!waiting.looks_away(now));
            waiting.push(now, opened);
        }
        assert!(waiting.looks_away(now));
        assert!(!waiting.looks_away(now), "once");
        assert_eq!(waiting.next_look(now), Some(RARELY));
        assert!(!waiting.looks_back(now + MS) && !waiting.was_away(now + MS));
        waiting.look(now + MS, true, || Some([8, 0]));
        assert!(waiting.looks_back(now + MS));
        assert!(waiting.was_away(now + MS) && !waiting.was_away(now + OVER * 2));
        assert_eq!(waiting.take().collect::<Vec<_>>(), (0..BURST).collect::<Vec<_>>());
        assert!(!waiting.looks_away(now + MS));
    }

    #[test]
    fn reports_begin_again_in_any_case() {
        let (mut waiting, now) = resting();
        assert!((0..BURST).all(|opened| waiting.push(now, opened).is_none()));
        assert!(waiting.looks_away(now));
        waiting.look(now + AWAY, true, NONE);
        assert!(waiting.rests() && waiting.looks_back(now + AWAY));
        waiting.push(now + AWAY, 0);
        assert!(!waiting.looks_away(now + AWAY), "a burst again");
    }

    #[test]
    fn slow_programs_do_not_end_reports() {
        let (mut waiting, mut now) = resting();
        for opened in 0..BURST * 10 {
            waiting.push(now, opened);
            assert!(!waiting.looks_away(now));
            now += MS * 2;
        }
    }

    proptest! {
        /// The first and the last ones stay, in their order; what is dropped is counted.
        #[test]
        fn the_first_and_last_stay(opens in 0..3000_u32) {
            let (mut waiting, now) = resting();
            let dropped = (0..opens).filter(|opened| waiting.push(now, *opened).is_some()).count();
            let left: Vec<u32> = waiting.take().collect();
            prop_assert_eq!(left.len() + dropped, opens as usize);
            prop_assert!(left.len() <= MOST && left.is_sorted());
            let first = FIRST.min(opens as usize);
            prop_assert!(left[..first].iter().copied().eq(0..first as u32));
            prop_assert_eq!(left.last().copied(), opens.checked_sub(1));
        }

        /// Nothing stays for ever, whenever opens come.
        #[test]
        fn all_expire(pauses in prop::collection::vec(0..12_000_u64, 1..60)) {
            let (mut waiting, mut now) = resting();
            for pause in pauses {
                now += MS * pause;
                let before = waiting.list.len();
                let expired = waiting.expire(now);
                prop_assert_eq!(waiting.list.len() + expired, before);
                prop_assert!(waiting.list.iter().all(|(at, _)| now < *at + LONGEST));
                prop_assert!(pause < 10_000 || waiting.is_empty());
                waiting.push(now, 0);
            }
            waiting.expire(now + OVER);
            prop_assert!(waiting.is_empty());
        }
    }
}
