//! The report: a table, charts, and JSON.

mod charts;
mod table;

use crate::judge::{Aim, Verdict};
use crate::outcome::Outcome;
use crate::{Error, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use foreseek_simulate::experiment::Summary;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Writes the charts, the table and the JSON beside the raw runs. Returns the path of the JSON.
///
/// # Errors
/// Where the folder cannot be written.
pub fn write(outcome: &Outcome, folder: &Path) -> Result<PathBuf> {
    for (name, svg) in outcome.charts() {
        put(folder, &format!("{name}.svg"), &svg)?;
    }
    write_both(folder, &outcome.to_table(), &outcome.to_json())
}

/// Writes a table and the same as JSON; returns the path of the JSON.
pub(crate) fn write_both(folder: &Path, table: &str, json: &str) -> Result<PathBuf> {
    put(folder, "report.txt", &format!("{table}\n"))?;
    put(folder, "report.json", json)
}

fn put(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|error| Error::io("cannot write", path.display(), error))?;
    Ok(path)
}

/// Whether every aim is reached with certainty.
pub(crate) fn all_hold(aims: &[Aim]) -> bool {
    aims.iter().all(|aim| aim.verdict == Verdict::Holds)
}

/// A table for a terminal. The columns behind the first `names` are numbers.
pub(crate) fn terminal_table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    names: usize,
    rows: Vec<[String; COLUMNS]>,
) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The aims with their verdicts, a line each, and the remarks.
pub(crate) fn aims_and_notes(aims: &[Aim], notes: &[String]) -> String {
    let told = |aim: &Aim| {
        let value = aim.value.as_ref().map(|value| format!("{:.2} ({})", value.mean, range(value)));
        let value = value.unwrap_or_else(|| "not measured".to_owned());
        format!("{:12} {}\n             {value}\n", aim.verdict, aim.aim)
    };
    let notes = notes.iter().map(|note| format!("\n- {note}"));
    aims.iter().map(told).chain(notes).collect()
}

/// The interval of a ratio.
pub(crate) fn range(value: &Summary) -> String {
    if value.values.len() < 2 {
        "one pair".to_owned()
    } else {
        format!("{:.2}..{:.2}", value.low, value.high)
    }
}

/// A ratio with its interval, for a page.
pub(crate) fn with_interval(value: &Summary) -> String {
    format!("{:.2} ({})", value.mean, range(value).replace("..", " to "))
}

/// Plain data as JSON; field names are the keys.
pub(crate) fn json(data: &impl Serialize) -> String {
    // This cannot fail.
    serde_json::to_string_pretty(data).unwrap_or_default() + "\n"
}

impl Outcome {
    /// All of it as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::options::Options;
    use crate::policy::Policy;
    use crate::reader::Counted;
    use crate::record::{self, Measured, Plan, Run};

    fn outcome() -> Outcome {
        let options = Options { cells: Cell::core(), ..Options::default() };
        let mut runs = Vec::new();
        for pair in 0..5 {
            for cell in &options.cells {
                for (at, policy) in Policy::compared().iter().chain([&Policy::Oracle]).enumerate() {
                    let read_bytes = (10_000_000 + 1_000_000 * at as u64) * u64::from(10 + pair);
                    let readers =
                        Counted { seconds: 10.0, read_bytes, read_median_us: 55.5, ..Counted::default() };
                    let measured =
                        Measured { readers, device_read_bytes: read_bytes * 5 / 4, ..Measured::default() };
                    let outcome = record::Outcome::Measured(Box::new(measured));
                    let seed = u64::from(pair);
                    runs.push(Run { cell: *cell, policy: policy.clone(), pair, seed, outcome });
                }
            }
        }
        let failed = record::Outcome::Failed("it <died>".to_owned());
        runs.push(Run { cell: Cell::Hot, policy: Policy::Plain, pair: 5, seed: 5, outcome: failed });
        Outcome::of(Plan::of(&options), runs, &options, vec!["Time is scaled.".to_owned()])
    }

    #[test]
    fn the_table_tells_every_point_and_every_verdict() {
        let table = outcome().to_table();
        for text in [
            "two-rand-0@256/mq-deadline",
            "four-64kb-0@16/bfq",
            "holds at 24",
            "1.25",
            "oracle",
            "55.5",
            "it <died>",
            "Time is scaled.",
        ] {
            assert!(table.contains(text), "{text} in\n{table}");
        }
    }

    #[test]
    fn json_has_raw_values_and_verdicts() {
        let json: serde_json::Value = serde_json::from_str(&outcome().to_json()).expect("JSON");
        assert_eq!(json["cells"].as_array().map(Vec::len), Some(26));
        assert_eq!(json["cells"][0]["entries"][0]["policy"], "linux-128k");
        assert_eq!(json["cells"][0]["entries"][0]["mb_per_s"]["values"][0], 10.0);
        assert_eq!(json["claims"][0]["policy"], "mount-adaptive");
    }

    #[test]
    fn files_are_written_and_stand_by_themselves() {
        let folder = tempfile::tempdir().expect("a folder");
        write(&outcome(), folder.path()).expect("written");
        let chart =
            std::fs::read_to_string(folder.path().join("two-rand-0-mq-deadline.svg")).expect("a chart");
        assert!(chart.contains("mount-competitive") && !chart.contains("NaN"));
        assert!(folder.path().join("report.txt").exists() && folder.path().join("report.json").exists());
        // Under bfq one level was measured: too few for a curve.
        assert!(!folder.path().join("two-rand-0-bfq.svg").exists());
    }
}
