//! Interleaved pairs: every cell of a comparison in every way, one after the other; an ended measurement can be
//! continued.
//!
//! A pair goes through all cells before the next begins, so that a measurement that is ended early has
//! something of everything. Within a cell the ways follow each other, and each pair begins with another one, so
//! that other load on the machine affects all of them. Every run is written when it is over; a failed one is
//! repeated when the measurement is continued.
//!
//! What is measured over is set up once, or anew for each pair. Then the runs of a pair share what chance made of
//! it, and the interval over pairs has the chance in it.
//!
//! [`crate::walk`] and [`crate::array`] define what a cell, a way and a measurement are. The mount's
//! microbenchmarks do not use this: there the policies depend on the cell, and the modelled runs come after all
//! measured ones.

use crate::record::{Outcome, Records};
use crate::run::Reporting;
use crate::{Error, Result};
use foreseek_rig::Interrupt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// One run, as it is written to the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row<C, W, M> {
    /// The cell; its fields stand beside the others.
    #[serde(flatten)]
    pub(crate) cell: C,
    /// The way.
    pub(crate) way: W,
    /// The pair, from 0.
    pub(crate) pair: u32,
    /// The result, or why there is none.
    pub(crate) outcome: Outcome<M>,
}

/// The measurements of a cell in a way, by pair.
pub(crate) fn measured<'a, C: PartialEq, W: PartialEq, M>(
    runs: &'a [Row<C, W, M>],
    cell: &'a C,
    way: &'a W,
) -> impl Iterator<Item = (u32, &'a M)> {
    runs.iter().filter(move |run| run.cell == *cell && run.way == *way).filter_map(|run| match &run.outcome {
        Outcome::Measured(measured) => Some((run.pair, measured)),
        Outcome::Failed(_) => None,
    })
}

/// How many runs of those that are asked for failed and were not repeated since, and a note on them if there are any.
pub(crate) fn failed<C: PartialEq, W: PartialEq, M>(
    runs: &[Row<C, W, M>],
    is_asked: impl Fn(&C, &W) -> bool,
) -> (usize, Option<String>) {
    let is_missing = |run: &&Row<C, W, M>| {
        matches!(run.outcome, Outcome::Failed(_))
            && is_asked(&run.cell, &run.way)
            && measured(runs, &run.cell, &run.way).all(|(pair, _)| pair != run.pair)
    };
    let missing: Vec<_> = runs.iter().filter(is_missing).collect();
    let is_first = |(at, run): (usize, &&Row<C, W, M>)| {
        missing[..at].iter().all(|it| (&it.cell, &it.way, it.pair) != (&run.cell, &run.way, run.pair))
    };
    let count = missing.iter().enumerate().filter(|run| is_first(*run)).count();
    let note = || format!("runs that failed and are missing: {count}");
    (count, (count > 0).then(note))
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Runs that are to be made.
    pub runs: usize,
    /// Runs that are there already.
    pub there: usize,
    /// What is not installed and therefore left out, with the remedy.
    pub left_out: Vec<String>,
}

/// A run to be made: pair, cell, way.
pub(crate) type Todo<C, W> = (u32, C, W);

/// What is to be compared, and how often.
pub(crate) struct RunList<'a, C, W> {
    /// The folder of the raw runs.
    pub(crate) out: &'a Path,
    pub(crate) cells: Vec<C>,
    pub(crate) ways: Vec<W>,
    pub(crate) pairs: u32,
    /// Whether a cell is run in a way in a pair.
    pub(crate) is_run: &'a dyn Fn(u32, &C, &W) -> bool,
    /// Whether each pair is set up anew.
    pub(crate) anew: bool,
    /// A way in which every cell is run once after each set-up, before the others.
    pub(crate) first: Option<W>,
    /// What is left out, with the remedy.
    pub(crate) left_out: Vec<String>,
}

/// A comparison that is set up. Dropping it undoes all of it; prefer [`Comparison::end`], which returns errors.
pub(crate) trait Comparison: Sized {
    type Cell: Clone + PartialEq + Serialize + DeserializeOwned;
    type Way: Clone + PartialEq + Serialize + DeserializeOwned;
    type Measured: Serialize + DeserializeOwned;

