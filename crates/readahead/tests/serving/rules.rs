//! Single scenarios of the engine.

use crate::world::{Answer, World, bytes, settings, spans};
use foreseek_readahead::serving::{MEMORY_LEAST, Settings};
use foreseek_seam::{Event, ProcessId, Refusal, ServingEvent, Urgency};
use foreseek_units::{Nanos, Pages};

/// One file of 4000 pages, open as stream 0.
fn world(settings: Settings) -> World {
    let mut world = World::new(settings);
    world.create(0, bytes(4000));
    world.open(0, 0);
    world
}

fn small(memory: u64) -> Settings {
    Settings { memory: Pages(memory), machine: Pages(memory), ..settings() }
}

/// Adjacent fetches, as one.
fn visit(fetches: &[(u64, u64)]) -> Option<(u64, u64)> {
    let pages = fetches.iter().map(|(_, pages)| pages).sum();
    assert!(fetches.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0), "{fetches:?}");
    Some((fetches.first()?.0, pages))
}

#[test]
fn golden_a_random_read_fetches_itself_alone() {
    let mut world = world(settings());
    for page in [700, 90, 3001, 333, 2000, 702, 1500] {
        assert_eq!(world.read_pages(0, page, 1), [(page, 1)]);
        world.complete_all();
    }
    assert_eq!(world.stats().fetched_ahead, Pages(0));
    assert_eq!(world.read(0, bytes(10) + 512, 1024), 7);
    assert_eq!(spans(&world), [(10, 1)]);
    world.finish();
}

/// A kernel with 128 KiB of read-ahead reads a file from its start: the visits of the disk are as long as
/// slow start and the competitive depth make them.
#[test]
fn golden_the_visits_of_a_sequential_reader() {
    let mut world = world(settings());
    let calls = [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (92, 32), (124, 32), (156, 32), (188, 32)];
    let mut visits = Vec::new();
    for (first, pages) in calls {
        let fetches = world.read_pages(0, first, pages);
        assert!(fetches.iter().all(|(_, pages)| *pages <= 32), "in pieces: {fetches:?}");
        visits.extend(visit(&fetches));
        world.complete_all();
        world.unpin_all();
    }
    assert_eq!(visits[..3], [(0, 16), (16, 32), (48, 64)]);
    // The competitive depth.
    assert_eq!(visits[3].0, 112);
    assert!((85..=105).contains(&visits[3].1), "{visits:?}");
    world.finish();
}

#[test]
fn the_next_window_is_fetched_while_the_reader_reads_the_last() {
    let mut world = world(settings());
    assert_eq!(world.read_pages(0, 0, 4), [(0, 16)]);
    world.complete_all();
    assert_eq!(world.read_pages(0, 4, 8), [(16, 32)]);
    world.complete_all();
    // The reader finds all of it cached.
    assert_eq!(visit(&world.read_pages(0, 12, 16)), Some((48, 64)));
    assert_eq!(world.answers.len(), 3);
    world.finish();
}

/// A reader of columns: a call of 964 KiB, which the kernel splits into windows.
#[test]
fn golden_a_call_that_comes_in_parts_is_one_visit() {
    for policy in ["adaptive", "competitive", "none"] {
        let mut world = world(Settings { policy: policy.to_owned(), ..settings() });
        for start in [700, 3001, 1800] {
            assert!(world.asks_for_call(0, start, 32), "{policy}");
            world.call(0, start, 241);
            let before = world.stats().visits;
            // With the window that the kernel will request beyond it.
            assert_eq!(visit(&world.read_pages(0, start, 32)), Some((start, 288)), "{policy}");
            assert!(world.flying.values().all(|one| one.urgency == Urgency::Demand), "{policy}");
            assert_eq!((world.stats().visits - before, world.stats().deferred), (1, 0), "{policy}");
            for part in 1..9 {
                assert!(!world.asks_for_call(0, start + 32 * part, 32));
                assert_eq!(world.read_pages(0, start + 32 * part, 32), [], "{policy}");
            }
            world.complete_all();
            world.unpin_all();
        }
        let stats = world.stats();
        assert_eq!(
            (stats.calls, stats.fetched_ahead + stats.fetched_on_demand),
            (3, Pages(3 * 288)),
            "{policy}"
        );
        world.finish();
    }
}

