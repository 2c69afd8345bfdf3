//! The table of results in docs/reproduction.md is that of the raw file which it names. With `FORESEEK_WRITE_PAGE=1` the
//! test writes the table.

use foreseek_reproduce::{Counts, Standing};
use serde_json::Value;
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

/// What the page should have between its marks.
fn block(claims: &[Value]) -> String {
    let mut block = format!("{}.\n\n| claim | paper | ours | |\n|---|---|---|---|\n", counts(claims));
    for claim in claims {
        let (id, judged) = (text(claim, "id"), text(claim, "judged"));
        let judged =
            if text(claim, "verdict") == "holds" { judged.to_owned() } else { format!("**{judged}**") };
        block += &format!("| {id} | {} | {} | {judged} |\n", text(claim, "paper_says"), text(claim, "ours"));
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
    block
}

#[test]
fn the_table_of_results_is_that_of_the_raw_file() {
    let path = root().join("docs/reproduction.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("where results begin");
    let (file, rest) = rest.split_once(" -->\n").expect("the raw file's name");
    let (found, after) = rest.split_once(END).expect("where results end");
    let raw = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let claims: Vec<Value> = serde_json::from_str(&raw).expect("a list of claims");
    let expected = block(&claims);
    if std::env::var_os("FORESEEK_WRITE_PAGE").is_some() {
        let page = format!("{before}{BEGIN}{file} -->\n{expected}{END}{after}");
        std::fs::write(&path, page).expect("the page can be written");
        return;
    }
    assert_eq!(found, expected, "run this test with FORESEEK_WRITE_PAGE=1");
}
