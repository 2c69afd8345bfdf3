//! While a disk reads nothing, opens of directories cost programs little, and nothing is lost by that.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Actor, Setup, resident, until, write};
use foreseek_units::Pages;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DIRECTORIES: usize = 300;
const WALKS: u64 = 5;

/// Files in directories below this one, each in one of its own.
fn tree(top: &Path, count: usize) -> Vec<PathBuf> {
    let file = |n| {
        let directory = top.join(format!("d{n}"));
        fs::create_dir_all(&directory).expect("made");
        let file = directory.join("file");
        write(&file, 20_000);
        file
    };
    (0..count).map(file).collect()
}

/// Lists a directory and those below it, through which its entries are in memory.
fn list(top: &Path) {
    for entry in fs::read_dir(top).expect("there").map(|entry| entry.expect("there")) {
        if entry.file_type().expect("known").is_dir() {
            list(&entry.path());
        }
    }
}

/// The time for the watcher to see that the disk rests.
fn pause() {
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn what_is_in_memory_is_not_examined_and_what_follows_is_seen() {
    let Some(setup) = Setup::new() else { return };
    let memory = setup.path("memory");
    let below = setup.path("disk").join("deep");
    let files = tree(&memory, DIRECTORIES);
    let rest = tree(&below, 10);
    setup.cold();
    list(&setup.point);
    files.iter().for_each(|file| drop(fs::read(file).expect("there")));
    let watcher = setup.watch_at_rest();
    let mut actor = Actor::new(0);
    pause();
    for _ in 0..WALKS {
        assert_eq!(actor.does("tree", &memory), DIRECTORIES.to_string());
        std::thread::sleep(Duration::from_millis(50));
    }
    let counted = watcher.counters().now();
    assert_eq!((counted.listed, counted.placed), (0, 0), "{counted:?}");
    assert!(counted.directories_opened < WALKS * DIRECTORIES as u64, "reports ended: {counted:?}");
    // Opens of these are missed, if reports have not begun again.
    assert_eq!(actor.does("list", &below), "10");
    assert!(rest.iter().all(|file| resident(file) == Pages(0)), "{:?}", watcher.counters().now());
    // The disk reads.
    assert_eq!(actor.does("read", &rest[0]), "20000");
    assert!(until(|| watcher.counters().now().listed > 0), "{:?}", watcher.counters().now());
    // The directory above is found from one of those below.
    for file in &rest[1..3] {
        assert_eq!(actor.does("list", file.parent().expect("a directory")), "1");
    }
    assert!(until(|| rest.iter().all(|file| resident(file) == Pages(5))), "{:?}", watcher.status());
}

#[test]
fn opens_that_waited_are_forgotten_when_their_walk_is_over() {
    let Some(setup) = Setup::new() else { return };
    let tree_of = setup.path("memory");
    tree(&tree_of, 3);
    let watcher = setup.watch_at_rest();
    pause();
    assert_eq!(Actor::new(0).does("tree", &tree_of), "3");
    let counted = || watcher.counters().now();
    assert!(until(|| counted().unexamined == 4), "{:?}", counted());
    assert_eq!((counted().directories_opened, counted().listed), (4, 0), "{:?}", counted());
}