#[test]
fn calls_of_threads_that_share_a_descriptor_do_not_split_each_other() {
    let mut world = world(settings());
    let starts = [10, 1003, 2100, 3400, 600, 1700, 2800];
    for start in starts {
        world.call(0, start, 241);
        assert_eq!(visit(&world.read_pages(0, start, 32)), Some((start, 288)));
    }
    for part in 1..9 {
        assert!(starts.iter().all(|start| world.read_pages(0, start + 32 * part, 32).is_empty()));
    }
    assert_eq!((world.stats().visits, world.stats().cancelled), (7, Pages(0)));
    world.complete_all();
    world.finish();
}

#[test]
fn a_call_is_fetched_in_steps_and_not_beyond_the_object() {
    let mut world = world(Settings { policy: "none".to_owned(), ..settings() });
    world.call(0, 1000, 600);
    assert_eq!(visit(&world.read_pages(0, 1000, 32)), Some((1000, 320)));
    world.complete_all();
    for first in (1032..1320).step_by(32) {
        assert_eq!(world.read_pages(0, first, 32), []);
        world.unpin_all();
    }
    assert_eq!(visit(&world.read_pages(0, 1320, 32)), Some((1320, 320)));
    world.complete_all();
    world.call(0, 3900, 600);
    assert_eq!(visit(&world.read_pages(0, 3900, 32)), Some((3900, 100)));
    world.complete_all();
    world.finish();
}

#[test]
fn reads_join_fetches_in_flight_and_wait_for_their_part_only() {
    let mut world = world(Settings { fetch: Pages(32), policy: "none".to_owned(), ..settings() });
    world.open(1, 0);
    world.read(0, 0, bytes(32));
    world.read(0, bytes(32), bytes(32));
    assert_eq!(spans(&world), [(0, 32), (32, 32)]);
    let early = world.read(1, bytes(8), bytes(8));
    let late = world.read(1, bytes(40), bytes(8));
    assert_eq!(spans(&world).len(), 2, "nothing is fetched twice");
    world.complete_first();
    assert_eq!(world.answers.get(&early), Some(&Answer::Served(8)));
    assert_eq!(world.answers.get(&late), None);
    world.complete_first();
    assert_eq!(world.answers.len(), 4);
    world.finish();
}

/// None of the pieces that one read waits for is useful alone, and a device may seek between two.
#[test]
fn the_missing_pages_of_one_read_are_one_fetch() {
    for policy in ["adaptive", "competitive", "none"] {
        let mut world = world(Settings { fetch: Pages(32), policy: policy.to_owned(), ..settings() });
        world.open(1, 0);
        world.read(1, bytes(3000), bytes(4));
        world.read(0, bytes(700), bytes(241));
        assert!(spans(&world).contains(&(700, 241)), "{policy}: {:?}", spans(&world));
        world.complete_all();
        world.finish();
    }
}

#[test]
fn a_read_page_is_handed_over_and_missed_again_it_is_an_lru_miss() {
    let mut world = world(settings());
    world.read(0, bytes(100), bytes(4));
    world.complete_all();
    assert_eq!(world.stats().cached, Pages(0));
    world.read(0, bytes(100), bytes(2));
    assert_eq!(spans(&world), [(100, 2)]);
    assert_eq!((world.stats().missed, world.stats().lru_missed), (Pages(6), Pages(2)));
    world.finish();
}

/// Direct reads of sectors do not fetch the page for each.
#[test]
fn a_page_stays_until_its_last_byte_was_read() {
    let mut world = world(settings());
    for sector in 0..8 {
        world.read(0, bytes(500) + 512 * sector, 512);
        world.complete_all();
        world.unpin_all();
        assert_eq!(world.stats().cached, Pages(u64::from(sector < 7)));
    }
    assert_eq!((world.stats().fetches, world.stats().dropped), (1, Pages(0)));
    world.finish();
}

