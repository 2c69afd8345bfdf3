//! The commands of the access-list engine, scenario by scenario.

mod common;

use common::{FILE, World, fetched, forgotten, page, pages, settings};
use foreseek_hints::{Order, Settings};
use foreseek_seam::{Command, Epoch, Event, HintCommand, HintEvent, HintMode, Refusal};
use foreseek_units::{ByteOffset, Bytes, PageIndex, Pages, Span};
use std::collections::BTreeSet;

/// Pages of a large file in an order that looks random: distinct for n below 1,000,003.
fn scattered(n: u64) -> Vec<u64> {
    (0..n).map(|n| n * 611_953 % 1_000_003).collect()
}

const LARGE: u64 = 1_000_003;

#[test]
fn the_first_miss_asks_and_fetches_a_buffer_full_in_disk_order() {
    let mut world = World::new(settings(), LARGE, 500);
    let list = scattered(1000);
    world.answers.push_back((HintMode::Set, list.clone(), true));
    let commands = world.read_page(list[0]);
    assert_eq!(world.callbacks, [(None, list[0])]);
    let mut expected = list[..300].to_vec();
    expected.sort_unstable();
    assert_eq!(pages(&fetched(&commands)), expected);
    assert!(matches!(commands.last(), Some(Command::Pass { .. })));
    for at in &list[1..300] {
        assert!(fetched(&world.read_page(*at)).is_empty());
    }
    // The next miss begins the next round; the last one's pages are released before.
    let commands = world.read_page(list[300]);
    let last =
        commands.iter().rposition(|command| matches!(command, Command::Hint(HintCommand::Forget { .. })));
    let first = commands.iter().position(|command| matches!(command, Command::Fetch { .. }));
    assert!(last < first, "releases come before fetches");
    let mut gone = forgotten(&commands);
    gone.sort_unstable();
    assert_eq!(gone, expected);
    assert_eq!(pages(&fetched(&commands)).len(), 300);
    assert_eq!(world.callbacks.len(), 1, "the application has announced all of it");
    let stats = world.engine.stats();
    assert_eq!((stats.rounds, stats.fetched, stats.used), (2, Pages(600), Pages(299)));
}

#[test]
fn a_pass_continues_at_the_head() {
    let mut world = World::new(settings(), LARGE, 500);
    let list = scattered(600);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    list[1..300].iter().for_each(|at| drop(world.read_page(*at)));
    let head = *list[..300].iter().max().expect("some");
    let next = pages(&fetched(&world.read_page(list[300])));
    let mut expected: Vec<u64> = list[300..].iter().copied().filter(|page| *page > head).collect();
    expected.sort_unstable();
    let mut wrapped: Vec<u64> = list[300..].iter().copied().filter(|page| *page < head).collect();
    wrapped.sort_unstable();
    expected.extend(wrapped);
    assert_eq!(next, expected);
}

#[test]
fn pages_evicted_early_halve_the_buffer_and_those_needed_last_are_released() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(1200);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    for at in &list[1..100] {
        world.read_page(*at);
    }
    world.evict(&list[98..106]);
    for at in &list[100..104] {
        assert!(fetched(&world.read_page(*at)).is_empty(), "a few evicted pages are no contention");
    }
    let commands = world.read_page(list[104]);
    assert_eq!(world.engine.stats().evicted, Pages(5));
    assert_eq!(world.engine.stats().buffer, Pages(300));
    let gone: BTreeSet<u64> = forgotten(&commands).into_iter().collect();
    let expected: BTreeSet<u64> = list[..100].iter().chain(&list[404..600]).copied().collect();
    assert_eq!(gone, expected, "the used pages and those needed last");
    let asked: BTreeSet<u64> = pages(&fetched(&commands)).into_iter().collect();
    assert_eq!(asked, list[104..404].iter().copied().collect(), "after an eviction all of it is requested");
    // Consumed without contention, it grows by a tenth of the maximum.
    for at in &list[105..=404] {
        world.read_page(*at);
    }
    assert_eq!(world.engine.stats().evicted, Pages(5));
    assert_eq!(world.engine.stats().buffer, Pages(400));
}

