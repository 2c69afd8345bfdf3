//! Recently opened or listed directories: how to open each again, its listing, and its openers.
//!
//! A directory is stored as its file handle, which keeps nothing open and outlives renames.
//!
//! *Rights.* A walk may consist of several processes (`find | xargs`), and different users may open a directory
//! within seconds. Files below it are read only if **all** openers of it, or of a directory above it in the
//! walk, within [`RECENT`] could read them themselves. No walk therefore reads with another user's rights.
//!
//! Bounds: [`DIRECTORIES`] records and [`ENTRIES`] entries. At the first bound, records without a listing are
//! dropped first. A listing beyond the second is not kept, and nothing of its directory is fetched.

use foreseek_places::Entries;
use foreseek_storage::{Credentials, FileHandle};
use foreseek_walks::{Kind, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::FileType;
use std::collections::hash_map::Entry as Slot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long an open counts: after such a time without events, the engine considers a walk over.
pub(crate) const RECENT: Duration = Duration::from_secs(10);
/// Directories that are known: some 250 bytes each, 32 MiB in all. In a larger walk, the last opened ones are
/// kept.
pub(crate) const DIRECTORIES: usize = 128 * 1024;
/// Entries of all listings together: about 50 bytes each, 50 MiB in all. A directory of a million files fits.
pub(crate) const ENTRIES: usize = 1024 * 1024;
/// Different users of one directory within [`RECENT`]. With more, nothing of it is fetched.
const OPENERS: usize = 4;
/// Directories above one whose openers count: real trees are not deeper, and the search ends here in a loop of
/// a damaged file system.
const ABOVE: usize = 64;

/// The listing of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    entries: Entries,
    by_inode: Vec<u32>,
    by_name: Vec<u32>,
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
        Self { entries, by_inode, by_name }
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
    state: Mutex<State>,
}

/// The users that opened a directory, or a file below it.
#[derive(Debug, Default)]
struct Openers {
    list: Vec<(Arc<Credentials>, Instant)>,
    /// There were more than [`OPENERS`] at this time: for [`RECENT`] from then they are not all known.
    crowded: Option<Instant>,
}

impl Openers {
    fn opened(&mut self, by: Arc<Credentials>, now: Instant) {
        if let Some(known) = self.list.iter_mut().find(|(known, _)| *known == by) {
            known.1 = known.1.max(now);
            return;
        }
        self.list.retain(|(_, at)| now.duration_since(*at) < RECENT);
        if self.list.len() < OPENERS {
            self.list.push((by, now));
        } else {
            self.crowded = Some(now);
        }
    }

    fn recent(&self, now: Instant) -> impl Iterator<Item = &Arc<Credentials>> {
        let recent = self.list.iter().filter(move |(_, at)| now.duration_since(*at) < RECENT);
        recent.map(|(opener, _)| opener)
    }

    fn are_crowded(&self, now: Instant) -> bool {
        self.crowded.is_some_and(|at| now.duration_since(at) < RECENT)
    }
}

#[derive(Debug, Default)]
struct State {
    parent: Option<Node>,
    /// Those that opened the directory itself, to list it.
    openers: Openers,
    /// Those that opened a file in it or below it, and listed nothing.
    entered: Openers,
    /// Opens of its files are reported.
    reported: bool,
    listing: Option<Arc<Listing>>,
    touched: Option<Instant>,
}

impl State {
    fn openers(&self) -> &Openers {
        &self.openers
    }

    fn entered(&self) -> &Openers {
        &self.entered
    }
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
        all.iter().all(|opener| state.openers.recent(now).any(|known| known == opener))
    }

    /// Opens of its files are reported from now on, or not any more.
    pub(crate) fn set_reported(&self, on: bool) {
        self.state().reported = on;
    }

    /// Whether the engine learns of opens in it without reports of all files: a walk goes on in it, or has just begun.
    pub(crate) fn is_followed(&self, now: Instant) -> bool {
        let state = self.state();
        state.reported || state.listing.is_some() || state.openers.recent(now).next().is_some()
    }

    fn opened(&self, by: Arc<Credentials>, at: Instant) {
        let mut state = self.state();
        state.touched = Some(Instant::now());
        state.openers.opened(by, at);
    }

    fn entered(&self, by: Arc<Credentials>, now: Instant) {
        let mut state = self.state();
        state.touched = Some(now);
        state.entered.opened(by, now);
    }
}

