//! The access-list engine against a naive page cache: what it may and may not do, whatever happens.

use foreseek_prefetch::engine::{
    Access, Command, Commands, Door, Engine, Epoch, Event, Extent, FetchOutcome, HintMode, ObjectId, Refusal,
    RequestId, Saw, StreamId, Who,
};
use foreseek_prefetch::{AccessListEngine, Order, Settings};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Lba, Nanos, PageIndex, PageSpan, Pages, Span};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const FILE: ObjectId = ObjectId(7);
const STREAM: StreamId = StreamId(1);

fn access(page: u64) -> Access {
    Access { object: FILE, page: PageIndex(page), mark: false }
}

fn page(at: u64) -> ByteSpan {
    Span::at(PageIndex(at).offset(), Bytes(4096))
}

/// An engine and a page cache that holds whatever was fetched or read until a test evicts it.
struct World {
    engine: AccessListEngine,
    now: Instant,
    cached: BTreeSet<u64>,
    /// Every command, in order.
    said: Vec<Command>,
    refuse: Option<Refusal>,
    /// Fetches bring at most so many pages.
    clamp: Pages,
    next_request: u64,
    /// What the application says when asked: mode, list, done.
    answers: VecDeque<(HintMode, Vec<u64>, bool)>,
    wants: Vec<(Option<u64>, u64)>,
}

impl World {
    /// A file of `pages` pages, all watched, and memory for `memory` pages.
    fn new(settings: Settings, pages: u64, memory: u64) -> Self {
        let mut world = Self {
            engine: AccessListEngine::new(settings),
            now: Instant(1),
            cached: BTreeSet::new(),
            said: Vec::new(),
            refuse: None,
            clamp: Pages(u64::MAX),
            next_request: 0,
            answers: VecDeque::new(),
            wants: Vec::new(),
        };
        let length = Pages(pages).bytes();
        world.tell(Event::Opened { stream: STREAM, object: FILE, length, who: Who(1), door: Door::Fadvise });
        let extents = [Extent { page: PageIndex(0), pages: Pages(pages), lba: Lba(800) }];
        world.tell(Event::Placed { object: FILE, extents: &extents });
        world.tell(Event::Watched { object: FILE, range: Span::at(ByteOffset::ZERO, length) });
        world.tell(Event::Budget { pages: Pages(memory) });
        world
    }

    fn hint(&mut self, mode: HintMode, pages: &[u64], done: bool) {
        let accesses: Vec<Access> = pages.iter().map(|page| access(*page)).collect();
        let accesses = &accesses[..accesses.len().min(self.engine.room(mode))];
        self.tell(Event::Hint { mode, accesses, done });
    }

    /// Reads a range; the read must get its answer. Answers what was said meanwhile.
    fn read(&mut self, range: ByteSpan) -> Vec<Command> {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        let before = self.said.len();
        let mut answer = self.tell(Event::Read { request, stream: STREAM, range, saw: Saw::All });
        if let Some(Command::Want { marked, requested, .. }) = answer {
            self.wants.push((marked.map(|(_, page)| page.0), requested.1.0));
            if let Some((mode, pages, done)) = self.answers.pop_front() {
                self.hint(mode, &pages, done);
            }
            answer = self.tell(Event::Answered { request });
        }
        assert_eq!(answer, Some(Command::Pass { request }), "a read must end with Pass");
        self.cached.extend(range.pages().iter().map(|page| page.0));
        self.said[before..].to_vec()
    }

    fn evict(&mut self, pages: &[u64]) {
        self.cached.retain(|page| !pages.contains(page));
    }

    fn read_page(&mut self, at: u64) -> Vec<Command> {
        self.read(page(at))
    }

