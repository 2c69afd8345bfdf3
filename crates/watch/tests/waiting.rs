//! While a disk reads nothing, opens of directories cost programs little, and nothing is lost by that.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Actor, NOBODY, Setup, resident, stat, until, wait_for_rest, write};
use foreseek_units::Pages;
use foreseek_watch::Watcher;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fewer than those whose opens are not all reported.
const FEW: usize = 24;
/// Listed in some tens of milliseconds.
const DIRECTORIES: usize = 1000;
const ATTEMPTS: usize = 6;
const LATE: &str = "the disk has read, or the watcher was late, in each attempt";
/// To list so many takes many times as long as the watcher waits at first.
const MANY: usize = 3000;

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

/// How many directories the walk has opened in which this one lies.
fn directories_of_walk(watcher: &Watcher, path: &Path) -> u64 {
    let status = watcher.status();
    let walks = status.disks.iter().flat_map(|disk| &disk.walks);
    let holds = walks.filter(|walk| walk.path.as_deref().is_some_and(|top| path.starts_with(top)));
    holds.map(|walk| walk.directories).max().unwrap_or(0)
}

/// A watcher, and a program that has just listed a tree in memory, so that opens of directories are not reported. Lists that
/// tree before, and has `also` listed. `None` if the watcher was late.
fn silence(setup: &Setup, user: u32, top: &Path, also: impl FnOnce()) -> Option<(Watcher, Actor)> {
    setup.cold();
    list(top);
    also();
    let watcher = setup.watch_as_users_do();
    let mut actor = Actor::new(user);
    wait_for_rest(&setup.device());
    assert_eq!(actor.does("tree", top), MANY.to_string());
    (watcher.counters().now().silences > 0).then_some((watcher, actor))
}

#[test]
fn what_is_in_memory_is_not_examined_until_the_disk_reads() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("tree");
    let files = tree(&top, FEW);
    let opened = FEW as u64 + 1;
    // The kernel or a service may read from the disk meanwhile; then this shows nothing.
    for _ in 0..ATTEMPTS {
        setup.cold();
        list(&top);
        let watcher = setup.watch_at_rest();
        let counted = || watcher.counters().now();
        let mut actor = Actor::new(0);
        wait_for_rest(&setup.device());
        let before = reads(&setup.device());
        assert_eq!(actor.does("tree", &top), FEW.to_string());
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
    panic!("{LATE}");
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

#[test]
fn many_opens_in_memory_are_not_reported() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("tree");
    tree(&top, MANY);
    let mut actor = Actor::new(0);
    // The kernel or a service may read from the disk meanwhile; then this shows nothing.
    for _ in 0..ATTEMPTS {
        let watcher = setup.watch_at_rest();
        let counted = || watcher.counters().now();
        wait_for_rest(&setup.device());
        let before = reads(&setup.device());
        assert_eq!(actor.does("tree", &top), MANY.to_string());
        let reported = counted();
        if reads(&setup.device()) != before || reported.silences == 0 {
            continue;
        }
        assert!(reported.directories_opened < MANY as u64 / 2, "{reported:?}");
        // It has ended, and is over after a second.
        std::thread::sleep(Duration::from_millis(1500));
        let opened = counted().directories_opened;
        assert_eq!(actor.does("list", &top), MANY.to_string());
        return assert!(until(|| counted().directories_opened > opened), "{:?}", counted());
    }
    panic!("{LATE}");
}

#[test]
fn files_are_seen_whose_directories_were_all_opened_without_a_report() {
    let Some(setup) = Setup::new() else { return };
    let (first, then) = (setup.path("first"), setup.path("then"));
    tree(&first, MANY);
    tree(&then, MANY);
    for _ in 0..ATTEMPTS {
        let Some((watcher, mut actor)) = silence(&setup, 0, &first, || list(&then)) else { continue };
        let counted = || watcher.counters().now();
        let before = counted().directories_opened;
        assert_eq!(actor.does("later", &then), MANY.to_string());
        if counted().directories_opened - before > MANY as u64 / 2 {
            continue;
        }
        let seen = || counted().files_opened > MANY as u64 / 10;
        return assert!(until(seen), "{:?}", counted());
    }
    panic!("{LATE}");
}

/// The walk is known from its first reads on, though most of what it has opened until then was not reported: neither are
/// the directories that hold what it reads.
#[test]
fn a_walk_that_comes_to_the_end_of_what_is_in_memory_is_followed() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("tree");
    let (known, unknown) = (top.join("a"), top.join("b/c"));
    tree(&known, MANY);
    tree(&unknown, DIRECTORIES);
    // Its directories are known by name, but are not in memory.
    let names = || assert_eq!(fs::read_dir(&unknown).expect("there").count(), DIRECTORIES);
    let silence = || silence(&setup, 0, &known, names);
    let (watcher, mut actor) = (0..ATTEMPTS).find_map(|_| silence()).expect(LATE);
    assert_eq!(actor.does("tree", &top.join("b")), DIRECTORIES.to_string());
    let many = DIRECTORIES as u64 / 4;
    let follows = || directories_of_walk(&watcher, &unknown) >= many;
    assert!(until(follows), "{:?} {:?}", watcher.status(), watcher.counters());
}

/// A directory above those that a program opens may be one that it cannot list.
#[test]
fn a_directory_found_from_below_is_listed_only_for_those_who_may() {
    let Some(setup) = Setup::new() else { return };
    let (known, closed) = (setup.path("known"), setup.path("closed"));
    tree(&known, MANY);
    ["one", "other"].into_iter().for_each(|name| drop(tree(&closed.join(name), DIRECTORIES)));
    let mut permissions = fs::metadata(&closed).expect("made").permissions();
    for (mode, is_shown) in [(0o711, false), (0o755, true)] {
        permissions.set_mode(mode);
        fs::set_permissions(&closed, permissions.clone()).expect("ours");
        let silence = || silence(&setup, NOBODY, &known, || ());
        let (watcher, mut actor) = (0..ATTEMPTS).find_map(|_| silence()).expect(LATE);
        for name in ["one", "other"] {
            assert_eq!(actor.does("tree", &closed.join(name)), DIRECTORIES.to_string());
        }
        let follows = || directories_of_walk(&watcher, &closed) > 0;
        assert!(until(follows), "{:?}", watcher.status());
        let denied = || watcher.counters().now().denied > 0;
        assert!(if is_shown { !denied() } else { until(denied) }, "{is_shown} {:?}", watcher.counters());
    }
}
