//! Plans the next fetch: directories and inodes first, then contents, in batches that cost as much as is
//! allowed.
//!
//! A *look* visits the entries that a walk is expected to open ([`Walk::expect`](crate::walk::Walk::expect)) as
//! far as the allowed cost may reach. It requests what is needed to fetch them, in this order, each sorted by
//! inode number or address:
//!
//! 1. listings of directories whose blocks are in memory, and addresses of files and directories whose inodes
//!    are,
//! 2. inodes,
//! 3. blocks of directories.
//!
//! When nothing of these is left, it fetches contents. It takes files in the order in which they are expected,
//! until one pass over them costs what [`crate::ledger`] allows or memory is full, and sorts them by address.
//! The next batch is made when half of the last one is used or passed, so that a few large batches follow one
//! another without a pause.
//!
//! All that is one *round*. In a round that is to fetch contents, half of the allowance is for directories and
//! inodes. They are fetched if that takes at most a quarter of the time that the program takes for their files
//! without prefetching ([`crate::pace`]).
//!
//! If the contents of all known files are worth a pass, and those that are allowed are not, directories and inodes
//! wait as well: they would take what is saved for it.
//!
//! The allowance is kept for a larger batch in two cases. A pass over the found files may cost hardly less than
//! the program's own reads in their order, or than the program's time for them at its pace. Or a pass over all
//! that is expected is allowed soon. A round without result is repeated when the walk has cost an eighth more,
//! so that the work of looks is a constant for each open.

use crate::state::{About, FetchKind, State};
use crate::sweep::Sweep;
use crate::tree::{BLOCKS_LIMIT, Listing, flag};
use crate::walk::inode_block;
use crate::{Command, InDirectory, Kind, LISTS_LIMIT, NODES_LIMIT, Node, PARTS_LIMIT, Part, Stopped};
use foreseek_units::{Bytes, Lba, Nanos, PageSpan, Position, SectorSpan, Span};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// Files that a walk opens before any of it is fetched: programs that open a few files cost nothing.
pub(crate) const FILES_FIRST: u64 = 8;
/// Directories opened, or look-ups, before directories and inodes are fetched for a walk that opens no files.
const DIRECTORIES_FIRST: u64 = 8;
const LOOKUPS_FIRST: u64 = 16;
/// The least number of expected files that a look searches for: the size of the smallest batches.
const HORIZON_LEAST: u64 = 32;
/// The most entries that one look visits: a look takes some milliseconds at most.
const VISITS_LIMIT: u64 = 1 << 17;
/// Files that cannot be fetched yet and that a batch may skip, in addition to a quarter of its size. The
/// program reads them itself, and must not take long to reach the fetched ones.
const UNKNOWN_LIMIT: u64 = 16;
/// How many of these a directory counts for that is not listed: its subtree may be large.
const SUBTREE_WORTH: u64 = 64;
/// How many expected files a directory counts for that is not listed yet: the median of source trees.
const DIRECTORY_WORTH: u64 = 4;

/// The divisor for the part of the allowance that directories and inodes may take in a round that is to fetch
/// contents: half.
const METADATA_SHARE: u64 = 2;
/// A round without result is repeated when the walk has cost an eighth more.
const PATIENCE: u64 = 8;
/// How much cheaper a file may be than in the last round, for the range of a look.
const OPTIMISM: u64 = 16;

/// For a walk that opens no files, fetches that do not halve the cost of single reads may take this part of the
/// walk's cost: a fiftieth. Without them the first levels of a tree, which are narrow, would never be read.
const TRIAL_SHARE: u64 = 50;
/// Directories and inodes of files are fetched if that takes at most this part of the time that the program
/// takes for these files without prefetching: a quarter. Half then remains for contents, and a quarter as gain.
const METADATA_DIVISOR: u64 = 4;

/// Whether a pass is cheaper than single reads by a quarter. A smaller gain is not certain, and small batches
/// would consume the allowance of a better larger one.
fn pays(price: Nanos, alone: Nanos) -> bool {
    price * 4 <= alone * 3
}

/// If more than an eighth of the expected entries is unknown, a pass over all of them cannot be priced.
const KNOWN_SHARE: u64 = 8;

/// The contents of one pass.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) taken: Vec<About>,
    price: Nanos,
    bytes: Bytes,
    /// The cost of a pass over all expected files that fit into memory, and their number.
    whole: Nanos,
    pub(crate) all: usize,
    /// The cost of reading them in the order in which they are expected.
    pub(crate) alone: Nanos,
    /// The same of all.
    all_alone: Nanos,
}

