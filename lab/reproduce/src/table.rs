//! The outcome as a table.

use crate::{Outcome, Standing};
use comfy_table::{Cell, CellAlignment, Color, Table, presets};

impl Outcome {
    /// A line for each claim, then how many hold. `colour` marks the misses red.
    #[must_use]
    pub fn to_table(&self, colour: bool) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["claim", "section", "metric", "paper", "ours", ""]);
        if let Some(column) = table.column_mut(4) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for judged in &self.claims {
            let claim = &judged.claim;
            let mut verdict = Cell::new(judged.judgement());
            if colour && judged.verdict.standing == Standing::Missed {
                verdict = verdict.fg(Color::Red);
            }
            table.add_row([
                Cell::new(&claim.id),
                Cell::new(format!("{} {}", claim.paper, claim.section)),
                Cell::new(&claim.metric),
                Cell::new(judged.stated()),
                Cell::new(judged.ours()),
                verdict,
            ]);
        }
        if colour {
            table.enforce_styling();
        }
        let mut text = format!("{table}\n\n{}", self.count());
        text.push_str(&format!("{}\n", self.reservation()));
        text.extend(self.checked().map(|checked| format!("{checked}\n")));
        if !self.not_run.is_empty() {
            text.push_str(&format!("Not run: {}\n", self.not_run.join(", ")));
        }
        for judged in &self.claims {
            if let Some(what) = &judged.sets {
                text.push_str(&format!("{}: used to set {what}\n", judged.claim.id));
            }
            if !judged.measured.beside.is_empty() {
                text.push_str(&format!("{}: run and not judged: {}\n", judged.claim.id, judged.beside()));
            }
            if let Some(why) = &judged.why {
                text.push_str(&format!("{}: {why}\n", judged.claim.id));
            }
        }
        text
    }
}