#[test]
fn a_change_drops_cached_pages_and_overtakes_those_in_flight() {
    let mut world = world(settings());
    world.read(0, 0, bytes(4));
    world.complete_all();
    assert_eq!(world.stats().cached, Pages(12));
    world.change(0, 8, 4);
    assert_eq!((world.stats().cached, world.stats().stale), (Pages(8), Pages(4)));
    let before = world.read(0, bytes(8), bytes(4));
    let changed = |world: &World| spans(world).into_iter().filter(|span| span.0 < 16).collect::<Vec<_>>();
    assert_eq!(changed(&world), [(8, 4)]);
    world.change(0, 8, 2);
    let after = world.read(0, bytes(8), bytes(4));
    assert_eq!(changed(&world), [(8, 4), (8, 2)], "only what changed is fetched again");
    world.complete_all();
    assert_eq!(world.answers[&before], Answer::Served(4));
    assert_eq!(world.answers[&after], Answer::Served(4));
    world.finish();
}

#[test]
fn an_object_that_shrinks_answers_with_fewer_pages() {
    let mut world = world(settings());
    let read = world.read(0, bytes(3996), bytes(8));
    world.complete_all();
    assert_eq!(world.answers[&read], Answer::Served(4));
    world.resize(0, bytes(3990) + 1);
    let read = world.read(0, bytes(3988), bytes(8));
    world.complete_all();
    assert_eq!(world.answers[&read], Answer::Served(3));
    world.resize(0, bytes(4100));
    let read = world.read(0, bytes(3990), bytes(1));
    world.complete_all();
    assert_eq!(world.answers[&read], Answer::Served(1));
    world.finish();
}

#[test]
fn a_failed_prefetch_is_a_counter_and_a_failed_read_is_one_read() {
    let mut world = world(settings());
    world.open(1, 0);
    let first = world.read(0, 0, bytes(4));
    let second = world.read(1, bytes(6), bytes(4));
    let id = *world.flying.keys().next().expect("one fetch");
    assert_eq!(spans(&world), [(0, 16)]);
    // Five pages arrive.
    world.complete(id, Some(5), false);
    assert_eq!(world.answers.get(&first), Some(&Answer::Served(4)));
    assert_eq!(world.stats().failed_fetches, 1);
    assert_eq!(spans(&world), [(6, 4)], "for the second read alone");
    let id = *world.flying.keys().next().expect("one fetch");
    world.complete(id, Some(0), false);
    assert_eq!(world.answers.get(&second), Some(&Answer::Failed));
    // Page 4 is cached, the next one is fetched; the failure has no effect any more.
    let third = world.read(0, bytes(4), bytes(2));
    world.complete_all();
    assert_eq!(world.answers[&third], Answer::Served(2));
    assert_eq!(world.stats().failed_reads, 1);
    world.finish();
}

#[test]
fn two_reads_of_a_bad_page_both_fail_and_their_neighbour_does_not() {
    let mut world = world(settings());
    (1..3).for_each(|stream| world.open(stream, 0));
    world.read(0, 0, bytes(4));
    let reads = [(4, 4), (6, 4), (10, 4)].map(|(first, pages)| world.read(1, bytes(first), bytes(pages)));
    let id = *world.flying.keys().next().expect("one fetch");
    world.complete(id, Some(4), false);
    assert_eq!(spans(&world), [(4, 4), (8, 2), (10, 4)]);
    // Page 6 is bad.
    while let Some((id, flying)) = world.flying.first_key_value() {
        let bad = flying.pages.iter().position(|page| page.0 == 6).map(|at| at as u64);
        world.complete(*id, bad, false);
    }
    assert_eq!(
        reads.map(|read| world.answers[&read].clone()),
        [Answer::Failed, Answer::Failed, Answer::Served(4)]
    );
    world.finish();
}

#[test]
fn pages_of_a_failed_prefetch_are_read_again_before_their_read_fails() {
    let mut world = world(settings());
    world.open(1, 0);
    world.read(0, 0, bytes(4));
    world.complete_all();
    // Another stream has fetches: read-ahead is not deferred.
    let other = world.read(1, bytes(1000), bytes(4));
    world.read(0, bytes(4), bytes(12));
    assert_eq!(spans(&world), [(1000, 4), (16, 32)]);
    let read = world.read(0, bytes(16), bytes(32));
    let ids: Vec<u64> = world.flying.keys().copied().collect();
    ids.into_iter().for_each(|id| world.complete(id, Some(0), false));
    // The first was fetched for a read, the second ahead.
    assert_eq!(world.answers.get(&other), Some(&Answer::Failed));
    assert_eq!(spans(&world), [(16, 32)]);
    world.complete_all();
    assert_eq!(world.answers[&read], Answer::Served(32));
    world.finish();
}