    /// The name of a run.
    fn name(cell: &Self::Cell, way: &Self::Way) -> String;

    /// Makes a run.
    fn measure(&mut self, cell: &Self::Cell, way: &Self::Way, pair: u32) -> Result<Self::Measured>;

    /// Takes everything down; returns remarks for the reader.
    fn end(self) -> Result<Vec<String>>;
}

/// The runs of a comparison.
pub(crate) type Rows<K> =
    Vec<Row<<K as Comparison>::Cell, <K as Comparison>::Way, <K as Comparison>::Measured>>;

/// How to set a comparison up for these runs; reports how much of that is done.
type Begin<'a, K> =
    &'a dyn Fn(&[Todo<<K as Comparison>::Cell, <K as Comparison>::Way>], &dyn Fn(f64, &str)) -> Result<K>;

/// The share of all time that setting up takes, for the progress bar until both times are known.
const MAKING: f64 = 0.1;

impl<C: Clone + PartialEq, W: Clone + PartialEq> RunList<'_, C, W> {
    /// All runs, in order.
    fn all(&self) -> Vec<Todo<C, W>> {
        let ways = &self.ways;
        let of = |pair: u32, cell: &C| -> Vec<Todo<C, W>> {
            let first = self.first.iter().filter(|_| self.anew || pair == 0);
            let (rest, begins) = ways.split_at(pair as usize % ways.len().max(1));
            let all = first.chain(begins).chain(rest).filter(|way| (self.is_run)(pair, cell, way));
            all.map(|way| (pair, cell.clone(), way.clone())).collect()
        };
        (0..self.pairs).flat_map(|pair| self.cells.iter().flat_map(move |cell| of(pair, cell))).collect()
    }

    /// The runs to be made, in order.
    fn todo<M>(&self, there: &[Row<C, W, M>]) -> Vec<Todo<C, W>> {
        let is_there =
            |(pair, cell, way): &Todo<C, W>| measured(there, cell, way).any(|(made, _)| made == *pair);
        self.all().into_iter().filter(|run| !is_there(run)).collect()
    }
}

