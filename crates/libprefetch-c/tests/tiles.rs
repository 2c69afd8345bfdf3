//! An image program and the change to it: its output is the same, and its reads are predicted.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const ACROSS: &str = "24";
const DOWN: &str = "20";
/// Each of 16 KiB.
const TILES: u64 = 480;

fn has_libtiff() -> bool {
    let found =
        Command::new("pkg-config").args(["--exists", "libtiff-4"]).status().is_ok_and(|exit| exit.success());
    if !found {
        println!("SKIPPED: no libtiff (libtiff-dev)");
    }
    found
}

#[test]
fn a_column_pass_over_a_tiled_image_is_predicted() {
    if !["cc", "patch", "pkg-config"].into_iter().all(has) || !has_libtiff() {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let changed = prefix.path().join("announcing.c");
    let mut patch = Command::new("patch");
    patch.args(["-s", "-o"]).arg(&changed).args([source("examples/tiles.c"), source("examples/tiles.patch")]);
    succeed(&patch.output().unwrap());
    let build =
        |source: PathBuf| compile(prefix.path(), source.to_str().unwrap(), &["-Wl,--no-as-needed", "-ltiff"]);
    let (stock, announcing) = (build(source("examples/tiles.c")), build(changed));
    let image = prefix.path().join("image");
    let image = image.to_str().unwrap();
    succeed(&run(prefix.path(), &stock, &["make", image, ACROSS, DOWN], &[]));
    std::fs::File::open(image).unwrap().sync_all().unwrap();
    for pass in ["rows", "columns"] {
        let stats = prefix.path().join("stats.json");
        // A quarter of the image.
        let environment = [("FORESEEK_STATS", stats.to_str().unwrap()), ("FORESEEK_MEMORY", "2M")];
        drop_from_memory(image.as_ref());
        let with = succeed(&run(prefix.path(), &announcing, &[pass, image], &environment));
        assert_eq!(with, succeed(&run(prefix.path(), &stock, &[pass, image], &[])), "{pass}");
        let json: Value = serde_json::from_str(&std::fs::read_to_string(&stats).unwrap()).unwrap();
        let counters = &json["clients"][0];
        println!("{pass}: {counters}");
        assert_eq!(counters["reads"], TILES, "{pass}");
        if counters["misses"] == 0 {
            println!("SKIPPED in part: the image stays in memory, nothing can be fetched");
        } else {
            assert!(counters["misses"].as_u64().unwrap() <= TILES / 10, "{pass}: {counters}");
        }
    }
}

/// The page shows the change, and states its length.
#[test]
fn the_page_shows_the_change() {
    let read = |name: &str| std::fs::read_to_string(source(name)).unwrap();
    let (page, patch) = (read("../../docs/use/libprefetch.md"), read("examples/tiles.patch"));
    assert!(
        page.contains(&format!("```diff\n{patch}```\n")),
        "the page has another change than examples/tiles.patch"
    );
    let added = patch.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")).count();
    assert!(page.contains(&format!("adds {added} lines")), "examples/tiles.patch adds {added} lines");
}
