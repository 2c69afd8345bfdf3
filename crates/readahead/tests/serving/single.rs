//! A single reader: its fetches are dispatched piece by piece, and cancelled when it leaves.

use crate::world::{Answer, World, bytes, settings, spans};
use foreseek_readahead::serving::Settings;
use foreseek_readahead::stream;
use foreseek_seam::Refusal;
use foreseek_units::Pages;

/// Windows that double up to 256 pages.
fn deep() -> Settings {
    let stream = stream::Settings { aggressive: Pages(256), ..settings().stream };
    Settings { policy: "aggressive".to_owned(), stream, ..settings() }
}

/// Files 0 and 1 of 4000 pages are open as streams 0 and 1. Stream 0 has read 120 pages: now pages 240 to 496
/// are fetched, in eight pieces.
fn world(settings: Settings) -> World {
    let mut world = World::new(settings);
    world.create(2, bytes(12_000));
    world.teach(2, 2);
    for file in 0..2 {
        world.create(file, bytes(4000));
        world.open(file, file);
    }
    for (first, pages) in [(0, 4), (4, 8), (12, 16), (28, 32), (60, 60)] {
        world.complete_all();
        world.unpin_all();
        world.read(0, bytes(first), bytes(pages));
    }
    world
}

#[test]
fn a_piece_follows_when_one_ends() {
    let mut world = world(deep());
    for first in (240..432).step_by(32) {
        assert_eq!(spans(&world), [(first, 32), (first + 32, 32)]);
        assert_eq!(world.stats().deferred, (432 - first) / 32);
        world.complete_first();
    }
    assert_eq!((spans(&world).len(), world.stats().deferred), (2, 0));
    world.complete_all();
    assert_eq!(world.stats().cancelled, Pages(0));
    world.finish();
}

#[test]
fn deferred_fetches_of_a_reader_that_leaves_are_cancelled() {
    let mut world = world(deep());
    let before = world.stats();
    world.close(0);
    let after = world.stats();
    assert_eq!((after.cancelled, after.deferred), (Pages(192), 0));
    assert_eq!(after.free, before.free + Pages(192));
    assert_eq!((after.fetched_ahead, after.fetches), (before.fetched_ahead, before.fetches));
    world.complete_all();
    assert_eq!((world.stats().dropped, world.stats().stale), (before.dropped, before.stale));
    // Some of the pages in flight arrived, none of the others.
    world.open(0, 0);
    assert_eq!(world.read_pages(0, 296, 16), [(304, 8)]);
    world.finish();
}

#[test]
fn another_stream_ends_the_deferring_before_its_own_fetches() {
    let mut world = world(deep());
    let before = world.handed_out.len();
    world.read(1, bytes(2000), bytes(4));
    let expected: Vec<_> = (304..496).step_by(32).map(|first| (0, first)).chain([(1, 2000)]).collect();
    assert_eq!(world.handed_out[before..], expected);
    world.close(0);
    assert_eq!(world.stats().cancelled, Pages(0));
    world.finish();
}

/// Although nothing has to be fetched for it.
#[test]
fn another_reader_of_the_same_pages_keeps_them() {
    let mut world = world(deep());
    world.open(1, 0);
    world.read(1, bytes(240), bytes(8));
    assert_eq!((world.flying.len(), world.stats().deferred), (8, 0));
    world.finish();
}

#[test]
fn a_waiting_read_gets_all_fetches_up_to_it_at_once() {
    let mut world = world(deep());
    let read = world.read(0, bytes(410), bytes(4));
    assert_eq!(spans(&world).last(), Some(&(400, 32)));
    assert_eq!((world.flying.len(), world.stats().deferred), (6, 2));
    (0..6).for_each(|_| world.complete_first());
    assert_eq!(world.answers.get(&read), Some(&Answer::Served(4)));
    world.finish();
}

#[test]
fn a_reader_that_goes_elsewhere_has_left() {
    let mut world = world(deep());
    world.read(0, bytes(3000), bytes(4));
    assert_eq!(world.stats().cancelled, Pages(192));
    assert_eq!(spans(&world), [(240, 32), (272, 32), (3000, 4)]);
    world.finish();
}

/// Requests of the kernel's read-ahead out of order, and gaps.
#[test]
fn a_reader_a_little_ahead_has_not_left() {
    let mut world = world(deep());
    world.read(0, bytes(500), bytes(4));
    assert_eq!(world.stats().cancelled, Pages(0));
    assert!(spans(&world).len() > 8, "the read waits, and what is before it goes first: {:?}", spans(&world));
    world.finish();
}

#[test]
fn fetches_of_changed_pages_are_cancelled() {
    let mut changed = world(deep());
    changed.change(0, 304, 100);
    // Three pieces, and the first pages of one that stays for its other pages.
    assert_eq!((changed.stats().cancelled, changed.stats().stale), (Pages(96), Pages(4)));
    assert_eq!(changed.stats().deferred, 3);
    changed.finish();
    let mut shorter = world(deep());
    shorter.resize(0, bytes(350));
    assert_eq!((shorter.stats().cancelled, shorter.stats().deferred), (Pages(128), 2));
    shorter.finish();
}

#[test]
fn a_device_that_serves_several_at_once_gets_all_fetches() {
    let world = world(Settings { overlapping: true, ..deep() });
    assert_eq!((world.flying.len(), world.stats().deferred), (8, 0));
}

#[test]
fn before_the_pace_is_measured_all_is_dispatched() {
    let mut world = World::new(deep());
    world.create(0, bytes(4000));
    world.open(0, 0);
    for (first, pages) in [(0, 4), (4, 8), (12, 16), (28, 32), (60, 60)] {
        world.complete_all();
        world.read(0, bytes(first), bytes(pages));
    }
    assert_eq!((world.flying.len(), world.stats().deferred), (8, 0));
    world.finish();
}

#[test]
fn a_busy_driver_gets_the_piece_again() {
    let mut world = world(deep());
    let first = *world.flying.keys().next().expect("two");
    world.refuse(first, Refusal::Busy);
    assert_eq!(world.flying.len(), 1);
    let fetched = world.stats().fetched_ahead;
    world.pass_time(1_000_000);
    assert_eq!((spans(&world)[0], world.stats().fetched_ahead), ((240, 32), fetched), "counted once");
    world.finish();
}
