//! Aims and verdicts, at every point of every run that an aim covers.

use super::Table;
use crate::pick::Runs;
use foreseek_simulate::experiment::{Metric, Point, Policy, Results, Summary};
use serde_json::{Value, json};

/// An aim: at every point the value is to be at least (or at most) this number.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The aim in words.
    pub what: &'static str,
    /// The number.
    pub aim: f64,
    /// Whether the value must not be more than that, instead of not less.
    pub at_most: bool,
    /// The points with their values.
    pub places: Vec<AimPoint>,
}

/// A point at which an aim is judged.
#[derive(Clone, Debug)]
pub struct AimPoint {
    /// Its name.
    pub name: String,
    /// The measured value.
    pub value: Summary,
    /// What the oracle reaches there: it knows each stream's length and reads it at once. Where streams are
    /// read whole and the oracle misses the aim, no rule can reach it.
    pub oracle: Option<Summary>,
    /// The ceiling: what the dynamic program reaches that knows the distribution and keeps no bound. Where that
    /// misses the aim, neither the bound nor the learning is the reason.
    pub free: Option<Summary>,
}

impl AimPoint {
    /// A point without ceilings.
    #[must_use]
    pub fn of(name: String, value: Summary) -> Self {
        Self { name, value, oracle: None, free: None }
    }

    /// The measured value as a share of the ceiling.
    fn of_ceiling(&self) -> Option<f64> {
        self.free.as_ref().map(|free| self.value.mean / free.mean)
    }

    /// The measured value and its point.
    pub(super) fn described(&self) -> String {
        let Summary { mean, low, high, .. } = self.value;
        format!("{mean:.3} ({low:.3} to {high:.3}) at {}", self.name)
    }
}

/// The verdict on a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// All of the interval reaches the aim.
    Holds,
    /// The aim lies within the interval.
    Unsure,
    /// All of the interval misses it.
    Missed,
}

impl Reached {
    fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Unsure => "unsure",
            Self::Missed => "MISSED",
        }
    }
}

impl Aim {
    /// Whether one value reaches it.
    fn reached_by(&self, value: f64) -> bool {
        if self.at_most { value <= self.aim } else { value >= self.aim }
    }

    /// The verdict on a point.
    #[must_use]
    pub fn at(&self, place: &AimPoint) -> Reached {
        match (self.reached_by(place.value.low), self.reached_by(place.value.high)) {
            (true, true) => Reached::Holds,
            (false, false) => Reached::Missed,
            _ => Reached::Unsure,
        }
    }

    /// At how many points it is reached, by the mean over the seeds.
    #[must_use]
    pub fn reached(&self) -> usize {
        self.places.iter().filter(|place| self.reached_by(place.value.mean)).count()
    }

