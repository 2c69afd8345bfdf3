//! The results.

use super::{Metric, Policy, Summary};
use crate::machine::Report;

/// The run of one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedRun {
    /// Its seed.
    pub seed: u64,
    /// Its report.
    pub report: Report,
}

/// The runs at one point of the sweep, one for each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The value of the sweep's own key, if it has one.
    pub value: Option<String>,
    /// The device.
    pub device: String,
    /// The policy.
    pub policy: Policy,
    /// Concurrent requests.
    pub concurrency: u32,
    /// In the order of the experiment's seeds.
    pub runs: Vec<SeedRun>,
}

impl Point {
    /// A metric over all runs, with its interval.
    #[must_use]
    pub fn summary(&self, metric: &Metric) -> Summary {
        Summary::of(self.runs.iter().map(|run| (metric.of)(&run.report)).collect())
    }

    /// A metric of these runs over the same metric of others, seed by seed: runs of one seed have the same
    /// requests, so that the interval is that of the difference.
    #[must_use]
    pub fn ratio(&self, against: &Self, metric: &Metric) -> Summary {
        let pairs = self.runs.iter().zip(&against.runs);
        Summary::of(
            pairs
                .map(|(ours, theirs)| {
                    let theirs = (metric.of)(&theirs.report);
                    if theirs == 0.0 { 0.0 } else { (metric.of)(&ours.report) / theirs }
                })
                .collect(),
        )
    }
}

/// An experiment's results, in the order of the sweep: values of its own key, devices, then policies, then concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// Its purpose.
    pub description: String,
    /// The workload.
    pub workload: String,
    /// The I/O scheduler.
    pub scheduler: String,
    /// The swept key, whose value points have.
    pub key: Option<String>,
    /// Every point of the sweep.
    pub points: Vec<Point>,
}

impl Results {
    /// The first point with this device, policy and concurrency.
    #[must_use]
    pub fn point(&self, device: &str, policy: &Policy, concurrency: u32) -> Option<&Point> {
        self.points.iter().find(|point| {
            point.device == device && point.policy == *policy && point.concurrency == concurrency
        })
    }
}