#[test]
fn a_busy_driver_gets_the_fetch_again() {
    let mut world = world(settings());
    let read = world.read(0, bytes(50), bytes(4));
    let id = *world.flying.keys().next().expect("one fetch");
    world.refuse(id, Refusal::Busy);
    assert!(world.flying.is_empty());
    world.pass_time(1_000_000);
    assert_eq!(spans(&world), [(50, 4)]);
    world.complete_all();
    assert_eq!(world.answers[&read], Answer::Served(4));
    world.finish();
}

#[test]
fn less_memory_takes_effect_at_once() {
    let mut world = world(small(4096));
    world.create(1, bytes(4000));
    for stream in 1..30 {
        world.open(stream, 1);
        world.read(stream, bytes(100 * stream), bytes(16));
        world.read(stream, bytes(100 * stream + 16), bytes(16));
        world.read(stream, bytes(100 * stream + 32), bytes(4));
        world.complete_all();
    }
    world.unpin_all();
    let before = world.stats();
    assert!(before.cached > Pages(0) && before.backed > MEMORY_LEAST, "{before:?}");
    world.budget(0);
    let after = world.stats();
    assert_eq!(after.budget, MEMORY_LEAST);
    assert!(after.backed <= MEMORY_LEAST);
    assert_eq!(world.dropped.len() as u64, before.backed.get().saturating_sub(after.backed.get()));
    world.budget(4096);
    assert_eq!(world.stats().budget, Pages(4096));
    world.finish();
}

/// 1,200 readers of 16 pages in 1,024 frames.
#[test]
fn reads_beyond_memory_wait_and_are_served_in_order() {
    let mut world = world(small(1024));
    let reads: Vec<u64> = (0..80).map(|at| world.read(0, bytes(50 * at + 7), bytes(16))).collect();
    assert!(world.stats().starved > 0 && world.stats().free < Pages(16));
    while !world.flying.is_empty() {
        world.complete_first();
        world.unpin_first();
    }
    let mut served: Vec<u64> = world.answers.keys().copied().collect();
    served.sort_unstable();
    assert_eq!(served, reads);
    world.finish();
}

#[test]
fn demand_goes_before_read_ahead_and_few_are_in_flight() {
    let mut world = world(Settings { in_flight: 2, ..settings() });
    world.create(1, bytes(4000));
    (1..40).for_each(|stream| world.open(stream, 1));
    // Three visits; the third one is queued.
    for stream in 1..4 {
        world.read(stream, bytes(1000 * stream), bytes(8));
    }
    assert_eq!(world.flying.len(), 2);
    assert_eq!(world.stats().queued, 1);
    assert!(world.flying.values().all(|one| one.urgency == Urgency::Demand));
    world.complete_first();
    assert_eq!((world.flying.len(), world.stats().queued), (2, 0));
    world.finish();
}

/// TR-840 section 4.2: the ceiling is shared among the streams.
#[test]
fn the_more_streams_the_shallower() {
    let mut world = world(small(8192));
    let alone = world.stats();
    assert_eq!((alone.ceiling, alone.bound), (Pages(2048), Pages(2048)));
    for stream in 0..512 {
        world.open(stream, 0);
        world.read(stream, bytes(7 * stream), bytes(1));
        world.complete_all();
        world.unpin_all();
    }
    assert!((4..=8).contains(&world.stats().bound.get()), "{:?}", world.stats());
    world.pass_time(Nanos::from_secs(60).get());
    assert_eq!(world.stats().active_streams, 0, "a process that has not read for long does not count");
    world.finish();
}

