//! What has come out.

use super::{Metric, Policy, Summary};
use crate::machine::Report;

/// The run of one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedRun {
    /// Its seed.
    pub seed: u64,
    /// What it came to.
    pub report: Report,
}

/// The runs of one place of the sweep, one a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// With this value of the sweep's own key, if it has one.
    pub value: Option<String>,
    /// On this device.
    pub device: String,
    /// With this policy.
    pub policy: Policy,
    /// So many concurrent requests.
    pub concurrency: u32,
    /// In the order of the experiment's seeds.
    pub runs: Vec<SeedRun>,
}

impl Point {
    /// A number of all runs, with its interval.
    #[must_use]
    pub fn summary(&self, metric: &Metric) -> Summary {
        Summary::of(self.runs.iter().map(|run| (metric.of)(&run.report)).collect())
    }

    /// A number of these runs over the same number of others, seed by seed: runs of one seed have the
    /// same requests, so that the interval is that of what differs.
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
    /// What it is for.
    pub description: String,
    /// The workload.
    pub workload: String,
    /// The I/O scheduler.
    pub scheduler: String,
    /// The key of which points name the value.
    pub key: Option<String>,
    /// Every place of the sweep.
    pub points: Vec<Point>,
}

impl Results {
    /// The first point of a place of the sweep.
    #[must_use]
    pub fn point(&self, device: &str, policy: &Policy, concurrency: u32) -> Option<&Point> {
        self.points.iter().find(|point| {
            point.device == device && point.policy == *policy && point.concurrency == concurrency
        })
    }
}
