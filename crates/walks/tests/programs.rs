//! Real programs: each order of opens, threads, two programs that walk together, selective ones, and those that
//! only look inodes up. Checks the fetches for them, and their cost or gain, in virtual time.

#![expect(clippy::print_stderr, reason = "ratios and gains are printed")]

mod common;

use common::{Act, Dice, Flat, Layout, Reading, Tree, World, walk, walk_in};
use foreseek_seam::ProcessId;
use foreseek_units::{Bytes, Instant, Nanos, Pages};
use foreseek_walks::{
    Command, Commands, DeviceNo, Event, InDirectory, ListCondition, Node, Settings, Status, Stopped, Walks,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

struct Ran {
    stock: Nanos,
    with_engine: Nanos,
    fetched: Nanos,
    status: Status,
    files: u64,
}

impl Ran {
    fn gain(&self) -> f64 {
        self.stock.get() as f64 / self.with_engine.get() as f64
    }
}

fn run_with(tree: &Tree, acts: &[Act], settings: Settings) -> Ran {
    let mut stock = World::new(Arc::new(Flat), tree.clone(), None);
    let mut with_engine = World::new(Arc::new(Flat), tree.clone(), Some(settings));
    for world in [&mut stock, &mut with_engine] {
        acts.iter().for_each(|act| world.act(*act));
    }
    assert!(with_engine.most_held <= settings.budget, "{}", with_engine.most_held);
    let status = with_engine.engine.as_ref().expect("an engine").status();
    let files = acts.iter().filter(|act| matches!(act, Act::File(..) | Act::Named(..))).count() as u64;
    Ran {
        stock: stock.own.time,
        with_engine: with_engine.own.time + with_engine.fetches.time,
        fetched: with_engine.fetches.time,
        status,
        files,
    }
}

fn run(tree: &Tree, acts: &[Act]) -> Ran {
    run_with(tree, acts, Settings::default())
}

fn fresh() -> Tree {
    Tree::new(6000, Layout::Fresh, 11)
}

/// Prints a line of JSON, as `benches/results/walks` has them, and what the engine did.
fn show(name: &str, ran: &Ran) {
    let name = name.replace(',', "");
    eprintln!(
        "{{\"walk\": \"{name}\", \"files\": {}, \"stock_s\": {:.3}, \"fetches_s\": {:.3}, \"gain\": {:.3}}}",
        ran.files,
        ran.stock.as_secs_f64(),
        ran.fetched.as_secs_f64(),
        ran.gain(),
    );
    let walk = ran.status.walks.first();
    eprintln!("{:?}", walk.map(|walk| (walk.fetched, walk.used, walk.wasted, walk.order, walk.stopped)),);
}

#[test]
fn each_order_is_recognised_and_gains_unless_it_is_disk_order() {
    let tree = fresh();
    for (reading, name) in [
        (Reading::Listing, "listing"),
        (Reading::Reversed, "listing, reversed"),
        (Reading::Name, "name"),
        (Reading::ReversedName, "name, reversed"),
        (Reading::ReversedInode, "inode, reversed"),
    ] {
        for files_first in [false, true] {
            let ran = run(&tree, &walk(&tree, reading, files_first));
            show(&format!("{name}, files first {files_first}"), &ran);
            let walk = &ran.status.walks[0];
            assert_eq!(walk.order, Some(name));
            assert!(walk.used * 10 >= ran.files * 7, "{walk:?}");
            assert!(walk.wasted * 50 <= walk.fetched, "{walk:?}");
            assert!(ran.gain() > 3.0, "{}", ran.gain());
        }
    }
}

/// rsync with checksums reads the files of a directory as they are listed, and then descends by name. One vote for
/// both would gain less than 2.
#[test]
fn files_and_directories_may_be_in_two_orders() {
    let tree = fresh();
    let ran = run(&tree, &walk_in(&tree, [Reading::Listing, Reading::Name], true));
    show("files as listed, directories by name", &ran);
    assert!(ran.status.walks[0].wasted * 50 <= ran.status.walks[0].fetched, "{:?}", ran.status.walks[0]);
    assert!(ran.gain() > 3.0, "{}", ran.gain());
}

/// If a program already reads in disk order, there is nothing to gain, and only directories are fetched.
#[test]
fn a_program_in_disk_order_loses_nothing() {
    let tree = fresh();
    let ran = run(&tree, &walk(&tree, Reading::Inode, false));
    show("inode", &ran);
    assert!(ran.gain() > 0.98, "{}", ran.gain());
}

/// No fetch takes longer than the walk has cost by then, or would have cost without fetches: whatever lies before a file.
#[test]
fn no_fetch_takes_longer_than_the_walk_has_cost() {
    let of = |layout| Tree::new(6000, layout, 11);
    let [fresh, groups, aged] = [Layout::Fresh, Layout::Groups, Layout::Aged(20)].map(of);
    let inode = [Reading::Inode, Reading::ReversedInode].map(|reading| (&fresh, reading));
    let name = [&fresh, &groups, &aged].map(|tree| (tree, Reading::Name));
    let listing = [&fresh, &groups, &aged].map(|tree| (tree, Reading::Listing));
    for (tree, reading) in inode.into_iter().chain(name).chain(listing) {
        let mut stock = World::new(Arc::new(Flat), tree.clone(), None);
        let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
        let mut worst = 0.0f64;
        for act in walk(tree, reading, false) {
            stock.act(act);
            world.act(act);
            for [own, fetches, took] in world.each_fetch.drain(..) {
                let cost = own + fetches.max(stock.own.time - own);
                worst = worst.max(took.as_secs_f64() / cost.as_secs_f64());
            }
        }
        eprintln!("{reading:?}: {worst:.2}");
        assert!(worst <= 1.1, "{reading:?}: {worst}");
    }
}

/// Threads that each take a directory (rg): as many are read at a time, in turn.
#[test]
fn threads_in_a_directory_each_are_one_walk() {
    const THREADS: usize = 4;
    let tree = fresh();
    // What each thread has to do: a directory and its files.
    let mut tasks: Vec<Vec<Act>> = Vec::new();
    for act in walk(&tree, Reading::Listing, true) {
        match (act, tasks.last_mut()) {
            (Act::Directory(_), _) | (_, None) => tasks.push(vec![act]),
            (act, Some(task)) => task.push(act),
        }
    }
    let mut waiting = tasks.into_iter();
    let mut threads: Vec<std::vec::IntoIter<Act>> = vec![Vec::new().into_iter(); THREADS];
    let mut acts = Vec::new();
    while acts.len() < tree.files() + tree.directories.len() {
        for thread in &mut threads {
            let next = thread.next().or_else(|| {
                *thread = waiting.next()?.into_iter();
                thread.next()
            });
            acts.extend(next);
        }
    }
    let ran = run(&tree, &acts);
    show("threads in a directory each", &ran);
    assert_eq!((ran.status.walks.len(), ran.status.walks[0].order), (1, Some("listing")));
    assert!(ran.gain() > 3.0, "{}", ran.gain());
}

#[test]
fn four_threads_are_one_walk() {
    let tree = fresh();
    let mut acts = walk(&tree, Reading::Listing, true);
    let mut dice = Dice(1);
    // A thread may be overtaken by three others, but no file is opened before its directory.
    for at in 1..acts.len() {
        let to = at - (dice.roll(4) as usize).min(at);
        if acts[to..=at].iter().all(|act| matches!(act, Act::File(..))) {
            acts[to..=at].rotate_right(1);
        }
    }
    let ran = run(&tree, &acts);
    show("four threads", &ran);
    assert_eq!(ran.status.walks.len(), 1);
    assert_eq!(ran.status.walks[0].order, Some("listing"));
    assert!(ran.gain() > 3.0, "{}", ran.gain());
}

/// `find and xargs`: one program is ahead with directories, another opens files.
#[test]
fn two_programs_that_walk_together_are_one_walk() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let (directories, files): (Vec<Act>, Vec<Act>) =
        acts.iter().partition(|act| matches!(act, Act::Directory(_)));
    // 100 directories ahead.
    let mut mixed = Vec::new();
    let mut ahead = directories.into_iter();
    let mut opened = 0u64;
    for file in files {
        let Act::File(at, _) = file else { continue };
        while !mixed.contains(&Act::Directory(at)) || opened < 100 {
            let Some(directory) = ahead.next() else { break };
            mixed.push(directory);
            opened += 1;
        }
        mixed.push(file);
        opened = opened.saturating_sub(1);
    }
    let ran = run(&tree, &mixed);
    show("find and xargs", &ran);
    assert_eq!(ran.status.walks.len(), 1);
    assert!(ran.gain() > 2.5, "{}", ran.gain());
}

