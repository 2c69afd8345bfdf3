//! The table of results in docs/lab/bench-walk.md is that of the raw rows which it names. With `FORESEEK_WRITE_PAGE=1` the test
//! writes the table.

use foreseek_bench::walk::Report;
use std::path::Path;

const BEGIN: &str = "<!-- walks: ";
const END: &str = "<!-- end of walks -->";

#[test]
fn the_table_of_walks_is_that_of_the_raw_rows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/lab/bench-walk.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("where walks begin");
    let (file, rest) = rest.split_once(" -->\n").expect("the raw file's name");
    let (_, after) = rest.split_once(END).expect("where walks end");
    let rows = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let table = Report::of_rows(&rows).unwrap_or_else(|error| panic!("{file}: {error}")).to_markdown();
    let written = format!("{before}{BEGIN}{file} -->\n{table}{END}{after}");
    if std::env::var_os("FORESEEK_WRITE_PAGE").is_some() {
        return std::fs::write(&path, written).expect("the page can be written");
    }
    assert_eq!(page, written, "run this test with FORESEEK_WRITE_PAGE=1");
}
