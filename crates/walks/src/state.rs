//! The state of an engine.

use crate::classes::Classes;
use crate::costs::Model;
use crate::ledger::{Earned, Ledger};
use crate::parts::{Class, Parts};
use crate::speed::Speed;
use crate::tree::{Item, Key, Tree, flag};
use crate::walk::Walk;
use crate::{Command, Kind, Node, Settings, Status, Stopped, WalkStatus};
use foreseek_seam::FetchId;
use foreseek_units::{Bytes, DeviceCosts, Instant, Lba, Nanos, SECTORS_PER_PAGE, SectorSpan, Sectors};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most live walks. Each directory that is opened at rest may begin one, and then [replaces](crate::shares)
/// another. A status of this many is readable, and a search among them costs less than an event.
pub(crate) const WALKS_LIMIT: usize = 64;

/// The name of no order for the status.
const RANDOM: &str = "random";

/// The data of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchKind {
    /// Inodes.
    Inodes,
    /// Blocks of directories.
    Blocks,
    /// Contents of files.
    Contents,
}

/// An entry with a request. It may have been dropped meanwhile, or its directory listed again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) directory: Key,
    pub(crate) entry: u32,
    pub(crate) inode: u64,
}

/// A request for the address of an entry that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingPlace {
    pub(crate) walk: usize,
    pub(crate) about: About,
    pub(crate) asked: Asked,
}

/// Of what an address is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Of a file that may be fetched.
    File,
    /// Of a directory's blocks.
    Directory,
    /// Of a file that a program has opened, to learn how much of it is in memory.
    Opened(Class),
}

/// A fetch that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct PendingFetch {
    /// `None` if that walk is over.
    pub(crate) walk: Option<usize>,
    pub(crate) kind: FetchKind,
    pub(crate) items: Vec<About>,
    pub(crate) charge: Nanos,
    /// What uses of its items will have earned once it is known that it has read something.
    pub(crate) earned: Earned,
    /// When it was requested.
    pub(crate) begun: Instant,
    /// It reads as much from the device at least, if nothing of it is in memory; zero if its end is not reported.
    pub(crate) least: Bytes,
}

impl PendingFetch {
    /// Whether most of it had to be read, and its end is known.
    pub(crate) fn is_whole(&self, fetched: Bytes) -> bool {
        !self.least.is_zero() && fetched.get() >= self.least.get() / 4 * 3
    }
}

/// The state of an engine.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) ledger: Ledger,
    pub(crate) speed: Speed,
    /// The time of the present event.
    pub(crate) now: Instant,
    pub(crate) tree: Tree,
    pub(crate) walks: Vec<Option<Walk>>,
    pub(crate) in_flight: FxHashMap<FetchId, PendingFetch>,
    pub(crate) next_fetch: u64,
    /// Directories whose listing was requested and is not answered yet, of walks that are over as well, and for which
    /// user.
    pub(crate) lists: FxHashMap<Node, Option<u32>>,
    /// Entries whose addresses were requested.
    pub(crate) asked: FxHashMap<Node, PendingPlace>,
    pub(crate) classes: Classes,
    pub(crate) parts: Parts,
    pub(crate) outbox: VecDeque<Command>,
    /// How many directories programs have opened.
    pub(crate) ranks: u64,
    pub(crate) held: Bytes,
    /// Of all walks: fetched, used, wasted.
    pub(crate) totals: [Bytes; 3],
    pub(crate) ended: u64,
}

impl State {
    /// A state without walks.
    pub(crate) fn new(settings: Settings, costs: Arc<dyn DeviceCosts>) -> Self {
        let ledger = Ledger::new(Model::new(costs), settings.rho, settings.start);
        Self {
            settings,
            ledger,
            speed: Speed::default(),
            now: Instant::ZERO,
            tree: Tree::default(),
            walks: vec![None; WALKS_LIMIT],
            in_flight: FxHashMap::default(),
            next_fetch: 0,
            lists: FxHashMap::default(),
            asked: FxHashMap::default(),
            classes: Classes::default(),
            parts: Parts::default(),
            outbox: VecDeque::new(),
            ranks: 0,
            held: Bytes::ZERO,
            totals: [Bytes::ZERO; 3],
            ended: 0,
        }
    }

