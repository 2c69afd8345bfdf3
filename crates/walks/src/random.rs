//! Walks in random order: programs that list a tree and then open its files anywhere in it.
//!
//! Training jobs shuffle their files, and programs that look for duplicates open files of one length, wherever
//! they lie. No order predicts the next file. But each file of the tree is as likely as any other, so that what
//! pays is a pass over all of them, in disk order, as large as memory allows.
//!
//! *Recognition.* Directories have ranks, in the order in which programs opened them. A program in some order
//! moves in one direction, and hardly ever back to a directory that it has left before its last file. In random
//! order it does so at every second open. Programs that look for duplicates do it as well: they go through the tree
//! in one direction, and return to the first file of each length. Moves up and down one path do not count as such,
//! since every walk makes them. Moves to a directory of which a file was opened a moment ago, which threads make, only
//! count towards the direction. In a tree of few directories the votes of siblings ([`crate::order`]) show the same.
//!
//! *The rule.* Rent or buy: the pass is made once the walk has cost as much by itself. A part of it is made once the walk has
//! cost as much as all parts with this one: the files of one region of the disk, so that all parts together cost hardly
//! more than one pass. It serves the same part of the opens. Smaller parts than a quarter of what is left would cost
//! mostly the ways to their regions and back. The limit of every fetch ([`crate::ledger`]) holds as well.
//!
//! *Selection.* Nothing is passed in random order. A class of files is fetched if at least a quarter as many of
//! it were opened as of all files, in proportion. Nothing is fetched for a program whose walks have ended before
//! a quarter of what is left now was opened: a server that opens a file now and then.

use crate::contents::{Batch, KNOWN_SHARE, Manner};
use crate::plan::{Found, VISITS_LIMIT};
use crate::state::{About, State};
use crate::tree::{Item, Key, Tree, flag};
use crate::walk::Walk;
use crate::{Kind, Stopped};
use foreseek_seam::Extent;
use foreseek_units::{Lba, Nanos, Pages, SectorSpan};

/// Files are fetched if at least this part of them is expected to be opened: a quarter. In one pass a file costs
/// less than a quarter of a single read.
const WORTH: u64 = 4;
/// A pass over files of which fewer than this part fits into memory is not made: a half. The pages would wait
/// through most of the program's own reads, and the kernel would drop them.
const FITTING_SHARE: usize = 2;
/// The least part of a pass that is made at a time: a quarter.
const PARTS: u64 = 4;

/// An allowance that is larger by less than this part makes no difference: an eighth.
const NOTICEABLE: u64 = 8;

/// Opens after which a program is still at work in a directory: two for each of eight threads.
const AT_WORK: u64 = 16;
/// The weight of a jump back, against one of any other open: in random order one open of two is such a jump.
const JUMP: i32 = 3;
/// The balance lies between this and its negative.
const BALANCE_LIMIT: i32 = 32;
/// From here on jumps are many: at least eight of them.
const MANY: i32 = 24;

/// Moves in one direction of which it takes as many in the other one to turn back. Where a program turns, as many are
/// jumps, and are not many: `10 * (JUMP - 1) < MANY`.
const DRIFT_LIMIT: i32 = 10;

/// The balance of jumps back and of other opens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jumps {
    balance: i32,
    /// Positive: most moves go to later directories; negative: to earlier ones.
    drift: i32,
}

impl Jumps {
    /// Counts an open of a file, after a move that tells in which direction it goes, if there was one. `at_work`: to
    /// a directory where the program was a moment ago.
    fn count(&mut self, forward: Option<bool>, at_work: bool) {
        let way = forward.map_or(0, |forward| if forward { 1 } else { -1 });
        let back = way * self.drift.signum() < 0 && !at_work;
        self.drift = (self.drift + way).clamp(-DRIFT_LIMIT, DRIFT_LIMIT);
        self.add(if back { JUMP } else { -1 });
    }

    fn are_many(self) -> bool {
        self.balance >= MANY
    }

    pub(crate) fn are_few(self) -> bool {
        self.balance <= 0
    }

    /// Joins those of two walks that are one.
    pub(crate) fn join(&mut self, other: Self) {
        self.add(other.balance);
        self.drift = (self.drift + other.drift).clamp(-DRIFT_LIMIT, DRIFT_LIMIT);
    }

    fn add(&mut self, weight: i32) {
        self.balance = (self.balance + weight).clamp(-BALANCE_LIMIT, BALANCE_LIMIT);
    }
}

/// Opens follow no order.
pub(crate) struct InRandomOrder;

