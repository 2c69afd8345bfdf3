//! The bounds of the engine under any events: recognition against a naive model, and bounds under senseless
//! events.

mod common;

use common::{Dice, Flat, node};
use foreseek_seam::record::{Recorder, Recording, Text, replay_with};
use foreseek_seam::{Extent, FetchId, ProcessId};
use foreseek_units::{Bytes, Instant, Lba, Nanos, PageIndex, Pages};
use foreseek_walks::{
    COMMANDS_LIMIT, Command, Commands, Entry, Event, InDirectory, InodeReads, Kind, NODES_LIMIT, Node,
    Outcome, PARTS_LIMIT, Placed, Settings, Stopped, Walks,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

fn engine(settings: Settings) -> Walks {
    Walks::new(settings, Arc::new(Flat))
}

proptest! {
    /// A walk is the topmost opened directory and all below it that were reached through opened ones, for any
    /// order and processes of the opens.
    #[test]
    fn walks_are_trees_of_opened_directories(
        parents in prop::collection::vec(0usize..40, 1..40), opens in prop::collection::vec((0usize..40, 0u32..3, any::<bool>()), 1..60),
    ) {
        // Each directory's parent is an earlier one; the first has none.
        let parent = |at: usize| (at > 0).then(|| parents[at % parents.len()] % at);
        let mut walks = engine(Settings::default());
        let (mut opened, mut out) = (BTreeSet::new(), Commands::new());
        for (step, (at, pid, reported)) in opens.iter().enumerate() {
            let (pid, directory) = (ProcessId(*pid), node(*at as u64 + 1));
            let parent_node = parent(*at).map(|it| node(it as u64 + 1));
            let event = if *reported {
                Event::DirectoryOpened { pid, directory, parent: parent_node }
            } else {
                Event::OpenedBelow { pid, directory, parent: parent_node }
            };
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
            let found: BTreeMap<Node, u64> = status.walks.iter().map(|walk| (walk.top, walk.directories)).collect();
            prop_assert_eq!(found, model);
        }
    }
}

#[derive(Clone, Debug)]
enum Action {
    Directory(u64, Option<u64>),
    File(u64, u64),
    Look(u64, u64),
    /// A program with a list of files comes to a directory.
    Enter(u64, Option<u64>),
    /// A program opened directories below one whose own open was not reported.
    Below(u64, Option<u64>),
    /// Opens so many files in the order of their names, and answers in between.
    Run(u64, u64, u64),
    /// Answers requests, or something else.
    Answer,
    Nonsense(u64),
    Changed(u64),
    Budget(u64),
    Wait(u64),
    Overflow,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let directory = 1u64..12;
    let one = prop_oneof![
        4 => (directory.clone(), prop::option::of(directory.clone())).prop_map(|(it, above)| Action::Directory(it, above)),
        2 => (directory.clone(), prop::option::of(directory.clone())).prop_map(|(it, above)| Action::Enter(it, above)),
        1 => (directory.clone(), prop::option::of(directory.clone())).prop_map(|(it, above)| Action::Below(it, above)),
        20 => (directory.clone(), 0u64..FILES).prop_map(|(it, file)| Action::File(it, file)),
        2 => (directory.clone(), 0u64..FILES).prop_map(|(it, file)| Action::Look(it, file)),
        4 => (directory.clone(), 0u64..FILES, 0u64..100).prop_map(|(it, from, count)| Action::Run(it, from, count)),
        12 => Just(Action::Answer),
        2 => any::<u64>().prop_map(Action::Nonsense),
        1 => directory.prop_map(Action::Changed),
        1 => (0u64..10_000_000).prop_map(Action::Budget),
        1 => (0u64..12_000).prop_map(Action::Wait),
        1 => Just(Action::Overflow),
    ];
    prop::collection::vec(one, 0..250)
}

/// A program's time for a file: a little more than a positioning.
const OPEN: Nanos = Nanos::from_millis(10);
/// Files of a directory.
const FILES: u64 = 150;
/// A file in all directories.
const LINKED: u64 = 9_000;

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
    recorder: Recorder,
    recording: Text,
}

