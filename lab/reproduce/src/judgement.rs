//! The verdict on a claim: whether it holds, whether strictly, and how much of the papers' effect there is.
//!
//! One set of rules for all claims (`docs/lab/reproduction.md` has them as a table). A claim *holds* within its
//! tolerance. A gain that exceeds the stated one by more than the tolerance is *beyond*: neither a miss of the
//! system nor a reproduction. *Strict* is what a sceptical reader would accept: the mean, not the edge of an
//! interval, lies on the paper's side of 1, the interval excludes 1, and there is at least half of the paper's
//! effect.

use crate::claim::{Claim, Gain, Relation};
use crate::{Error, Measured};
use foreseek_simulate::experiment::Summary;

/// How far `approx` may be off (times and ratios).
const APPROX: f64 = 0.15;
/// How far a depth may be off: one unit.
const DEPTH: f64 = 1.0;
/// The share of the stated largest value that must be reached.
const UP_TO: f64 = 0.85;
/// By how much a stated range is widened at either end.
const RANGE: f64 = 0.1;
/// A ratio that is stated nearer to 1 than this must lie on the same side of it.
const NEAR_ONE: f64 = 0.15;
/// Ratios within this of 1 count as 1.
const ONE: f64 = 0.02;
/// A stated effect of at least this must differ from none, for a strict verdict.
const EFFECT: f64 = 0.05;
/// The share of the stated effect that a strict verdict needs.
const HALF: f64 = 0.5;

/// The standing of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds within the tolerance.
    Holds,
    /// The gain exceeds the stated one by more than the tolerance.
    Beyond,
    /// It does not hold.
    Missed,
}

impl Standing {
    /// Its word in files of results.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Beyond => "beyond",
            Self::Missed => "missed",
        }
    }

    /// The standing of this word; any other word is a miss.
    #[must_use]
    pub fn named(word: &str) -> Self {
        [Self::Holds, Self::Beyond].into_iter().find(|one| one.word() == word).unwrap_or(Self::Missed)
    }
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Its standing.
    pub standing: Standing,
    /// Whether it holds strictly.
    pub strict: bool,
    /// For a ratio that states an effect: the measured effect as a share of it. 0.25 is a gain of 5 % where 20
    /// % are stated; below 0 it is a loss.
    pub effect: Option<f64>,
    /// For other values: the measured value over the stated one.
    pub times: Option<f64>,
}

impl Verdict {
    /// The verdict on a claim.
    ///
    /// # Errors
    /// The claim's relation is unknown.
    pub fn of(claim: &Claim, measured: &Measured) -> Result<Self, Error> {
        let judge = Judge { claim, measured, relation: claim.relation()? };
        let standing = judge.standing();
        Ok(Self {
            standing,
            strict: standing == Standing::Holds && judge.is_strict(),
            effect: judge.effect(),
            times: judge.times(),
        })
    }

    /// Whether it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.standing == Standing::Holds
    }
}

struct Judge<'a> {
    claim: &'a Claim,
    measured: &'a Measured,
    relation: Relation,
}

