//! The claims: the numbers that the papers state, a row each.

use crate::Error;
use serde::Deserialize;

/// The project's copy of the claims: TR-840, the position paper, EuroSys'07, ATC'08 and ATC'09.
const CLAIMS: &str = include_str!("../../../experiments/claims.csv");

/// Statements of the papers without a number, or about an order: checks that are shown beside the count.
const CHECKS: &str = include_str!("../../../experiments/checks.csv");

/// One number that a paper states.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The paper.
    pub paper: String,
    /// Its section.
    pub section: String,
    /// The device.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// The conditions.
    pub condition: String,
    /// The policy.
    pub policy: String,
    /// The policy that it is compared with.
    pub against: String,
    /// What is measured.
    pub metric: String,
    /// The relation to the value, as written.
    pub relation: String,
    /// The value, as written.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// Whether it is a check, which is shown beside the count.
    #[serde(skip)]
    pub check: bool,
}

/// The relation in which a measured value must be to that of the paper.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// The interval overlaps the value by 15 % either way; for a depth, by one unit.
    Approx(f64),
    /// The largest value of the sweep is at least 0.85 of it.
    UpTo(f64),
    /// The mean is no less; for a bound, every run.
    AtLeast(f64),
    /// The mean is no more; for a bound, every run.
    AtMost(f64),
    /// The mean is less; for a bound, every run.
    LessThan(f64),
    /// The interval overlaps 0.9 of the first to 1.1 of the second.
    Between(f64, f64),
    /// Up to rounding, or by a test of fit: the measurement itself decides.
    Exact,
}

impl Claim {
    /// All claims, in the order of the papers.
    ///
    /// # Errors
    /// The built-in list is damaged.
    pub fn all() -> Result<Vec<Self>, Error> {
        Self::read(CLAIMS)
    }

    /// The checks.
    ///
    /// # Errors
    /// The built-in list is damaged.
    pub fn checks() -> Result<Vec<Self>, Error> {
        Ok(Self::read(CHECKS)?.into_iter().map(|check| Self { check: true, ..check }).collect())
    }

    fn read(text: &str) -> Result<Vec<Self>, Error> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.deserialize().collect::<Result<_, _>>().map_err(|error| Error::Claims(error.to_string()))
    }

    /// The relation with its value.
    ///
    /// # Errors
    /// The row has an unknown relation.
    pub fn relation(&self) -> Result<Relation, Error> {
        let wrong = || {
            Error::Claims(format!("{}: '{} {}' is not a known relation", self.id, self.relation, self.value))
        };
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
        // A bound that grows with P is measured less P.
        let value = || number(self.value.strip_suffix("+P").unwrap_or(&self.value));
        Ok(match self.relation.as_str() {
            "approx" => Relation::Approx(value()?),
            "up-to" => Relation::UpTo(value()?),
            "at-least" => Relation::AtLeast(value()?),
            "at-most" => Relation::AtMost(value()?),
            "less-than" => Relation::LessThan(value()?),
            "between" => {
                let (low, high) = self.value.split_once("..").ok_or_else(wrong)?;
                Relation::Between(number(low)?, number(high)?)
            }
            "exact" | "equals" => Relation::Exact,
            _ => return Err(wrong()),
        })
    }

    /// Which direction of a ratio is a gain.
    #[must_use]
    pub fn gain(&self) -> Gain {
        match self.metric.as_str() {
            "speed-up" | "mean speed-up" | "throughput ratio" | "rate ratio" | "total hit rate ratio" => {
                Gain::Larger
            }
            metric if metric.ends_with("time ratio") || metric.ends_with("latency ratio") => Gain::Smaller,
            _ => Gain::Neither,
        }
    }

    /// Whether it states a least or a largest value.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        is_bound(&self.relation)
    }

    /// Whether it is a depth: judged by one unit.
    #[must_use]
    pub fn is_depth(&self) -> bool {
        self.metric == "competitive depth"
    }
}

/// Whether a relation, as written, states a least or a largest value.
#[must_use]
pub fn is_bound(relation: &str) -> bool {
    matches!(relation, "at-least" | "at-most" | "less-than")
}

/// Which direction of a ratio is a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// A larger one, for rates.
    Larger,
    /// A smaller one, for times.
    Smaller,
    /// None: it is a property of a device.
    Neither,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_judged() {
        let mut claims = Claim::all().expect("built in");
        assert!(claims.len() > 120, "{} claims", claims.len());
        assert!(claims.iter().all(|claim| !claim.check));
        claims.extend(Claim::checks().expect("built in"));
        for claim in &claims {
            claim.relation().unwrap_or_else(|error| panic!("{error}"));
        }
        let ids: std::collections::BTreeSet<_> = claims.iter().map(|claim| &claim.id).collect();
        assert_eq!(ids.len(), claims.len());
    }
}
