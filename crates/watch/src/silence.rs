//! Times in which opens of directories are not reported.
//!
//! Each reported open of a directory costs the program that causes it some microseconds: a tenth of what it takes to list a
//! small directory in memory. Where programs open many directories while no disk reads anything, they find all of them in
//! memory, and nothing can be gained. Reports then end for [`LONGEST`] ([`Silence::begin`]). They begin again as soon as a disk
//! reads. So a walk that comes to the end of what is in memory is noticed with its first reads.
//!
//! What was opened meanwhile is not known. Of a directory that is opened within [`UNSURE`] of that, those above it may be
//! among these. A file that is read may lie in one of them.
//!
//! Pure: its inputs are counts and times.

use foreseek_units::{Instant, Nanos};
use std::time::Duration;

/// So many directories in this time are many. A program that waits for a disk that seeks opens fewer.
pub(crate) const MANY: usize = 32;
const WITHIN: Nanos = Nanos::from_millis(100);
/// The longest time without reports. Then programs that go on cost their events once more.
const LONGEST: Nanos = Nanos::from_secs(1);
/// The time between two looks at the disks: a read or two.
const LOOK: Duration = Duration::from_millis(10);
/// For so long after a time without reports a directory may lie below one whose open was not reported. A walk that goes on
/// opens further directories below the same ones in this time.
const UNSURE: Nanos = Nanos::from_secs(10);

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// The first of the counted opens, and their number.
    first: Instant,
    count: usize,
    /// Since when nothing is reported.
    since: Option<Instant>,
    /// When that was last over, and whether no disk has read since it began.
    over: Option<Instant>,
    before_reads: bool,
}

impl Silence {
    /// So many directories were opened while no disk reads. Returns whether these are many.
    pub(crate) fn opened(&mut self, now: Instant, count: usize) -> bool {
        if self.first + WITHIN <= now {
            (self.first, self.count) = (now, 0);
        }
        self.count += count;
        self.count >= MANY
    }

    /// Opens are not reported from now on.
    pub(crate) fn begin(&mut self, now: Instant) {
        (self.since, self.count, self.before_reads) = (Some(now), 0, true);
    }

    /// Whether opens are not reported.
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Whether opens are to be reported again. `rest`: whether they may wait on all disks.
    pub(crate) fn is_over(&self, now: Instant, rest: bool) -> bool {
        self.since.is_some_and(|since| !rest || since + LONGEST <= now)
    }

    /// Opens are reported again.
    pub(crate) fn end(&mut self, now: Instant) {
        if self.since.take().is_some() {
            self.over = Some(now);
        }
    }

    /// Whether a disk reads for the first time since. Programs may read files whose directories were opened without a
    /// report. Says so once.
    pub(crate) fn misses_reads(&mut self, now: Instant, reads: bool) -> bool {
        let first = reads && std::mem::take(&mut self.before_reads);
        first && self.is_unsure(now)
    }

    /// When to look at the disks again even if there is no event until then.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.since.map(|_| LOOK)
    }

    /// Whether directories above one that is opened now may have been opened without a report.
    pub(crate) fn is_unsure(&self, now: Instant) -> bool {
        self.over.is_some_and(|over| now < over + UNSURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);
    const START: Instant = Instant(1_000_000_000);

    #[test]
    fn only_many_opens_in_a_short_time_count() {
        let mut silence = Silence::default();
        let pause = WITHIN.get() / (MANY as u64 - 1);
        let mut now = START;
        for _ in 0..10 * MANY {
            assert!(!silence.opened(now, 1), "a program that waits for a disk");
            now += Nanos(pause + 1);
        }
        let mut silence = Silence::default();
        let opens = (0..MANY as u64).map(|at| silence.opened(START + Nanos(at * pause), 1));
        assert_eq!(opens.filter(|many| *many).count(), 1);
        assert!(Silence::default().opened(START, MANY));
    }

    #[test]
    fn reports_begin_again_with_the_first_read_or_after_a_time() {
        let mut silence = Silence::default();
        assert!(!silence.is_over(START, false) && silence.next_look().is_none(), "it has not begun");
        silence.begin(START);
        assert!(!silence.is_over(START + LONGEST - MS, true) && silence.next_look().is_some());
        assert!(silence.is_over(START + MS, false) && silence.is_over(START + LONGEST, true));
        silence.end(START + LONGEST);
        assert!(!silence.is_over(START + LONGEST * 2, false) && silence.next_look().is_none());
        assert!(!silence.opened(START + LONGEST, MANY - 1), "counted anew");
    }

    #[test]
    fn for_some_time_after_it_the_directories_above_are_unsure() {
        let mut silence = Silence::default();
        silence.end(START);
        assert!(!silence.is_unsure(START), "it has never begun");
        silence.begin(START);
        assert!(!silence.is_unsure(START), "all was reported until then");
        assert!(!silence.misses_reads(START, false));
        silence.end(START + MS);
        assert!(!silence.misses_reads(START + MS, false));
        assert!(silence.misses_reads(START + MS, true) && !silence.misses_reads(START + MS, true), "once");
        silence.begin(START);
        assert!(!silence.misses_reads(START + UNSURE * 2, true), "long ago");
        silence.end(START + MS);
        assert!(silence.is_unsure(START + UNSURE) && !silence.is_unsure(START + UNSURE + MS));
    }
}