    /// Tells the engine something and does what it says, and so on; the last `Pass` or `Want`.
    fn tell(&mut self, event: Event<'_>) -> Option<Command> {
        let mut out = Commands::new();
        self.engine.on(self.now, event, &mut out);
        let mut queue: VecDeque<Command> = out.drain().collect();
        let mut answer = None;
        loop {
            while let Some(command) = queue.pop_front() {
                self.said.push(command.clone());
                self.now += Nanos(10);
                match command {
                    Command::AskResident { query, range, .. } => {
                        let runs: Vec<PageSpan> = range
                            .iter()
                            .filter(|page| self.cached.contains(&page.0))
                            .map(|page| Span::at(page, Pages(1)))
                            .collect();
                        self.engine.on(self.now, Event::Resident { query, runs: Some(&runs) }, &mut out);
                    }
                    Command::Fetch { fetch, range, epoch, .. } => {
                        let event = match self.refuse {
                            Some(why) => Event::Refused { fetch, why },
                            None => {
                                let got = range.len().min(self.clamp);
                                self.cached.extend(Span::at(range.start, got).iter().map(|page| page.0));
                                let outcome = FetchOutcome::Issued;
                                Event::Done { fetch, epoch, got, outcome, in_flight: 0 }
                            }
                        };
                        self.engine.on(self.now, event, &mut out);
                    }
                    Command::Forget { range, .. } => {
                        range.iter().for_each(|page| {
                            self.cached.remove(&page.0);
                        });
                    }
                    Command::Pass { .. } | Command::Want { .. } => answer = Some(command),
                    other => panic!("not for this door: {other:?}"),
                }
                queue.extend(out.drain());
            }
            match self.engine.deadline() {
                Some(deadline) if deadline <= self.now => self.engine.on(self.now, Event::Tick, &mut out),
                _ => return answer,
            }
            queue.extend(out.drain());
        }
    }
}

fn fetched(said: &[Command]) -> Vec<PageSpan> {
    said.iter()
        .filter_map(|command| match command {
            Command::Fetch { range, .. } => Some(*range),
            _ => None,
        })
        .collect()
}

fn forgotten(said: &[Command]) -> Vec<u64> {
    said.iter()
        .filter_map(|command| match command {
            Command::Forget { range, .. } => Some(*range),
            _ => None,
        })
        .flat_map(|range| range.iter().map(|page| page.0).collect::<Vec<_>>())
        .collect()
}

fn pages(spans: &[PageSpan]) -> Vec<u64> {
    spans.iter().flat_map(|span| span.iter()).map(|page| page.0).collect()
}

fn settings() -> Settings {
    Settings { infill: Pages::ZERO, ..Settings::default() }
}

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
    let said = world.read_page(list[0]);
    assert_eq!(world.wants, [(None, list[0])]);
    let mut expected = list[..300].to_vec();
    expected.sort_unstable();
    assert_eq!(pages(&fetched(&said)), expected);
    assert!(matches!(said.last(), Some(Command::Pass { .. })));
    for at in &list[1..300] {
        assert!(fetched(&world.read_page(*at)).is_empty());
    }
    // The next miss begins the next round; the last one's pages are given back before.
    let said = world.read_page(list[300]);
    let last = said.iter().rposition(|command| matches!(command, Command::Forget { .. }));
    let first = said.iter().position(|command| matches!(command, Command::Fetch { .. }));
    assert!(last < first, "first give back, then fetch");
    let mut gone = forgotten(&said);
    gone.sort_unstable();
    assert_eq!(gone, expected);
    assert_eq!(pages(&fetched(&said)).len(), 300);
    assert_eq!(world.wants.len(), 1, "the application said that this is all");
    let stats = world.engine.stats();
    assert_eq!((stats.rounds, stats.fetched, stats.used), (2, Pages(600), Pages(299)));
}

#[test]
fn a_pass_goes_on_from_where_the_head_is() {
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
fn pages_evicted_early_halve_the_buffer_and_what_is_needed_last_is_given_back() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(1200);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    for at in &list[1..100] {
        world.read_page(*at);
    }
    world.evict(&list[98..103]);
    assert!(fetched(&world.read_page(list[100])).is_empty(), "one page alone is no contention");
    let said = world.read_page(list[101]);
    assert_eq!(world.engine.stats().evicted, Pages(2));
    assert_eq!(world.engine.stats().buffer, Pages(300));
    let gone: BTreeSet<u64> = forgotten(&said).into_iter().collect();
    let expected: BTreeSet<u64> = list[..100].iter().chain(&list[401..600]).copied().collect();
    assert_eq!(gone, expected, "the used pages and those needed last");
    let asked: BTreeSet<u64> = pages(&fetched(&said)).into_iter().collect();
    assert_eq!(asked, list[101..401].iter().copied().collect(), "after an eviction all of it is asked for");
    // Consumed without contention, it grows by a tenth of the maximum.
    for at in &list[102..=401] {
        world.read_page(*at);
    }
    assert_eq!(world.engine.stats().evicted, Pages(2));
    assert_eq!(world.engine.stats().buffer, Pages(400));
}

