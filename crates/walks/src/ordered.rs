//! Walks in an order: the files that come next.
//!
//! *Expected* are, from the directory of the file opened last, up to the top: in each directory the entries behind the reached
//! one in the order of that directory ([`crate::order`]), and with each subdirectory its whole subtree. If the
//! walk opens the files of a directory before it descends (fts, du, rsync), files come first, and subdirectories
//! may have an order of their own. If it descends in between (find, tar, grep -r), they come in one order. This is
//! decided by votes, too. For a walk that has
//! opened no file, only directories are followed.
//!
//! Entries that the walk has passed by more than the slack are not expected.
//!
//! *Fetched* are files in that order, until one pass over them costs what [`crate::ledger`] allows or memory is
//! full. The allowance is kept for a larger batch in two cases. A pass over the found files may cost hardly less
//! than the program's own reads in their order, or than the program's time for them at its pace. Or a pass over all
//! that is expected is allowed soon. Directories and inodes then wait as well: they would take what is saved.

use crate::contents::{Batch, KNOWN_SHARE, Manner};
use crate::order::{By, Order, SLACK};
use crate::plan::Found;
use crate::state::{About, State};
use crate::tree::{DEPTH_LIMIT, Directory, Item, Key, Listing, Tree, flag};
use crate::walk::{ACTIVE, Walk};
use crate::{Kind, Node, Stopped};
use foreseek_units::Nanos;
use rustc_hash::FxHashSet;

/// The least number of expected files that a look searches for: the size of the smallest batches.
const HORIZON_LEAST: u64 = 32;
/// Files that cannot be fetched yet and that a batch may skip, in addition to a quarter of its size. The
/// program reads them itself, and must not take long to reach the fetched ones.
const UNKNOWN_LIMIT: u64 = 16;
/// How much cheaper a file may be than in the last round, for the range of a look.
const OPTIMISM: u64 = 16;

/// Opens follow an order.
pub(crate) struct InOrder;

impl Manner for InOrder {
    fn expect(&self, walk: &Walk, tree: &Tree, visit: &mut dyn FnMut(Key, u32, &Item) -> bool) {
        let Some((mut stack, mut met)) = walk.start(tree) else { return };
        while let Some(frame) = stack.last_mut() {
            let Some(directory) = tree.get(frame.key) else {
                stack.pop();
                continue;
            };
            let Some(entry) = directory.nth(frame.order, frame.at) else {
                if frame.phase == Phase::Files {
                    let order = walk.order_or_listing(directory, Phase::Directories);
                    *frame = Frame { order, at: 0, phase: Phase::Directories, ..*frame };
                } else {
                    stack.pop();
                }
                continue;
            };
            frame.at += 1;
            let (item, key, phase) = (&directory.items[entry as usize], frame.key, frame.phase);
            let wanted = match item.kind {
                Kind::File => phase != Phase::Directories && !item.is(flag::OPENED | flag::PASSED),
                Kind::Directory => phase != Phase::Files,
                Kind::Other => false,
            };
            if wanted && !visit(key, entry, item) {
                return;
            }
            if wanted && item.kind == Kind::Directory {
                let node = Node { device: directory.node.device, inode: item.inode };
                // A directory is visited once, even if listings repeat it. The files of a directory that
                // belongs to another walk are that walk's: its account includes their held bytes.
                let below = tree.key(node).filter(|below| {
                    tree.get(*below).is_some_and(|below| below.walk == directory.walk)
                        && stack.len() < DEPTH_LIMIT
                        && met.insert(*below)
                });
                stack.extend(below.and_then(|below| walk.frame(tree, below)));
            }
        }
    }

    fn classes(&self, walk: &Walk, _: &Tree) -> Vec<bool> {
        (0..walk.tallies.len()).map(|class| walk.wants(class as u8)).collect()
    }

    fn is_too_early(&self, state: &State, _: &Walk, allowed: Nanos) -> bool {
        allowed < state.ledger.model().near() * 2
    }

    fn obstacle(&self, state: &State, walk: &Walk) -> Option<Stopped> {
        let cursor = walk.cursor.and_then(|cursor| state.tree.get(cursor));
        if cursor.is_some_and(|it| it.listing == Listing::Known && walk.order(it).is_none()) {
            return Some(Stopped::NoOrder);
        }
        // It may turn out that there is none.
        if !walk.jumps.are_few() {
            return Some(Stopped::NoOrder);
        }
        walk.selects().then_some(Stopped::Selective)
    }

    fn horizon(&self, state: &State, walk: &Walk, allowed: Nanos) -> u64 {
        let price = walk.price.unwrap_or(state.ledger.model().near()).max(Nanos(OPTIMISM)) / OPTIMISM;
        let more = state.classes.more(walk.program, walk.files);
        (allowed.get() / price.get()).max(HORIZON_LEAST).min(more)
    }

    fn may_skip(&self, unknown: u64, files: u64) -> bool {
        unknown <= UNKNOWN_LIMIT + files / 4
    }

