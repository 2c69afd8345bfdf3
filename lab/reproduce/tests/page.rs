//! The tables of results in docs/lab/reproduction.md are those of the raw files which they name. With `FORESEEK_WRITE_PAGE=1` the
//! test writes the table.

use foreseek_reproduce::{Claim, Counts, Standing};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text<'a>(claim: &'a Value, key: &str) -> &'a str {
    claim[key].as_str().unwrap_or_else(|| panic!("{key} of {}", claim["id"]))
}

fn counts(claims: &[Value]) -> Counts {
    Counts::of(claims.iter().map(|claim| {
        let standing = match text(claim, "verdict") {
            "holds" => Standing::Holds,
            "beyond" => Standing::Beyond,
            _ => Standing::Missed,
        };
        let used = !claim["used_to_set"].is_null();
        (text(claim, "kind") == "arithmetic", used, standing, claim["strict"] == true)
    }))
}

/// A claim's line of a table.
fn line(claim: &Value) -> String {
    let (id, judged) = (text(claim, "id"), text(claim, "judged"));
    let judged = if text(claim, "verdict") == "holds" { judged.to_owned() } else { format!("**{judged}**") };
    format!("| {id} | {} | {} | {judged} |\n", text(claim, "paper_says"), text(claim, "ours"))
}

/// What the page should have between its marks.
fn block(claims: &[Value]) -> String {
    let (checks, claims): (Vec<Value>, Vec<Value>) =
        claims.iter().cloned().partition(|claim| text(claim, "kind") == "check");
    let claims = claims.as_slice();
    let mut block = format!("{}.\n\n| claim | paper | ours | |\n|---|---|---|---|\n", counts(claims));
    claims.iter().for_each(|claim| block += &line(claim));
    if !checks.is_empty() {
        block += "\nChecks beside the count, of what the paper states without a number or in an order:\n\n| check | paper | ours | |\n|---|---|---|---|\n";
        checks.iter().for_each(|check| block += &line(check));
    }
    let beside: Vec<&Value> = claims
        .iter()
        .filter(|claim| claim["not_judged"].as_array().is_some_and(|them| !them.is_empty()))
        .collect();
    if !beside.is_empty() {
        block += "\nRun and not judged, because the claim does not speak of them:\n\n| claim | place | ours |\n|---|---|---|\n";
    }
    for claim in beside {
        for place in claim["not_judged"].as_array().into_iter().flatten() {
            let value = place["value"].as_f64().unwrap_or(f64::NAN);
            block += &format!("| {} | {} | {value:.2} |\n", text(claim, "id"), text(place, "place"));
        }
    }
    let not_run = not_run(claims);
    if !not_run.is_empty() {
        block += &format!("\nNot run: {}.\n", not_run.join(", "));
    }
    block
}

/// The claims of the same papers that are not among these.
fn not_run(claims: &[Value]) -> Vec<String> {
    let papers: BTreeSet<&str> = claims.iter().map(|claim| text(claim, "paper")).collect();
    let is_there = |id: &str| claims.iter().any(|claim| claim["id"] == id);
    let all = Claim::all().expect("built in").into_iter();
    all.filter(|claim| papers.contains(claim.paper.as_str()) && !is_there(&claim.id))
        .map(|claim| claim.id)
        .collect()
}

/// The page with what it should have between each pair of marks.
fn written(page: &str) -> String {
    let (mut written, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (file, after) = after.split_once(" -->\n").expect("the raw file's name");
        let (_, after) = after.split_once(END).expect("where results end");
        let raw =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let claims: Vec<Value> = serde_json::from_str(&raw).expect("a list of claims");
        written += &format!("{before}{BEGIN}{file} -->\n{}{END}", block(&claims));
        rest = after;
    }
    written + rest
}

#[test]
fn the_tables_of_results_are_those_of_the_raw_files() {
    let path = root().join("docs/lab/reproduction.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    assert!(page.contains(BEGIN), "where results begin");
    let written = written(&page);
    if std::env::var_os("FORESEEK_WRITE_PAGE").is_some() {
        std::fs::write(&path, written).expect("the page can be written");
        return;
    }
    assert_eq!(page, written, "run this test with FORESEEK_WRITE_PAGE=1");
}
