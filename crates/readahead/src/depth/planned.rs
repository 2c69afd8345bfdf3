//! A plan as long as it serves.
//!
//! Solving one takes some ten microseconds, and streams do not change so fast: it is kept until so many more were learnt from, or
//! the competitive depth has moved.

use super::plan::{Plan, RatioBound};
use super::survival::Survival;
use foreseek_units::Pages;

/// After how many streams more a class is planned anew; before that, whenever their number has grown
/// by half.
const PLAN_EVERY: u64 = 16;
/// By how much the competitive depth may move before plans are made anew.
const UNIT_TOLERANCE: f64 = 0.1;
/// What a fetch that continues a stream costs beside its transfer, in switches. In the model it is one:
/// the device has been elsewhere. Where it has not (one reader, or a scheduler that waits for him),
/// it is next to none. A half lost nothing to speak of against the better of the two in any load
/// that was tried (docs/internals/adaptive-depth.md). The bound reckons with one.
pub const CONTINUING: f64 = 0.5;

/// A plan and what it was made for.
#[derive(Clone, Debug)]
pub struct Planned {
    plan: Plan,
    seen: u64,
    /// The competitive depth, in pages.
    unit: f64,
    end: Pages,
}

impl Planned {
    /// For streams of these lengths in files of at most `end` pages, learnt from `seen` streams.
    #[must_use]
    pub fn solve(survival: Survival, ratio_bound: RatioBound, end: Pages, seen: u64) -> Self {
        let plan = Plan::solve(survival, ratio_bound, end, CONTINUING);
        Self { plan, seen, unit: ratio_bound.unit(), end }
    }

    /// Whether it still serves after so many streams, for this competitive depth and a file of this length.
    #[must_use]
    pub fn serves(&self, seen: u64, unit: f64, length: Pages) -> bool {
        seen.abs_diff(self.seen) < PLAN_EVERY.min(self.seen / 2 + 1)
            && (unit - self.unit).abs() <= self.unit * UNIT_TOLERANCE
            && length <= self.end
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_serves_until_more_was_learnt_or_the_device_has_changed() {
        let made =
            |seen| Planned::solve(Survival::of([Pages(40)]), RatioBound::new(3.0, 100.0), Pages(1000), seen);
        let last = |seen| (0..100).take_while(|more| made(seen).serves(seen + more, 100.0, Pages(1))).count();
        assert_eq!([last(0), last(1), last(10), last(100)], [1, 1, 6, 16]);
        assert!(made(9).serves(9, 109.0, Pages(1000)) && made(9).serves(9, 91.0, Pages(1000)));
        assert!(!made(9).serves(9, 111.0, Pages(1)) && !made(9).serves(9, 89.0, Pages(1)));
        assert!(!made(9).serves(9, 100.0, Pages(1001)), "a longer file");
    }
}