/// The kind of data that is fetched for a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Directories,
    Inodes,
    Files,
}

/// The result of a look.
#[derive(Debug, Default)]
pub(crate) struct Found {
    lists: Vec<InDirectory>,
    /// Directories whose blocks may have to be read, at an unknown address.
    unread: Vec<(InDirectory, About)>,
    inodes: Vec<About>,
    places: Vec<About>,
    blocks: Vec<About>,
    pub(crate) files: Vec<About>,
    /// Expected files whose contents can, or may later, be fetched.
    ahead: u64,
    /// Earlier expected entries that cannot be fetched yet.
    pub(crate) unknown: u64,
    visits: u64,
}

impl State {
    /// Continues a round, or begins one.
    pub(crate) fn advance(&mut self, at: usize) {
        let Some(walk) = self.walks[at].as_ref().filter(|_| !self.is_quiet(at)) else { return };
        if walk.lists > 0 || walk.places > 0 || walk.metadata.is_some() {
            return;
        }
        let Some(aim) = self.aim(at) else { return };
        if walk.round.is_none() {
            if walk.clock < walk.look_at || walk.account.cost() < walk.next_cost {
                return;
            }
            let begun = self.begin_round(at, aim);
            let Some(walk) = &mut self.walks[at] else { return };
            match begun {
                Ok(budget) => {
                    walk.round = Some(budget);
                    self.first_sample(at);
                }
                Err(stopped) => {
                    walk.stopped = stopped;
                    return self.give_up_trial(at);
                }
            }
        }
        let mut stopped = self.next_step(at, aim);
        while stopped.is_some_and(|stopped| self.judge(at, stopped)) {
            stopped = self.next_step(at, aim);
        }
        let Some(stopped) = stopped else { return };
        if let Some(walk) = &mut self.walks[at] {
            (walk.round, walk.stopped) = (None, stopped);
            walk.look_at = walk.clock + (walk.clock / PATIENCE).max(1);
            let grown = walk.account.cost() + walk.account.cost() / PATIENCE;
            walk.next_cost = if stopped == Stopped::No { Nanos::ZERO } else { grown };
        }
    }

    fn aim(&self, at: usize) -> Option<Aim> {
        let walk = self.walks[at].as_ref()?;
        if walk.files >= FILES_FIRST && self.settings.contents {
            return Some(Aim::Files);
        }
        if walk.lookups >= LOOKUPS_FIRST || walk.files >= FILES_FIRST {
            return Some(Aim::Inodes);
        }
        (walk.directories >= DIRECTORIES_FIRST).then_some(Aim::Directories)
    }

    /// Whether a round may begin, and how much of it may be spent on directories and inodes; or why not.
    fn begin_round(&self, at: usize, aim: Aim) -> Result<Nanos, Stopped> {
        let Some(walk) = &self.walks[at] else { return Err(Stopped::TooShort) };
        if aim == Aim::Files {
            // If it has opened many other files meanwhile, it will not reach the fetched ones soon.
            let astray = walk.files.saturating_sub(walk.used + walk.files_at_batch) > walk.batch * 2;
            if walk.contents.is_some() || (walk.waiting() * 2 > walk.batch && !astray) {
                return Err(Stopped::No);
            }
        }
        let allowed = self.allowed(at);
        // In random order addresses are asked for even so: what is used earns nothing without them.
        let too_little = if walk.random {
            walk.account.cost() < self.least_pass()
        } else {
            allowed < self.ledger.model().near() * 2
        };
        if too_little {
            return Err(Stopped::Allowance);
        }
        Ok(if aim == Aim::Files { allowed / METADATA_SHARE } else { allowed })
    }

    /// Why contents must not be fetched, whatever the allowance.
    fn obstacle(&self, at: usize) -> Option<Stopped> {
        let walk = self.walks[at].as_ref()?;
        if walk.random {
            return None;
        }
        let cursor = walk.cursor.and_then(|cursor| self.tree.get(cursor));
        if cursor.is_some_and(|it| it.listing == Listing::Known && walk.order(it).is_none()) {
            return Some(Stopped::NoOrder);
        }
        walk.selects().then_some(Stopped::Selective)
    }