#[test]
fn with_an_eviction_order_a_round_is_advised_again_from_its_last_page() {
    let mut world = World::new(Settings { eviction_order: true, ..settings() }, LARGE, 500);
    let list = scattered(600);
    world.hint(HintMode::Set, &list, true);
    let commands = pages(&fetched(&world.read_page(list[0])));
    let (once, again) = commands.split_at(300);
    assert!(once.is_sorted());
    assert_eq!(again, list[..300].iter().rev().copied().collect::<Vec<_>>());
    assert_eq!((world.engine.stats().fetches, world.engine.stats().fetched), (300, Pages(300)));
}

#[test]
fn without_control_evictions_do_not_change_the_buffer() {
    let mut world = World::new(Settings { controlled: false, ..settings() }, LARGE, 1000);
    let list = scattered(1200);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    world.evict(&list[1..100]);
    list[1..50].iter().for_each(|at| drop(world.read_page(*at)));
    assert!(world.engine.stats().evicted > Pages::ZERO);
    assert_eq!(world.engine.stats().buffer, Pages(600));
}

#[test]
fn the_buffer_grows_only_when_the_round_was_consumed() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(2000);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    world.evict(&list[1..6]);
    list[1..6].iter().for_each(|at| drop(world.read_page(*at)));
    assert_eq!(world.engine.stats().buffer, Pages(300));
    // The application changes to another list in the middle of the round.
    let other = scattered(4000)[2000..].to_vec();
    world.answers.push_back((HintMode::Set, other.clone(), true));
    for at in &list[6..150] {
        world.read_page(*at);
    }
    world.read_page(other[0]);
    assert_eq!(world.engine.stats().buffer, Pages(300));
    assert_eq!(world.callbacks.len(), 1);
}

#[test]
fn infill_counts_against_the_buffer() {
    let infill = Settings { infill: Pages(64), ..Settings::default() };
    let mut world = World::new(infill, 4000, 1000);
    let list: Vec<u64> = (0..400).map(|n| n * 7 % 400 * 5).collect();
    world.hint(HintMode::Set, &list, true);
    let commands = world.read_page(list[0]);
    let spans = fetched(&commands);
    assert!(spans.len() < 100, "gaps are read: {spans:?}");
    assert!(pages(&spans).len() <= 600);
    let stats = *world.engine.stats();
    assert!(stats.infill > stats.fetched / 2);
    // Pages that the round left out begin the next one; nothing was evicted in between.
    for at in &list[1..] {
        world.read_page(*at);
    }
    assert!(world.engine.stats().rounds > 1);
    assert_eq!(world.engine.stats().evicted, Pages::ZERO);
}

#[test]
fn long_runs_are_fetched_in_pieces_that_a_kernel_accepts() {
    let mut world = World::new(settings(), 10_000, 5000);
    world.hint(HintMode::Set, &(0..1000).collect::<Vec<_>>(), true);
    let spans = fetched(&world.read_page(0));
    assert_eq!(spans.iter().map(|span| span.len().0).collect::<Vec<_>>(), [320, 320, 320, 40]);
}

#[test]
fn more_than_one_events_worth_of_commands_comes_in_portions() {
    let mut world = World::new(settings(), LARGE, 20_000);
    let list = scattered(12_000);
    world.hint(HintMode::Set, &list, true);
    assert_eq!(fetched(&world.read_page(list[0])).len(), 12_000);
}

