//! The outcome as a table for a terminal.

use super::figures::{self, Row};
use crate::outcome::Outcome;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Table};
use std::fmt::Write;

impl Outcome {
    /// The table, and below it what the reader should know.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        if self.simulated {
            let why = self.why_simulated.as_deref().unwrap_or("it was asked for");
            let _ = writeln!(text, "SIMULATED ({why}): virtual time, no disk and no kernel were used.");
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", figures::setting(self));
        for run in &self.runs {
            let mut table = Table::new();
            table.load_preset(UTF8_BORDERS_ONLY);
            table.set_header([
                Cell::new(figures::heading(run)),
                Cell::new("stock").set_alignment(CellAlignment::Right),
                Cell::new("Foreseek").set_alignment(CellAlignment::Right),
            ]);
            for Row { name, stock, foreseek, strong } in figures::rows(self, run) {
                let cell = |text: String| {
                    let cell = Cell::new(text).set_alignment(CellAlignment::Right);
                    if strong { cell.add_attribute(Attribute::Bold) } else { cell }
                };
                table.add_row([Cell::new(name), cell(stock), cell(foreseek)]);
            }
            let _ = writeln!(text, "\n{table}");
        }
        for note in &self.notes {
            let _ = write!(text, "\n- {note}");
        }
        text
    }
}
