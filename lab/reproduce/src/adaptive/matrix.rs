//! The whole matrix: every run whose processes read in closed loops, on all devices, with 1 to 512 concurrent
//! requests; jobs on all devices.

use crate::figure::{Chart, Figure, Kind};
use foreseek_device::Profile;
use foreseek_simulate::experiment::{Experiment, Metric};

const DEVICES: [&str; 5] = ["ibm-36g-51", "barracuda-500g", "exos-18t", "raid0-2x-seagate", "network-volume"];
const LEVELS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// A figure of two devices and fewer levels, which the matrix replaces.
const NARROWER: &str = "adaptive-levels.toml";
/// The policies whose curves are drawn: more can't be distinguished. Tables have all.
const SHOWN: [&str; 6] = ["linux-2.6.3", "on-demand", "aggressive", "competitive", "adaptive", "oracle"];

/// These figures over the whole matrix: a chart for each closed loop and device beside their own.
pub(super) fn whole(figures: Vec<Figure>) -> Vec<Figure> {
    let wanted = figures.into_iter().filter(|figure| figure.file != NARROWER);
    wanted.map(widened).collect()
}

fn widened(mut figure: Figure) -> Figure {
    for run in &mut figure.runs {
        run.devices = DEVICES.iter().filter_map(|name| Profile::builtin(name)).collect();
        if super::closed(run) {
            run.concurrency = LEVELS.to_vec();
        }
    }
    let drawn = figure.runs.iter().filter(|run| super::closed(run) && run.policies.len() > 1);
    let curves: Vec<Chart> = drawn.flat_map(|run| DEVICES.map(|device| curve(run, device))).collect();
    figure.charts.extend(curves);
    figure
}

/// Throughput over concurrency.
fn curve(run: &Experiment, device: &str) -> Chart {
    Chart {
        title: format!("{} on {device}", run.workload),
        kind: Kind::Lines,
        runs: vec![run.name.clone()],
        devices: Vec::new(),
        device: Some(device.to_owned()),
        metric: Metric::THROUGHPUT.name.to_owned(),
        normalized_to: None,
        normalized_to_run: None,
        concurrency: None,
        levels: None,
        across: String::new(),
        names: Vec::new(),
        linear: false,
        steps: false,
        upright: None,
        read: false,
        policies: SHOWN.map(str::to_owned).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_closed_loop_is_run_and_drawn_everywhere() {
        let figures = whole(Figure::adaptive(&crate::Overrides::default()).expect("built in"));
        let runs = || figures.iter().flat_map(|figure| &figure.runs);
        let closed: Vec<&Experiment> = runs().filter(|run| super::super::closed(run)).collect();
        assert!(closed.iter().all(|run| run.concurrency == LEVELS && run.devices.len() == DEVICES.len()));
        let mut workloads = BTreeSet::new();
        assert!(
            closed.iter().filter(|run| run.policies.len() > 1).all(|run| workloads.insert(&run.workload))
        );
        let charts = || figures.iter().flat_map(|figure| &figure.charts);
        let curves = charts().filter(|chart| chart.kind == Kind::Lines).count();
        assert_eq!(curves, workloads.len() * DEVICES.len());
        let names: BTreeSet<String> = runs().map(|run| run.name.clone()).collect();
        assert!(charts().all(|chart| chart.runs.iter().all(|run| names.contains(run))));
    }
}