/// An engine that shows what the ceiling and the shares gain: it has neither.
#[test]
fn without_the_bound_many_streams_read_as_deep_as_one_and_evict_each_other() {
    let read = |is_bounded| {
        let mut world = world(Settings { is_bounded, ..small(1024) });
        for stream in 0..32 {
            world.create(stream, bytes(4000));
            world.open(stream, stream);
        }
        for first in (0..64).step_by(8) {
            for stream in 0..32 {
                world.read(stream, bytes(first), bytes(8));
                world.complete_all();
                world.unpin_all();
            }
        }
        world.finish();
        world.stats()
    };
    let (bounded, unbounded) = (read(true), read(false));
    assert_eq!((bounded.bound, unbounded.bound), (Pages(1024 / 4 / 32), unbounded.budget));
    assert_eq!((bounded.ceiling, unbounded.ceiling), (Pages(256), Pages(1024)));
    let (few, many) = (bounded.prefetch_missed, unbounded.prefetch_missed);
    assert!(many > few * 4, "{few} and {many} pages were evicted before their readers came");
}

/// TR-840 section 4.1: pages of a process that has ended go first.
#[test]
fn the_pages_of_ended_processes_make_room() {
    let mut world = world(small(1024));
    world.create(1, bytes(4000));
    for stream in 1..5 {
        world.open(stream, 1);
        world.read(stream, bytes(500 * stream), bytes(16));
        world.complete_all();
        world.read(stream, bytes(500 * stream + 16), bytes(8));
        world.complete_all();
        world.unpin_all();
    }
    let held = world.stats().cached;
    world.send(Event::Serving(ServingEvent::Exited { pid: ProcessId(3) }));
    // Eight pages are missing: those of the third stream, whose process has ended. The others are found.
    for at in 0..5 {
        world.read(0, bytes(300 * at + 7), bytes(200));
    }
    assert_eq!((held, world.stats().dropped), (Pages(32), Pages(8)));
    world.complete_all();
    world.unpin_all();
    for stream in [1, 2, 4] {
        world.read(stream, bytes(500 * stream + 24), bytes(8));
    }
    assert_eq!(world.stats().hits, Pages(24));
    world.finish();
}

#[test]
fn a_page_evicted_before_use_is_a_prefetch_miss() {
    let mut world = world(small(1024));
    world.read(0, 0, bytes(16));
    world.read(0, bytes(16), bytes(8));
    world.complete_all();
    world.unpin_all();
    let ahead = world.stats().cached;
    assert!(ahead > Pages(0));
    // Another stream needs all memory.
    world.open(1, 0);
    for at in 0..6 {
        world.read(1, bytes(1000 + 200 * at), bytes(199));
    }
    world.complete_all();
    world.unpin_all();
    let dropped = world.stats().dropped;
    assert!(dropped > Pages(0));
    world.read(0, bytes(24), bytes(8));
    assert!(world.stats().prefetch_missed > Pages(0), "{:?}", world.stats());
    world.finish();
}

#[test]
fn unserved_reads_are_passed() {
    let mut world = world(settings());
    let unknown = world.read(77, 0, bytes(1));
    let long = world.read(0, 0, bytes(257));
    let empty = world.read(0, bytes(5), 0);
    assert_eq!(world.answers[&unknown], Answer::Passed);
    assert_eq!(world.answers[&long], Answer::Passed);
    assert_eq!(world.answers[&empty], Answer::Served(0));
    world.finish();
}

/// A program takes a short answer for the end of the file.
#[test]
fn reads_of_a_fetch_that_ends_before_its_object_are_passed_and_not_cut() {
    let mut world = World::new(settings());
    world.create(1, bytes(1000));
    world.open(1, 1);
    let (cut, whole) = (world.read(1, 0, bytes(8)), world.read(1, bytes(500), bytes(8)));
    world.cut_short(0, 3);
    assert_eq!(world.answers.get(&cut), Some(&Answer::Passed));
    world.finish();
    assert_eq!(world.answers.get(&whole), Some(&Answer::Served(8)));
    assert_eq!((world.stats().internal_errors, world.stats().passed), (1, 1));
    // The pages before that are right, the others are fetched again.
    let again = world.read(1, 0, bytes(8));
    world.finish();
    assert_eq!(world.answers.get(&again), Some(&Answer::Served(8)));
}

#[test]
fn the_end_of_an_unknown_fetch_changes_nothing() {
    let mut world = World::new(settings());
    world.create(1, bytes(1000));
    world.open(1, 1);
    let read = world.read(1, 0, bytes(8));
    world.invent(12345);
    world.finish();
    assert_eq!(world.answers.get(&read), Some(&Answer::Served(8)));
    assert_eq!((world.stats().internal_errors, world.stats().passed), (1, 0));
}
