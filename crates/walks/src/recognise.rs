//! The actions of programs: opens and look-ups become walks, votes and uses.

use crate::ledger::Earned;
use crate::order::SLACK;
use crate::parts::Parts;
use crate::plan::FILES_FIRST;
use crate::state::{About, State, WALKS_LIMIT};
use crate::tree::{
    CHAIN_LIMIT, DEPTH_LIMIT, Directory, EARLY_LIMIT, Item, Key, Listing, Pieces, Visit, flag,
};
use crate::walk::{ACTIVE, Walk};
use crate::{Command, InDirectory, Kind, LISTS_LIMIT, ListCondition, Node};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Nanos};
use rustc_hash::FxHashSet;

/// Files or directories opened before the walk's opened directories are listed. The program has listed them
/// itself, so that this costs the device nothing.
const LIST_FILES: u64 = 2;
const LIST_DIRECTORIES: u64 = 3;
/// Directories that are listed while everything found is in memory: so many, and an eighth of all beyond.
const LISTED_FIRST: u64 = 16;
const LISTED_SHARE: u64 = 8;
/// A walk is over if its top is opened again when no more than this part of it is left: a sixteenth. Programs leave
/// some files out, and the last opens may not be reported yet. As much of the walk must pass between two checks.
pub(crate) const OVER: u64 = 16;

impl State {
    /// A program opened a directory.
    pub(crate) fn directory_opened(
        &mut self,
        now: Instant,
        pid: ProcessId,
        node: Node,
        parent: Option<Node>,
    ) {
        if let Some(over) = self.tree.key(node).and_then(|key| self.ends_with_top(key)) {
            self.end(over);
        }
        self.visit(now, pid, node, parent, Visit::Opened);
    }

    /// A program opened something in a directory, or below it. An open of the directory itself was not reported.
    pub(crate) fn directory_passed(
        &mut self,
        now: Instant,
        pid: ProcessId,
        node: Node,
        parent: Option<Node>,
        visit: Visit,
    ) {
        let known = self.tree.key(node).and_then(|key| self.tree.get(key));
        if !known.is_some_and(|directory| directory.opened) {
            self.visit(now, pid, node, parent, visit);
        }
    }

    /// A program comes to a directory.
    fn visit(&mut self, now: Instant, pid: ProcessId, node: Node, parent: Option<Node>, visit: Visit) {
        let lists = visit != Visit::Entered;
        let parent = parent.filter(|parent| *parent != node);
        let Some(key) = self.tree.key(node).or_else(|| self.begin(now, pid, node, parent)) else { return };
        let Some(directory) = self.tree.get_mut(key) else { return };
        let at = directory.walk as usize;
        directory.parent = directory.parent.or(parent);
        let first = !std::mem::replace(&mut directory.opened, true);
        if visit == Visit::Opened && directory.visit != Visit::Opened {
            directory.list_from = 0;
        }
        if first && lists && directory.listing == Listing::Never {
            // It could not be listed ahead of its program. The rights of others may have counted then.
            directory.listing = Listing::None;
        }
        if first || visit == Visit::Opened {
            directory.visit = visit;
        }
        directory.opener = Some(pid);
        if first {
            (directory.rank, self.ranks) = (self.ranks, self.ranks + 1);
        }
        let parent = directory.parent;
        if first {
            self.adopt(at, node);
        }
        let quiet = self.walks[at].as_ref().is_some_and(|walk| walk.quiet.is_some());
        if !quiet {
            self.report_opens(key);
        }
        let program = self.classes.program(pid);
        let Some(walk) = &mut self.walks[at] else { return };
        (walk.clock, walk.last, walk.opened) = (walk.clock + 1, now, key);
        walk.has_list |= !lists;
        walk.opens_directories |= lists;
        walk.program = program.or(walk.program);
        if first {
            walk.directories += 1;
            let above = parent.and_then(|parent| self.tree.key(parent));
            let entry = above.and_then(|above| Some((above, self.tree.get(above)?.find(node.inode)?)));
            match entry {
                Some((above, entry)) => self.open(at, above, entry),
                None => walk.account.own += self.ledger.model().near(),
            }
        }
        if quiet {
            return self.try_again(at, key);
        }
        self.list_opened(at, key);
        self.advance(at);
    }

