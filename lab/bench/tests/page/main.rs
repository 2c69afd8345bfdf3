//! The tables of results in README and docs agree with the raw rows under `benches/results` that they name.
//! With `FORESEEK_WRITE_PAGE=1` the test writes the tables.
//!
//! A table stands between two comments ([`marks`]). The first names the study and the file; the newest date
//! that has the file is used, so that a new run is taken in by writing the pages again. The comment contains
//! the table with placeholders for numbers ([`template`]); if it is empty, the measurement's own report is the
//! table. [`raw`] reads the files.

mod marks;
mod raw;
mod template;

use foreseek_bench::{jobs, walk};

/// Whether another crate writes the table: lists of claims are judged there.
fn is_elsewhere(source: &str) -> bool {
    source.starts_with("reproduction/") && source.ends_with(".json")
}

/// The table between the marks of a block; `None` where another test writes it.
fn table(block: &marks::Block<'_>) -> Result<Option<String>, String> {
    if block.sources.iter().any(|source| is_elsewhere(source)) {
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

/// The tables of a page without marks, indented ones among them, in which at least half of the cells, except for
/// the first of each line, are numbers. A table of parameters, which nothing measures, stands below `<!-- parameters -->`.
fn tables_of_numbers_by_hand(page: &str) -> Vec<String> {
    let (mut tables, mut table, mut is_made, mut is_given) = (Vec::new(), Vec::new(), false, false);
    for line in page.lines().chain([""]).map(str::trim) {
        is_made |= line.starts_with("<!-- table: ");
        is_made &= !line.contains("<!-- end of table -->");
        is_given |= line == "<!-- parameters -->";
        is_given &= !line.is_empty();
        if line.starts_with('|') && !is_made && !is_given {
            table.push(line);
            continue;
        }
        let cells =
            table.iter().skip(2).flat_map(|line| line.trim_matches('|').split('|').skip(1)).map(str::trim);
        let is_number =
            |cell: &&str| cell.trim_start_matches('*').starts_with(|first: char| first.is_ascii_digit());
        let (all, numbers) = (cells.clone().count(), cells.filter(is_number).count());
        if all > 0 && numbers * 2 >= all {
            tables.push(table.join("\n"));
        }
        table.clear();
    }
    tables
}

#[test]
fn tables_of_results_are_made_by_a_command() {
    for path in marks::pages() {
        let name = path.strip_prefix(marks::root()).unwrap_or(&path).display().to_string();
        let by_hand = tables_of_numbers_by_hand(&std::fs::read_to_string(&path).expect("a page"));
        assert!(by_hand.is_empty(), "{name}: name raw rows in a comment above this table:\n{}", by_hand[0]);
    }
}

#[test]
fn a_table_of_numbers_is_found_outside_of_marks_only() {
    let table = "| x | a | b |\n|---|---|---|\n| one | 1.0 | **2** |\n";
    let page = format!(
        "{table}\n<!-- parameters -->\n{table}\n<!-- table: s/f -->\n{table}<!-- end of table -->\n| x | y |\n|---|---|\n| one | two 2 |\n"
    );
    assert_eq!(tables_of_numbers_by_hand(&page), [table.trim_end()]);
    let indented = table.lines().map(|line| format!("  {line}\n")).collect::<String>();
    assert_eq!(tables_of_numbers_by_hand(&format!("- of a list:\n\n{indented}")), [table.trim_end()]);
}
