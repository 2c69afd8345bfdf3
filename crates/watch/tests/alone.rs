//! A watcher that is alone in its process: the memory that it takes while a user opens directories as fast as
//! possible, and what is left of it at its end.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "another test uses the rest")]
mod common;

use common::{Actor, NOBODY, Setup, until, write};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Directories of the user who floods.
const FLOODED: usize = 12_000;
/// What the process may take more: the bounds of directories and of listings, and as much again for the engine.
const MEMORY: u64 = 2 * ((32 << 20) + (128 << 20));

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// What a watcher has: descriptors of fanotify and of devices, and threads.
fn traces() -> Vec<String> {
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux has it").flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    let links = links.map(|path| path.to_string_lossy().into_owned());
    let kept = |link: &String| {
        link.contains("fanotify") || link.contains("mountinfo") || link.starts_with("/dev/loop")
    };
    let threads = fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
    let names = threads.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    links.filter(kept).chain(names.filter(|name| name.starts_with("watch"))).collect()
}

#[test]
fn a_user_who_opens_directories_without_end_takes_bounded_memory_and_nothing_is_left() {
    let Some(setup) = Setup::new() else { return };
    let (many, tree) = (setup.path("many"), setup.path("tree"));
    (0..FLOODED).for_each(|n| fs::create_dir_all(many.join(format!("d{n}"))).expect("made"));
    let folders: Vec<PathBuf> = (0..50).map(|n| tree.join(format!("d{n}"))).collect();
    for folder in &folders {
        fs::create_dir_all(folder).expect("made");
        (0..30).for_each(|n| write(&folder.join(format!("f{n}")), 8192));
    }
    setup.cold();
    let before = resident();
    let watcher = setup.watch_as_users_do();
    let ends = AtomicBool::new(false);
    let mut most = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut flooder = Actor::new(NOBODY);
                while !ends.load(Ordering::Relaxed) {
                    assert_eq!(flooder.does("flood", &many), "ok");
                }
            });
        }
        // Another user walks beside, for as long as it takes until there were more opens than the queue has room for.
        let mut walker = Actor::new(0);
        let mut walks = folders.iter().cycle();
        let flooded = || {
            let folder = walks.next().expect("one after the other");
            let read = walker.does("walk", folder);
            most = most.max(resident());
            let counted = watcher.counters().now();
            let passed = counted.directories_opened + counted.unexamined + counted.gone;
            read != "30" || counted.overflows > 0 || passed > 4 * FLOODED as u64
        };
        let enough = until(flooded);
        ends.store(true, Ordering::Relaxed);
        assert!(enough, "{:?}", watcher.counters().now());
        folders.iter().for_each(|folder| assert_eq!(walker.does("walk", folder), "30"));
    });
    let status = watcher.status();
    println!("{} MiB more at most; {status:?}", most.saturating_sub(before) >> 20);
    assert!(most.saturating_sub(before) < MEMORY, "{most} bytes after {before}");
    assert!(status.known_directories <= 128 * 1024 && status.known_entries <= 1 << 20, "{status:?}");
    assert!(status.disks[0].failed_threads.is_empty() && watcher.is_running(), "{status:?}");
    // Events still arrive.
    let mut walker = Actor::new(0);
    let opened = watcher.counters().now().directories_opened;
    let arrives = || {
        walker.does("walk", &folders[0]);
        watcher.counters().now().directories_opened > opened
    };
    assert!(until(arrives), "{:?}", watcher.counters().now());
    assert!(!traces().is_empty(), "the test's own setup");
    drop(watcher);
    assert!(until(|| traces().is_empty()), "{:?}", traces());
    assert_eq!(setup.try_unmount(), Ok(()));
    assert!(until(|| setup.is_free()));
    setup.mount();
}
