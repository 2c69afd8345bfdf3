//! Evaluation of the runs: ratios pair by pair with their 95 % intervals, and verdicts by fixed rules.
//!
//! A ratio is the geometric mean over the pairs, its interval Student's of the logarithms: runs scatter by
//! factors, and neither side of a ratio is then better off as the numerator.
//!
//! A bound holds if the whole interval lies on its good side, fails if the whole interval lies on the other,
//! and is inconclusive in between. For a bound that must hold at every point the worst point decides; it does
//! not hold while a point has not been measured. This is pure arithmetic over runs.

use crate::cell::{Cell, MANY, Point};
use crate::policy::Policy;
use crate::record::{Measured, Run, measured};
use foreseek_simulate::experiment::Summary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The verdict on a bound; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does not hold.
    Fails,
    /// The interval contains the bound, or there are fewer than [`PAIRS_LEAST`] pairs.
    Inconclusive,
    /// It holds.
    Holds,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fails => "FAILS",
            Self::Inconclusive => "inconclusive",
            Self::Holds => "holds",
        })
    }
}

/// A policy in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyResult {
    /// The policy.
    pub policy: Policy,
    /// Throughput, MB/s.
    pub mb_per_s: Summary,
    /// Over stock Linux with its defaults.
    pub over_default: Option<Summary>,
    /// Over the best static setting.
    pub over_best_static: Option<Summary>,
    /// Share of the oracle.
    pub of_oracle: Option<Summary>,
    /// Over the same mount without a bound on what is prefetched.
    pub over_unbounded: Option<Summary>,
    /// Bytes from the disk for each that was read.
    pub device_per_read: f64,
    /// Mean length of the disk's requests, KiB.
    pub request_kib: f64,
    /// The share of what a mount fetched that it had delivered before ([`Measured::fetched_again`]).
    pub fetched_again: Option<f64>,
    /// The share of what a mount fetched that it had evicted before use ([`Measured::thrashed`]).
    pub thrashed: Option<f64>,
    /// The disk's busy time for each byte read, over the simulator's prediction.
    pub over_predicted: Option<Summary>,
    /// Processor nanoseconds of readers and servers for each byte.
    pub processor_ns_per_byte: f64,
    /// Median time of a read, µs; cells of one reader only.
    pub read_median_us: Option<Summary>,
    /// The servers' peak memory, MiB.
    pub server_memory_mib: f64,
}

/// A cell with all its policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The cell.
    pub cell: Cell,
    /// The static setting with the highest mean throughput.
    pub best_static: Option<Policy>,
    /// The policies, in the order in which they were named; then the oracle.
    pub entries: Vec<PolicyResult>,
}

/// A claim about one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The policy.
    pub policy: Policy,
    /// The claim.
    pub claim: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// The worst value that decided it, with its interval.
    pub value: Summary,
    /// Where that was measured.
    pub place: String,
    /// At how many points it holds, is inconclusive, fails.
    pub counts: (usize, usize, usize),
    /// Points that were to be measured and were not.
    pub missing: Vec<String>,
}

/// By pair.
pub(crate) type Values = BTreeMap<u32, f64>;

/// Evaluates every cell.
#[must_use]
pub fn judge_cells(runs: &[Run], cells: &[Cell], policies: &[Policy]) -> Vec<Judged> {
    cells.iter().map(|cell| judge_cell(runs, *cell, policies)).collect()
}

