//! The outcome as text, JSON and a page.

use super::{LearntOutcome, Table};
use comfy_table::{CellAlignment, presets};
use foreseek_chart::escape;
use serde_json::{Value, json};
use std::fmt::Write;

impl LearntOutcome {
    /// How many aims hold.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.aims.iter().filter(|aim| aim.holds()).count()
    }

    /// The aims, then every table.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}\n{}\n", table.title, table.to_text());
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "not replayed: trace {left_out}");
        }
        for aim in &self.aims {
            let _ = writeln!(text, "{}", aim.line());
        }
        let look = if self.quick { " (a look: one seed, no intervals)" } else { "" };
        let _ = writeln!(text, "{} of {} aims hold{look}", self.holding(), self.aims.len());
        text
    }

    /// All numbers.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "quick": self.quick,
            "aims": self.aims.iter().map(super::Aim::to_json).collect::<Vec<_>>(),
            "tables": self.tables.iter().map(|table| json!({
                "title": table.title, "heads": table.heads, "rows": table.rows,
            })).collect::<Vec<_>>(),
            "left_out": self.left_out,
        })
    }

    /// A page with charts, that opens without a network.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut page = String::from(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>Foreseek: learnt depth</title></head><body>\n\
             <h1>Learnt depth</h1>\n<pre>",
        );
        self.aims.iter().for_each(|aim| page.push_str(&format!("{}\n", escape(&aim.line()))));
        page.push_str("</pre>\n");
        for figure in &self.figures {
            let _ = writeln!(page, "<h2>{}</h2>\n<p>{}</p>", escape(&figure.title), escape(&figure.caption));
            figure.charts.iter().for_each(|chart| {
                let _ = writeln!(page, "<figure>{chart}</figure>");
            });
        }
        for table in &self.tables {
            let _ =
                writeln!(page, "<h2>{}</h2>\n<pre>{}</pre>", escape(&table.title), escape(&table.to_text()));
        }
        page.push_str("</body></html>\n");
        page
    }
}

impl Table {
    fn to_text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(std::iter::once(String::new()).chain(self.heads.iter().cloned()));
        for column in 1..=self.heads.len() {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for (name, values) in &self.rows {
            let digits = if values.iter().all(|value| !value.is_finite() || *value < 10.0) { 3 } else { 1 };
            let cell = |value: &f64| if value.is_finite() { format!("{value:.digits$}") } else { "-".into() };
            let cells = values.iter().map(cell);
            table.add_row(std::iter::once(name.clone()).chain(cells));
        }
        table.to_string()
    }
}
