//! The speed of a walk without prefetching.
//!
//! The model of the device does not show how long a file takes its program. A drive reads ahead after a
//! request, so that neighbouring files cost one positioning together in whatever order they are read. Some
//! files are in memory. The time from one open to the next includes all that. It is taken for files that were
//! not fetched, outside of fetches. It is the most that the device can have taken for one of them.

use foreseek_units::{Instant, Nanos};

/// Files before a pace is known.
const BELIEVED: u64 = 8;
/// Files after which older ones count half.
const RECENT: u64 = 512;
/// A longer time between two opens has another reason: no file costs more than some positionings.
const LONGEST: Nanos = Nanos::from_millis(100);

/// The pace of one walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    took: Nanos,
    files: u64,
    last: Option<Instant>,
}

impl Pace {
    /// A file was opened that was not fetched for its program.
    pub(crate) fn opened(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.took += Nanos(now.get().saturating_sub(last.get())).min(LONGEST);
            self.files += 1;
        }
        if self.files > RECENT {
            (self.took, self.files) = (self.took / 2, self.files / 2);
        }
    }

    /// The walk was interrupted: the time to the next open does not count.
    pub(crate) fn interrupted(&mut self) {
        self.last = None;
    }

    /// The most time that so many files take, if it is known.
    pub(crate) fn cost_of(&self, files: u64) -> Option<Nanos> {
        (self.files >= BELIEVED).then(|| Nanos((self.took.get() / self.files).saturating_mul(files)))
    }

    /// Joins the paces of two walks that are one.
    pub(crate) fn join(&mut self, other: &Self) {
        self.took += other.took;
        self.files += other.files;
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_the_mean_time_of_undisturbed_opens() {
        let (mut pace, mut now) = (Pace::default(), Instant::ZERO);
        for file in 0..40 {
            pace.opened(now);
            now += Nanos::from_millis(if file % 2 == 0 { 1 } else { 3 });
            if file == 20 {
                pace.interrupted();
                now += Nanos::from_secs(1);
            }
        }
        let [some, many] = [1, 1000].map(|files| pace.cost_of(files).expect("known").as_secs_f64());
        assert!((some - 0.002).abs() < 0.0001 && (many - 2.0).abs() < 0.1, "{some} {many}");
        assert_eq!(Pace::default().cost_of(1), None);
    }
}