    /// A program opens a directory. If that is the top of a walk that has opened nearly all that it knows of, that walk
    /// is over, and the next one over the same files begins. Returns the walk. Quiet walks go on: their trials
    /// find out what has left memory.
    fn ends_with_top(&mut self, key: Key) -> Option<usize> {
        let at = self.tree.get(key).filter(|directory| directory.opened)?.walk as usize;
        let walk = self.walks[at].as_mut().filter(|walk| walk.top == key && walk.clock >= walk.over_at)?;
        walk.over_at = walk.clock + walk.clock / OVER + 1;
        let walk = self.walks[at].as_ref()?;
        if walk.is_fetching() || walk.quiet.is_some() {
            return None;
        }
        let (mut all, mut left) = (0, walk.waiting());
        for directory in walk.all.iter().filter_map(|key| self.tree.get(*key)) {
            match directory.listing {
                Listing::Known => {
                    all += directory.items.len() as u64;
                    left += directory.unopened();
                }
                _ if directory.opened && !directory.unseen => return None,
                _ => {}
            }
        }
        (all >= FILES_FIRST && left * OVER <= all).then_some(at)
    }

    /// An action of a program in a known directory continues its walk. Returns the walk.
    fn touched(&mut self, now: Instant, pid: ProcessId, directory: Node) -> Option<(usize, Key)> {
        let key = self.tree.key(directory)?;
        let at = self.tree.get(key)?.walk as usize;
        let walk = self.walks[at].as_mut()?;
        (walk.clock, walk.last) = (walk.clock + 1, now);
        walk.program = self.classes.program(pid).or(walk.program);
        Some((at, key))
    }

    /// A program opened a file.
    pub(crate) fn file_opened(&mut self, now: Instant, pid: ProcessId, node: Node, file: Node) {
        self.enters_listed(now, pid, node);
        let Some((at, key)) = self.touched(now, pid, node) else { return };
        let (Some(directory), Some(walk)) = (self.tree.get_mut(key), &mut self.walks[at]) else { return };
        walk.read_by(pid, self.classes.program(pid), key, now);
        let before = (directory.files > 0).then_some(directory.touched);
        (directory.files, directory.touched) = (directory.files + 1, walk.clock);
        let left = walk.cursor.replace(key).filter(|before| *before != key);
        walk.left.extend(left.map(|before| (before, walk.clock)));
        let entry = directory.find(file.inode);
        let cheap =
            entry.is_some_and(|entry| directory.items[entry as usize].is(flag::FETCHED | flag::RESIDENT));
        if cheap || walk.contents.is_some() || walk.metadata.is_some() {
            walk.pace.interrupted();
        } else {
            walk.pace.opened(now);
        }
        let again = entry.is_some_and(|entry| directory.items[entry as usize].is(flag::OPENED));
        match entry {
            Some(entry) => self.open(at, key, entry),
            None => {
                walk.files += 1;
                walk.account.own += self.ledger.model().near();
                if directory.listing != Listing::Known && directory.early.len() < EARLY_LIMIT {
                    directory.early.push(file.inode);
                }
            }
        }
        self.moved(at, left, key, before);
        self.judge_order(at);
        self.leave(at);
        self.list_opened(at, key);
        self.examine(at);
        self.opens_again(at, again);
        self.advance(at);
    }

    /// A program that has a list of files opens one in a directory that was listed for it.
    fn enters_listed(&mut self, now: Instant, pid: ProcessId, node: Node) {
        let known = self.tree.key(node).and_then(|key| self.tree.get(key));
        let walk = known.filter(|it| !it.opened).and_then(|it| self.walks[it.walk as usize].as_ref());
        if walk.is_some_and(|walk| walk.has_list) {
            self.visit(now, pid, node, None, Visit::Entered);
        }
    }

    /// A program looked an inode up.
    pub(crate) fn looked_up(&mut self, now: Instant, pid: ProcessId, node: Node, looked: Node) {
        let Some((at, key)) = self.touched(now, pid, node) else { return };
        let (Some(directory), Some(walk)) = (self.tree.get_mut(key), &mut self.walks[at]) else { return };
        let entry = directory.find(looked.inode);
        let new = entry.is_none_or(|entry| directory.items[entry as usize].set(flag::LOOKED));
        walk.lookups += u64::from(new);
        if let Some(entry) = entry {
            self.use_inode(at, key, entry);
        }
        self.list_opened(at, key);
        self.advance(at);
    }

