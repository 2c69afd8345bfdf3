//! The pipelined mode from outside: the pages that it requests and releases, read by read.

mod common;

use common::{World, fetched, forgotten, pages, settings};
use foreseek_hints::{Mode, Settings};
use foreseek_seam::{Command, HintCommand, HintMode};
use foreseek_units::{PageIndex, Pages};
use std::collections::BTreeSet;

const FILE_PAGES: u64 = 4000;
const MEMORY: u64 = 2000;

/// So many random reads all over the file, the same each time.
fn random(reads: usize) -> Vec<u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    (0..reads)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % FILE_PAGES
        })
        .collect()
}

fn world(mode: Mode) -> World {
    World::new(Settings { mode, ..settings() }, FILE_PAGES, MEMORY)
}

/// Reads a list that was announced at once; returns every page fetched, in order.
fn read_all(world: &mut World, list: &[u64]) -> Vec<u64> {
    world.hint(HintMode::Set, list, true);
    list.iter().flat_map(|at| pages(&fetched(&world.read_page(*at)))).collect()
}

#[test]
fn a_long_list_takes_far_fewer_passes_than_in_rounds() {
    let list = random(24_000);
    let mut rounds = world(Mode::Blocking);
    let mut sweep = world(Mode::Pipelined);
    read_all(&mut rounds, &list);
    read_all(&mut sweep, &list);
    let (blocking, pipelined) = (rounds.engine.stats(), sweep.engine.stats());
    // By the arithmetic 9.3, one of them to fill the memory, against 16.8.
    assert!(pipelined.rounds * 3 <= blocking.rounds * 2, "{pipelined:?}, {blocking:?}");
    // Almost no read goes to the disk by itself: a miss waits for the head.
    assert_eq!((pipelined.unlisted, pipelined.evicted), (0, Pages::ZERO));
}

#[test]
fn the_head_only_goes_up_and_restarts_at_the_lowest() {
    let mut world = world(Mode::Pipelined);
    let order = read_all(&mut world, &random(24_000));
    let descents = order.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    assert!(descents <= world.engine.stats().rounds, "{descents} in {:?}", world.engine.stats());
}

#[test]
fn it_never_holds_more_than_the_buffer() {
    let mut world = world(Mode::Pipelined);
    let list = random(24_000);
    world.hint(HintMode::Set, &list, true);
    let mut held: BTreeSet<u64> = BTreeSet::new();
    let mut most = 0;
    for at in &list {
        for command in world.read_page(*at) {
            match command {
                Command::Fetch { range, .. } => held.extend(range.iter().map(|page| page.0)),
                Command::Hint(HintCommand::Forget { range, .. }) => {
                    held.retain(|page| !range.contains(PageIndex(*page)))
                }
                _ => {}
            }
            assert!(held.len() as u64 <= world.engine.stats().buffer.0);
            most = most.max(held.len() as u64);
        }
    }
    assert!(most * 10 >= world.engine.stats().buffer.0 * 9, "{most}: memory was left empty");
}

#[test]
fn the_next_pages_are_requested_while_reads_hit() {
    let mut world = world(Mode::Pipelined);
    let list = random(24_000);
    world.hint(HintMode::Set, &list, true);
    let at_hits = |world: &mut World, at: u64| {
        let before = world.engine.stats().hits;
        let commands = world.read_page(at);
        if world.engine.stats().hits > before { fetched(&commands).len() } else { 0 }
    };
    let asked: usize = list.iter().map(|at| at_hits(&mut world, *at)).sum();
    assert!(asked as u64 * 2 > world.engine.stats().fetches, "{asked} of {:?}", world.engine.stats());
}

#[test]
fn it_asks_for_more_before_the_list_ends() {
    let list = random(24_000);
    let mut world = world(Mode::Pipelined);
    for at in 0..list.len() {
        // The requests from here on.
        world.answers.clear();
        let announced = world.engine.stats().lookahead.get().max(2400) as usize;
        let end = list.len().min(at + announced);
        world.answers.push_back((HintMode::Set, list[at..end].to_vec(), end == list.len()));
        world.read_page(list[at]);
    }
    let stats = world.engine.stats();
    assert!(stats.callbacks > 5 && stats.unlisted == 1, "{stats:?}");
    assert!(stats.misses < 24_000 / 50, "{stats:?}");
}

#[test]
fn evicted_pages_lead_to_rounds_and_a_smaller_buffer() {
    let mut world = world(Mode::Pipelined);
    let list = random(24_000);
    world.hint(HintMode::Set, &list, true);
    list[..2000].iter().for_each(|at| drop(world.read_page(*at)));
    let before = *world.engine.stats();
    world.cached.clear();
    list[2000..2100].iter().for_each(|at| drop(world.read_page(*at)));
    let after = *world.engine.stats();
    assert!(after.evicted > Pages(1) && after.buffer * 2 <= before.buffer, "{after:?}");
    // A round at once, not page by page.
    assert!(after.misses - before.misses < 30, "{after:?}");
}

/// The memory is full of pages of earlier lists and of pages in flight, and the head releases pages that it has
/// just requested. A second cycle at the same read would fetch them twice.
#[test]
fn the_head_passes_each_page_once_at_a_read() {
    let mut world = World::new(Settings { mode: Mode::Pipelined, ..settings() }, 400, 164);
    for (first, step, of, entries) in [(49, 7, 286, 141), (253, 3, 110, 148), (182, 176, 177, 106)] {
        let list: Vec<u64> = (0..entries).map(|n| first + n * step % of).collect();
        world.hint(HintMode::Set, &list, false);
        for at in &list[..2] {
            let asked = pages(&fetched(&world.read_page(*at)));
            let unique: BTreeSet<u64> = asked.iter().copied().collect();
            assert_eq!(unique.len(), asked.len(), "a page is fetched once at a read: {asked:?}");
        }
    }
}

#[test]
fn a_list_that_fits_is_fetched_in_one_round() {
    let mut world = world(Mode::Pipelined);
    let list: Vec<u64> = (0..6000).map(|n| n * 7 % 1000).collect();
    world.hint(HintMode::Set, &list, true);
    let first = world.read_page(list[0]);
    assert_eq!(pages(&fetched(&first)).len(), 1000);
    let later: Vec<Command> = list[1..].iter().flat_map(|at| world.read_page(*at)).collect();
    assert!(fetched(&later).is_empty() && forgotten(&later).is_empty());
}

/// Reads an image down its columns, in tiles of four pages that lie row by row: a few long runs.
#[test]
fn an_image_is_read_down_its_columns_with_as_few_seeks_as_in_rounds() {
    for (rows, columns) in [(25, 40), (50, 20), (10, 100), (5, 200)] {
        let list: Vec<u64> = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| row * columns + column))
            .flat_map(|tile| (0..4).map(move |page| tile * 4 + page))
            .collect();
        let fetches = |mode| {
            let mut world = world(mode);
            let pages = read_all(&mut world, &list).len();
            (world.engine.stats().fetches, pages)
        };
        let ((rounds, once), (sweep, pages)) = (fetches(Mode::Blocking), fetches(Mode::Pipelined));
        assert_eq!(once, list.len());
        assert!(pages * 10 <= once * 11, "{rows} x {columns}: {pages} pages of {once}");
        assert!(sweep <= rounds * 2, "{rows} x {columns}: {sweep} fetches, in rounds {rounds}");
    }
}
