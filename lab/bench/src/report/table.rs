//! The outcome as tables for a terminal.

use crate::cell::Cell;
use crate::judge::{Judged, PolicyResult};
use crate::outcome::Outcome;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use foreseek_simulate::experiment::Summary;
use foreseek_units::Bytes;
use std::fmt::Write;

/// Failed runs that are listed; the rest is in the raw runs.
const FAILED_LIMIT: usize = 20;

impl Outcome {
    /// Verdicts, points, overheads, and remarks for the reader.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let plan = &self.plan;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}, time x {}, {} of data, {} of memory{}, {} pairs of {} s and more, seeds from {}; {}; load {:.1}",
            plan.profile,
            plan.time_scale,
            Bytes(plan.data_bytes),
            Bytes(plan.memory_bytes),
            held(plan.reader_private_bytes),
            self.pairs,
            plan.seconds,
            plan.seed,
            plan.host,
            self.load,
        );
        let micro: Vec<&Judged> = self.cells.iter().filter(|cell| cell.cell.point().is_some()).collect();
        if !micro.is_empty() {
            let _ = writeln!(text, "\n{}", points(&micro));
        }
        for cell in self.cells.iter().filter(|cell| cell.cell.point().is_none()) {
            let _ = writeln!(text, "\n{}", overhead(cell));
        }
        if !self.claims.is_empty() {
            let _ = write!(text, "\n{}", self.verdicts());
        }
        for failed in self.failed.iter().take(FAILED_LIMIT) {
            let _ = write!(text, "\n- failed: {failed}");
        }
        for note in &self.notes {
            let _ = write!(text, "\n- {note}");
        }
        text
    }

    /// A line for each claim, and below it what decided it.
    fn verdicts(&self) -> String {
        let mut text = String::new();
        for claim in &self.claims {
            let (holds, unclear, fails) = claim.counts;
            let (policy, verdict, what) = (&claim.policy, claim.verdict, claim.claim);
            let _ = writeln!(text, "{verdict:<12} {policy}: {what}");
            let _ = writeln!(
                text,
                "             worst {:.2} ({}) at {}; holds at {holds}, inconclusive at {unclear}, fails at {fails}",
                claim.value.mean,
                interval(&claim.value),
                claim.place,
            );
            if !claim.missing.is_empty() {
                let _ = writeln!(text, "             not measured at {}", claim.missing.join(", "));
            }
        }
        text
    }
}

/// What each reader holds, where that is more than its buffer.
fn held(private_bytes: u64) -> String {
    if private_bytes == 0 { String::new() } else { format!(" (a reader holds {})", Bytes(private_bytes)) }
}

fn points(cells: &[&Judged]) -> Table {
    let mut table = new(&[
        "point",
        "policy",
        "MB/s",
        "x default",
        "95 %",
        "x best static",
        "95 %",
        "x oracle",
        "disk time x predicted",
        "read/used",
        "CPU ns/B",
        "server MiB",
    ]);
    for cell in cells {
        for (at, entry) in cell.entries.iter().enumerate() {
            let best = cell.best_static.as_ref() == Some(&entry.policy);
            let point = if at == 0 { cell.cell.to_string() } else { String::new() };
            table.add_row(row(point, entry, best));
        }
    }
    right(table, 2)
}

fn row(point: String, entry: &PolicyResult, best: bool) -> Vec<String> {
    let mean =
        |value: &Option<Summary>| value.as_ref().map_or_else(String::new, |v| format!("{:.2}", v.mean));
    let ends = |value: &Option<Summary>| value.as_ref().map_or_else(String::new, interval);
    vec![
        point,
        format!("{}{}", entry.policy, if best { " *" } else { "" }),
        format!("{:.1}", entry.mb_per_s.mean),
        mean(&entry.over_default),
        ends(&entry.over_default),
        mean(&entry.over_best_static),
        ends(&entry.over_best_static),
        mean(&entry.of_oracle),
        mean(&entry.over_predicted),
        format!("{:.2}", entry.device_per_read),
        format!("{:.2}", entry.processor_ns_per_byte),
        format!("{:.0}", entry.server_memory_mib),
    ]
}

fn overhead(cell: &Judged) -> Table {
    let what = match cell.cell {
        Cell::Hot => "hot: in memory, 64 KiB at a time",
        _ => "cold: 4 KiB at random, a disk without delays",
    };
    let mut table = new(&[what, "MB/s", "x native", "95 %", "median us", "95 %", "CPU ns/B"]);
    for entry in &cell.entries {
        let over = entry.over_default.as_ref();
        let median = entry.read_median_us.as_ref();
        table.add_row([
            entry.policy.to_string(),
            format!("{:.1}", entry.mb_per_s.mean),
            over.map_or_else(String::new, |value| format!("{:.2}", value.mean)),
            over.map_or_else(String::new, interval),
            median.map_or_else(String::new, |value| format!("{:.1}", value.mean)),
            median.map_or_else(String::new, interval),
            format!("{:.2}", entry.processor_ns_per_byte),
        ]);
    }
    right(table, 1)
}

/// Both ends; a single pair has none.
fn interval(value: &Summary) -> String {
    if value.values.len() < 2 {
        "one pair".to_owned()
    } else {
        format!("{:.2}..{:.2}", value.low, value.high)
    }
}

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header(header);
    table
}

/// Aligns numbers to the right, from this column on.
fn right(mut table: Table, from: usize) -> Table {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
