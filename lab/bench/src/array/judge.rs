//! Evaluation of the runs: ratios pair by pair with their 95 % intervals, and the aims.

use super::load::Load;
use super::options::Options;
use super::record::{ArrayRun, LoadCell, Measured};
use super::way::Way;
use crate::judge::{Aim, Bound, Values, ratio};
use crate::pairs::measured;
use foreseek_array::DEFAULT_POLICY;
use foreseek_simulate::experiment::Summary;
use serde::Serialize;

/// A load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) load: Load,
    pub(crate) entries: Vec<WayResult>,
}

/// A way in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WayResult {
    pub(crate) way: Way,
    pub(crate) mb_per_s: Summary,
    /// Over the raw device with its defaults.
    pub(crate) gain: Option<Summary>,
    /// Bytes that the members read for each that was read.
    pub(crate) disk_per_read: f64,
    /// Processor milliseconds of the array's server for each MB.
    pub(crate) server_ms_per_mb: f64,
    /// How busy the server kept a processor: figure 8c of ATC'08 plots it over throughput.
    pub(crate) server_share: f64,
}

fn throughput(runs: &[ArrayRun], load: Load, way: &Way) -> Values {
    measured(runs, &LoadCell { load }, way)
        .map(|(pair, run)| (pair, run.mb_per_s()))
        .filter(|(_, value)| *value > 0.0)
        .collect()
}

/// Evaluates every cell of which something was measured.
#[must_use]
pub(crate) fn cells(runs: &[ArrayRun], options: &Options) -> Vec<Cell> {
    let cell = |load: &Load| {
        let load = *load;
        let entries = options.ways.iter().filter_map(|way| {
            let rates = throughput(runs, load, way);
            if rates.is_empty() {
                return None;
            }
            let sum = |of: fn(&Measured) -> f64| {
                measured(runs, &LoadCell { load }, way).map(|(_, run)| of(run)).sum::<f64>()
            };
            let read = sum(|run| run.read_bytes as f64);
            Some(WayResult {
                way: way.clone(),
                gain: ratio(&rates, &throughput(runs, load, &Way::stock())),
                mb_per_s: Summary::of(rates.into_values().collect()),
                disk_per_read: sum(|run| run.disk_bytes as f64) / read,
                server_ms_per_mb: sum(|run| run.server_seconds) * 1e3 / (read / 1e6),
                server_share: sum(|run| run.server_seconds) / sum(|run| run.seconds),
            })
        });
        Cell { load, entries: entries.collect() }
    };
    options.loads.iter().map(cell).filter(|cell| !cell.entries.is_empty()).collect()
}

/// Judges the aims of the loads that were run, for the default policy.
#[must_use]
pub(crate) fn aims(cells: &[Cell]) -> Vec<Aim> {
    let shipped: Result<Way, _> = DEFAULT_POLICY.parse();
    let aim = |cell: &Cell, least: f64, said: &str| {
        let entry = cell.entries.iter().find(|entry| Some(&entry.way) == shipped.as_ref().ok());
        let aim = format!("{DEFAULT_POLICY}: {} at least {said} the raw array", cell.load);
        Aim::of(aim, Bound::Least(least), entry.and_then(|entry| entry.gain.clone()))
    };
    let of_cell = |cell: &Cell| match cell.load.to_string().as_str() {
        "reverse-16" => Some(aim(cell, 10.0, "10 times")),
        "stride-1" => Some(aim(cell, 4.0, "4 times")),
        _ if cell.load.is_random() => Some(aim(cell, 0.98, "0.98 of")),
        _ => None,
    };
    cells.iter().filter_map(of_cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::record::Outcome;

    #[test]
    fn gains_are_of_pairs_and_few_decide_nothing() {
        let load: Load = "reverse-16".parse().expect("a load");
        let run = |way: &str, pair, megabytes: u64| {
            let measured =
                Measured { read_bytes: megabytes * 1_000_000, seconds: 1.0, ..Measured::default() };
            let way = way.parse().expect("a way");
            ArrayRun { cell: LoadCell { load }, way, pair, outcome: Outcome::Measured(measured) }
        };
        let pairs = |count: u32| -> Vec<ArrayRun> {
            (0..count)
                .flat_map(|pair| [run("raw", pair, 10), run(DEFAULT_POLICY, pair, 200 + u64::from(pair))])
                .collect()
        };
        let judge = |count| aims(&cells(&pairs(count), &Options::default())).remove(0);
        assert_eq!(judge(5).verdict, Verdict::Holds);
        assert!((judge(5).value.expect("measured").mean - 20.2).abs() < 0.01);
        assert_eq!(judge(2).verdict, Verdict::Inconclusive);
        assert_eq!(aims(&cells(&pairs(5), &Options::default())).len(), 1, "aims of loads that were not run");
    }
}