    /// The next step of a round. `None` while answers are outstanding; at the end, why nothing more is fetched.
    fn next_step(&mut self, at: usize, aim: Aim) -> Option<Stopped> {
        let walk = self.walks[at].as_ref()?;
        if aim == Aim::Files
            && walk.sample.is_none()
            && let Some(obstacle) = self.obstacle(at)
        {
            return Some(obstacle);
        }
        let allowed = self.allowed(at);
        let price = walk.price.unwrap_or(self.ledger.model().near()).max(Nanos(OPTIMISM)) / OPTIMISM;
        let random = walk.random;
        let horizon = if random {
            VISITS_LIMIT
        } else {
            let more = self.classes.more(walk.program, walk.files);
            (allowed.get() / price.get()).max(HORIZON_LEAST).min(more)
        };
        let sample = walk.sample;
        let horizon = horizon.min(sample.map_or(VISITS_LIMIT, |sample| sample.count));
        let found = self.find(at, aim, horizon);
        if aim == Aim::Files && sample.is_none() && !random && self.saves_for_contents(at, &found.files) {
            return Some(Stopped::Allowance);
        }
        if self.ask(at, &found)
            || self.fetch_inodes(at, aim, &found.inodes)
            || self.fetch_blocks(at, aim, &found.blocks)
        {
            return None;
        }
        if let Some(walk) = self.walks[at].as_mut().filter(|_| sample.is_some() && !found.files.is_empty()) {
            // The sample is far from the entries that are needed next.
            walk.resident = 0;
            return Some(Stopped::Complete);
        }
        Some(if random { self.fetch_in_any_order(at, found) } else { self.fetch_contents(at, &found) })
    }

    /// Visits the expected entries.
    fn find(&self, at: usize, aim: Aim, horizon: u64) -> Found {
        let mut found = Found::default();
        let Some(walk) = &self.walks[at] else { return found };
        let classes = walk.classes_in_any_order(&self.tree);
        let wants = |class: u8| match &classes {
            Some(wanted) => wanted.get(usize::from(class)).copied().unwrap_or(true),
            None => walk.wants(class),
        };
        walk.expect(&self.tree, |key, entry, item| {
            if walk.sample.is_some_and(|sample| sample.spread) && walk.cursor != Some(key) {
                return false;
            }
            found.visits += 1;
            let taken = walk.sample.is_none_or(|it| item.kind == Kind::File && found.visits % it.stride == 0);
            if !taken {
                return found.visits < VISITS_LIMIT;
            }
            let about = About { directory: key, entry, inode: item.inode };
            if item.kind == Kind::Directory {
                self.find_directory(about, aim, &mut found);
            } else if aim != Aim::Directories && wants(item.class) && !item.is(flag::FETCHED) {
                let placed = item.is(flag::PLACED);
                found.unknown += u64::from(!placed);
                if aim == Aim::Files && placed && item.pieces != crate::tree::NO_PIECES {
                    if walk.random || found.unknown <= UNKNOWN_LIMIT + found.files.len() as u64 / 4 {
                        found.files.push(about);
                    }
                    found.ahead += 1;
                } else if !placed && !walk.holds(item) && !item.is(flag::INODE_ASKED) {
                    found.inodes.push(about);
                    found.ahead += 1;
                } else if aim == Aim::Files && !placed && !item.is(flag::PLACE_ASKED) && walk.holds(item) {
                    found.places.push(about);
                    found.ahead += 1;
                }
            }
            found.ahead < horizon && found.visits < VISITS_LIMIT
        });
        found
    }

    fn find_directory(&self, about: About, aim: Aim, found: &mut Found) {
        let Some(walk) = self.tree.get(about.directory).and_then(|it| self.walks[it.walk as usize].as_ref())
        else {
            return;
        };
        let Some((above, item)) =
            self.tree.get(about.directory).zip(self.tree.item(about.directory, about.entry))
        else {
            return;
        };
        let node = Node { device: above.node.device, inode: item.inode };
        let name = InDirectory { node, directory: above.node };
        let below = self.tree.key(node).and_then(|key| self.tree.get(key));
        if below.is_some_and(|it| it.listing != Listing::None) {
            return;
        }
        found.unknown += (self.mean_entries() * 2).min(SUBTREE_WORTH);
        if below.is_some_and(|it| it.opened) || item.is(flag::FETCHED) {
            found.lists.push(name);
        } else if item.is(flag::PLACED) {
            match item.pieces {
                crate::tree::NO_PIECES if item.is(flag::RESIDENT) => found.lists.push(name),
                crate::tree::NO_PIECES if item.blocks() < BLOCKS_LIMIT => found.unread.push((name, about)),
                crate::tree::NO_PIECES => {}
                _ => found.blocks.push(about),
            }
        } else if walk.holds(item) {
            if !item.is(flag::PLACE_ASKED) {
                found.places.push(about);
            }
        } else if !item.is(flag::INODE_ASKED) {
            found.inodes.push(about);
        }
        found.ahead += if aim == Aim::Directories { 1 } else { DIRECTORY_WORTH };
    }

