//! The processor time of events: printed, and not asserted.

#![expect(clippy::print_stderr, reason = "ratios and gains are printed")]

mod common;

use common::{Flat, Layout, Reading, Tree, World, node, walk};
use foreseek_seam::ProcessId;
use foreseek_units::Instant;
use foreseek_walks::{Commands, Event, Settings, Walks};
use std::sync::Arc;
use std::time;

/// A walk over 30,000 files with its engine, and the same without one; and directories opened at rest.
#[test]
#[ignore = "prints times; run with --release --ignored --nocapture"]
fn an_event_costs_about_a_microsecond() {
    let tree = Tree::new(30_000, Layout::Aged(10), 2);
    let acts = walk(&tree, Reading::Listing, false);
    for start in [8, 0] {
        let settings = Settings { start, ..Settings::default() };
        let mut world = World::new(Arc::new(Flat), tree.clone(), Some(settings));
        acts.iter().for_each(|act| world.act(*act));
        eprintln!(
            "an allowance of {start} files: {} events, {:?} an event, {:?} an open",
            world.events,
            world.processor / world.events,
            world.processor / acts.len() as u32
        );
    }
    let mut walks = Walks::new(Settings::default(), Arc::new(Flat));
    let mut out = Commands::new();
    let begin = time::Instant::now();
    for at in 1..=1_000_000u64 {
        let event = Event::DirectoryOpened {
            pid: ProcessId(1),
            directory: node(at),
            parent: Some(node(at + (1 << 32))),
        };
        walks.on(Instant(at), event, &mut out);
        out.drain();
    }
    eprintln!("a new directory at rest: {} ns", begin.elapsed().as_nanos() / 1_000_000);
}
