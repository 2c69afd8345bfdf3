//! The status that the processes of a program report of their statements.

use super::super::report::new_table;
use anyhow::Context;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The longest text of a statement that is shown in a table.
const SHOWN: usize = 60;

/// The report of one process.
#[derive(Debug)]
pub(super) struct Line {
    program: String,
    /// Whether it opened a database.
    pub(super) opened: bool,
    /// Why it could not be followed.
    pub(super) error: Option<String>,
    /// Files that hold a SQLite.
    pub(super) copies: Vec<PathBuf>,
    /// `foreseek_status()`; nothing where it ended without its exit handlers.
    status: Value,
}

/// Reads what was written at `path`; nothing where there is nothing.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Line>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context("cannot read the program's report"),
    };
    // The last line of each process; a line that was cut off says nothing.
    let mut last = BTreeMap::new();
    for value in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let paths = value["copies"].as_array().into_iter().flatten();
        let line = Line {
            program: value["program"].as_str().unwrap_or_default().to_owned(),
            opened: value["opened"] == true,
            error: value["error"].as_str().map(str::to_owned),
            copies: paths.filter_map(|path| path.as_str().map(PathBuf::from)).collect(),
            status: value["status"].clone(),
        };
        last.insert((value["process"].as_u64(), line.program.clone()), line);
    }
    Ok(last.into_values().collect())
}

/// The reports for a program: an array with an object for each process that opened a database, and one with
/// `notes` for the command where there are notes.
pub(super) fn json(lines: &[Line], command: &str, notes: &[String]) -> anyhow::Result<String> {
    let opened = lines.iter().filter(|line| line.opened);
    let mut all: Vec<Value> =
        opened.map(|line| serde_json::json!({ "program": line.program, "status": line.status })).collect();
    if !notes.is_empty() {
        all.push(serde_json::json!({ "program": command, "status": null, "notes": notes }));
    }
    Ok(serde_json::to_string(&all)? + "\n")
}

/// The reports for a person.
pub(super) fn tables(lines: &[Line]) -> String {
    lines.iter().filter(|line| line.opened).map(table).collect()
}

/// The statements of one process.
fn table(line: &Line) -> String {
    let mut text = format!("foreseek: SQLite in {}\n", line.program);
    if line.status.is_null() {
        return text
            + "  it ended without its exit handlers (by a signal, or as programs in Go do), so there is no report: ask by SELECT foreseek_status()\n";
    }
    if let Some(remedy) = line.status["remedy"].as_str().filter(|remedy| !remedy.is_empty()) {
        text += &format!("  not active: {remedy}\n");
    }
    let statements: Vec<&Value> = line.status["statements"].as_array().into_iter().flatten().collect();
    if statements.is_empty() {
        return text + "  no statement waited for storage\n";
    }
    let mut table = new_table();
    table.set_header(["statement", "took", "stock, about", "reads", "waited", "prefetched", "why not more"]);
    for statement in statements {
        let seconds = |name: &str| format!("{:.2} s", statement[name].as_f64().unwrap_or_default());
        let count = |name: &str| statement[name].as_u64().unwrap_or_default().to_string();
        table.add_row([
            shortened(statement["sql"].as_str().unwrap_or_default()),
            seconds("seconds"),
            seconds("stock_seconds"),
            count("reads"),
            count("waited"),
            count("prefetched"),
            statement["why"].as_str().unwrap_or_default().to_owned(),
        ]);
    }
    text + &table.to_string() + "\n"
}

fn shortened(sql: &str) -> String {
    let words = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &words[..at]),
        None => words,
    }
}
