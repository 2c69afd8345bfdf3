//! README and the pages for users are read by people who do not know the project: at most 3 % of their sentences may be hard.
//!
//! A sentence is hard that is longer than [`WORDS`] words by a good deal, has more than [`NUMBERS`] numbers, or uses words that this
//! project's authors fell into and no manual of storage has ([`OURS`]). Tables, code and headings do not count.

#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A sentence so long is no burden.
const WORDS: usize = 32;
/// More words than that by so many weigh as much as one word of [`OURS`].
const EXCESS: usize = 12;
/// More numbers belong into a table.
const NUMBERS: usize = 8;
/// The share of sentences that may be hard.
const SHARE: f64 = 0.03;
/// Words of this project's own, and what to write.
const OURS: [(&str, &str); 17] = [
    ("lone read", "single stream"),
    ("lone switch", "positioning without load"),
    ("taken back", "cancelled"),
    ("held back", "deferred"),
    ("in vain", "unused"),
    (" is told", "is reported, knows"),
    (" are told", "are reported, know"),
    (" was told", "was reported, knew"),
    (" tells what", "shows what"),
    (" tells which", "shows which"),
    (" tells how", "shows how"),
    ("dearer", "costlier"),
    ("mended", "fixed"),
    ("given up", "evicted, abandoned"),
    ("turn of the platter", "rotation"),
    ("toll", "penalty"),
    ("without a head", "latency-bound"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let folder = root().join("docs/use");
    let listed =
        fs::read_dir(&folder).expect("the pages for users").map(|entry| entry.expect("readable").path());
    let mut pages: Vec<PathBuf> =
        listed.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.sort();
    pages.push(root().join("README.md"));
    pages
}

/// Paragraphs and items of lists, without code, tables and headings.
fn paragraphs(text: &str) -> Vec<String> {
    let (mut all, mut now, mut code) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        let trimmed = line.trim();
        let fence = trimmed.starts_with("```");
        code ^= fence;
        let prose = !(code || fence || trimmed.starts_with(['|', '#']) || line.starts_with("    "));
        let item = trimmed.starts_with("- ") || trimmed.starts_with("* ");
        if !prose || trimmed.is_empty() || item {
            all.extend((!now.is_empty()).then(|| std::mem::take(&mut now)));
        }
        if prose && !trimmed.is_empty() {
            now.push_str(trimmed);
            now.push(' ');
        }
    }
    all.extend((!now.is_empty()).then_some(now));
    all
}

/// Without what stands between two marks of one kind, and without the targets of links.
fn plain(paragraph: &str) -> String {
    let mut plain = String::new();
    for (number, part) in paragraph.split('`').enumerate() {
        plain.push_str(if number % 2 == 0 { part } else { "x" });
    }
    let mut rest = plain.as_str();
    let mut without = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        without.push_str(before);
        without.push(']');
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    without + rest
}

/// A sentence ends with its mark, where the next word begins as sentences do.
fn sentences(paragraph: &str) -> Vec<String> {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let (mut all, mut now) = (Vec::new(), Vec::new());
    for (at, word) in words.iter().enumerate() {
        now.push(*word);
        let ends = word.ends_with(['.', ';', ':', '?', '!']);
        let begins =
            |next: &&str| next.starts_with(|c: char| c.is_uppercase() || "*[(".contains(c) || c == 'x');
        if ends && words.get(at + 1).is_none_or(begins) {
            all.push(now.join(" "));
            now.clear();
        }
    }
    all.extend((!now.is_empty()).then(|| now.join(" ")));
    all
}

/// Why a sentence is hard to read.
fn why(sentence: &str) -> Option<String> {
    let words = sentence.split_whitespace().count();
    let numbers = sentence
        .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .filter(|part| part.chars().any(|c| c.is_ascii_digit()));
    let numbers = numbers.count();
    if words >= WORDS + EXCESS {
        return Some(format!("{words} words"));
    }
    if numbers > NUMBERS {
        return Some(format!("{numbers} numbers: a table"));
    }
    let lower = sentence.to_lowercase();
    OURS.iter()
        .find(|(ours, _)| lower.contains(ours))
        .map(|(ours, better)| format!("'{}': {better}", ours.trim()))
}

