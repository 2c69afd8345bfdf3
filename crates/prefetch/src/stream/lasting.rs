//! How much of its share of memory a stream may have ahead of it: found by what is lost.
//!
//! A page that is read ahead lies in memory until about as many others have come as memory holds. Were
//! all streams alike, each could have its whole share ahead of it. They are not: some pause, some are slow, and
//! much that is read is never used. So the part of the share is found while it works, as a weighted staircase finds a
//! threshold (Kaernbach 1991): a fetch that memory cut and that lay there until its use makes the part a little
//! larger, one that was lost before makes it smaller by [`WEIGHT`] times as much. It comes to rest where one fetch in
//! [`WEIGHT`] is lost.
//!
//! Limits: one part for all streams; a loss is seen when its reader comes to it, as many fetches later as there are
//! readers, which is why the steps are small.

use foreseek_units::Pages;

/// The least, with which it begins, and the most. With less, a machine of many small tasks lost up to a fifth of its
/// throughput, since those who pause lose their pages with less, too; with more than its share, whole files lost a seventh
/// (docs/learnt-depth.md, queue and memory).
const RANGE: (f64, f64) = (0.5, 1.0);
/// How many fetches that last weigh as much as one that is lost. A loss costs about a fetch, so that a fiftieth of all is
/// borne.
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

    /// A fetch was lost before its use.
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
        assert!(after(0.0, 10) < 0.51, "never below the least: {}", after(0.0, 10));
    }
}
