//! The engine with a driver that checks every rule of the commands against a model of memory: contents with
//! versions, so that a stale or missing block is noticed. Also the policies by name on small workloads.

use foreseek_device::Profile;
use foreseek_seam::{FetchId, RequestId, Urgency};
use foreseek_strips::{
    Blocks, Command, Commands, Event, FLIGHTS_LIMIT, Following, Geometry, Lru, Outcome, READ_LIMIT, Settings,
    StripEngine, StripNo, registry,
};
use foreseek_units::{Lba, PageIndex, PageSpan, Pages};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A driver: a device whose pages have versions, and the memory of the blocks.
struct Driver {
    geometry: Geometry,
    engine: StripEngine,
    device: Vec<u32>,
    /// `None`: allocated, not arrived.
    memory: BTreeMap<u64, Option<u32>>,
    capacity: usize,
    /// Fetches in flight, with the device's contents at their start.
    fetches: BTreeMap<FetchId, (Vec<(u64, u32)>, Urgency)>,
    /// Unanswered reads, and the versions that each page had at their arrival.
    reads: BTreeMap<RequestId, (PageSpan, Vec<u32>)>,
    next: u64,
    served: u64,
    passed: u64,
    /// Pages fetched, and fetch commands, by urgency: demand, prefetch.
    pages: [u64; 2],
    commands: [u64; 2],
}

impl Driver {
    fn new(policy: &str, cache: u64, length: u64) -> Self {
        let profile = Profile::builtin("raid5-5x-15k").expect("built in");
        let stripes = profile.stripes().expect("an array");
        // A partition as made by old tools: not aligned to strips, but to pages.
        let geometry = Geometry::new(stripes, Lba(56), Pages(length)).expect("valid");
        let member = Arc::new(profile.member().expect("an array"));
        let settings = Settings { cache: Pages(cache), following: Following::Streams };
        let rules = registry::by_name(policy).expect("known").rules;
        let engine =
            StripEngine::new(geometry, settings, rules, member, Box::new(Lru)).expect("large enough");
        Self {
            geometry,
            engine,
            device: vec![0; length as usize],
            memory: BTreeMap::new(),
            capacity: cache as usize,
            fetches: BTreeMap::new(),
            reads: BTreeMap::new(),
            next: 0,
            served: 0,
            passed: 0,
            pages: [0; 2],
            commands: [0; 2],
        }
    }

    fn blocks(&self, strip: StripNo, blocks: Blocks) -> Vec<u64> {
        blocks
            .runs()
            .flat_map(|(from, to)| from..to)
            .map(|block| self.geometry.page_of(strip, block).get())
            .collect()
    }