    /// Requests listings and addresses. They cost the device nothing if the data that they need is in memory, other
    /// than listings of directories whose blocks have no known address ([`crate::unplaced`]).
    fn ask(&mut self, at: usize, found: &Found) -> bool {
        for name in found.lists.iter().take(LISTS_LIMIT) {
            self.list_below(at, *name);
        }
        self.list_unplaced(at, &found.unread);
        self.ask_places(at, &found.places[..found.places.len().min(NODES_LIMIT)]);
        self.walks[at].as_ref().is_some_and(|walk| walk.places > 0 || walk.lists > 0)
    }

    /// Requests the addresses of these files.
    pub(crate) fn ask_places(&mut self, at: usize, entries: &[About]) {
        let mut files: Vec<(InDirectory, About)> =
            entries.iter().filter_map(|about| Some((self.name(*about)?, *about))).collect();
        files.sort_unstable_by_key(|(name, _)| *name);
        let Some(walk) = &mut self.walks[at] else { return };
        for (name, about) in &files {
            let item = self.tree.item_mut(about.directory, about.entry);
            if item.is_some_and(|item| item.set(flag::PLACE_ASKED))
                && self.asked.insert(name.node, (at, *about)).is_none()
            {
                walk.places += 1;
            }
        }
        if !files.is_empty() {
            let files = files.into_iter().map(|(name, _)| name).collect();
            self.outbox.push_back(Command::Place { files });
        }
    }

    /// Lists a directory that a listing named; returns whether it was requested.
    pub(crate) fn list_below(&mut self, at: usize, name: InDirectory) -> bool {
        let key = self.tree.key(name.node).or_else(|| {
            if !self.tree.has_room() {
                self.retire();
            }
            let key =
                self.tree.has_room().then(|| self.tree.add(name.node, Some(name.directory), at as u32))?;
            self.walks[at].as_mut()?.all.push(key);
            Some(key)
        });
        key.is_some_and(|key| self.list(at, key, None))
    }

    fn name(&self, about: About) -> Option<InDirectory> {
        let directory = self.tree.get(about.directory)?.node;
        Some(InDirectory { node: Node { device: directory.device, inode: about.inode }, directory })
    }

    /// The mean number of entries of a directory.
    fn mean_entries(&self) -> u64 {
        let (directories, entries) = self.tree.counts();
        (entries / directories.max(1)).max(1) as u64
    }

    /// How much may be spent on directories and inodes at present.
    pub(crate) fn metadata_budget(&self, at: usize) -> Nanos {
        let round = self.walks[at].as_ref().and_then(|walk| walk.round).unwrap_or_default();
        self.allowed(at).min(round)
    }

    /// Whether directories or inodes are worth fetching by themselves. If contents are to follow, the share of
    /// the round decides.
    fn is_worth_metadata(&mut self, at: usize, aim: Aim, files: u64, price: Nanos, alone: Nanos) -> bool {
        let Some(walk) = &mut self.walks[at] else { return false };
        if aim == Aim::Files {
            // A sample is small, and shows whether there is anything to fetch.
            return walk.sample.is_some()
                || walk.time_without_fetches(files).is_some_and(|pace| price * METADATA_DIVISOR <= pace);
        }
        if price * 2 <= alone {
            return true;
        }
        let enough = (walk.tried + price) * TRIAL_SHARE <= walk.account.cost();
        walk.tried += if enough { price } else { Nanos::ZERO };
        enough
    }

    fn spent_on_metadata(&mut self, at: usize, price: Nanos) {
        if let Some(round) = self.walks[at].as_mut().and_then(|walk| walk.round.as_mut()) {
            *round -= price;
        }
    }