    /// Whether it is reached at every point; an aim that was not measured is not.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.places.is_empty() && self.reached() == self.places.len()
    }

    /// Of the points that miss it: at how many the oracle misses it too, and at how many the rule that knows
    /// the distribution and keeps no bound does.
    #[must_use]
    pub fn out_of_reach(&self) -> (usize, usize) {
        let missed = || self.places.iter().filter(|place| !self.reached_by(place.value.mean));
        let short = |ceiling: fn(&AimPoint) -> Option<&Summary>| {
            missed().filter_map(ceiling).filter(|ceiling| !self.reached_by(ceiling.mean)).count()
        };
        (short(|place| place.oracle.as_ref()), short(|place| place.free.as_ref()))
    }

    /// The point that is furthest from it.
    #[must_use]
    pub fn worst(&self) -> Option<&AimPoint> {
        let order = |one: &&AimPoint, other: &&AimPoint| one.value.mean.total_cmp(&other.value.mean);
        if self.at_most { self.places.iter().max_by(order) } else { self.places.iter().min_by(order) }
    }

    /// The geometric mean over all points.
    #[must_use]
    pub fn mean(&self) -> f64 {
        geometric(self.places.iter().map(|place| place.value.mean))
    }

    /// The same of the ceiling, where it was measured, and the values' share of it.
    #[must_use]
    pub fn ceiling(&self) -> Option<(f64, f64)> {
        let frees = || self.places.iter().filter_map(|place| place.free.as_ref());
        frees().next()?;
        Some((
            geometric(frees().map(|free| free.mean)),
            geometric(self.places.iter().filter_map(AimPoint::of_ceiling)),
        ))
    }

    /// At how many points 0.95 of the ceiling is reached.
    fn near_ceiling(&self) -> usize {
        self.places.iter().filter_map(AimPoint::of_ceiling).filter(|share| *share >= 0.95).count()
    }

    /// At how many points it is reached, and at how many the interval contains it.
    pub(super) fn count(&self) -> String {
        let unsure = self.places.iter().filter(|place| self.at(place) == Reached::Unsure).count();
        let unsure = if unsure > 0 { format!(" ({unsure} within the interval)") } else { String::new() };
        format!("{} of {} places{unsure}", self.reached(), self.places.len())
    }

    /// One line; a second one has the ceiling and the share of it, a third one how many of the misses are
    /// misses of the ceilings, too.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = if self.holds() { "holds" } else { "MISSED" };
        let sign = if self.at_most { "<=" } else { ">=" };
        let worst = self.worst().map_or_else(String::new, |place| format!("worst {}", place.described()));
        let mut line = format!(
            "{verdict:6}  {} {sign} {}: {}, mean {:.3}, {worst}",
            self.what,
            self.aim,
            self.count(),
            self.mean(),
        );
        if let Some((ceiling, share)) = self.ceiling() {
            line.push_str(&format!(
                "\n        ceiling, the dynamic program without a bound: mean {ceiling:.3}; reached of it {share:.3}"
            ));
        }
        if !self.holds() && self.places.iter().any(|place| place.oracle.is_some()) {
            let (oracle, free) = self.out_of_reach();
            let missed = self.places.len() - self.reached();
            line.push_str(&format!("\n        of these {missed} misses the oracle itself misses {oracle}"));
            if self.places.iter().any(|place| place.free.is_some()) {
                line.push_str(&format!(", and that ceiling {free}"));
            }
        }
        line
    }

    /// Point by point, with the ceilings that there are.
    pub(super) fn table(&self) -> Option<Table> {
        self.places.iter().find(|place| place.oracle.is_some() || place.free.is_some())?;
        let mean = |ceiling: &Option<Summary>| ceiling.as_ref().map_or(f64::NAN, |ceiling| ceiling.mean);
        let row = |place: &AimPoint| {
            let AimPoint { name, value, oracle, free } = place;
            let share = place.of_ceiling().unwrap_or(f64::NAN);
            let values = vec![value.mean, value.low, value.high, mean(free), share, mean(oracle)];
            (format!("{} {name}", self.at(place).name()), values)
        };
        let heads = ["adaptive", "from", "to", "known, no bound", "adaptive of that", "oracle"];
        Some(Table {
            title: format!("{}, aim {}", self.what, self.aim),
            heads: heads.map(str::to_owned).to_vec(),
            rows: self.places.iter().map(row).collect(),
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let mean = |ceiling: &Option<Summary>| ceiling.as_ref().map(|ceiling| ceiling.mean);
        let place = |place: &AimPoint| {
            let AimPoint { name, value, oracle, free } = place;
            json!({
                "place": name, "value": value.mean, "low": value.low, "high": value.high,
                "of_ceiling": place.of_ceiling(), "verdict": self.at(place).name(), "oracle": mean(oracle), "known_without_bound": mean(free),
            })
        };
        let places: Vec<Value> = self.places.iter().map(place).collect();
        let worst = self.worst().map(|worst| json!({ "place": worst.name, "value": worst.value.mean }));
        let (ceiling, of_ceiling) = self.ceiling().unzip();
        let (oracle, free) = self.out_of_reach();
        json!({
            "what": self.what, "aim": self.aim, "at_most": self.at_most, "holds": self.holds(), "reached": self.reached(),
            "missed": self.places.len() - self.reached(), "of": self.places.len(), "mean": self.mean(), "worst": worst,
            "ceiling": ceiling, "of_ceiling": of_ceiling, "ceiling_reached_95": self.near_ceiling(),
            "missed_by_oracle": oracle, "missed_by_ceiling": free, "places": places,
        })
    }
}

/// The runs of the four microbenchmarks, and all runs with many streams.
const MICRO: [&str; 4] =
    ["adaptive-two-rand-0", "adaptive-one-rand-10", "adaptive-one-whole-0", "adaptive-four-64kb-0"];
const SERVERS: [&str; 4] =
    ["adaptive-media-server", "adaptive-index-search", "adaptive-sequence-search", "adaptive-desktop-mix"];

/// The aims for runs in virtual time.
pub(super) fn of_runs(runs: &Runs) -> Vec<Aim> {
    let aim = |what, aim, names: &[&str], theirs: &str| {
        let places = names.iter().flat_map(|run| ratios(runs, run, theirs)).collect();
        Aim { what, aim, at_most: false, places }
    };
    vec![
        aim(
            "throughput over adaptive-known-lengths, microbenchmarks",
            0.95,
            &MICRO,
            "adaptive-known-lengths",
        ),
        aim(
            "throughput over adaptive-known-lengths, servers and desktop",
            0.95,
            &SERVERS,
            "adaptive-known-lengths",
        ),
        aim("throughput over competitive, Two-Rand-0", 1.3, &MICRO[..1], "competitive"),
        aim("throughput over competitive, One-Rand-10", 1.3, &MICRO[1..2], "competitive"),
        aim("throughput over competitive, whole files", 1.02, &MICRO[2..3], "competitive"),
        aim("throughput over stock, random reads of 64 KB", 0.99, &MICRO[3..], "linux-2.6.3"),
        aim("throughput over competitive, servers and desktop", 1.0, &SERVERS, "competitive"),
    ]
}

/// The policy's throughput over another's at each point of a run, and its ceilings: that of the oracle, and
/// that of the rule with known lengths and without a bound, whose run has the same name and `-free`.
fn ratios(runs: &Runs, run: &str, theirs: &str) -> Vec<AimPoint> {
    let Some(results) = runs.get(run) else { return Vec::new() };
    let (ours, known, theirs) =
        (Policy::new("adaptive"), Policy::new("adaptive-known-lengths"), Policy::new(theirs));
    let free = runs.get(&format!("{run}-free"));
    let points = results.points.iter().filter(|point| point.policy == ours);
    let place = |point: &Point| {
        let (device, level) = (&point.device, point.concurrency);
        let other = results.point(device, &theirs, level)?;
        let over = |results: &Results, policy: &Policy| {
            Some(results.point(device, policy, level)?.ratio(other, &Metric::THROUGHPUT))
        };
        Some(AimPoint {
            name: format!("{}, {device}, {level}", results.workload),
            value: point.ratio(other, &Metric::THROUGHPUT),
            oracle: over(results, &Policy::new("oracle")),
            free: free.and_then(|free| over(free, &known)),
        })
    };
    points.filter_map(place).collect()
}

/// The geometric mean.
fn geometric(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0), |(sum, count), value| (sum + value.max(f64::MIN_POSITIVE).ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, values: &[f64]) -> AimPoint {
        AimPoint::of(name.to_owned(), Summary::of(values.to_vec()))
    }

    #[test]
    fn an_aim_holds_where_every_place_reaches_it() {
        let places = vec![place("a", &[1.2]), place("b", &[0.9])];
        let mut aim = Aim { what: "x", aim: 1.0, at_most: false, places };
        assert!(!aim.holds() && aim.reached() == 1 && aim.worst().is_some_and(|worst| worst.name == "b"));
        assert!(aim.line().starts_with("MISSED  x >= 1: 1 of 2 places, mean"), "{}", aim.line());
        aim.aim = 0.9;
        assert!(aim.holds());
        aim.at_most = true;
        assert!(!aim.holds() && aim.worst().is_some_and(|worst| worst.name == "a"));
        assert!(!Aim { places: Vec::new(), ..aim }.holds());
    }

    #[test]
    fn an_interval_around_the_aim_decides_nothing() {
        let aim = Aim { what: "x", aim: 1.0, at_most: false, places: vec![place("a", &[0.9, 1.2])] };
        assert_eq!(aim.at(&aim.places[0]), Reached::Unsure);
        assert!(aim.line().contains("1 of 1 places (1 within the interval)"), "{}", aim.line());
        assert_eq!(aim.at(&place("b", &[1.1, 1.101])), Reached::Holds);
        assert_eq!(aim.at(&place("c", &[0.9, 0.901])), Reached::Missed);
    }

    #[test]
    fn what_nobody_reaches_is_counted_apart_from_what_is_ours() {
        let under = |oracle: f64, free: f64| AimPoint {
            oracle: Some(Summary::of(vec![oracle])),
            free: Some(Summary::of(vec![free])),
            ..place("a", &[1.0])
        };
        let places = vec![under(1.2, 1.1), under(1.5, 1.2), under(1.5, 1.4)];
        let aim = Aim { what: "x", aim: 1.3, at_most: false, places };
        assert_eq!(aim.out_of_reach(), (1, 2));
        assert!(
            aim.line().contains("of these 3 misses the oracle itself misses 1, and that ceiling 2"),
            "{}",
            aim.line()
        );
        let table = aim.table().expect("ceilings");
        assert_eq!(table.rows[0], ("MISSED a".to_owned(), vec![1.0, 1.0, 1.0, 1.1, 1.0 / 1.1, 1.2]));
        let (ceiling, share) = aim.ceiling().expect("ceilings");
        assert!((ceiling * share - 1.0).abs() < 1e-9, "{ceiling}, {share}");
        assert!(aim.line().contains("without a bound: mean 1.227; reached of it 0.815"), "{}", aim.line());
    }
}