    fn send(&mut self, event: Event) {
        let mut event = Some(event);
        while event.is_some() || self.engine.has_more() {
            let mut commands = Commands::new();
            self.engine.on(event.take().unwrap_or(Event::Tick), &mut commands);
            commands.drain().for_each(|command| self.carry_out(command));
        }
        let used = self.engine.cache().used().get() as usize;
        assert!(used <= self.capacity, "more blocks than the cache may hold");
        assert_eq!(self.memory.len(), used, "memory without an owner, or a block without memory");
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Fetch { fetch, strip, blocks, pages, urgency } => {
                let wanted = self.blocks(strip, blocks);
                assert!(!wanted.is_empty());
                let hull = (wanted[0], wanted[wanted.len() - 1] + 1);
                assert_eq!((pages.start.get(), pages.end.get()), hull);
                assert!(self.geometry.pages_of(strip).covers(pages), "one strip, one member");
                for page in &wanted {
                    assert!(self.memory.insert(*page, None).is_none(), "page {page} has memory already");
                }
                self.pages[urgency as usize] += wanted.len() as u64;
                self.commands[urgency as usize] += 1;
                let contents = wanted.into_iter().map(|page| (page, self.device[page as usize])).collect();
                self.fetches.insert(fetch, (contents, urgency));
            }
            Command::Serve { request } => {
                let (pages, versions) = self.reads.remove(&request).expect("a read, answered once");
                for (page, least) in pages.iter().zip(versions) {
                    let found = self.memory[&page.get()].expect("arrived");
                    assert!(found >= least, "page {} is older than the read", page.get());
                }
                self.served += 1;
            }
            Command::Pass { request } => {
                assert!(self.reads.remove(&request).is_some(), "a read, answered once");
                self.passed += 1;
            }
            Command::Drop { strip, blocks } => {
                for page in self.blocks(strip, blocks) {
                    assert!(self.memory.remove(&page).is_some(), "page {page} has no memory");
                }
            }
        }
    }

    fn read(&mut self, start: u64, pages: u64) {
        let span = PageSpan::at(PageIndex(start), Pages(pages));
        let request = RequestId(self.next);
        self.next += 1;
        let version = |page: PageIndex| self.device.get(page.get() as usize).copied().unwrap_or(0);
        self.reads.insert(request, (span, span.iter().map(version).collect()));
        let (passed, fetches) = (self.passed, self.fetches.keys().next_back().copied());
        self.send(Event::Read { request, pages: span });
        if self.passed > passed && pages <= READ_LIMIT.pages_floor().get() {
            let new = self.fetches.iter().filter(|(name, _)| fetches.is_none_or(|last| **name > last));
            let fetched =
                new.flat_map(|(_, (contents, _))| contents.iter().map(|(page, _)| PageIndex(*page)));
            let twice: Vec<PageIndex> = fetched.filter(|page| span.contains(*page)).collect();
            assert!(twice.is_empty(), "{span:?} is read past the cache, and {twice:?} of it into the cache");
        }
    }

    fn write(&mut self, start: u64, pages: u64) {
        let end = (start + pages).min(self.device.len() as u64);
        (start..end).for_each(|page| self.device[page as usize] += 1);
        self.send(Event::Changed { pages: PageSpan::new(PageIndex(start), PageIndex(end)) });
    }

    /// Ends the fetch with this index among those in flight.
    fn end(&mut self, at: usize, well: bool) {
        let Some(fetch) = self.fetches.keys().nth(at % self.fetches.len().max(1)).copied() else { return };
        let (contents, _) = self.fetches.remove(&fetch).expect("found");
        for (page, version) in contents {
            if well {
                self.memory.insert(page, Some(version));
            } else {
                self.memory.remove(&page);
            }
        }
        self.send(Event::Done { fetch, outcome: if well { Outcome::Arrived } else { Outcome::Failed } });
    }

    fn finish(&mut self) {
        while !self.fetches.is_empty() {
            self.end(0, true);
        }
        assert!(self.reads.is_empty(), "unanswered reads");
        assert_eq!(self.engine.under_way(), (0, 0));
        assert_eq!(self.memory.len() as u64, self.engine.cache().used().get());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Reads, changes and fetches that end in any order, with success or not, under every policy. Each read
    /// is answered once, served reads get contents that are no older than the read, and memory is allocated
    /// and freed once.
    #[test]
    fn every_read_gets_right_contents(
        policy in 0..registry::names().count(), cache in 160..400u64,
        ops in proptest::collection::vec((0..12u8, 0..1500u64, 1..80u64), 0..200),
    ) {
        let name = registry::names().nth(policy).expect("one of them");
        let mut driver = Driver::new(name, cache, 1600);
        let mut at = 0;
        for (op, place, pages) in ops {
            match op {
                0..4 => driver.read(place, pages),
                // A reader that advances, so that MSP is used.
                4..7 => {
                    driver.read(at, pages);
                    at = (at + pages) % 1500;
                }
                7 => driver.write(place, pages % 5 + 1),
                8 => driver.end(place as usize, false),
                _ => driver.end(place as usize, true),
            }
        }
        driver.finish();
    }
}

/// Reads every page of a span one after the other, as a single process does.
fn sequentially(policy: &str, length: u64) -> Driver {
    let mut driver = Driver::new(policy, 16_384, 8_192);
    for page in 0..length {
        driver.read(page, 1);
        driver.finish();
    }
    driver
}