    /// Fetches the inodes of expected entries, as many as are allowed. One of each block is named.
    fn fetch_inodes(&mut self, at: usize, aim: Aim, inodes: &[About]) -> bool {
        let allowed = self.metadata_budget(at);
        let (mut pass, mut unplaced, mut units) = (Sweep::default(), BTreeSet::new(), BTreeSet::new());
        let (mut taken, mut nodes, mut blocks) = (Vec::new(), Vec::new(), FxHashSet::default());
        let mut charge = Nanos::ZERO;
        for about in inodes.iter().copied() {
            let Some(directory) = self.tree.get(about.directory) else { continue };
            let Some(item) = directory.items.get(about.entry as usize) else { continue };
            let read = item.inode_at().map(|place| directory.inodes.fetched(place));
            match read {
                Some(read) => {
                    if blocks.contains(&read.start) {
                        taken.push(about);
                        continue;
                    }
                    pass.insert(self.ledger.model(), read);
                    units.insert(directory.inodes.unit(read.start));
                }
                // Their addresses are not known: each of their blocks may cost a positioning.
                None => drop(unplaced.insert(inode_block(item.inode))),
            }
            let price = self.ledger.price(&pass) + self.ledger.model().average() * unplaced.len() as u64;
            if price > allowed || nodes.len() >= NODES_LIMIT {
                break;
            }
            charge = price;
            blocks.extend(read.map(|read| read.start));
            nodes.extend(self.name(about));
            taken.push(about);
        }
        let mean = self.mean_entries();
        let worth = |about: &About| match self.tree.item(about.directory, about.entry) {
            Some(item) if item.kind == Kind::Directory => mean,
            _ => 1,
        };
        let files = taken.iter().map(worth).sum();
        // One of the program's reads reads a unit.
        let alone = self.ledger.model().near() * (units.len() + unplaced.len()) as u64;
        if nodes.is_empty() || !self.is_worth_metadata(at, aim, files, charge, alone) {
            return false;
        }
        nodes.sort_unstable();
        self.mark(&taken, flag::INODE_ASKED);
        self.spent_on_metadata(at, charge);
        let fetch = self.start_fetch(at, FetchKind::Inodes, taken, charge);
        self.outbox.push_back(Command::FetchMetadata { fetch, nodes });
        true
    }

    /// Fetches the blocks of directories.
    fn fetch_blocks(&mut self, at: usize, aim: Aim, blocks: &[About]) -> bool {
        let allowed = self.metadata_budget(at);
        let batch = self.batch(&blocks[..blocks.len().min(NODES_LIMIT)], allowed, Bytes(u64::MAX));
        if batch.taken.is_empty()
            || !self.is_worth_metadata(
                at,
                aim,
                batch.taken.len() as u64 * self.mean_entries(),
                batch.price,
                batch.alone,
            )
        {
            return false;
        }
        self.mark(&batch.taken, flag::FETCHED);
        self.spent_on_metadata(at, batch.price);
        let parts = self.parts(&batch.taken);
        let fetch = self.start_fetch(at, FetchKind::Blocks, batch.taken, batch.price);
        self.outbox.push_back(Command::Fetch { fetch, parts });
        true
    }

    /// Whether the contents of all known files are worth a pass, but not those that are allowed by now. Directories
    /// and inodes would take what is saved for it.
    fn saves_for_contents(&self, at: usize, files: &[About]) -> bool {
        let allowed = self.allowed(at);
        let room = self.settings.budget.saturating_sub(self.held);
        let batch = self.batch(files, allowed, room);
        let pace =
            |count: usize| self.walks[at].as_ref().and_then(|walk| walk.time_without_fetches(count as u64));
        let gains = |price: Nanos, alone: Nanos, count: usize| {
            pays(price, pace(count).map_or(alone, |pace| pace.min(alone)))
        };
        gains(batch.whole, batch.all_alone, batch.all) && !gains(batch.price, batch.alone, batch.taken.len())
    }

    /// Fetches the contents of files.
    fn fetch_contents(&mut self, at: usize, found: &Found) -> Stopped {
        let files = &found.files[..];
        let allowed = self.allowed(at);
        let room = self.settings.budget.saturating_sub(self.held);
        if files.is_empty() {
            return Stopped::Complete;
        }
        let batch = self.batch(files, allowed, room);
        if batch.taken.is_empty() {
            return if room < self.settings.budget / 8 { Stopped::Memory } else { Stopped::Allowance };
        }
        if !self.batch_pays(at, &batch) {
            return Stopped::NoGain;
        }
        if found.unknown * KNOWN_SHARE <= batch.all as u64 && self.is_worth_waiting(at, &batch, allowed) {
            return Stopped::Allowance;
        }
        self.fetch_batch(at, batch)
    }