    /// Starts to follow a directory: in the walk of its parent, or in a new one.
    fn begin(&mut self, now: Instant, pid: ProcessId, node: Node, parent: Option<Node>) -> Option<Key> {
        let user = self.classes.user(pid);
        if !self.make_room(user) {
            return None;
        }
        let above = parent.and_then(|parent| self.tree.key(parent)).and_then(|key| self.tree.get(key));
        let above = above.map(|above| above.walk as usize);
        let at = above.or_else(|| self.walks.iter().position(Option::is_none)).unwrap_or_else(|| {
            let least = self.least(user);
            self.end(least);
            least
        });
        let key = self.tree.add(node, parent, user, at as u32);
        // It is wanted again.
        self.outbox.retain(|it| !matches!(it, Command::Forget { directory } if *directory == node));
        match &mut self.walks[at] {
            Some(walk) => walk.all.push(key),
            none => *none = Some(Walk::new(key, user, now)),
        }
        Some(key)
    }

    /// Walks that began right below this directory become part of its walk.
    fn adopt(&mut self, at: usize, node: Node) {
        for other in (0..WALKS_LIMIT).filter(|other| *other != at) {
            let top = self.walks[other].as_ref().and_then(|walk| self.tree.get(walk.top));
            if top.is_none_or(|top| top.parent != Some(node)) {
                continue;
            }
            let Some(mut walk) = self.walks[other].take() else { continue };
            for key in &walk.all {
                if let Some(directory) = self.tree.get_mut(*key) {
                    directory.walk = at as u32;
                }
            }
            for flight in self.in_flight.values_mut().filter(|flight| flight.walk == Some(other)) {
                flight.walk = Some(at);
            }
            for asked in self.asked.values_mut().filter(|asked| asked.walk == other) {
                asked.walk = at;
            }
            let quiet = walk.quiet.is_some();
            if let Some(above) = &mut self.walks[at] {
                let clock = above.clock.max(walk.clock);
                above.advance_clock(&mut self.tree, clock);
                walk.advance_clock(&mut self.tree, clock);
                above.join(&mut walk);
                if quiet || above.quiet.is_some() {
                    self.wake(at);
                }
            }
        }
    }

    /// Lists a directory that a program opened, and those above it, once its walk is recognised.
    fn list_opened(&mut self, at: usize, key: Key) {
        let Some(walk) = self.walks[at].as_ref().filter(|walk| walk.quiet.is_none()) else { return };
        let has_list = walk.has_list;
        let is_walk =
            walk.files >= LIST_FILES || walk.directories >= LIST_DIRECTORIES || walk.lookups >= LIST_FILES;
        let is_walk_of_list = walk.files >= FILES_FIRST;
        // Everything may be in memory, and the listings would not be needed.
        let may = walk.missing || walk.listed < LISTED_FIRST + walk.directories / LISTED_SHARE;
        // Those above were opened before the walk was recognised.
        let mut next = Some(key).filter(|_| is_walk && may);
        for _ in 0..CHAIN_LIMIT {
            let Some(here) = next else { return };
            // Those of a list may be known below others that are not.
            let opened = self.tree.get(here).filter(|it| it.opened);
            let opened = opened.filter(|it| has_list || it.listing == Listing::None);
            let may = opened.is_some_and(|it| is_walk_of_list || it.visit != Visit::Entered);
            next = opened.and_then(|it| it.parent).and_then(|parent| self.tree.key(parent));
            // The program may be about to list the directory that it has just opened. Below the top, a
            // directory at its beginning may have been listed and rewound, as Python does it.
            let is_top = next.and_then(|above| self.tree.get(above)).is_none_or(|above| !above.opened);
            let passes = opened.and_then(|it| it.opener).filter(|_| here != key && is_top);
            let condition = passes.map_or(ListCondition::Always, ListCondition::UnlessPassedBy);
            if may && !self.list(at, here, condition) && !has_list {
                return;
            }
        }
    }