impl Driver {
    fn new(settings: Settings, seed: u64) -> Self {
        let recording = Text::default();
        let mut recorder = recording.recorder();
        recorder.begin(&settings);
        Self {
            walks: engine(settings),
            now: Instant::ZERO,
            asked: Vec::new(),
            listed: BTreeSet::new(),
            fetched: HashMap::new(),
            budget: settings.budget,
            dice: Dice(seed),
            recorder,
            recording,
        }
    }

    fn notify(&mut self, event: Event<'_>) -> Result<(), TestCaseError> {
        let mut out = Commands::new();
        self.recorder.event(self.now, &event);
        self.walks.on(self.now, event, &mut out);
        self.recorder.commands(out.as_slice());
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
        prop_assert_eq!(self.walks.held(), held);
        prop_assert!(status.walks.iter().all(|walk| walk.used + walk.wasted <= walk.fetched), "{status:?}");
        Ok(())
    }

    /// Another engine with the recorded events gives the recorded commands.
    fn replay(&self) -> Result<(), TestCaseError> {
        let text = self.recording.so_far();
        let recording =
            Recording::<Settings>::open(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut other = engine(*recording.settings());
        let replayed = replay_with(&mut other, &recording);
        prop_assert!(replayed.is_ok(), "{replayed:?}");
        prop_assert_eq!(other.status(), self.walks.status());
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
                prop_assert!(nodes.iter().all(|it| self.listed.contains(&it.which.directory.inode)));
            }
            Command::Fetch { fetch, parts } => {
                prop_assert!(!parts.is_empty() && parts.len() <= PARTS_LIMIT);
                prop_assert!(parts.is_sorted_by_key(|part| part.lba));
                let bytes: Bytes = parts.iter().map(|part| part.pages.len().bytes()).sum();
                prop_assert!(self.fetched.insert(*fetch, bytes).is_none());
                let held = self.walks.status().held;
                // A smaller budget is no reason to release held data.
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
                        residency_known: true,
                        missing: if it.node.inode % 5 == 0 { &[] } else { extent },
                    })
                    .collect();
                self.notify(Event::Placed { files: &placed })
            }
            Command::FetchMetadata { fetch, nodes } => self.done(fetch, Bytes(nodes.len() as u64 * 4096)),
            Command::Fetch { fetch, .. } => self.done(fetch, self.fetched[&fetch]),
            Command::WatchOpens { .. } | Command::Cancel { .. } | Command::Forget { .. } => Ok(()),
        }
    }

    /// Answers everything. Then nothing is under way.
    fn answer_all(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..100_000 {
            if self.asked.is_empty() {
                self.notify(Event::Tick)?;
            }
            if self.asked.is_empty() {
                break;
            }
            self.answer()?;
        }
        prop_assert!(
            self.walks.is_at_rest(self.now + Nanos::from_secs(1000), Nanos(1)),
            "{:?}",
            self.walks.status()
        );
        Ok(())
    }

    fn done(&mut self, fetch: FetchId, asked: Bytes) -> Result<(), TestCaseError> {
        let outcome = [Outcome::Arrived, Outcome::Arrived, Outcome::Partly, Outcome::Refused]
            [self.dice.roll(4) as usize];
        let part = if outcome == Outcome::Arrived { 1 } else { 2 };
        let fetched_bytes = if self.dice.roll(4) == 0 { Bytes::ZERO } else { asked / part };
        self.notify(Event::Done { fetch, fetched_bytes, outcome })
    }

    fn list(&mut self, directory: u64) -> Result<(), TestCaseError> {
        if self.dice.roll(2) == 0 {
            let lba = Lba(self.dice.roll(1 << 20) * 8);
            let block = Extent { page: PageIndex(0), pages: Pages(1), lba };
            let blocks = &[block][..self.dice.roll(2) as usize];
            self.notify(Event::BlocksRead { directory: node(directory), blocks })?;
        }
        if self.dice.roll(10) == 0 {
            return self.notify(Event::Unlistable { directory: node(directory) });
        }
        self.listed.insert(directory);
        let mut entries: Vec<(u64, String, Kind)> = (0..FILES)
            .map(|nth| (file(directory, nth), format!("{:03}.{}", nth * 7919 % FILES, nth % 3), Kind::File))
            .collect();
        entries.extend((1..12).map(|below| (below, format!("d{below}"), Kind::Directory)));
        entries.push((7777, "socket".into(), Kind::Other));
        // A hard link in each directory, and two names in this one.
        entries
            .extend([(LINKED, "link".into(), Kind::File), (file(directory, 3), "second".into(), Kind::File)]);
        self.dice.shuffle(&mut entries);
        let entries: Vec<Entry<'_>> = entries
            .iter()
            .map(|(inode, name, kind)| {
                let inode_at = (inode % 3 > 0).then(|| Lba(4096 + inode / 16 * 8));
                Entry {
                    node: node(*inode),
                    kind: *kind,
                    name: name.as_bytes(),
                    inode_at,
                    inode_in_memory: *inode % 5 == 0,
                }
            })
            .collect();
        self.notify(Event::Listed { directory: node(directory), entries: &entries, inodes: InodeReads::EXT4 })
    }

    fn make(&mut self, action: &Action) -> Result<(), TestCaseError> {
        self.now += OPEN;
        let pid = ProcessId(1);
        match *action {
            Action::Directory(it, above) => {
                self.notify(Event::DirectoryOpened { pid, directory: node(it), parent: above.map(node) })
            }
            Action::Enter(it, above) => {
                self.notify(Event::DirectoryEntered { pid, directory: node(it), parent: above.map(node) })
            }
            Action::Below(it, above) => {
                self.notify(Event::OpenedBelow { pid, directory: node(it), parent: above.map(node) })
            }
            Action::File(it, nth) => {
                self.notify(Event::FileOpened { pid, directory: node(it), file: node(file(it, nth)) })
            }
            Action::Run(it, from, count) => {
                for rank in from..(from + count).min(FILES) {
                    let nth = (0..FILES).find(|nth| nth * 7919 % FILES == rank).unwrap_or(0);
                    self.notify(Event::FileOpened { pid, directory: node(it), file: node(file(it, nth)) })?;
                    self.now += OPEN;
                    self.answer()?;
                }
                Ok(())
            }
            Action::Look(it, nth) => {
                self.notify(Event::LookedUp { pid, directory: node(it), node: node(file(it, nth)) })
            }
            Action::Answer => self.answer(),
            Action::Nonsense(it) => {
                let placed = Placed {
                    file: node(it),
                    length: Bytes(it),
                    resident: Pages::ZERO,
                    residency_known: it % 2 == 0,
                    missing: &[],
                };
                self.notify(Event::Placed { files: &[placed] })?;
                self.notify(Event::Done {
                    fetch: FetchId(it % 50 + 1000),
                    fetched_bytes: Bytes(1),
                    outcome: Outcome::Arrived,
                })?;
                self.notify(Event::Listed {
                    directory: node(it % 20),
                    entries: &[],
                    inodes: InodeReads::EXT4,
                })
            }
            Action::Changed(it) => self.notify(Event::Changed { directory: node(it) }),
            Action::Budget(bytes) => {
                self.budget = Bytes(bytes).max(self.budget);
                self.notify(Event::Budget { bytes: Bytes(bytes) })
            }
            Action::Wait(ms) => {
                self.now += Nanos::from_millis(ms);
                self.notify(Event::Tick)
            }
            Action::Overflow => {
                self.notify(Event::Overflow)?;
                prop_assert_eq!(self.walks.status().held, Bytes::ZERO);
                prop_assert!(self.walks.status().walks.is_empty());
                Ok(())
            }
        }
    }
}

