//! The measurement of a claim.

use crate::pick::Sweep;
use foreseek_simulate::experiment::Summary;

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The value that is judged, with its interval.
    pub value: Summary,
    /// For a bound that every run must keep: the value of each run.
    pub bound: Option<Vec<f64>>,
    /// For a measurement that decides itself whether it is exact.
    pub exact: Option<bool>,
    /// The text in place of a number.
    pub shown: Option<String>,
    /// The points of the sweep from which the value comes.
    pub sweep: Vec<(String, Summary)>,
    /// Points that were run and are not judged, because the claim is not about them.
    pub beside: Vec<(String, Summary)>,
}

impl Measured {
    /// A value with its interval.
    #[must_use]
    pub fn value(value: Summary) -> Self {
        Self { value, bound: None, exact: None, shown: None, sweep: Vec::new(), beside: Vec::new() }
    }

    /// A number that does not depend on chance.
    #[must_use]
    pub fn number(value: f64) -> Self {
        Self::value(Summary::of(vec![value]))
    }

    /// Something that is exactly as stated, or is not.
    #[must_use]
    pub fn exact(value: f64, shown: String, exact: bool) -> Self {
        Self { exact: Some(exact), shown: Some(shown), ..Self::number(value) }
    }

    /// With points beside it that were run and are not judged.
    #[must_use]
    pub(crate) fn beside(self, points: Sweep) -> Self {
        Self { beside: points.places(), ..self }
    }

    /// A bound that every one of these runs must keep; the `worst` of them is shown.
    #[must_use]
    pub fn bound(runs: Vec<f64>, worst: fn(f64, f64) -> f64) -> Self {
        let value = runs.iter().copied().reduce(worst).unwrap_or(f64::NAN);
        Self { bound: Some(runs), ..Self::number(value) }
    }
}
