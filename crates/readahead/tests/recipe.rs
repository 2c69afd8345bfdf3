//! `docs/adding-a-policy.md` says what is so: its file and its line are those that the tests of this
//! crate compile, and the files that it names are there.

use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two below the root").into()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_page_shows_the_file_that_is_compiled() {
    let (page, file) = (read("docs/adding-a-policy.md"), read("docs/examples/as_long_as_read.rs"));
    assert!(page.contains(&format!("```rust\n{file}```\n")), "the page and the example differ");
}

#[test]
fn the_page_shows_the_line_that_is_in_the_registry() {
    let (page, registry) = (read("docs/adding-a-policy.md"), read("crates/readahead/src/stream/registry.rs"));
    let line = page.lines().find(|line| line.starts_with("(\"")).expect("the line of the registry");
    assert!(registry.contains(line), "the registry lacks: {line}");
}

#[test]
fn the_files_that_it_names_are_there() {
    let page = read("docs/adding-a-policy.md");
    let named: Vec<&str> = page.split('`').filter(|word| word.starts_with("crates/")).collect();
    assert!(named.len() >= 7, "{named:?}");
    for path in named {
        assert!(root().join(path).exists(), "{path} is not there");
    }
}
