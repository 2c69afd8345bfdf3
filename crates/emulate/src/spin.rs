//! How long the timer may spin, and how long before a due time it begins to.
//!
//! A sleeping thread wakes some tens of microseconds late, so the last part of a wait is spent spinning.
//! [`Margin`] learns the length of that part from the lateness of wake-ups; [`SpinBudget`] limits all
//! spinning to a share of a core.

use foreseek_units::{Instant, Nanos};

/// The share of a core that spinning may take, as a divisor.
const SHARE: u64 = 4;
/// The window over which the share is counted: short enough that an idle disk may spin at once when it is
/// used again, long enough that a burst of requests is timed precisely.
const WINDOW: Nanos = Nanos::from_millis(1000);
/// Parts of the window, each of which expires as a whole.
const PARTS: usize = 10;
const PART: Nanos = Nanos(WINDOW.0 / PARTS as u64);

/// Counts spinning over the last [`WINDOW`].
#[derive(Clone, Debug, Default)]
pub(crate) struct SpinBudget {
    parts: [Nanos; PARTS],
    /// The number of the newest part, counted from time zero.
    newest: u64,
    total: Nanos,
}

impl SpinBudget {
    /// How long the timer may spin from `now` on.
    pub(crate) fn left(&mut self, now: Instant) -> Nanos {
        self.forget(now);
        (WINDOW / SHARE) - self.parts.iter().copied().sum()
    }

    /// Adds a time spent spinning.
    pub(crate) fn spent(&mut self, now: Instant, time: Nanos) {
        self.forget(now);
        self.parts[self.newest as usize % PARTS] += time;
        self.total += time;
    }

    /// All time spent spinning so far.
    pub(crate) fn total(&self) -> Nanos {
        self.total
    }

    fn forget(&mut self, now: Instant) {
        let part = now.get() / PART.get();
        let passed = part.saturating_sub(self.newest).min(PARTS as u64);
        for gone in 1..=passed {
            self.parts[(self.newest + gone) as usize % PARTS] = Nanos::ZERO;
        }
        // After a long pause, the loop has cleared all parts.
        self.newest = self.newest.max(part);
    }
}

/// How long before its due time a sleep must end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin(Nanos);

impl Margin {
    /// The initial and largest value: an idle virtual machine's wake-up time at p99.
    const MOST: Nanos = Nanos::from_micros(200);
    /// The smallest value: a wake-up on an otherwise busy core is later than this.
    const LEAST: Nanos = Nanos::from_micros(20);
    /// Each wake-up in time reduces the margin by a 64th, and each late one doubles it, so that about one in
    /// a hundred is late.
    const DECAY: u64 = 64;

    pub(crate) const fn new() -> Self {
        Self(Self::MOST)
    }

    pub(crate) const fn get(self) -> Nanos {
        self.0
    }

    /// A sleep ended this much later than requested.
    pub(crate) fn woke_late_by(&mut self, late: Nanos) {
        self.0 = if late > self.0 {
            (self.0 * 2).min(Self::MOST)
        } else {
            (self.0 - self.0 / Self::DECAY).max(Self::LEAST)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// If the timer spins as much as it may, whatever the pauses, spinning stays within the share in
        /// every window of whole parts.
        #[test]
        fn no_window_has_more_than_the_share(pauses in prop::collection::vec(0..3_000_000_000u64, 1..200)) {
            let mut budget = SpinBudget::default();
            let mut now = Instant(0);
            let mut spins: Vec<(u64, Nanos)> = Vec::new();
            for pause in pauses {
                now += Nanos(pause % 400_000_000);
                let left = budget.left(now);
                let spin = left.min(Nanos::from_millis(30));
                budget.spent(now, spin);
                spins.push((now.get() / PART.get(), spin));
            }
            for (part, _) in &spins {
                let within = |other: &u64| (*part..*part + PARTS as u64).contains(other);
                let spun: Nanos = spins.iter().filter(|(at, _)| within(at)).map(|(_, spin)| *spin).sum();
                prop_assert!(spun <= WINDOW / SHARE, "{spun} in one window");
            }
        }
    }

    #[test]
    fn after_a_pause_the_whole_budget_is_available() {
        let mut budget = SpinBudget::default();
        let now = Instant(77_000_000_000);
        budget.spent(now, Nanos::from_millis(250));
        assert_eq!(budget.left(now), Nanos::ZERO);
        assert_eq!(budget.left(now + WINDOW), Nanos::from_millis(250));
        assert_eq!(budget.total(), Nanos::from_millis(250));
    }

    #[test]
    fn the_margin_follows_the_wake_ups() {
        let mut margin = Margin::new();
        for _ in 0..1000 {
            margin.woke_late_by(Nanos::from_micros(5));
        }
        assert_eq!(margin.get(), Margin::LEAST);
        for _ in 0..10 {
            margin.woke_late_by(Nanos::from_millis(3));
        }
        assert_eq!(margin.get(), Margin::MOST);
    }
}
