//! The tables of claims in docs/lab/reproduction.md, and those that count them in README, agree with the raw
//! files that they name. With `FORESEEK_WRITE_PAGE=1` the test writes them.

#[path = "../../bench/tests/page/marks.rs"]
mod marks;

use foreseek_reproduce::{Claim, Counts, is_bound};
use marks::Block;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn text<'a>(claim: &'a Value, key: &str) -> &'a str {
    claim[key].as_str().unwrap_or_else(|| panic!("{key} of {}", claim["id"]))
}

/// A claim's line of a table.
fn line(claim: &Value) -> String {
    let (id, judged) = (text(claim, "id"), text(claim, "judged"));
    let judged = if text(claim, "verdict") == "holds" { judged.to_owned() } else { format!("**{judged}**") };
    format!("| {id} | {} | {} | {judged} |\n", text(claim, "paper_says"), text(claim, "ours"))
}

/// The text between the marks.
fn block(claims: &[Value]) -> String {
    let (checks, claims): (Vec<Value>, Vec<Value>) =
        claims.iter().cloned().partition(|claim| text(claim, "kind") == "check");
    let claims = claims.as_slice();
    let mut block =
        format!("{}.\n\n| claim | paper | ours | |\n|---|---|---|---|\n", Counts::of_results(claims.iter()));
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
        block += "\nRun and not judged, because the claim does not speak of them:\n\n";
        block +=
            &level_table(&beside, "not_judged", |place| place).unwrap_or_else(|_| list_of_places(&beside));
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

/// The claims of a file of results.
fn claims(source: &str) -> Result<Vec<Value>, String> {
    let path = marks::file(source)?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let raw = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    serde_json::from_str(&raw).map_err(|error| wrong(&error))
}

/// A claim's value with other settings: in brackets if it is missed.
fn value(claim: &Value) -> String {
    let ours = text(claim, "ours");
    match text(claim, "verdict") {
        "holds" => ours.to_owned(),
        "beyond" => format!("{ours} (+)"),
        _ => format!("({ours})"),
    }
}

/// Every variant with its counts, and the claims whose verdicts differ between them.
fn sensitivity(variants: &[Value]) -> String {
    let of = |variant: &Value| variant["claims"].as_array().cloned().unwrap_or_default();
    let mut block =
        "| variant | what is set | hold | hold strictly | beyond |\n|---|---|---|---|---|\n".to_owned();
    for variant in variants {
        let counts = Counts::of_results(claims_of(variant).iter());
        let set = match text(variant, "set") {
            "" => "nothing".to_owned(),
            set => format!("`{set}`"),
        };
        let (name, Counts { simulated, strict, beyond, .. }) = (text(variant, "variant"), counts);
        block += &format!("| {name} | {set} | {simulated} | {strict} | {beyond} |\n");
    }
    let Some(first) = variants.first() else { return block };
    let names = variants.iter().map(|variant| text(variant, "variant")).collect::<Vec<_>>().join(" | ");
    block += &format!("\n| claim | paper | {names} |\n|{}\n", "---|".repeat(variants.len() + 2));
    for claim in of(first).iter().filter(|claim| text(claim, "kind") == "simulated") {
        let id = text(claim, "id");
        let same: Vec<Value> = variants
            .iter()
            .filter_map(|variant| of(variant).into_iter().find(|one| one["id"] == id))
            .collect();
        let verdicts: BTreeSet<&str> = same.iter().map(|one| text(one, "verdict")).collect();
        if verdicts.len() < 2 {
            continue;
        }
        let cells = same.iter().map(value).collect::<Vec<_>>().join(" | ");
        block += &format!("| {id} | {} | {cells} |\n", text(claim, "paper_says"));
    }
    block
}

/// The claims of a trial.
fn claims_of(trial: &Value) -> &[Value] {
    trial["claims"].as_array().map_or(&[], Vec::as_slice)
}

/// Each claim of a trial: as set up and in the trial, in brackets if it does not hold.
fn trials(all: &[Value]) -> String {
    let mut block =
        "| claim | paper | as set up | what was varied | in the trial |\n|---|---|---|---|---|\n".to_owned();
    let Some((as_set_up, trials)) = all.split_first() else { return block };
    for claim in claims_of(as_set_up) {
        let id = text(claim, "id");
        let mut begin = format!("| {id} | {} | {} |", text(claim, "paper_says"), value(claim));
        for trial in trials {
            if let Some(then) = claims_of(trial).iter().find(|one| one["id"] == id) {
                block += &format!("{begin} {} | {} |\n", text(trial, "trial"), value(then));
                begin = "| | | |".to_owned();
            }
        }
    }
    block
}

/// The bounds that are missed, each with the trials in which it holds.
fn missed_bounds(claims: &[Value], trials: &[Value]) -> String {
    let mut block = "| bound | paper | ours | explained by |\n|---|---|---|---|\n".to_owned();
    for claim in claims {
        let is_simulated = text(claim, "kind") == "simulated" && is_bound(text(claim, "relation"));
        if !is_simulated || text(claim, "verdict") == "holds" {
            continue;
        }
        let id = text(claim, "id");
        // The first entry is each claim as set up.
        let explained: Vec<String> = trials
            .iter()
            .skip(1)
            .flat_map(|trial| {
                let holds =
                    claims_of(trial).iter().find(|one| one["id"] == id && text(one, "verdict") == "holds");
                holds.map(|one| format!("{} ({})", text(trial, "trial"), text(one, "ours")))
            })
            .collect();
        let explained = match explained.len() {
            0 => "not explained".to_owned(),
            _ => explained.join("; "),
        };
        block +=
            &format!("| {id} | {} | {} | {explained} |\n", text(claim, "paper_says"), text(claim, "ours"));
    }
    block
}

/// A claim of a list.
fn claim<'a>(claims: &'a [Value], id: &str) -> Result<&'a Value, String> {
    claims.iter().find(|claim| claim["id"] == id).ok_or_else(|| format!("no claim {id}"))
}

