//! How a command reports: as a table for people or as JSON for programs.

use super::{Answer, Format};
use anyhow::Context;
use comfy_table::{Table, presets};
use serde::Serialize;

/// A table without lines.
pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// Prints `what` as a JSON value, or as `table` shows it.
pub(crate) fn report<T: Serialize>(
    format: Format,
    what: &T,
    table: impl Fn(&T) -> String,
) -> anyhow::Result<Answer> {
    super::print(&text_of(format, what, table)?).context("cannot write to standard output")?;
    Ok(Answer::Done)
}

/// `what` as a line of JSON, or as `table` shows it.
pub(crate) fn text_of<T: Serialize>(
    format: Format,
    what: &T,
    table: impl Fn(&T) -> String,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string(what)? + "\n",
        Format::Table => table(what) + "\n",
    })
}
