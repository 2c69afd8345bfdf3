//! An adversary that knows every fetch. It chooses the next open, the end of each walk and the interleaving of
//! walks, and compares the disk's time with the cheapest order of the used data.
//!
//! The disk of `common` measures all values, not the engine's own account:
//!
//! - `F` is the requests of fetches, and `W` those of programs;
//! - `OPT` is one pass over the data that programs used and that was not in memory, for each period of the engine;
//! - `S` is the cost of the same opens without an engine.

#![expect(clippy::print_stderr, reason = "ratios and gains are printed")]

mod common;

use common::{Act, Dice, Flat, Layout, Reading, Tree, World, walk};
use foreseek_device::Profile;
use foreseek_units::{Bytes, DeviceCosts, Nanos};
use foreseek_walks::{Settings, Status};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A move of the adversary.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// Opens the next files of a walk in order, so many times.
    Follow(u16),
    /// Follows until something was fetched, and then leaves that walk for good.
    Lure,
    /// Follows until something was fetched, uses this share of it in percent, and leaves.
    Nibble(u8),
    /// Opens files that are not in memory, anywhere in listed directories or not.
    Evade(u16),
    /// Opens files anywhere in the directories that a walk has opened, so many times.
    Shuffle(u16),
    /// Opens all directories of a walk.
    Survey,
    /// Changes to another walk.
    Switch(u8),
    /// All walks advance in turns, so many rounds.
    Turns(u8),
    /// All walks end.
    Rest,
    /// Other reads replace all that is in memory.
    Evict,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let a_move = prop_oneof![
        3 => (1u16..400).prop_map(Move::Follow),
        3 => Just(Move::Lure),
        2 => (0u8..100).prop_map(Move::Nibble),
        2 => (1u16..40).prop_map(Move::Evade),
        2 => (1u16..400).prop_map(Move::Shuffle),
        1 => Just(Move::Survey),
        3 => (0u8..8).prop_map(Move::Switch),
        1 => (0u8..60).prop_map(Move::Turns),
        1 => Just(Move::Rest),
        1 => Just(Move::Evict),
    ];
    prop::collection::vec(a_move, 1..40)
}

/// The device's costs: one rate everywhere and a simple curve of seeks, or the profile of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Flat,
    Barracuda,
}

impl Disk {
    const ALL: [Self; 2] = [Self::Flat, Self::Barracuda];

    const fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Barracuda => "barracuda-500g",
        }
    }

    fn costs(self) -> Arc<dyn DeviceCosts> {
        match self {
            Self::Flat => Arc::new(Flat),
            Self::Barracuda => Arc::new(Profile::builtin(self.name()).expect("built in")),
        }
    }

    /// The positioning of eight files: an inode and contents each.
    fn allowance(self) -> Nanos {
        let costs = self.costs();
        (costs.average_seek() + costs.half_rotation()) * 16
    }
}

/// Several trees that share a disk: the subtrees of one root, which itself is never opened.
struct Adversary {
    disk: Disk,
    /// The programs open files by their paths, and list no directory.
    has_list: bool,
    has_evicted: bool,
    engine_world: World,
    stock: World,
    walks: Vec<std::vec::IntoIter<Act>>,
    at: usize,
    opened: BTreeSet<(usize, usize)>,
    seen: BTreeSet<usize>,
    dice: Dice,
    log: Vec<Move>,
}

