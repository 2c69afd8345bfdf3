//! What was measured for a claim, and the verdict on it.

use crate::Error;
use crate::claim::{Claim, Relation};
use foreseek_simulate::experiment::Summary;

/// How far `approx` may be off (reference: times and ratios).
const APPROX: f64 = 0.15;
/// How far a depth may be off: one unit.
const DEPTH: f64 = 1.0;
/// What share of the stated largest value must be reached.
const UP_TO: f64 = 0.85;
/// By how much a stated range is widened at either end.
const RANGE: f64 = 0.1;

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The value that is judged, with its interval.
    pub value: Summary,
    /// Where every run must keep a bound: the value of each.
    pub bound: Option<Vec<f64>>,
    /// Where the measurement itself says whether it is exact.
    pub exact: Option<bool>,
    /// What is shown in place of a number.
    pub shown: Option<String>,
    /// The places of the sweep from which the value comes.
    pub sweep: Vec<(String, Summary)>,
}

impl Measured {
    /// A value with its interval.
    #[must_use]
    pub fn value(value: Summary) -> Self {
        Self { value, bound: None, exact: None, shown: None, sweep: Vec::new() }
    }

    /// A number that does not depend on chance.
    #[must_use]
    pub fn number(value: f64) -> Self {
        Self::value(Summary::of(vec![value]))
    }

    /// Something that is as stated or is not.
    #[must_use]
    pub fn exact(value: f64, shown: String, exact: bool) -> Self {
        Self { exact: Some(exact), shown: Some(shown), ..Self::number(value) }
    }

    /// A bound that every one of these runs must keep; `worst` of them is shown.
    #[must_use]
    pub fn bound(runs: Vec<f64>, worst: fn(f64, f64) -> f64) -> Self {
        let value = runs.iter().copied().reduce(worst).unwrap_or(f64::NAN);
        Self { bound: Some(runs), ..Self::number(value) }
    }
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it does.
    pub holds: bool,
    /// How far the interval is from the nearest accepted value, as a share of the stated one; 0 where it
    /// holds.
    pub miss: f64,
}

impl Verdict {
    /// The verdict on a claim (`docs/reproduction.md` tells the rules).
    ///
    /// # Errors
    /// The claim's relation is not known.
    pub fn of(claim: &Claim, measured: &Measured) -> Result<Self, Error> {
        let relation = claim.relation()?;
        let Summary { mean, low, high, .. } = measured.value;
        let one = [mean];
        let judged = measured.bound.as_deref().unwrap_or(&one);
        let over = |bound: f64| judged.iter().map(move |value| value - bound);
        // How far beyond what is accepted, in the claim's unit: 0 or less where it holds.
        let (off, stated) = match relation {
            Relation::Approx(v) => {
                let room = if claim.is_depth() { DEPTH } else { APPROX * v };
                ((v - room - high).max(low - v - room), v)
            }
            Relation::UpTo(v) => (UP_TO * v - mean, v),
            Relation::AtLeast(v) => (most(over(v).map(|off| -off)), v),
            Relation::AtMost(v) => (most(over(v)), v),
            // What reaches the bound misses it by the least that can be told.
            Relation::LessThan(v) => {
                let off = most(over(v));
                (if off < 0.0 { off } else { off.max(f64::EPSILON * v) }, v)
            }
            Relation::Between(a, b) => {
                ((a * (1.0 - RANGE) - high).max(low - b * (1.0 + RANGE)), (a + b) / 2.0)
            }
            Relation::Exact => (if measured.exact == Some(true) { 0.0 } else { 1.0 }, 1.0),
        };
        // A value that is no number holds nothing.
        let holds = off <= 0.0;
        let miss = if holds { 0.0 } else { off / stated };
        Ok(Self { holds, miss })
    }
}

/// The largest, where all of them are numbers.
fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(relation: &str, value: &str) -> Claim {
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
            unit: "x".into(),
        }
    }

    fn holds(relation: &str, value: &str, low: f64, high: f64) -> bool {
        let mean = (low + high) / 2.0;
        let value_of = Summary { mean, low, high, values: vec![mean] };
        Verdict::of(&claim(relation, value), &Measured::value(value_of)).expect("a relation").holds
    }

    #[test]
    fn each_relation_accepts_what_the_rules_say() {
        for (relation, value, low, high, expected) in [
            ("approx", "2.0", 1.5, 1.71, true),
            ("approx", "2.0", 1.5, 1.69, false),
            ("approx", "2.0", 2.29, 2.5, true),
            ("approx", "2.0", 2.31, 2.5, false),
            ("up-to", "2.0", 1.7, 1.7, true),
            ("up-to", "2.0", 1.6, 1.7, false),
            ("at-least", "0.5", 0.4, 0.62, true),
            ("at-least", "0.5", 0.4, 0.58, false),
            ("at-most", "1.14", 1.0, 1.27, true),
            ("at-most", "1.14", 1.0, 1.3, false),
            ("less-than", "2.0", 2.0, 2.0, false),
            ("less-than", "2.0", 1.99, 1.99, true),
            ("between", "1.10..1.35", 1.6, 1.7, false),
            ("between", "1.10..1.35", 1.48, 1.7, true),
            ("between", "1.10..1.35", 0.8, 1.0, true),
            ("approx", "1.0", f64::NAN, f64::NAN, false),
            ("at-most", "1.0", f64::NAN, f64::NAN, false),
        ] {
            assert_eq!(holds(relation, value, low, high), expected, "{relation} {value}: {low}..{high}");
        }
    }

    #[test]
    fn a_bound_is_broken_by_one_run() {
        let bound = |runs: Vec<f64>| {
            let measured = Measured::bound(runs, f64::max);
            Verdict::of(&claim("less-than", "2+P"), &measured).expect("a relation").holds
        };
        assert!(bound(vec![1.5, 1.999]));
        assert!(!bound(vec![1.5, 1.0, 2.0]));
    }

    #[test]
    fn a_miss_says_by_how_much() {
        let measured = Measured::number(1.0);
        let verdict = Verdict::of(&claim("approx", "2.0"), &measured).expect("a relation");
        assert!(!verdict.holds && (verdict.miss - 0.35).abs() < 1e-12, "{verdict:?}");
    }
}
