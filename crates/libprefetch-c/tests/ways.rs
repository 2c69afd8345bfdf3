//! Each way to read a file, on a watched one: whether the library sees it, as in the table of
//! docs/use/libprefetch.md.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

const PAGES: u64 = 64;

/// A way by its name in `tests/c/ways.c`, and its row of the page.
struct Way {
    name: &'static str,
    row: &'static str,
    is_seen: bool,
}

const fn seen(name: &'static str, row: &'static str) -> Way {
    Way { name, row, is_seen: true }
}

const fn unseen(name: &'static str, row: &'static str) -> Way {
    Way { name, row, is_seen: false }
}

const WAYS: [Way; 16] = [
    seen("read", "`read`, `pread`"),
    seen("pread", "`read`, `pread`"),
    seen("readv", "`readv`, `preadv`, `preadv2`"),
    seen("preadv", "`readv`, `preadv`, `preadv2`"),
    seen("preadv2", "`readv`, `preadv`, `preadv2`"),
    seen("mmap-announced", "a memory map, after a `pread` of one byte of the page"),
    unseen("preadv2-nowait", "`preadv2` with `RWF_NOWAIT`"),
    unseen("fread", "stdio (`fread`, `getline`, C++ streams)"),
    unseen("mmap", "a memory map"),
    unseen("direct", "any of these through a descriptor with `O_DIRECT`"),
    unseen("io_uring", "io_uring"),
    unseen("aio_read", "`aio_read`"),
    unseen("sendfile", "`sendfile`, `splice`, `copy_file_range`"),
    unseen("splice", "`sendfile`, `splice`, `copy_file_range`"),
    unseen("copy_file_range", "`sendfile`, `splice`, `copy_file_range`"),
    unseen("syscall", "`syscall(SYS_read, ...)`, statically linked programs"),
];

#[test]
fn each_way_to_read_is_seen_or_not_as_the_page_shows() {
    if !has("cc") {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let program = compile(prefix.path(), "tests/c/ways.c", &[]);
    let file = numbered_file(prefix.path(), PAGES as usize);
    for way in WAYS {
        if let Some(counters) = counters_of(prefix.path(), &program, &file, way.name) {
            check(&way, &counters);
        }
    }
}

/// The counters of a program that has read the file in this way; `None` if the machine does not have it.
fn counters_of(prefix: &Path, program: &Path, file: &Path, way: &str) -> Option<Value> {
    let stats = prefix.join("stats.json");
    drop_from_memory(file);
    let environment = [("FORESEEK_STATS", stats.to_str().unwrap())];
    let output = run(prefix, program, &[way, file.to_str().unwrap()], &environment);
    let printed = succeed(&output);
    if let Some(why) = printed.strip_prefix("cannot: ") {
        println!("SKIPPED: {way}: {why}");
        return None;
    }
    assert_eq!(printed.trim(), PAGES.to_string(), "{way}");
    let lines =
        String::from_utf8_lossy(&output.stderr).lines().filter(|line| line.contains("O_DIRECT")).count();
    assert_eq!(lines, usize::from(way == "direct"), "{way}");
    let json: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
    fs::remove_file(&stats).unwrap();
    Some(json["clients"][0].clone())
}

fn check(way: &Way, counters: &Value) {
    let count = |name: &str| counters[name].as_u64().unwrap();
    let name = way.name;
    println!(
        "{name}: {} reads, {} misses, {} fetched",
        count("reads"),
        count("misses"),
        count("fetched_pages")
    );
    assert_eq!(count("reads"), if way.is_seen { PAGES } else { 0 }, "{name}: {counters}");
    assert_eq!(count("hits") + count("misses"), count("reads"), "{name}: {counters}");
    if !way.is_seen {
        assert_eq!((count("callbacks"), count("fetched_pages")), (0, 0), "{name}: {counters}");
    } else if count("misses") == 0 {
        println!("SKIPPED in part: the file stays in memory, nothing can be fetched");
    } else {
        // All of it is announced at the first miss and read while it is in memory, except for a page that the
        // kernel evicts.
        assert!(count("fetched_pages") >= PAGES && count("misses") <= 3, "{name}: {counters}");
    }
    assert_eq!(count("direct"), if name == "direct" { PAGES } else { 0 }, "{name}: {counters}");
}

#[test]
fn the_page_shows_for_each_way_whether_it_is_seen() {
    let page = fs::read_to_string(source("../../docs/use/libprefetch.md")).unwrap();
    for Way { row, is_seen, .. } in WAYS {
        let begins = format!("| {row} | {} |", if is_seen { "yes" } else { "no" });
        assert!(page.lines().any(|line| line.starts_with(&begins)), "no row begins with {begins}");
    }
}