    /// Requests a listing, and returns whether it did.
    pub(crate) fn list(&mut self, at: usize, key: Key, condition: ListCondition) -> bool {
        let (Some(walk), Some(directory)) = (&self.walks[at], self.tree.get(key)) else { return false };
        // The answer counts for the directory's walk.
        let is_own = directory.walk as usize == at;
        let may = is_own && directory.listing == Listing::None && directory.list_from <= walk.clock;
        if !may || walk.lists as usize >= LISTS_LIMIT || !self.may_list(at) {
            return false;
        }
        let (Some(walk), Some(directory)) = (&mut self.walks[at], self.tree.get_mut(key)) else {
            return false;
        };
        let condition = match (condition, directory.opener) {
            _ if directory.visit != Visit::Opened => ListCondition::InMemory,
            (ListCondition::Always, Some(opener)) if directory.opened => ListCondition::Opened(opener),
            _ => condition,
        };
        directory.may_ask_again = matches!(condition, ListCondition::InMemory | ListCondition::Opened(_));
        directory.listing = Listing::Asked;
        walk.lists += 1;
        walk.listed += 1;
        let above = directory.parent.unwrap_or(directory.node);
        let directory = InDirectory { node: directory.node, directory: above };
        self.lists_one(at, directory.node);
        self.outbox.push_back(Command::List { directory, condition });
        true
    }

    /// An entry was opened.
    pub(crate) fn open(&mut self, at: usize, key: Key, entry: u32) {
        let (Some(walk), Some(directory)) = (&mut self.walks[at], self.tree.get_mut(key)) else { return };
        let item = &mut directory.items[entry as usize];
        if !item.set(flag::OPENED) {
            return;
        }
        let item = *item;
        walk.files += u64::from(item.kind == Kind::File);
        if let Some(distances) = directory.open(entry) {
            walk.vote(directory, item.kind, distances);
        }
        if let Some(order) = walk.order(directory) {
            let position = directory.position(order, entry);
            if item.kind == Kind::Directory && directory.reached(order) > position + 1 {
                walk.descend(true);
            } else if item.kind == Kind::File && directory.first_below(order).is_some_and(|it| it < position)
            {
                walk.descend(false);
            }
        }
        self.use_inode(at, key, entry);
        let about = About { directory: key, entry, inode: item.inode };
        if item.kind == Kind::File {
            if let Some(walk) = &mut self.walks[at] {
                walk.opened_one(item.class);
            }
            self.will_examine(at, about, &item);
            self.pass(at, key);
            self.end_reports(key);
        }
        let read = self.read_pieces(at, about);
        self.count_use(at, about, item.flags, &read);
        self.use_contents(at, about, &read);
    }

    /// An inode is in memory and used.
    fn use_inode(&mut self, at: usize, key: Key, entry: u32) {
        let Some(walk) = &mut self.walks[at] else { return };
        let Some(directory) = self.tree.get_mut(key) else { return };
        let inodes = directory.inodes;
        let Some(item) = directory.items.get_mut(entry as usize) else { return };
        let asked = item.is(flag::INODE_ASKED);
        item.set(flag::INODE_IN);
        let (first, lba) = (item.set(flag::INODE_USED), item.inode_at());
        walk.touch(item);
        if let Some(lba) = lba.filter(|_| first) {
            self.ledger.set_head(lba);
            if asked {
                let item = *item;
                let earned = self.ledger.used(inodes.holding(lba));
                self.earn(at, &item, earned);
            }
        }
    }

    /// A file or a directory is used: accounts for the fetch, or for the cost to its reader.
    fn count_use(&mut self, at: usize, about: About, before: u16, read: &Pieces) {
        let Some(item) = self.tree.item(about.directory, about.entry).copied() else { return };
        let bytes = self.tree.missing(&item);
        let model = self.ledger.model();
        let transfer = read.0.iter().map(|piece| model.transfer(piece.sectors())).sum();
        let Some(walk) = &mut self.walks[at] else { return };
        if before & flag::FETCHED == 0 {
            walk.account.own += match before & flag::PLACED {
                0 => model.near(),
                _ if read.0.is_empty() => Nanos::ZERO,
                _ => model.near() + transfer,
            };
            return;
        }
        let earned = Earned { optimum: Nanos::ZERO, alone: model.near() + transfer };
        self.earn(at, &item, earned);
        if item.kind == Kind::Directory {
            return;
        }
        let Some(walk) = &mut self.walks[at] else { return };
        walk.used += 1;
        self.totals[1] += bytes;
        if before & flag::PASSED != 0 {
            walk.wasted -= 1;
            self.totals[2] -= bytes;
        } else {
            self.release(at, bytes);
        }
    }