#[test]
fn more_of_a_short_list_is_requested_unless_the_application_is_done() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(300);
    world.hint(HintMode::Set, &list[..100], false);
    world.answers.push_back((HintMode::Append, list[100..200].to_vec(), true));
    let commands = world.read_page(list[0]);
    assert_eq!(world.callbacks.len(), 1);
    assert_eq!(fetched(&commands).len(), 200);
    for at in &list[1..200] {
        world.read_page(*at);
    }
    assert_eq!(world.callbacks.len(), 1);
    // A read beyond the list is a stray one, so the application is asked.
    world.answers.push_back((HintMode::Append, list[200..].to_vec(), true));
    let commands = world.read_page(list[200]);
    assert_eq!(world.callbacks.len(), 2);
    assert_eq!(fetched(&commands).len(), 100);
}

#[test]
fn a_stray_read_continues_at_its_position_on_the_new_list() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(100);
    let other: Vec<u64> = scattered(400)[200..].to_vec();
    world.hint(HintMode::Set, &list, true);
    for at in &list[..60] {
        world.read_page(*at);
    }
    world.answers.push_back((HintMode::SetFromMark, other.clone(), true));
    let commands = world.read_page(other[50]);
    let expected: BTreeSet<u64> = other[50..].iter().copied().collect();
    assert_eq!(pages(&fetched(&commands)).into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(fetched(&world.read_page(other[51])).is_empty());
}

#[test]
fn an_application_without_an_answer_is_asked_less_and_less_often() {
    let mut world = World::new(settings(), LARGE, 1000);
    for at in scattered(2000) {
        world.read_page(at);
    }
    assert!(world.callbacks.len() < 12, "{}", world.callbacks.len());
    assert_eq!(world.engine.stats().rounds, 0);
}

#[test]
fn pieces_of_a_page_and_pages_read_again_are_no_strays() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(100);
    world.hint(HintMode::Set, &list, true);
    for at in &list {
        for piece in 0..8 {
            world.read(Span::at(PageIndex(*at).offset() + Bytes(512 * piece), Bytes(512)));
        }
    }
    world.evict(&[list[97]]);
    world.read_page(list[97]);
    let stats = world.engine.stats();
    assert_eq!((stats.unlisted, stats.rounds, stats.queries), (0, 1, 101));
    assert_eq!(stats.evicted, Pages::ZERO, "pages that have been read may be evicted");
    assert!(world.callbacks.is_empty());
}

#[test]
fn large_reads_cover_several_pages() {
    let mut world = World::new(settings(), 100_000, 2000);
    let blocks: Vec<u64> = (0..200).map(|n| n * 37 % 200).collect();
    let list: Vec<u64> = blocks.iter().flat_map(|block| (0..16).map(move |n| block * 160 + n)).collect();
    world.hint(HintMode::Set, &list, true);
    for block in &blocks {
        world.read(Span::at(PageIndex(block * 160).offset(), Bytes::kib(64)));
    }
    let stats = world.engine.stats();
    assert_eq!((stats.rounds, stats.misses, stats.unlisted), (3, 3, 0));
}

#[test]
fn reads_that_an_applications_cache_answers_do_not_stop_the_list() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(3000);
    world.hint(HintMode::Set, &list, true);
    for at in list.iter().enumerate().filter(|(n, _)| n % 7 < 4).map(|(_, at)| at) {
        world.read_page(*at);
    }
    let stats = world.engine.stats();
    assert_eq!((stats.rounds, stats.misses, stats.unlisted), (5, 5, 0));
}

#[test]
fn a_ramp_begins_small_and_keeps_what_memory_holds() {
    let ramp = Settings { first_round: Some(Pages(64)), ..settings() };
    let mut world = World::new(ramp, LARGE, 10_000);
    let list = scattered(5000);
    world.hint(HintMode::Set, &list, true);
    let mut sizes = Vec::new();
    for at in &list {
        let spans = fetched(&world.read_page(*at));
        if !spans.is_empty() {
            sizes.push(spans.len());
        }
    }
    assert_eq!(sizes, [64, 256, 1024, 3656]);
    assert_eq!(world.engine.stats().forgotten, Pages::ZERO);
}

