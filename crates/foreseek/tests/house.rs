//! The rules of the house that a compiler does not check: which crate may use which, what the pure crates
//! must not touch, what every source file begins with.

mod markdown;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that users run, from the ground up: each uses only crates above it in this list. The last
/// is the command line, which offers the laboratory's commands, too.
const PRODUCT: [&str; 25] = [
    "units",
    "chart",
    "device",
    "cache",
    "seam",
    "hints",
    "readahead",
    "walks",
    "strips",
    "nbd",
    "storage",
    "profiler",
    "server",
    "export",
    "emulate",
    "places",
    "warm",
    "watch",
    "libprefetch",
    "libprefetch-c",
    "sqlite",
    "sqlite-preload",
    "mount",
    "array",
    "foreseek",
];
/// The laboratory, from the ground up: each uses crates of the product below the command line, and
/// those of the laboratory above it in this list.
const LAB: [&str; 8] = ["drives", "kernels", "theory", "simulate", "rig", "demo", "bench", "reproduce"];
/// The product's crate that may use the laboratory.
const COMMAND_LINE: &str = "foreseek";
/// The crates that decide: no I/O, clock, thread, random source or `unsafe`.
const PURE: [&str; 14] = [
    "units",
    "chart",
    "device",
    "cache",
    "seam",
    "hints",
    "readahead",
    "walks",
    "strips",
    "nbd",
    "drives",
    "kernels",
    "theory",
    "simulate",
];
/// What a pure crate's own code must not name.
const IMPURE: [&str; 8] = [
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "std::time::Instant",
    "SystemTime",
    "RandomState",
];
/// What a part of a pure crate may name all the same: an experiment's runs, each of which is pure,
/// are spread over threads.
const ALLOWED: [(&str, &str); 1] = [("lab/simulate/src/experiment", "std::thread")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/foreseek lies two below").into()
}

/// All crates.
fn crates() -> impl Iterator<Item = &'static str> {
    PRODUCT.into_iter().chain(LAB)
}

/// The folder of a crate.
fn folder(name: &str) -> PathBuf {
    root().join(if LAB.contains(&name) { "lab" } else { "crates" }).join(name)
}

fn manifest(name: &str) -> toml::Table {
    let path = folder(name).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a crate's shipped code may use.
fn below(name: &str) -> Vec<&'static str> {
    let up_to =
        |crates: &[&'static str]| crates.iter().copied().take_while(|it| *it != name).collect::<Vec<_>>();
    if name == COMMAND_LINE || LAB.contains(&name) {
        let product = PRODUCT.into_iter().filter(|it| *it != COMMAND_LINE);
        product.chain(up_to(&LAB)).collect()
    } else {
        up_to(&PRODUCT)
    }
}

/// All Rust sources below a folder, without build output.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The part of a source that ships: without its tests, which may do as they like.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn the_list_of_crates_is_complete() {
    for (place, listed) in [("crates", &PRODUCT[..]), ("lab", &LAB[..])] {
        let listed: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        let present: BTreeSet<String> = fs::read_dir(root().join(place))
            .expect("the crates")
            .map(|entry| entry.expect("a crate").file_name().into_string().expect("a plain name"))
            .collect();
        assert_eq!(listed, present, "{place}");
    }
}

#[test]
fn a_crate_uses_only_crates_above_it() {
    for name in crates() {
        let manifest = manifest(name);
        let Some(dependencies) = manifest.get("dependencies").and_then(|value| value.as_table()) else {
            continue;
        };
        for used in dependencies.keys().filter_map(|key| key.strip_prefix("foreseek-")) {
            assert!(below(name).contains(&used), "{name} uses foreseek-{used}, which is not above it");
        }
    }
}

#[test]
fn every_crate_keeps_the_lints_of_the_house() {
    for name in crates() {
        let lints = manifest(name).get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        assert_eq!(lints, Some(true), "{name}/Cargo.toml lacks [lints] workspace = true");
    }
}

#[test]
fn the_pure_crates_are_pure() {
    for name in PURE {
        let folder = folder(name).join("src");
        let lib = fs::read_to_string(folder.join("lib.rs")).expect("lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
        for source in sources(&folder) {
            let text = fs::read_to_string(&source).expect("a source");
            let allowed =
                |word| ALLOWED.iter().any(|(part, it)| *it == word && source.starts_with(root().join(part)));
            for word in IMPURE.into_iter().filter(|word| !allowed(*word)) {
                assert!(!shipped(&text).contains(word), "{} names {word}", source.display());
            }
        }
    }
}

#[test]
fn every_source_says_what_it_is() {
    for name in crates() {
        for source in sources(&folder(name)) {
            let text = fs::read_to_string(&source).expect("a source");
            assert!(
                text.starts_with("//!") || text.starts_with("#!/"),
                "{} has no module doc",
                source.display()
            );
        }
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let text = fs::read_to_string(root().join("docs/internals/architecture.md")).expect("the page");
    for name in crates() {
        assert!(text.contains(&format!("`{name}`")), "docs/internals/architecture.md does not name `{name}`");
    }
}

/// Markdown files of the project, without build output.
fn pages() -> Vec<PathBuf> {
    let listed = |folder: PathBuf| {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries.map(|entry| entry.expect("readable").path()).collect::<Vec<_>>()
    };
    let docs = ["docs", "docs/use", "docs/internals", "docs/lab"].map(|folder| root().join(folder));
    let files = [root()].into_iter().chain(docs).flat_map(listed);
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let (mut broken, mut links) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for link in markdown::links(&text) {
            links += 1;
            let folder = page.parent().expect("in a folder");
            if markdown::file_of(link).is_some_and(|file| !folder.join(file).exists()) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(links > 100, "{links} links");
}

/// The folders in a folder.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn each_raw_result_lies_in_a_study_by_date_and_is_listed() {
    let results = root().join("benches/results");
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let is_date = |name: &str| {
        name.len() == 10
            && name.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    };
    let mut files = 0;
    for study in folders(&results) {
        let listed = fs::read_to_string(study.join("README.md"));
        let listed = listed.unwrap_or_else(|error| panic!("{}/README.md: {error}", study.display()));
        for date in folders(&study) {
            assert!(is_date(&name(&date)), "{}: results lie in STUDY/DATE", date.display());
            for entry in fs::read_dir(&date).expect("a folder") {
                let link =
                    format!("({}/{})", name(&date), entry.expect("readable").file_name().to_string_lossy());
                assert!(listed.contains(&link), "{}/README.md lists no {link}", study.display());
                files += 1;
            }
        }
    }
    assert!(files > 80, "{files} files");
    let strays = fs::read_dir(&results).expect("a folder").filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.path().is_file() && entry.file_name() != "README.md")
    });
    assert_eq!(strays.count(), 0, "results lie in a study");
}