    /// Those of its missing pieces that its program reads count as used, and none is missing any more.
    fn use_contents(&mut self, at: usize, about: About, read: &Pieces) {
        let Some(item) = self.tree.item(about.directory, about.entry).copied() else { return };
        self.tree.take_pieces(about.directory, about.entry);
        let mut earned = Earned::default();
        for piece in &read.0 {
            earned += self.ledger.used(piece.sectors());
        }
        self.earn(at, &item, earned);
    }

    /// Marks the entries of a directory that the walk has passed.
    fn pass(&mut self, at: usize, key: Key) {
        let (Some(walk), Some(directory)) = (&self.walks[at], self.tree.get_mut(key)) else { return };
        let Some(order) = walk.order(directory) else { return };
        let until = directory.reached(order).saturating_sub(SLACK);
        let from = directory.pass(order, until);
        for position in from..until {
            let entry = self.tree.get(key).and_then(|directory| directory.nth(order, position));
            if let Some(entry) = entry {
                self.pass_one(at, key, entry);
            }
        }
    }

    fn pass_one(&mut self, at: usize, key: Key, entry: u32) {
        let unseen = self.tree.get(key).is_some_and(|directory| directory.unseen);
        let (Some(walk), Some(item)) = (&mut self.walks[at], self.tree.item_mut(key, entry)) else { return };
        if item.kind != Kind::File || item.is(flag::OPENED) || !item.set(flag::PASSED) {
            return;
        }
        if !unseen || item.is(flag::FETCHED) {
            walk.passed_one(item.class);
        }
        if item.is(flag::FETCHED) {
            let item = *item;
            self.waste(at, &item);
        }
    }

    /// A file in a directory that the walk has skipped. That says nothing about which files it opens of those that it comes
    /// to.
    fn skip_one(&mut self, at: usize, key: Key, entry: u32) {
        let Some(item) = self.tree.item_mut(key, entry) else { return };
        let is_held = item.kind == Kind::File && item.is(flag::FETCHED) && !item.is(flag::OPENED);
        if is_held && item.set(flag::PASSED) {
            let item = *item;
            self.waste(at, &item);
        }
    }

    /// The held pages of a file are not waited for any more.
    fn waste(&mut self, at: usize, item: &Item) {
        let bytes = self.tree.missing(item);
        if let Some(walk) = &mut self.walks[at] {
            walk.wasted += 1;
        }
        self.totals[2] += bytes;
        self.release(at, bytes);
    }

    /// Marks the passed entries of directories that the walk has left.
    fn leave(&mut self, at: usize) {
        loop {
            let Some(walk) = &mut self.walks[at] else { return };
            if walk.random {
                return walk.left.clear();
            }
            let (clock, cursor) = (walk.clock, walk.cursor);
            let front = walk.left.front().copied().filter(|(_, left)| left + ACTIVE < clock);
            let Some((key, _)) = front else { return };
            walk.left.pop_front();
            let Some(directory) = self.tree.get(key) else { continue };
            let touched = directory.touched;
            if touched + ACTIVE >= clock {
                continue;
            }
            let places = self.walks[at].iter().flat_map(|walk| walk.places(self.now)).map(Some);
            if places.chain([cursor]).any(|place| self.is_above(key, place)) {
                if let Some(walk) = &mut self.walks[at] {
                    walk.left.push_back((key, clock));
                }
                continue;
            }
            let unpassed = self.tree.get_mut(key).map_or(0..0, Directory::pass_all);
            for entry in unpassed {
                self.pass_one(at, key, entry);
            }
        }
    }

    /// A walk may skip directories (`--exclude-dir`, `.gitignore`): it has opened further ones of the same directory. Held
    /// pages of files there are not waited for any more. Where several programs read in it, one may come to what another
    /// has left out.
    pub(crate) fn waste_skipped(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        if walk.held * 2 < self.settings.budget || walk.clock < walk.skipped_at + ACTIVE {
            return;
        }
        walk.skipped_at = walk.clock;
        let Some(walk) = self.walks[at].as_ref().filter(|walk| walk.places(self.now).nth(1).is_none()) else {
            return;
        };
        let mut skipped: Vec<Key> = Vec::new();
        for directory in walk.all.iter().filter_map(|key| self.tree.get(*key)).filter(|it| it.opened) {
            let Some(order) = walk.order_of_directories(directory) else { continue };
            let until = directory.reached_below(order).saturating_sub(SLACK);
            let entries = (0..until).filter_map(|position| directory.nth(order, position));
            let below =
                entries.filter_map(|entry| directory.skipped(entry)).filter_map(|node| self.tree.key(node));
            skipped.extend(below.filter(|key| self.is_unopened(at, *key)));
        }
        // A listing may name a directory that another one has named.
        let mut met = FxHashSet::default();
        while let Some(key) = skipped.pop() {
            if !met.insert(key) {
                continue;
            }
            let entries = self.tree.get(key).map_or(0..0, |directory| 0..directory.items.len() as u32);
            for entry in entries.clone() {
                self.skip_one(at, key, entry);
            }
            let below = entries.filter_map(|entry| self.tree.get(key)?.skipped(entry));
            let below = below.filter_map(|node| self.tree.key(node)).filter(|key| self.is_unopened(at, *key));
            skipped.extend(below.collect::<Vec<_>>());
        }
    }

