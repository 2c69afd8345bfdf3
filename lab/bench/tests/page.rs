//! The tables of results in docs/lab are those of the raw rows which they name. With `FORESEEK_WRITE_PAGE=1` the tests write the tables.

use foreseek_bench::{jobs, walk};
use std::path::Path;

#[test]
fn the_table_of_walks_is_that_of_the_raw_rows() {
    check("bench-walk.md", "walks", |rows| Ok(walk::Report::of_rows(rows)?.to_markdown()));
}

#[test]
fn the_table_of_jobs_is_that_of_the_raw_rows() {
    check("bench-jobs.md", "jobs", |rows| Ok(jobs::Report::of_rows(rows)?.to_markdown()));
}

/// Compares a page with its rows, or writes it.
fn check(page: &str, study: &str, table: impl Fn(&str) -> foreseek_bench::Result<String>) {
    let (begin, end) = (format!("<!-- {study}: "), format!("<!-- end of {study} -->"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/lab").join(page);
    let there = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = there.split_once(&begin).expect("where the table begins");
    let (file, rest) = rest.split_once(" -->\n").expect("the raw file's name");
    let (_, after) = rest.split_once(&end).expect("where the table ends");
    let rows = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let table = table(&rows).unwrap_or_else(|error| panic!("{file}: {error}"));
    let written = format!("{before}{begin}{file} -->\n{table}{end}{after}");
    if std::env::var_os("FORESEEK_WRITE_PAGE").is_some() {
        return std::fs::write(&path, written).expect("the page can be written");
    }
    assert_eq!(there, written, "run this test with FORESEEK_WRITE_PAGE=1");
}