impl Judge<'_> {
    fn value(&self) -> &Summary {
        &self.measured.value
    }

    fn is_ratio(&self) -> bool {
        self.claim.unit == "x"
    }

    fn standing(&self) -> Standing {
        match () {
            () if self.is_beyond() => Standing::Beyond,
            () if self.is_within() => Standing::Holds,
            () => Standing::Missed,
        }
    }

    /// NaN is within nothing.
    fn is_within(&self) -> bool {
        let Summary { mean, low, high, .. } = *self.value();
        let one = [mean];
        let judged = self.measured.bound.as_deref().unwrap_or(&one);
        let overlaps = |from: f64, to: f64| high >= from && low <= to;
        match self.relation {
            Relation::Approx(v) if self.claim.is_depth() => overlaps(v - DEPTH, v + DEPTH),
            Relation::Approx(v) => {
                overlaps(v - APPROX * v, v + APPROX * v) && (!self.is_near_one(v) || is_on_the_side(v, mean))
            }
            Relation::UpTo(v) if self.is_near_one(v) => overlaps(1.0 - RANGE, v * (1.0 + RANGE)),
            Relation::UpTo(v) => mean >= UP_TO * v,
            Relation::AtLeast(v) => judged.iter().all(|value| *value >= v),
            Relation::AtMost(v) => judged.iter().all(|value| *value <= v),
            Relation::LessThan(v) => judged.iter().all(|value| *value < v),
            Relation::Between(a, b) => overlaps(a * (1.0 - RANGE), b * (1.0 + RANGE)),
            Relation::Exact => self.measured.exact == Some(true),
        }
    }

    fn is_near_one(&self, v: f64) -> bool {
        // 1.15, which a double stores as slightly less, is not near 1.
        self.is_ratio() && (v - 1.0).abs() < NEAR_ONE - 1e-9
    }

    /// Whether a gain exceeds a stated gain by more than the tolerance: a larger ratio of rates, a smaller
    /// ratio of times. A loss that exceeds what is stated is a miss.
    fn is_beyond(&self) -> bool {
        let (Relation::Approx(v) | Relation::UpTo(v)) = self.relation else { return false };
        if !self.is_ratio() || (v - 1.0).abs() <= ONE {
            return false;
        }
        let Summary { mean, low, high, .. } = *self.value();
        match (self.claim.gain(), &self.relation) {
            (Gain::Larger, Relation::UpTo(_)) => mean > v * (1.0 + APPROX),
            (Gain::Larger, _) => v > 1.0 && low > v * (1.0 + APPROX),
            (Gain::Smaller, _) => v < 1.0 && high < v * (1.0 - APPROX),
            (Gain::Neither, _) => false,
        }
    }

    fn is_strict(&self) -> bool {
        let Summary { mean, low, high, .. } = *self.value();
        let within = |from: f64, to: f64| (from..=to).contains(&mean);
        let (stated, near) = match self.relation {
            Relation::Approx(v) if self.claim.is_depth() => (None, within(v - DEPTH, v + DEPTH)),
            Relation::Approx(v) => (Some(v), within(v * (1.0 - APPROX), v * (1.0 + APPROX))),
            Relation::UpTo(v) => (Some(v), within(UP_TO * v, v * (1.0 + APPROX))),
            Relation::Between(a, b) => (Some(if a > 1.0 { a } else { b }), within(a, b)),
            Relation::AtLeast(_) | Relation::AtMost(_) | Relation::LessThan(_) | Relation::Exact => {
                (None, true)
            }
        };
        let Some(v) = stated.filter(|_| self.is_ratio()) else { return near };
        let told_apart = (v - 1.0).abs() < EFFECT || low > 1.0 || high < 1.0;
        let half = (v - 1.0).abs() <= ONE || (mean - 1.0) / (v - 1.0) >= HALF;
        near && is_on_the_side(v, mean) && told_apart && half
    }

    /// The share of a stated gain or loss that was measured; of a range, the end nearer to 1 counts. `None`
    /// where more than the range was measured, and for a bound of 1.
    fn effect(&self) -> Option<f64> {
        let mean = self.value().mean;
        let v = match self.relation {
            Relation::Approx(v) | Relation::UpTo(v) => v,
            Relation::AtLeast(v) if v > 1.0 => v,
            Relation::Between(a, b) if a > 1.0 && mean <= b => a,
            Relation::Between(a, b) if b < 1.0 && mean >= a => b,
            _ => return None,
        };
        let states_one = self.is_ratio() && (v - 1.0).abs() > ONE;
        states_one.then(|| (mean - 1.0) / (v - 1.0)).filter(|effect| effect.is_finite())
    }

    /// The value over the stated one, where no share of an effect shows how far off it is; over the end of a
    /// range that it exceeds.
    fn times(&self) -> Option<f64> {
        let mean = self.value().mean;
        let v = match self.relation {
            Relation::Approx(v)
            | Relation::UpTo(v)
            | Relation::AtLeast(v)
            | Relation::AtMost(v)
            | Relation::LessThan(v) => v,
            Relation::Between(a, b) if (a..=b).contains(&mean) => f64::midpoint(a, b),
            Relation::Between(a, b) => mean.clamp(a, b),
            Relation::Exact => return None,
        };
        let times = mean / v;
        (self.effect().is_none() && times.is_finite()).then_some(times)
    }
}