/// The points of claims that are run and not judged, a line each.
fn list_of_places(claims: &[&Value]) -> String {
    let mut list = "| claim | place | ours |\n|---|---|---|\n".to_owned();
    for claim in claims {
        for place in claim["not_judged"].as_array().into_iter().flatten() {
            let value = place["value"].as_f64().unwrap_or(f64::NAN);
            list += &format!("| {} | {} | {value:.2} |\n", text(claim, "id"), text(place, "place"));
        }
    }
    list
}

/// The value of each level that some claims are judged by, a line for each of their runs.
fn levels(claims: &[Value], ids: &[&str]) -> Result<String, String> {
    let claims: Vec<&Value> = ids.iter().map(|id| claim(claims, id)).collect::<Result<_, _>>()?;
    level_table(&claims, "sweep", |place| place.split(", ").next().unwrap_or(place))
}

/// The values of claims' points, a column for each level; `run` takes what stands for a line from the place without
/// its level.
fn level_table(claims: &[&Value], points: &str, run: fn(&str) -> &str) -> Result<String, String> {
    let mut lines = Vec::<(&str, &str, &str, BTreeMap<u32, f64>)>::new();
    for claim in claims {
        let id = text(claim, "id");
        for place in claim[points].as_array().into_iter().flatten() {
            let (what, level) = text(place, "place").rsplit_once(", at ").ok_or("a place without a level")?;
            let level = level.parse().map_err(|error| format!("{level}: {error}"))?;
            let value = place["value"].as_f64().ok_or("a place without a value")?;
            match lines.iter_mut().find(|line| line.0 == id && line.2 == run(what)) {
                Some((.., values)) => _ = values.insert(level, value),
                None => {
                    lines.push((id, text(claim, "paper_says"), run(what), BTreeMap::from([(level, value)])))
                }
            }
        }
    }
    let all: BTreeSet<u32> = lines.iter().flat_map(|(.., values)| values.keys().copied()).collect();
    let heads: String = all.iter().map(|level| format!(" {level} |")).collect();
    let mut block = format!("| claim | paper | run |{heads}\n|{}\n", "---|".repeat(all.len() + 3));
    for (at, (id, paper, run, values)) in lines.iter().enumerate() {
        let cell = |level| values.get(level).map_or(" |".to_owned(), |value| format!(" {value:.2} |"));
        let cells: String = all.iter().map(cell).collect();
        let again = at > 0 && lines[at - 1].0 == *id;
        let (id, paper) = if again { ("", "") } else { (*id, *paper) };
        block += &format!("| {id} | {paper} | {run} |{cells}\n");
    }
    Ok(block)
}

