//! What was aimed at, and what came of it: at every place of every run that an aim speaks of.

use crate::pick::Runs;
use foreseek_simulate::experiment::{Metric, Policy, Summary};
use serde_json::{Value, json};

/// An aim: at every place the value is to be at least (or at most) so much.
#[derive(Clone, Debug)]
pub struct Aim {
    /// What is aimed at.
    pub what: &'static str,
    /// The number.
    pub aim: f64,
    /// Whether the value must not be more than that, instead of not less.
    pub at_most: bool,
    /// The places and what was measured there.
    pub places: Vec<(String, Summary)>,
}

impl Aim {
    /// Whether one value reaches it.
    fn reached_by(&self, value: f64) -> bool {
        if self.at_most { value <= self.aim } else { value >= self.aim }
    }

    /// At how many places it is reached, by the mean over the seeds.
    #[must_use]
    pub fn reached(&self) -> usize {
        self.places.iter().filter(|(_, value)| self.reached_by(value.mean)).count()
    }

    /// Whether it is reached everywhere; an aim that was not measured is not.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.places.is_empty() && self.reached() == self.places.len()
    }

    /// The place that is furthest from it.
    #[must_use]
    pub fn worst(&self) -> Option<&(String, Summary)> {
        let order =
            |one: &&(String, Summary), other: &&(String, Summary)| one.1.mean.total_cmp(&other.1.mean);
        if self.at_most { self.places.iter().max_by(order) } else { self.places.iter().min_by(order) }
    }

    /// The geometric mean over all places.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let logarithms: f64 =
            self.places.iter().map(|(_, value)| value.mean.max(f64::MIN_POSITIVE).ln()).sum();
        (logarithms / self.places.len().max(1) as f64).exp()
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = if self.holds() { "holds" } else { "MISSED" };
        let sign = if self.at_most { "<=" } else { ">=" };
        let worst = self.worst().map_or_else(String::new, |(place, value)| {
            format!("worst {:.3} ({:.3} to {:.3}) at {place}", value.mean, value.low, value.high)
        });
        format!(
            "{verdict:6}  {} {sign} {}: {} of {} places, mean {:.3}, {worst}",
            self.what,
            self.aim,
            self.reached(),
            self.places.len(),
            self.mean(),
        )
    }

    pub(super) fn to_json(&self) -> Value {
        let places: Vec<Value> = self
            .places
            .iter()
            .map(|(place, value)| json!({ "place": place, "value": value.mean, "low": value.low, "high": value.high }))
            .collect();
        json!({ "what": self.what, "aim": self.aim, "at_most": self.at_most, "holds": self.holds(), "places": places })
    }
}

/// The runs of the four microbenchmarks, and all whose streams are many.
const MICRO: [&str; 4] =
    ["learnt-two-rand-0", "learnt-one-rand-10", "learnt-one-whole-0", "learnt-four-64kb-0"];
const SERVERS: [&str; 3] = ["learnt-media-server", "learnt-index-search", "learnt-sequence-search"];

/// The aims that speak of runs in virtual time.
pub(super) fn of_runs(runs: &Runs) -> Vec<Aim> {
    let aim = |what, aim, names: &[&str], theirs: &str| {
        let places = names.iter().flat_map(|run| ratios(runs, run, theirs)).collect();
        Aim { what, aim, at_most: false, places }
    };
    vec![
        aim("throughput over learnt-told, microbenchmarks", 0.95, &MICRO, "learnt-told"),
        aim("throughput over learnt-told, servers", 0.95, &SERVERS, "learnt-told"),
        aim("throughput over competitive, Two-Rand-0", 1.3, &MICRO[..1], "competitive"),
        aim("throughput over competitive, One-Rand-10", 1.3, &MICRO[1..2], "competitive"),
        aim("throughput over competitive, whole files", 1.02, &MICRO[2..3], "competitive"),
        aim("throughput over stock, random reads of 64 KB", 0.99, &MICRO[3..], "linux-2.6.3"),
        aim("throughput over competitive, servers", 1.0, &SERVERS, "competitive"),
    ]
}

/// The policy's throughput over another's at each place of a run.
fn ratios(runs: &Runs, run: &str, theirs: &str) -> Vec<(String, Summary)> {
    let Some(results) = runs.get(run) else { return Vec::new() };
    let (ours, theirs) = (Policy::new("learnt"), Policy::new(theirs));
    let points = results.points.iter().filter(|point| point.policy == ours);
    let ratio = |point: &foreseek_simulate::experiment::Point| {
        let other = results.point(&point.device, &theirs, point.concurrency)?;
        let place = format!("{}, {}, {}", results.workload, point.device, point.concurrency);
        Some((place, point.ratio(other, &Metric::THROUGHPUT)))
    };
    points.filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_holds_where_every_place_reaches_it() {
        let place = |name: &str, value: f64| (name.to_owned(), Summary::of(vec![value]));
        let mut aim =
            Aim { what: "x", aim: 1.0, at_most: false, places: vec![place("a", 1.2), place("b", 0.9)] };
        assert!(!aim.holds() && aim.reached() == 1 && aim.worst().is_some_and(|worst| worst.0 == "b"));
        assert!(aim.line().starts_with("MISSED  x >= 1: 1 of 2 places"), "{}", aim.line());
        aim.aim = 0.9;
        assert!(aim.holds());
        aim.at_most = true;
        assert!(!aim.holds() && aim.worst().is_some_and(|worst| worst.0 == "a"));
        assert!(!Aim { places: Vec::new(), ..aim }.holds());
    }
}
