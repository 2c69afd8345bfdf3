//! Evaluation of the runs: gains pair by pair with their 95 % intervals, and the aims.

use super::beside::Beside;
use super::options::Options;
use super::program::{FCLONES, NamedProgram};
use super::record::{Measured, On, SideCosts, WalkRun};
use super::tree::Tree;
use super::way::Way;
use crate::judge::{Aim, Bound, Values, mean_of_pairs, ratio, ratios};
use crate::pairs::measured;
use foreseek_simulate::experiment::Summary;
use serde::Serialize;

/// A program on a tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// The tree.
    pub(crate) tree: Tree,
    /// The program.
    pub(crate) program: NamedProgram,
    /// Seconds of one ascending pass over all that it needs, one request at a time, and of the program when that is in
    /// memory: the larger of the two is the oracle.
    pub(crate) pass_seconds: Option<f64>,
    /// See above.
    pub(crate) cached_seconds: Option<f64>,
    /// The result in each way.
    pub(crate) entries: Vec<WalkResult>,
}

/// A way in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WalkResult {
    /// The way.
    pub(crate) way: Way,
    /// Seconds from cold.
    pub(crate) seconds: Summary,
    /// The speed-up over stock.
    pub(crate) gain: Option<Summary>,
    /// Its time over that of the oracle: the larger of pass and cached run.
    pub(crate) over_oracle: Option<Summary>,
    /// The time of a run over what is in memory, over stock's.
    pub(crate) again: Option<Summary>,
    /// Of the load beside it: seconds, and their ratio to stock's.
    pub(crate) beside_seconds: Option<Summary>,
    /// See above.
    pub(crate) beside_over_stock: Option<Summary>,
    /// What reading ahead cost besides, in the mean.
    pub(crate) side_costs: Option<SideCosts>,
    /// Mean requests and seeks of the disk.
    pub(crate) reads: f64,
    /// See above.
    pub(crate) seeks: f64,
}

fn by_pair(runs: &[WalkRun], cell: On, way: Option<Way>, of: fn(&Measured) -> f64) -> Values {
    measured(runs, &cell, &way).map(|(pair, run)| (pair, of(run))).filter(|(_, value)| *value > 0.0).collect()
}

fn mean(values: &Values) -> Option<f64> {
    (!values.is_empty()).then(|| values.values().sum::<f64>() / values.len() as f64)
}

const SECONDS: fn(&Measured) -> f64 = |run| run.seconds;
const AGAIN: fn(&Measured) -> f64 = |run| run.again_seconds;
const BESIDE: fn(&Measured) -> f64 = |run| run.beside_seconds.unwrap_or(0.0);

/// Evaluates every cell of which something was measured.
#[must_use]
pub(crate) fn cells(runs: &[WalkRun], options: &Options) -> Vec<Cell> {
    options
        .cells()
        .into_iter()
        .map(|cell| judge(runs, cell, options))
        .filter(|cell| !cell.entries.is_empty())
        .collect()
}

fn judge(runs: &[WalkRun], at: On, options: &Options) -> Cell {
    let stock = Some(Way::Stock);
    let pass = by_pair(runs, at, None, SECONDS);
    // Where memory holds only a part of the tree, the second run is not over cached data.
    let fits = !at.tree.is_larger_than_memory();
    let cached = if fits { by_pair(runs, at, stock, AGAIN) } else { Values::new() };
    let entries = options.ways.iter().filter_map(|way| {
        let way = *way;
        let seconds = by_pair(runs, at, Some(way), SECONDS);
        if seconds.is_empty() {
            return None;
        }
        let count = |of: fn(&Measured) -> f64| mean(&by_pair(runs, at, Some(way), of)).unwrap_or(0.0);
        let again = by_pair(runs, at, Some(way), AGAIN);
        let beside = by_pair(runs, at, Some(way), BESIDE);
        Some(WalkResult {
            way,
            gain: ratio(&by_pair(runs, at, stock, SECONDS), &seconds),
            over_oracle: ratio(&seconds, &oracle(&seconds, &pass, &cached, options.new_trees)),
            again: ratio(&again, &by_pair(runs, at, stock, AGAIN)).filter(|_| fits),
            seconds: Summary::of(seconds.into_values().collect()),
            beside_over_stock: ratio(&beside, &by_pair(runs, at, stock, BESIDE)),
            beside_seconds: (!beside.is_empty()).then(|| Summary::of(beside.into_values().collect())),
            side_costs: SideCosts::mean(
                &measured(runs, &at, &Some(way)).filter_map(|(_, run)| run.side_costs).collect::<Vec<_>>(),
            ),
            reads: count(|run| run.reads as f64),
            seeks: count(|run| run.seeks as f64),
        })
    });
    Cell {
        tree: at.tree,
        program: at.program,
        pass_seconds: mean(&pass),
        cached_seconds: mean(&cached),
        entries: entries.collect(),
    }
}