impl Adversary {
    fn new(layout: Layout, seed: u64, settings: Settings, disk: Disk) -> Self {
        let tree = Tree::new(2500, layout, seed);
        let costs = disk.costs();
        let mut engine_world = World::new(Arc::clone(&costs), tree.clone(), Some(settings));
        let in_groups = matches!(layout, Layout::Groups | Layout::Mixed | Layout::Scattered);
        engine_world.blind = in_groups || seed.is_multiple_of(4);
        engine_world.tells = in_groups || seed.is_multiple_of(8);
        engine_world.shows_inodes = layout != Layout::Torn || seed.is_multiple_of(2);
        let stock = World::new(costs, tree.clone(), None);
        let mut dice = Dice(seed);
        let reading =
            [Reading::Listing, Reading::Reversed, Reading::Inode, Reading::Name][dice.roll(4) as usize];
        let all = walk(&tree, reading, dice.roll(2) == 0);
        let top = |act: &Act| {
            let (Act::Directory(mut at)
            | Act::File(mut at, _)
            | Act::Look(mut at, _)
            | Act::Named(mut at, _)) = *act;
            while let Some(parent) = tree.directories[at].parent.filter(|parent| *parent != 0) {
                at = parent;
            }
            at
        };
        let walks = tree.directories[0].below.iter().map(|below| {
            all.iter().copied().filter(|act| top(act) == *below).collect::<Vec<_>>().into_iter()
        });
        let walks = walks.collect();
        Self {
            disk,
            has_list: false,
            has_evicted: false,
            engine_world,
            stock,
            walks,
            at: 0,
            opened: BTreeSet::new(),
            seen: BTreeSet::new(),
            dice,
            log: Vec::new(),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Directory(at) => drop(self.seen.insert(at)),
            Act::File(at, nth) | Act::Look(at, nth) | Act::Named(at, nth) => {
                self.opened.insert((at, nth));
            }
        }
        let act = match act {
            Act::Directory(_) if self.has_list => return,
            Act::File(at, nth) if self.has_list => Act::Named(at, nth),
            act => act,
        };
        let periods = self.status().periods;
        self.engine_world.act(act);
        self.stock.act(act);
        if self.status().periods > periods {
            self.engine_world.end_period();
            self.stock.end_period();
        }
    }

    fn status(&self) -> Status {
        self.engine_world.engine.as_ref().expect("an engine").status()
    }

    fn follow(&mut self) -> bool {
        while let Some(act) = self.walks[self.at].next() {
            let done = matches!(act, Act::File(at, nth) if self.opened.contains(&(at, nth)));
            if !done {
                self.act(act);
                return true;
            }
        }
        false
    }

    /// Files that were fetched and not opened.
    fn held(&self) -> u64 {
        self.status().held.get()
    }

    fn make(&mut self, what: Move) {
        self.log.push(what);
        match what {
            Move::Follow(count) => while_true(count, || self.follow()),
            Move::Lure => {
                let before = self.engine_world.fetches.requests;
                while_true(400, || self.engine_world.fetches.requests == before && self.follow());
                self.walks[self.at] = Vec::new().into_iter();
            }
            Move::Nibble(share) => {
                while_true(400, || self.held() == 0 && self.follow());
                let leave = self.held() * (100 - u64::from(share)) / 100;
                while_true(400, || self.held() > leave && self.follow());
                self.walks[self.at] = Vec::new().into_iter();
            }
            Move::Evade(count) => while_true(count, || self.evade()),
            Move::Shuffle(count) => while_true(count, || self.open_any(|_, _, _| true)),
            Move::Survey => self.survey(),
            Move::Turns(rounds) => {
                for _ in 0..usize::from(rounds) * self.walks.len() {
                    self.at = (self.at + 1) % self.walks.len();
                    self.follow();
                }
            }
            Move::Switch(to) => self.at = usize::from(to) % self.walks.len(),
            Move::Rest => {
                self.engine_world.rest();
                self.stock.rest();
            }
            Move::Evict => {
                self.has_evicted = true;
                self.engine_world.evict();
                self.stock.evict();
            }
        }
    }

    /// Opens a file that is not in memory, in a directory that some walk has opened.
    fn evade(&mut self) -> bool {
        self.open_any(|world, at, nth| !world.holds(at, nth))
    }

    /// Opens a file of these that was not opened, in a directory that some walk has opened.
    fn open_any(&mut self, may: impl Fn(&World, usize, usize) -> bool) -> bool {
        let seen: Vec<usize> = self.seen.iter().copied().collect();
        for _ in 0..40 {
            let Some(at) = seen.get(self.dice.roll(seen.len() as u64) as usize) else { return false };
            let files = self.engine_world.tree.directories[*at].files.len() as u64;
            let nth = self.dice.roll(files) as usize;
            if files > 0 && !self.opened.contains(&(*at, nth)) && may(&self.engine_world, *at, nth) {
                self.act(Act::File(*at, nth));
                return true;
            }
        }
        false
    }