/// The same, a few directories ahead all the way: at any time the listing of one is under way. No round waits for it.
#[test]
fn rounds_do_not_wait_for_directories_that_another_program_opens() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let is_directory = |act: &&Act| matches!(act, Act::Directory(_));
    let mut ahead = acts.iter().filter(is_directory).copied();
    let mut mixed: Vec<Act> = ahead.by_ref().take(20).collect();
    for act in &acts {
        match act {
            Act::Directory(_) => mixed.extend(ahead.next()),
            file => mixed.push(*file),
        }
    }
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.lists_late = true;
    mixed.iter().for_each(|act| world.act(*act));
    let with_engine = world.own.time + world.fetches.time;
    let prompt = run(&tree, &mixed);
    eprintln!("late: {with_engine} in batches {:?}; prompt {}", world.batches, prompt.with_engine);
    assert!(with_engine < prompt.with_engine * 2 && prompt.gain() > 5.0, "{with_engine}");
}

/// A driver is slow to find the addresses of files: 32 opens a request. Directories and inodes do not wait for them.
#[test]
fn directories_do_not_wait_for_addresses_of_files() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.places_late = true;
    for (nth, act) in acts.iter().enumerate() {
        world.act(*act);
        if nth % 32 == 0 {
            world.answer_places();
        }
    }
    let late = world.own.time + world.fetches.time;
    let prompt = run(&tree, &acts);
    eprintln!("late: {late} in batches {:?}; prompt {}", world.batches, prompt.with_engine);
    assert!(world.most_late > 1000, "requests for {} files waited", world.most_late);
    assert!(late < prompt.with_engine * 2, "{late} and {}", prompt.with_engine);
}

/// A program has opened one directory far below the top, without a walk. Then another program walks the whole tree. It
/// lists the directory above ahead of its program, and must not wait for the listing of what is another walk's.
#[test]
fn directories_of_another_walk_are_not_waited_for() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let whole = run(&tree, &acts);
    let depth = |mut at: usize| {
        let mut depth = 0;
        while let Some(parent) = tree.directories[at].parent {
            (at, depth) = (parent, depth + 1);
        }
        depth
    };
    let deep: Vec<usize> =
        (0..tree.directories.len()).filter(|at| depth(*at) >= 3).step_by(40).take(4).collect();
    assert!(deep.len() == 4, "{deep:?}");
    for at in deep {
        let mut both = vec![Act::Directory(at)];
        both.extend(&acts);
        let ran = run(&tree, &both);
        eprintln!("depth {}: gain {}", depth(at), ran.gain());
        assert!(ran.gain() * 2.0 > whole.gain(), "{} and {}", ran.gain(), whole.gain());
    }
}

/// Two programs walk through a part each of a tree that both have opened (`tar -C tree`). One finds all of its files in
/// memory and opens fifty while the other one waits for the disk once.
#[test]
fn a_program_in_memory_keeps_nothing_from_one_that_waits_for_the_disk() {
    let tree = fresh();
    let all = walk(&tree, Reading::Listing, false);
    let (top, rest) = all.split_first().expect("a tree");
    let at = |act: &Act| match act {
        Act::Directory(at) | Act::File(at, _) | Act::Look(at, _) | Act::Named(at, _) => *at,
    };
    // The largest subtree of the top, and all others.
    let part = |at: usize| {
        let chain = std::iter::successors(Some(at), |at| tree.directories[*at].parent);
        chain.take_while(|at| *at > 0).last().unwrap_or(0)
    };
    let size = |below: &&usize| rest.iter().filter(|act| part(at(act)) == **below).count();
    let largest = *tree.directories[0].below.iter().max_by_key(size).expect("some");
    let (one, other): (Vec<Act>, Vec<Act>) = rest.iter().partition(|act| part(at(act)) == largest);
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.act(*top);
    // The first one begins, until all of its files are fetched.
    let status = |world: &World| world.engine.as_ref().expect("an engine").status().walks[0];
    let mut one = one.into_iter();
    while status(&world).stopped != Stopped::Complete || status(&world).files < 1000 {
        world.act(one.next().expect("it has more"));
    }
    let mut own = 0;
    for act in &other {
        world.process = 1;
        one.by_ref().take(50).for_each(|act| world.act(act));
        world.process = 2;
        if let Act::File(directory, nth) = act {
            own += u64::from(!world.holds(*directory, *nth));
        }
        world.act(*act);
    }
    eprintln!("{own} of {} read by the program itself; {:?}", other.len(), status(&world));
    assert!(own * 50 < other.len() as u64, "{own} of {}", other.len());
}