#[test]
fn no_page_links_to_a_date() {
    let mut dated = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let links = markdown::links(&text);
        dated.extend(
            links.filter(|link| link.contains("results/") && link.contains("/20")).map(str::to_owned),
        );
    }
    assert!(dated.is_empty(), "a page links to a study's README: {dated:#?}");
}

/// The largest raw file that is kept as it is.
const PLAIN_LIMIT: u64 = 100 << 10;

#[test]
fn a_large_raw_file_is_compressed_unless_a_table_is_made_of_it() {
    let texts: Vec<String> = pages().iter().map(|page| fs::read_to_string(page).expect("a page")).collect();
    let sources: BTreeSet<&str> = texts
        .iter()
        .flat_map(|text| text.split("<!-- table:").skip(1))
        .filter_map(|rest| rest.lines().next())
        .flat_map(str::split_whitespace)
        .collect();
    for study in folders(&root().join("benches/results")) {
        for entry in folders(&study).iter().flat_map(|date| fs::read_dir(date).expect("a folder")) {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let source = format!("{}/{name}", study.file_name().expect("a name").to_string_lossy());
            let used =
                sources.contains(source.as_str()) || sources.contains(source.trim_end_matches(".jsonl"));
            let large = fs::metadata(&path).expect("a file").len() > PLAIN_LIMIT;
            assert!(!large || used || name.ends_with(".gz"), "{}: gzip -9n", path.display());
        }
    }
}

/// The page on where a line belongs names files and folders that exist.
#[test]
fn the_page_on_where_a_line_belongs_names_what_exists() {
    let page = fs::read_to_string(root().join("docs/internals/where.md")).expect("the page");
    let paths = page.split('`').skip(1).step_by(2).filter(|span| {
        let first = span.split('/').next().unwrap_or_default();
        ["crates", "lab", "docs", "experiments", "fuzz", "scripts", "benches"].contains(&first)
            && !span.contains(char::is_uppercase)
    });
    let mut count = 0;
    for path in paths {
        assert!(root().join(path).exists(), "there is no {path}");
        count += 1;
    }
    assert!(count > 30, "{count}");
}

/// Names of variables in quotes: those that the code looks up.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').filter(|part| {
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
        part.starts_with("FORESEEK_") && part.bytes().all(is_name) && !part.starts_with("FORESEEK_TEST_")
    })
}

#[test]
fn the_page_of_environment_variables_names_each() {
    let page = fs::read_to_string(root().join("docs/internals/environment.md")).expect("the page");
    let mut names = 0;
    for source in ["crates", "lab"].iter().flat_map(|folder| sources(&root().join(folder))) {
        let text = fs::read_to_string(&source).expect("a source");
        for name in variables(&text) {
            names += 1;
            assert!(
                page.contains(&format!("`{name}")),
                "docs/internals/environment.md does not name {name} of {}",
                source.display()
            );
        }
    }
    assert!(names > 20, "{names} names");
}

/// What `scripts/soak` would run, for these crates.
#[test]
fn the_soak_runs_every_interleaving_and_the_long_tests() {
    let list = |crates: &str| {
        let mut soak = std::process::Command::new(root().join("scripts/soak"));
        let output = soak.arg("--list").env("CRATES", crates).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let all = list("");
    for line in [
        "foreseek-strips drawn_interleavings_of_many_requests",
        "foreseek-strips a_slow_member_delays_only_its_own_requests",
        "foreseek-strips a_broken_member_fails_only_its_own_requests",
        "foreseek-nbd requests_are_as_on_the_device",
        "-p foreseek-strips --lib -- --ignored all_interleavings",
        "-p foreseek --test array -- --ignored",
        "-p foreseek --test walks -- --ignored --nocapture a_million_entries",
        "fuzz target nbd",
    ] {
        assert!(all.lines().any(|told| told.ends_with(line)), "{line}: {all}");
    }
    assert_eq!(list("array").lines().count(), 3, "two that run once, and one property");
}

/// The page of arrays names the test that holds each promise.
#[test]
fn the_page_of_arrays_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/internals/arrays.md")).expect("it is there");
    let (_, section) = page.split_once("\n## Tests\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let names = section.split('`').skip(1).step_by(2).filter(|name| !name.contains(['/', '.', ' ', ':']));
    let sources: Vec<String> = ["crates", "lab"]
        .iter()
        .flat_map(|folder| sources(&root().join(folder)))
        .filter_map(|source| fs::read_to_string(source).ok())
        .collect();
    let mut count = 0;
    for name in names.filter(|name| name.contains('_')) {
        assert!(sources.iter().any(|source| source.contains(&format!("fn {name}("))), "no test {name}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}
