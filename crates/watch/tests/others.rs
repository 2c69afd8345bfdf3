//! Whether other programs read from the disk of a walk.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "another test uses the rest")]
mod common;

use common::{Actor, Setup, until, wait_for_rest, write};
use foreseek_watch::{Disk, Watcher};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Directories with [`FILES`] files each: together a hundred bursts.
const DIRECTORIES: usize = 200;
const FILES: usize = 30;

/// Held by each test: the reader of one is not to read beside the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A tree that is not in memory, and its directories.
fn tree(setup: &Setup) -> Vec<PathBuf> {
    let tree = setup.path("tree");
    let directories: Vec<PathBuf> = (0..DIRECTORIES).map(|number| tree.join(format!("d{number}"))).collect();
    for directory in &directories {
        fs::create_dir_all(directory).expect("made");
        (0..FILES).for_each(|n| write(&directory.join(format!("f{n}")), 16_384));
    }
    setup.cold();
    directories
}

fn disk(watcher: &Watcher) -> Disk {
    watcher.status().disks.first().cloned().expect("a disk")
}

fn walk(actor: &mut Actor, directory: &Path) {
    assert_eq!(actor.does("walk", directory), FILES.to_string());
}

#[test]
fn alone_a_walk_is_never_held_back() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(setup) = Setup::new() else { return };
    let directories = tree(&setup);
    let watcher = setup.watch();
    wait_for_rest(&setup.device());
    let mut actor = Actor::new(0);
    for directory in &directories {
        walk(&mut actor, directory);
        let disk = disk(&watcher);
        assert!(disk.others_read == Some(false) && disk.held_back_seconds == 0.0, "{disk:?}");
    }
    let read = || watcher.counters().now();
    assert!(until(|| read().content_bytes > 0), "{:?}", read());
}

#[test]
fn beside_a_reader_it_is_held_back_until_the_reader_ends() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(setup) = Setup::new() else { return };
    let other = setup.path("other");
    write(&other, 16 << 20);
    let directories = tree(&setup);
    let watcher = setup.watch();
    let (mut actor, mut reader) = (Actor::new(0), Actor::new(0));
    assert_eq!(reader.does("beside", &other), "ok");
    let mut rest = directories.iter();
    let mut walk_on = || walk(&mut actor, rest.next().expect("more of the tree"));
    let mut looks = 0..;
    let seen = || {
        // Looks end a while after the last fetch.
        if looks.next().is_some_and(|look: usize| look.is_multiple_of(100)) {
            walk_on();
        }
        disk(&watcher).others_read == Some(true)
    };
    assert!(until(seen), "{:?}", watcher.status());
    let held_back = || {
        walk_on();
        disk(&watcher).held_back_seconds > 0.0
    };
    assert!(until(held_back), "{:?}", watcher.status());
    drop(reader);
    assert!(until(|| disk(&watcher).others_read == Some(false)), "{:?}", watcher.status());
}
