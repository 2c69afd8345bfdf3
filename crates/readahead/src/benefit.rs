//! Whether prefetching pays on a file system, and stepping aside while it does not.
//!
//! It compares two amounts of device time:
//!
//! - *saved*: without prefetching, each [`WINDOW`] of pages that were fetched ahead and then read would have
//!   been one wait for the device;
//! - *spent*: the transfer time of pages that were fetched ahead and not read, and their share of the
//!   positioning for fetches that only read ahead.
//!
//! [`StepAside`] sums up both over each [`SAMPLE`] of pages fetched ahead. If more was spent than saved in
//! two samples in a row, it *steps aside*: newly opened files are read without prefetching. After [`OPENS`]
//! opens or [`TIME`] it *tries again*: files are opened with prefetching until [`TRIAL`] pages were fetched
//! ahead. A trial that pays ends the stepping aside. A trial that does not pay doubles the time to the next
//! one, up to [`PATIENCE`] times.
//!
//! Limits:
//!
//! - It is unknown which pages of the prefetch cache will still be read. Two competitive sizes of each active
//!   stream may be: a stream with the bound of 3 may be that far ahead. Pages beyond count as not read.
//! - All files of the file system share one account. The prefetcher itself learns the classes of files whose
//!   readers mostly stop early.
//! - The server's processor time is not counted.

use crate::serving::Stats;
use foreseek_units::{Instant, Nanos, Pages, Rate};

/// The kernel's own read-ahead, 128 KiB: without prefetching each wait for the device brings at least this
/// much.
const WINDOW: Pages = Pages(32);
/// Pages fetched ahead before a sample is judged, 64 MiB: some hundred fetches of a disk's competitive size.
pub const SAMPLE: Pages = Pages(16_384);
/// The same for a trial, 16 MiB: only a quarter, since these pages are what trying costs.
pub const TRIAL: Pages = Pages(4096);
/// Samples in a row that do not pay before it steps aside. A single one may come from a program that is
/// stopped, or from a job that has just begun.
const IN_A_ROW: u32 = 2;
/// Opens without prefetching before it tries again. With files of a megabyte, trials are a sixteenth of the
/// data read.
pub const OPENS: u64 = 256;
/// Longest time before it tries again, for programs that open few files.
pub const TIME: Nanos = Nanos::from_secs(60);
/// Longest wait, as a multiple of [`OPENS`] and [`TIME`]: an hour, or 16,384 opens.
const PATIENCE: u64 = 64;

/// Counters since a mount began, and the costs of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Pages fetched ahead.
    pub ahead: Pages,
    /// Those of them that were read.
    pub used: Pages,
    /// Pages that active readers may still read.
    pub open: Pages,
    /// Visits of the device that only read ahead.
    pub visits: u64,
    /// Time to move to another place.
    pub positioning: Nanos,
    /// Transfer rate there.
    pub rate: Rate,
}

impl From<&Stats> for Totals {
    fn from(stats: &Stats) -> Self {
        let size = stats.depth.min(stats.bound).get();
        Self {
            ahead: stats.fetched_ahead,
            used: stats.used,
            open: stats.cached.min(Pages(size.saturating_mul(2).saturating_mul(stats.active_streams))),
            visits: stats.visits_ahead,
            positioning: stats.unloaded,
            rate: stats.rate,
        }
    }
}

/// What prefetching saved and cost over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Balance {
    /// Pages fetched ahead.
    pub ahead: Pages,
    /// Pages that were fetched ahead and read.
    pub used: Pages,
    /// Device time saved: waits that did not happen.
    pub saved: Nanos,
    /// Device time spent on pages that were not read.
    pub spent: Nanos,
}

impl Balance {
    /// The balance from one moment to a later one.
    #[must_use]
    pub fn between(before: &Totals, after: &Totals) -> Self {
        let since = |before: Pages, after: Pages| Pages(after.get().saturating_sub(before.get()));
        let ahead = since(before.ahead, after.ahead);
        let used = since(before.used, after.used);
        // Pages that were open before have been used or not by now.
        let unused = (ahead.get() + before.open.get()).saturating_sub(used.get() + after.open.get());
        let visits = after.visits.saturating_sub(before.visits) as f64;
        let positioning = after.positioning.as_secs_f64();
        let share = if ahead == Pages(0) { 0.0 } else { (unused as f64 / ahead.get() as f64).min(1.0) };
        let transfer = after.rate.time_for(Pages(unused).bytes()).as_secs_f64();
        Self {
            ahead,
            used,
            saved: Nanos::from_secs_f64(used.get() as f64 / WINDOW.get() as f64 * positioning),
            spent: Nanos::from_secs_f64(transfer + visits * share * positioning),
        }
    }

