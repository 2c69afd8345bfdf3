//! Plans the next fetch: directories and inodes first, then contents, in batches that cost as much as is
//! allowed.
//!
//! A *look* visits the entries that a walk is expected to open ([`Walk::expect`](crate::walk::Walk::expect)) as
//! far as the allowed cost may reach. It requests what is needed to fetch them, in this order, each sorted by
//! inode number or address:
//!
//! 1. listings of directories whose blocks are in memory, and addresses of directories whose inodes are,
//! 2. inodes,
//! 3. blocks of directories, or listings of directories whose blocks have no known address ([`crate::unplaced`]).
//!
//! Addresses of files whose inodes are in memory are requested at the same time, and only contents wait for them. Where
//! contents did not pay in the last round, the others wait as well.
//!
//! Entries expected later are fetched as well if they lie on the way: the pass reads or passes over them anyway.
//!
//! When nothing of these is left, it fetches contents, as [`crate::ordered`] or [`crate::random`] plans them. The
//! next batch is made when so many files were used or passed as half of those that the last one fetched in the
//! expected order, so that a few large batches follow one another without a pause. It is made sooner if the program
//! opens many files that the last one has left out, and at once if the files are opened in random order.
//!
//! All that is one *round*. In a round that is to fetch contents, half of the allowance is for directories and
//! inodes. They are fetched if that takes at most a quarter of the time that the program takes for their files
//! without prefetching ([`crate::pace`]). A round without result is repeated when the walk has cost an eighth
//! more, so that the work of looks is a constant for each open. In random order it is also repeated when the allowance
//! has grown, once for each eighth.

use crate::state::{About, Asked, FetchKind, PendingPlace, State};
use crate::sweep::Sweep;
use crate::tree::{BLOCKS_LIMIT, CHAIN_LIMIT, Item, Listing, flag};
use crate::walk::{Walk, inode_block};
use crate::{Command, InDirectory, InodeFetch, Kind, LISTS_LIMIT, ListCondition, NODES_LIMIT, Node, Stopped};
use foreseek_units::{Bytes, Nanos, SectorSpan};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Files that a walk opens before any of it is fetched: programs that open a few files cost nothing.
pub(crate) const FILES_FIRST: u64 = 8;
/// Directories opened, or look-ups, before directories and inodes are fetched for a walk that opens no files.
const DIRECTORIES_FIRST: u64 = 8;
const LOOKUPS_FIRST: u64 = 16;
/// The most entries that one look visits: some milliseconds. In random order it also passes over opened entries of directories
/// that have others: some tens of milliseconds over a million, but rounds grow with the cost of the walk.
pub(crate) const VISITS_LIMIT: u64 = 1 << 17;
/// How many of these a directory counts for that is not listed: its subtree may be large.
const SUBTREE_WORTH: u64 = 64;
/// How many expected files a directory counts for that is not listed yet: the median of source trees.
const DIRECTORY_WORTH: u64 = 4;

/// The divisor for the part of the allowance that directories and inodes may take in a round that is to fetch
/// contents: half.
const METADATA_SHARE: u64 = 2;
/// A round without result is repeated when the walk has cost an eighth more.
const PATIENCE: u64 = 8;
/// A batch has gaps if the program has opened more files than these beside it: so many, and a sixteenth of the
/// batch. The next round then begins before half of the batch is used.
const GAPS_FIRST: u64 = 16;
const GAPS_SHARE: u64 = 16;
/// For a walk that opens no files, fetches that do not halve the cost of single reads may take this part of the
/// walk's cost: a fiftieth. Without them the first levels of a tree, which are narrow, would never be read.
const TRIAL_SHARE: u64 = 50;
/// Directories and inodes of files are fetched if that takes at most this part of the time that the program
/// takes for these files without prefetching: a quarter. Half then remains for contents, and a quarter as gain.
const METADATA_DIVISOR: u64 = 4;
/// With so many expected blocks, what is read together is fetched as a whole: one request takes the place of several,
/// and the walk is likely to come to the neighbours. For a single block 32 would be read in vain.
const DENSE: u32 = 2;

/// If a walk opens only some files and their contents did not pay, directories and inodes may take this part of its
/// cost until others do: an eighth.
const VAIN_SHARE: u64 = 8;

/// The kind of data that is fetched for a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
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
    /// Entries whose addresses are to be requested.
    files_to_place: Vec<About>,
    directories_to_place: Vec<About>,
    blocks: Vec<About>,
    pub(crate) files: Vec<About>,
    /// Expected files whose contents can, or may later, be fetched.
    ahead: u64,
    /// Earlier expected entries that cannot be fetched yet.
    pub(crate) unknown: u64,
    /// Files that are larger than the memory.
    too_large: u64,
    visits: u64,
}