    /// Whether a walk knows of a directory that it has not opened.
    fn is_unopened(&self, at: usize, key: Key) -> bool {
        self.tree.get(key).is_some_and(|directory| directory.walk as usize == at && !directory.opened)
    }

    /// Whether a directory is another, or holds it.
    pub(crate) fn is_above(&self, above: Key, below: Option<Key>) -> bool {
        self.tree.upwards(below).take(DEPTH_LIMIT).any(|key| key == above)
    }

    /// Whether one more directory of this user may be known. If not, drops those that walks have finished first.
    pub(crate) fn make_room(&mut self, user: Option<u32>) -> bool {
        if !self.tree.has_room(user) {
            self.retire();
        }
        self.tree.has_room(user)
    }

    /// Drops directories that walks have finished.
    pub(crate) fn retire(&mut self) {
        for at in 0..WALKS_LIMIT {
            let Some(walk) = self.walks[at].as_ref().filter(|walk| !walk.random) else { continue };
            let finished = |key: &Key| {
                let Some(directory) = self.tree.get(*key) else { return true };
                directory.opened
                    && directory.listing != Listing::Asked
                    && directory.touched + ACTIVE < walk.clock
                    && *key != walk.top
                    && !self.is_above(*key, walk.cursor)
                    && !self.is_above(*key, Some(walk.opened))
            };
            let (gone, kept): (Vec<Key>, Vec<Key>) = walk.all.iter().partition(|key| finished(key));
            for key in gone {
                self.waste_all(at, key);
                if let Some(directory) = self.tree.forget(key) {
                    self.outbox.push_back(Command::Forget { directory });
                }
            }
            if let Some(walk) = &mut self.walks[at] {
                walk.all = kept;
            }
        }
    }

    /// Held pages of a directory's files are not waited for any more.
    pub(crate) fn waste_all(&mut self, at: usize, key: Key) {
        let count = self.tree.get(key).map_or(0, |directory| directory.items.len() as u32);
        for entry in 0..count {
            if self.tree.item(key, entry).is_some_and(|item| item.is(flag::FETCHED)) {
                self.pass_one(at, key, entry);
            }
        }
    }

    /// A walk is over.
    pub(crate) fn end(&mut self, at: usize) {
        let Some(walk) = &self.walks[at] else { return };
        let mut complete = true;
        walk.expect(&self.tree, |_, _, item| {
            complete = item.kind != Kind::File || !walk.wants(item.class);
            complete
        });
        self.classes.walked(walk.program, walk.files, !complete && !walk.unseen);
        let all = walk.all.clone();
        // Before thousands of directories are forgotten.
        for (fetch, flight) in self.in_flight.iter_mut().filter(|(_, flight)| flight.walk == Some(at)) {
            flight.walk = None;
            self.outbox.push_back(Command::Cancel { fetch: *fetch });
        }
        for key in all {
            self.waste_all(at, key);
            if let Some(directory) = self.tree.forget(key) {
                self.outbox.push_back(Command::Forget { directory });
            }
        }
        let Some(walk) = self.walks[at].take() else { return };
        self.ledger.settle(&walk.account);
        self.ended += 1;
        if self.live().all(|walk| walk.account.cost() == walk.account.own && walk.account.optimum.is_zero()) {
            self.ledger.end_period();
        }
        self.held -= walk.held;
        self.totals[2] += walk.held;
        self.asked.retain(|_, asked| asked.walk != at);
        if self.live().next().is_none() && self.classes.renew() {
            self.parts = Parts::default();
        }
    }
}