#[test]
fn few_sentences_for_users_are_hard_to_read() {
    let (mut hard, mut total, mut list) = (0, 0, String::new());
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for sentence in paragraphs(&text).iter().flat_map(|paragraph| sentences(&plain(paragraph))) {
            total += 1;
            if let Some(why) = why(&sentence) {
                hard += 1;
                let _ =
                    writeln!(list, "{}: {why}: {sentence}", page.file_name().unwrap_or_default().display());
            }
        }
    }
    assert!(total > 200, "{total} sentences");
    assert!(
        f64::from(hard) <= SHARE * f64::from(total),
        "{hard} of {total} sentences are hard to read:\n{list}"
    );
}

/// Manual pages have all of the help: both come from one definition.
#[test]
fn help_has_no_words_of_our_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new(env!("CARGO_BIN_EXE_foreseek")).arg("documents").arg(folder.path()).status();
    assert!(made.expect("the program runs").success());
    let mut folders = vec![folder.path().to_owned()];
    let (mut pages, mut wrong) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("made").map(|entry| entry.expect("readable").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "1") {
                pages += 1;
                let text =
                    fs::read_to_string(&path).expect("a manual page").replace('\n', " ").to_lowercase();
                let ours = OURS.iter().filter(|(ours, _)| text.contains(ours));
                wrong.extend(ours.map(|(ours, better)| format!("{}: '{ours}': {better}", path.display())));
            }
        }
    }
    assert!(pages > 20, "{pages} pages");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sentences_are_found_and_judged() {
    let text = "# Heading\n\nOne `sentence. Of` code. Another\none, with a [link](to/some.md).\n\n| a | table |\n- An item.\n```\ncode here\n```\n";
    let found: Vec<String> = paragraphs(text).iter().flat_map(|it| sentences(&plain(it))).collect();
    assert_eq!(found, ["One x code.", "Another one, with a [link].", "- An item."]);
    assert_eq!(why("A short one."), None);
    assert!(why(&"word ".repeat(50)).is_some_and(|why| why.contains("50 words")));
    assert!(why("The request is taken back.").is_some_and(|why| why.contains("cancelled")));
    assert!(why("1 2 3 4 5 6 7 8 9").is_some_and(|why| why.contains("table")));
}

/// The text of a page between its tags; a block's end ends a sentence. Charts and styles do not count.
fn text_of(page: &str) -> Vec<String> {
    let mut page = page.to_owned();
    for (opened, closed) in [("<style>", "</style>"), ("<svg", "</svg>")] {
        while let Some((before, rest)) = page.split_once(opened) {
            page = before.to_owned() + rest.split_once(closed).map_or("", |(_, after)| after);
        }
    }
    for block in ["</p>", "</li>", "</h1>", "</h2>", "</th>", "</td>", "</span>", "</b>", "</title>"] {
        page = page.replace(block, "\n");
    }
    let untagged = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text: String = untagged.collect();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// What the demonstration says is read by those who know least: no sentence of it is hard.
#[test]
fn the_page_of_the_demonstration_is_easy_to_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    demo.args(["demo", "--simulate", "--database-size", "1M", "--quiet", "--output"]).arg(folder.path());
    let output = demo.output().expect("the program runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let mut texts = foreseek_demo::notes::measured(1.0);
    texts.extend(foreseek_demo::notes::measured(0.4));
    if complaint.contains("sqlite3") {
        println!("SKIPPED in part: sqlite3 is not installed");
    } else {
        assert!(output.status.success(), "{complaint}");
        let page = text_of(&fs::read_to_string(folder.path().join("index.html")).expect("the page"));
        assert!(page.iter().any(|text| text == "seeks") && page.len() > 40, "{page:?}");
        texts.extend(page);
    }
    let hard: Vec<String> = texts
        .iter()
        .flat_map(|text| sentences(text))
        .filter_map(|sentence| why(&sentence).map(|why| format!("{why}: {sentence}")))
        .collect();
    assert!(hard.is_empty(), "{hard:#?}");
}
