//! Recently opened or listed directories: how to open each again, its listing, and its openers.
//!
//! A directory is stored as its file handle, which keeps nothing open and outlives renames.
//!
//! *Rights.* Each open of a directory or file is recorded in its directory and in those above it, up to the highest one
//! of the same walk. That is the highest one in which something was opened within [`RECENT`]. A directory to which no
//! walk came ends the search. Whose rights count for a directory is found among those recorded in it and above it ([`crate::participants`]).
//!
//! Bounds: [`DIRECTORIES`] records, and the [room](crate::room) of listings. Where there are too many records, at first
//! those that have no listing and were not opened recently are dropped. If that is not enough, the user with the most
//! gives up those without a listing, and then all.

use crate::handles::Chain;
use crate::participants::{Participants, RECENT, Rights, What, rights};
use crate::room::Taken;
use foreseek_places::{Entries, Entry};
use foreseek_storage::{Credentials, FileHandle};
use foreseek_walks::{Kind, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::FileType;
use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// Directories that are known: some 350 bytes each, 44 MiB in all. In a larger walk, the last opened ones are
/// kept.
pub(crate) const DIRECTORIES: usize = 128 * 1024;
/// After records were dropped, there is room for as many more: a thirty-second part. Otherwise all would be searched
/// again soon.
const MADE_ROOM: usize = DIRECTORIES / 32;
/// Directories above one whose openers count: real trees are not deeper, and the search ends here in a loop of
/// a damaged file system.
const ABOVE: usize = 64;

/// The listing of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    entries: Entries,
    by_inode: Vec<u32>,
    by_name: Vec<u32>,
    /// The room that it takes.
    room: Option<Taken>,
}

impl Listing {
    /// A listing from the entries read. Directories in `covered`, on which something else is mounted, are not
    /// fetched.
    pub(crate) fn new(mut entries: Entries, covered: &FxHashSet<u64>) -> Self {
        for entry in entries.list.iter_mut().filter(|entry| covered.contains(&entry.inode)) {
            entry.kind = FileType::Unknown;
        }
        let numbers: Vec<u32> = (0..u32::try_from(entries.list.len()).unwrap_or(u32::MAX)).collect();
        let (mut by_inode, mut by_name) = (numbers.clone(), numbers);
        by_inode.sort_unstable_by_key(|at| entries.list[*at as usize].inode);
        by_name.sort_unstable_by_key(|at| &entries.names[entries.list[*at as usize].name.clone()]);
        Self { entries, by_inode, by_name, room: None }
    }

    /// Keeps as much of the room as it takes.
    pub(crate) fn keeping(mut self, mut room: Taken) -> Self {
        let numbers = self.by_inode.len() + self.by_name.len();
        let (list, names) = (self.entries.list.capacity(), self.entries.names.capacity());
        room.shrink(list * size_of::<Entry>() + names + numbers * size_of::<u32>());
        self.room = Some(room);
        self
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.list.len()
    }

    /// Name, kind and inode of each, in the order of the listing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Kind, u64)> {
        self.entries
            .list
            .iter()
            .map(|entry| (&self.entries.names[entry.name.clone()], kind_of(entry.kind), entry.inode))
    }

    fn at(&self, number: u32) -> (&[u8], Kind, u64) {
        let entry = &self.entries.list[number as usize];
        (&self.entries.names[entry.name.clone()], kind_of(entry.kind), entry.inode)
    }

    /// The name and kind of an inode.
    pub(crate) fn find(&self, inode: u64) -> Option<(&[u8], Kind)> {
        let at = self.by_inode.partition_point(|at| self.at(*at).2 < inode);
        let (name, kind, found) = self.at(*self.by_inode.get(at)?);
        (found == inode).then_some((name, kind))
    }

    /// The inode of a name.
    pub(crate) fn inode_of(&self, name: &[u8]) -> Option<(u64, Kind)> {
        let at = self.by_name.partition_point(|at| self.at(*at).0 < name);
        let (found, kind, inode) = self.at(*self.by_name.get(at)?);
        (found == name).then_some((inode, kind))
    }
}

fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    }
}