/// Measures what is missing; returns all runs and remarks for the reader.
pub(crate) fn run<K: Comparison, P: Serialize + DeserializeOwned>(
    plan: &P,
    asked: &RunList<'_, K::Cell, K::Way>,
    interrupt: &Interrupt,
    reporting: &Reporting<'_, Ahead>,
    begin: Begin<'_, K>,
) -> Result<(Rows<K>, Vec<String>)> {
    let todo = asked.todo(&Records::look::<P>(asked.out, plan)? as &Rows<K>);
    let mut notes = asked.left_out.clone();
    let there = asked.all().len() - todo.len();
    (reporting.ahead)(&Ahead { runs: todo.len(), there, left_out: notes.clone() });
    let mut records = Records::open(asked.out, plan)?;
    if !todo.is_empty() {
        let what = foreseek_rig::missing();
        if !what.is_empty() {
            return Err(Error::Missing { what });
        }
    }
    let set_ups: Vec<_> = todo.chunk_by(|a, b| !asked.anew || a.0 == b.0).collect();
    let mut pace = Pace { set_ups: Steps::of(set_ups.len()), runs: Steps::of(todo.len()) };
    for todo in set_ups {
        let of_pair = |pair: u32| format!("pair {} of {}: ", pair + 1, asked.pairs);
        let begins = if asked.anew { of_pair(todo[0].0) } else { String::new() };
        let started = Instant::now();
        let mut bench = begin(todo, &|part, what| {
            (reporting.progress)(pace.share(part), &format!("{begins}{what}"));
        })?;
        pace.set_ups.count(started.elapsed());
        for (pair, cell, way) in todo.iter().cloned() {
            interrupt.check()?;
            let name = K::name(&cell, &way);
            (reporting.progress)(pace.share(0.0), &(of_pair(pair) + &name));
            let started = Instant::now();
            let outcome = Outcome::of(bench.measure(&cell, &way, pair))?;
            pace.runs.count(started.elapsed());
            if let Outcome::Failed(why) = &outcome {
                notes.push(of_pair(pair) + &format!("{name}: {why}"));
            }
            records.push(Row { cell, way, pair, outcome })?;
        }
        // What was measured is worth a report, and later pairs have set-ups of their own.
        let ended = match bench.end() {
            Err(error) if error.is_interrupt() => return Err(error),
            Err(error) => vec![format!("{begins}not everything could be taken down: {error}")],
            Ok(remarks) => remarks,
        };
        for note in ended {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    Ok((records.runs, notes))
}

/// How far a measurement has come, by the mean times of its set-ups and runs so far.
struct Pace {
    set_ups: Steps,
    runs: Steps,
}

/// Steps of one kind.
struct Steps {
    all: usize,
    done: usize,
    took: Duration,
}

impl Pace {
    /// The share of all time that is over, with this part of a set-up under way.
    fn share(&self, part: f64) -> f64 {
        let (set_up, run) = match (self.set_ups.mean(), self.runs.mean()) {
            (Some(set_up), Some(run)) => (set_up, run),
            _ => (MAKING / self.set_ups.all as f64, (1.0 - MAKING) / self.runs.all as f64),
        };
        let over = set_up * (self.set_ups.done as f64 + part) + run * self.runs.done as f64;
        over / (set_up * self.set_ups.all as f64 + run * self.runs.all as f64)
    }
}

impl Steps {
    fn of(all: usize) -> Self {
        Self { all, done: 0, took: Duration::ZERO }
    }

    fn count(&mut self, took: Duration) {
        self.done += 1;
        self.took += took;
    }

    /// Seconds of one.
    fn mean(&self) -> Option<f64> {
        (self.done > 0).then(|| self.took.as_secs_f64() / self.done as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    type Cells<'a> = RunList<'a, u32, &'static str>;

    fn asked<'a>(pairs: u32, anew: bool, first: Option<&'static str>) -> Cells<'a> {
        let (out, ways) = (Path::new("nowhere"), vec!["stock", "warm"]);
        let is_run = &|_: u32, _: &u32, _: &&str| true;
        RunList { out, cells: vec![7, 8], ways, pairs, is_run, anew, first, left_out: Vec::new() }
    }

    fn row(todo: &Todo<u32, &'static str>, outcome: Outcome<f64>) -> Row<u32, &'static str, f64> {
        Row { cell: todo.1, way: todo.2, pair: todo.0, outcome }
    }

    #[test]
    fn ways_take_turns_and_what_is_there_is_not_made_again() {
        let asked = asked(2, false, None);
        let all = asked.todo::<f64>(&[]);
        assert_eq!(all.len(), 8);
        assert_eq!((all[0], all[1]), ((0, 7, "stock"), (0, 7, "warm")));
        assert_eq!(all[4], (1, 7, "warm"), "the second pair begins with another");
        assert_eq!(asked.todo(&[row(&all[0], Outcome::Failed("it died".to_owned()))]), all);
        assert_eq!(asked.todo(&[row(&all[0], Outcome::Measured(1.0))]), all[1..]);
    }

    #[test]
    fn a_failed_run_counts_once_until_it_is_repeated() {
        let runs = asked(2, false, None).all();
        let died = |at: usize| row(&runs[at], Outcome::Failed("it died".to_owned()));
        let mut rows = vec![row(&runs[0], Outcome::Measured(1.0)), died(1), died(1), died(5)];
        let all = |_: &u32, _: &&str| true;
        assert_eq!(failed(&rows, all).0, 2);
        assert!(failed(&rows, all).1.is_some_and(|note| note.contains("missing: 2")));
        assert_eq!(failed(&rows, |_, way| *way == "stock").0, 1, "the others are not asked for");
        rows.extend([1, 5].map(|at| row(&runs[at], Outcome::Measured(1.0))));
        assert_eq!(failed(&rows, all), (0, None));
    }

    #[test]
    fn what_is_not_run_in_a_pair_is_left_out_of_it() {
        let is_run = &|pair: u32, cell: &u32, way: &&str| pair == 0 || (*cell == 7 && *way != "warm");
        let asked = RunList { is_run, ..asked(2, true, Some("pass")) };
        let second: Vec<_> = asked.todo::<f64>(&[]).into_iter().filter(|run| run.0 == 1).collect();
        assert_eq!(second, [(1, 7, "pass"), (1, 7, "stock")]);
        assert_eq!(asked.todo::<f64>(&[]).len(), 6 + second.len());
    }

    #[test]
    fn what_is_run_after_a_set_up_comes_before_the_others_of_its_cell() {
        let passes = |asked: &Cells<'_>, there: &[Row<u32, &'static str, f64>]| -> Vec<(usize, u32, u32)> {
            let todo = asked.todo(there).into_iter().enumerate();
            todo.filter(|(_, run)| run.2 == "pass").map(|(at, run)| (at, run.0, run.1)).collect()
        };
        let once = asked(2, false, Some("pass"));
        assert_eq!(passes(&once, &[]), [(0, 0, 7), (3, 0, 8)]);
        let there = [row(&(0, 7, "pass"), Outcome::Measured(1.0))];
        assert_eq!(passes(&once, &there), [(2, 0, 8)]);
        let anew = asked(2, true, Some("pass"));
        assert_eq!(passes(&anew, &[]), [(0, 0, 7), (3, 0, 8), (6, 1, 7), (9, 1, 8)]);
        assert_eq!(passes(&anew, &there), [(2, 0, 8), (5, 1, 7), (8, 1, 8)]);
    }

    /// Counts its runs, and ends with an error before one of them.
    struct Fake<'a> {
        left: &'a Cell<u32>,
        ends: bool,
    }

    impl Comparison for Fake<'_> {
        type Cell = Number;
        type Way = String;
        type Measured = f64;

        fn name(cell: &Number, way: &String) -> String {
            format!("{} {way}", cell.number)
        }

        fn measure(&mut self, _: &Number, _: &String, _: u32) -> Result<f64> {
            let left = self.left.get().checked_sub(1);
            self.left.set(left.ok_or(Error::Rig(foreseek_rig::Error::Interrupted { signal: 15 }))?);
            Ok(1.0)
        }

        fn end(self) -> Result<Vec<String>> {
            match self.ends {
                true => Ok(vec!["a warning".to_owned()]),
                false => Err(Error::Option { what: "it is busy".to_owned() }),
            }
        }
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Number {
        number: u32,
    }

    /// The pairs of the set-ups that measuring at most so many runs takes, how it ended, and what was said.
    fn measure(out: &Path, anew: bool, most: u32) -> (Vec<u32>, Result<usize>, Vec<String>) {
        let ways = ["stock", "warm"].map(str::to_owned).to_vec();
        let (cells, first) = (vec![Number { number: 7 }], Some("pass".to_owned()));
        let is_run = &|_: u32, _: &Number, _: &String| true;
        let asked = RunList { out, cells, ways, pairs: 3, is_run, anew, first, left_out: Vec::new() };
        let (left, set_ups, said) = (Cell::new(most), RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let begin = |todo: &[Todo<Number, String>], progress: &dyn Fn(f64, &str)| {
            progress(0.5, "making it");
            let (first, last) = (todo[0].0, todo[todo.len() - 1].0);
            assert!(first == last || !anew);
            set_ups.borrow_mut().push(first);
            Ok(Fake { left: &left, ends: true })
        };
        let progress = |share: f64, what: &str| {
            assert!((0.0..1.0).contains(&share), "{share}");
            said.borrow_mut().push(what.to_owned());
        };
        let reporting = Reporting { ahead: &|_| (), progress: &progress };
        let ended = run(&"a plan".to_owned(), &asked, &Interrupt::default(), &reporting, &begin);
        let ended = ended.map(|(rows, notes)| {
            assert!(notes.len() <= 1, "one warning is told once: {notes:?}");
            rows.len()
        });
        (set_ups.into_inner(), ended, said.into_inner())
    }

    #[test]
    fn a_pair_that_cannot_be_taken_down_does_not_end_the_others() {
        if !foreseek_rig::missing().is_empty() {
            println!("SKIPPED: nothing can be measured here");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (cells, ways) = (vec![Number { number: 7 }], vec!["stock".to_owned()]);
        let (out, is_run) = (folder.path(), &|_: u32, _: &Number, _: &String| true);
        let asked =
            RunList { out, cells, ways, pairs: 2, is_run, anew: true, first: None, left_out: Vec::new() };
        let left = Cell::new(99);
        let begin = |_: &[Todo<Number, String>], _: &dyn Fn(f64, &str)| Ok(Fake { left: &left, ends: false });
        let reporting = Reporting { ahead: &|_| (), progress: &|_, _| () };
        let ended = run(&"a plan".to_owned(), &asked, &Interrupt::default(), &reporting, &begin);
        let (rows, notes) = ended.expect("all runs");
        assert_eq!(rows.len(), 2);
        let of = |pair| format!("pair {pair} of 2: not everything could be taken down: it is busy");
        assert_eq!(notes, [of(1), of(2)]);
    }

    #[test]
    fn each_pair_is_set_up_anew_and_one_that_was_ended_is_gone_on_with() {
        if !foreseek_rig::missing().is_empty() {
            println!("SKIPPED: nothing can be measured here");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (set_ups, ended, said) = measure(folder.path(), true, 4);
        assert_eq!((set_ups, ended.expect_err("ended").signal()), (vec![0, 1], Some(15)));
        assert_eq!(said[..2], ["pair 1 of 3: making it", "pair 1 of 3: 7 pass"]);
        assert_eq!(said[4..6], ["pair 2 of 3: making it", "pair 2 of 3: 7 pass"]);
        let (set_ups, ended, said) = measure(folder.path(), true, 99);
        assert_eq!((set_ups, ended.expect("all")), (vec![1, 2], 9));
        assert_eq!(said[..2], ["pair 2 of 3: making it", "pair 2 of 3: 7 warm"]);
        let (set_ups, ended, said) = measure(folder.path(), true, 0);
        assert_eq!((set_ups, ended.expect("a report"), said), (vec![], 9, vec![]));
        let folder = tempfile::tempdir().expect("a folder");
        let (set_ups, ended, said) = measure(folder.path(), false, 99);
        assert_eq!((set_ups, ended.expect("all"), &*said[0]), (vec![0], 7, "making it"));
    }

    #[test]
    fn the_share_that_is_over_is_that_of_set_ups_and_runs_as_they_were() {
        let mut pace = Pace { set_ups: Steps::of(2), runs: Steps::of(10) };
        let near = |share: f64, wanted: f64| assert!((share - wanted).abs() < 1e-9, "{share} and {wanted}");
        near(pace.share(0.0), 0.0);
        near(pace.share(0.5), MAKING / 4.0);
        pace.set_ups.count(Duration::from_secs(30));
        near(pace.share(0.0), MAKING / 2.0);
        (0..5).for_each(|_| pace.runs.count(Duration::from_secs(4)));
        near(pace.share(0.0), 0.5);
        near(pace.share(0.5), 65.0 / 100.0);
    }

    #[test]
    fn a_cells_fields_stand_beside_the_others() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Cell {
            tree: String,
            program: String,
        }
        let cell = Cell { tree: "aged".to_owned(), program: "tar".to_owned() };
        let row = Row { cell, way: "stock".to_owned(), pair: 2, outcome: Outcome::Measured(1.5) };
        let line = serde_json::to_string(&row).expect("JSON");
        assert_eq!(
            line,
            r#"{"tree":"aged","program":"tar","way":"stock","pair":2,"outcome":{"measured":1.5}}"#
        );
        assert_eq!(serde_json::from_str::<Row<Cell, String, f64>>(&line).expect("read"), row);
    }
}