/// The claims whose verdicts differ between two files, and those whose intervals are apart and whose values differ
/// by more than a tenth, below a header.
fn changed(before: &[Value], after: &[Value], header: &str) -> Result<String, String> {
    let mut block = format!("{header}\n|---|---|---|---|---|---|\n");
    let number = |claim: &Value, key: &str| claim[key].as_f64();
    for old in before.iter().filter(|claim| text(claim, "kind") == "simulated") {
        let new = claim(after, text(old, "id"))?;
        let judged_otherwise = ["verdict", "strict"].iter().any(|key| old[key] != new[key]);
        let is_far = || {
            let (low, high) = (number(old, "low")?, number(old, "high")?);
            let apart = number(new, "low")? > high || number(new, "high")? < low;
            let ratio = number(new, "value")? / number(old, "value")?;
            Some(apart && (ratio - 1.0).abs() > 0.1)
        };
        if judged_otherwise || is_far() == Some(true) {
            let [before, after] = [old, new].map(|claim| {
                let strictly = if claim["strict"] == true { " strictly" } else { "" };
                format!("{} | {}{strictly}", text(claim, "ours"), text(claim, "verdict"))
            });
            let (id, paper) = (text(old, "id"), text(old, "paper_says"));
            block += &format!("| {id} | {paper} | {before} | {after} |\n");
        }
    }
    Ok(block)
}

/// The text between the marks: the table of sensitivities or trials, or all claims of a file, or, if the
/// comment has lines, a table that counts the claims of several files, a line each. First lines that choose another table:
///
/// | line | files | table |
/// |---|---|---|
/// | `missed bounds` | claims, trials | the bounds that are missed |
/// | `levels` | claims | the [levels] of the claims named below, a line each |
/// | `changed` | claims, newer ones | what has [changed], below the header that follows |
fn table(marked: &Block<'_>) -> Result<Option<String>, String> {
    // Other results of the reproduction are tables whose values are looked up in lab/bench.
    let is_claims = |source: &&str| source.starts_with("reproduction/") && source.ends_with(".json");
    if !marked.sources.iter().any(is_claims) {
        return Ok(None);
    }
    if marked.template.is_empty() {
        let [file] = marked.sources[..] else { return Err("claims are of one file".to_owned()) };
        return claims(file).map(|claims| {
            let are_all = |key: &str| claims.iter().all(|claim| claim[key].is_string());
            Some(match () {
                () if are_all("variant") => sensitivity(&claims),
                () if are_all("trial") => trials(&claims),
                () => block(&claims),
            })
        });
    }
    let lines: Vec<&str> = marked.template.lines().collect();
    if lines == ["missed bounds"] {
        let [file, trials] = marked.sources[..] else {
            return Err("missed bounds are of a file of claims and one of trials".to_owned());
        };
        return Ok(Some(missed_bounds(&claims(file)?, &claims(trials)?)));
    }
    match (&lines[..], &marked.sources[..]) {
        (["levels", ids @ ..], [file]) => return levels(&claims(file)?, ids).map(Some),
        (["changed", header], [before, after]) => {
            return changed(&claims(before)?, &claims(after)?, header).map(Some);
        }
        _ => {}
    }
    if lines.len() != marked.sources.len() {
        return Err("one line of text for each file".to_owned());
    }
    let mut text = "| papers | claims that hold | hold strictly |\n|---|---|---|\n".to_owned();
    for (line, file) in lines.into_iter().zip(&marked.sources) {
        let mut claims = claims(file)?;
        claims.retain(|claim| self::text(claim, "kind") != "check");
        let counts = Counts::of_results(claims.iter());
        text += &format!("{line} | {} | {} |\n", counts.simulated, counts.strict);
    }
    Ok(Some(text))
}

