//! Blocks of pages that are written from raw results.
//!
//! ```text
//! <!-- table: STUDY/NAME [STUDY/NAME ...]
//! a template, or nothing
//! -->
//! the table
//! <!-- end of table -->
//! ```

use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- table: ";
const CLOSE: &str = "-->\n";
const END: &str = "<!-- end of table -->";

/// A block's first comment.
pub(crate) struct Block<'a> {
    /// Files of raw results, as `STUDY/NAME`, or `STUDY/DATE/NAME` for one that is not the newest.
    pub(crate) sources: Vec<&'a str>,
    /// Lines with placeholders.
    pub(crate) template: &'a str,
}

/// The table between the marks of a block; `None` to leave it as it is.
type Table<'f> = &'f dyn Fn(&Block<'_>) -> Result<Option<String>, String>;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of results: of the given date, or the newest.
pub(crate) fn file(source: &str) -> Result<PathBuf, String> {
    let results = root().join("benches/results");
    let (study, name) = source.split_once('/').ok_or("a source is STUDY/NAME")?;
    let dates = match name.split_once('/') {
        Some((date, _)) => vec![results.join(study).join(date)],
        None => {
            let listed = fs::read_dir(results.join(study)).map_err(|error| format!("{study}: {error}"))?;
            let mut dates: Vec<PathBuf> =
                listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
            dates.sort();
            dates
        }
    };
    let name = name.rsplit('/').next().unwrap_or(name);
    // A name may include its ending, to choose between several kinds.
    let files = |date: &PathBuf| {
        ["", ".jsonl", ".jsonl.gz", ".json", ".txt"].map(|kind| date.join(format!("{name}{kind}")))
    };
    let found = dates.iter().rev().flat_map(files).find(|path| path.is_file());
    found.ok_or_else(|| "no such file of results".to_owned())
}

/// The page with the right table between each pair of marks, and how many blocks were written.
fn written(page: &str, table: Table<'_>) -> Result<(String, usize), String> {
    let (mut written, mut rest, mut count) = (String::new(), page, 0);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (comment, after) = after.split_once(CLOSE).ok_or("a block's comment does not end")?;
        let (old, after) = after.split_once(END).ok_or_else(|| format!("{comment}: no {END}"))?;
        let (sources, template) = comment.split_once('\n').unwrap_or((comment, ""));
        let block = Block { sources: sources.split_whitespace().collect(), template };
        let new = table(&block).map_err(|why| format!("{sources}: {why}"))?;
        count += usize::from(new.is_some());
        written += &format!("{before}{BEGIN}{comment}{CLOSE}{}{END}", new.as_deref().unwrap_or(old));
        rest = after;
    }
    Ok((written + rest, count))
}

/// All pages that may have blocks.
pub(crate) fn pages() -> Vec<PathBuf> {
    let folders = ["docs/use", "docs/internals", "docs/lab"].map(|folder| root().join(folder));
    let listed = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("pages"));
    let mut pages: Vec<PathBuf> = listed.map(|entry| entry.expect("readable").path()).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// Compares each page with the right one, or writes it if `FORESEEK_WRITE_PAGE` is set. Returns the number of
/// blocks.
pub(crate) fn check(table: impl Fn(&Block<'_>) -> Result<Option<String>, String>) -> usize {
    let (mut blocks, mut wrong) = (0, Vec::new());
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page");
        match written(&page, &table) {
            Err(why) => wrong.push(format!("{}: {why}", path.display())),
            Ok((written, count)) => {
                blocks += count;
                if std::env::var_os("FORESEEK_WRITE_PAGE").is_some() {
                    fs::write(&path, written).expect("the page can be written");
                } else if page != written {
                    let differs = page.lines().zip(written.lines()).find(|(ours, raw)| ours != raw);
                    wrong.push(format!("{}: 'make pages' writes it: {differs:?}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    blocks
}

#[test]
fn a_block_is_written_and_what_stands_around_it_is_kept() {
    let page = "a\n<!-- table: x/y z/w\n{1}\n-->\nold\n<!-- end of table -->\nb <!-- table: q/q -->\nkept\n<!-- end of table -->";
    let table = |block: &Block<'_>| {
        assert!(block.sources == ["x/y", "z/w"] || block.template.is_empty());
        Ok((block.template == "{1}\n").then(|| "new\n".to_owned()))
    };
    let (written, count) = written(page, &table).expect("whole");
    assert_eq!((written, count), (page.replace("old", "new"), 1));
}