impl Manner for InRandomOrder {
    /// Visits all files that were neither opened nor passed, and all directories.
    fn expect(&self, walk: &Walk, tree: &Tree, visit: &mut dyn FnMut(Key, u32, &Item) -> bool) {
        for key in &walk.all {
            let directory = tree.get(*key).filter(|directory| directory.unopened() > 0);
            let items = directory.map_or(&[][..], |directory| &directory.items);
            for (entry, item) in items.iter().enumerate() {
                let wanted = match item.kind {
                    Kind::File => !item.is(flag::OPENED | flag::PASSED),
                    Kind::Directory => true,
                    Kind::Other => false,
                };
                if wanted && !visit(*key, entry as u32, item) {
                    return;
                }
            }
        }
    }

    fn classes(&self, walk: &Walk, tree: &Tree) -> Vec<bool> {
        let mut known = vec![0u64; walk.tallies.len()];
        let directories = walk.all.iter().filter_map(|key| tree.get(*key));
        for item in directories.flat_map(|directory| &directory.items).filter(|item| item.kind == Kind::File)
        {
            if let Some(count) = known.get_mut(usize::from(item.class)) {
                *count += 1;
            }
        }
        let opened = |class: usize| u64::from(walk.tallies[class][0]);
        let all_opened: u64 = (0..known.len()).map(opened).sum();
        let all_known: u64 = known.iter().sum();
        let wanted = |class: usize| (opened(class) + 1) * WORTH * all_known >= known[class] * all_opened;
        (0..known.len()).map(wanted).collect()
    }

    /// Addresses are asked for without an allowance: what is used earns nothing without them.
    fn is_too_early(&self, state: &State, walk: &Walk, _: Nanos) -> bool {
        walk.account.cost() < state.least_pass()
    }

    fn horizon(&self, _: &State, _: &Walk, _: Nanos) -> u64 {
        VISITS_LIMIT
    }

    /// What was fetched shows nothing about the next files: another part may follow at once.
    fn waits_for_use(&self) -> bool {
        false
    }

    /// A pass over the known files that fit into memory, or over those of one region.
    fn fetch(&self, state: &mut State, at: usize, found: Found) -> Stopped {
        if state.is_to_stop(at, found.files.len() as u64) {
            return Stopped::Selective;
        }
        let nothing = if found.files.is_empty() { found.nothing() } else { Stopped::Memory };
        let mut files = found.files;
        files.sort_by_cached_key(|about| state.place_of(*about));
        // From where the program has read last: it may go through the tree in one direction besides.
        let from = state.place_of_cursor(at);
        let behind = files.partition_point(|about| state.place_of(*about) < from);
        files.rotate_left(behind);
        let mut batch = state.batch_of(at, &files);
        if batch.all * FITTING_SHARE < files.len() {
            return Stopped::Memory;
        }
        // A part is chosen among nearly all.
        let is_part = batch.taken.len() < batch.all;
        let unknown = if is_part { found.unknown * KNOWN_SHARE } else { found.unknown };
        let least = Nanos(batch.whole.get() / PARTS);
        if batch.price < least || unknown > batch.all as u64 {
            state.await_allowance(at, (unknown <= batch.all as u64).then_some(least));
            return Stopped::Allowance;
        }
        if batch.taken.is_empty() {
            return nothing;
        }
        if !state.has_cost_as_much(at, batch.price) {
            return Stopped::Allowance;
        }
        batch.alone = state.alone_in_any_order(&batch);
        if !state.pays_for(at, batch.taken.len() as u64, batch.price, batch.alone) {
            return Stopped::NoGain;
        }
        state.fetch_batch(at, batch)
    }
}

impl State {
    /// A program opened a file of a directory, after one of the directory `from`. `before`: when the last one of this
    /// directory was opened, if one was.
    pub(crate) fn moved(&mut self, at: usize, from: Option<Key>, to: Key, before: Option<u64>) {
        let forward = from.map(|from| self.goes_forward(from, to));
        // A move that tells nothing counts neither way.
        if forward == Some(None) {
            return;
        }
        let Some(walk) = &mut self.walks[at] else { return };
        let at_work = before.is_some_and(|before| before + AT_WORK >= walk.clock);
        walk.jumps.count(forward.flatten(), at_work);
    }

    /// Whether it goes to a later directory; `None` if that tells nothing.
    fn goes_forward(&self, from: Key, to: Key) -> Option<bool> {
        let (left, entered) = (self.tree.get(from)?, self.tree.get(to)?);
        let tells = !left.is_read() && !self.is_above(from, Some(to)) && !self.is_above(to, Some(from));
        // Directories that no program has opened have no rank of their own.
        tells.then_some(entered.rank > left.rank).filter(|_| entered.opened && left.opened)
    }

    /// Takes the votes of the last open into account.
    pub(crate) fn judge_order(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        let random = walk.is_in_no_order();
        let before = std::mem::replace(&mut walk.random, random);
        if before || !random {
            return;
        }
        // What was passed in an order that there is not will be opened like all the rest.
        walk.recent = [0; 2];
        for key in &walk.all {
            if let Some(directory) = self.tree.get_mut(*key) {
                directory.take_back_passed();
            }
        }
    }