impl Found {
    /// Why nothing is fetched where there are no files.
    pub(crate) fn nothing(&self) -> Stopped {
        if self.too_large > 0 { Stopped::Memory } else { Stopped::Complete }
    }
}

impl State {
    /// More or less memory. Walks that wait for more look again.
    pub(crate) fn set_budget(&mut self, budget: Bytes) {
        if budget > self.settings.budget {
            let waiting = self.walks.iter_mut().flatten().filter(|walk| walk.stopped == Stopped::Memory);
            waiting.for_each(|walk| (walk.look_at, walk.next_cost) = (0, Nanos::ZERO));
        }
        self.settings.budget = budget;
    }

    /// Continues a round, or begins one.
    pub(crate) fn advance(&mut self, at: usize) {
        let Some(walk) = self.walks[at].as_ref().filter(|_| !self.is_quiet(at)) else { return };
        // A trial begins with its sample, once its directory is listed.
        let waits = walk.quiet.is_some() && walk.sample.is_none();
        if walk.is_asking() || waits || self.is_about_to_read(walk) {
            return;
        }
        let Some(aim) = self.aim(at) else { return };
        if walk.round.is_none() {
            let is_awaited = |allowance: Nanos| self.allowed(at) >= allowance;
            if !walk.is_due() && !walk.awaited_allowance.is_some_and(is_awaited) {
                return;
            }
            let begun = self.begin_round(at, aim);
            let Some(walk) = &mut self.walks[at] else { return };
            walk.awaited_allowance = None;
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
            walk.round = None;
            walk.in_vain = match stopped {
                Stopped::NoGain => true,
                // They pay, and wait for more of them or were fetched.
                Stopped::Allowance | Stopped::No => false,
                _ => walk.in_vain,
            };
            walk.look_at = walk.clock + (walk.clock / PATIENCE).max(1);
            let grown = walk.account.cost() + walk.account.cost() / PATIENCE;
            walk.next_cost = if stopped == Stopped::No { Nanos::ZERO } else { grown };
            walk.stops(stopped);
        }
    }

    /// Whether the program has opened a directory that is being listed, and probably reads its files next. Other programs
    /// may be ahead of it (`find | xargs`).
    fn is_about_to_read(&self, walk: &Walk) -> bool {
        let opened = self.tree.get(walk.opened).filter(|directory| directory.listing == Listing::Asked);
        let reads = |opener| walk.reader().is_none_or(|reader| opener == Some(reader));
        if opened.is_some_and(|directory| reads(directory.opener)) {
            return true;
        }
        let mut above = self.tree.upwards(walk.cursor).take(CHAIN_LIMIT);
        above.any(|key| self.tree.get(key).is_some_and(|directory| directory.listing == Listing::Asked))
    }

