//! Evaluation of the runs: gains pair by pair with their 95 % intervals, and the aims.

use super::asked::Asked;
use super::beside::Beside;
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
    /// The ways in which it runs in every pair: aims depend on these.
    #[serde(skip)]
    pub(crate) judged: Vec<Way>,
}

/// A way in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WalkResult {
    /// The way.
    pub(crate) way: Way,
    /// Seconds from cold; of two programs, until both have ended.
    pub(crate) seconds: Summary,
    /// The speed-up over stock.
    pub(crate) gain: Option<Summary>,
    /// Its time over that of the oracle: the larger of pass and cached run.
    pub(crate) over_oracle: Option<Summary>,
    /// The time of a run over what is in memory, over stock's.
    pub(crate) again: Option<Summary>,
    /// Of the load beside it, the second of two programs or a reader: seconds, and their ratio to stock's.
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
const BOTH: fn(&Measured) -> f64 = |run| run.seconds.max(BESIDE(run));

/// How long a program takes; of two programs, both.
fn took(program: NamedProgram) -> fn(&Measured) -> f64 {
    if program.0.beside == Some(Beside::Program) { BOTH } else { SECONDS }
}

/// Evaluates every cell that was to be measured.
#[must_use]
pub(crate) fn cells(runs: &[WalkRun], asked: &Asked) -> Vec<Cell> {
    asked.cells.iter().map(|(at, judged)| judge(runs, *at, judged.clone(), asked)).collect()
}

