//! Several disks at a time.

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Actor, NOBODY, Setup, until};
use foreseek_storage::DeviceNumber;
use foreseek_units::{Bytes, Instant};
use foreseek_walks::{Command, Event, Status};
use foreseek_watch::{Engine, Options, Watcher};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const WINDOW: Bytes = Bytes::mib(64);

/// Holds something from the first opened directory on, until all of it is used.
#[derive(Debug)]
struct Holding {
    holds: bool,
    held: Arc<AtomicU64>,
}

impl Engine for Holding {
    fn on(&mut self, _: Instant, event: Event<'_>) -> Vec<Command> {
        self.holds |= matches!(event, Event::DirectoryOpened { .. });
        Vec::new()
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn status(&self) -> Status {
        let held = if self.holds { Bytes(self.held.load(Ordering::Relaxed)) } else { Bytes::ZERO };
        Status { held, ..Status::default() }
    }
}

/// The part of the memory limit of the disk below a file system.
fn part(watcher: &Watcher, setup: &Setup) -> Bytes {
    let number = DeviceNumber::from_raw(fs::metadata(setup.device()).expect("there").rdev()).to_string();
    let status = watcher.status();
    let disk = status.disks.iter().find(|disk| disk.device == number);
    disk.map_or(Bytes::ZERO, |disk| Bytes(disk.part_bytes))
}

#[test]
fn a_disk_has_all_of_the_memory_while_no_other_one_holds_something() {
    let (Some(one), Some(other)) = (Setup::new(), Setup::new()) else { return };
    let options = Options {
        paths: vec![one.point.clone(), other.point.clone()],
        memory_bytes: Some(WINDOW.get()),
        ..Options::default()
    };
    let held = Arc::new(AtomicU64::new(Bytes::mib(1).get()));
    let shared = held.clone();
    let make = move |_, _| -> Box<dyn Engine> { Box::new(Holding { holds: false, held: shared.clone() }) };
    let watcher = Watcher::start_with(&options, Box::new(make)).expect("it starts");
    let has = |parts: [Bytes; 2]| until(|| [part(&watcher, &one), part(&watcher, &other)] == parts);
    assert!(has([WINDOW; 2]), "{:?}", watcher.status());
    let mut actor = Actor::new(NOBODY);
    actor.does("list", &one.point);
    assert!(has([WINDOW, WINDOW / 2]), "{:?}", watcher.status());
    actor.does("list", &other.point);
    assert!(has([WINDOW / 2; 2]), "{:?}", watcher.status());
    // Both hold as much.
    held.store(Bytes::mib(48).get(), Ordering::Relaxed);
    assert!(has([WINDOW / 2; 2]), "{:?}", watcher.status());
    held.store(0, Ordering::Relaxed);
    assert!(has([WINDOW; 2]), "{:?}", watcher.status());
}
