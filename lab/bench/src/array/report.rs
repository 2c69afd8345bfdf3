//! The report: a table and JSON.

use super::judge::{Cell, aims, cells};
use super::options::{Options, Plan};
use super::record::ArrayRun;
use crate::Result;
use crate::judge::Aim;
use crate::pairs::failed;
use crate::record::parse;
use crate::report::{aims_and_notes, all_hold, json, range, terminal_table, write_both};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    plan: Plan,
    cells: Vec<Cell>,
    aims: Vec<Aim>,
    /// Runs that failed and were not repeated since.
    failed: usize,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn of(plan: Plan, runs: &[ArrayRun], options: &Options, mut notes: Vec<String>) -> Self {
        let cells = cells(runs, options);
        let (failed, note) =
            failed(runs, |cell, way| options.loads.contains(&cell.load) && options.ways.contains(way));
        notes.extend(note);
        Self { aims: aims(&cells), plan, cells, failed, notes }
    }

    /// The report of runs from a file: the line of the plan, then one for each run.
    ///
    /// # Errors
    /// Where a line is none of these.
    pub fn of_rows(rows: &str) -> Result<Self> {
        let (plan, runs): (Plan, Vec<ArrayRun>) = parse(rows)?;
        let mut options = Options { loads: Vec::new(), ways: Vec::new(), ..Options::default() };
        for run in &runs {
            if !options.loads.contains(&run.cell.load) {
                options.loads.push(run.cell.load);
            }
            if !options.ways.contains(&run.way) {
                options.ways.push(run.way.clone());
            }
        }
        Ok(Self::of(plan, &runs, &options, Vec::new()))
    }

    /// Whether every aim is reached with certainty, and no run is missing.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.failed == 0 && all_hold(&self.aims)
    }

    /// All of it as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// A table for a terminal.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut rows = Vec::new();
        for cell in &self.cells {
            for (number, entry) in cell.entries.iter().enumerate() {
                rows.push([
                    if number == 0 { cell.load.to_string() } else { String::new() },
                    entry.way.to_string(),
                    format!("{:.1}", entry.mb_per_s.mean),
                    entry.gain.as_ref().map_or(String::new(), |gain| format!("{:.2}", gain.mean)),
                    entry.gain.as_ref().map_or(String::new(), range),
                    format!("{:.2}", entry.disk_per_read),
                    format!("{:.2}", entry.server_ms_per_mb),
                    format!("{:.1} %", entry.server_share * 100.0),
                ]);
            }
        }
        let header = ["load", "way", "MB/s", "x raw", "95 %", "disk / read", "server ms / MB", "server load"];
        let table = terminal_table(header, 2, rows);
        format!("{table}\n\n{}", aims_and_notes(&self.aims, &self.notes))
    }
}

/// Writes table and JSON beside the raw runs. Returns the path of the JSON.
///
/// # Errors
/// Where the folder cannot be written.
pub fn write(report: &Report, folder: &Path) -> Result<PathBuf> {
    write_both(folder, &report.to_table(), &report.to_json())
}
