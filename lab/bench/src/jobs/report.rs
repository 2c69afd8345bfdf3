//! The report: a table and JSON; and the table of a page.

use super::job::NamedJob;
use super::judge::{Advice, Cell, aims, cells};
use super::options::{Options, Plan};
use super::record::JobRun;
use super::way::Way;
use crate::Result;
use crate::judge::Aim;
use crate::pairs::failed;
use crate::record::parse;
use crate::report::{aims_and_notes, all_hold, json, range, terminal_table, with_interval, write_both};
use foreseek_simulate::experiment::Summary;
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
    pub(crate) fn of(plan: Plan, runs: &[JobRun], options: &Options, mut notes: Vec<String>) -> Self {
        let cells = cells(runs, options);
        let (failed, note) =
            failed(runs, |cell, way| options.jobs.contains(&cell.job) && options.ways.contains(way));
        notes.extend(note);
        Self { aims: aims(&cells), plan, cells, failed, notes }
    }

    /// The report of runs from a file: the line of the plan, then one for each run.
    ///
    /// # Errors
    /// Where a line is none of these.
    pub fn of_rows(rows: &str) -> Result<Self> {
        let (plan, runs) = parse(rows)?;
        let options = Options { jobs: NamedJob::all(), ways: Way::ALL.to_vec(), ..Options::default() };
        Ok(Self::of(plan, &runs, &options, Vec::new()))
    }

    /// When to mount for which job, as a table for a page.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text =
            "| job | stock | `mount` | over the best static setting | `plain` | processor ns a byte: stock, `mount` |\n\
                        |---|---:|---:|---:|---:|---:|\n"
                .to_owned();
        let mut cells: Vec<(Advice, &Cell, &Summary)> = self
            .cells
            .iter()
            .filter_map(|cell| {
                let gain = cell.entry(Way::Mount)?.gain.as_ref()?;
                Some((Advice::of(gain), cell, gain))
            })
            .collect();
        cells.sort_by(|a, b| a.0.cmp(&b.0).then(b.2.mean.total_cmp(&a.2.mean)));
        let mut latest = None;
        for (advice, cell, gain) in cells {
            if latest.replace(advice) != Some(advice) {
                let title = match advice {
                    Advice::Mount => "faster",
                    Advice::NoLoss => "no slower",
                    Advice::Uncertain => "not certain",
                    Advice::DoNot => "slower: do not mount it for these",
                };
                text += &format!("| **{title}** | | | | | |\n");
            }
            let of = |way: Way| cell.entry(way);
            let stock = of(Way::Stock).map_or(String::new(), |entry| format!("{:.1} s", entry.seconds.mean));
            let over_best = of(Way::Mount).and_then(|entry| entry.over_best.as_ref());
            // Where only stock was measured, it is the best.
            let best =
                cell.best_static.filter(|way| *way != Way::Stock || cell.entry(Way::Stock4M).is_some());
            let over_best = over_best.zip(best);
            let over_best =
                over_best.map_or(String::new(), |(over, best)| format!("{:.2} of `{best}`", over.mean));
            let plain = of(Way::Plain).and_then(|entry| entry.gain.as_ref());
            let processor = [Way::Stock, Way::Mount].map(|way| {
                let each = of(way).and_then(|entry| entry.processor_ns_per_byte);
                each.map_or(String::new(), |each| format!("{each:.1}"))
            });
            let processor = if processor[0].is_empty() { String::new() } else { processor.join(", ") };
            text += &format!(
                "| {} (`{}`) | {stock} | {} | {over_best} | {} | {processor} |\n",
                cell.job.0.does,
                cell.job,
                with_interval(gain),
                plain.map_or(String::new(), with_interval),
            );
        }
        text
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
                let mean =
                    |value: Option<&Summary>| value.map_or(String::new(), |it| format!("{:.2}", it.mean));
                rows.push([
                    if number == 0 { cell.job.to_string() } else { String::new() },
                    entry.way.to_string(),
                    format!("{:.2}", entry.seconds.mean),
                    mean(entry.gain.as_ref()),
                    entry.gain.as_ref().map_or(String::new(), range),
                    mean(entry.over_best.as_ref()),
                    entry.processor_ns_per_byte.map_or(String::new(), |each| format!("{each:.1}")),
                    format!("{:.0}", entry.reads),
                    format!("{:.0}", entry.seeks),
                    format!("{:.0}", entry.read_mib),
                ]);
            }
        }
        let header = [
            "job",
            "way",
            "seconds",
            "x stock",
            "95 %",
            "x best static",
            "cpu ns / B",
            "reads",
            "seeks",
            "MiB",
        ];
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