#[test]
fn changed_pages_do_not_count_as_held_or_as_contention() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(100);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    world.notify(Event::Changed { object: FILE, range: page(list[1]), epoch: Epoch(1) });
    world.evict(&[list[1]]);
    let commands = world.read_page(list[1]);
    assert!(fetched(&commands).is_empty());
    assert_eq!(world.engine.stats().evicted, Pages::ZERO);
    assert_eq!(world.engine.stats().buffer, Pages(600));
}

#[test]
fn a_cache_that_refuses_gets_few_requests() {
    let mut world = World::new(settings(), LARGE, 1000);
    world.refuse = Some(Refusal::Unsupported);
    let list = scattered(5000);
    world.hint(HintMode::Set, &list, true);
    for at in &list {
        world.read_page(*at);
    }
    let stats = world.engine.stats();
    assert_eq!(stats.evicted, Pages::ZERO);
    assert!(stats.refused <= 600, "{}", stats.refused);
}

#[test]
fn an_object_that_cannot_be_fetched_is_not_planned_again() {
    let mut world = World::new(settings(), LARGE, 1000);
    world.refuse = Some(Refusal::Unsupported);
    let list = scattered(200_000);
    world.hint(HintMode::Set, &list, true);
    // Each of these misses; to walk the whole list at each would take minutes.
    for at in &list {
        world.read_page(*at);
    }
    assert!(world.engine.stats().rounds <= 2, "{:?}", world.engine.stats());
}

#[test]
fn pages_that_a_clamped_fetch_left_out_are_no_contention() {
    let mut world = World::new(settings(), 100_000, 10_000);
    world.clamp = Pages(32);
    world.hint(HintMode::Set, &(0..3000).collect::<Vec<_>>(), true);
    for at in 0..3000 {
        world.read_page(at);
    }
    assert_eq!(world.engine.stats().evicted, Pages::ZERO);
    assert_eq!(world.engine.stats().rounds, 1);
}

#[test]
fn pages_beyond_the_end_of_the_file_are_not_fetched() {
    let mut world = World::new(settings(), 100, 1000);
    world.hint(HintMode::Set, &[5, 99, 100, 1 << 39, 7, 1 << 41], true);
    assert_eq!(pages(&fetched(&world.read_page(5))), [5, 7, 99]);
}

#[test]
fn unwatched_reads_pass_without_a_query() {
    let mut world = World::new(settings(), 100, 1000);
    world.hint(HintMode::Set, &[5, 7], true);
    let whole = Span::at(ByteOffset::ZERO, Pages(100).bytes());
    world.notify(Event::Hint(HintEvent::Unwatched { object: FILE, range: whole }));
    assert_eq!(world.read_page(5).len(), 1);
    assert_eq!(world.engine.stats().reads, 0);
}

/// ATC'09 section 3.5: K of N pages, uniform: the mean seek is 2N(K-1)/(K(K+1)).
#[test]
fn the_mean_seek_distance_follows_the_papers_law() {
    for (order, buffer) in [(Order::File, 120), (Order::Disk, 120), (Order::Disk, 600)] {
        let mut world = World::new(Settings { order, ..settings() }, LARGE, buffer * 10 / 6);
        let mut state = 1u64;
        let list: Vec<u64> = (0..buffer * 60)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % LARGE
            })
            .collect();
        world.hint(HintMode::Set, &list, true);
        for at in &list {
            world.read_page(*at);
        }
        let spans = fetched(&world.commands);
        let seeks: u64 = spans.windows(2).map(|pair| pair[1].start.distance(pair[0].end).0).sum();
        let (n, k) = (LARGE as f64, buffer as f64);
        let law = 2.0 * n * (k - 1.0) / (k * (k + 1.0));
        let mean = seeks as f64 / (spans.len() - 1) as f64;
        assert!((mean / law - 1.0).abs() < 0.03, "{order:?} {buffer}: {mean} against {law}");
    }
}