/// Sections 2.1, 2.5 and 3.5: strips go to one member at a time, stripes to all; MSP leaves out the blocks
/// from ASP.
#[test]
fn a_single_sequential_reader_under_each_policy() {
    let none = sequentially("none", 2048);
    assert_eq!((none.pages, none.commands), ([2048, 0], [2048, 0]));
    for strips in ["sp", "asp", "asp-without-ghosts", "asp-without-cost-test"] {
        let driver = sequentially(strips, 2048);
        // The device begins 7 pages into a strip: 2048 pages are 65 strips, all whole except the first.
        assert_eq!((driver.pages, driver.commands), ([65 * 32 - 7, 0], [65, 0]), "{strips}");
    }
    for massive in ["msp", "asp+msp"] {
        let driver = sequentially(massive, 2048);
        // Once a stripe has been read there are no more misses.
        assert!(
            driver.commands[0] <= if massive == "msp" { 128 } else { 5 },
            "{massive}: {:?}",
            driver.commands
        );
        let stats = driver.engine.cache().stats();
        assert_eq!(stats.massive_blocks, driver.pages[1]);
        assert_eq!(stats.misses + stats.prefetch_hits, 2048, "{massive}");
        // Each page once: at most two prefetches of four stripes beyond the pages read.
        assert!(driver.pages[0] + driver.pages[1] <= 2048 + 2 * 4 * 128, "{massive}");
    }
    for learnt in ["msp-adaptive", "asp+msp-adaptive"] {
        let driver = sequentially(learnt, 2048);
        assert!(driver.commands[0] <= if learnt == "msp-adaptive" { 128 } else { 5 }, "{learnt}");
        let stats = driver.engine.cache().stats();
        assert_eq!(stats.misses + stats.prefetch_hits, 2048, "{learnt}");
        // Within three times a fetch of what was read: a positioning takes about four stripes.
        assert!(driver.pages[0] + driver.pages[1] <= 3 * (2048 + 5 * 128), "{learnt}: {:?}", driver.pages);
    }
}

/// Section 2.4: random reads of a large space turn strips off; section 3.4: MSP changes nothing about them.
#[test]
fn random_reads_of_a_large_space_read_their_blocks_alone() {
    let run = |policy: &str| {
        let mut driver = Driver::new(policy, 1024, 400_000);
        let mut seed = 7u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            driver.read((seed >> 33) % 400_000, 1);
            driver.finish();
        }
        driver
    };
    let asp = run("asp");
    let stats = asp.engine.cache().stats();
    // The cache fills with 32 strips and one evicts the first; from then on every strip is refused.
    assert!(stats.refused_by_cost + 40 > 2000, "{stats:?}");
    assert!(asp.pages[0] < 2000 + 40 * 31, "{:?}", asp.pages);
    assert_eq!(run("asp+msp").pages, asp.pages);
    assert!(run("sp").pages[0] > 2000 * 30);
}

#[test]
fn requests_beyond_the_bounds_pass() {
    let mut driver = Driver::new("sp", 40_000, 80_000);
    driver.read(0, READ_LIMIT.pages_floor().get() + 1);
    driver.read(79_999, 2);
    assert_eq!((driver.passed, driver.fetches.len()), (2, 0));
    // One page of each strip until the limit of fetches in flight.
    (0..1100).for_each(|strip| driver.read(strip * 32 + 40, 1));
    assert_eq!((driver.fetches.len(), driver.passed), (FLIGHTS_LIMIT, 2 + 1100 - FLIGHTS_LIMIT as u64));
    driver.finish();
    assert_eq!(driver.served as usize, FLIGHTS_LIMIT);
}

/// A cache of five strips. A read that does not find room beside the blocks in flight passes and brings
/// nothing. A read that just fits is cached, and none of its strips is read as a whole at the expense of
/// another.
#[test]
fn a_read_of_several_strips_finds_room_for_all_of_them_or_passes() {
    let mut driver = Driver::new("sp", 160, 4096);
    driver.read(25, 96);
    assert_eq!((driver.fetches.len(), driver.passed), (3, 0));
    driver.read(1025, 96);
    assert_eq!((driver.fetches.len(), driver.passed), (3, 1), "room for 64 pages");
    driver.read(2026, 50);
    assert_eq!((driver.fetches.len(), driver.passed), (6, 1), "15, 32 and 3 pages");
    driver.finish();
    assert_eq!((driver.served, driver.passed), (2, 1));
}

/// A read of a strip with some blocks present: one fetch of the missing ones, from the first to the last.
#[test]
fn a_strip_with_holes_is_one_fetch() {
    let mut driver = Driver::new("none", 1024, 4096);
    driver.read(30, 2);
    driver.finish();
    driver.read(27, 8);
    let fetched: BTreeSet<u64> =
        driver.fetches.values().flat_map(|(contents, _)| contents.iter().map(|(page, _)| *page)).collect();
    assert_eq!((driver.fetches.len(), fetched), (1, (27..30).chain(32..35).collect()));
    driver.finish();
    assert_eq!(driver.served, 2);
}