/// `grep --include=*.c`: a third of the files; and one name in fifty.
#[test]
fn selective_programs_get_their_files_or_nothing() {
    let tree = fresh();
    let all = walk(&tree, Reading::Listing, false);
    let only = |keep: &dyn Fn(&str) -> bool| -> Vec<Act> {
        let kept = |act: &&Act| match act {
            Act::File(at, nth) => keep(&tree.directories[*at].files[*nth].name),
            Act::Directory(_) | Act::Look(..) | Act::Named(..) => true,
        };
        all.iter().filter(kept).copied().collect()
    };
    let extension = run(&tree, &only(&|name| name.ends_with(".c")));
    show("one extension of three", &extension);
    assert!(extension.gain() > 1.5, "{}", extension.gain());
    let walk = &extension.status.walks[0];
    assert!(walk.wasted * 5 <= walk.fetched, "{walk:?}");
    let rare = run(&tree, &only(&|name| name.as_bytes()[3] == b'7' && name.as_bytes()[4] < b'2'));
    show("one name in fifty", &rare);
    assert!(rare.gain() > 0.95, "{}", rare.gain());
    assert!(rare.status.walks[0].fetched <= 4 * rare.files, "{:?}", rare.status.walks[0]);
}

/// `find`, and `du` where look-ups are not reported: directories alone. They lie densely, so that the optimum
/// is small, and `rho` times it allows little look-ahead.
#[test]
fn a_walk_of_directories_alone_loses_nothing() {
    for layout in [Layout::Fresh, Layout::Aged(40)] {
        let tree = Tree::new(20_000, layout, 5);
        let mut acts = walk(&tree, Reading::Listing, false);
        acts.retain(|act| matches!(act, Act::Directory(_)));
        let ran = run(&tree, &acts);
        show(&format!("directories alone, {layout:?}"), &ran);
        assert_eq!(ran.status.walks[0].fetched, 0, "no contents");
        assert!(ran.fetched > Nanos::ZERO, "directories and inodes");
        assert!(ran.gain() > 0.98, "{}", ran.gain());
    }
}

/// `du`, `ls -lR` on a mount, which reports look-ups: inodes, and no contents.
#[test]
fn a_walk_of_look_ups_has_inodes_fetched() {
    let tree = Tree::new(20_000, Layout::Aged(40), 5);
    let looks = walk(&tree, Reading::Listing, false).into_iter().map(|act| match act {
        Act::File(at, nth) => Act::Look(at, nth),
        other => other,
    });
    let ran = run(&tree, &looks.collect::<Vec<_>>());
    show("look-ups", &ran);
    assert_eq!(ran.status.walks[0].fetched, 0, "no contents");
    assert!(ran.fetched > Nanos::ZERO, "inodes");
    assert!(ran.gain() > 0.98, "{}", ran.gain());
}

#[test]
fn programs_that_open_few_files_cost_nothing() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let mut files = 0;
    let few = acts.iter().take_while(|act| {
        files += usize::from(matches!(act, Act::File(..)));
        files < 8
    });
    let few: Vec<Act> = few.copied().collect();
    let ran = run(&tree, &few);
    assert_eq!((ran.fetched, ran.with_engine), (Nanos::ZERO, ran.stock));
    assert_eq!(ran.status.walks[0].stopped, Stopped::TooShort);
}

/// Of each file four pages are read, and all from an act on. Returns what was used up to each act.
fn run_parts(world: &mut World, acts: &[Act], all_from: usize) -> Vec<Bytes> {
    let mut used = Vec::with_capacity(acts.len());
    for (at, act) in acts.iter().enumerate() {
        world.reads = if at < all_from { Pages(4) } else { Pages(u64::MAX) };
        world.act(*act);
        used.push(world.engine.as_ref().map_or(Bytes::ZERO, |engine| engine.status().used));
    }
    let walks = world.engine.as_ref().map(|engine| engine.status().walks);
    eprintln!("own {}, fetches {}: {walks:?}", world.own.time, world.fetches.time);
    used
}

/// Thumbnails, `file` and media servers read the beginning of each file. Only that is fetched.
#[test]
fn of_files_that_are_read_in_part_only_that_is_fetched() {
    let tree = fresh().with_files_of(Pages(256));
    let acts = walk(&tree, Reading::Listing, false);
    let (mut stock, mut world) = [None, Some(Settings::default())]
        .map(|settings| World::new(Arc::new(Flat), tree.clone(), settings))
        .into();
    run_parts(&mut stock, &acts, acts.len());
    run_parts(&mut world, &acts, acts.len());
    let status = world.engine.as_ref().expect("an engine").status();
    let (fetched, with_engine) = (status.fetched_bytes, world.own.time + world.fetches.time);
    let all = Pages(tree.files() as u64 * 4).bytes();
    eprintln!("{fetched} fetched of {all}");
    // A pass over beginnings far apart costs a half rotation for each.
    assert!(with_engine * 3 <= stock.own.time * 2, "{with_engine} {}", stock.own.time);
    assert!(fetched <= all + all / 4, "{fetched} {all}");
}

/// A program that begins to read more is noticed, where memory does not hold the beginning of all files.
#[test]
fn once_files_are_read_as_a_whole_they_are_fetched_as_a_whole() {
    let tree = fresh().with_files_of(Pages(16));
    let acts = walk(&tree, Reading::Listing, false);
    let settings = Settings { budget: Bytes::mib(16), ..Settings::default() };
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(settings));
    let used = run_parts(&mut world, &acts, acts.len() / 2);
    let [half, quarter, end] = [acts.len() / 2, acts.len() / 4 * 3, acts.len()].map(|at| used[at - 1]);
    let quarter_of_files = tree.files() as u64 / 4;
    eprintln!("used: half {half}, then {}, then {}", quarter - half, end - quarter);
    assert!(half <= Pages(quarter_of_files * 2 * 5).bytes());
    assert!(end - quarter >= Pages(quarter_of_files * 16 * 3 / 4).bytes());
}

/// An engine's work for a tree of which this part is in memory when the walk begins.
fn run_warm(tree: &Tree, acts: &[Act], warm: &[Act], tells_inodes: bool) -> World {
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.tells_inodes = tells_inodes;
    world.warm(warm);
    acts.iter().for_each(|act| world.act(*act));
    let status = world.engine.as_ref().expect("an engine").status();
    let files = acts.iter().filter(|act| matches!(act, Act::File(..))).count();
    eprintln!("{files} files, {} reported: {:?}", world.reported, status.walks.first());
    world
}

#[test]
fn files_in_memory_are_neither_fetched_nor_reported() {
    let tree = fresh();
    for (files_first, tells_inodes) in [(false, false), (false, true), (true, false), (true, true)] {
        let acts = walk(&tree, Reading::Listing, files_first);
        let world = run_warm(&tree, &acts, &acts, tells_inodes);
        let status = world.engine.as_ref().expect("an engine").status();
        assert_eq!((world.own.time, world.fetches.time), (Nanos::ZERO, Nanos::ZERO));
        assert_eq!((status.spent, status.fetched_bytes), (Nanos::ZERO, Bytes::ZERO));
        assert_eq!(status.walks[0].stopped, Stopped::InMemory);
        assert!(world.reported * 50 < tree.files() as u64, "{} were reported", world.reported);
    }
}

