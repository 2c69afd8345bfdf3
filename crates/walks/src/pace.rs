//! How fast a walk goes on by itself.
//!
//! What a file costs its program is not known from the model of the device alone. A drive reads on after a request, so that files next to one another cost
//! one positioning together whatever the order in which they are read, and some are in memory. The time from one open to the next, of files that were not
//! fetched and while nothing was, holds all of that: it is the most that the device can have taken for one of them.

use foreseek_units::{Instant, Nanos};

/// Files until a pace is believed.
const BELIEVED: u64 = 8;
/// Files after which older ones count half.
const RECENT: u64 = 512;
/// A longer time from one open to the next is something else: no file costs more than some positionings.
const LONGEST: Nanos = Nanos::from_millis(100);

/// The pace of one walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    took: Nanos,
    files: u64,
    last: Option<Instant>,
}

impl Pace {
    /// A file was opened that its program has read by itself.
    pub(crate) fn opened(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.took += Nanos(now.get().saturating_sub(last.get())).min(LONGEST);
            self.files += 1;
        }
        if self.files > RECENT {
            (self.took, self.files) = (self.took / 2, self.files / 2);
        }
    }

    /// Something else was done meanwhile: the time to the next open tells nothing.
    pub(crate) fn interrupted(&mut self) {
        self.last = None;
    }

    /// The most that so many files cost, where that is known.
    pub(crate) fn cost_of(&self, files: u64) -> Option<Nanos> {
        (self.files >= BELIEVED).then(|| Nanos((self.took.get() / self.files).saturating_mul(files)))
    }

    /// The paces of two walks that are one.
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