#[test]
fn each_trial_of_the_list_has_a_result() {
    #[derive(serde::Deserialize)]
    struct List {
        trial: Vec<Trial>,
    }
    #[derive(serde::Deserialize)]
    struct Trial {
        what: String,
        claims: BTreeSet<String>,
    }
    let list: List = toml::from_str(include_str!("../../../experiments/trials.toml")).expect("a list");
    let listed: BTreeMap<String, BTreeSet<String>> =
        list.trial.into_iter().map(|trial| (trial.what, trial.claims)).collect();
    let results = claims("reproduction/trials.json").expect("results");
    let ids = |trial: &Value| claims_of(trial).iter().map(|claim| text(claim, "id").to_owned()).collect();
    let found: BTreeMap<String, BTreeSet<String>> =
        results.iter().skip(1).map(|trial| (text(trial, "trial").to_owned(), ids(trial))).collect();
    assert_eq!(found, listed, "run `foreseek lab reproduce --trials --quick` anew");
}

#[test]
fn each_variant_of_the_list_has_a_result() {
    #[derive(serde::Deserialize)]
    struct List {
        variant: Vec<Variant>,
    }
    #[derive(serde::Deserialize)]
    struct Variant {
        name: String,
    }
    let list: List = toml::from_str(include_str!("../../../experiments/sensitivity.toml")).expect("a list");
    let listed: Vec<String> = list.variant.into_iter().map(|variant| variant.name).collect();
    let results = claims("reproduction/sensitivity.json").expect("results");
    let found: Vec<String> = results.iter().skip(1).map(|run| text(run, "variant").to_owned()).collect();
    assert_eq!(found, listed, "run `foreseek lab reproduce --sensitivity --quick` anew");
    let ids = |run: &Value| -> Vec<String> {
        claims_of(run).iter().map(|claim| text(claim, "id").to_owned()).collect()
    };
    let as_set_up = ids(&results[0]);
    assert!(results.iter().all(|run| ids(run) == as_set_up), "a variant lacks claims");
}

#[test]
fn tables_of_claims_are_those_of_the_raw_files() {
    let blocks = marks::check(table);
    assert!(blocks > 3, "{blocks} tables");
}

#[test]
fn levels_and_changes_of_claims_are_tables() {
    let claim = |id: &str, judged: &str, value: f64| {
        let place =
            |run: &str, level: u32| json!({ "place": format!("{run}, disk, p, at {level}"), "value": value });
        json!({
            "id": id, "kind": "simulated", "paper_says": "≥ 4.0 x", "ours": value.to_string(), "verdict": judged, "strict": judged == "holds",
            "value": value, "low": value - 0.1, "high": value + 0.1, "sweep": [place("one", 8), place("one", 64), place("two", 64)],
        })
    };
    let old = [claim("A", "missed", 2.35), claim("B", "holds", 1.0), claim("C", "holds", 1.0)];
    let new = [claim("A", "missed", 1.58), claim("B", "missed", 1.0), claim("C", "holds", 1.15)];
    assert_eq!(
        changed(&old, &new, "| header |").as_deref(),
        Ok(
            "| header |\n|---|---|---|---|---|---|\n| A | ≥ 4.0 x | 2.35 | missed | 1.58 | missed |\n| B | ≥ 4.0 x | 1 | holds strictly | 1 | missed |\n"
        )
    );
    assert_eq!(
        levels(&old, &["B"]).as_deref(),
        Ok(
            "| claim | paper | run | 8 | 64 |\n|---|---|---|---|---|\n| B | ≥ 4.0 x | one | 1.00 | 1.00 |\n|  |  | two | | 1.00 |\n"
        )
    );
    assert!(levels(&old, &["D"]).is_err());
}