/// The credentials with which something may be read: all of these must be permitted to.
pub(crate) type Rights = Vec<Arc<Credentials>>;

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
        let directory = self.reached(node, handle, parent, Instant::now());
        directory.opened(by, at);
        directory
    }

    /// A process opened a file in this directory or below it. It may have come there by another way: unlike an open of
    /// the directory itself this does not show that it may search those above.
    pub(crate) fn entered(&self, node: Node, by: Arc<Credentials>, now: Instant) {
        if let Some(directory) = self.get(node) {
            directory.entered(by, now);
        }
    }

    /// A directory was reached through the one above it.
    pub(crate) fn reached(
        &self,
        node: Node,
        handle: FileHandle,
        parent: Option<Node>,
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
                let new = Arc::new(Directory { node, handle, state: Mutex::new(state) });
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

    /// Stores the listing of a directory; returns whether there was room.
    pub(crate) fn listed(&self, directory: &Arc<Directory>, listing: Arc<Listing>) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_kept =
            table.directories.get(&directory.node).is_some_and(|known| Arc::ptr_eq(known, directory));
        let before = directory.listing().map_or(0, |listing| listing.len());
        let entries = table.entries.saturating_sub(before) + listing.len();
        if !is_kept || entries > ENTRIES {
            return false;
        }
        table.entries = entries;
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

    /// No opens of files are reported any more.
    pub(crate) fn end_reports(&self) {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.directories.values().for_each(|directory| directory.set_reported(false));
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

    /// All whose rights count for the contents of a directory; `None` if they are not known. Those that list count, and
    /// where none does lately, those that have a list of files: these open files anywhere, and would forbid to the others
    /// what they cannot read. Where nothing was opened lately, the last one of the nearest directory counts.
    pub(crate) fn rights(&self, node: Node, now: Instant) -> Option<Rights> {
        let above = std::iter::successors(self.get(node), |directory| {
            let parent = directory.parent().filter(|parent| *parent != directory.node);
            parent.and_then(|parent| self.get(parent))
        });
        let above: Vec<Arc<Directory>> = above.take(ABOVE).collect();
        for of in [State::openers, State::entered] {
            let mut rights: Rights = Vec::new();
            for directory in &above {
                let state = directory.state();
                if of(&state).are_crowded(now) {
                    return None;
                }
                for opener in of(&state).recent(now) {
                    if !rights.contains(opener) {
                        rights.push(opener.clone());
                    }
                }
            }
            if !rights.is_empty() {
                return Some(rights);
            }
        }
        above.iter().find_map(|directory| {
            let state = directory.state();
            let all = state.openers.list.iter().chain(&state.entered.list);
            all.max_by_key(|(_, at)| *at).map(|(last, _)| vec![last.clone()])
        })
    }
}

impl Table {
    /// Drops directories that have no listing and no reports and were not opened recently. If that is not enough, drops all
    /// without these, and then everything.
    fn make_room(&mut self, now: Instant) {
        let recent = |directory: &Directory| {
            directory.state().touched.is_some_and(|at| now.duration_since(at) < RECENT)
        };
        let in_use = |directory: &Directory| {
            let state = directory.state();
            state.listing.is_some() || state.reported
        };
        self.directories.retain(|_, directory| in_use(directory) || recent(directory));
        if self.directories.len() >= DIRECTORIES {
            self.directories.retain(|_, directory| in_use(directory));
        }
        if self.directories.len() >= DIRECTORIES {
            self.directories.clear();
        }
        self.recount();
    }

    fn recount(&mut self) {
        let listings = self.directories.values().filter_map(|directory| directory.listing());
        self.entries = listings.map(|listing| listing.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_places::Entry;
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

    #[test]
    fn openers_of_a_directory_and_of_those_above_it_count_for_a_while() {
        let (all, now) = (Directories::default(), Instant::now());
        assert!(all.rights(node(1), now).is_none());
        all.opened(node(1), handle(1), None, user(0), now);
        all.opened(node(2), handle(2), Some(node(1)), user(1000), now);
        assert_eq!(all.rights(node(1), now).unwrap(), [user(0)]);
        assert_eq!(all.rights(node(2), now).unwrap(), [user(1000), user(0)]);
        // A directory that was reached below them has no openers yet.
        all.reached(node(3), handle(3), Some(node(2)), now);
        assert_eq!(all.rights(node(3), now).unwrap(), [user(1000), user(0)]);
        // Later, only the last opener counts.
        let later = now + RECENT;
        all.opened(node(2), handle(2), None, user(7), later);
        assert_eq!(all.rights(node(3), later).unwrap(), [user(7)]);
        assert_eq!(all.rights(node(3), later + RECENT).unwrap(), [user(7)]);
    }

    /// The process may have come to the directory by another way than those above: these must be checked.
    #[test]
    fn one_that_opened_a_file_below_counts_and_its_way_is_not_proved() {
        let (all, now) = (Directories::default(), Instant::now());
        let top = all.reached(node(1), handle(1), None, now);
        let below = all.reached(node(2), handle(2), Some(node(1)), now);
        all.entered(node(2), user(1000), now);
        let rights = all.rights(node(2), now).unwrap();
        assert_eq!(rights, [user(1000)]);
        assert!(!below.was_opened_by(&rights, now) && !below.is_followed(now));
        assert!(all.above(&below, &rights, now).iter().any(|above| Arc::ptr_eq(above, &top)));
        // Who lists counts, whoever else opens files there.
        all.opened(node(1), handle(1), None, user(0), now);
        assert_eq!(all.rights(node(2), now).unwrap(), [user(0)]);
        all.opened(node(2), handle(2), None, user(1000), now);
        assert!(below.was_opened_by(&rights, now) && below.is_followed(now));
        assert!(!below.is_followed(now + RECENT));
        below.set_reported(true);
        assert!(below.is_followed(now + RECENT));
    }

    /// Where nothing was opened lately, an open far above gives no rights.
    #[test]
    fn the_last_opener_of_the_nearest_directory_counts() {
        let (all, now) = (Directories::default(), Instant::now());
        all.reached(node(2), handle(2), Some(node(1)), now);
        all.entered(node(2), user(1000), now);
        all.opened(node(1), handle(1), None, user(0), now + RECENT / 2);
        assert_eq!(all.rights(node(2), now + RECENT * 2).unwrap(), [user(1000)]);
    }

    #[test]
    fn a_directory_with_too_many_openers_is_not_read() {
        let (all, now) = (Directories::default(), Instant::now());
        for number in 0..=OPENERS as u32 {
            assert!(number == 0 || all.rights(node(1), now).is_some());
            all.opened(node(1), handle(1), None, user(number), now);
        }
        assert!(all.rights(node(1), now).is_none());
        assert!(all.rights(node(1), now + RECENT).is_some());
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
        assert_eq!(all.rights(node(1), now).unwrap(), [user(1)]);
    }
}
