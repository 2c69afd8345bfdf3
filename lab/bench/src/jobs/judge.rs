//! Evaluation of the runs: gains pair by pair with their 95 % intervals, and whether the mount is ever slower.

use super::job::NamedJob;
use super::options::Options;
use super::record::{JobCell, JobRun, Measured};
use super::way::Way;
use crate::judge::{Aim, Bound, NO_LOSS, Values, Verdict, ratio};
use crate::pairs::measured;
use foreseek_simulate::experiment::Summary;
use serde::Serialize;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) job: NamedJob,
    /// The static setting with the lowest mean time: chosen with hindsight, to the disadvantage of what is
    /// compared with it.
    pub(crate) best_static: Option<Way>,
    pub(crate) entries: Vec<JobResult>,
}

/// A way in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JobResult {
    pub(crate) way: Way,
    pub(crate) seconds: Summary,
    /// The speed-up over stock.
    pub(crate) gain: Option<Summary>,
    /// The speed-up over the best static setting.
    pub(crate) over_best: Option<Summary>,
    /// Processor time of programs and mount for each byte that the disk read, in nanoseconds; `None` where a
    /// server does the work.
    pub(crate) processor_ns_per_byte: Option<f64>,
    /// Mean requests, seeks and MiB of the disk.
    pub(crate) reads: f64,
    pub(crate) seeks: f64,
    pub(crate) read_mib: f64,
}

/// Whether to mount for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Advice {
    /// It is faster with certainty.
    Mount,
    /// It is no slower with certainty.
    NoLoss,
    /// The interval contains the bound.
    Uncertain,
    /// It is slower with certainty.
    DoNot,
}

impl Advice {
    /// The advice that follows from a gain over stock.
    pub(crate) fn of(gain: &Summary) -> Self {
        match (Bound::Least(1.0).judge(gain), Bound::Least(NO_LOSS).judge(gain)) {
            (Verdict::Holds, _) => Self::Mount,
            (_, Verdict::Holds) => Self::NoLoss,
            (_, Verdict::Fails) => Self::DoNot,
            _ => Self::Uncertain,
        }
    }
}

fn seconds(runs: &[JobRun], job: NamedJob, way: Way) -> Values {
    let of = JobCell { job };
    let all = measured(runs, &of, &way).map(|(pair, run)| (pair, run.seconds));
    all.filter(|(_, seconds)| *seconds > 0.0).collect()
}

/// Evaluates every job of which something was measured.
#[must_use]
pub(crate) fn cells(runs: &[JobRun], options: &Options) -> Vec<Cell> {
    let cells = options.jobs.iter().map(|job| judge(runs, *job, &options.ways));
    cells.filter(|cell| !cell.entries.is_empty()).collect()
}

fn judge(runs: &[JobRun], job: NamedJob, ways: &[Way]) -> Cell {
    let there = |way: &Way| !seconds(runs, job, *way).is_empty();
    let mean = |way: &Way| Summary::of(seconds(runs, job, *way).into_values().collect()).mean;
    let statics = ways.iter().copied().filter(|way| way.is_static() && there(way));
    let best_static = statics.min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let entries = ways.iter().copied().filter(there).map(|way| {
        let of = JobCell { job };
        let all: Vec<&Measured> = measured(runs, &of, &way).map(|(_, run)| run).collect();
        let sum = |of: fn(&Measured) -> f64| all.iter().map(|run| of(run)).sum::<f64>();
        let count = all.len() as f64;
        let read = sum(|run| run.read_bytes as f64);
        let processor = sum(|run| run.program_processor_s + run.mount_processor_s);
        let over = |other: Way| ratio(&seconds(runs, job, other), &seconds(runs, job, way));
        JobResult {
            way,
            seconds: Summary::of(seconds(runs, job, way).into_values().collect()),
            gain: over(Way::Stock),
            over_best: best_static.and_then(over),
            processor_ns_per_byte: (!job.0.has_server() && read > 0.0).then(|| processor * 1e9 / read),
            reads: sum(|run| run.reads as f64) / count,
            seeks: sum(|run| run.seeks as f64) / count,
            read_mib: read / count / f64::from(1 << 20),
        }
    });
    Cell { job, best_static, entries: entries.collect() }
}

impl Cell {
    /// What was measured in a way.
    pub(crate) fn entry(&self, way: Way) -> Option<&JobResult> {
        self.entries.iter().find(|entry| entry.way == way)
    }
}

/// Judges the aim: the mount with its defaults is no slower than stock in any job.
#[must_use]
pub(crate) fn aims(cells: &[Cell]) -> Vec<Aim> {
    let aim = |cell: &Cell| {
        let gain = cell.entry(Way::Mount)?.gain.clone();
        Some(Aim::of(format!("mount: {} at least {NO_LOSS} of stock", cell.job), Bound::Least(NO_LOSS), gain))
    };
    cells.iter().filter_map(aim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;

    fn run(job: NamedJob, way: Way, pair: u32, seconds: f64) -> JobRun {
        let measured = Measured {
            seconds,
            program_processor_s: 1.0,
            mount_processor_s: 0.5,
            read_bytes: 1 << 30,
            ..Measured::default()
        };
        JobRun { cell: JobCell { job }, way, pair, outcome: Outcome::Measured(measured) }
    }

    #[test]
    fn the_mount_is_judged_pair_by_pair_and_the_best_static_setting_found() {
        let job: NamedJob = "cat-4".parse().expect("a job");
        let pairs = |mount: f64, count: u32| -> Vec<JobRun> {
            let ways = [(Way::Stock, 10.0), (Way::Stock4M, 5.0), (Way::Mount, mount)];
            let of = |pair: u32| ways.map(|(way, time)| run(job, way, pair, time + f64::from(pair) * 0.01));
            (0..count).flat_map(of).collect()
        };
        let options = Options { jobs: vec![job], ..Options::default() };
        let judged = |mount, count| cells(&pairs(mount, count), &options).remove(0);
        let cell = judged(4.0, 5);
        assert_eq!(cell.best_static, Some(Way::Stock4M));
        let mount = cell.entry(Way::Mount).expect("measured");
        assert!((mount.gain.as_ref().expect("pairs").mean - 2.49).abs() < 0.01);
        assert!((mount.over_best.as_ref().expect("pairs").mean - 1.25).abs() < 0.01);
        assert!((mount.processor_ns_per_byte.expect("no server") - 1.5e9 / f64::from(1 << 30)).abs() < 1e-6);
        let verdict = |mount, count| aims(&[judged(mount, count)]).remove(0).verdict;
        assert_eq!(verdict(4.0, 5), Verdict::Holds);
        assert_eq!(verdict(12.0, 5), Verdict::Fails);
        assert_eq!(verdict(4.0, 2), Verdict::Inconclusive);
    }

    #[test]
    fn advice_follows_from_the_interval() {
        let advice = |values: [f64; 5]| Advice::of(&Summary::of_ratios(values.to_vec()));
        assert_eq!(advice([1.2, 1.21, 1.22, 1.2, 1.21]), Advice::Mount);
        assert_eq!(advice([0.99, 1.0, 0.995, 1.0, 0.99]), Advice::NoLoss);
        assert_eq!(advice([0.9, 1.1, 0.95, 1.05, 1.0]), Advice::Uncertain);
        assert_eq!(advice([0.9, 0.91, 0.9, 0.92, 0.9]), Advice::DoNot);
    }
}
