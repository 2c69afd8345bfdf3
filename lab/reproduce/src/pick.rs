//! Takes a claim's number from runs.

use crate::Measured;
use foreseek_simulate::experiment::{Metric, Point, Policy, Results, Summary};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The results of runs, by the runs' names.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<String, Results>);

impl Runs {
    pub(crate) fn insert(&mut self, results: Results) {
        self.0.insert(results.experiment.clone(), results);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Results> {
        self.0.get(name)
    }

    /// The ratios of several runs.
    pub(crate) fn all_ratios(
        &self,
        runs: &[&str],
        policies: (&str, &str),
        metric: &Metric,
        within: &RangeInclusive<u32>,
    ) -> Sweep {
        Sweep(runs.iter().flat_map(|run| self.ratios(run, policies, metric, within).0).collect())
    }

    /// A metric of a policy over another's, at each device and level of a run within these.
    pub(crate) fn ratios(
        &self,
        run: &str,
        (ours, theirs): (&str, &str),
        metric: &Metric,
        within: &RangeInclusive<u32>,
    ) -> Sweep {
        let (ours, theirs) = (Policy::from(ours), Policy::from(theirs));
        self.places(run, &ours, within, |results, point| {
            Some(point.ratio(same_place(results, point, &theirs)?, metric))
        })
    }

    /// The same for a run that sweeps a key: only at these of its values.
    pub(crate) fn ratios_at(
        &self,
        run: &str,
        policies: (&str, &str),
        metric: &Metric,
        values: &[&str],
    ) -> Sweep {
        let all = self.ratios(run, policies, metric, &(0..=u32::MAX));
        all.of_values(values)
    }

    /// A metric of a policy, at these values of the key that a run sweeps.
    pub(crate) fn values_at(&self, run: &str, policy: &str, metric: &Metric, values: &[&str]) -> Sweep {
        self.values(run, policy, metric, &(0..=u32::MAX)).of_values(values)
    }

    /// A metric at each value of the swept key over that at one value, on each device.
    pub(crate) fn growth(&self, run: &str, policy: &str, metric: &Metric, from: &str) -> Sweep {
        let policy = Policy::from(policy);
        self.places(run, &policy, &(0..=u32::MAX), |results, point| {
            let mut points = results.points.iter();
            let first = points.find(|other| {
                other.value.as_deref() == Some(from) && other.device == point.device && other.policy == policy
            });
            Some(point.ratio(first?, metric))
        })
    }

    /// A metric on one device over that on another, at each value of the swept key.
    pub(crate) fn over_devices(
        &self,
        run: &str,
        policy: &str,
        metric: &Metric,
        (ours, theirs): (&str, &str),
    ) -> Sweep {
        let policy = Policy::from(policy);
        let all = self.places(run, &policy, &(0..=u32::MAX), |results, point| {
            let mut points = results.points.iter();
            let other = points
                .find(|other| other.value == point.value && other.device == theirs && other.policy == policy);
            Some(point.ratio(other?, metric))
        });
        all.on(ours)
    }

    /// A metric of one run over that of another that sweeps the same values, at each of them.
    pub(crate) fn over(&self, (ours, theirs): (&str, &str), policy: &str, metric: &Metric) -> Sweep {
        let policy = Policy::from(policy);
        self.places(ours, &policy, &(0..=u32::MAX), |_, point| {
            Some(point.ratio(same_place(self.get(theirs)?, point, &policy)?, metric))
        })
    }

    /// A metric of a policy, at each device and level of a run within these.
    pub(crate) fn values(
        &self,
        run: &str,
        policy: &str,
        metric: &Metric,
        within: &RangeInclusive<u32>,
    ) -> Sweep {
        self.places(run, &Policy::from(policy), within, |_, point| Some(point.summary(metric)))
    }

    fn places(
        &self,
        run: &str,
        policy: &Policy,
        within: &RangeInclusive<u32>,
        take: impl Fn(&Results, &Point) -> Option<Summary>,
    ) -> Sweep {
        let Some(results) = self.get(run) else { return Sweep(Vec::new()) };
        let points = results.points.iter();
        let points = points.filter(|point| point.policy == *policy && within.contains(&point.concurrency));
        let place = |point: &Point| match &point.value {
            Some(value) => format!("{run}, {}, {policy}, at {value}", point.device),
            None => format!("{run}, {}, {policy}, at {}", point.device, point.concurrency),
        };
        Sweep(points.filter_map(|point| Some((place(point), take(results, point)?))).collect())
    }
}

/// Another policy's point at the same device and level.
fn same_place<'a>(results: &'a Results, point: &Point, policy: &Policy) -> Option<&'a Point> {
    results.points.iter().find(|other| {
        other.value == point.value
            && other.device == point.device
            && other.concurrency == point.concurrency
            && other.policy == *policy
    })
}