#[test]
fn the_buffer_grows_only_when_the_round_was_consumed() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(2000);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    world.evict(&list[1..3]);
    list[1..3].iter().for_each(|at| drop(world.read_page(*at)));
    assert_eq!(world.engine.stats().buffer, Pages(300));
    // The application turns to another list in the middle of the round.
    let other = scattered(4000)[2000..].to_vec();
    world.answers.push_back((HintMode::Set, other.clone(), true));
    for at in &list[3..150] {
        world.read_page(*at);
    }
    world.read_page(other[0]);
    assert_eq!(world.engine.stats().buffer, Pages(300));
    assert_eq!(world.wants.len(), 1);
}

#[test]
fn infill_counts_against_the_buffer() {
    let infill = Settings { infill: Pages(64), ..Settings::default() };
    let mut world = World::new(infill, 4000, 1000);
    let list: Vec<u64> = (0..400).map(|n| n * 7 % 400 * 5).collect();
    world.hint(HintMode::Set, &list, true);
    let said = world.read_page(list[0]);
    let spans = fetched(&said);
    assert!(spans.len() < 100, "gaps are read over: {spans:?}");
    assert!(pages(&spans).len() <= 600);
    let stats = *world.engine.stats();
    assert!(stats.infill > stats.fetched / 2);
    // What was left out of the round begins the next; nothing was evicted in between.
    for at in &list[1..] {
        world.read_page(*at);
    }
    assert!(world.engine.stats().rounds > 1);
    assert_eq!(world.engine.stats().evicted, Pages::ZERO);
}

#[test]
fn long_runs_are_fetched_in_pieces_that_a_kernel_takes_whole() {
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
fn a_short_list_is_asked_for_more_unless_the_application_is_done() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(300);
    world.hint(HintMode::Set, &list[..100], false);
    world.answers.push_back((HintMode::Append, list[100..200].to_vec(), true));
    let said = world.read_page(list[0]);
    assert_eq!(world.wants.len(), 1);
    assert_eq!(fetched(&said).len(), 200);
    for at in &list[1..200] {
        world.read_page(*at);
    }
    assert_eq!(world.wants.len(), 1);
    // Beyond the list: strayed, so it is asked.
    world.answers.push_back((HintMode::Append, list[200..].to_vec(), true));
    let said = world.read_page(list[200]);
    assert_eq!(world.wants.len(), 2);
    assert_eq!(fetched(&said).len(), 100);
}

#[test]
fn a_stray_read_is_answered_where_the_new_list_has_it() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(100);
    let other: Vec<u64> = scattered(400)[200..].to_vec();
    world.hint(HintMode::Set, &list, true);
    for at in &list[..60] {
        world.read_page(*at);
    }
    world.answers.push_back((HintMode::SetFromMark, other.clone(), true));
    let said = world.read_page(other[50]);
    let expected: BTreeSet<u64> = other[50..].iter().copied().collect();
    assert_eq!(pages(&fetched(&said)).into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(fetched(&world.read_page(other[51])).is_empty());
}

#[test]
fn an_application_that_has_no_answer_is_asked_ever_more_seldom() {
    let mut world = World::new(settings(), LARGE, 1000);
    for at in scattered(2000) {
        world.read_page(at);
    }
    assert!(world.wants.len() < 12, "{}", world.wants.len());
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
    assert_eq!((stats.strays, stats.rounds, stats.queries), (0, 1, 101));
    assert_eq!(stats.evicted, Pages::ZERO, "what has been read may go");
    assert!(world.wants.is_empty());
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
    assert_eq!((stats.rounds, stats.misses, stats.strays), (3, 3, 0));
}

#[test]
fn what_an_applications_cache_answers_does_not_stop_the_list() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(3000);
    world.hint(HintMode::Set, &list, true);
    for at in list.iter().enumerate().filter(|(n, _)| n % 7 < 4).map(|(_, at)| at) {
        world.read_page(*at);
    }
    let stats = world.engine.stats();
    assert_eq!((stats.rounds, stats.misses, stats.strays), (5, 5, 0));
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
fn changed_pages_are_no_longer_ours_and_no_sign_of_contention() {
    let mut world = World::new(settings(), LARGE, 1000);
    let list = scattered(100);
    world.hint(HintMode::Set, &list, true);
    world.read_page(list[0]);
    world.tell(Event::Changed { object: FILE, range: page(list[1]), epoch: Epoch(1) });
    world.evict(&[list[1]]);
    let said = world.read_page(list[1]);
    assert!(fetched(&said).is_empty());
    assert_eq!(world.engine.stats().evicted, Pages::ZERO);
    assert_eq!(world.engine.stats().buffer, Pages(600));
}

