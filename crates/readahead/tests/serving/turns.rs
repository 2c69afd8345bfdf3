//! Readers in sequence take turns at a disk.

use crate::world::{Answer, World, bytes, settings};
use foreseek_readahead::serving::Settings;
use foreseek_units::Pages;

/// The length of each file, which no reader reaches.
const FILE: u64 = 200_000;
/// A millisecond, in nanoseconds.
const MS: u64 = 1_000_000;

/// Readers, each with a file and a stream of its own number. They ask for the next window of 128 KiB as soon as they
/// have the last.
struct Readers {
    world: World,
    next: Vec<u64>,
    waits: Vec<Option<u64>>,
}

impl Readers {
    fn new(settings: Settings, count: u64) -> Self {
        let mut world = World::new(settings);
        for file in 0..count {
            world.create(file, bytes(FILE));
            world.open(file, file);
        }
        Self { world, next: vec![0; count as usize], waits: vec![None; count as usize] }
    }

    /// Each reader that has its window asks for the next.
    fn ask(&mut self, readers: impl IntoIterator<Item = u64>) {
        for reader in readers {
            let at = reader as usize;
            while self.waits[at].is_none_or(|read| self.world.answers.contains_key(&read)) {
                self.world.unpin_all();
                let first = bytes(self.next[at]);
                self.waits[at] = Some(self.world.read(reader, first, bytes(32)));
                self.next[at] += 32;
            }
        }
    }

    /// The readers read on until this many fetches have ended.
    fn read_on(&mut self, readers: u64, fetches: u32) {
        for _ in 0..fetches {
            self.ask(0..readers);
            if self.world.flying.is_empty() {
                self.world.pass_time(MS);
            }
            self.world.complete_first();
        }
    }

    /// The fetches handed out since there were so many, as runs: the file, and how many in a row.
    fn runs(&self, from: usize) -> Vec<(u64, usize)> {
        let files = self.world.handed_out[from..].chunk_by(|one, other| one.0 == other.0);
        files.map(|run| (run[0].0, run.len())).collect()
    }

    fn waits(&self, reader: u64) -> bool {
        self.waits[reader as usize].is_some_and(|read| !self.world.answers.contains_key(&read))
    }

    /// The file of the reader that has its turn, once the turns have begun.
    fn turn(&mut self) -> u64 {
        self.read_on(2, 200);
        self.ask(0..2);
        let turn = self.world.flying.values().next().map(|fetch| fetch.object);
        let turn = turn.expect("a fetch in flight");
        assert!(self.world.flying.values().all(|fetch| fetch.object == turn));
        assert!(self.waits(1 - turn), "the other waits");
        turn
    }
}

#[test]
fn two_readers_have_turns_of_a_quarter_of_a_second() {
    let longest = |overlapping| {
        let mut readers = Readers::new(Settings { overlapping, ..settings() }, 2);
        readers.read_on(2, 300);
        let from = readers.world.handed_out.len();
        readers.read_on(2, 600);
        let runs = readers.runs(from);
        let whole = &runs[1..runs.len() - 1];
        assert!(whole.iter().all(|(file, _)| *file < 2) && whole.len() > 3, "{whole:?}");
        whole.iter().map(|run| run.1).min()
    };
    // 250 ms at 37.3 MB/s are 2,276 pages; a fetch has 95 to 128.
    let (turns, none) = (longest(false), longest(true));
    assert!(turns >= Some(15) && none <= Some(4), "{turns:?} fetches in a row, and {none:?} on an array");
}

#[test]
fn the_reader_that_has_its_turn_has_few_fetches_in_flight() {
    let mut readers = Readers::new(settings(), 2);
    readers.turn();
    for _ in 0..200 {
        readers.read_on(2, 1);
        readers.ask(0..2);
        let flying = readers.world.flying.len();
        assert!(flying <= 2, "{flying} in flight");
    }
}

#[test]
fn a_reader_that_jumps_waits_for_nobody() {
    let mut readers = Readers::new(settings(), 3);
    let turn = readers.turn();
    let before = readers.world.flying.len();
    assert_eq!(readers.world.read_pages(2, 5000, 1), [(5000, 1)]);
    assert_eq!(readers.world.flying.len(), before + 1);
    assert!(readers.waits(1 - turn));
}

/// Half of the positioning time is 5 ms.
#[test]
fn a_reader_that_does_not_go_on_loses_its_turn() {
    for (waited, over) in [(2 * MS, false), (6 * MS, true)] {
        let mut readers = Readers::new(settings(), 2);
        let turn = readers.turn();
        while readers.world.flying.values().any(|fetch| fetch.object == turn) {
            readers.world.complete_first();
        }
        assert!(readers.world.flying.is_empty(), "the other waits for its return");
        readers.world.pass_time(waited);
        assert_eq!(!readers.world.flying.is_empty(), over, "after {waited} ns");
    }
}

#[test]
fn nobody_waits_for_a_reader_that_has_closed_its_file() {
    let mut readers = Readers::new(settings(), 2);
    let turn = readers.turn();
    readers.world.close(turn);
    assert!(readers.world.flying.values().any(|fetch| fetch.object != turn));
}

#[test]
fn a_reader_that_closes_its_file_waits_for_no_turn() {
    let mut readers = Readers::new(settings(), 2);
    let other = 1 - readers.turn();
    readers.world.close(other);
    assert!(readers.world.flying.values().any(|fetch| fetch.object == other), "while its file is open");
}

#[test]
fn nobody_waits_for_a_reader_at_the_end_of_its_file() {
    let mut readers = Readers::new(settings(), 2);
    let turn = readers.turn();
    // Its file ends where it has read to.
    let fetched = readers.world.flying.values().filter(|fetch| fetch.object == turn);
    let end = fetched.map(|fetch| fetch.pages.end.0).max().expect("in flight");
    readers.world.complete_all();
    readers.world.resize(turn, bytes(end + 40));
    let mut reads = 0;
    while readers.next[turn as usize] < end + 40 && reads < 20 {
        reads += 1;
        readers.ask([turn]);
        readers.world.complete_first();
    }
    assert!(readers.world.flying.values().any(|fetch| fetch.object != turn));
}

#[test]
fn many_readers_take_no_turns() {
    let mut readers = Readers::new(settings(), 9);
    readers.read_on(9, 1000);
    readers.ask(0..9);
    let queued = readers.world.stats().queued;
    assert_eq!(queued, 0, "{queued} fetches wait");
}

#[test]
fn every_reader_is_answered_by_and_by() {
    let mut readers = Readers::new(settings(), 5);
    readers.read_on(5, 2000);
    let read = &readers.next;
    let (least, most) = (read.iter().min(), read.iter().max());
    assert!(least.zip(most).is_some_and(|(least, most)| *most < 3 * least), "{read:?}");
    readers.world.complete_all();
    readers.world.finish();
    let answers = readers.world.answers.values();
    assert!(answers.into_iter().all(|answer| *answer == Answer::Served(32)));
    assert_eq!(readers.world.stats().cached + readers.world.stats().free, readers.world.stats().budget);
    assert!(readers.world.stats().used > Pages(0));
}
