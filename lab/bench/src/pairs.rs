//! Interleaved pairs: every cell of a comparison in every way, one after the other; an ended measurement can be
//! continued.
//!
//! A pair goes through all cells before the next begins, so that a measurement that is ended early has
//! something of everything. Within a cell the ways follow each other, and each pair begins with another one, so
//! that other load on the machine affects all of them. Every run is written when it is over; a failed one is
//! repeated when the measurement is continued.
//!
//! [`crate::walk`] and [`crate::array`] define what a cell, a way and a measurement are. The mount's
//! microbenchmarks do not use this: there the policies depend on the cell, and the modelled runs come after all
//! measured ones.

use crate::record::{Outcome, Records};
use crate::run::Reporting;
use crate::{Error, Result};
use foreseek_rig::{Interrupt, missing};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

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
    /// A way in which every cell is run once, before the others.
    pub(crate) once: Option<W>,
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

/// The share of all time that setting up takes, for the progress bar.
const MAKING: f64 = 0.1;

impl<C: Clone + PartialEq, W: Clone + PartialEq> RunList<'_, C, W> {
    /// The runs to be made, in order.
    pub(crate) fn todo<M>(&self, there: &[Row<C, W, M>]) -> Vec<Todo<C, W>> {
        let ways = &self.ways;
        let of = |pair: u32, cell: &C| -> Vec<Todo<C, W>> {
            let turn = pair as usize % ways.len().max(1);
            let (last, first) = ways.split_at(turn);
            first.iter().chain(last).map(|way| (pair, cell.clone(), way.clone())).collect()
        };
        let all = (0..self.pairs).flat_map(|pair| self.cells.iter().flat_map(move |cell| of(pair, cell)));
        all.filter(|(pair, cell, way)| !measured(there, cell, way).any(|(made, _)| made == *pair)).collect()
    }

    /// The same with the runs that are made once in their places.
    fn with_once<M>(&self, todo: Vec<Todo<C, W>>, there: &[Row<C, W, M>]) -> Vec<Todo<C, W>> {
        let Some(once) = &self.once else { return todo };
        let mut all: Vec<Todo<C, W>> = Vec::new();
        for next in todo {
            let is_new = !all.iter().any(|(_, cell, _)| *cell == next.1);
            if is_new && measured(there, &next.1, once).next().is_none() {
                all.push((0, next.1.clone(), once.clone()));
            }
            all.push(next);
        }
        all
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
    let there: Rows<K> = Records::look(asked.out, plan)?;
    let todo = asked.todo(&there);
    let all = asked.cells.len() * asked.ways.len() * asked.pairs as usize;
    let mut notes = asked.left_out.clone();
    (reporting.ahead)(&Ahead { runs: todo.len(), there: all - todo.len(), left_out: notes.clone() });
    let mut records = Records::open(asked.out, plan)?;
    if !todo.is_empty() {
        let what = missing();
        if !what.is_empty() {
            return Err(Error::Missing { what });
        }
        let todo = asked.with_once(todo, &there);
        let mut bench = begin(&todo, &|share, what| (reporting.progress)(MAKING * share, what))?;
        let count = todo.len() as f64;
        for (number, (pair, cell, way)) in todo.into_iter().enumerate() {
            interrupt.check()?;
            let name = K::name(&cell, &way);
            let what = format!("pair {} of {}: {name}", pair + 1, asked.pairs);
            (reporting.progress)(MAKING + (1.0 - MAKING) * number as f64 / count, &what);
            let outcome = Outcome::of(bench.measure(&cell, &way, pair))?;
            if let Outcome::Failed(why) = &outcome {
                notes.push(format!("{name}: {why}"));
            }
            records.push(Row { cell, way, pair, outcome })?;
        }
        notes.extend(bench.end()?);
    }
    Ok((records.runs, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'a>(pairs: u32, once: Option<&'static str>) -> RunList<'a, u32, &'static str> {
        let out = Path::new("nowhere");
        RunList { out, cells: vec![7, 8], ways: vec!["stock", "warm"], pairs, once, left_out: Vec::new() }
    }

    fn row(todo: &Todo<u32, &'static str>, outcome: Outcome<f64>) -> Row<u32, &'static str, f64> {
        Row { cell: todo.1, way: todo.2, pair: todo.0, outcome }
    }

    #[test]
    fn ways_take_turns_and_what_is_there_is_not_made_again() {
        let asked = asked(2, None);
        let all = asked.todo::<f64>(&[]);
        assert_eq!(all.len(), 8);
        assert_eq!((all[0], all[1]), ((0, 7, "stock"), (0, 7, "warm")));
        assert_eq!(all[4], (1, 7, "warm"), "the second pair begins with another");
        assert_eq!(asked.todo(&[row(&all[0], Outcome::Failed("it died".to_owned()))]), all);
        assert_eq!(asked.todo(&[row(&all[0], Outcome::Measured(1.0))]), all[1..]);
    }

    #[test]
    fn what_is_run_once_comes_before_the_first_of_its_cell() {
        let asked = asked(2, Some("pass"));
        let all = asked.with_once::<f64>(asked.todo::<f64>(&[]), &[]);
        let at: Vec<usize> = (0..all.len()).filter(|at| all[*at].2 == "pass").collect();
        assert_eq!(at, [0, 3]);
        assert_eq!((all[0], all[3]), ((0, 7, "pass"), (0, 8, "pass")));
        let there = [row(&all[0], Outcome::Measured(1.0))];
        let rest = asked.with_once(asked.todo(&there), &there);
        assert_eq!(rest.iter().filter(|(_, _, way)| *way == "pass").collect::<Vec<_>>(), [&(0, 8, "pass")]);
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