    /// Whether it saved at least as much as it cost.
    #[must_use]
    pub fn pays(&self) -> bool {
        self.saved >= self.spent
    }
}

/// Decides whether newly opened files are read with prefetching. See the module's documentation.
#[derive(Clone, Debug)]
pub struct StepAside {
    state: State,
    /// Totals at the start of the current sample.
    begun: Totals,
    /// The last whole sample.
    last: Balance,
    times: u64,
    opens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Files are opened with prefetching; the last `missed` samples did not pay.
    Prefetching { missed: u32 },
    /// Files are opened without prefetching, for this many more opens or until this time.
    Aside { opens: u64, until: Instant, patience: u64 },
    /// Files are opened with prefetching, to see whether it pays again.
    Trial { patience: u64 },
}

impl Default for StepAside {
    fn default() -> Self {
        Self {
            state: State::Prefetching { missed: 0 },
            begun: Totals::default(),
            last: Balance::default(),
            times: 0,
            opens: 0,
        }
    }
}

impl StepAside {
    /// A file is opened, after `ahead` pages were fetched ahead in all. Returns whether it is to be read
    /// without prefetching. `totals` is called only where a sample begins or ends.
    pub fn opens(&mut self, now: Instant, ahead: Pages, totals: impl FnOnce() -> Totals) -> bool {
        let is_whole = |sample: Pages| ahead >= self.begun.ahead + sample;
        match self.state {
            State::Prefetching { missed } if is_whole(SAMPLE) => self.judge(now, totals(), missed, 1),
            State::Trial { patience } if is_whole(TRIAL) => self.judge(now, totals(), IN_A_ROW - 1, patience),
            State::Aside { opens, until, patience } if opens == 0 || now >= until => {
                self.begun = totals();
                self.state = State::Trial { patience };
            }
            State::Aside { opens, until, patience } => {
                self.state = State::Aside { opens: opens - 1, until, patience };
            }
            _ => {}
        }
        let aside = self.is_aside();
        self.opens += u64::from(aside);
        aside
    }

    /// Judges a whole sample; the `missed` samples before it did not pay.
    fn judge(&mut self, now: Instant, totals: Totals, missed: u32, patience: u64) {
        self.last = Balance::between(&self.begun, &totals);
        self.begun = totals;
        let missed = if self.last.pays() { 0 } else { missed + 1 };
        if missed < IN_A_ROW {
            self.state = State::Prefetching { missed };
            return;
        }
        let until = now + Nanos(TIME.0.saturating_mul(patience));
        self.times += u64::from(matches!(self.state, State::Prefetching { .. }));
        let next = patience.saturating_mul(2).min(PATIENCE);
        self.state = State::Aside { opens: OPENS.saturating_mul(patience), until, patience: next };
    }