    /// The live walks.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Walk> {
        self.walks.iter().flatten()
    }

    /// The highest price of a walk's next fetch.
    pub(crate) fn allowed(&self, at: usize) -> Nanos {
        let allowed = |walk: &Walk| self.room(at).min(self.speed.price_of(walk.account.cost()));
        self.walks[at].as_ref().map_or(Nanos::ZERO, allowed)
    }

    /// The most that a walk's next fetch may turn out to cost within the bound, whatever it is expected to cost.
    pub(crate) fn room(&self, at: usize) -> Nanos {
        self.walks[at]
            .as_ref()
            .map_or(Nanos::ZERO, |walk| self.ledger.room(&walk.account, self.deficits_beside(at)))
    }

    /// The deficits of all other live walks.
    fn deficits_beside(&self, at: usize) -> Nanos {
        let others = self.walks.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.filter_map(|(_, walk)| walk.as_ref());
        others.map(|walk| self.ledger.deficit(&walk.account)).sum()
    }

    /// Records a fetch.
    pub(crate) fn start_fetch(
        &mut self,
        at: usize,
        kind: FetchKind,
        items: Vec<About>,
        charge: Nanos,
        least: Bytes,
    ) -> FetchId {
        let fetch = FetchId(self.next_fetch);
        self.next_fetch += 1;
        if let Some(walk) = &mut self.walks[at] {
            self.ledger.charge(&mut walk.account, charge);
            match kind {
                FetchKind::Contents => walk.contents = Some(fetch),
                FetchKind::Inodes | FetchKind::Blocks => walk.metadata = Some(fetch),
            }
        }
        let begun = self.now;
        self.mark(&items, flag::IN_FLIGHT);
        let earned = Earned::default();
        self.in_flight
            .insert(fetch, PendingFetch { walk: Some(at), kind, items, charge, earned, begun, least });
        fetch
    }

    /// Records what the use of an item has earned: at once, or when it is known whether its fetch has read anything.
    pub(crate) fn earn(&mut self, at: usize, item: &Item, earned: Earned) {
        let Some(walk) = &mut self.walks[at] else { return };
        let flights = [walk.metadata, walk.contents];
        let flights = &flights[..2 * usize::from(item.is(flag::IN_FLIGHT))];
        let kind = match item.kind {
            _ if !item.is(flag::FETCHED) => FetchKind::Inodes,
            Kind::Directory => FetchKind::Blocks,
            Kind::File | Kind::Other => FetchKind::Contents,
        };
        let is_its = |it: &&FetchId| self.in_flight.get(it).is_some_and(|it| it.kind == kind);
        let flight = flights.iter().flatten().find(is_its).copied();
        match flight.and_then(|it| self.in_flight.get_mut(&it)) {
            Some(flight) => flight.earned += earned,
            None => self.ledger.earn(&mut walk.account, earned),
        }
    }

    /// Bytes are held no more.
    pub(crate) fn release(&mut self, at: usize, bytes: Bytes) {
        self.held -= bytes;
        if let Some(walk) = &mut self.walks[at] {
            walk.held -= bytes;
        }
    }

    /// The time at which the next walk is over without events.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.live().map(|walk| walk.last + self.settings.idle).min()
    }

    /// The present status.
    pub(crate) fn status(&self) -> Status {
        let mut walks: Vec<WalkStatus> = self.live().filter_map(|walk| self.describe(walk)).collect();
        walks.sort_by_key(|walk| std::cmp::Reverse((walk.files, walk.directories)));
        let (directories, entries) = self.tree.counts();
        let (spent, optimum, allowance) = self.ledger.sums();
        let [fetched_bytes, used, wasted] = self.totals;
        Status {
            walks,
            ended: self.ended,
            periods: self.ledger.periods(),
            directories: directories as u64,
            entries: entries as u64,
            spent,
            optimum,
            allowance,
            fetched_bytes,
            used,
            wasted,
            held: self.held,
        }
    }

    fn describe(&self, walk: &Walk) -> Option<WalkStatus> {
        Some(WalkStatus {
            top: self.tree.get(walk.top)?.node,
            directories: walk.directories,
            files: walk.files,
            fetched: walk.fetched,
            used: walk.used,
            wasted: walk.wasted,
            fetched_bytes: walk.fetched_bytes,
            held: walk.held,
            order: if walk.random { Some(RANDOM) } else { walk.usual().map(crate::order::Order::name) },
            has_list: walk.has_list,
            opens_directories: walk.opens_directories,
            stopped: if walk.quiet.is_some() { Stopped::InMemory } else { walk.stopped },
        })
    }
}

/// The block of 4 KiB that holds an inode.
pub(crate) fn block(lba: Lba) -> SectorSpan {
    let start = Lba(lba.get() / SECTORS_PER_PAGE * SECTORS_PER_PAGE);
    SectorSpan::at(start, Sectors(SECTORS_PER_PAGE))
}