/// Whether a ratio is on the same side of 1 as the stated one.
fn is_on_the_side(stated: f64, mean: f64) -> bool {
    if (stated - 1.0).abs() <= ONE {
        return (mean - 1.0).abs() <= ONE;
    }
    (stated > 1.0) == (mean > 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Beyond, Holds, Missed};

    fn claim(relation: &str, value: &str, unit: &str) -> Claim {
        Claim {
            id: "X".into(),
            paper: String::new(),
            section: String::new(),
            device: String::new(),
            workload: String::new(),
            condition: String::new(),
            policy: String::new(),
            against: String::new(),
            metric: "throughput ratio".into(),
            relation: relation.into(),
            value: value.into(),
            unit: unit.into(),
            check: false,
        }
    }

    fn verdict(relation: &str, value: &str, low: f64, high: f64) -> Verdict {
        let mean = f64::midpoint(low, high);
        let measured = Measured::value(Summary { mean, low, high, values: vec![mean] });
        Verdict::of(&claim(relation, value, "x"), &measured).expect("a relation")
    }

    #[test]
    fn each_relation_accepts_what_the_rules_say() {
        for (relation, value, low, high, expected) in [
            ("approx", "2.0", 1.5, 1.71, Holds),
            ("approx", "2.0", 1.5, 1.69, Missed),
            ("approx", "2.0", 2.29, 2.5, Holds),
            ("approx", "2.0", 2.31, 2.5, Beyond),
            ("approx", "0.7", 0.5, 0.59, Missed),
            ("approx", "0.7", 0.81, 0.9, Missed),
            ("up-to", "2.0", 1.7, 1.7, Holds),
            ("up-to", "2.0", 1.6, 1.7, Missed),
            ("up-to", "2.0", 2.3, 2.4, Beyond),
            ("at-least", "0.5", 0.4, 0.62, Holds),
            ("at-least", "0.5", 0.4, 0.58, Missed),
            ("at-most", "1.14", 1.0, 1.27, Holds),
            ("at-most", "1.14", 1.0, 1.3, Missed),
            ("less-than", "2.0", 2.0, 2.0, Missed),
            ("less-than", "2.0", 1.99, 1.99, Holds),
            ("between", "1.10..1.35", 1.6, 1.7, Missed),
            ("between", "1.10..1.35", 1.48, 1.7, Holds),
            ("between", "1.10..1.35", 0.8, 1.0, Holds),
            ("approx", "1.5", f64::NAN, f64::NAN, Missed),
            ("at-most", "1.0", f64::NAN, f64::NAN, Missed),
        ] {
            let found = verdict(relation, value, low, high).standing;
            assert_eq!(found, expected, "{relation} {value}: {low}..{high}");
        }
    }

    #[test]
    fn a_loss_beyond_what_is_stated_is_a_miss() {
        for (metric, value, low, high, expected) in [
            ("run time ratio", "4.0", 5.0, 6.0, Missed),
            ("run time ratio", "0.7", 0.5, 0.59, Beyond),
            ("speed-up", "4.0", 5.0, 6.0, Beyond),
            ("speed-up", "0.7", 0.5, 0.59, Missed),
            ("growth of seek time", "2.0", 2.5, 2.6, Missed),
        ] {
            let claim = Claim { metric: metric.into(), ..claim("approx", value, "x") };
            let measured = Measured::value(Summary {
                mean: f64::midpoint(low, high),
                low,
                high,
                values: vec![low, high],
            });
            let found = Verdict::of(&claim, &measured).expect("a relation").standing;
            assert_eq!(found, expected, "{metric} {value}: {low}..{high}");
        }
    }

    #[test]
    fn near_one_the_side_counts() {
        for (relation, value, low, high, expected) in [
            ("approx", "1.06", 0.98, 1.0, Missed),
            ("approx", "1.06", 1.0, 1.02, Holds),
            ("approx", "1.0", 0.97, 1.0, Holds),
            ("approx", "1.0", 0.88, 0.94, Missed),
            ("approx", "0.92", 0.99, 1.05, Missed),
            // From 1.15 on only the tolerance counts.
            ("approx", "1.15", 0.98, 1.0, Holds),
            ("up-to", "1.05", 0.92, 0.94, Holds),
            ("up-to", "1.05", 0.8, 0.88, Missed),
        ] {
            let found = verdict(relation, value, low, high).standing;
            assert_eq!(found, expected, "{relation} {value}: {low}..{high}");
        }
    }

    #[test]
    fn strictly_the_mean_the_side_and_half_of_the_effect_count() {
        for (relation, value, low, high, expected) in [
            ("approx", "1.26", 1.04, 1.12, false),
            ("approx", "1.26", 1.14, 1.18, true),
            ("approx", "1.15", 0.98, 1.0, false),
            ("approx", "2.0", 1.5, 1.71, false),
            ("approx", "2.0", 0.9, 2.6, false),
            ("between", "1.16..1.24", 1.04, 1.06, false),
            ("between", "1.16..1.24", 1.16, 1.2, true),
            ("between", "0.47..0.65", 0.5, 0.6, true),
            ("up-to", "2.0", 1.9, 2.1, true),
            ("at-least", "0.5", 0.6, 0.62, true),
            ("at-least", "0.5", 0.4, 0.42, false),
        ] {
            let found = verdict(relation, value, low, high).strict;
            assert_eq!(found, expected, "{relation} {value}: {low}..{high}");
        }
    }

    #[test]
    fn a_bound_is_broken_by_one_run() {
        let bound = |runs: Vec<f64>| {
            let measured = Measured::bound(runs, f64::max);
            Verdict::of(&claim("less-than", "2+P", "x"), &measured).expect("a relation").holds()
        };
        assert!(bound(vec![1.5, 1.999]));
        assert!(!bound(vec![1.5, 1.0, 2.0]));
    }

    #[test]
    fn a_miss_is_told_as_a_share_of_the_effect() {
        let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-9);
        assert!(close(verdict("approx", "1.2", 1.05, 1.05).effect, 0.25));
        assert!(close(verdict("approx", "0.72", 0.93, 0.93).effect, 0.25));
        assert!(close(verdict("between", "1.19..1.26", 1.0, 1.0).effect, 0.0));
        assert_eq!(verdict("at-most", "1.14", 1.2, 1.2).effect, None);
        let bound = Measured::bound(vec![2.0, 3.0], f64::min);
        let gain = Verdict::of(&claim("at-least", "5.0", "x"), &bound).expect("a relation");
        assert!(close(gain.effect, 0.25) && gain.times.is_none(), "also of a gain that every run must have");
        let rate = Verdict::of(&claim("approx", "0.8", "MB/s"), &Measured::number(8.0)).expect("a relation");
        assert!(close(rate.times, 10.0) && rate.effect.is_none());
    }
}