    /// Whether files are opened without prefetching.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        matches!(self.state, State::Aside { .. })
    }

    /// Whether prefetching is tried again after it did not pay.
    #[must_use]
    pub fn tries(&self) -> bool {
        matches!(self.state, State::Trial { .. })
    }

    /// How often it has stepped aside.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Files that were opened without prefetching.
    #[must_use]
    pub fn opened_aside(&self) -> u64 {
        self.opens
    }

    /// The last whole sample; all zero before the first.
    #[must_use]
    pub fn last(&self) -> Balance {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    /// A disk: transferring a window takes a tenth of positioning.
    fn disk(ahead: u64, used: u64) -> Totals {
        Totals {
            ahead: Pages(ahead),
            used: Pages(used),
            open: Pages(0),
            visits: 0,
            positioning: Nanos::from_micros(10_000),
            rate: Rate::mb_per_second(131.072),
        }
    }

    /// A device without moving parts: transferring a window takes five times as long as positioning.
    fn flash(ahead: u64, used: u64) -> Totals {
        Totals { positioning: Nanos::from_micros(200), ..disk(ahead, used) }
    }

    fn opens(it: &mut StepAside, now: Instant, totals: Totals) -> bool {
        it.opens(now, totals.ahead, || totals)
    }

    fn at(seconds: u64) -> Instant {
        Instant::default() + Nanos::from_secs(seconds)
    }

    #[test]
    fn a_wait_saved_outweighs_as_many_unread_windows_as_it_takes() {
        let pays = |totals: Totals| Balance::between(&Totals::default(), &totals).pays();
        assert!(pays(disk(1100, 100)) && !pays(disk(1200, 100)), "ten unread pages for one that is read");
        assert!(pays(flash(1200, 1001)) && !pays(flash(1300, 1000)), "a fifth of those that are read");
        assert!(!pays(Totals { visits: 4, ..disk(1000, 100) }), "and visits for nothing");
        assert!(pays(Totals { open: Pages(600), ..disk(1700, 100) }), "some may be read yet");
        assert!(pays(disk(0, 0)), "nothing is known");
    }

    #[test]
    fn it_steps_aside_after_two_samples_and_tries_again_ever_more_rarely() {
        let (mut it, sample, trial) = (StepAside::default(), SAMPLE.get(), TRIAL.get());
        assert!(!opens(&mut it, at(0), disk(sample, 0)), "one may be chance");
        assert!(opens(&mut it, at(0), disk(2 * sample, 0)) && it.times() == 1);
        let mut ahead = 2 * sample;
        for patience in [1, 2, 4] {
            let aside = (0..2000).take_while(|_| opens(&mut it, at(0), disk(ahead, 0))).count() as u64;
            assert_eq!(aside, OPENS * patience);
            assert!(
                it.tries() && !opens(&mut it, at(0), disk(ahead + trial - 1, 0)),
                "the trial is not over"
            );
            ahead += trial;
            assert!(opens(&mut it, at(0), disk(ahead, 0)));
        }
        assert_eq!(it.times(), 1, "a trial that fails is the same time");
        // The clock ends the wait as well.
        assert!(!opens(&mut it, at(3600), disk(ahead, 0)) && it.tries());
        assert!(!opens(&mut it, at(3600), disk(ahead + trial, trial)) && !it.tries(), "it pays again");
        assert!(it.last().pays() && it.last().used == TRIAL);
    }

    #[test]
    fn a_device_without_positioning_time_has_it_aside_where_a_disk_has_not() {
        let run = |of: fn(u64, u64) -> Totals| {
            let mut it = StepAside::default();
            (0..100u64).any(|turn| opens(&mut it, at(turn), of(turn * 2000, turn * 1000)))
        };
        assert!(run(flash) && !run(disk));
    }

    proptest! {
        /// It never steps aside where all pages are read, and always does where none is.
        #[test]
        fn all_pages_read_or_none_decides(steps in prop::collection::vec(1u64..20_000, 1..200)) {
            let (mut all, mut none) = (StepAside::default(), StepAside::default());
            let mut ahead = 0;
            for step in &steps {
                ahead += step;
                prop_assert!(!opens(&mut all, at(0), disk(ahead, ahead)));
                opens(&mut none, at(0), disk(ahead, 0));
            }
            prop_assert_eq!(none.times() > 0, none.opened_aside() > 0);
            prop_assert!(ahead < 2 * (SAMPLE.get() + 20_000) || none.times() == 1);
        }

        /// At most one open in 256 begins a trial, unless the clock does. The same events give the same
        /// results.
        #[test]
        fn trials_are_rare_and_it_is_deterministic(
            steps in prop::collection::vec((0u64..3000, 0u64..=100, 0u64..2_000), 1..2000)
        ) {
            let (mut one, mut other) = (StepAside::default(), StepAside::default());
            let (mut ahead, mut used, mut ms) = (0, 0, 0);
            let (mut files, mut trials) = (0u64, 0u64);
            for (step, share, later) in steps {
                (ahead, used, ms) = (ahead + step, used + step * share / 100, ms + later);
                let now = Instant::default() + Nanos::from_micros(ms * 1000);
                let (totals, tried) = (flash(ahead, used), one.tries());
                prop_assert_eq!(opens(&mut one, now, totals), opens(&mut other, now, totals));
                files += 1;
                trials += u64::from(one.tries() && !tried);
            }
            prop_assert!(trials <= files / OPENS + ms * 1000 / (TIME.0 / 1000) + 1, "{} of {}", trials, files);
            prop_assert_eq!(one.last(), other.last());
            prop_assert!(one.opened_aside() <= files);
        }

        /// Decreasing counters and rates of zero cause no panic.
        #[test]
        fn no_counts_cause_a_panic(counts in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()), 1..50)) {
            let mut it = StepAside::default();
            for (ahead, used, open, visits) in counts {
                let totals = Totals {
                    ahead: Pages(ahead.into()),
                    used: Pages(used.into()),
                    open: Pages(open.into()),
                    visits: visits.into(),
                    positioning: Nanos(used.into()),
                    rate: Rate::mb_per_second(f64::from(visits % 1000) + 0.001),
                };
                opens(&mut it, Instant::default() + SECOND, totals);
            }
        }
    }
}