    /// The next round begins once so much is allowed. If that is not known, half as much again as now. What programs open
    /// anywhere on the disk raises the allowance faster than the cost of the walk.
    fn await_allowance(&mut self, at: usize, least: Option<Nanos>) {
        let allowed = self.allowed(at).max(self.ledger.model().near());
        let awaited = least.map_or(allowed + allowed / 2, |least| least.max(allowed + allowed / NOTICEABLE));
        if let Some(walk) = &mut self.walks[at] {
            walk.awaited_allowance = Some(awaited);
        }
    }

    /// Whether the walk would have cost without fetches what all of them cost, with one more.
    fn has_cost_as_much(&self, at: usize, price: Nanos) -> bool {
        let account = self.walks[at].as_ref().map(|walk| walk.account).unwrap_or_default();
        self.speed.time_of(account.spent + price) <= account.own + account.alone
    }

    /// The least that a pass over the known files can cost: a block of each.
    fn least_pass(&self) -> Nanos {
        let block = SectorSpan::at(Lba(0), Pages(1).sectors());
        self.ledger.model().transfer(block) * self.tree.counts().1 as u64
    }

    /// Whether earlier walks of the program ended before they would have opened enough of these files.
    fn is_to_stop(&self, at: usize, files: u64) -> bool {
        let walk = self.walks[at].as_ref();
        walk.is_some_and(|walk| self.classes.more(walk.program, walk.files).saturating_mul(WORTH) < files)
    }

    /// What the program's own reads of these files cost at least: a positioning each.
    fn alone_in_any_order(&self, batch: &Batch) -> Nanos {
        let model = self.ledger.model();
        let items = batch.taken.iter().filter_map(|about| self.tree.item(about.directory, about.entry));
        let pieces = items.flat_map(|item| self.tree.pieces(item));
        let spans = pieces.map(Extent::sectors);
        model.near() * batch.taken.len() as u64 + spans.map(|span| model.transfer(span)).sum::<Nanos>()
    }

    fn place_of(&self, about: About) -> Option<Lba> {
        self.place_of_item(self.tree.item(about.directory, about.entry)?)
    }

    fn place_of_item(&self, item: &Item) -> Option<Lba> {
        Some(self.tree.pieces(item).first()?.lba)
    }

    /// Where a walk has read last: of the directory in which it has opened the last file, the first file at or behind the
    /// last known address. A file that was opened before its address was asked for has none.
    fn place_of_cursor(&self, at: usize) -> Option<Lba> {
        let cursor = self.walks[at].as_ref().and_then(|walk| self.tree.get(walk.cursor?));
        let items = cursor.map_or(&[][..], |directory| &directory.items);
        let places = || {
            items.iter().filter(|item| item.kind == Kind::File).filter_map(|item| self.place_of_item(item))
        };
        let head = self.ledger.head();
        places().filter(|place| Some(*place) >= head).min().or(places().min()).or(head)
    }
}

impl Walk {
    /// Whether its opens follow no order, by its votes.
    fn is_in_no_order(&self) -> bool {
        let votes_against = self.orders.iter().any(|orders| orders.files.is_against_all());
        votes_against || self.jumps.are_many() || (self.random && !self.jumps.are_few())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether jumps were many after any of these moves: forward or not.
    fn were_many(jumps: &mut Jumps, moves: impl IntoIterator<Item = bool>) -> bool {
        let after = |forward: bool| {
            jumps.count(Some(forward), false);
            jumps.are_many()
        };
        moves.into_iter().map(after).fold(false, |many, after| many | after)
    }

    proptest! {
        #[test]
        fn a_turn_is_no_random_order(before in 0..200usize, after in 0..200usize, forward: bool) {
            let moves = std::iter::repeat_n(forward, before).chain(std::iter::repeat_n(!forward, after));
            prop_assert!(!were_many(&mut Jumps::default(), moves));
        }

        #[test]
        fn moves_either_way_are_a_random_order_and_moves_one_way_end_it(
            moves in prop::collection::vec(any::<bool>(), 400), forward: bool,
        ) {
            let mut jumps = Jumps::default();
            prop_assert!(were_many(&mut jumps, moves));
            were_many(&mut jumps, std::iter::repeat_n(forward, 100));
            prop_assert!(jumps.are_few());
        }

        /// A program that returns to where it was long ago at every second open, whichever way it goes itself.
        #[test]
        fn returns_are_a_random_order(forward: bool, steps in 1..4usize) {
            let mut jumps = Jumps::default();
            were_many(&mut jumps, std::iter::repeat_n(forward, 8));
            let step = || std::iter::repeat_n(forward, steps).chain([!forward]);
            prop_assert_eq!(were_many(&mut jumps, (0..100).flat_map(|_| step())), steps < 3);
        }
    }
}