    fn aim(&self, at: usize) -> Option<Aim> {
        let walk = self.walks[at].as_ref()?;
        // A walk may have become quiet before its eighth file.
        let has_files = walk.files >= FILES_FIRST || (walk.quiet.is_some() && walk.files > 0);
        if has_files && self.settings.contents {
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
        if walk.clock < walk.refused_until {
            return Err(Stopped::Allowance);
        }
        if aim == Aim::Files {
            // The batch left files out that were not known yet. The program goes on to open such files until the batch
            // is used.
            let alone = walk.files.saturating_sub(walk.used + walk.files_at_batch);
            let has_gaps = alone > GAPS_FIRST + walk.batch / GAPS_SHARE;
            let is_early = walk.batch_left() * 2 > walk.batch && !has_gaps;
            if walk.contents.is_some() || (is_early && walk.manner().waits_for_use()) {
                return Err(Stopped::No);
            }
        }
        let allowed = self.allowed(at);
        // A trial fetches no contents.
        if walk.quiet.is_none() && walk.manner().is_too_early(self, walk, allowed) {
            return Err(Stopped::Allowance);
        }
        Ok(if aim == Aim::Files { allowed / METADATA_SHARE } else { allowed })
    }

    /// The next step of a round. `None` while answers are outstanding; at the end, why nothing more is fetched.
    fn next_step(&mut self, at: usize, aim: Aim) -> Option<Stopped> {
        let walk = self.walks[at].as_ref()?;
        let (manner, sample, in_vain) = (walk.manner(), walk.sample, walk.in_vain);
        let for_contents = aim == Aim::Files && sample.is_none();
        if for_contents && let Some(obstacle) = manner.obstacle(self, walk) {
            return Some(obstacle);
        }
        let horizon = manner.horizon(self, walk, self.allowed(at));
        let horizon = horizon.min(sample.map_or(VISITS_LIMIT, |sample| sample.count));
        let found = self.find(at, aim, horizon);
        if for_contents && manner.saves_for(self, at, &found.files) {
            return Some(Stopped::Allowance);
        }
        let waits = self.ask(at, &found);
        // Directories and inodes do not wait for these: they take their time while the disk works. Where contents did not
        // pay they do, since the addresses may show that what these cost is to be saved for a larger pass.
        let waits_for_files = in_vain && self.ask_files(at, &found);
        let waits = waits
            || !waits_for_files
                && (self.fetch_inodes(at, aim, &found.inodes)
                    || self.fetch_blocks(at, aim, &found.blocks)
                    || self.list_unplaced(at, aim, &found.unread));
        if !in_vain {
            self.ask_files(at, &found);
        }
        if let Some(walk) = &mut self.walks[at] {
            walk.needs_places = !waits && walk.file_places > 0;
            if waits || walk.needs_places {
                return None;
            }
        }
        if let Some(walk) = self.walks[at].as_mut().filter(|_| sample.is_some() && !found.files.is_empty()) {
            // The sample is far from the entries that are needed next.
            walk.resident = 0;
            return Some(Stopped::Complete);
        }
        Some(manner.fetch(self, at, found))
    }

    /// Visits the expected entries.
    fn find(&self, at: usize, aim: Aim, horizon: u64) -> Found {
        let mut found = Found::default();
        let Some(walk) = &self.walks[at] else { return found };
        let manner = walk.manner();
        let wanted = manner.classes(walk, &self.tree);
        let wants = |class: u8| wanted.get(usize::from(class)).copied().unwrap_or(true);
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
                if aim == Aim::Files && placed && self.fits(item) {
                    if manner.may_skip(found.unknown, found.files.len() as u64) {
                        found.files.push(about);
                    }
                    found.ahead += 1;
                } else if !placed && !walk.holds(item) && !item.is(flag::INODE_ASKED) {
                    found.inodes.push(about);
                    found.ahead += 1;
                } else if aim == Aim::Files && !placed && !item.is(flag::PLACE_ASKED) && walk.holds(item) {
                    found.files_to_place.push(about);
                    found.ahead += 1;
                } else {
                    found.too_large +=
                        u64::from(aim == Aim::Files && placed && !self.tree.missing(item).is_zero());
                    // Its address is under way.
                    found.ahead += u64::from(item.is(flag::PLACE_ASKED) && !placed);
                }
            }
            found.ahead < horizon && found.visits < VISITS_LIMIT
        });
        found
    }

    /// Whether it has contents to fetch that memory can hold.
    fn fits(&self, item: &Item) -> bool {
        item.pieces != crate::tree::NO_PIECES && self.tree.missing(item) <= self.settings.budget
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
        // What belongs to another walk is that walk's.
        if below
            .is_some_and(|it| it.walk != above.walk || matches!(it.listing, Listing::Known | Listing::Never))
        {
            return;
        }
        found.unknown += (self.mean_entries() * 2).min(SUBTREE_WORTH);
        if below.is_some_and(|it| it.listing == Listing::Asked) {
            found.ahead += if aim == Aim::Directories { 1 } else { DIRECTORY_WORTH };
            return;
        }
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
                found.directories_to_place.push(about);
            }
        } else if !item.is(flag::INODE_ASKED) {
            found.inodes.push(about);
        }
        found.ahead += if aim == Aim::Directories { 1 } else { DIRECTORY_WORTH };
    }

    /// Requests listings, and addresses of directories, for which all data is in memory: they cost the device nothing.
    /// Returns whether any are awaited.
    fn ask(&mut self, at: usize, found: &Found) -> bool {
        for name in found.lists.iter().take(LISTS_LIMIT) {
            self.list_below(at, *name);
        }
        self.ask_places(at, &found.directories_to_place);
        let waits = |walk: &Walk| {
            walk.directory_places > 0 || walk.awaited > 0 || (walk.lists > 0 && !found.lists.is_empty())
        };
        self.walks[at].as_ref().is_some_and(waits)
    }

    /// Requests the addresses of the found files, unless some are under way. Returns whether any are.
    fn ask_files(&mut self, at: usize, found: &Found) -> bool {
        let is_waiting = |state: &Self| state.walks[at].as_ref().is_some_and(|walk| walk.file_places > 0);
        if !is_waiting(self) {
            self.ask_places(at, &found.files_to_place);
        }
        is_waiting(self)
    }

    /// Requests the addresses of these entries, or of as many of them as one command names. One that is under way already, by
    /// another name or for another walk, is not requested: it is found again at the next look.
    pub(crate) fn ask_places(&mut self, at: usize, entries: &[About]) {
        let mut entries: Vec<(InDirectory, About)> =
            entries.iter().take(NODES_LIMIT).filter_map(|about| Some((self.name(*about)?, *about))).collect();
        entries.sort_unstable_by_key(|(name, _)| *name);
        let Some(walk) = &mut self.walks[at] else { return };
        let mut files = Vec::with_capacity(entries.len());
        for (name, about) in &entries {
            let item = self.tree.item_mut(about.directory, about.entry);
            let Some(item) = item.filter(|_| !self.asked.contains_key(&name.node)) else { continue };
            let asked = if item.kind == Kind::Directory { Asked::Directory } else { Asked::File };
            if item.set(flag::PLACE_ASKED) {
                self.asked.insert(name.node, PendingPlace { walk: at, about: *about, asked });
                *walk.places_mut(asked) += 1;
                files.push(*name);
            }
        }
        if !files.is_empty() {
            self.outbox.push_back(Command::Place { files });
        }
    }

    /// Lists a directory that a listing named; returns whether it was requested.
    pub(crate) fn list_below(&mut self, at: usize, name: InDirectory) -> bool {
        let key = self.tree.key(name.node).or_else(|| {
            let above = self.tree.key(name.directory).and_then(|above| self.tree.get(above));
            let user = above.and_then(|above| above.user);
            let has_room = self.make_room(user);
            let key = has_room.then(|| self.tree.add(name.node, Some(name.directory), user, at as u32))?;
            self.walks[at].as_mut()?.all.push(key);
            Some(key)
        });
        let key = key.filter(|key| self.tree.get(*key).is_some_and(|it| it.walk as usize == at));
        let key = key.filter(|key| self.list(at, *key, ListCondition::Always));
        let Some((directory, walk)) = key.and_then(|key| self.tree.get_mut(key)).zip(self.walks[at].as_mut())
        else {
            return false;
        };
        directory.awaited = true;
        walk.awaited += 1;
        true
    }

    pub(crate) fn name(&self, about: About) -> Option<InDirectory> {
        let directory = self.tree.get(about.directory)?.node;
        Some(InDirectory { node: Node { device: directory.device, inode: about.inode }, directory })
    }

    /// The mean number of entries of a directory.
    pub(crate) fn mean_entries(&self) -> u64 {
        let (directories, entries) = self.tree.counts();
        (entries / directories.max(1)).max(1) as u64
    }

    /// How much may be spent on directories and inodes at present.
    pub(crate) fn metadata_budget(&self, at: usize) -> Nanos {
        let Some(walk) = &self.walks[at] else { return Nanos::ZERO };
        let budget = self.allowed(at).min(walk.round.unwrap_or_default());
        if walk.in_vain && walk.sample.is_none() && walk.passes_some() {
            return budget.min((walk.account.cost() / VAIN_SHARE).saturating_sub(walk.prepared));
        }
        budget
    }

    /// Whether directories or inodes are worth fetching by themselves. If contents are to follow, the share of
    /// the round decides.
    fn is_worth_metadata(&mut self, at: usize, aim: Aim, files: u64, price: Nanos, alone: Nanos) -> bool {
        if aim == Aim::Files {
            return self.is_worth_before_contents(at, files, price);
        }
        let Some(walk) = &mut self.walks[at] else { return false };
        if self.speed.time_of(price) * 2 <= alone {
            return true;
        }
        let enough = (walk.tried + price) * TRIAL_SHARE <= walk.account.cost();
        walk.tried += if enough { price } else { Nanos::ZERO };
        enough
    }

    /// Whether directories or inodes of so many files are worth their price if contents are to follow.
    pub(crate) fn is_worth_before_contents(&self, at: usize, files: u64, price: Nanos) -> bool {
        // A sample is small, and shows whether there is anything to fetch.
        self.walks[at].as_ref().is_some_and(|walk| {
            walk.sample.is_some()
                || walk
                    .time_without_fetches(files)
                    .is_some_and(|pace| self.speed.time_of(price) * METADATA_DIVISOR <= pace)
        })
    }

    pub(crate) fn spent_on_metadata(&mut self, at: usize, price: Nanos) {
        let Some(walk) = &mut self.walks[at] else { return };
        walk.prepared += price;
        if let Some(round) = &mut walk.round {
            *round -= price;
        }
    }

    /// Fetches the inodes of expected entries, as many as are allowed, and those on the way. One of each block is named.
    fn fetch_inodes(&mut self, at: usize, aim: Aim, inodes: &[About]) -> bool {
        let allowed = self.metadata_budget(at);
        let dense = self.dense_units(inodes);
        let (mut pass, mut unplaced) = (Sweep::default(), BTreeSet::new());
        let (mut spans, mut units) = (FxHashSet::default(), FxHashSet::default());
        let (mut taken, mut nodes, mut named) = (Vec::new(), Vec::new(), FxHashSet::default());
        let (mut charge, mut is_full) = (Nanos::ZERO, false);
        for about in inodes.iter().copied() {
            let Some(directory) = self.tree.get(about.directory) else { continue };
            let Some(item) = directory.items.get(about.entry as usize) else { continue };
            let reads = directory.inodes;
            let holding = item.inode_at().map(|place| reads.holding(place));
            if holding.is_some_and(|holding| named.contains(&holding)) {
                taken.push(about);
                continue;
            }
            if nodes.len() >= NODES_LIMIT {
                break;
            }
            let unit = item.inode_at().map(|place| reads.read(place));
            let together = unit.is_none_or(|unit| !reads.has_neighbours() || dense.contains(&unit));
            let span = if together { unit } else { holding };
            if is_full {
                // What lies on the way costs nothing.
                if !span.is_some_and(|span| pass.covers(span)) {
                    continue;
                }
            } else {
                let block = inode_block(item.inode);
                if let Some(span) = span {
                    pass.insert(self.ledger.model(), span);
                }
                let is_new = span.is_none() && unplaced.insert(block);
                let price = self.ledger.price_with_unknown(&pass, unplaced.len() as u64, reads.together);
                if price > allowed {
                    is_full = true;
                    pass = Sweep::over(self.ledger.model(), spans.iter().copied());
                    if is_new {
                        unplaced.remove(&block);
                    }
                    continue;
                }
                charge = price;
            }
            spans.extend(span);
            units.extend(unit);
            named.extend(holding);
            nodes.extend(self.name(about).map(|which| InodeFetch { which, together }));
            taken.push(about);
        }
        let mean = self.mean_entries();
        let worth = |about: &About| match self.tree.item(about.directory, about.entry) {
            Some(item) if item.kind == Kind::Directory => mean,
            _ => 1,
        };
        let files = taken.iter().map(worth).sum();
        // So do the program's own look-ups.
        let alone = self.ledger.model().near() * (units.len() + unplaced.len()) as u64;
        if nodes.is_empty() || !self.is_worth_metadata(at, aim, files, charge, alone) {
            return false;
        }
        nodes.sort_unstable();
        self.mark(&taken, flag::INODE_ASKED);
        self.spent_on_metadata(at, charge);
        let least = self.least_read(&taken, &nodes);
        let fetch = self.start_fetch(at, FetchKind::Inodes, taken, charge, least);
        self.outbox.push_back(Command::FetchMetadata { fetch, nodes });
        true
    }

    /// What a fetch of inodes reads, if nothing of it is in memory; zero where that is not known.
    fn least_read(&self, taken: &[About], nodes: &[InodeFetch]) -> Bytes {
        let reads = taken.first().and_then(|about| self.tree.get(about.directory)).map(|it| it.inodes);
        reads.map_or(Bytes::ZERO, |reads| reads.least.bytes() * nodes.len() as u64)
    }

    /// What is read together and has so many expected blocks that it is fetched as a whole.
    fn dense_units(&self, inodes: &[About]) -> FxHashSet<SectorSpan> {
        let mut named = FxHashSet::default();
        let mut blocks: FxHashMap<SectorSpan, u32> = FxHashMap::default();
        for about in inodes {
            let Some(directory) = self.tree.get(about.directory) else { continue };
            let item = directory.items.get(about.entry as usize);
            let Some(place) = item.and_then(|item| item.inode_at()) else { continue };
            if named.insert(directory.inodes.holding(place)) {
                *blocks.entry(directory.inodes.read(place)).or_default() += 1;
            }
        }
        blocks.into_iter().filter(|(_, blocks)| *blocks >= DENSE).map(|(unit, _)| unit).collect()
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
        let fetch = self.start_fetch(at, FetchKind::Blocks, batch.taken, batch.price, Bytes::ZERO);
        self.outbox.push_back(Command::Fetch { fetch, parts });
        true
    }

    pub(crate) fn mark(&mut self, items: &[About], flag: u16) {
        for about in items {
            if let Some(item) = self.tree.item_mut(about.directory, about.entry) {
                item.set(flag);
            }
        }
    }
}
