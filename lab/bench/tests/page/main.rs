//! The tables of results in README and docs are those of the raw rows under `benches/results` which they name. With
//! `FORESEEK_WRITE_PAGE=1` the test writes the tables.
//!
//! A table stands between two comments ([`marks`]). The first names the study and the file; the newest date that has it is meant, so
//! that a new run is taken in by writing the pages again. What stands in the comment is the table with places for numbers
//! ([`template`]); where nothing stands there, the measurement's own report is the table. [`raw`] reads the files.

mod marks;
mod raw;
mod template;

use foreseek_bench::{jobs, walk};

/// Results whose tables another crate writes: claims of the papers are judged there.
const ELSEWHERE: &str = "reproduction/";

/// What should stand between the marks of a block; nothing where it is not this test's.
fn table(block: &marks::Block<'_>) -> Result<Option<String>, String> {
    if block.sources.iter().any(|source| source.starts_with(ELSEWHERE)) {
        return Ok(None);
    }
    if !block.template.is_empty() {
        let rows = raw::rows(&block.sources)?;
        return template::filled(block.template, &rows).map(Some);
    }
    let [source] = block.sources[..] else { return Err("a report is of one file".to_owned()) };
    let text = raw::text(source)?;
    let report = match source.split_once('/') {
        Some(("walks", _)) => walk::Report::of_rows(&text).map(|report| report.to_markdown()),
        Some(("jobs", _)) => jobs::Report::of_rows(&text).map(|report| report.to_markdown()),
        _ => {
            return Err(
                "a study without a report of its own: say what is wanted below the first line".to_owned()
            );
        }
    };
    report.map(Some).map_err(|error| error.to_string())
}

#[test]
fn tables_of_results_are_those_of_the_raw_rows() {
    let blocks = marks::check(table);
    assert!(blocks > 8, "{blocks} tables");
}