    /// Whether the contents of all known files are worth a pass, but not those that are allowed by now.
    fn saves_for(&self, state: &State, at: usize, files: &[About]) -> bool {
        let batch = state.batch_of(at, files);
        state.pays_for(at, batch.all as u64, batch.whole, batch.all_alone) && !state.batch_pays(at, &batch)
    }

    fn fetch(&self, state: &mut State, at: usize, found: Found) -> Stopped {
        if found.files.is_empty() {
            return found.nothing();
        }
        state.waste_skipped(at);
        let batch = state.batch_of(at, &found.files);
        if batch.taken.is_empty() {
            let is_full = state.memory_left(at) < state.settings.budget / 8;
            return if is_full { Stopped::Memory } else { Stopped::Allowance };
        }
        if !state.batch_pays(at, &batch) {
            return Stopped::NoGain;
        }
        if found.unknown * KNOWN_SHARE <= batch.all as u64 && state.is_worth_waiting(at, &batch) {
            return Stopped::Allowance;
        }
        state.fetch_batch(at, batch)
    }
}

impl State {
    /// Whether a pass is cheaper than the program's own reads, by the model and by its pace. Once directories without a
    /// known address were listed, what lies on the way does not count: listings are so dear then that small passes
    /// starve them.
    fn batch_pays(&self, at: usize, batch: &Batch) -> bool {
        let is_unplaced = self.walks[at].as_ref().is_some_and(|walk| walk.unplaced.is_used());
        let (count, alone) = if is_unplaced {
            (batch.first, batch.first_alone)
        } else {
            (batch.taken.len() as u64, batch.alone)
        };
        self.pays_for(at, count, batch.price, alone)
    }

    /// Whether to wait because one pass over all of it is allowed soon. The wait costs the program's own reads
    /// until then. A pass over a part costs itself, and shortens the later pass by half of the part's share.
    /// The program's reads raise the allowance by `rho` times their share of the optimum, while a pass over a
    /// part also consumes allowance.
    fn is_worth_waiting(&self, at: usize, batch: &Batch) -> bool {
        let taken = batch.taken.len();
        let Some(walk) = self.walks[at].as_ref().filter(|_| (batch.all - taken) * 2 >= taken) else {
            return false;
        };
        let count = taken as u64;
        let alone = walk.pace.cost_of(count).unwrap_or(batch.alone).min(batch.alone) / count;
        let optimum = Nanos((batch.price.get() / count).saturating_mul(self.settings.rho as u64));
        let growth = self.speed.price_of(alone).min(optimum);
        let files = batch.whole.saturating_sub(self.allowed(at)).get() / growth.get().max(1);
        let spared = self.speed.time_of(batch.whole / (2 * batch.all as u64) * count);
        Nanos(alone.get().saturating_mul(files)) + spared <= self.speed.time_of(batch.price)
    }
}

impl Walk {
    /// The frames from the top to the walk's position, and the directories on that path.
    fn start(&self, tree: &Tree) -> Option<(Vec<Frame>, FxHashSet<Key>)> {
        let cursor = self.cursor.filter(|cursor| tree.get(*cursor).is_some()).unwrap_or(self.opened);
        let mut stack = Vec::new();
        let mut chain = FxHashSet::default();
        let directory = tree.get(cursor)?;
        stack.push(self.first_frame(cursor, directory));
        chain.insert(cursor);
        let mut below = directory;
        while let Some(key) = below.parent.and_then(|parent| tree.key(parent)) {
            let Some(above) = tree.get(key).filter(|above| above.walk == below.walk) else { break };
            if stack.len() >= DEPTH_LIMIT || !chain.insert(key) {
                break;
            }
            if let Some(entry) = above.find(below.node.inode) {
                let phase = if self.descent > 0 { Phase::Directories } else { Phase::Both };
                let order = self.order_or_listing(above, phase);
                stack.push(Frame { key, order, at: above.position(order, entry) + 1, phase });
            }
            below = above;
        }
        stack.reverse();
        Some((stack, chain))
    }

    fn order_or_listing(&self, directory: &Directory, phase: Phase) -> Order {
        let order = match phase {
            Phase::Directories => self.order_of_directories(directory),
            Phase::Files | Phase::Both => self.order(directory),
        };
        order.unwrap_or(Order { by: By::Listing, reversed: false })
    }

    /// The frame of a directory, from a little before the furthest opened file.
    fn first_frame(&self, key: Key, directory: &Directory) -> Frame {
        let phase = if self.descent > 0 { Phase::Files } else { Phase::Both };
        let order = self.order_or_listing(directory, phase);
        Frame { key, order, at: directory.reached(order).saturating_sub(SLACK), phase }
    }

    /// The frame of a directory below, unless the walk has finished it.
    fn frame(&self, tree: &Tree, key: Key) -> Option<Frame> {
        let directory = tree.get(key)?;
        let finished = directory.files > 0 && directory.touched + ACTIVE < self.clock;
        if directory.listing != Listing::Known || finished {
            return None;
        }
        Some(self.first_frame(key, directory))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Files,
    Directories,
    Both,
}

/// The position of the prediction in one directory.
#[derive(Clone, Copy, Debug)]
struct Frame {
    key: Key,
    order: Order,
    at: usize,
    phase: Phase,
}