#[test]
fn a_walk_that_leaves_memory_is_prefetched_again() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let (first, rest) = acts.split_at(acts.len() / 3);
    let mut stock = World::new(Arc::new(Flat), tree.clone(), None);
    stock.warm(first);
    acts.iter().for_each(|act| stock.act(*act));
    for (tells_inodes, least) in [(false, 3.0), (true, 10.0)] {
        let world = run_warm(&tree, &acts, first, tells_inodes);
        let gain = stock.own.time.get() as f64 / (world.own.time + world.fetches.time).get() as f64;
        let known = if tells_inodes { " with known inodes" } else { "" };
        eprintln!("{{\"walk\": \"the first third in memory{known}\", \"gain\": {gain:.3}}}");
        assert!(gain > least, "{gain}");
        // A trial comes at the latest after 32 directories, of the 350 that are not in memory. Where inodes are known to
        // be in memory, files beyond the first third are looked at before the walk becomes quiet, and it does not.
        let most = if tells_inodes { acts.len() } else { rest.len() + first.len() / 4 };
        assert!(world.reported < most as u64, "{}", world.reported);
    }
}

/// While files that were fetched wait for their use, each open may lead to the next fetch.
#[test]
fn opens_may_wait_only_while_nothing_fetched_waits_for_its_use() {
    let tree = fresh();
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    let second = Nanos::from_secs(1);
    let (mut at_rest, mut in_use) = (0, 0);
    for act in walk(&tree, Reading::Listing, false) {
        world.act(act);
        let engine = world.engine.as_ref().expect("an engine");
        let status = engine.status();
        let Some(of) = status.walks.first() else { continue };
        let waiting = of.fetched - of.used - of.wasted;
        let rests = engine.is_at_rest(world.now, second);
        let few = of.stopped == Stopped::Complete && waiting * 16 <= of.fetched;
        assert_eq!(rests, waiting == 0 || few, "{of:?}");
        // Its program has paused for so long.
        assert!(engine.is_at_rest(world.now + second * 2, second), "{of:?}");
        *(if rests { &mut at_rest } else { &mut in_use }) += 1;
    }
    assert!(at_rest > 100 && in_use > 1000, "{at_rest} {in_use}");
}

/// Walks over the same tree without a pause: `grep -r` again and again.
#[test]
fn a_walk_over_what_the_last_one_has_read_is_not_reported() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    acts.iter().for_each(|act| world.act(*act));
    let (reported, requests) = (world.reported, world.fetches.requests);
    for _ in 0..3 {
        acts.iter().for_each(|act| world.act(*act));
    }
    assert!(world.reported - reported < 50, "{}", world.reported - reported);
    assert_eq!(world.fetches.requests, requests);
    // From another directory.
    let below: Vec<Act> =
        acts.iter().copied().skip_while(|act| !matches!(act, Act::Directory(at) if *at > 0)).collect();
    below.iter().for_each(|act| world.act(*act));
    assert!(world.reported - reported < 50, "{}", world.reported - reported);
}

/// Walks that open every second file: programs that look for duplicates, again and again.
#[test]
fn a_walk_that_does_nothing_but_open_files_again_is_not_reported() {
    let tree = fresh();
    let is_opened = |at: usize| at.is_multiple_of(2);
    let acts = walk(&tree, Reading::Listing, false).into_iter().enumerate();
    let acts: Vec<Act> = acts
        .filter(|(at, act)| !matches!(act, Act::File(..)) || is_opened(*at))
        .map(|(_, act)| act)
        .collect();
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    acts.iter().for_each(|act| world.act(*act));
    let (reported, requests) = (world.reported, world.fetches.requests);
    for _ in 0..5 {
        acts.iter().for_each(|act| world.act(*act));
    }
    let again = world.reported - reported;
    assert!(reported > 2000 && again < 600, "{reported}, {again}");
    assert_eq!(world.fetches.requests, requests);
}

/// One program opens new files of a large directory, another one what the first has opened.
#[test]
fn a_program_that_opens_new_files_now_and_then_is_read_ahead_of_beside_one_that_opens_files_again() {
    let tree = one_directory(6000);
    let acts = walk(&tree, Reading::Listing, false);
    let mut stock = World::new(Arc::new(Flat), tree.clone(), None);
    let mut world = World::new(Arc::new(Flat), tree, Some(Settings::default()));
    for world in [&mut stock, &mut world] {
        for (at, act) in acts.iter().enumerate() {
            world.act(*act);
            if at > 20 && at % 20 == 0 {
                (0..600).for_each(|again| world.act(acts[1 + again % 20]));
            }
        }
    }
    let gain = stock.own.time.get() as f64 / (world.own.time + world.fetches.time).get() as f64;
    assert!(gain > 3.0, "{gain}");
}

/// The same over files that have left memory meanwhile, each time or after some walks that found them there.
#[test]
fn a_walk_over_what_was_evicted_since_the_last_one_is_prefetched() {
    let small = Tree::new(200, Layout::Aged(10), 3);
    for (tree, cached_walks, least) in [
        (fresh(), 0, 4.0),
        (one_directory(4000), 0, 4.0),
        (one_directory(4000), 3, 4.0),
        (fresh(), 3, 4.0),
        (small.clone(), 0, 1.0),
        (small, 3, 1.0),
    ] {
        let acts = walk(&tree, Reading::Listing, false);
        let mut stock = World::new(Arc::new(Flat), tree.clone(), None);
        let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
        for _ in 0..4 {
            let before = [stock.own.time, world.own.time + world.fetches.time];
            for world in [&mut stock, &mut world] {
                for _ in 0..=cached_walks {
                    acts.iter().for_each(|act| world.act(*act));
                    world.now += Nanos::from_millis(100);
                }
                world.evict();
            }
            let after = [stock.own.time, world.own.time + world.fetches.time];
            let [stock, with_engine] = [0, 1].map(|at| (after[at] - before[at]).as_secs_f64());
            eprintln!("{} files, {cached_walks} cached: {:.2}", tree.files(), stock / with_engine);
            assert!(stock > with_engine * least, "{} files: {stock} {with_engine}", tree.files());
        }
    }
}

/// One directory of so many files.
fn one_directory(files: usize) -> Tree {
    let mut tree = fresh();
    let files: Vec<common::File> =
        tree.directories.iter_mut().flat_map(|it| std::mem::take(&mut it.files)).take(files).collect();
    tree.directories.truncate(1);
    let top = &mut tree.directories[0];
    (top.listing, top.below) = ((0..files.len()).collect(), Vec::new());
    top.files = files;
    Dice(4).shuffle(&mut top.listing);
    tree
}

/// One directory of 4,000 files, of which the first are in memory.
#[test]
fn the_rest_of_a_large_directory_is_sampled_before_its_reports_end() {
    let tree = one_directory(4000);
    let acts = walk(&tree, Reading::Listing, false);
    let world = run_warm(&tree, &acts, &acts[..500], true);
    let walk = &world.engine.as_ref().expect("an engine").status().walks[0];
    assert!(walk.used > 2500, "{walk:?}");
    let world = run_warm(&tree, &acts, &acts, true);
    assert!(world.reported < 200, "{}", world.reported);
}