/// The oracle's time in each of these pairs: the larger of pass and cached run over its trees. The same trees have one
/// pass, and one mean of the cached runs, for all pairs.
fn oracle(pairs: &Values, pass: &Values, cached: &Values, new_trees: bool) -> Values {
    let of = |values: &Values, pair| if new_trees { values.get(pair).copied() } else { mean(values) };
    pairs.keys().filter_map(|pair| Some((*pair, of(pass, pair)?.max(of(cached, pair)?)))).collect()
}

/// Judges the aims.
#[must_use]
pub(crate) fn aims(runs: &[WalkRun], cells: &[Cell]) -> Vec<Aim> {
    let gains = [
        (Way::Warm, Tree::Fresh, 4.0),
        (Way::Warm, Tree::Aged, 2.0),
        (Way::Watch, Tree::Fresh, 3.0),
        (Way::Watch, Tree::Aged, 1.7),
    ];
    let gains = gains.into_iter().map(|(way, tree, least)| {
        let aim = format!("{way}: at least {least} times stock over {} trees, geometric mean of programs that read contents", tree.name());
        Aim::of(aim, Bound::Least(least), geometric_mean(runs, cells, tree, way))
    });
    let oracle = [(Way::Warm, 1.5), (Way::Watch, 2.0)].into_iter().map(|(way, most)| {
        let values = entries(cells, way)
            .filter(|(cell, _)| cell.program.0.reads_alone())
            .filter_map(|(cell, entry)| Some((cell, entry.over_oracle.clone()?)));
        worst(
            format!("{way}: within {most} times the oracle wherever contents are read"),
            Bound::Most(most),
            values,
        )
    });
    let cached = entries(cells, Way::Watch).filter(|(cell, _)| cell.program.0.beside.is_none());
    let cached = cached.filter_map(|(cell, entry)| Some((cell, entry.again.clone()?)));
    let cached = worst(
        "watch: a program over cached data takes at most 1.02 times as long".to_owned(),
        Bound::Most(1.02),
        cached,
    );
    let mut all: Vec<Aim> = gains.chain(oracle).chain([cached]).collect();
    all.extend(duplicates(runs));
    all.extend([Way::Warm, Way::Watch].into_iter().flat_map(|way| beside(cells, way)));
    all
}

/// The load beside a program: a second program gains as well, and a reader waits no longer than the bound.
fn beside(cells: &[Cell], way: Way) -> Vec<Aim> {
    let ratios = |what: Beside| {
        entries(cells, way)
            .filter(move |(cell, _)| cell.program.0.beside == Some(what))
            .filter_map(|(cell, entry)| Some((cell, entry, entry.beside_over_stock.clone()?)))
    };
    let two = ratios(Beside::Program).map(|(cell, entry, other)| {
        let other = Summary::of_ratios(other.values.iter().map(|value| 1.0 / value).collect());
        let first = entry.gain.clone().filter(|first| first.mean < other.mean);
        let aim = format!("{way}: each of {} gains", cell.program);
        Aim::of(aim, Bound::Least(1.0), Some(first.unwrap_or(other)))
    });
    let reader = ratios(Beside::Reader).map(|(cell, _, ratio)| {
        let aim = format!(
            "{way}: a read of another program takes at most twice as long as with stock ({})",
            cell.program
        );
        Aim::of(aim, Bound::Most(2.0), Some(ratio))
    });
    two.chain(reader).collect()
}

fn entries(cells: &[Cell], way: Way) -> impl Iterator<Item = (&Cell, &WalkResult)> {
    cells.iter().filter_map(move |cell| Some((cell, cell.entries.iter().find(|entry| entry.way == way)?)))
}

/// The cell with the worst value of a bound on ratios.
fn worst<'a>(aim: String, bound: Bound, values: impl Iterator<Item = (&'a Cell, Summary)>) -> Aim {
    let worst = values.min_by(|(_, a), (_, b)| bound.margin(a).total_cmp(&bound.margin(b)));
    let place = worst
        .as_ref()
        .map_or(String::new(), |(cell, _)| format!("; worst: {} over {}", cell.program, cell.tree.name()));
    Aim::of(aim + &place, bound, worst.map(|(_, value)| value))
}