/// The address of a file or directory.
fn place(inode: u64) -> u64 {
    1_000_000 + inode * 7919 % 1000 * 64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// For any events and any order of answers: bounded commands about entries that a listing named, consistent
    /// accounts, and the bound. Nothing but the events decides: a replay of them is the same.
    #[test]
    fn the_bounds_hold_for_any_actions(actions in actions(), seed in any::<u64>()) {
        let settings = Settings { budget: Bytes::mib(2), ..Settings::default() };
        let mut driver = Driver::new(settings, seed);
        for action in &actions {
            driver.make(action)?;
        }
        driver.answer_all()?;
        driver.make(&Action::Overflow)?;
        driver.replay()?;
    }
}

/// A directory of two walks: it is the top of one walk, and a listing of the other names it. The held bytes of
/// its files are in the account of only one of them.
#[test]
fn a_directory_of_another_walk_counts_for_that_walk() {
    use Action::{Answer, Directory, File, Look, Run};
    let actions = [
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
    for action in &actions {
        driver.make(action).expect("kept");
    }
}

/// Such drivers do get contents to fetch, so that the bounds above are exercised.
#[test]
fn a_driver_with_random_answers_gets_fetches_of_contents() {
    let fetched = (0..20).map(|seed| {
        let settings = Settings { budget: Bytes::mib(2), ..Settings::default() };
        let mut driver = Driver::new(settings, seed);
        for directory in 1..6 {
            driver.make(&Action::Directory(directory, (directory > 1).then_some(1))).expect("kept");
            driver.make(&Action::Run(directory, 0, 100)).expect("kept");
        }
        usize::from(!driver.fetched.is_empty())
    });
    let fetched: usize = fetched.sum();
    assert!(fetched >= 10, "in {fetched} of 20 runs");
}

/// Without memory no contents are fetched, and the reason is known. Once there is some, walks look again.
#[test]
fn walks_that_wait_for_memory_look_again_when_there_is_some() {
    let (mut waited, mut waiting, mut fetched) = (0, 0, 0);
    for seed in 0..20 {
        let mut driver = Driver::new(Settings { budget: Bytes::ZERO, ..Settings::default() }, seed);
        for directory in 1..6 {
            driver.make(&Action::Directory(directory, (directory > 1).then_some(1))).expect("kept");
            driver.make(&Action::Run(directory, 0, 50)).expect("kept");
        }
        let waits =
            |driver: &Driver| driver.walks.status().walks.iter().any(|walk| walk.stopped == Stopped::Memory);
        let files =
            |driver: &Driver| driver.walks.status().walks.iter().map(|walk| walk.fetched).sum::<u64>();
        assert_eq!(files(&driver), 0);
        if waits(&driver) {
            waited += 1;
            driver.make(&Action::Budget(2 << 20)).expect("kept");
            driver.make(&Action::Run(5, 50, 4)).expect("kept");
            waiting += usize::from(waits(&driver));
            fetched += usize::from(files(&driver) > 0);
        }
    }
    assert!(waited >= 10 && waiting == 0 && fetched > 0, "{waited} {waiting} {fetched}");
}

/// A large directory may take longer to list than a walk without events lasts.
#[test]
fn a_listing_that_comes_after_its_walk_is_forgotten() {
    let mut walks = engine(Settings::default());
    let (mut out, pid, directory) = (Commands::new(), ProcessId(1), node(1));
    walks.on(Instant(1), Event::DirectoryOpened { pid, directory, parent: None }, &mut out);
    let mut asked = false;
    for file in 2..40 {
        walks.on(Instant(file), Event::FileOpened { pid, directory, file: node(file) }, &mut out);
        asked |= out.drain().any(|command| matches!(command, Command::List { .. }));
    }
    assert!(asked && walks.status().walks.len() == 1);
    let later = walks.deadline().expect("it ends");
    walks.on(later, Event::Tick, &mut out);
    out.drain();
    assert!(walks.status().walks.is_empty());
    walks.on(later, Event::Listed { directory, entries: &[], inodes: InodeReads::EXT4 }, &mut out);
    let commands: Vec<Command> = out.drain().collect();
    assert!(matches!(commands[..], [Command::Forget { directory: it }] if it == directory), "{commands:?}");
}

/// A directory could not be listed ahead of its program: the rights of another one counted. The program opens it.
#[test]
fn a_directory_that_was_denied_ahead_is_asked_for_again() {
    const TOP: u64 = 1;
    const BELOW: u64 = 50;
    let (mut walks, mut out, pid) = (engine(Settings::default()), Commands::new(), ProcessId(1));
    let entry =
        |inode, kind| Entry { node: node(inode), kind, name: b"", inode_at: None, inode_in_memory: true };
    let files = (100..140).map(|inode| entry(inode, Kind::File));
    // That of one file stands for all.
    let missing = [Extent { page: PageIndex::ZERO, pages: Pages(1), lba: Lba(1 << 20) }];
    let entries: Vec<Entry<'_>> = files.chain([entry(BELOW, Kind::Directory)]).collect();
    let opens = |inode| Event::FileOpened { pid, directory: node(TOP), file: node(inode) };
    let below = Event::DirectoryOpened { pid, directory: node(BELOW), parent: Some(node(TOP)) };
    let acts = (100..120).map(opens).chain([below]).chain((120..140).map(opens));
    let top = Event::DirectoryOpened { pid, directory: node(TOP), parent: None };
    let (mut asked, mut opened) = ([0, 0], false);
    for (at, act) in std::iter::once(top).chain(acts).enumerate() {
        opened |= matches!(act, Event::DirectoryOpened { directory, .. } if directory == node(BELOW));
        let now = Instant(at as u64);
        walks.on(now, act, &mut out);
        let mut commands: Vec<Command> = out.drain().collect();
        while let Some(command) = commands.pop() {
            match command {
                Command::List { directory: InDirectory { node: directory, .. }, .. }
                    if directory == node(TOP) =>
                {
                    walks.on(
                        now,
                        Event::Listed { directory, entries: &entries, inodes: InodeReads::EXT4 },
                        &mut out,
                    );
                }
                Command::List { directory, .. } => {
                    asked[usize::from(opened)] += 1;
                    walks.on(now, Event::Unlistable { directory: directory.node }, &mut out);
                }
                Command::Place { files } => {
                    let placed = |file: &InDirectory| Placed {
                        file: file.node,
                        length: Bytes(4096),
                        resident: Pages(u64::from(file.node == node(BELOW))),
                        residency_known: true,
                        missing: if file.node == node(BELOW) { &[] } else { &missing },
                    };
                    let placed: Vec<Placed<'_>> = files.iter().map(placed).collect();
                    walks.on(now, Event::Placed { files: &placed }, &mut out);
                }
                _ => {}
            }
            commands.extend(out.drain());
        }
    }
    assert!(asked[0] > 0, "it is listed ahead");
    assert!(asked[1] > 0, "the program lists it itself");
}

/// A user that opens directories as fast as possible.
#[test]
fn a_million_opened_directories_take_bounded_memory() {
    let mut walks = engine(Settings::default());
    let mut out = Commands::new();
    for at in 1..=1_000_000u64 {
        let parent = (at % 3 > 0).then(|| node(at / 2 + 5_000_000));
        walks.on(
            Instant(at),
            Event::DirectoryOpened { pid: ProcessId(1), directory: node(at), parent },
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
            pid: ProcessId(1),
            directory: node(at + 1),
            parent: Some(node(at / 2 + 1)),
        };
        walks.on(Instant(at), event, &mut out);
        out.drain();
    }
    assert!(walks.status().directories <= 1 << 16);
}