/// Walks with unreported opens do not count as short ones.
#[test]
fn quiet_walks_do_not_count_in_the_lengths() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.warm(&acts);
    world.notify(foreseek_walks::Event::Program { pid: foreseek_seam::ProcessId(1), user: 0, name: b"grep" });
    for _ in 0..20 {
        acts.iter().for_each(|act| world.act(*act));
        world.rest();
    }
    world.evict();
    acts.iter().for_each(|act| world.act(*act));
    let walk = &world.engine.as_ref().expect("an engine").status().walks[0];
    assert!(walk.used * 10 >= tree.files() as u64 * 7, "{walk:?}");
}

/// A tree ten times the memory: held bytes stay within it, and half of the gain is left.
#[test]
fn memory_bounds_the_held_bytes() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let settings = Settings { budget: tree.bytes() / 10, ..Settings::default() };
    let ran = run_with(&tree, &acts, settings);
    show("a tenth of the tree in memory", &ran);
    assert!(ran.gain() > 2.0, "{}", ran.gain());
}

/// A program that skips some directories (`--exclude-dir`, `.gitignore`). What was fetched there holds memory only until the
/// program has gone past it.
#[test]
fn skipped_directories_hold_no_memory_for_long() {
    let tree = Tree::new(20_000, Layout::Fresh, 5);
    let above = |at: usize| std::iter::successors(Some(at), |at| tree.directories[*at].parent);
    let is_skipped = |at: usize| above(at).any(|at| at % 16 == 7);
    let mut acts = walk(&tree, Reading::Listing, false);
    acts.retain(|act| match act {
        Act::Directory(at) | Act::File(at, _) => !is_skipped(*at),
        _ => true,
    });
    let settings = Settings { budget: tree.bytes() / 8, ..Settings::default() };
    let ran = run_with(&tree, &acts, settings);
    show("a part of the directories skipped, an eighth of the tree in memory", &ran);
    assert!(ran.gain() > 4.5, "{}", ran.gain());
}

/// The allowance is one for the device and all walks together: programs that come and go spend it once.
#[test]
fn the_allowance_is_not_renewed_by_walks_that_begin() {
    let tree = Tree::new(6000, Layout::Aged(20), 3);
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    let all = walk(&tree, Reading::Listing, false);
    for start in 0..100 {
        for act in all.iter().skip(start * 60).take(20) {
            world.act(*act);
        }
        world.rest();
    }
    let status = world.engine.as_ref().expect("an engine").status();
    eprintln!("a hundred walks of 20 entries: {} of fetches, {} left", world.fetches.time, status.allowance);
    assert!(world.fetches.time <= status.optimum * 4 + Nanos::from_millis(211), "{status:?}");
    assert!(status.ended >= 100);
}

/// A program opens a directory, and those below it without listing the first. The driver gets the process to
/// check only for the top of the walk.
#[test]
fn the_driver_gets_the_process_that_may_pass_through_a_directory() {
    let pid = ProcessId(7);
    let node = |inode| Node { device: DeviceNo(1), inode };
    let mut engine = Walks::new(Settings::default(), Arc::new(Flat));
    let mut asked = Vec::new();
    let mut parent = None;
    for (at, directory) in [node(1), node(2), node(3)].into_iter().enumerate() {
        let mut out = Commands::new();
        let now = Instant(at as u64 + 1);
        engine.on(now, Event::DirectoryOpened { pid, directory, parent }, &mut out);
        asked.extend(out.drain().filter_map(|command| match command {
            Command::List { directory, condition } => Some((directory.node.inode, condition)),
            _ => None,
        }));
        parent = Some(directory);
    }
    asked.sort_by_key(|it| it.0);
    let opened = ListCondition::Opened(pid);
    assert_eq!(asked, [(1, ListCondition::UnlessPassedBy(pid)), (2, opened), (3, opened)]);
}

/// A program that opens all directories, and then files in random order: a training job.
fn in_random_order(tree: &Tree, keep: impl Fn(&common::File) -> bool) -> Vec<Act> {
    let (mut acts, mut files): (Vec<Act>, Vec<Act>) =
        walk(tree, Reading::Listing, false).into_iter().partition(|act| matches!(act, Act::Directory(_)));
    files.retain(|act| matches!(act, Act::File(at, nth) if keep(&tree.directories[*at].files[*nth])));
    Dice(9).shuffle(&mut files);
    acts.append(&mut files);
    acts
}

#[test]
fn a_program_in_random_order_gets_one_pass_over_the_tree() {
    // A pass over an aged tree takes a quarter of the program's own reads, and is made once they have cost as much.
    for (layout, used, least) in [(Layout::Fresh, 0.9, 3.0), (Layout::Aged(10), 0.7, 1.5)] {
        let tree = Tree::new(6000, layout, 11);
        let ran = run(&tree, &in_random_order(&tree, |_| true));
        show(&format!("random order, {layout:?}"), &ran);
        let walk = &ran.status.walks[0];
        assert_eq!((walk.order, walk.wasted), (Some("random"), 0));
        assert!(walk.used as f64 >= used * ran.files as f64, "{walk:?}");
        assert!(ran.gain() > least, "{}", ran.gain());
    }
}

/// As over xfs.
#[test]
fn a_program_in_random_order_gets_its_pass_where_directories_have_no_known_address() {
    let tree = Tree::new(6000, Layout::Fresh, 11);
    let acts = in_random_order(&tree, |_| true);
    let mut stock = World::new(Arc::new(Flat), tree.clone(), None);
    let mut with_engine = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    for world in [&mut stock, &mut with_engine] {
        (world.blind, world.tells) = (true, true);
        acts.iter().for_each(|act| world.act(*act));
    }
    let walk = &with_engine.engine.as_ref().expect("an engine").status().walks[0];
    assert_eq!((walk.order, walk.wasted), (Some("random"), 0));
    assert!(walk.used as f64 > 0.7 * tree.files() as f64, "{walk:?}");
}

#[test]
fn a_refused_batch_is_tried_again_soon() {
    let tree = fresh();
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.refuses = Some(1000);
    walk(&tree, Reading::Listing, false).iter().for_each(|act| world.act(*act));
    let [refused, next] = world.refused_at[..] else { panic!("{:?}", world.refused_at) };
    // After 64 opens, some of which are of directories.
    assert!((48..=64).contains(&(next - refused)), "{refused} {next}");
}

/// All inodes are in memory, and nothing else.
#[test]
fn inodes_in_memory_earn_nothing() {
    let tree = fresh();
    let acts = walk(&tree, Reading::Listing, false);
    let looks: Vec<Act> = acts
        .iter()
        .filter_map(|act| if let Act::File(at, nth) = act { Some(Act::Look(*at, *nth)) } else { None })
        .collect();
    let world = run_warm(&tree, &acts, &looks, true);
    let status = world.engine.as_ref().expect("an engine").status();
    assert!(world.fetches.time > Nanos::ZERO);
    assert!(status.optimum <= world.optimum(), "{} {}", status.optimum, world.optimum());
}