fn judge_cell(runs: &[Run], cell: Cell, policies: &[Policy]) -> Judged {
    let best = best_static(runs, cell, policies);
    let oracle = [Policy::Oracle];
    let entry = |policy: &Policy| {
        let all: Vec<&Measured> = measured(runs, cell, policy).map(|(_, measured)| measured).collect();
        if all.is_empty() {
            return None;
        }
        let mean = |of: fn(&Measured) -> f64| all.iter().map(|run| of(run)).sum::<f64>() / all.len() as f64;
        let over = |other: &Policy| ratio(&throughput(runs, cell, policy), &throughput(runs, cell, other));
        let single = cell.point().is_none();
        Some(PolicyResult {
            policy: policy.clone(),
            mb_per_s: Summary::of(throughput(runs, cell, policy).into_values().collect()),
            over_default: over(&Policy::DEFAULT),
            over_best_static: best.as_ref().and_then(&over),
            of_oracle: over(&Policy::Oracle),
            over_unbounded: policy.unbounded().as_ref().and_then(&over),
            device_per_read: mean(Measured::device_per_read),
            request_kib: mean(Measured::request_kib),
            fetched_again: mean_of(&all, Measured::fetched_again),
            thrashed: mean_of(&all, Measured::thrashed),
            over_predicted: policy
                .predicted()
                .and_then(|other| ratio(&disk_time(runs, cell, policy), &disk_time(runs, cell, &other))),
            processor_ns_per_byte: mean(Measured::processor_ns_per_byte),
            read_median_us: single.then(|| Summary::of(medians(runs, cell, policy).into_values().collect())),
            server_memory_mib: all.iter().map(|run| run.server_memory_bytes).max().unwrap_or(0) as f64
                / f64::from(1 << 20),
        })
    };
    let entries = policies.iter().chain(&oracle).filter_map(entry).collect();
    Judged { cell, best_static: best, entries }
}

