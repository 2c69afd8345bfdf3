//! Several disks at a time.

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Actor, NOBODY, Setup, until};
use foreseek_units::{Bytes, Instant};
use foreseek_walks::{Command, Event, Status};
use foreseek_watch::{Demand, Engine, Options, Watcher};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const WINDOW: Bytes = Bytes::mib(64);

/// Needs memory from the first opened directory on, until all is over.
#[derive(Debug)]
struct Needy {
    needs_memory: bool,
    over: Arc<AtomicBool>,
}

impl Engine for Needy {
    fn on(&mut self, _: Instant, event: Event<'_>) -> Vec<Command> {
        self.needs_memory |= matches!(event, Event::DirectoryOpened { .. });
        Vec::new()
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn demand(&self) -> Demand {
        let needs_memory = self.needs_memory && !self.over.load(Ordering::Relaxed);
        Demand { held: Bytes::ZERO, needs_memory }
    }

    fn status(&self) -> Status {
        Status::default()
    }
}

/// The part of the memory limit of the disk below a file system.
fn part(watcher: &Watcher, setup: &Setup) -> Bytes {
    let number = fs::metadata(setup.device()).expect("there").rdev();
    let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let status = watcher.status();
    let disk = status.disks.iter().find(|disk| disk.device == number);
    disk.map_or(Bytes::ZERO, |disk| Bytes(disk.part_bytes))
}

#[test]
fn a_disk_has_all_of_the_memory_while_no_other_one_needs_it() {
    let (Some(one), Some(other)) = (Setup::new(), Setup::new()) else { return };
    let options = Options {
        paths: vec![one.point.clone(), other.point.clone()],
        memory_bytes: Some(WINDOW.get()),
        ..Options::default()
    };
    let over = Arc::new(AtomicBool::new(false));
    let shared = over.clone();
    let make =
        move |_, _| -> Box<dyn Engine> { Box::new(Needy { needs_memory: false, over: shared.clone() }) };
    let watcher = Watcher::start_with(&options, Box::new(make)).expect("it starts");
    let has = |parts: [Bytes; 2]| until(|| [part(&watcher, &one), part(&watcher, &other)] == parts);
    assert!(has([WINDOW; 2]), "{:?}", watcher.status());
    let mut actor = Actor::new(NOBODY);
    actor.does("list", &one.point);
    assert!(has([WINDOW, WINDOW / 2]), "{:?}", watcher.status());
    actor.does("list", &other.point);
    assert!(has([WINDOW / 2; 2]), "{:?}", watcher.status());
    over.store(true, Ordering::Relaxed);
    assert!(has([WINDOW; 2]), "{:?}", watcher.status());
}