/// Another program has read all before a fetch comes to it: the fetch costs nothing, and its use earns nothing.
#[test]
fn what_others_have_read_meanwhile_earns_nothing() {
    let tree = fresh();
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    world.overtaken = true;
    walk(&tree, Reading::Listing, false).iter().for_each(|act| world.act(*act));
    let status = world.engine.as_ref().expect("an engine").status();
    assert!(!world.batches.is_empty());
    assert!(status.optimum <= world.optimum(), "{} {}", status.optimum, world.optimum());
    assert_eq!((status.held, status.walks[0].fetched), (Bytes::ZERO, 0));
}

/// Two programs read two trees, each with two threads in two directories. A third one opens the directory above: they are one
/// walk from then on, and no directory at which one is at work counts as left.
#[test]
fn walks_that_become_one_keep_their_places() {
    const FILES: usize = 400;
    let mut tree = one_directory(4 * FILES);
    let files: Vec<common::File> = std::mem::take(&mut tree.directories[0].files);
    let mut files = files.chunks(FILES);
    tree.directories[0].listing.clear();
    for at in 1..7 {
        let parent = [0, 0, 1, 1, 2, 2][at - 1];
        let files = if at > 2 { files.next().expect("enough").to_vec() } else { Vec::new() };
        let (inode, lba) = (90_000 + at as u64, 8 * at as u64);
        let listing = (0..files.len()).collect();
        let name = format!("d{at}");
        let directory = common::Directory {
            inode,
            name,
            parent: Some(parent),
            lba,
            files,
            listing,
            ..Default::default()
        };
        tree.directories.push(directory);
        tree.directories[parent].below.push(at);
        tree.directories[parent].listing.push(common::BELOW + at);
    }
    let mut world = World::new(Arc::new(Flat), tree, Some(Settings::default()));
    [1, 3, 4, 2, 5, 6].into_iter().for_each(|at| world.act(Act::Directory(at)));
    for nth in 0..FILES {
        for at in [3, 4, 5, 6] {
            world.act(Act::File(at, nth));
        }
        if nth == FILES / 4 {
            assert_eq!(world.engine.as_ref().expect("an engine").status().walks.len(), 2);
            world.act(Act::Directory(0));
        } else if nth > FILES / 4 {
            let status = world.engine.as_ref().expect("an engine").status();
            assert_eq!((status.walks.len(), status.walks[0].wasted), (1, 0), "{status:?}");
            assert!(status.walks[0].fetched > FILES as u64, "{status:?}");
        }
    }
}

/// Files that do not fit into memory are left to the program, and do not hold up those behind them.
#[test]
fn files_larger_than_memory_do_not_hold_up_others() {
    let mut tree = one_directory(4000);
    let mut large = 0;
    for file in tree.directories[0].files.iter_mut().step_by(20) {
        (file.lba, file.pages) = (100_000_000 + large * 8192, 1024);
        large += 1;
    }
    let settings = Settings { budget: Bytes::mib(2), ..Settings::default() };
    let ran = run_with(&tree, &walk(&tree, Reading::Listing, false), settings);
    show("files larger than memory among others", &ran);
    assert!(ran.status.walks[0].used * 10 >= (4000 - large) * 7, "{:?}", ran.status.walks[0]);
}

/// All files of a tree in random order.
fn gains_in_random_order(name: &str, tree: &Tree) {
    let ran = run(tree, &in_random_order(tree, |_| true));
    show(name, &ran);
    assert_eq!(ran.status.walks[0].order, Some("random"));
    assert!(ran.gain() > 3.0, "{}", ran.gain());
}

#[test]
fn one_large_directory_in_random_order_is_read_in_one_pass() {
    gains_in_random_order("random order, one directory", &one_directory(4000));
}

/// Ten directories of 400 files: a step from one to another is never far.
#[test]
fn few_large_directories_in_random_order_are_read_in_one_pass() {
    let mut tree = one_directory(4000);
    let names: Vec<common::File> = std::mem::take(&mut tree.directories[0].files);
    tree.directories[0].listing.clear();
    for (at, files) in names.chunks(400).enumerate() {
        tree.directories.push(common::Directory {
            inode: 90_000 + at as u64,
            name: format!("class{at}"),
            parent: Some(0),
            lba: 8 * at as u64,
            files: files.to_vec(),
            listing: (0..files.len()).collect(),
            ..Default::default()
        });
        tree.directories[0].below.push(at + 1);
        tree.directories[0].listing.push(common::BELOW + at + 1);
    }
    gains_in_random_order("random order, ten directories", &tree);
}

#[test]
fn a_part_of_a_pass_begins_where_the_program_has_read_and_is_made_once_it_is_allowed() {
    let tree = Tree::new(6000, Layout::Fresh, 11);
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    let mut last = None;
    for act in in_random_order(&tree, |_| true) {
        world.act(act);
        if world.first_batch_at.is_some() {
            last = Some(act);
            break;
        }
    }
    let Some(Act::File(at, nth)) = last else { panic!("nothing was fetched") };
    let mut files: Vec<(u64, usize, usize)> = Vec::new();
    for (at, directory) in tree.directories.iter().enumerate() {
        files.extend(directory.files.iter().enumerate().map(|(nth, file)| (file.lba, at, nth)));
    }
    files.sort_unstable();
    let here = files.iter().position(|(_, a, n)| (*a, *n) == (at, nth)).expect("it is there");
    files.rotate_left(here);
    let held: Vec<bool> = files.iter().map(|(_, at, nth)| world.holds(*at, *nth)).collect();
    let walk = &world.engine.as_ref().expect("an engine").status().walks[0];
    assert!(walk.fetched > 1000 && walk.fetched < 4000, "a part: {walk:?}");
    let fetched = walk.fetched as usize;
    // Those that were opened are there as well.
    let here = held[..fetched].iter().filter(|it| **it).count();
    assert!(here * 10 >= fetched * 9, "{here} {walk:?}");
    assert!(walk.files < 150, "{walk:?}");
}

#[test]
fn a_program_in_random_order_gets_the_classes_that_it_opens() {
    let tree = fresh();
    let ran = run(&tree, &in_random_order(&tree, |file| file.name.ends_with(".c")));
    show("random order, one extension of three", &ran);
    let walk = &ran.status.walks[0];
    assert_eq!(walk.order, Some("random"));
    assert!(walk.fetched <= ran.files, "{walk:?}");
    assert!(ran.gain() > 2.0, "{}", ran.gain());
}

