//! While a disk reads nothing, opens of directories cost programs little, and nothing is lost by that.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Actor, Setup, resident, stat, until, wait_for_rest, write};
use foreseek_units::Pages;
use std::fs;
use std::path::{Path, PathBuf};

const DIRECTORIES: usize = 300;
const ATTEMPTS: usize = 6;

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

/// The reads that a disk has made.
fn reads(device: &Path) -> u64 {
    let stat = stat(device);
    stat.split_whitespace().next().expect("a number").parse().expect("a number")
}

#[test]
fn what_is_in_memory_is_not_examined_until_the_disk_reads() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("tree");
    let files = tree(&top, DIRECTORIES);
    let opened = DIRECTORIES as u64 + 1;
    // The kernel or a service may read from the disk meanwhile; then this shows nothing.
    for _ in 0..ATTEMPTS {
        setup.cold();
        list(&top);
        let watcher = setup.watch_at_rest();
        let counted = || watcher.counters().now();
        let mut actor = Actor::new(0);
        wait_for_rest(&setup.device());
        let before = reads(&setup.device());
        assert_eq!(actor.does("tree", &top), DIRECTORIES.to_string());
        assert!(until(|| counted().directories_opened == opened), "{:?}", counted());
        let examined = (counted().listed, counted().placed);
        if reads(&setup.device()) != before {
            continue;
        }
        assert_eq!(examined, (0, 0), "{:?}", counted());
        // A program that lists a tree, and reads files only then.
        assert_eq!(actor.does("read", &files[7]), "20000");
        assert!(until(|| files.iter().all(|file| resident(file) == Pages(5))), "{:?}", watcher.status());
        return assert_eq!(
            (counted().directories_opened, counted().unexamined),
            (opened, 0),
            "{:?}",
            counted()
        );
    }
    panic!("the disk has read in each of {ATTEMPTS} attempts");
}

#[test]
fn opens_that_waited_are_forgotten_when_their_walk_is_over() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("memory");
    tree(&top, 3);
    let watcher = setup.watch_at_rest();
    wait_for_rest(&setup.device());
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("tree", &top), "3");
    let counted = || watcher.counters().now();
    assert!(until(|| counted().unexamined == 4), "{:?}", counted());
    assert_eq!((counted().directories_opened, counted().listed), (4, 0), "{:?}", counted());
}
