//! What was to be measured, whether it was or not.

use super::options::Options;
use super::record::{On, WalkRun};
use super::way::Way;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Trees with the programs that run on them, and the ways in which each runs in every pair: aims depend on these. What
    /// runs in the first pair alone decides nothing.
    pub(crate) cells: Vec<(On, Vec<Way>)>,
    /// All ways.
    pub(crate) ways: Vec<Way>,
    /// See [`Options::new_trees`].
    pub(crate) new_trees: bool,
}

impl Asked {
    /// What these options ask for.
    pub(crate) fn of(options: &Options) -> Self {
        let last = options.pairs.saturating_sub(1);
        Self::by(options.cells(), options, |cell, way| options.is_run(last, cell, Some(way)))
    }

    /// What there are rows of, failed ones among them.
    pub(crate) fn of_rows(runs: &[WalkRun], new_trees: bool) -> Self {
        let last = runs.iter().map(|run| run.pair).max().unwrap_or(0);
        let has = |cell: On, is_it: &dyn Fn(&WalkRun) -> bool| {
            runs.iter().any(|run| run.cell == cell && is_it(run))
        };
        let is_there = |way: &Way| runs.iter().any(|run| run.way == Some(*way));
        let ways = Way::ALL.into_iter().filter(is_there).collect();
        let options = Options { ways, new_trees, ..Options::default() };
        let cells = options.cells().into_iter().filter(|cell| has(*cell, &|_| true)).collect();
        // The last pair may be incomplete.
        let is_later = |run: &WalkRun| last == 0 || run.pair > 0;
        Self::by(cells, &options, |cell, way| has(cell, &|run| is_later(run) && run.way == Some(way)))
    }

    fn by(cells: Vec<On>, options: &Options, is_judged: impl Fn(On, Way) -> bool) -> Self {
        let judged = |cell| options.ways.iter().copied().filter(|way| is_judged(cell, *way)).collect();
        let cells = cells.into_iter().map(|cell| (cell, judged(cell))).collect();
        Self { cells, ways: options.ways.clone(), new_trees: options.new_trees }
    }
}