/// A program that stops anywhere has cost at most twice as much, and the allowance.
#[test]
fn a_program_in_random_order_that_stops_costs_at_most_twice_as_much() {
    let tree = fresh();
    let acts = in_random_order(&tree, |_| true);
    let directories = acts.iter().filter(|act| matches!(act, Act::Directory(_))).count();
    let shown = [8, 50, 100, 150, 200, 300, 600, 1200];
    for files in shown.into_iter().chain((21..500).step_by(16)) {
        let ran = run(&tree, &acts[..directories + files]);
        if shown.contains(&files) {
            show(&format!("random order, stops after {files}"), &ran);
        }
        assert!(ran.with_engine <= ran.stock * 2, "{files}: {} and {}", ran.with_engine, ran.stock);
    }
}

/// A server that opens some files of a large tree at random, again and again, gets none once its walks are known.
#[test]
fn a_program_that_opens_few_files_in_random_order_is_left_alone() {
    let tree = fresh();
    let acts = in_random_order(&tree, |_| true);
    let directories = acts.iter().filter(|act| matches!(act, Act::Directory(_))).count();
    let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
    let begin = |world: &mut World| {
        world.evict();
        world.notify(Event::Program { pid: ProcessId(1), user: 0, name: b"imapd" });
        acts[..directories].iter().for_each(|act| world.act(*act));
    };
    let mut fetched = Vec::new();
    for walk in 0..16 {
        begin(&mut world);
        acts[directories + walk * 300..][..300].iter().for_each(|act| world.act(*act));
        let status = world.engine.as_ref().expect("an engine").status();
        fetched.push(status.walks[0].fetched);
        world.rest();
    }
    eprintln!("fetched for walks of 300 files: {fetched:?}");
    assert!(fetched[0] > 0 && fetched[12..].iter().all(|files| *files == 0), "{fetched:?}");
}

/// A program that looks for duplicates (jdupes): it opens all directories, and goes through the files in reverse. Of
/// files of one length it opens the first two together, which lie anywhere, and then each further one.
fn looking_for_duplicates(tree: &Tree, lengths: u64, seed: u64) -> Vec<Act> {
    let (mut acts, files): (Vec<Act>, Vec<Act>) =
        walk(tree, Reading::Listing, false).into_iter().partition(|act| matches!(act, Act::Directory(_)));
    let (mut dice, mut first) = (Dice(seed), HashMap::new());
    for file in files.into_iter().rev() {
        // Short ones are more frequent.
        let length = dice.roll(lengths) * dice.roll(lengths) / lengths;
        match first.entry(length) {
            Entry::Vacant(none) => drop(none.insert(Some(file))),
            Entry::Occupied(mut one) => {
                acts.extend(one.get_mut().take());
                acts.push(file);
            }
        }
    }
    acts
}

/// Most of its moves go to earlier directories, and every second one to where it was long ago. That is no order,
/// whatever part of the files it opens: a third, a half or two thirds.
#[test]
fn a_program_that_looks_for_duplicates_gets_one_pass_over_the_tree() {
    for lengths in [8000, 16_000, 30_000] {
        for seed in 1..5 {
            let tree = Tree::new(6000, Layout::Fresh, seed);
            let ran = run(&tree, &looking_for_duplicates(&tree, lengths, seed));
            show(&format!("duplicates, {lengths} lengths, tree {seed}"), &ran);
            assert_eq!(ran.status.walks[0].order, Some("random"));
            assert!(ran.gain() > 3.0, "{}", ran.gain());
        }
    }
}

/// A program that goes through a tree and opens a part of the files anywhere: those of one owner, or of one day. Over
/// a fresh tree a pass over all pays for a quarter of them. Over an aged one it does not, and hardly anything is spent
/// on inodes for it.
#[test]
fn a_program_that_opens_a_part_of_the_files_gains_or_loses_little() {
    let layouts = [(Layout::Fresh, "fresh"), (Layout::Aged(10), "somewhat aged"), (Layout::Aged(40), "aged")];
    for (layout, name) in layouts {
        for percent in [75, 55, 45, 35, 28, 20, 10] {
            let tree = Tree::new(6000, layout, 11);
            let mut dice = Dice(percent);
            let mut acts = walk(&tree, Reading::Listing, false);
            acts.retain(|act| !matches!(act, Act::File(..)) || dice.roll(100) < percent);
            let ran = run(&tree, &acts);
            show(&format!("{percent} % of the files, {name}"), &ran);
            let least = if name == "fresh" && percent > 25 { 5.0 } else { 0.98 };
            assert!(ran.gain() > least, "{percent} {name}: {}", ran.gain());
            let most = if name == "fresh" { 1.0 } else { 0.25 };
            let part = ran.fetched.get() as f64 / ran.stock.get() as f64;
            assert!(percent > 50 || part < most, "{percent} {name}: {part}");
        }
    }
}

/// With memory for a quarter of the tree nothing is fetched until twice the memory is left: pages would wait for most
/// of the program.
#[test]
fn a_tree_in_random_order_that_does_not_fit_into_memory_gains_at_its_end() {
    let tree = fresh();
    let settings = Settings { budget: tree.bytes() / 4, ..Settings::default() };
    let ran = run_with(&tree, &in_random_order(&tree, |_| true), settings);
    show("random order, a quarter of the tree in memory", &ran);
    let walk = &ran.status.walks[0];
    assert!(walk.fetched > 0 && walk.fetched * 2 < ran.files, "{walk:?}");
    assert!(ran.gain() > 1.2, "{}", ran.gain());
    let half = run_with(&tree, &in_random_order(&tree, |_| true)[..2000], settings);
    assert_eq!((half.status.walks[0].fetched, half.status.walks[0].stopped), (0, Stopped::Memory));
}

/// `find | sort | xargs`: the directories follow one another in an order that no listing has, but each is read
/// to its end.
#[test]
fn a_program_that_finishes_each_directory_is_in_order() {
    let tree = fresh();
    let mut acts = in_random_order(&tree, |_| true);
    let path = |act: &Act| {
        let (Act::Directory(mut at) | Act::File(mut at, _) | Act::Look(mut at, _) | Act::Named(mut at, _)) =
            *act;
        let mut names = match act {
            Act::File(at, nth) => vec![tree.directories[*at].files[*nth].name.clone()],
            _ => Vec::new(),
        };
        while let Some(parent) = tree.directories[at].parent {
            names.push(tree.directories[at].name.clone());
            at = parent;
        }
        names.reverse();
        names
    };
    let directories = acts.iter().filter(|act| matches!(act, Act::Directory(_))).count();
    acts[directories..].sort_by_key(path);
    let ran = run(&tree, &acts);
    show("find sort xargs", &ran);
    assert_eq!(ran.status.walks[0].order, Some("name"));
}

/// All files of a tree by their paths, sorted: `git grep` reads its index so.
fn by_path(tree: &Tree) -> Vec<Act> {
    let path = |at: usize| {
        let above = std::iter::successors(Some(at), |at| tree.directories[*at].parent);
        let mut names: Vec<&str> = above.map(|at| tree.directories[at].name.as_str()).collect();
        names.reverse();
        names.join("/")
    };
    let mut files: Vec<(String, Act)> = tree
        .directories
        .iter()
        .enumerate()
        .flat_map(|(at, it)| it.files.iter().enumerate().map(move |(nth, file)| (at, nth, file)))
        .map(|(at, nth, file)| (format!("{}/{}", path(at), file.name), Act::Named(at, nth)))
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files.into_iter().map(|(_, act)| act).collect()
}