#[test]
fn a_cache_that_refuses_is_left_alone() {
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
fn what_a_clamped_fetch_left_out_is_no_sign_of_contention() {
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
fn unwatched_reads_pass_without_a_look() {
    let mut world = World::new(settings(), 100, 1000);
    world.hint(HintMode::Set, &[5, 7], true);
    let whole = Span::at(ByteOffset::ZERO, Pages(100).bytes());
    world.tell(Event::Unwatched { object: FILE, range: whole });
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
        let spans = fetched(&world.said);
        let seeks: u64 = spans.windows(2).map(|pair| pair[1].start.distance(pair[0].end).0).sum();
        let (n, k) = (LARGE as f64, buffer as f64);
        let law = 2.0 * n * (k - 1.0) / (k * (k + 1.0));
        let mean = seeks as f64 / (spans.len() - 1) as f64;
        assert!((mean / law - 1.0).abs() < 0.03, "{order:?} {buffer}: {mean} against {law}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Hint(HintMode, Vec<u64>, bool),
    Read(u64, u64),
    /// Reads what comes so much later on the list.
    Next(usize),
    Evict(u64),
    EvictAll,
    Budget(u64),
    Changed(u64, u64),
    Refuse(Option<Refusal>),
    Clamp(u64),
    Reopen(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let mode = prop_oneof![Just(HintMode::Set), Just(HintMode::Append), Just(HintMode::SetFromMark)];
    let list = proptest::collection::vec(0..400u64, 0..300);
    let op = prop_oneof![
        2 => (mode, list, any::<bool>()).prop_map(|(mode, list, done)| Op::Hint(mode, list, done)),
        4 => (0..400u64, 0..40_000u64).prop_map(|(page, bytes)| Op::Read(page, bytes)),
        20 => (0..3usize).prop_map(Op::Next),
        3 => (0..400u64).prop_map(Op::Evict),
        1 => Just(Op::EvictAll),
        1 => (0..400u64).prop_map(Op::Budget),
        1 => (0..400u64, 1..20_000u64).prop_map(|(page, bytes)| Op::Changed(page, bytes)),
        1 => prop_oneof![Just(None), Just(Some(Refusal::Busy)), Just(Some(Refusal::Gone))].prop_map(Op::Refuse),
        1 => prop_oneof![Just(u64::MAX), 1..4u64].prop_map(Op::Clamp),
        1 => (0..450u64).prop_map(Op::Reopen),
    ];
    proptest::collection::vec(op, 0..150)
}

/// Looks at what was said at one read, and at all pages that were ever listed.
type Check<'a> = dyn FnMut(&World, &[Command], &BTreeSet<u64>) + 'a;

fn run(world: &mut World, ops: &[Op], check: &mut Check<'_>) {
    // What the application has said and not yet read; only to choose reads from.
    let mut list: VecDeque<u64> = VecDeque::new();
    let mut ever: BTreeSet<u64> = BTreeSet::new();
    let mut epoch = 0;
    for op in ops {
        match op {
            Op::Hint(mode, pages, done) => {
                if *mode != HintMode::Append {
                    list.clear();
                }
                list.extend(pages);
                ever.extend(pages);
                world.hint(*mode, pages, *done);
            }
            Op::Read(page, bytes) => {
                let said = world.read(Span::at(PageIndex(*page).offset(), Bytes(*bytes)));
                check(world, &said, &ever);
            }
            Op::Next(skip) => {
                list.drain(..list.len().min(*skip));
                if let Some(page) = list.pop_front() {
                    let said = world.read_page(page);
                    check(world, &said, &ever);
                }
            }
            Op::Evict(page) => drop(world.cached.remove(page)),
            Op::EvictAll => world.cached.clear(),
            Op::Budget(pages) => drop(world.tell(Event::Budget { pages: Pages(*pages) })),
            Op::Changed(page, bytes) => {
                epoch += 1;
                let range = Span::at(PageIndex(*page).offset(), Bytes(*bytes));
                world.tell(Event::Changed { object: FILE, range, epoch: Epoch(epoch) });
            }
            Op::Refuse(why) => world.refuse = *why,
            Op::Clamp(pages) => world.clamp = Pages(*pages),
            Op::Reopen(pages) => {
                let length = Pages(*pages).bytes();
                let (stream, who, door) = (STREAM, Who(1), Door::Fadvise);
                world.tell(Event::Closed { stream });
                world.tell(Event::Opened { stream, object: FILE, length, who, door });
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_engine_keeps_its_bounds(ops in ops(), infill in 0..20u64, ramp in any::<bool>()) {
        let settings = Settings {
            infill: Pages(infill),
            first_round: ramp.then_some(Pages(10)),
            ..Settings::default()
        };
        let mut world = World::new(settings, 400, 200);
        run(&mut world, &ops, &mut |world, said, listed| {
            let spans = fetched(said);
            let all = pages(&spans);
            let unique: BTreeSet<u64> = all.iter().copied().collect();
            assert_eq!(unique.len(), all.len(), "a page is fetched once a round");
            assert!(unique.len() as u64 <= world.engine.stats().buffer.0, "a round is at most a buffer");
            let last_forget = said.iter().rposition(|command| matches!(command, Command::Forget { .. }));
            let first_fetch = said.iter().position(|command| matches!(command, Command::Fetch { .. }));
            if let (Some(last), Some(first)) = (last_forget, first_fetch) {
                assert!(last < first, "first give back, then fetch");
            }
            assert!(forgotten(said).iter().all(|page| !unique.contains(page)), "nothing needed is given back");
            for span in spans {
                assert!(span.len() <= Pages(320));
                let wanted: Vec<u64> = span.iter().map(|page| page.0).filter(|page| listed.contains(page)).collect();
                assert_eq!(wanted.first(), Some(&span.start.0), "a run begins and ends with a listed page");
                assert_eq!(wanted.last(), Some(&(span.end.0 - 1)));
                assert!(wanted.windows(2).all(|pair| pair[1] - pair[0] - 1 <= infill), "a gap is too wide");
            }
        });
    }

    #[test]
    fn two_engines_that_are_told_the_same_say_the_same(ops in ops()) {
        let mut first = World::new(settings(), 400, 200);
        run(&mut first, &ops, &mut |_, _, _| {});
        let mut second = World::new(settings(), 400, 200);
        run(&mut second, &ops, &mut |_, _, _| {});
        prop_assert_eq!(first.said, second.said);
    }

    /// Events with any numbers in any order, which a damaged recording could hold.
    #[test]
    fn no_event_upsets_it(
        events in proptest::collection::vec((0..13u8, any::<[u64; 4]>(), 0..4u64, any::<bool>()), 0..60),
    ) {
        let mut engine = AccessListEngine::new(Settings::default());
        let mut out = Commands::new();
        for (now, (kind, [a, b, c, d], small, flag)) in events.into_iter().enumerate() {
            let object = ObjectId(small);
            let stream = StreamId(small);
            let range: ByteSpan = Span::new(ByteOffset(a), ByteOffset(if flag { b } else { a.saturating_add(c % 70_000) }));
            let small_range: ByteSpan = Span::at(ByteOffset(a % 100_000), Bytes(b % 100_000));
            let range = if d % 2 == 0 { small_range } else { range };
            let length = Bytes(if flag { b } else { b % 1_000_000 });
            let accesses: Vec<Access> = (0..c % 50)
                .map(|n| Access { object, page: PageIndex(if flag { a.wrapping_add(n) } else { a % 100 + n }), mark: d % 3 == n % 3 })
                .collect();
            let extents = [
                Extent { page: PageIndex(a), pages: Pages(b), lba: Lba(c) },
                Extent { page: PageIndex(a % 100), pages: Pages(b % 100), lba: Lba(c % 10_000) },
            ];
            let runs = [Span::new(PageIndex(a), PageIndex(b)), Span::new(PageIndex(b % 9), PageIndex(c % 9))];
            let event = match kind {
                0 => Event::Opened { stream, object, length, who: Who(1), door: Door::Fadvise },
                1 => Event::Placed { object, extents: &extents[usize::from(flag)..] },
                2 => Event::Watched { object, range },
                3 | 4 => Event::Read { request: RequestId(small), stream, range: small_range, saw: Saw::All },
                5 => Event::Hint { mode: HintMode::Append, accesses: &accesses, done: flag },
                6 => Event::Answered { request: RequestId(small) },
                7 => Event::Resident { query: foreseek_prefetch::engine::QueryId(small), runs: flag.then_some(&runs) },
                8 => Event::Done {
                    fetch: foreseek_prefetch::engine::FetchId(small),
                    epoch: Epoch(0),
                    got: Pages(a),
                    outcome: FetchOutcome::Issued,
                    in_flight: 0,
                },
                9 => Event::Budget { pages: Pages(if flag { a } else { a % 1000 }) },
                10 => Event::Changed { object, range, epoch: Epoch(b as u32) },
                11 => Event::Unwatched { object, range },
                _ => Event::Tick,
            };
            engine.on(Instant(now as u64), event, &mut out);
            out.drain();
        }
    }
}