/// Values at the points of a sweep.
#[derive(Debug)]
pub(crate) struct Sweep(Vec<(String, Summary)>);

impl Sweep {
    /// The points of both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// At each point the smaller value of two sweeps over the same points; `None` if they differ.
    pub(crate) fn least_of(mut self, other: Self) -> Option<Self> {
        if self.0.len() != other.0.len() {
            return None;
        }
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            if ours.0 != theirs.0 {
                return None;
            }
            if theirs.1.mean < ours.1.mean {
                *ours = theirs;
            }
        }
        Some(self)
    }

    /// Each value over the other's at the same position, seed by seed, under the other's name.
    pub(crate) fn over(self, other: Self) -> Self {
        let ratio = |(ours, (place, theirs)): ((String, Summary), (String, Summary))| {
            let values = ours.1.values.iter().zip(&theirs.values).map(|(ours, theirs)| ours / theirs);
            (place, Summary::of(values.collect()))
        };
        Self(self.0.into_iter().zip(other.0).map(ratio).collect())
    }

    /// Only the points on one device.
    pub(crate) fn on(mut self, device: &str) -> Self {
        self.0.retain(|(place, _)| place.split(", ").nth(1) == Some(device));
        self
    }

    /// Only the points on other devices.
    pub(crate) fn not_on(mut self, device: &str) -> Self {
        self.0.retain(|(place, _)| place.split(", ").nth(1) != Some(device));
        self
    }

    /// Only the points at some values of the swept key.
    pub(crate) fn of_values(mut self, values: &[&str]) -> Self {
        let at = |place: &str| place.rsplit_once(", at ").is_some_and(|(_, value)| values.contains(&value));
        self.0.retain(|(place, _)| at(place));
        self
    }

    /// Only the points with something to divide by: a ratio over nothing is 0.
    pub(crate) fn of_something(mut self) -> Self {
        self.0.retain(|(_, value)| value.mean > 0.0);
        self
    }

    /// Every value times a number.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        for (_, value) in &mut self.0 {
            *value = Summary::of(value.values.iter().map(|value| value * factor).collect());
        }
        self
    }

    /// All points.
    pub(crate) fn places(self) -> Vec<(String, Summary)> {
        self.0
    }

    /// The point with the largest mean, as a sweep of one point.
    pub(crate) fn best(self) -> Option<Self> {
        let most = self.0.into_iter().max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))?;
        Some(Self(vec![most]))
    }

    /// The point with the smallest mean, as a sweep of one point.
    pub(crate) fn least(self) -> Option<Self> {
        let least = self.0.into_iter().min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))?;
        Some(Self(vec![least]))
    }

    /// The point with the largest mean.
    pub(crate) fn largest(self) -> Option<Measured> {
        self.place(|value| value.mean)
    }

    /// The point with the smallest mean.
    pub(crate) fn smallest(self) -> Option<Measured> {
        self.place(|value| -value.mean)
    }

    /// The point whose mean is furthest from a stated range, for claims about every point.
    pub(crate) fn furthest_from(self, range: RangeInclusive<f64>) -> Option<Measured> {
        let far = |value: &Summary| (range.start() - value.mean).max(value.mean - range.end());
        self.place(far)
    }

    /// The mean over the points, seed by seed.
    pub(crate) fn mean(self) -> Option<Measured> {
        let seeds = self.0.iter().map(|(_, value)| value.values.len()).min()?;
        let of_seed = |seed: usize| {
            self.0.iter().map(|(_, value)| value.values[seed]).sum::<f64>() / self.0.len() as f64
        };
        let value = Summary::of((0..seeds).map(of_seed).collect());
        Some(Measured { sweep: self.0, ..Measured::value(value) })
    }

    /// A least value that every run at every point must keep.
    pub(crate) fn every_run_at_least(self) -> Option<Measured> {
        let runs: Vec<f64> = self.0.iter().flat_map(|(_, value)| value.values.clone()).collect();
        if runs.is_empty() {
            return None;
        }
        Some(Measured { sweep: self.0, ..Measured::bound(runs, f64::min) })
    }

    fn place(self, most: impl Fn(&Summary) -> f64) -> Option<Measured> {
        let chosen = self.0.iter().max_by(|(_, a), (_, b)| most(a).total_cmp(&most(b)))?;
        Some(Measured { value: chosen.1.clone(), sweep: self.0, ..Measured::number(0.0) })
    }
}
