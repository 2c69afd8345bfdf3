//! What the engine may and may not do, whatever it is told: recognition against a naive model, and bounds under events
//! that make no sense.

mod common;

use common::{Dice, Flat, node};
use foreseek_seam::{Extent, FetchId, ProcessId};
use foreseek_units::{Bytes, Instant, Lba, Nanos, PageIndex, Pages};
use foreseek_walks::{
    COMMANDS_LIMIT, Command, Commands, Entry, Event, Kind, NODES_LIMIT, Node, Outcome, PARTS_LIMIT, Placed,
    Settings, Walks,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

fn engine(settings: Settings) -> Walks {
    Walks::new(settings, Arc::new(Flat))
}

proptest! {
    /// A walk is the topmost opened directory and all below it that were reached through opened ones, in whatever
    /// order and by whatever processes they are opened.
    #[test]
    fn walks_are_trees_of_opened_directories(
        parents in prop::collection::vec(0usize..40, 1..40), opens in prop::collection::vec((0usize..40, 0u32..3), 1..60),
    ) {
        // Each directory's parent is one before it; the first has none.
        let parent = |at: usize| (at > 0).then(|| parents[at % parents.len()] % at);
        let mut walks = engine(Settings::default());
        let (mut opened, mut out) = (BTreeSet::new(), Commands::new());
        for (step, (at, who)) in opens.iter().enumerate() {
            let above = parent(*at).map(|it| node(it as u64 + 1));
            let event = Event::DirectoryOpened { who: ProcessId(*who), directory: node(*at as u64 + 1), parent: above };
            walks.on(Instant(step as u64), event, &mut out);
            out.drain();
            opened.insert(*at);
            // The model: the top of each opened directory, climbing while the parent is opened.
            let mut sizes: BTreeMap<usize, u64> = BTreeMap::new();
            for directory in &opened {
                let mut top = *directory;
                while let Some(above) = parent(top).filter(|above| opened.contains(above)) {
                    top = above;
                }
                *sizes.entry(top).or_default() += 1;
            }
            let model: BTreeMap<Node, u64> =
                sizes.into_iter().map(|(top, count)| (node(top as u64 + 1), count)).collect();
            let status = walks.status();
            let ours: BTreeMap<Node, u64> = status.walks.iter().map(|walk| (walk.top, walk.directories)).collect();
            prop_assert_eq!(ours, model);
        }
    }
}

#[derive(Clone, Debug)]
enum Told {
    Directory(u64, Option<u64>),
    File(u64, u64),
    Look(u64, u64),
    /// Opens so many files in the order of their names, and answers in between.
    Run(u64, u64, u64),
    Read(u64, u64),
    /// Answers what was asked for, or something else.
    Answer,
    Nonsense(u64),
    Changed(u64),
    Budget(u64),
    Wait(u64),
    Overflow,
}

fn told() -> impl Strategy<Value = Vec<Told>> {
    let directory = 1u64..12;
    let one = prop_oneof![
        4 => (directory.clone(), prop::option::of(directory.clone())).prop_map(|(it, above)| Told::Directory(it, above)),
        20 => (directory.clone(), 0u64..FILES).prop_map(|(it, file)| Told::File(it, file)),
        2 => (directory.clone(), 0u64..FILES).prop_map(|(it, file)| Told::Look(it, file)),
        4 => (directory.clone(), 0u64..FILES, 0u64..100).prop_map(|(it, from, count)| Told::Run(it, from, count)),
        2 => (0u64..2000, 0u64..100_000).prop_map(|(file, end)| Told::Read(file, end)),
        12 => Just(Told::Answer),
        2 => any::<u64>().prop_map(Told::Nonsense),
        1 => directory.prop_map(Told::Changed),
        1 => (0u64..10_000_000).prop_map(Told::Budget),
        1 => (0u64..12_000).prop_map(Told::Wait),
        1 => Just(Told::Overflow),
    ];
    prop::collection::vec(one, 0..250)
}

/// What a program takes for a file: a positioning and a little.
const OPEN: Nanos = Nanos::from_millis(10);
/// Files of a directory.
const FILES: u64 = 150;

/// File `nth` of a directory.
fn file(directory: u64, nth: u64) -> u64 {
    100 + directory * FILES + nth
}

/// A driver that answers late, wrongly, or not at all.
struct Driver {
    walks: Walks,
    now: Instant,
    asked: Vec<Command>,
    listed: BTreeSet<u64>,
    fetched: HashMap<FetchId, Bytes>,
    budget: Bytes,
    dice: Dice,
}

impl Driver {
    fn new(settings: Settings, seed: u64) -> Self {
        Self {
            walks: engine(settings),
            now: Instant::ZERO,
            asked: Vec::new(),
            listed: BTreeSet::new(),
            fetched: HashMap::new(),
            budget: settings.budget,
            dice: Dice(seed),
        }
    }

    fn tell(&mut self, event: Event<'_>) -> Result<(), TestCaseError> {
        let mut out = Commands::new();
        self.walks.on(self.now, event, &mut out);
        prop_assert!(out.as_slice().len() <= COMMANDS_LIMIT);
        for command in out.drain() {
            self.check(&command)?;
            self.asked.push(command);
        }
        let status = self.walks.status();
        let allowance = (Nanos::from_millis(9) + Nanos::from_millis_f64(4.17)) * 16;
        prop_assert!(status.spent <= status.optimum * 4 + allowance, "{status:?}");
        prop_assert!(status.allowance <= allowance);
        let held: Bytes = status.walks.iter().map(|walk| walk.held).sum();
        prop_assert_eq!(status.held, held);
        prop_assert!(status.walks.iter().all(|walk| walk.used + walk.wasted <= walk.fetched), "{status:?}");
        Ok(())
    }

    fn check(&mut self, command: &Command) -> Result<(), TestCaseError> {
        match command {
            Command::Place { files } => {
                prop_assert!(!files.is_empty() && files.len() <= NODES_LIMIT && files.is_sorted());
                prop_assert!(files.iter().all(|it| self.listed.contains(&it.directory.inode)));
            }
            Command::FetchMetadata { nodes, .. } => {
                prop_assert!(!nodes.is_empty() && nodes.len() <= NODES_LIMIT && nodes.is_sorted());
                prop_assert!(nodes.iter().all(|it| self.listed.contains(&it.directory.inode)));
            }
            Command::Fetch { fetch, parts } => {
                prop_assert!(!parts.is_empty() && parts.len() <= PARTS_LIMIT);
                prop_assert!(parts.is_sorted_by_key(|part| part.lba));
                let bytes: Bytes = parts.iter().map(|part| part.pages.len().bytes()).sum();
                prop_assert!(self.fetched.insert(*fetch, bytes).is_none());
                let held = self.walks.status().held;
                // Less memory than before is no reason to give back what is there.
                prop_assert!(held <= self.budget, "{held} of {}", self.budget);
                for part in parts {
                    prop_assert_eq!(part.lba, Lba(place(part.file.node.inode)));
                }
            }
            Command::List { .. }
            | Command::WatchOpens { .. }
            | Command::Cancel { .. }
            | Command::Forget { .. } => {}
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<(), TestCaseError> {
        if self.asked.is_empty() {
            return Ok(());
        }
        let at = self.dice.roll(self.asked.len() as u64) as usize;
        match self.asked.swap_remove(at) {
            Command::List { directory, .. } => self.list(directory.node.inode),
            Command::Place { files } => {
                let extents: Vec<[Extent; 1]> = files
                    .iter()
                    .map(|it| {
                        let pages = Pages(1 + it.node.inode % 7);
                        [Extent { page: PageIndex(0), pages, lba: Lba(place(it.node.inode)) }]
                    })
                    .collect();
                let placed: Vec<Placed<'_>> = files
                    .iter()
                    .zip(&extents)
                    .map(|(it, extent)| Placed {
                        file: it.node,
                        length: extent[0].pages.bytes(),
                        resident: Pages::ZERO,
                        missing: if it.node.inode % 5 == 0 { &[] } else { extent },
                    })
                    .collect();
                self.tell(Event::Placed { files: &placed })
            }
            Command::FetchMetadata { fetch, nodes } => self.done(fetch, Bytes(nodes.len() as u64 * 4096)),
            Command::Fetch { fetch, .. } => self.done(fetch, self.fetched[&fetch]),
            Command::WatchOpens { .. } | Command::Cancel { .. } | Command::Forget { .. } => Ok(()),
        }
    }

    fn done(&mut self, fetch: FetchId, asked: Bytes) -> Result<(), TestCaseError> {
        let outcome = [Outcome::Arrived, Outcome::Arrived, Outcome::Partly, Outcome::Refused]
            [self.dice.roll(4) as usize];
        let fetched_bytes = if outcome == Outcome::Arrived { asked } else { asked / 2 };
        self.tell(Event::Done { fetch, fetched_bytes, outcome })
    }

    fn list(&mut self, directory: u64) -> Result<(), TestCaseError> {
        if self.dice.roll(10) == 0 {
            return self.tell(Event::Unlistable { directory: node(directory) });
        }
        self.listed.insert(directory);
        let mut entries: Vec<(u64, String, Kind)> = (0..FILES)
            .map(|nth| (file(directory, nth), format!("{:03}.{}", nth * 7919 % FILES, nth % 3), Kind::File))
            .collect();
        entries.extend((1..12).map(|below| (below, format!("d{below}"), Kind::Directory)));
        entries.push((7777, "socket".into(), Kind::Other));
        self.dice.shuffle(&mut entries);
        let entries: Vec<Entry<'_>> = entries
            .iter()
            .map(|(inode, name, kind)| {
                let inode_at = (inode % 3 > 0).then(|| Lba(4096 + inode / 16 * 8));
                Entry { node: node(*inode), kind: *kind, name: name.as_bytes(), inode_at }
            })
            .collect();
        self.tell(Event::Listed { directory: node(directory), entries: &entries })
    }

    fn make(&mut self, told: &Told) -> Result<(), TestCaseError> {
        self.now += OPEN;
        let who = ProcessId(1);
        match *told {
            Told::Directory(it, above) => {
                self.tell(Event::DirectoryOpened { who, directory: node(it), parent: above.map(node) })
            }
            Told::File(it, nth) => {
                self.tell(Event::FileOpened { who, directory: node(it), file: node(file(it, nth)) })
            }
            Told::Run(it, from, count) => {
                for rank in from..(from + count).min(FILES) {
                    let nth = (0..FILES).find(|nth| nth * 7919 % FILES == rank).unwrap_or(0);
                    self.tell(Event::FileOpened { who, directory: node(it), file: node(file(it, nth)) })?;
                    self.now += OPEN;
                    self.answer()?;
                }
                Ok(())
            }
            Told::Look(it, nth) => {
                self.tell(Event::LookedUp { who, directory: node(it), node: node(file(it, nth)) })
            }
            Told::Read(it, end) => self.tell(Event::Read { file: node(100 + it), end: Bytes(end) }),
            Told::Answer => self.answer(),
            Told::Nonsense(it) => {
                let placed =
                    Placed { file: node(it), length: Bytes(it), resident: Pages::ZERO, missing: &[] };
                self.tell(Event::Placed { files: &[placed] })?;
                self.tell(Event::Done {
                    fetch: FetchId(it % 50 + 1000),
                    fetched_bytes: Bytes(1),
                    outcome: Outcome::Arrived,
                })?;
                self.tell(Event::Listed { directory: node(it % 20), entries: &[] })
            }
            Told::Changed(it) => self.tell(Event::Changed { directory: node(it) }),
            Told::Budget(bytes) => {
                self.budget = Bytes(bytes).max(self.budget);
                self.tell(Event::Budget { bytes: Bytes(bytes) })
            }
            Told::Wait(ms) => {
                self.now += Nanos::from_millis(ms);
                self.tell(Event::Tick)
            }
            Told::Overflow => {
                self.tell(Event::Overflow)?;
                prop_assert_eq!(self.walks.status().held, Bytes::ZERO);
                prop_assert!(self.walks.status().walks.is_empty());
                Ok(())
            }
        }
    }
}

/// Where a file or directory lies.
fn place(inode: u64) -> u64 {
    1_000_000 + inode * 7919 % 1000 * 64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever it is told, in whatever order it is answered: bounded commands about entries that a listing named, books that
    /// agree, and the bound.
    #[test]
    fn whatever_is_told_the_bounds_hold(told in told(), seed in any::<u64>(), sees_reads: bool) {
        let settings = Settings { sees_reads, budget: Bytes::mib(2), ..Settings::default() };
        let mut driver = Driver::new(settings, seed);
        for told in &told {
            driver.make(told)?;
        }
        driver.make(&Told::Overflow)?;
    }
}

/// A directory that two walks name: one walk has it as its top, a listing of the other names it. What is held of its files is in the
/// books of one of them alone.
#[test]
fn a_directory_of_another_walk_is_left_to_that_walk() {
    use Told::{Answer, Directory, File, Look, Run};
    let told = [
        Directory(6, None),
        File(1, 0),
        Directory(7, Some(6)),
        File(1, 0),
        File(1, 0),
        Directory(5, None),
        Directory(5, Some(11)),
        Look(1, 0),
        Directory(10, None),
        File(5, 0),
        Directory(9, Some(8)),
        Run(7, 0, 17),
        Directory(4, None),
        Directory(11, None),
        File(4, 3),
        Directory(8, Some(10)),
        Directory(4, None),
        Answer,
        Run(1, 0, 3),
        Answer,
        File(4, 6),
        File(7, 0),
        Answer,
        File(1, 0),
        Run(5, 22, 58),
        Run(4, 63, 82),
        File(1, 0),
    ];
    let settings = Settings { budget: Bytes::mib(2), ..Settings::default() };
    let mut driver = Driver::new(settings, 18_286_666_821_320_032_901);
    for told in &told {
        driver.make(told).expect("kept");
    }
}

/// Two engines that are told the same say the same.
#[test]
fn it_is_deterministic() {
    let run = || {
        let mut driver = Driver::new(Settings::default(), 9);
        driver.make(&Told::Directory(1, None)).expect("kept");
        let mut all = Vec::new();
        for nth in 0..FILES {
            // In the order of names.
            driver
                .make(&Told::File(1, (0..FILES).find(|it| it * 7919 % FILES == nth).unwrap_or(0)))
                .expect("kept");
            while !driver.asked.is_empty() {
                all.extend(driver.asked.iter().map(|command| format!("{command:?}")));
                driver.make(&Told::Answer).expect("kept");
            }
        }
        assert!(!driver.fetched.is_empty(), "{:?}", driver.walks.status());
        (all, driver.fetched.len())
    };
    let (all, fetched) = run();
    assert!(fetched > 0, "{all:#?}");
    assert_eq!((all, fetched), run());
}

/// Such drivers do get contents to fetch, so that the bounds above are tried.
#[test]
fn a_driver_that_answers_anyhow_is_asked_for_contents() {
    let fetched = (0..20).map(|seed| {
        let settings = Settings { budget: Bytes::mib(2), ..Settings::default() };
        let mut driver = Driver::new(settings, seed);
        for directory in 1..6 {
            driver.make(&Told::Directory(directory, (directory > 1).then_some(1))).expect("kept");
            driver.make(&Told::Run(directory, 0, 100)).expect("kept");
        }
        usize::from(!driver.fetched.is_empty())
    });
    let fetched: usize = fetched.sum();
    assert!(fetched >= 10, "in {fetched} of 20 runs");
}

/// A large directory may take longer to list than a walk without events lasts.
#[test]
fn a_listing_that_comes_when_its_walk_is_over_is_forgotten() {
    let mut walks = engine(Settings::default());
    let (mut out, who, directory) = (Commands::new(), ProcessId(1), node(1));
    walks.on(Instant(1), Event::DirectoryOpened { who, directory, parent: None }, &mut out);
    let mut asked = false;
    for file in 2..40 {
        walks.on(Instant(file), Event::FileOpened { who, directory, file: node(file) }, &mut out);
        asked |= out.drain().any(|command| matches!(command, Command::List { .. }));
    }
    assert!(asked && walks.status().walks.len() == 1);
    let later = walks.deadline().expect("it ends");
    walks.on(later, Event::Tick, &mut out);
    out.drain();
    assert!(walks.status().walks.is_empty());
    walks.on(later, Event::Listed { directory, entries: &[] }, &mut out);
    let said: Vec<Command> = out.drain().collect();
    assert!(matches!(said[..], [Command::Forget { directory: it }] if it == directory), "{said:?}");
}

/// A user who opens directories as fast as possible.
#[test]
fn a_million_opened_directories_take_bounded_memory() {
    let mut walks = engine(Settings::default());
    let mut out = Commands::new();
    for at in 1..=1_000_000u64 {
        let parent = (at % 3 > 0).then(|| node(at / 2 + 5_000_000));
        walks.on(
            Instant(at),
            Event::DirectoryOpened { who: ProcessId(1), directory: node(at), parent },
            &mut out,
        );
        out.drain();
    }
    let status = walks.status();
    assert!(status.directories <= 1 << 16 && status.walks.len() <= 64, "{}", status.directories);
    // As children of one another.
    let mut walks = engine(Settings::default());
    for at in 1..=300_000u64 {
        let event = Event::DirectoryOpened {
            who: ProcessId(1),
            directory: node(at + 1),
            parent: Some(node(at / 2 + 1)),
        };
        walks.on(Instant(at), event, &mut out);
        out.drain();
    }
    assert!(walks.status().directories <= 1 << 16);
}
