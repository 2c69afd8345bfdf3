//! What is shown at the end: a table and JSON.

use super::judge::{Cell, aims, cells};
use super::options::{Options, Plan};
use super::record::WalkRun;
use crate::Result;
use crate::judge::{Aim, Verdict};
use crate::report::{aims_and_notes, json, range, write_both};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    plan: Plan,
    cells: Vec<Cell>,
    aims: Vec<Aim>,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn of(plan: Plan, runs: &[WalkRun], options: &Options, notes: Vec<String>) -> Self {
        let cells = cells(runs, options);
        Self { aims: aims(runs, &cells), plan, cells, notes }
    }

    /// Whether everything that was aimed at was reached, for certain.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.aims.iter().all(|aim| aim.verdict == Verdict::Holds)
    }

    /// All of it as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// A table for people.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header([
            "tree",
            "program",
            "way",
            "seconds",
            "x stock",
            "95 %",
            "pass s",
            "cached s",
            "x oracle",
            "again / stock",
            "beside s",
            "reads",
            "seeks",
        ]);
        for cell in &self.cells {
            for (number, entry) in cell.entries.iter().enumerate() {
                let first = |text: String| if number == 0 { text } else { String::new() };
                table.add_row([
                    first(cell.tree.name().to_owned()),
                    first(cell.program.to_string()),
                    entry.way.to_string(),
                    format!("{:.2}", entry.seconds.mean),
                    entry.gain.as_ref().map_or(String::new(), |gain| format!("{:.2}", gain.mean)),
                    entry.gain.as_ref().map_or(String::new(), range),
                    first(cell.pass_seconds.map_or(String::new(), |pass| format!("{pass:.2}"))),
                    first(cell.cached_seconds.map_or(String::new(), |cached| format!("{cached:.2}"))),
                    entry.over_oracle.as_ref().map_or(String::new(), |over| format!("{:.2}", over.mean)),
                    entry.again.as_ref().map_or(String::new(), |again| format!("{:.2}", again.mean)),
                    entry
                        .beside_seconds
                        .as_ref()
                        .map_or(String::new(), |beside| format!("{:.3}", beside.mean)),
                    format!("{:.0}", entry.reads),
                    format!("{:.0}", entry.seeks),
                ]);
            }
        }
        for column in table.column_iter_mut().skip(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n\n{}", aims_and_notes(&self.aims, &self.notes))
    }
}

/// Writes table and JSON beside the raw runs. Answers the JSON's path.
///
/// # Errors
/// Where the folder cannot be written.
pub fn write(report: &Report, folder: &Path) -> Result<PathBuf> {
    write_both(folder, &report.to_table(), &report.to_json())
}
