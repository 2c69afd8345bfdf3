//! The report: a table and JSON.

use super::asked::Asked;
use super::judge::{Cell, aims, cells};
use super::options::Plan;
use super::record::{On, SideCosts, WalkRun};
use super::way::Way;
use crate::Result;
use crate::judge::{Aim, Verdict};
use crate::pairs::failed;
use crate::record::parse;
use crate::report::{aims_and_notes, all_hold, json, range, terminal_table, with_interval, write_both};
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
    pub(crate) fn of(plan: Plan, runs: &[WalkRun], asked: &Asked, mut notes: Vec<String>) -> Self {
        let mut cells = cells(runs, asked);
        let aims = aims(runs, &cells);
        cells.retain(|cell| !cell.entries.is_empty());
        let is_asked = |cell: &On, way: &Option<Way>| {
            asked.cells.iter().any(|(asked, _)| asked == cell)
                && way.is_none_or(|way| asked.ways.contains(&way))
        };
        let (failed, note) = failed(runs, is_asked);
        notes.extend(note);
        Self { plan, cells, aims, failed, notes }
    }

    /// The report of runs from a file: the line of the plan, then one for each run.
    ///
    /// # Errors
    /// Where a line is none of these.
    pub fn of_rows(rows: &str) -> Result<Self> {
        let (plan, runs): (Plan, Vec<WalkRun>) = parse(rows)?;
        let asked = Asked::of_rows(&runs, plan.new_trees);
        Ok(Self::of(plan, &runs, &asked, Vec::new()))
    }

    /// The gains, and the aims that were measured, as tables for a page.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut ways: Vec<Way> =
            self.cells.iter().flat_map(|cell| &cell.entries).map(|entry| entry.way).collect();
        ways.sort_unstable_by_key(|way| Way::ALL.iter().position(|known| known == way));
        ways.dedup();
        ways.retain(|way| *way != Way::Stock);
        let of = |cell: &Cell, way: Way| cell.entries.iter().position(|entry| entry.way == way);
        let names = ways.iter().map(|way| format!(" `{way}` |")).collect::<String>();
        let mut text = format!(
            "| tree | program | stock |{names} one pass |\n|---|---|---:|{}---:|\n",
            "---:|".repeat(ways.len())
        );
        let mut tree = None;
        for cell in &self.cells {
            let name = if tree.replace(cell.tree) == Some(cell.tree) { "" } else { cell.tree.name() };
            let seconds =
                |seconds: Option<f64>| seconds.map_or(String::new(), |seconds| format!("{seconds:.1} s"));
            let stock = seconds(of(cell, Way::Stock).map(|at| cell.entries[at].seconds.mean));
            let gains = ways.iter().map(|way| {
                let gain = of(cell, *way).and_then(|at| cell.entries[at].gain.as_ref());
                gain.map_or(" |".to_owned(), |gain| match gain.values.len() {
                    1 => format!(" {:.1} (one pair) |", gain.mean),
                    _ => format!(" {:.1} ({:.1} to {:.1}) |", gain.mean, gain.low, gain.high),
                })
            });
            text += &format!(
                "| {name} | {} | {stock} |{} {} |\n",
                cell.program,
                gains.collect::<String>(),
                seconds(cell.pass_seconds)
            );
        }
        text += "\n| aim | | measured |\n|---|---|---|\n";
        for (aim, value) in self.aims.iter().filter_map(|aim| Some((aim, aim.value.as_ref()?))) {
            let verdict =
                if aim.verdict == Verdict::Fails { "**fails**".to_owned() } else { aim.verdict.to_string() };
            text += &format!("| {} | {verdict} | {} |\n", aim.aim, with_interval(value));
        }
        if self.failed > 0 {
            text += &format!("\nRuns that failed and are missing here: {}.\n", self.failed);
        }
        text
    }

    /// Whether every aim that was asked for is reached with certainty, there is one, and no run is missing.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.failed == 0 && !self.aims.is_empty() && all_hold(&self.aims)
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
                let first = |text: String| if number == 0 { text } else { String::new() };
                let side = |of: fn(&SideCosts) -> String| entry.side_costs.as_ref().map_or(String::new(), of);
                rows.push([
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
                    side(|costs| format!("{:.1}", costs.reclaimed_bytes as f64 / f64::from(1 << 20))),
                    side(|costs| format!("{:.2}", costs.processor_seconds)),
                    side(|costs| costs.fiemap_calls.to_string()),
                ]);
            }
        }
        let header = [
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
            "evicted MiB",
            "processor s",
            "FIEMAP calls",
        ];
        let table = terminal_table(header, 3, rows);
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"{"profile":"p","disk_bytes":1,"time_scale":1.0,"file_system":"ext4","share":0.2,"seed":1,"host":"h"}"#;

    fn row(way: &str, side_costs: &str) -> String {
        format!(
            r#"{{"tree":"fresh","program":"tar","way":"{way}","pair":0,"outcome":{{"measured":{{"seconds":2.0,"again_seconds":1.0,{side_costs}"reads":10,"seeks":4,"read_bytes":40960,"load":1.0}}}}}}"#
        )
    }

    #[test]
    fn nothing_holds_while_a_run_is_missing() {
        let died =
            r#"{"tree":"fresh","program":"tar","way":"watch","pair":1,"outcome":{"failed":"it died"}}"#;
        let rows = [PLAN.to_owned(), row("stock", ""), row("watch", ""), died.to_owned()].join("\n");
        let report = Report::of_rows(&rows).expect("rows");
        assert!(report.to_markdown().ends_with("Runs that failed and are missing here: 1.\n"));
        assert!(!report.holds() && report.to_table().contains("missing: 1"), "{}", report.to_table());
    }

    #[test]
    fn side_costs_are_columns_where_they_were_measured() {
        let costs =
            r#""side_costs":{"reclaimed_bytes":3145728,"processor_seconds":0.25,"fiemap_calls":4321},"#;
        let rows = [PLAN.to_owned(), row("stock", ""), row("watch", costs)].join("\n");
        let report = Report::of_rows(&rows).expect("rows");
        let table = report.to_table();
        let lines = |word: &str| table.lines().find(|line| line.contains(word)).expect(word).to_owned();
        let cells = |line: String| -> Vec<String> {
            line.trim_matches('│').split('┆').map(|cell| cell.trim().to_owned()).collect()
        };
        let header = cells(lines("FIEMAP"));
        let at = ["evicted MiB", "processor s", "FIEMAP calls"]
            .map(|name| header.iter().position(|column| column == name).expect(name));
        let [stock, watch] = ["┆ stock ", "┆ watch "].map(|way| cells(lines(way)));
        assert_eq!(at.map(|at| stock[at].as_str()), ["", "", ""]);
        assert_eq!(at.map(|at| watch[at].as_str()), ["3.0", "0.25", "4321"]);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
        let entries = &json["cells"][0]["entries"];
        assert_eq!(entries[0]["side_costs"], serde_json::Value::Null);
        assert_eq!(entries[1]["side_costs"]["fiemap_calls"], 4321);
    }
}