/// A directory.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Its node.
    pub(crate) node: Node,
    /// How to open it.
    pub(crate) handle: FileHandle,
    /// The user whose walk came to it first.
    pub(crate) user: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parent: Option<Node>,
    participants: Participants,
    /// Opens of its files are reported.
    reported: bool,
    listing: Option<Arc<Listing>>,
    touched: Option<Instant>,
}

impl Directory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its listing.
    pub(crate) fn listing(&self) -> Option<Arc<Listing>> {
        self.state().listing.clone()
    }

    /// The directory above, if it is known.
    pub(crate) fn parent(&self) -> Option<Node> {
        self.state().parent
    }

    /// Whether all of these opened it themselves recently.
    pub(crate) fn was_opened_by(&self, all: &Rights, now: Instant) -> bool {
        let state = self.state();
        all.iter().all(|opener| state.participants.have_listed(Some(opener), now))
    }

    /// Whether a walk came to it lately, or expects it.
    fn is_in_a_walk(&self, now: Instant) -> bool {
        let state = self.state();
        state.participants.are_active(now) || state.listing.is_some() || state.reported
    }

    /// Opens of its files are reported from now on, or not any more.
    pub(crate) fn set_reported(&self, on: bool) {
        self.state().reported = on;
    }

    /// Whether the engine learns of opens in it without reports of all files: a walk goes on in it, or has just begun.
    pub(crate) fn is_followed(&self, now: Instant) -> bool {
        let state = self.state();
        state.reported || state.listing.is_some() || state.participants.have_listed(None, now)
    }
}

#[derive(Debug, Default)]
struct Table {
    directories: FxHashMap<Node, Arc<Directory>>,
    entries: usize,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    table: RwLock<Table>,
}

