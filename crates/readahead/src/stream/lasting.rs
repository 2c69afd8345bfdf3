//! How much of its share of memory a stream may have ahead of it: found by what is lost.
//!
//! A page that is read ahead lies in memory until about as many others have come as memory holds. What part of its share a
//! stream may have ahead of it differs by load and is not known beforehand: readers pause, are slow, or
//! leave much of what was read for them. So it is found while they read, as a weighted staircase finds a
//! threshold (Kaernbach 1991): a fetch that memory cut, and that lay there until its reader came to its end, makes the
//! part a little larger; a page that is found lost makes it smaller by [`WEIGHT`] times that step. It comes to rest where
//! there is one such loss to [`WEIGHT`] such fetches.
//!
//! Limits: one part for all streams; a loss is seen when its reader comes to it, as many fetches later as there are
//! readers, which is why the steps are small; a fetch that another is made ahead of, early, is not counted.

use foreseek_units::Pages;

/// The least, with which it begins, and the most. With an eighth as the least a machine of many small tasks lost up to a fifth
/// of its throughput; with twice its share random portions of files lost up to nine tenths (docs/learnt-depth.md, queue and
/// memory).
const RANGE: (f64, f64) = (0.5, 1.0);
/// How many fetches that last weigh as much as one that is lost. A loss costs about a fetch, so that a fiftieth is borne.
const WEIGHT: f64 = 50.0;
/// How much larger a fetch that lasts makes the part: ten seconds of a busy disk double it.
const STEP: f64 = 1.0 / 2000.0;

/// The part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    part: f64,
}

impl Default for Lasting {
    fn default() -> Self {
        Self { part: RANGE.0 }
    }
}

impl Lasting {
    /// What a stream may have ahead of it.
    pub(super) fn of(&self, share: Pages) -> Pages {
        share.scale(self.part)
    }

    /// A fetch that memory had cut lasted until its use.
    pub(super) fn kept(&mut self) {
        self.scale(1.0 + STEP);
    }

    /// What was fetched was lost before its use.
    pub(super) fn lost(&mut self) {
        self.scale(1.0 - STEP * WEIGHT);
    }

    fn scale(&mut self, by: f64) {
        self.part = (self.part * by).clamp(RANGE.0, RANGE.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand fetches of which one in `every` is lost where the part is above `edge`.
    fn after(edge: f64, every: u64) -> f64 {
        let mut lasting = Lasting::default();
        for n in 0..10_000 {
            let lost = lasting.part > edge && n % every == 0;
            if lost { lasting.lost() } else { lasting.kept() }
        }
        lasting.part
    }

    #[test]
    fn it_rests_where_one_fetch_in_fifty_is_lost() {
        assert!((0.68..0.72).contains(&after(0.7, 10)), "{}", after(0.7, 10));
        assert_eq!(after(0.7, 100), RANGE.1, "so few are borne");
        assert!((RANGE.0..0.51).contains(&after(0.0, 10)), "{}", after(0.0, 10));
    }
}