fn judge(runs: &[WalkRun], at: On, judged: Vec<Way>, asked: &Asked) -> Cell {
    let stock = Some(Way::Stock);
    let took = took(at.program);
    let pass = by_pair(runs, at, None, SECONDS);
    // Where memory holds only a part of the tree, the second run is not over cached data. Of two programs it is the
    // first one's time alone.
    let fits = !at.tree.is_larger_than_memory() && at.program.0.beside != Some(Beside::Program);
    let cached = if fits { by_pair(runs, at, stock, AGAIN) } else { Values::new() };
    let entries = asked.ways.iter().filter_map(|way| {
        let way = *way;
        let seconds = by_pair(runs, at, Some(way), took);
        if seconds.is_empty() {
            return None;
        }
        let count = |of: fn(&Measured) -> f64| mean(&by_pair(runs, at, Some(way), of)).unwrap_or(0.0);
        let again = by_pair(runs, at, Some(way), AGAIN);
        let beside = by_pair(runs, at, Some(way), BESIDE);
        Some(WalkResult {
            way,
            gain: ratio(&by_pair(runs, at, stock, took), &seconds),
            over_oracle: ratio(&seconds, &oracle(&seconds, &pass, &cached, asked.new_trees)),
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
        judged,
    }
}

/// The oracle's time in each of these pairs: the larger of pass and cached run over its trees. The same trees have one
/// pass, and one mean of the cached runs, for all pairs.
fn oracle(pairs: &Values, pass: &Values, cached: &Values, new_trees: bool) -> Values {
    let of = |values: &Values, pair| if new_trees { values.get(pair).copied() } else { mean(values) };
    pairs.keys().filter_map(|pair| Some((*pair, of(pass, pair)?.max(of(cached, pair)?)))).collect()
}

/// Judges the aims that these cells decide. One of them that was not measured leaves its aim inconclusive.
#[must_use]
pub(crate) fn aims(runs: &[WalkRun], cells: &[Cell]) -> Vec<Aim> {
    let gains = [
        (Way::Warm, Tree::Fresh, 4.0),
        (Way::Warm, Tree::Aged, 2.0),
        (Way::Watch, Tree::Fresh, 3.0),
        (Way::Watch, Tree::Aged, 1.7),
    ];
    let gains = gains.into_iter().filter_map(|(way, tree, least)| mean_gain(runs, cells, way, tree, least));
    let oracle = [(Way::Warm, 1.5), (Way::Watch, 2.0)].into_iter().filter_map(|(way, most)| {
        let values = judged(cells, way).filter(|(cell, _)| cell.program.0.reads_alone() && cell.fits());
        let values = values.map(|(cell, entry)| (cell, entry.and_then(|entry| entry.over_oracle.clone())));
        worst(
            format!("{way}: within {most} times the oracle wherever contents are read"),
            Bound::Most(most),
            values,
        )
    });
    let cached = judged(cells, Way::Watch).filter(|(cell, _)| cell.program.0.beside.is_none() && cell.fits());
    let cached = cached.map(|(cell, entry)| (cell, entry.and_then(|entry| entry.again.clone())));
    let cached = worst(
        "watch: a program over cached data takes at most 1.02 times as long".to_owned(),
        Bound::Most(1.02),
        cached,
    );
    let mut all: Vec<Aim> = gains.chain(oracle).chain(cached).collect();
    all.extend(duplicates(runs, cells));
    all.extend([Way::Warm, Way::Watch].into_iter().flat_map(|way| beside(runs, cells, way)));
    all
}

impl Cell {
    /// Whether memory holds its tree: else there is no run over cached data.
    fn fits(&self) -> bool {
        !self.tree.is_larger_than_memory()
    }

    fn name(&self) -> String {
        format!("{} over {}", self.program, self.tree.name())
    }
}

/// The load beside a program: a second program gains as well, and a reader waits no longer than the bound.
fn beside(runs: &[WalkRun], cells: &[Cell], way: Way) -> Vec<Aim> {
    let of = |what: Beside| judged(cells, way).filter(move |(cell, _)| cell.program.0.beside == Some(what));
    let over_stock = |entry: Option<&WalkResult>| entry.and_then(|entry| entry.beside_over_stock.clone());
    let two = of(Beside::Program).map(|(cell, _)| {
        let bound = Bound::Least(1.0);
        let gain = |of| {
            let seconds = |way| by_pair(runs, On { tree: cell.tree, program: cell.program }, Some(way), of);
            Some(((), ratio(&seconds(Way::Stock), &seconds(way))?))
        };
        let less = gain(SECONDS).zip(gain(BESIDE)).and_then(|(first, other)| bound.worst(vec![first, other]));
        let aim = format!("{way}: each of {} gains", cell.program);
        Aim::of(aim, bound, less.map(|(_, value)| value))
    });
    let reader = of(Beside::Reader).map(|(cell, entry)| {
        let aim = format!(
            "{way}: a read of another program takes at most twice as long as with stock ({})",
            cell.program
        );
        Aim::of(aim, Bound::Most(2.0), over_stock(entry))
    });
    two.chain(reader).collect()
}

/// The cells on which aims about a way depend, with what was measured there.
fn judged(cells: &[Cell], way: Way) -> impl Iterator<Item = (&Cell, Option<&WalkResult>)> {
    let there = cells.iter().filter(move |cell| cell.judged.contains(&way));
    there.map(move |cell| (cell, cell.entries.iter().find(|entry| entry.way == way)))
}

/// The cell with the worst value of a bound on ratios; `None` without any cell.
fn worst<'a>(
    aim: String,
    bound: Bound,
    values: impl Iterator<Item = (&'a Cell, Option<Summary>)>,
) -> Option<Aim> {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (cell, value) in values {
        match value {
            Some(value) => there.push((cell, value)),
            None => missing.push(cell.name()),
        }
    }
    if there.is_empty() && missing.is_empty() {
        return None;
    }
    let worst = bound.worst(there);
    let place = worst.as_ref().map_or(String::new(), |(cell, _)| format!("; worst: {}", cell.name()));
    Some(Aim::of(aim + &place, bound, worst.map(|(_, value)| value)).without(&missing))
}

/// The geometric mean, pair by pair, over the programs that read contents and count; only pairs in which every one of
/// them was measured count.
fn mean_gain(runs: &[WalkRun], cells: &[Cell], way: Way, tree: Tree, least: f64) -> Option<Aim> {
    let (mut gains, mut missing) = (Vec::new(), Vec::new());
    for (cell, _) in judged(cells, way).filter(|(cell, _)| cell.tree == tree) {
        if !(cell.program.0.reads_alone() && cell.program.0.counts) {
            continue;
        }
        let seconds = |way| by_pair(runs, On { tree, program: cell.program }, Some(way), SECONDS);
        let gain = ratios(&seconds(Way::Stock), &seconds(way));
        if gain.is_empty() {
            missing.push(cell.program.to_string());
        } else {
            gains.push(gain);
        }
    }
    let aim = format!(
        "{way}: at least {least} times stock over {} trees, geometric mean of programs that read contents",
        tree.name()
    );
    let is_asked = !(gains.is_empty() && missing.is_empty());
    is_asked.then(|| Aim::of(aim, Bound::Least(least), mean_of_pairs(&gains)).without(&missing))
}

/// jdupes after `warm` against fclones, which reads in an order of its own.
fn duplicates(runs: &[WalkRun], cells: &[Cell]) -> Option<Aim> {
    let seconds = |name: &str, way| {
        let is_it = |cell: &Cell| cell.tree == Tree::Fresh && cell.program.0.name == name;
        let (cell, _) = judged(cells, way).find(|(cell, _)| is_it(cell))?;
        Some(by_pair(runs, On { tree: cell.tree, program: cell.program }, Some(way), SECONDS))
    };
    let (ours, theirs) = (seconds("jdupes", Way::Warm)?, seconds(FCLONES, Way::Stock)?);
    let aim = "jdupes after warm takes at most 1.2 times as long as fclones".to_owned();
    Some(Aim::of(aim, Bound::Most(1.2), ratio(&ours, &theirs)))
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;
    use crate::judge::Verdict;
    use crate::record::Outcome;

    fn programs(names: &[&str]) -> Vec<NamedProgram> {
        names.iter().map(|name| name.parse().expect("known")).collect()
    }

    /// Five pairs of a program, with the time of its run over cached data.
    fn five(tree: Tree, program: &str, way: Way, seconds: f64, again_seconds: f64) -> Vec<WalkRun> {
        let of = |pair| {
            let mut run = run(program, Some(way), pair, seconds);
            run.cell.tree = tree;
            let Outcome::Measured(measured) = &mut run.outcome else { panic!("measured") };
            measured.again_seconds = again_seconds * (1.0 + f64::from(pair) * 0.001);
            run
        };
        (0..5).map(of).collect()
    }

    fn judge_aims(runs: &[WalkRun], options: &Options) -> Vec<Aim> {
        aims(runs, &cells(runs, &Asked::of(options)))
    }

    fn find<'a>(aims: &'a [Aim], words: &str) -> Option<&'a Aim> {
        aims.iter().find(|aim| aim.aim.contains(words))
    }

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
        let options = Options {
            trees: vec![Tree::Fresh],
            programs: programs(&["grep", "tar", "fclones"]),
            new_trees: false,
            ..Options::default()
        };
        let cells = cells(&runs, &Asked::of(&options));
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
        assert_eq!(aims[1].value, None, "nothing was measured of watch");
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
            let options = Options {
                trees: vec![Tree::Fresh],
                programs: programs(&["grep"]),
                new_trees,
                ..Options::default()
            };
            let [cell] = &cells(&runs, &Asked::of(&options))[..] else { panic!("grep") };
            cell.entries[1].over_oracle.clone().expect("a pass")
        };
        let new = warm(true);
        assert_eq!(new.values, [1.5, 1.5, 1.5]);
        assert_eq!(warm(false).values, [3.0, 6.0, 1.5, 9.0].map(|seconds| seconds / (6.5 / 3.0)));
    }

    #[test]
    fn few_pairs_decide_nothing() {
        let runs = [run("grep", Some(Way::Stock), 0, 20.0), run("grep", Some(Way::Warm), 0, 1.0)];
        let aims = judge_aims(&runs, &Options::default());
        assert!(!aims.is_empty() && aims.iter().all(|aim| aim.verdict == Verdict::Inconclusive), "{aims:?}");
    }

    #[test]
    fn a_cell_of_few_pairs_hides_no_failure_and_by_design_decides_nothing() {
        let mut runs = Vec::new();
        for (tree, again) in [(Tree::Fresh, 1.1), (Tree::Maildir, 2.0)] {
            runs.extend(five(tree, "tar", Way::Stock, 9.0, 1.0));
            runs.extend(five(tree, "tar", Way::Watch, 3.0, again));
        }
        runs.retain(|run| run.cell.tree == Tree::Fresh || run.pair == 0);
        let cached = |options: Options| {
            let options =
                Options { programs: programs(&["tar"]), ways: vec![Way::Stock, Way::Watch], ..options };
            let aims = judge_aims(&runs, &options);
            let cached = find(&aims, "cached").expect("asked for").clone();
            (cached.verdict, cached.aim)
        };
        let trees = vec![Tree::Fresh, Tree::Maildir];
        let (verdict, aim) = cached(Options { trees: trees.clone(), ..Options::default() });
        assert!(verdict == Verdict::Fails && aim.ends_with("; worst: tar over fresh"), "{aim}");
        let (verdict, aim) = cached(Options { trees, all_in_each_pair: true, ..Options::default() });
        assert!(verdict == Verdict::Fails && aim.ends_with("; worst: tar over fresh"), "{aim}");
        let (verdict, aim) =
            cached(Options { trees: vec![Tree::Maildir], all_in_each_pair: true, ..Options::default() });
        assert!(verdict == Verdict::Inconclusive && aim.ends_with("; worst: tar over maildir"), "{aim}");
    }

    /// A cell of two programs takes as long as both. Its aim is about the one that gains less.
    #[test]
    fn two_programs_take_as_long_as_the_slower_one() {
        let of = |way, pair, first, other| {
            let mut run = run("two-tars", Some(way), pair, first);
            let Outcome::Measured(measured) = &mut run.outcome else { panic!("measured") };
            measured.beside_seconds = Some(other);
            run
        };
        let runs: Vec<WalkRun> = (0..5)
            .flat_map(|pair| [of(Way::Stock, pair, 50.0, 60.0), of(Way::Watch, pair, 10.0, 6.0)])
            .collect();
        let options = Options {
            trees: vec![Tree::Fresh],
            programs: programs(&["two-tars"]),
            ways: vec![Way::Stock, Way::Watch],
            ..Options::default()
        };
        let cells = cells(&runs, &Asked::of(&options));
        let watch = &cells[0].entries[1];
        let gain = watch.gain.as_ref().expect("pairs").mean;
        assert!((watch.seconds.mean - 10.0).abs() < 1e-9 && (gain - 6.0).abs() < 1e-9, "{watch:?}");
        let aims = aims(&runs, &cells);
        let each = find(&aims, "each of two-tars").expect("asked for").value.as_ref().expect("measured");
        assert!((each.mean - 5.0).abs() < 1e-9, "{each:?}");
    }

    #[test]
    fn a_cell_that_was_not_measured_keeps_its_aims_from_holding() {
        let (mut runs, ways) = (Vec::new(), vec![Way::Stock, Way::Warm]);
        for program in ["tar", "jdupes"] {
            runs.extend(five(Tree::Fresh, program, Way::Stock, 20.0, 1.0));
            runs.extend(five(Tree::Fresh, program, Way::Warm, 1.0, 1.0));
        }
        runs.extend((0..5).flat_map(|pair| ["tar", "jdupes"].map(|program| run(program, None, pair, 1.0))));
        let of = |names: &[&str]| {
            let options = Options {
                trees: vec![Tree::Fresh],
                programs: programs(names),
                ways: ways.clone(),
                ..Options::default()
            };
            judge_aims(&runs, &options)
        };
        let all = of(&["tar", "jdupes"]);
        assert_eq!(all.len(), 2, "what was not asked for is no aim: {all:?}");
        assert!(all.iter().all(|aim| aim.verdict == Verdict::Holds), "{all:?}");
        let some = of(&["tar", "jdupes", "cp", FCLONES, "two-tars", "grep-and-reader"]);
        assert_eq!(some.len(), 5);
        assert!(some.iter().all(|aim| aim.verdict == Verdict::Inconclusive), "{some:?}");
        let said = |words| find(&some, words).expect("asked for").aim.as_str();
        assert!(said("geometric mean").ends_with("; not measured: cp"), "{some:?}");
        assert!(said("oracle").ends_with("; not measured: cp over fresh, fclones over fresh"), "{some:?}");
    }

    #[test]
    fn rows_ask_for_what_was_run_after_the_first_pair_failed_runs_among_them() {
        let mut runs = five(Tree::Fresh, "tar", Way::Stock, 20.0, 1.0);
        runs.extend(five(Tree::Fresh, "tar", Way::Warm, 2.0, 1.0));
        runs.extend(five(Tree::Fresh, "grep", Way::Stock, 20.0, 1.0));
        runs.push(run("shuffled", Some(Way::Warm), 0, 2.0));
        let with = |runs: &[WalkRun]| {
            let aims = aims(runs, &cells(runs, &Asked::of_rows(runs, true)));
            find(&aims, "geometric mean").expect("asked for").clone()
        };
        assert_eq!(with(&runs).verdict, Verdict::Holds);
        // The bench was interrupted in its last pair.
        runs.push(run("tar", Some(Way::Stock), 5, 20.0));
        assert_eq!(with(&runs).verdict, Verdict::Holds);
        let failed = run("grep", Some(Way::Warm), 4, 2.0);
        runs.push(WalkRun { outcome: Outcome::Failed("it died".to_owned()), ..failed });
        let failed = with(&runs);
        assert!(failed.verdict == Verdict::Inconclusive && failed.aim.ends_with("not measured: grep"));
    }
}
