//! The driver's answers: listings, addresses, and completed fetches.

use crate::state::{About, Asked, FetchKind, PendingFetch, PendingPlace, State};
use crate::tree::{BLOCKS_LIMIT, Item, Key, Listing, Pieces, flag};
use crate::{Command, Entry, InodeReads, Kind, Node, Outcome, Placed};
use foreseek_seam::{Extent, FetchId};
use foreseek_units::{Bytes, Instant, Pages};

/// Opens and look-ups before a refused fetch is tried again.
const REFUSED_PATIENCE: u64 = 64;
/// A directory that was not in memory is asked for again after so many opens, and an eighth of all so far.
const AGAIN_FIRST: u64 = 8;
const AGAIN_SHARE: u64 = 8;

impl State {
    /// A directory's entries.
    pub(crate) fn listed(&mut self, node: Node, entries: &[Entry<'_>], inodes: InodeReads) {
        let Some((at, key)) = self.answered(node) else {
            // Its walk was over before the answer came: the driver need not keep the listing.
            if self.tree.key(node).is_none() {
                self.outbox.push_back(Command::Forget { directory: node });
            }
            return;
        };
        let user = self.tree.get(key).and_then(|directory| directory.user);
        if self.tree.entries_left(user) < entries.len() {
            self.retire();
        }
        let classes = &mut self.classes;
        self.tree.list(key, entries, |name| classes.of_name(name));
        if let Some(directory) = self.tree.get_mut(key) {
            directory.inodes = inodes;
        }
        self.replay(at, key);
        match self.walks[at].as_ref().and_then(|walk| walk.quiet) {
            Some(_) => self.sample(at, key),
            // A program that finds its files in memory opens them before an event of the directory could be
            // handled.
            None => {
                self.report_opens(key);
                self.check_resident(at, key);
            }
        }
        self.look(at);
    }

    /// The blocks of a directory, which was listed without knowing where they lie.
    pub(crate) fn blocks_read(&mut self, node: Node, blocks: &[Extent]) {
        let Some(key) = self.tree.key(node) else { return };
        let Some(directory) = self.tree.get_mut(key) else { return };
        let (at, parent) = (directory.walk as usize, directory.parent);
        let Some(expected) = directory.unplaced.take() else { return };
        self.listed_unplaced(at, expected, Some(&blocks.iter().map(Extent::sectors).collect::<Vec<_>>()));
        let entry = parent
            .and_then(|parent| self.tree.key(parent))
            .and_then(|above| Some((above, self.tree.get(above)?.find(node.inode)?)));
        let Some((above, entry)) = entry.filter(|_| !blocks.is_empty()) else { return };
        // It was fetched, and its use will show.
        let unused = self.tree.item_mut(above, entry).is_some_and(|item| {
            let unused = item.kind == Kind::Directory && !item.is(flag::OPENED | flag::FETCHED);
            item.flags |= if unused { flag::PLACED | flag::FETCHED } else { 0 };
            unused
        });
        if unused {
            self.tree.keep_pieces(above, entry, Pieces::of(blocks, Bytes(u64::MAX)));
        }
    }

    /// A directory cannot be listed.
    pub(crate) fn unlistable(&mut self, node: Node) {
        let Some((at, key)) = self.answered(node) else { return };
        if let (Some(directory), Some(walk)) = (self.tree.get_mut(key), &self.walks[at]) {
            if directory.may_ask_again {
                // The program may read the rest of it.
                directory.list_from = walk.clock + (walk.clock / AGAIN_SHARE).max(AGAIN_FIRST);
            } else {
                directory.listing = Listing::Never;
            }
        }
        if self.walks[at].as_ref().is_some_and(|walk| walk.quiet.is_some()) {
            self.give_up_trial(at);
        }
        self.look(at);
    }

    /// The directory whose listing was requested, and its walk.
    fn answered(&mut self, node: Node) -> Option<(usize, Key)> {
        self.lists.remove(&node);
        let key = self.tree.key(node)?;
        let directory = self.tree.get_mut(key).filter(|directory| directory.listing == Listing::Asked)?;
        directory.listing = Listing::None;
        let at = directory.walk as usize;
        let (unplaced, awaited) = (directory.unplaced.take(), std::mem::take(&mut directory.awaited));
        let walk = self.walks[at].as_mut()?;
        walk.lists = walk.lists.saturating_sub(1);
        walk.awaited = walk.awaited.saturating_sub(u32::from(awaited));
        if let Some(expected) = unplaced {
            self.listed_unplaced(at, expected, None);
        }
        Some((at, key))
    }

    /// Applies the opens in a directory that came before its listing.
    fn replay(&mut self, at: usize, key: Key) {
        let Some(directory) = self.tree.get_mut(key) else { return };
        let early = std::mem::take(&mut directory.early);
        let Some(directory) = self.tree.get(key) else { return };
        let found: Vec<u32> = early.iter().filter_map(|inode| directory.find(*inode)).collect();
        let rank = |inode| {
            let below = self.tree.key(Node { device: directory.node.device, inode });
            below.and_then(|below| self.tree.get(below)).filter(|it| it.opened).map(|it| it.rank)
        };
        let below = directory.items.iter().enumerate().filter(|(_, item)| item.kind == Kind::Directory);
        let below = below.filter_map(|(entry, item)| Some((rank(item.inode)?, entry as u32)));
        let mut below: Vec<(u64, u32)> = below.collect();
        below.sort_unstable();
        if let Some(walk) = &mut self.walks[at] {
            // They were counted when they were opened.
            walk.files = walk.files.saturating_sub(found.len() as u64);
        }
        let own = self.walks[at].as_ref().map(|walk| walk.account.own);
        for entry in below.into_iter().map(|(_, entry)| entry).chain(found) {
            self.open(at, key, entry);
        }
        if let (Some(walk), Some(own)) = (&mut self.walks[at], own) {
            walk.account.own = own;
        }
    }

    /// The addresses of files.
    pub(crate) fn placed(&mut self, files: &[Placed<'_>]) {
        let (mut last, mut changed) = (None, Vec::new());
        for file in files {
            let Some(PendingPlace { walk: at, about, asked }) = self.asked.remove(&file.file) else {
                continue;
            };
            if let Asked::Opened(class) = asked {
                if self.examined(at, class, file) && !changed.contains(&(at, class.1)) {
                    changed.push((at, class.1));
                }
                continue;
            }
            if let Some(walk) = &mut self.walks[at] {
                let places = walk.places_mut(asked);
                *places = places.saturating_sub(1);
            }
            if let Some(before) = last.replace(at).filter(|before| *before != at) {
                self.look(before);
            }
            let Some(item) = self.tree.item_mut(about.directory, about.entry) else { continue };
            if item.inode != about.inode || !item.set(flag::PLACED) || item.is(flag::OPENED) {
                continue;
            }
            let item = *item;
            let limit = if item.kind == Kind::File { self.limit(at, item.class) } else { Bytes(u64::MAX) };
            let is_missing = file.missing.iter().any(|it| it.page.offset().get() < limit.get());
            let resident = !is_missing && !file.resident.is_zero();
            if let Some(item) = self.tree.item_mut(about.directory, about.entry).filter(|_| resident) {
                item.set(flag::RESIDENT);
            }
            if let Some(walk) = self.walks[at].as_mut().filter(|_| file.residency_known) {
                walk.resident = match (resident, is_missing) {
                    (true, _) => walk.resident.saturating_add(1),
                    (false, false) => walk.resident,
                    (false, true) => 0,
                };
                walk.missing |= is_missing;
            }
            if item.kind == Kind::File {
                self.tree.keep_part(about.directory, about.entry, file.missing, limit);
            } else {
                self.place_directory(about, file);
            }
        }
        if let Some(at) = last {
            self.consider(at);
        }
        for (at, extension) in &changed {
            self.apply_limit(*at, *extension);
        }
        for at in changed.into_iter().map(|(at, _)| at).chain(last) {
            self.look(at);
        }
    }

    /// The addresses of a directory's blocks: all of them or none, since to list it reads all.
    fn place_directory(&mut self, about: About, directory: &Placed<'_>) {
        let pieces = Pieces::of(directory.missing, self.settings.file_limit);
        let is_whole = pieces.are_all_of(directory.missing);
        if let Some(item) = self.tree.item_mut(about.directory, about.entry) {
            item.set_blocks(if is_whole { directory.length.pages_ceil() } else { Pages(BLOCKS_LIMIT) });
        }
        if is_whole && !pieces.0.is_empty() {
            self.tree.keep_pieces(about.directory, about.entry, pieces);
        }
    }

    /// A fetch is complete.
    pub(crate) fn done(&mut self, now: Instant, fetch: FetchId, fetched_bytes: Bytes, outcome: Outcome) {
        let Some(flight) = self.in_flight.remove(&fetch) else { return };
        self.totals[0] += fetched_bytes;
        let Some(at) = flight.walk else { return };
        let Some(walk) = &mut self.walks[at] else { return };
        // Its programs may have waited for the fetch.
        walk.last = walk.last.max(now);
        walk.fetched_bytes += fetched_bytes;
        walk.metadata = walk.metadata.filter(|it| *it != fetch);
        walk.contents = walk.contents.filter(|it| *it != fetch);
        let is_unused = outcome == Outcome::Refused || fetched_bytes.is_zero();
        if is_unused {
            self.ledger.refund(&mut walk.account, flight.charge);
            if flight.kind != FetchKind::Contents {
                walk.prepared -= flight.charge;
                walk.round = walk.round.map(|left| left + flight.charge);
            }
        } else {
            self.ledger.earn(&mut walk.account, flight.earned);
            (walk.resident, walk.missing) = (0, true);
            if outcome == Outcome::Arrived && flight.is_whole(fetched_bytes) {
                self.speed.fetched(flight.charge, now - flight.begun);
            }
        }
        self.landed(at, &flight, is_unused, outcome);
        if outcome == Outcome::Refused {
            self.refused(at);
        } else {
            self.look(at);
        }
    }

    /// The items of a fetch are not in flight any more. If nothing was read for it, their use earns nothing.
    fn landed(&mut self, at: usize, flight: &PendingFetch, is_unused: bool, outcome: Outcome) {
        for about in &flight.items {
            let Some(walk) = &mut self.walks[at] else { return };
            let item = self.tree.item_mut(about.directory, about.entry);
            let Some(item) = item.filter(|item| item.inode == about.inode) else { continue };
            item.flags &= !flag::IN_FLIGHT;
            if flight.kind == FetchKind::Inodes {
                item.flags &= if is_unused { !flag::INODE_ASKED } else { u16::MAX };
                if outcome != Outcome::Refused {
                    item.set(flag::INODE_IN);
                    if item.inode_at().is_some() {
                        walk.touch(item);
                    }
                }
            } else if is_unused {
                let item = *item;
                self.not_fetched(at, *about, item, outcome);
            }
        }
        if let Some(walk) =
            self.walks[at].as_mut().filter(|_| is_unused && flight.kind == FetchKind::Contents)
        {
            walk.batch = 0;
        }
    }

    /// Nothing was read for an entry whose contents or blocks were to be fetched: they were in memory, cannot be read, or
    /// may be asked for again later.
    fn not_fetched(&mut self, at: usize, about: About, item: Item, outcome: Outcome) {
        if item.kind == Kind::File {
            if item.is(flag::OPENED | flag::PASSED) {
                return;
            }
            let bytes = self.tree.missing(&item);
            if let Some(walk) = &mut self.walks[at] {
                walk.fetched -= 1;
            }
            self.release(at, bytes);
        }
        if let Some(item) = self.tree.item_mut(about.directory, about.entry) {
            item.flags &= !flag::FETCHED;
            item.flags |= if outcome == Outcome::Arrived { flag::RESIDENT } else { 0 };
        }
        if outcome != Outcome::Refused {
            self.tree.take_pieces(about.directory, about.entry);
        }
    }

    /// Nothing of a fetch was made.
    fn refused(&mut self, at: usize) {
        if let Some(walk) = &mut self.walks[at] {
            walk.round = None;
            walk.refused_until = walk.clock + REFUSED_PATIENCE;
            walk.look_at = walk.refused_until;
        }
        self.give_up_trial(at);
    }

    /// A directory's entries changed.
    pub(crate) fn changed(&mut self, node: Node) {
        let Some(key) = self.tree.key(node) else { return };
        let Some(directory) = self.tree.get(key) else { return };
        let (at, listing) = (directory.walk as usize, directory.listing);
        if listing == Listing::Known {
            self.waste_all(at, key);
            self.tree.unlist(key);
        }
    }

    /// Searches at once for data to fetch.
    fn look(&mut self, at: usize) {
        if let Some(walk) = &mut self.walks[at] {
            walk.look_at = 0;
        }
        self.advance(at);
    }
}