impl Directories {
    /// A directory, if it is known.
    pub(crate) fn get(&self, node: Node) -> Option<Arc<Directory>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).directories.get(&node).cloned()
    }

    /// A process opened a directory, maybe a few seconds ago.
    pub(crate) fn opened(
        &self,
        node: Node,
        handle: FileHandle,
        parent: Option<Node>,
        by: Arc<Credentials>,
        at: Instant,
    ) -> Arc<Directory> {
        let directory = self.record(node, handle, parent, &by, at);
        self.takes_part_above(&directory, Some(&by), at);
        directory
    }

    /// The same where it is not known yet in which directory it lies: [`Directories::found_above`] follows.
    pub(crate) fn opened_somewhere(
        &self,
        node: Node,
        handle: FileHandle,
        by: &Arc<Credentials>,
        at: Instant,
    ) {
        self.record(node, handle, None, by, at);
    }

    /// Records an open of a directory in itself alone.
    fn record(
        &self,
        node: Node,
        handle: FileHandle,
        parent: Option<Node>,
        by: &Arc<Credentials>,
        at: Instant,
    ) -> Arc<Directory> {
        let directory = self.reached(node, handle, parent, by.user, Instant::now());
        let mut state = directory.state();
        state.touched = Some(Instant::now());
        state.participants.add(Some(by), What::Itself, at);
        drop(state);
        directory
    }

    /// It is known now in which directory one lies whose open was recorded already.
    pub(crate) fn found_above(
        &self,
        node: Node,
        handle: FileHandle,
        parent: Option<Node>,
        by: &Arc<Credentials>,
        at: Instant,
    ) {
        let directory = self.reached(node, handle, parent, by.user, Instant::now());
        self.takes_part_above(&directory, Some(by), at);
    }

    /// A process opened a file in this directory or below it; `None` for one that could not be examined. It may have come
    /// there by another way: unlike an open of the directory itself this does not show that it may search those above.
    pub(crate) fn entered(&self, node: Node, by: Option<&Arc<Credentials>>, now: Instant) {
        if let Some(directory) = self.get(node) {
            directory.state().participants.add(by, What::Within, now);
            self.takes_part_above(&directory, by, now);
        }
    }

    /// Records an open in a directory or below it in those above it in the same walk.
    fn takes_part_above(&self, directory: &Arc<Directory>, by: Option<&Arc<Credentials>>, at: Instant) {
        let above = self.upwards(directory).skip(1);
        let above: Vec<Arc<Directory>> = above.take_while(|above| above.is_in_a_walk(at)).collect();
        let top = above.iter().rposition(|above| above.state().participants.are_active(at));
        let mut below = directory.node;
        for above in &above[..top.map_or(0, |top| top + 1)] {
            above.state().participants.add(by, What::Below(below), at);
            below = above.node;
        }
    }

    /// A walk comes to a directory that its program does not list.
    pub(crate) fn visited(&self, node: Node, at: Instant) {
        if let Some(directory) = self.get(node) {
            directory.state().participants.visited(at);
        }
    }

    /// A directory and those above it, as far as they are known.
    fn upwards(&self, directory: &Arc<Directory>) -> impl Iterator<Item = Arc<Directory>> {
        let above = std::iter::successors(Some(directory.clone()), |directory| {
            let parent = directory.parent().filter(|parent| *parent != directory.node);
            parent.and_then(|parent| self.get(parent))
        });
        above.take(ABOVE)
    }

    /// A directory was reached through the one above it, in a walk of this user.
    pub(crate) fn reached(
        &self,
        node: Node,
        handle: FileHandle,
        parent: Option<Node>,
        user: u32,
        now: Instant,
    ) -> Arc<Directory> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.directories.len() >= DIRECTORIES && !table.directories.contains_key(&node) {
            table.make_room(now);
        }
        match table.directories.entry(node) {
            // A reused inode number comes with another handle.
            Slot::Occupied(known) if known.get().handle == handle => {
                let known = known.get().clone();
                let mut state = known.state();
                state.parent = parent.or(state.parent);
                drop(state);
                known
            }
            slot => {
                let state = State { parent, touched: Some(now), ..State::default() };
                let new = Arc::new(Directory { node, handle, user, state: Mutex::new(state) });
                let old = match slot {
                    Slot::Occupied(mut slot) => Some(slot.insert(new.clone())),
                    Slot::Vacant(slot) => {
                        slot.insert(new.clone());
                        None
                    }
                };
                let freed = old.and_then(|old| old.listing()).map_or(0, |listing| listing.len());
                table.entries = table.entries.saturating_sub(freed);
                new
            }
        }
    }

    /// The same for a directory and those above it; returns their nodes.
    pub(crate) fn all_reached(&self, chain: Chain, user: u32, now: Instant) -> Vec<Node> {
        let nodes: Vec<Node> = chain.iter().map(|it| it.0).collect();
        for (which, (node, handle)) in chain.into_iter().enumerate() {
            self.reached(node, handle, nodes.get(which + 1).copied(), user, now);
        }
        nodes
    }

    /// Stores the listing of a directory; returns whether that is still known.
    pub(crate) fn listed(&self, directory: &Arc<Directory>, listing: Arc<Listing>) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_kept =
            table.directories.get(&directory.node).is_some_and(|known| Arc::ptr_eq(known, directory));
        let before = directory.listing().map_or(0, |listing| listing.len());
        if !is_kept {
            return false;
        }
        table.entries = table.entries.saturating_sub(before) + listing.len();
        directory.state().listing = Some(listing);
        true
    }

    /// Drops the listing of a directory, unless a program has opened it since. Returns whether reports of its files are to
    /// end.
    pub(crate) fn forget(&self, node: Node, since: Instant) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let known = table.directories.get(&node).cloned();
        if known.as_ref().is_some_and(|known| known.state().touched.is_some_and(|touched| touched > since)) {
            return false;
        }
        // The record stays: its openers count for the directories below.
        let Some(known) = known else { return false };
        let mut state = known.state();
        table.entries = table.entries.saturating_sub(state.listing.take().map_or(0, |listing| listing.len()));
        std::mem::take(&mut state.reported)
    }

    /// No walk is left: no opens of files are reported, and no listing is needed.
    pub(crate) fn rest(&self) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for directory in table.directories.values() {
            let mut state = directory.state();
            (state.reported, state.listing) = (false, None);
        }
        table.recount();
    }

    /// Drops the credentials of those whose opens do not count any more, so that there is room for others.
    pub(crate) fn forget_openers(&self, now: Instant) {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.directories.values().for_each(|directory| directory.state().participants.forget(now));
    }

    /// Drops all directories but those to keep.
    pub(crate) fn retain(&self, keep: impl Fn(Node) -> bool) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.directories.retain(|node, _| keep(*node));
        table.recount();
    }

    /// The number of known directories and entries.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        (table.directories.len(), table.entries)
    }

    /// The directories above one, from the nearest, up to the first that all of these opened themselves.
    pub(crate) fn above(
        &self,
        directory: &Arc<Directory>,
        rights: &Rights,
        now: Instant,
    ) -> Vec<Arc<Directory>> {
        let mut above: Vec<Arc<Directory>> = Vec::new();
        let mut at = directory.clone();
        while above.len() < ABOVE && !at.was_opened_by(rights, now) {
            let Some(next) = at.parent().and_then(|parent| self.get(parent)) else { break };
            above.push(next.clone());
            at = next;
        }
        above
    }

    /// All whose rights count for the contents of a directory; `None` if they are not known.
    pub(crate) fn rights(&self, node: Node, now: Instant) -> Option<Rights> {
        let directory = self.get(node)?;
        let mut below = None;
        let seen: Vec<(Participants, Option<Node>)> = self
            .upwards(&directory)
            .map(|it| (it.state().participants.clone(), below.replace(it.node)))
            .collect();
        rights(&seen, now)
    }
}

