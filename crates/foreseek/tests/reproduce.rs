//! `foreseek lab reproduce` as a user meets it: what can be asked, what is said, where it is written.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn reproduce(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.args(["lab", "reproduce"]).args(args).output().expect("the program runs")
}

fn refused(args: &[&str], words: &[&str]) {
    let output = reproduce(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
}

#[test]
fn what_matches_nothing_is_refused_and_no_success() {
    refused(&["--only", "nosuch"], &["'nosuch'", "EU-two-rand"]);
    refused(&["--adaptive", "--only", "nosuch"], &["'nosuch'", "studies"]);
    refused(&["--learnt", "--only", "traces"], &["'traces'", "--traces DIR"]);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    refused(&["--output", "/proc/nowhere"], &["/proc/nowhere", "another folder"]);
}

#[test]
fn the_report_is_a_page_with_charts_a_table_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("made/anew");
    let output = reproduce(&["--quick", "--only", "TR-depth-*", "--output", out.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(Path::new(&out).join(name)).expect(name);
    let json: serde_json::Value = serde_json::from_str(&read("results.json")).expect("JSON");
    assert!(json.as_array().is_some_and(|claims| !claims.is_empty()), "{json}");
    assert!(read("results.csv").lines().nth(1).is_some_and(|line| line.starts_with("TR-depth-")));
    let page = read("report.html");
    assert!(page.contains("TR-840 figure 3") && page.contains("<svg"), "charts of the devices need no runs");
}