    /// Whether a pass is cheaper than the program's own reads, by the model and by its pace.
    pub(crate) fn batch_pays(&self, at: usize, batch: &Batch) -> bool {
        let count = batch.taken.len() as u64;
        let pace = self.walks[at].as_ref().and_then(|walk| walk.time_without_fetches(count));
        pays(batch.price, pace.map_or(batch.alone, |pace| pace.min(batch.alone)))
    }

    /// Requests the contents of a batch.
    pub(crate) fn fetch_batch(&mut self, at: usize, batch: Batch) -> Stopped {
        self.mark(&batch.taken, flag::FETCHED);
        let parts = self.parts(&batch.taken);
        let count = batch.taken.len() as u64;
        self.held += batch.bytes;
        if let Some(walk) = &mut self.walks[at] {
            walk.held += batch.bytes;
            walk.fetched += count;
            walk.batch = count;
            walk.files_at_batch = walk.files.saturating_sub(walk.used);
            walk.price = Some(batch.price / count);
        }
        let fetch = self.start_fetch(at, FetchKind::Contents, batch.taken, batch.price);
        self.outbox.push_back(Command::Fetch { fetch, parts });
        Stopped::No
    }

    /// Whether to wait because one pass over all of it is allowed soon. The wait costs the program's own reads
    /// until then. A pass over a part costs itself, and shortens the later pass by half of the part's share.
    /// The program's reads raise the allowance by `rho` times their share of the optimum, while a pass over a
    /// part also consumes allowance.
    fn is_worth_waiting(&self, at: usize, batch: &Batch, allowed: Nanos) -> bool {
        let taken = batch.taken.len();
        let Some(walk) = self.walks[at].as_ref().filter(|_| (batch.all - taken) * 2 >= taken) else {
            return false;
        };
        let count = taken as u64;
        let alone = walk.pace.cost_of(count).unwrap_or(batch.alone).min(batch.alone) / count;
        let optimum = Nanos((batch.price.get() / count).saturating_mul(self.settings.rho as u64));
        let files = batch.whole.saturating_sub(allowed).get() / alone.min(optimum).get().max(1);
        let spared = batch.whole / (2 * batch.all as u64) * count;
        Nanos(alone.get().saturating_mul(files)) + spared <= batch.price
    }

    /// As many of these as one pass fits of the allowed cost and memory.
    pub(crate) fn batch(&self, expected: &[About], allowed: Nanos, room: Bytes) -> Batch {
        let mut batch = Batch::default();
        let (mut pass, mut parts, mut waiting) = (Sweep::default(), 0, Bytes::ZERO);
        let model = self.ledger.model();
        let mut head: Option<Lba> = None;
        for about in expected {
            let Some(item) = self.tree.item(about.directory, about.entry) else { continue };
            let pieces = self.tree.pieces(item);
            let size = self.tree.missing(item);
            parts += pieces.len();
            waiting += size;
            if waiting > room || parts > PARTS_LIMIT {
                // More does not fit at once, after any wait.
                break;
            }
            batch.all += 1;
            let mut alone = Nanos::ZERO;
            for piece in pieces {
                let span = SectorSpan::at(piece.lba, piece.pages.sectors());
                pass.insert(model, span);
                alone +=
                    head.map_or(model.near(), |head| model.step(head, span.start)) + model.transfer(span);
                head = Some(span.end);
            }
            batch.all_alone += alone;
            let price = self.ledger.price(&pass);
            batch.whole = price;
            if price > allowed {
                continue;
            }
            batch.price = price;
            batch.bytes += size;
            batch.alone += alone;
            batch.taken.push(*about);
        }
        batch
    }

    fn mark(&mut self, items: &[About], flag: u16) {
        for about in items {
            if let Some(item) = self.tree.item_mut(about.directory, about.entry) {
                item.set(flag);
            }
        }
    }

    /// Their pieces in disk order.
    fn parts(&self, taken: &[About]) -> Vec<Part> {
        let mut parts = Vec::with_capacity(taken.len());
        for about in taken {
            let (Some(file), Some(item)) = (self.name(*about), self.tree.item(about.directory, about.entry))
            else {
                continue;
            };
            parts.extend(self.tree.pieces(item).iter().map(|piece| {
                let pages: PageSpan = Span::new(piece.page, piece.page.after(piece.pages));
                Part { file, pages, lba: piece.lba }
            }));
        }
        parts.sort_unstable_by_key(|part| (part.lba, part.file));
        parts
    }
}
