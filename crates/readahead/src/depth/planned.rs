//! A plan that is kept until it is too old.
//!
//! Solving a plan takes some ten microseconds. It is solved again when enough more streams have been learnt from, or
//! when the competitive depth has moved.

use super::plan::{Plan, RatioBound};
use super::survival::Survival;
use foreseek_units::Pages;

/// A class is planned again after so many more streams, or earlier when their number has grown by half.
const PLAN_EVERY: u64 = 16;
/// The relative change of the competitive depth after which a plan is solved again.
const UNIT_TOLERANCE: f64 = 0.1;
/// The positioning cost of a fetch that continues a stream, in positionings. In the model it is one: the device has
/// been elsewhere. With a single stream, or a scheduler that waits for its reader, it is nearly zero. A half was
/// nearly as good as the better of the two in every load tried (docs/internals/adaptive-depth.md). The bound
/// counts one.
pub const CONTINUING: f64 = 0.5;

/// A plan and its parameters.
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
