//! Throughput over concurrency: a chart for each benchmark and scheduler, a curve for each policy.

use crate::cell::Benchmark;
use crate::judge::{Judged, PolicyResult};
use crate::outcome::Outcome;
use crate::policy::Policy;
use foreseek_chart::{Across, Lines, Mark, Point, Series};
use foreseek_rig::queue::Scheduler;

/// The least levels of a curve.
const LEVELS_LEAST: usize = 2;

impl Outcome {
    /// The charts with their names.
    pub(super) fn charts(&self) -> Vec<(String, String)> {
        let mut charts = Vec::new();
        for scheduler in Scheduler::ALL {
            for benchmark in Benchmark::ALL {
                let cells: Vec<&Judged> = self
                    .cells
                    .iter()
                    .filter(|cell| {
                        let point = cell.cell.point();
                        point.is_some_and(|at| (at.benchmark, at.scheduler) == (benchmark, scheduler))
                    })
                    .collect();
                if cells.len() >= LEVELS_LEAST {
                    let name = format!("{}-{}", benchmark.name(), scheduler.name());
                    charts.push((name, self.chart(benchmark, scheduler, &cells)));
                }
            }
        }
        charts
    }

    fn chart(&self, benchmark: Benchmark, scheduler: Scheduler, cells: &[&Judged]) -> String {
        let mut policies: Vec<&Policy> = Vec::new();
        for entry in cells.iter().flat_map(|cell| &cell.entries) {
            if !policies.contains(&&entry.policy) {
                policies.push(&entry.policy);
            }
        }
        let point = |cell: &Judged, entry: &PolicyResult| {
            let x = f64::from(cell.cell.point()?.concurrency);
            let value = &entry.mb_per_s;
            Some(Point { x, y: value.mean, low: value.low, high: value.high })
        };
        let series = |policy: &&Policy| Series {
            name: policy.to_string(),
            mark: Mark::Line,
            points: cells
                .iter()
                .filter_map(|cell| point(cell, cell.entries.iter().find(|entry| entry.policy == **policy)?))
                .collect(),
        };
        Lines {
            title: format!(
                "{} under {}, time x {}",
                benchmark.name(),
                scheduler.name(),
                self.plan.time_scale
            ),
            across: "concurrency".to_owned(),
            scale: Across::Steps,
            upright: "MB/s, with 95 % intervals".to_owned(),
            series: policies.iter().map(series).collect(),
        }
        .to_svg()
    }
}