    /// Opens the directories that are left of a walk. Its files can be opened by shuffling alone.
    fn survey(&mut self) {
        let left: Vec<Act> = std::mem::take(&mut self.walks[self.at]).collect();
        for act in left.into_iter().filter(|act| matches!(act, Act::Directory(_))) {
            self.act(act);
        }
    }
}

fn while_true(most: u16, mut act: impl FnMut() -> bool) {
    for _ in 0..most {
        if !act() {
            return;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    fetches: f64,
    all: f64,
}

impl Worst {
    fn max(self, other: Self) -> Self {
        Self { fetches: self.fetches.max(other.fetches), all: self.all.max(other.all) }
    }
}

/// Checks the bound, and returns two ratios. One is the cost of fetches, less the allowance, to the optimum.
/// The other is all device time, less the allowance, to that without an engine.
fn judge(adversary: &Adversary, rho: f64) -> Result<Worst, String> {
    let (engine_world, stock) = (&adversary.engine_world, &adversary.stock);
    let optimum = stock.optimum().get() as f64;
    let allowance = adversary.disk.allowance().get() as f64;
    let fetches = engine_world.fetches.time.get() as f64;
    let all = fetches + engine_world.own.time.get() as f64;
    let stock = stock.own.time.get() as f64;
    let books = adversary.status().spent.get() as f64;
    let message = || {
        format!(
            "fetches {:.3} s (booked {:.3}), all {:.3} s, optimum {:.3} s, stock {:.3} s, after {:?}",
            fetches / 1e9,
            books / 1e9,
            all / 1e9,
            optimum / 1e9,
            stock / 1e9,
            adversary.log
        )
    };
    if fetches > rho * optimum + allowance {
        return Err(format!("(1) is broken: {}", message()));
    }
    // The way to a fetch is counted from the last place that the engine knows to have been used. Nobody tells it what has left
    // memory.
    let is_told = (engine_world.tells || !engine_world.blind) && !adversary.has_evicted;
    if is_told && fetches > books * 1.05 + allowance / 8.0 {
        return Err(format!("less was charged than read: {}", message()));
    }
    if all > (rho + 1.0) * stock + allowance {
        return Err(format!("(3) is broken: {}", message()));
    }
    let ratio = |time: f64, to: f64| if to > 0.0 { (time - allowance).max(0.0) / to } else { 0.0 };
    Ok(Worst { fetches: ratio(fetches, optimum), all: ratio(all, stock) })
}

/// A game: the layout of the trees, a seed, and moves.
type Game = (Layout, u64, Vec<Move>);

fn play(game: &Game, settings: Settings, disk: Disk) -> Result<Worst, String> {
    play_with(game, settings, disk, false)
}

fn play_with(
    (layout, seed, moves): &Game,
    settings: Settings,
    disk: Disk,
    has_list: bool,
) -> Result<Worst, String> {
    let rho = 4.0;
    let mut adversary = Adversary::new(*layout, *seed, settings, disk);
    adversary.has_list = has_list;
    let mut worst = Worst::default();
    for what in moves {
        adversary.make(*what);
        let now = judge(&adversary, rho)?;
        worst = worst.max(now);
    }
    assert!(adversary.engine_world.most_held <= settings.budget);
    Ok(worst)
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Fresh),
        Just(Layout::Aged(3)),
        Just(Layout::Aged(40)),
        Just(Layout::Torn),
        Just(Layout::Groups),
        Just(Layout::Mixed),
        Just(Layout::Scattered)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// (1) and (3) of the bound, after each move.
    #[test]
    fn the_bound_holds_for_any_adversary(
        layout in layouts(), seed in 0u64..1 << 32, moves in moves(), disk in prop::sample::select(&Disk::ALL[..]),
        has_list in any::<bool>(), mib in prop::sample::select(&[1u64, 4, 256][..]),
    ) {
        let settings = Settings { budget: Bytes::mib(mib), ..Settings::default() };
        if let Err(message) = play_with(&(layout, seed, moves), settings, disk, has_list) {
            prop_assert!(false, "{message}");
        }
    }
}

const LAYOUTS: [Layout; 3] = [Layout::Fresh, Layout::Aged(3), Layout::Aged(40)];
/// Those in which blocks of directories have no known address.
const UNPLACED: [Layout; 3] = [Layout::Groups, Layout::Mixed, Layout::Scattered];

/// Games by the same rules as above, from fixed seeds.
fn games(layouts: [Layout; 3]) -> Vec<Game> {
    let mut dice = Dice(7);
    let mut games = Vec::new();
    for game in 0..150 {
        let layout = layouts[game % layouts.len()];
        let mut moves = Vec::new();
        for _ in 0..5 + dice.roll(40) {
            moves.push(match dice.roll(12) {
                0 | 1 => Move::Follow(1 + dice.roll(300) as u16),
                2 | 3 => Move::Lure,
                4 => Move::Nibble(dice.roll(100) as u8),
                5 => Move::Evade(1 + dice.roll(30) as u16),
                6 => Move::Switch(dice.roll(8) as u8),
                7 => Move::Turns(dice.roll(60) as u8),
                8 | 9 => Move::Shuffle(1 + dice.roll(300) as u16),
                10 => Move::Survey,
                _ => Move::Rest,
            });
            moves.push(Move::Switch(dice.roll(8) as u8));
        }
        games.push((layout, 100 + game as u64, moves));
    }
    games
}

/// The worst ratios of these games.
fn worst_of(games: &[Game], disk: Disk, has_list: bool) -> Worst {
    let play = |game| play_with(game, Settings::default(), disk, has_list);
    games
        .iter()
        .map(play)
        .fold(Worst::default(), |worst, game| worst.max(game.unwrap_or_else(|message| panic!("{message}"))))
}

/// Prints the worst ratios beyond the allowance as lines of JSON, as `benches/results/walks` has them.
fn worst_ratios(disk: Disk) {
    for (layouts, places) in [(LAYOUTS, "known"), (UNPLACED, "unknown")] {
        let worst = worst_of(&games(layouts), disk, false);
        eprintln!(
            "{{\"games\": 150, \"places_of_directories\": \"{places}\", \"device\": \"{}\", \"fetches_over_optimum\": {:.3}, \"all_over_stock\": {:.3}}}",
            disk.name(),
            worst.fetches,
            worst.all
        );
        assert!(worst.fetches <= 4.0 && worst.all <= 5.0);
        assert!(worst.fetches > 2.0, "this adversary is too weak to show anything: {worst:?}");
    }
}

#[test]
fn the_worst_ratios_are_within_the_bound() {
    worst_ratios(Disk::Flat);
}

#[test]
fn the_worst_ratios_are_within_the_bound_by_the_costs_of_a_profile() {
    worst_ratios(Disk::Barracuda);
}

/// The same games by programs that open files by their paths.
#[test]
fn the_worst_ratios_of_programs_with_a_list_of_files_are_within_the_bound() {
    for disk in Disk::ALL {
        let worst = worst_of(&[games(LAYOUTS), games(UNPLACED)].concat(), disk, true);
        eprintln!(
            "{{\"games\": 300, \"by_a_list_of_files\": true, \"device\": \"{}\", \"fetches_over_optimum\": {:.3}, \"all_over_stock\": {:.3}}}",
            disk.name(),
            worst.fetches,
            worst.all
        );
        assert!(worst.fetches <= 4.0 && worst.all <= 5.0);
    }
}

/// Memory for a thirtieth of the files, all of which is replaced now and then. What was fetched fills it in many games.
#[test]
fn little_memory_and_evictions_are_within_the_bound() {
    let budget = Bytes::mib(1);
    let mut full = 0;
    for (layout, seed, moves) in [games(LAYOUTS), games(UNPLACED)].concat().into_iter().step_by(4) {
        let mut adversary =
            Adversary::new(layout, seed, Settings { budget, ..Settings::default() }, Disk::Flat);
        for (nth, what) in moves.into_iter().enumerate() {
            adversary.make(what);
            if nth % 5 == 4 {
                adversary.make(Move::Evict);
            }
            judge(&adversary, 4.0).unwrap_or_else(|message| panic!("{message}"));
        }
        let most = adversary.engine_world.most_held;
        assert!(most <= budget, "{most}");
        full += usize::from(most * 2 > budget);
    }
    assert!(full > 20, "in {full} of 75 games");
}

/// Directories whose blocks lie anywhere, and of which the driver reports only a part if it finds them by listing; inodes without
/// a known address.
#[test]
fn directories_in_many_pieces_are_within_the_bound() {
    for disk in Disk::ALL {
        let worst = worst_of(&games([Layout::Torn; 3])[..60], disk, false);
        assert!(worst.fetches <= 4.0 && worst.all <= 5.0, "{worst:?}");
    }
}

/// The games distinguish a rule within the bound from one beyond it. Where places of directories are known, the other rules keep
/// an engine within it, too.
#[test]
fn an_engine_with_a_larger_allowance_breaks_the_bound() {
    let broken = |engine: &str, settings: Settings| {
        let lost = games(UNPLACED).iter().filter(|game| play(game, settings, Disk::Flat).is_err()).count();
        eprintln!("{{\"games\": 150, \"engine\": \"{engine}\", \"lost\": {lost}}}");
        lost
    };
    let greedy = broken("rho 12", Settings { rho: 12.0, ..Settings::default() });
    let rich = broken("an allowance of 80 files", Settings { start: 80, ..Settings::default() });
    assert!(greedy > 10 && rich > 10);
}

/// What stays in memory is not counted again in the next period.
#[test]
fn what_was_used_counts_once_though_all_walks_end() {
    let mut world = World::new(Arc::new(Flat), Tree::new(100, Layout::Aged(3), 1), None);
    let acts = walk(&world.tree, Reading::Listing, false);
    acts.iter().for_each(|act| world.act(*act));
    let optimum = world.optimum();
    for _ in 0..3 {
        world.rest();
        acts.iter().for_each(|act| world.act(*act));
    }
    assert_eq!(world.optimum(), optimum);
    world.rest();
    world.evict();
    acts.iter().for_each(|act| world.act(*act));
    assert_eq!(world.optimum(), optimum * 2);
}

/// The other half of the proof: no rule guarantees a constant times the optimum for all device time. The walk
/// opens files that are not in memory, in dense groups far apart; the ratio grows with the number of files in a
/// group.
#[test]
fn no_constant_bounds_an_evading_walk_against_the_optimum() {
    let ratio = |files: usize| {
        let mut tree = Tree::default();
        let mut inode = 12;
        // One directory, whose files form 40 contiguous groups of this many.
        let groups = 40;
        let mut files: Vec<common::File> = (0..groups * files)
            .map(|at| {
                inode += 1;
                let lba = 10_000_000 + (at / files) as u64 * 20_000_000 + (at % files) as u64 * 8;
                common::File { inode, name: format!("f{at:06}"), lba, pages: 1 }
            })
            .collect();
        Dice(3).shuffle(&mut files);
        let listing = (0..files.len()).collect();
        let directory = common::Directory {
            inode: 11,
            name: "d".into(),
            lba: 4096,
            files,
            listing,
            ..Default::default()
        };
        tree.directories.push(directory);
        // Memory for a quarter.
        let budget = foreseek_units::Pages(tree.files() as u64 / 4).bytes();
        let mut world = World::new(Arc::new(Flat), tree, Some(Settings { budget, ..Settings::default() }));
        world.act(Act::Directory(0));
        let (mut opened, mut dice) = (BTreeSet::new(), Dice(5));
        let half = world.tree.files() / 2;
        while opened.len() < half {
            let nth = dice.roll(world.tree.files() as u64) as usize;
            if !opened.contains(&nth) && !world.holds(0, nth) {
                opened.insert(nth);
                world.act(Act::File(0, nth));
            }
        }
        (world.own.time + world.fetches.time).get() as f64 / world.optimum().get() as f64
    };
    let [few, some, many] = [4, 16, 64].map(ratio);
    for (files, optima) in [(4, few), (16, some), (64, many)] {
        eprintln!("{{\"evading\": true, \"files_in_group\": {files}, \"optima\": {optima:.1}}}");
    }
    assert!(some > 2.0 * few && many > 2.0 * some && many > 20.0);
}