/// The mean over the runs that have the value.
fn mean_of(runs: &[&Measured], of: fn(&Measured) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn throughput(runs: &[Run], cell: Cell, policy: &Policy) -> Values {
    measured(runs, cell, policy).map(|(pair, measured)| (pair, measured.mb_per_s())).collect()
}

fn disk_time(runs: &[Run], cell: Cell, policy: &Policy) -> Values {
    measured(runs, cell, policy).map(|(pair, measured)| (pair, measured.disk_ns_per_byte())).collect()
}

fn medians(runs: &[Run], cell: Cell, policy: &Policy) -> Values {
    measured(runs, cell, policy).map(|(pair, measured)| (pair, measured.readers.read_median_us)).collect()
}

/// The static setting with the highest mean; chosen with hindsight, to the disadvantage of what is judged.
fn best_static(runs: &[Run], cell: Cell, policies: &[Policy]) -> Option<Policy> {
    let mean = |policy: &Policy| Summary::of(throughput(runs, cell, policy).into_values().collect()).mean;
    let there = policies.iter().filter(|policy| policy.is_static() && mean(policy) > 0.0);
    there.max_by(|a, b| mean(a).total_cmp(&mean(b))).cloned()
}

/// The ratio over pairs in which both were measured.
pub(crate) fn ratio(ours: &Values, theirs: &Values) -> Option<Summary> {
    let ratios = ratios(ours, theirs);
    (!ratios.is_empty()).then(|| Summary::of_ratios(ratios.into_values().collect()))
}

/// The same pair by pair.
pub(crate) fn ratios(ours: &Values, theirs: &Values) -> Values {
    let over =
        |(pair, ours): (&u32, &f64)| Some((*pair, ours / theirs.get(pair).filter(|value| **value > 0.0)?));
    ours.iter().filter_map(over).collect()
}

/// The difference over pairs in which both were measured.
fn difference(ours: &Values, theirs: &Values) -> Option<Summary> {
    let less = |(pair, ours): (&u32, &f64)| Some(ours - theirs.get(pair)?);
    let values: Vec<f64> = ours.iter().filter_map(less).collect();
    (!values.is_empty()).then(|| Summary::of(values))
}

/// Pairs below which nothing is decided: two equal values have an interval of width zero.
pub const PAIRS_LEAST: usize = 5;
/// The bound against "best static" at each point, and on average.
const BEST_STATIC: f64 = 0.95;
const BEST_STATIC_MEAN: f64 = 1.0;
/// The least gain with many streams.
const GAIN: f64 = 1.5;
/// The ratio from which on there is no loss.
pub(crate) const NO_LOSS: f64 = 0.98;
/// The bound of hot reads against the plain pass-through.
const HOT: f64 = 0.90;
/// How much longer than there a cold read of 4 KiB may take.
const COLD_US: f64 = 40.0;
/// How far the disk's busy time may be from the prediction.
const PREDICTED: f64 = 0.2;

/// Judges the claims about every mount.
#[must_use]
pub fn claims(runs: &[Run], cells: &[Judged]) -> Vec<Claim> {
    let judged: Vec<&Policy> = {
        let all = cells.iter().flat_map(|cell| &cell.entries).map(|entry| &entry.policy);
        let mut judged: Vec<&Policy> = all.filter(|policy| policy.is_judged()).collect();
        judged.sort();
        judged.dedup();
        judged
    };
    judged.into_iter().flat_map(|policy| claims_of(policy, runs, cells)).collect()
}

fn claims_of(policy: &Policy, runs: &[Run], cells: &[Judged]) -> Vec<Claim> {
    let of = |wanted: &dyn Fn(Point) -> bool, value: &dyn Fn(&PolicyResult) -> Option<Summary>| {
        let places = cells.iter().filter(|cell| cell.cell.point().is_some_and(wanted));
        let places = places.map(|cell| {
            let entry = cell.entries.iter().find(|entry| entry.policy == *policy);
            (cell.cell.to_string(), entry.and_then(value))
        });
        places.collect::<Vec<PointValue>>()
    };
    let one = |cell: Cell, value: Option<Summary>| vec![(cell.to_string(), value)];
    let plain = |values: fn(&[Run], Cell, &Policy) -> Values, cell: Cell| {
        (values(runs, cell, policy), values(runs, cell, &Policy::Plain))
    };
    let many = |point: Point| point.concurrency >= MANY && !point.benchmark.is_random();
    let hot = plain(throughput, Cell::Hot);
    let cold = plain(medians, Cell::Cold);
    let more = difference(&cold.0, &cold.1);
    let claim = |claim, places: Vec<PointValue>, bound: Bound| worst(policy, claim, places, bound);
    [
        claim(
            "at least 0.95 of the best static setting at every point",
            of(&|_| true, &|entry| entry.over_best_static.clone()),
            Bound::Least(BEST_STATIC),
        ),
        claim(
            "at least 1.0 of the best static setting in the geometric mean",
            vec![("all points".to_owned(), geometric_mean(policy, runs, cells))],
            Bound::Least(BEST_STATIC_MEAN),
        ),
        claim(
            "at least 1.5 of the default where sequential streams are many (concurrency 16 or more)",
            of(&many, &|entry| entry.over_default.clone()),
            Bound::Least(GAIN),
        ),
        claim(
            "no loss on random reads: at least 0.98 of the default on four-64kb-0",
            of(&|point| point.benchmark.is_random(), &|entry| entry.over_default.clone()),
            Bound::Least(NO_LOSS),
        ),
        claim(
            "hot reads: at least 0.90 of the plain pass-through",
            one(Cell::Hot, ratio(&hot.0, &hot.1)),
            Bound::Least(HOT),
        ),
        claim(
            "a cold read of 4 KiB: at most 40 us more than on the plain pass-through (medians, us)",
            one(Cell::Cold, more),
            Bound::Most(COLD_US),
        ),
        claim(
            "the disk is at work as long as the simulator predicts, within 20 %",
            of(&|_| true, &|entry| entry.over_predicted.clone()),
            Bound::Near(PREDICTED),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The geometric mean over all points of the ratio to the best static setting, pair by pair; only pairs in
/// which every point was measured count.
fn geometric_mean(policy: &Policy, runs: &[Run], cells: &[Judged]) -> Option<Summary> {
    let points = cells.iter().filter(|cell| cell.cell.point().is_some());
    let points = points.filter_map(|cell| Some((cell.cell, cell.best_static.as_ref()?)));
    let over = |(cell, best)| ratios(&throughput(runs, cell, policy), &throughput(runs, cell, best));
    mean_of_pairs(&points.map(over).collect::<Vec<Values>>())
}

/// The geometric mean over several ratios, pair by pair; only pairs that all of them have count.
pub(crate) fn mean_of_pairs(all: &[Values]) -> Option<Summary> {
    let logarithm = |values: &Values, pair| {
        values.get(pair).filter(|ratio| **ratio > 0.0 && ratio.is_finite()).map(|ratio| ratio.ln())
    };
    let mean = |pair| {
        let sum: Option<f64> = all.iter().map(|values| logarithm(values, pair)).sum();
        Some((sum? / all.len() as f64).exp())
    };
    let means: Vec<f64> = all.first()?.keys().filter_map(mean).collect();
    (!means.is_empty()).then(|| Summary::of_ratios(means))
}

/// An aim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Aim {
    /// The aim in words.
    pub(crate) aim: String,
    /// The measured value.
    pub(crate) value: Option<Summary>,
    /// The verdict.
    pub(crate) verdict: Verdict,
}

impl Aim {
    /// An aim that is a bound on this value.
    pub(crate) fn of(aim: String, bound: Bound, value: Option<Summary>) -> Self {
        let verdict = value.as_ref().map_or(Verdict::Inconclusive, |value| bound.judge(value));
        Self { aim, value, verdict }
    }

    /// The same without what was to be measured and was not: it might be missed there.
    pub(crate) fn without(mut self, missing: &[String]) -> Self {
        if !missing.is_empty() {
            self.aim += &format!("; not measured: {}", missing.join(", "));
            self.verdict = self.verdict.min(Verdict::Inconclusive);
        }
        self
    }
}

/// Which side of a number is good.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    Least(f64),
    Most(f64),
    /// At most so far from 1, on either side.
    Near(f64),
}

impl Bound {
    pub(crate) fn judge(self, value: &Summary) -> Verdict {
        let (holds, fails) = match self {
            Self::Least(bound) => (value.low >= bound, value.high < bound),
            Self::Most(bound) => (value.high <= bound, value.low > bound),
            Self::Near(share) => {
                let (least, most) = (1.0 - share, 1.0 + share);
                (value.low >= least && value.high <= most, value.high < least || value.low > most)
            }
        };
        match (value.values.len() >= PAIRS_LEAST, holds, fails) {
            (true, true, _) => Verdict::Holds,
            (true, _, true) => Verdict::Fails,
            _ => Verdict::Inconclusive,
        }
    }

    /// The worst of these: by verdict, as a failure stays one beside a value that decides nothing, then by margin.
    pub(crate) fn worst<T>(self, values: Vec<(T, Summary)>) -> Option<(T, Summary)> {
        values.into_iter().min_by(|(_, a), (_, b)| {
            self.judge(a).cmp(&self.judge(b)).then(self.margin(a).total_cmp(&self.margin(b)))
        })
    }

    /// The distance to the bound on the good side: the smallest is the worst.
    fn margin(self, value: &Summary) -> f64 {
        match self {
            Self::Least(bound) => value.mean - bound,
            Self::Most(bound) => bound - value.mean,
            Self::Near(share) => share - (value.mean - 1.0).abs(),
        }
    }
}

/// A point and what was measured there.
type PointValue = (String, Option<Summary>);

/// The claim with the verdict of its worst point; `None` where nothing was measured.
fn worst(policy: &Policy, claim: &'static str, places: Vec<PointValue>, bound: Bound) -> Option<Claim> {
    let absent = places.iter().filter(|(_, value)| value.is_none());
    let missing: Vec<String> = absent.map(|(place, _)| place.clone()).collect();
    let places: Vec<(String, Summary)> =
        places.into_iter().filter_map(|(place, value)| Some((place, value?))).collect();
    let verdicts: Vec<Verdict> = places.iter().map(|(_, value)| bound.judge(value)).collect();
    let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    let counts = (count(Verdict::Holds), count(Verdict::Inconclusive), count(Verdict::Fails));
    let (place, value) = bound.worst(places)?;
    let verdict = bound.judge(&value);
    // It might fail where it was not measured.
    let verdict = if missing.is_empty() { verdict } else { verdict.min(Verdict::Inconclusive) };
    Some(Claim { policy: policy.clone(), claim, verdict, value, place, counts, missing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ReadAhead;
    use crate::reader::Counted;
    use crate::record::Outcome;

    fn cell(text: &str) -> Cell {
        text.parse().expect("a cell")
    }

    fn mount() -> Policy {
        Policy::Mount("competitive".to_owned())
    }

    fn run(cell: Cell, policy: &Policy, pair: u32, mb: f64, median: f64) -> Run {
        let readers = Counted {
            seconds: 1.0,
            read_bytes: (mb * 1e6) as u64,
            read_median_us: median,
            ..Counted::default()
        };
        let outcome = Outcome::Measured(Box::new(Measured { readers, ..Measured::default() }));
        Run { cell, policy: policy.clone(), pair, seed: u64::from(pair), outcome }
    }

    /// Five pairs in which the machine's speed differed and the ratios did not.
    fn pairs_of(cell: Cell, values: &[(Policy, f64)]) -> Vec<Run> {
        let of = |pair: u32| {
            let speed = [1.0, 0.5, 0.8, 0.6, 0.9][pair as usize];
            values.iter().map(move |(policy, mb)| run(cell, policy, pair, mb * speed, 100.0 / mb))
        };
        (0..5).flat_map(of).collect()
    }

    fn judged(runs: &[Run], cells: &[Cell]) -> (Vec<Judged>, Vec<Claim>) {
        let policies = Policy::compared();
        let judged = judge_cells(runs, cells, &policies);
        let claims = claims(runs, &judged);
        (judged, claims)
    }

    #[test]
    fn pairs_tell_more_than_means() {
        let point = cell("two-rand-0@16");
        let (default, large) = (Policy::DEFAULT, Policy::Linux(ReadAhead::Large));
        let runs = pairs_of(
            point,
            &[(default, 10.0), (large.clone(), 16.0), (mount(), 20.0), (Policy::Oracle, 40.0)],
        );
        let (cells, claims) = judged(&runs, &[point]);
        assert_eq!(cells[0].best_static, Some(large));
        let ours = cells[0].entries.iter().find(|entry| entry.policy == mount()).expect("there");
        let near = |summary: &Option<Summary>, value: f64| {
            let summary = summary.as_ref().expect("paired");
            [summary.low, summary.mean, summary.high].iter().all(|end| (end - value).abs() < 1e-5)
        };
        assert!(
            near(&ours.over_default, 2.0) && near(&ours.over_best_static, 1.25) && near(&ours.of_oracle, 0.5)
        );
        // The interval of the means is wide, that of the ratio is not.
        assert!(ours.mb_per_s.high - ours.mb_per_s.low > 10.0);
        assert!(claims.iter().all(|claim| claim.verdict == Verdict::Holds), "{claims:?}");
        assert_eq!(claims.len(), 3);
    }

    #[test]
    fn the_worst_point_decides_and_is_named() {
        let (good, bad) = (cell("one-whole-0@4"), cell("one-whole-0@16"));
        let mut runs = pairs_of(good, &[(Policy::DEFAULT, 10.0), (mount(), 12.0)]);
        runs.extend(pairs_of(bad, &[(Policy::DEFAULT, 10.0), (mount(), 9.0)]));
        let (_, claims) = judged(&runs, &[good, bad]);
        let every = &claims[0];
        assert_eq!((every.verdict, every.place.as_str()), (Verdict::Fails, "one-whole-0@16/mq-deadline"));
        assert_eq!(every.counts, (1, 0, 1));
        // 1.2 x 0.9 = 1.08: the geometric mean is above 1.
        assert_eq!(claims[1].verdict, Verdict::Holds);
        assert!((claims[1].value.mean - 1.08f64.sqrt()).abs() < 1e-5);
    }

    #[test]
    fn what_the_interval_spans_is_inconclusive() {
        let point = cell("four-64kb-0@1");
        let mut runs = pairs_of(point, &[(Policy::DEFAULT, 10.0)]);
        runs.extend(
            [9.0, 5.0, 8.5, 5.5, 6.0].iter().zip(0..).map(|(mb, pair)| run(point, &mount(), pair, *mb, 0.0)),
        );
        let (_, claims) = judged(&runs, &[point]);
        let random = claims.iter().find(|claim| claim.claim.contains("random")).expect("judged");
        assert_eq!(random.verdict, Verdict::Inconclusive, "{:?}", random.value);
        let of = |pairs: usize| Bound::Least(1.0).judge(&Summary::of(vec![5.0; pairs]));
        assert_eq!(of(PAIRS_LEAST - 1), Verdict::Inconclusive, "a few pairs prove nothing");
        assert_eq!(of(PAIRS_LEAST), Verdict::Holds);
    }

    #[test]
    fn overheads_are_over_the_plain_pass_through() {
        let mut runs =
            pairs_of(Cell::Hot, &[(Policy::DEFAULT, 100.0), (Policy::Plain, 60.0), (mount(), 50.0)]);
        runs.extend((0..5).map(|pair| run(Cell::Cold, &Policy::Plain, pair, 1.0, 80.0 + f64::from(pair))));
        runs.extend((0..5).map(|pair| run(Cell::Cold, &mount(), pair, 1.0, 110.0 + f64::from(pair))));
        let (_, claims) = judged(&runs, &[Cell::Hot, Cell::Cold]);
        let verdict = |word: &str| {
            let claim = claims.iter().find(|claim| claim.claim.contains(word)).expect(word);
            (claim.verdict, (claim.value.mean * 100.0).round() / 100.0)
        };
        assert_eq!(verdict("hot"), (Verdict::Fails, 0.83));
        assert_eq!(verdict("cold"), (Verdict::Holds, 30.0));
    }

    #[test]
    fn a_claim_about_every_point_does_not_hold_while_one_is_missing() {
        let (there, not) = (cell("one-whole-0@4"), cell("one-whole-0@16"));
        let mut runs = pairs_of(there, &[(Policy::DEFAULT, 10.0), (mount(), 20.0)]);
        runs.extend(pairs_of(not, &[(Policy::DEFAULT, 10.0)]));
        let (_, claims) = judged(&runs, &[there, not]);
        let every = &claims[0];
        assert_eq!((every.verdict, every.counts), (Verdict::Inconclusive, (1, 0, 0)));
        assert_eq!(every.missing, ["one-whole-0@16/mq-deadline"]);
        // One that fails at a measured point fails.
        let mut runs = pairs_of(there, &[(Policy::DEFAULT, 10.0), (mount(), 5.0)]);
        runs.extend(pairs_of(not, &[(Policy::DEFAULT, 10.0)]));
        assert_eq!(judged(&runs, &[there, not]).1[0].verdict, Verdict::Fails);
    }

    #[test]
    fn a_pair_that_lacks_a_point_has_no_mean() {
        let (a, b) = (cell("one-whole-0@1"), cell("one-whole-0@4"));
        let mut runs = pairs_of(a, &[(Policy::DEFAULT, 10.0), (mount(), 10.0)]);
        runs.extend([run(b, &Policy::DEFAULT, 0, 10.0, 0.0), run(b, &mount(), 0, 10.0, 0.0)]);
        let cells = judge_cells(&runs, &[a, b], &Policy::compared());
        assert_eq!(geometric_mean(&mount(), &runs, &cells).expect("one pair").values, [1.0]);
    }
}
