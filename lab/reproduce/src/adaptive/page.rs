//! The outcome as text, JSON and a page.

use super::{AdaptiveOutcome, Aim, AimPoint, Table};
use crate::page::document;
use comfy_table::{CellAlignment, presets};
use foreseek_chart::escape;
use serde_json::{Value, json};
use std::fmt::Write;

impl AdaptiveOutcome {
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
        for worst in &self.worst {
            let _ = writeln!(text, "{worst}");
        }
        for aim in &self.aims {
            let _ = writeln!(text, "{}", aim.line());
        }
        let look = if self.quick { " (a look: one seed, no intervals)" } else { "" };
        let _ =
            writeln!(text, "{} of {} aims hold{look}{}", self.holding(), self.aims.len(), self.overridden());
        text
    }

    /// What was set in the runs, if anything.
    fn overridden(&self) -> String {
        if self.set.is_empty() { String::new() } else { format!(", with {} in every run", self.set) }
    }

    /// All numbers.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "quick": self.quick,
            "set": self.set.to_string(),
            "aims": self.aims.iter().map(super::Aim::to_json).collect::<Vec<_>>(),
            "tables": self.tables.iter().map(|table| json!({
                "title": table.title, "heads": table.heads, "rows": table.rows,
            })).collect::<Vec<_>>(),
            "worst": self.worst,
            "left_out": self.left_out,
        })
    }

    /// A page with charts that opens without a network.
    #[must_use]
    pub fn to_html(&self) -> String {
        let look = if self.quick { ", in a look with one seed and no intervals" } else { "" };
        // Writing to a String cannot fail.
        let mut page = format!(
            "<h1>Adaptive read-ahead</h1>\n<p class=\"sum\">{} of {} aims hold{look}{}.</p>\n\
             <p>A point is a device and a concurrency; brackets hold the 95 % interval over the seeds. \
             The ceiling is the dynamic program that knows the distribution and keeps no bound. Misses of the oracle, which \
             knows each length, and of the ceiling are out of any rule's reach in the model of one switch for each fetch.</p>\n\
             <table><thead><tr><th>aim</th><th></th><th>wanted</th><th>reached at</th><th>mean</th>\
             <th>ceiling</th><th>worst</th><th>missed by the oracle, too</th><th>by the ceiling, too</th></tr></thead><tbody>\n",
            self.holding(),
            self.aims.len(),
            self.overridden(),
        );
        self.aims.iter().for_each(|aim| aim.write(&mut page));
        page.push_str("</tbody></table>\n");
        for worst in &self.worst {
            let _ = writeln!(page, "<p>{}</p>", escape(worst));
        }
        self.figures.iter().for_each(|figure| figure.write(&mut page));
        page.push_str("<h2>Numbers</h2>\n");
        self.tables.iter().for_each(|table| table.write(&mut page));
        document("Foreseek: adaptive read-ahead", &page)
    }
}

impl Aim {
    /// A row of the page.
    fn write(&self, page: &mut String) {
        let class = if self.holds() { "" } else { " class=\"missed\"" };
        let worst = self.worst().map(AimPoint::described).unwrap_or_default();
        let ceiling = self.ceiling().map_or_else(String::new, |(ceiling, _)| format!("{ceiling:.3}"));
        let (oracle, free) = self.out_of_reach();
        let missed = self.places.len() - self.reached();
        let of_missed = |count: usize, there: bool| match there && missed > 0 {
            true => format!("{count} of {missed}"),
            false => String::new(),
        };
        let _ = writeln!(
            page,
            "<tr{class}><td class=\"what\">{}</td><td>{}</td><td>{} {}</td><td class=\"what\">{}</td><td>{:.3}</td><td>{ceiling}</td><td class=\"what\">{}</td><td>{}</td><td>{}</td></tr>",
            escape(self.what),
            if self.holds() { "holds" } else { "missed" },
            if self.at_most { "at most" } else { "at least" },
            self.aim,
            self.count(),
            self.mean(),
            escape(&worst),
            of_missed(oracle, self.places.iter().any(|place| place.oracle.is_some())),
            of_missed(free, self.places.iter().any(|place| place.free.is_some())),
        );
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
            table.add_row(std::iter::once(name.clone()).chain(cells(values)));
        }
        table.to_string()
    }

    /// A table of the page, folded.
    fn write(&self, page: &mut String) {
        let _ = write!(
            page,
            "<details><summary>{}</summary>\n<table class=\"numbers\"><thead><tr><th></th>",
            escape(&self.title)
        );
        self.heads.iter().for_each(|head| page.push_str(&format!("<th>{}</th>", escape(head))));
        page.push_str("</tr></thead><tbody>\n");
        for (name, values) in &self.rows {
            let _ = write!(page, "<tr><th>{}</th>", escape(name));
            cells(values).for_each(|cell| page.push_str(&format!("<td>{cell}</td>")));
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table></details>\n");
    }
}

/// The numbers of a row, all with as many digits.
fn cells(values: &[f64]) -> impl Iterator<Item = String> {
    let digits = if values.iter().all(|value| !value.is_finite() || *value < 10.0) { 3 } else { 1 };
    values.iter().map(move |value| match value.is_finite() {
        true => format!("{value:.digits$}"),
        false => "-".to_owned(),
    })
}