/// Pair by pair over the programs that read contents and count; only pairs in which every one of them was
/// measured count.
fn geometric_mean(runs: &[WalkRun], cells: &[Cell], tree: Tree, way: Way) -> Option<Summary> {
    let counts = |cell: &Cell| cell.tree == tree && cell.program.0.reads_alone() && cell.program.0.counts;
    let programs = entries(cells, way).filter(|(cell, _)| counts(cell));
    let seconds = |program, way| by_pair(runs, On { tree, program }, Some(way), SECONDS);
    let gains =
        programs.map(|(cell, _)| ratios(&seconds(cell.program, Way::Stock), &seconds(cell.program, way)));
    mean_of_pairs(&gains.filter(|gains| !gains.is_empty()).collect::<Vec<Values>>())
}

/// jdupes after `warm` against fclones, which reads in an order of its own.
fn duplicates(runs: &[WalkRun]) -> Option<Aim> {
    let [jdupes, fclones] = ["jdupes", FCLONES].map(|name| name.parse::<NamedProgram>().ok());
    let ours = by_pair(runs, On { tree: Tree::Fresh, program: jdupes? }, Some(Way::Warm), SECONDS);
    let theirs = by_pair(runs, On { tree: Tree::Fresh, program: fclones? }, Some(Way::Stock), SECONDS);
    let value = ratio(&ours, &theirs)?;
    let aim = "jdupes after warm takes at most 1.2 times as long as fclones".to_owned();
    Some(Aim::of(aim, Bound::Most(1.2), Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::record::Outcome;

    fn run(program: &str, way: Option<Way>, pair: u32, seconds: f64) -> WalkRun {
        let measured = Measured { seconds, again_seconds: 1.0, reads: 10, seeks: 4, ..Measured::default() };
        let program = program.parse().expect("known");
        WalkRun { cell: On { tree: Tree::Fresh, program }, way, pair, outcome: Outcome::Measured(measured) }
    }

    #[test]
    fn gains_are_of_pairs_and_means_of_programs() {
        let mut runs = Vec::new();
        for pair in 0..5 {
            let slow = 1.0 + f64::from(pair) * 0.01;
            for (program, stock, warm) in [("grep", 20.0, 4.0), ("tar", 40.0, 2.0), ("fclones", 3.0, 3.0)] {
                runs.push(run(program, Some(Way::Stock), pair, stock * slow));
                runs.push(run(program, Some(Way::Warm), pair, warm * slow));
            }
        }
        runs.push(run("grep", None, 0, 3.0));
        let options = Options { trees: vec![Tree::Fresh], new_trees: false, ..Options::default() };
        let cells = cells(&runs, &options);
        assert_eq!(cells.len(), 3);
        let grep = cells.iter().find(|cell| cell.program.0.name == "grep").expect("measured");
        let warm = &grep.entries[1];
        assert!((warm.gain.as_ref().expect("pairs").mean - 5.0).abs() < 1e-9);
        // The pass of 3 s is longer than the second run of 1 s.
        assert!((warm.over_oracle.as_ref().expect("a pass").mean - 4.0 * 1.02 / 3.0).abs() < 0.01);
        let aims = aims(&runs, &cells);
        let fresh = &aims[0];
        assert!(fresh.aim.contains("warm") && fresh.verdict == Verdict::Holds, "{fresh:?}");
        assert!((fresh.value.as_ref().expect("a mean").mean - 10.0).abs() < 1e-9);
        assert_eq!(aims[2].value, None, "nothing was measured of watch");
    }

    #[test]
    fn runs_over_new_trees_are_compared_with_the_pass_over_these() {
        let mut runs = Vec::new();
        // The second run of 1 s is longer than the last pass. One pass failed.
        for (pair, pass, warm) in
            [(0, Some(2.0), 3.0), (1, Some(4.0), 6.0), (2, Some(0.5), 1.5), (3, None, 9.0)]
        {
            runs.extend(pass.map(|pass| run("grep", None, pair, pass)));
            runs.push(run("grep", Some(Way::Stock), pair, 20.0));
            runs.push(run("grep", Some(Way::Warm), pair, warm));
        }
        let warm = |new_trees| {
            let [cell] = &cells(&runs, &Options { new_trees, ..Options::default() })[..] else {
                panic!("grep")
            };
            cell.entries[1].over_oracle.clone().expect("a pass")
        };
        let new = warm(true);
        assert_eq!(new.values, [1.5, 1.5, 1.5]);
        assert_eq!(warm(false).values, [3.0, 6.0, 1.5, 9.0].map(|seconds| seconds / (6.5 / 3.0)));
    }

    #[test]
    fn few_pairs_decide_nothing() {
        let runs = [run("grep", Some(Way::Stock), 0, 20.0), run("grep", Some(Way::Warm), 0, 1.0)];
        let cells = cells(&runs, &Options::default());
        assert!(aims(&runs, &cells).iter().all(|aim| aim.verdict == Verdict::Inconclusive));
    }
}