#[test]
fn a_program_with_a_list_of_files_gains_like_one_that_lists() {
    for layout in [Layout::Fresh, Layout::Aged(20)] {
        let tree = Tree::new(6000, layout, 11);
        let listed = run(&tree, &walk(&tree, Reading::Name, false));
        show(&format!("lists, by name, {layout:?}"), &listed);
        let ran = run(&tree, &by_path(&tree));
        show(&format!("by a list of paths, {layout:?}"), &ran);
        let walk = &ran.status.walks[0];
        assert_eq!(walk.order, Some("name"));
        assert!(walk.wasted * 20 <= walk.fetched, "{walk:?}");
        assert!(ran.gain() > 0.9 * listed.gain(), "{} {}", ran.gain(), listed.gain());
    }
}

/// A training job with a manifest.
#[test]
fn a_list_in_random_order_is_read_in_one_pass() {
    let tree = fresh();
    let mut acts = by_path(&tree);
    Dice(9).shuffle(&mut acts);
    let ran = run(&tree, &acts);
    show("by a list of paths, in random order", &ran);
    assert_eq!(ran.status.walks[0].order, Some("random"));
    assert!(ran.gain() > 3.0, "{}", ran.gain());
}

/// The engine sees how long its fetches of inodes take, and expects as much of those of contents.
#[test]
fn a_disk_that_sorts_its_queue_is_asked_sooner() {
    let tree = Tree::new(6000, Layout::Aged(20), 11);
    let acts = walk(&tree, Reading::Listing, false);
    let first_batch = |sorts| {
        let mut world = World::new(Arc::new(Flat), tree.clone(), Some(Settings::default()));
        world.sorts = sorts;
        acts.iter().for_each(|act| world.act(*act));
        world.first_batch_at.expect("contents were fetched")
    };
    let [sorted, one_by_one] = [true, false].map(first_batch);
    eprintln!("files opened before the first batch: {sorted}, and {one_by_one} where nothing is sorted");
    assert!(sorted * 4 <= one_by_one * 3, "{sorted} {one_by_one}");
}

/// Another program has opened a file by its path in the tree. Directories that a program lists are listed as ever; the
/// one that was entered waits for more files.
#[test]
fn a_program_with_a_list_does_not_delay_one_that_lists() {
    let node = |inode| Node { device: DeviceNo(1), inode };
    let mut engine = Walks::new(Settings::default(), Arc::new(Flat));
    let [bystander, lister] = [ProcessId(7), ProcessId(8)];
    let entered = Event::DirectoryEntered { pid: bystander, directory: node(10), parent: Some(node(1)) };
    let opened = Event::FileOpened { pid: bystander, directory: node(10), file: node(100) };
    let directories = [(1, None), (2, Some(1)), (3, Some(1))].map(|(inode, parent)| Event::DirectoryOpened {
        pid: lister,
        directory: node(inode),
        parent: parent.map(node),
    });
    let mut asked = Vec::new();
    for (at, event) in [entered, opened].into_iter().chain(directories).enumerate() {
        let mut out = Commands::new();
        engine.on(Instant(at as u64 + 1), event, &mut out);
        asked.extend(out.drain().filter_map(|command| match command {
            Command::List { directory, condition } => Some((directory.node.inode, condition)),
            _ => None,
        }));
    }
    asked.sort_by_key(|it| it.0);
    assert_eq!(asked.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(asked.iter().all(|it| it.1 != ListCondition::InMemory));
    // It lists that one, too.
    let mut out = Commands::new();
    let event = Event::DirectoryOpened { pid: lister, directory: node(10), parent: Some(node(1)) };
    engine.on(Instant(9), event, &mut out);
    let condition = ListCondition::Opened(lister);
    assert!(out.drain().any(
        |it| matches!(it, Command::List { directory, condition: it } if directory.node == node(10) && it == condition)
    ));
}

/// A program opens directories, and the driver finds one too large to be read for it. It is asked for again eight opens later:
/// the program may have listed it meanwhile.
#[test]
fn an_opened_directory_that_is_not_listed_is_asked_for_again() {
    let pid = ProcessId(7);
    let node = |inode| Node { device: DeviceNo(1), inode };
    let mut engine = Walks::new(Settings::default(), Arc::new(Flat));
    let mut asked = Vec::new();
    let directory = node(1);
    let opens = (2..40).map(|file| Event::FileOpened { pid, directory, file: node(file) });
    let events = [Event::DirectoryOpened { pid, directory, parent: None }].into_iter().chain(opens);
    for (at, event) in events.enumerate() {
        let mut out = Commands::new();
        engine.on(Instant(at as u64 + 1), event, &mut out);
        if out.drain().any(|it| {
            it == Command::List {
                directory: InDirectory { node: directory, directory },
                condition: ListCondition::Opened(pid),
            }
        }) {
            asked.push(at);
            engine.on(Instant(at as u64 + 1), Event::Unlistable { directory }, &mut out);
        }
    }
    assert_eq!(asked, [2, 10, 18, 26, 34]);
}

/// A driver that reported nothing for a while reports the directories that hold those that are opened then. The walk goes on
/// from there, as if their opens had been reported.
#[test]
fn a_walk_is_found_from_below() {
    let node = |inode| Node { device: DeviceNo(1), inode };
    let pid = ProcessId(7);
    let opened =
        |inode, above| Event::DirectoryOpened { pid, directory: node(inode), parent: Some(node(above)) };
    let below = |inode, above| Event::OpenedBelow { pid, directory: node(inode), parent: Some(node(above)) };
    let mut engine = Walks::new(Settings::default(), Arc::new(Flat));
    let mut asked = Vec::new();
    let file = Event::FileOpened { pid, directory: node(12), file: node(100) };
    let events = [
        opened(11, 10),
        below(10, 1),
        opened(12, 10),
        file,
        below(10, 1),
        opened(13, 10),
        below(1, 0),
        opened(20, 1),
    ];
    for (at, event) in (1..).zip(events) {
        let mut out = Commands::new();
        engine.on(Instant(at), event, &mut out);
        asked.extend(out.drain().filter_map(|command| match command {
            Command::List { directory, condition } => Some((directory.node.inode, condition)),
            _ => None,
        }));
    }
    let walks = engine.status().walks;
    assert_eq!(walks.iter().map(|walk| (walk.top, walk.directories)).collect::<Vec<_>>(), [(node(1), 6)]);
    // Those above among them: what comes next is known from their listings. Nobody may have read these.
    let in_memory = [10, 1].map(|inode| (inode, ListCondition::InMemory));
    assert!(in_memory.iter().all(|it| asked.contains(it)), "{asked:?}");
}