impl Table {
    /// Drops directories that have no listing and no reports and were not opened recently. If that is not enough, drops
    /// those of the user with the most that have no listing and no reports, and then all of them.
    fn make_room(&mut self, now: Instant) {
        let recent = |directory: &Directory| {
            directory.state().touched.is_some_and(|at| now.duration_since(at) < RECENT)
        };
        let in_use = |directory: &Directory| {
            let state = directory.state();
            state.listing.is_some() || state.reported
        };
        self.directories.retain(|_, directory| in_use(directory) || recent(directory));
        let most = self.user_with_most();
        for keeps_used in [true, false] {
            if self.directories.len() > DIRECTORIES - MADE_ROOM {
                let keeps = |it: &Directory| Some(it.user) != most || (keeps_used && in_use(it));
                self.directories.retain(|_, directory| keeps(directory));
            }
        }
        self.recount();
    }

    fn user_with_most(&self) -> Option<u32> {
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        self.directories.values().for_each(|it| *counts.entry(it.user).or_default() += 1);
        counts.into_iter().max_by_key(|(user, count)| (*count, *user)).map(|(user, _)| user)
    }

    fn recount(&mut self) {
        let listings = self.directories.values().filter_map(|directory| directory.listing());
        self.entries = listings.map(|listing| listing.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_walks::DeviceNo;
    use proptest::prelude::*;

    fn node(inode: u64) -> Node {
        Node { device: DeviceNo(1), inode }
    }

    fn handle(number: u8) -> FileHandle {
        FileHandle::from_parts(1, &[number; 8]).unwrap()
    }

    fn user(number: u32) -> Arc<Credentials> {
        let status = format!("Uid:\t0\t0\t0\t{number}\nGid:\t0\t0\t0\t0\nGroups:\t\nCapEff:\t0\n");
        Arc::new(Credentials::parse(&status, true).unwrap())
    }

    proptest! {
        #[test]
        fn a_listing_finds_its_entries(
            names in prop::collection::btree_map(prop::collection::vec(1u8.., 1..6), 1..1000u64, 0..40),
            other in prop::collection::vec(1u8.., 1..6), number in 1..1000u64,
        ) {
            let mut entries = Entries::default();
            for (name, inode) in &names {
                let start = entries.names.len();
                entries.names.extend(name);
                let kind = FileType::RegularFile;
                entries.list.push(Entry { name: start..entries.names.len(), kind, inode: *inode });
            }
            let listing = Listing::new(entries, &FxHashSet::default());
            prop_assert_eq!(listing.len(), names.len());
            for (name, inode) in &names {
                prop_assert_eq!(listing.inode_of(name), Some((*inode, Kind::File)));
                let (found, _) = listing.find(*inode).unwrap();
                prop_assert_eq!(names.get(found), Some(inode));
            }
            prop_assert_eq!(listing.inode_of(&other).map(|found| found.0), names.get(&other).copied());
            prop_assert_eq!(listing.find(number).is_some(), names.values().any(|inode| *inode == number));
        }
    }

    /// As many directories as drive a walk.
    fn drives(all: &Directories, at: u64, by: &Arc<Credentials>, now: Instant) {
        (0..8).for_each(|_| all.entered(node(at), Some(by), now));
    }

    #[test]
    fn all_that_take_part_in_a_walk_count_for_a_while() {
        let (all, now) = (Directories::default(), Instant::now());
        assert!(all.rights(node(1), now).is_none());
        all.opened(node(1), handle(1), None, user(0), now);
        all.opened(node(2), handle(2), Some(node(1)), user(1000), now + RECENT / 4);
        // Beside it and below it, and in directories that were reached and not opened.
        let reached = all.reached(node(3), handle(3), Some(node(1)), 0, now);
        assert!(all.listed(&reached, Arc::default()));
        all.reached(node(4), handle(4), Some(node(3)), 0, now);
        let soon = now + RECENT / 2;
        for at in 1..=4 {
            assert_eq!(all.rights(node(at), soon).unwrap(), [user(1000), user(0)], "{at}");
        }
        // A file in a directory that nobody has opened: its walk goes on.
        all.entered(node(4), Some(&user(7)), soon);
        let later = now + RECENT;
        assert_eq!(all.rights(node(2), later).unwrap(), [user(7), user(1000)]);
        assert_eq!(all.rights(node(2), later + RECENT / 4).unwrap(), [user(7)]);
        assert!(all.rights(node(4), soon + RECENT).unwrap().contains(&user(7)), "nothing was opened since");
        assert!(all.rights(node(4), soon + RECENT * 6).is_none(), "nobody takes part");
    }

    #[test]
    fn credentials_are_kept_for_as_long_as_they_count() {
        let (all, now, by) = (Directories::default(), Instant::now(), user(1000));
        all.opened(node(1), handle(1), None, by.clone(), now);
        all.forget_openers(now + RECENT);
        assert_eq!(Arc::strong_count(&by), 2);
        all.forget_openers(now + RECENT * 7);
        assert_eq!(Arc::strong_count(&by), 1);
    }

    /// Root saves the homes of all users. One of them works in its own.
    #[test]
    fn who_is_busy_in_one_directory_takes_nothing_from_a_walk_of_all() {
        let (all, now) = (Directories::default(), Instant::now());
        for (at, above) in [(1, None), (2, Some(node(1))), (3, Some(node(1)))] {
            all.opened(node(at), handle(at as u8), above, user(0), now);
        }
        for second in 0..60 {
            let at = now + RECENT / 10 * second;
            drives(&all, 2, &user(0), at);
            drives(&all, 3, &user(1000), at);
            assert!(all.rights(node(1), at).unwrap().contains(&user(1000)));
            assert_eq!(all.rights(node(2), at).unwrap(), [user(0)]);
            assert!(all.rights(node(3), at).unwrap().contains(&user(1000)));
        }
    }

    /// Root lists a tree and ends. Another user opens files in a part of it, which keeps the walk alive.
    #[test]
    fn rights_of_a_program_that_has_ended_end() {
        let (all, now) = (Directories::default(), Instant::now());
        for (at, above) in [(1, None), (2, Some(node(1))), (3, Some(node(1)))] {
            all.opened(node(at), handle(at as u8), above, user(0), now);
            drives(&all, at, &user(0), now);
        }
        assert_eq!(all.rights(node(3), now).unwrap(), [user(0)]);
        for second in 1..60 {
            let at = now + RECENT / 10 * second;
            drives(&all, 2, &user(1000), at);
            assert!(all.rights(node(2), at).unwrap().contains(&user(1000)), "it drives the walk there");
            assert_eq!(all.rights(node(3), at).unwrap(), [user(if at < now + RECENT { 0 } else { 1000 })]);
        }
    }

    /// A user works through a list of files. Root lists a directory above now and then.
    #[test]
    fn who_lists_takes_no_part_away_from_who_opens_files() {
        let (all, now) = (Directories::default(), Instant::now());
        all.reached(node(2), handle(2), Some(node(1)), 0, now);
        all.reached(node(1), handle(1), None, 0, now);
        all.entered(node(2), Some(&user(1000)), now);
        all.opened(node(1), handle(1), None, user(0), now);
        assert!(all.rights(node(2), now).unwrap().contains(&user(1000)));
        drives(&all, 2, &user(1000), now);
        assert_eq!(all.rights(node(2), now).unwrap(), [user(1000)]);
    }

    /// Nobody else's opens become part of a walk that is over.
    #[test]
    fn walks_that_are_over_have_no_participants() {
        let (all, now) = (Directories::default(), Instant::now());
        all.opened(node(1), handle(1), None, user(0), now);
        let later = now + RECENT * 6;
        all.opened(node(2), handle(2), Some(node(1)), user(5), later);
        assert!(all.rights(node(1), later).is_none());
        assert_eq!(all.rights(node(2), later).unwrap(), [user(5)]);
        // Nor are two walks one with a directory between them to which none came.
        all.reached(node(3), handle(3), Some(node(2)), 0, now);
        all.opened(node(4), handle(4), Some(node(3)), user(6), later);
        assert_eq!(all.rights(node(2), later).unwrap(), [user(5)]);
        all.visited(node(3), later);
        all.entered(node(4), Some(&user(6)), later);
        assert_eq!(all.rights(node(2), later).unwrap(), [user(5), user(6)]);
    }

    /// The process may have come to the directory by another way than those above: these must be checked.
    #[test]
    fn one_that_opened_a_file_below_counts_and_its_way_is_not_proved() {
        let (all, now) = (Directories::default(), Instant::now());
        let top = all.reached(node(1), handle(1), None, 0, now);
        let below = all.reached(node(2), handle(2), Some(node(1)), 0, now);
        all.entered(node(2), Some(&user(1000)), now);
        let rights = all.rights(node(2), now).unwrap();
        assert_eq!(rights, [user(1000)]);
        assert!(!below.was_opened_by(&rights, now) && !below.is_followed(now));
        assert!(all.above(&below, &rights, now).iter().any(|above| Arc::ptr_eq(above, &top)));
        all.opened(node(2), handle(2), None, user(1000), now);
        assert!(below.was_opened_by(&rights, now) && below.is_followed(now));
        assert!(!below.is_followed(now + RECENT));
        below.set_reported(true);
        assert!(below.is_followed(now + RECENT));
    }

    #[test]
    fn a_reused_inode_number_is_another_directory() {
        let (all, now) = (Directories::default(), Instant::now());
        let old = all.opened(node(1), handle(1), None, user(0), now);
        assert!(all.listed(&old, Arc::default()));
        let new = all.opened(node(1), handle(2), None, user(5), now);
        assert!(!Arc::ptr_eq(&old, &new) && new.listing().is_none());
        assert_eq!(all.rights(node(1), now).unwrap(), [user(5)]);
        assert!(!all.listed(&old, Arc::default()), "it was replaced");
    }

    #[test]
    fn a_loop_of_directories_ends() {
        let (all, now) = (Directories::default(), Instant::now());
        all.opened(node(1), handle(1), Some(node(2)), user(1), now);
        all.opened(node(2), handle(2), Some(node(1)), user(1), now);
        drives(&all, 1, &user(1), now);
        assert_eq!(all.rights(node(1), now).unwrap(), [user(1)]);
    }

    /// A user opens directories as fast as possible, beside another one's walk.
    #[test]
    fn records_of_the_user_with_the_most_give_way() {
        let (all, now) = (Directories::default(), Instant::now());
        let (own, other) = (user(1), user(2));
        for at in 0..100 {
            all.opened(node(at), handle(1), (at > 0).then(|| node(0)), own.clone(), now);
        }
        // One that is listed.
        let listed = all.reached(node(100), handle(1), Some(node(0)), 1, now);
        assert!(all.listed(&listed, Arc::default()));
        for at in 0..3 * DIRECTORIES as u64 {
            let known = all.reached(node(1000 + at), handle(2), None, other.user, now);
            if at % 3 == 0 {
                assert!(all.listed(&known, Arc::default()));
            }
            if at % 7 == 0 {
                all.entered(node(1000 + at), Some(&other), now);
            }
        }
        assert!(all.counts().0 <= DIRECTORIES, "{:?}", all.counts());
        assert!((0..=100).all(|at| all.get(node(at)).is_some()), "it has fewer");
        assert_eq!(all.rights(node(7), now).unwrap(), [own]);
    }
}
