//! Listings of directories whose blocks have no known address: xfs shows where they lie once they are open.
//!
//! They are *chosen* by an expected price: one pass over the addresses of their inodes, since a file system puts
//! the blocks of a directory near its inode. An address that is wrong must not break the bound. What is *charged* is
//! therefore never less than what has been read can have cost, whatever the addresses:
//!
//! - for what was read, the way from one to the next in the order in which it was read ([`Event::BlocksRead`]),
//!   from where a program was last known to read, and back there; what the report leaves out stays charged as below;
//! - for each block that may still be read for a listing under way, the longest positioning of the device and the
//!   slowest transfer, and the longest way back.
//!
//! An answer replaces the second by the first, and what that frees pays for the next listing. So many are under way
//! at a time as the worst case leaves within the bound, and the device sorts these. If the guess is bad, the charges
//! show it after a few, and the round ends. Later rounds multiply their guess by what earlier ones were charged over what they
//! expected. That leaves a program alone that reads in the order of the disk by itself.
//!
//! Listings go in the order of their inodes.
//!
//! [`Event::BlocksRead`]: crate::Event::BlocksRead

use crate::costs::Model;
use crate::plan::Aim;
use crate::state::{About, State, block};
use crate::sweep::Sweep;
use crate::{InDirectory, LISTS_LIMIT};
use foreseek_units::{Lba, Nanos, SECTORS_PER_PAGE, SectorSpan, Sectors};
use std::collections::VecDeque;

/// A price above all that is ever worth it.
const DEAREST: Nanos = Nanos(u64::MAX / 16);
/// With each pass that is not worth it, this part of the correction is forgotten: the walk may have come to another part of
/// the disk.
const FORGOTTEN: u64 = 64;

/// The listings of one walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unplaced {
    /// Chosen, in the order of their inodes, with their blocks.
    chosen: VecDeque<(InDirectory, u64)>,
    /// Under way, and the blocks that may be read for them.
    lists: u32,
    blocks: u64,
    /// The way so far, from one that was read to the next.
    way: Nanos,
    /// Its end.
    at: Option<Lba>,
    charged: Nanos,
    /// The expected price of one chosen directory, with its part of the ways there and back.
    each: Nanos,
    /// That of those that were listed.
    expected: Nanos,
    /// Of earlier passes: what was charged, and what was expected.
    earlier: [Nanos; 2],
}

impl Unplaced {
    /// Joins the listings of two walks that are one. The device may be anywhere between those of both.
    pub(crate) fn join(&mut self, other: &Self) {
        if other.lists > 0 {
            self.at = None;
        }
        self.lists += other.lists;
        self.blocks += other.blocks;
        self.way += other.way;
        self.charged += other.charged;
        self.expected += other.expected;
        for (sum, of) in self.earlier.iter_mut().zip(other.earlier) {
            *sum += of;
        }
    }

    /// Whether the walk has listed such directories.
    pub(crate) fn is_used(&self) -> bool {
        self.lists > 0 || !self.earlier[1].is_zero()
    }

    /// The price of a pass, by those before it.
    fn corrected(&self, expected: Nanos) -> Nanos {
        let [charged, before] = self.earlier;
        if charged <= before {
            return expected;
        }
        let price = u128::from(expected.get()) * u128::from(charged.get()) / u128::from(before.get().max(1));
        Nanos(u64::try_from(price).unwrap_or(u64::MAX).min(DEAREST.get()))
    }

    /// A pass was not worth its corrected price: what is known of earlier ones grows old.
    fn forget_some(&mut self) {
        let [charged, expected] = self.earlier;
        self.earlier[0] -= (charged - expected) / FORGOTTEN;
    }

    /// A pass is over.
    fn end_pass(&mut self) {
        let [charged, expected] = self.earlier;
        let earlier = [charged + self.charged, expected + self.expected];
        *self = Self { earlier, ..Self::default() };
    }

    /// A listing is under way that may read so many blocks.
    fn begin(&mut self, blocks: u64) {
        self.expected += self.each;
        self.lists += 1;
        self.blocks += blocks;
    }

    /// A listing has read these, or, if none is given, something without a known address.
    fn end(&mut self, model: &Model, head: Option<Lba>, blocks: u64, read: Option<&[SectorSpan]>) {
        self.lists = self.lists.saturating_sub(1);
        self.blocks = self.blocks.saturating_sub(blocks);
        let Some(read) = read else {
            (self.way, self.at) = (self.way + model.average() * blocks, None);
            return;
        };
        for span in read {
            let from = self.at.or(head.filter(|_| self.way.is_zero()));
            self.way += from.map_or(model.far(), |from| model.step(from, span.start)) + model.transfer(*span);
            self.at = Some(span.end);
        }
        let reported: u64 = read.iter().map(|span| span.len().get().div_ceil(SECTORS_PER_PAGE)).sum();
        if !read.is_empty() && reported < blocks {
            // The report is cut: the others may lie anywhere.
            (self.way, self.at) = (self.way + worst(model, blocks - reported), None);
        }
    }

    /// The most that all of them can have cost by now, and will, with the way back.
    fn price(&self, model: &Model, head: Option<Lba>) -> Nanos {
        let back = match self.at {
            _ if self.lists > 0 => model.far(),
            Some(end) => head.map_or(model.far(), |head| model.step(end, head)),
            None if self.way.is_zero() => Nanos::ZERO,
            None => model.far(),
        };
        self.way + worst(model, self.blocks) + back
    }
}

impl State {
    /// Chooses among directories, in the order in which they are expected, as many as their expected price allows,
    /// and begins to list them; returns whether it did.
    pub(crate) fn list_unplaced(&mut self, at: usize, aim: Aim, unread: &[(InDirectory, About)]) -> bool {
        let budget = self.metadata_budget(at);
        let (mut pass, mut unknown, mut chosen) = (Sweep::default(), 0, Vec::new());
        let mut price = Nanos::ZERO;
        let model = self.ledger.model();
        for (name, about) in unread {
            let Some(item) = self.tree.item(about.directory, about.entry) else { continue };
            let blocks = item.blocks();
            match item.inode_at() {
                Some(place) => {
                    let span = SectorSpan::at(block(place).start, Sectors(blocks * SECTORS_PER_PAGE));
                    pass.insert(model, span);
                }
                None => unknown += blocks,
            }
            let expected = self.ledger.price(&pass) + model.average() * unknown;
            if expected > budget {
                break;
            }
            price = expected;
            chosen.push((*name, blocks));
        }
        let count = chosen.len() as u64;
        let corrected = self.walks[at].as_ref().map_or(price, |walk| walk.unplaced.corrected(price));
        // Inodes of the files will cost as much. A walk that opens no files reads little but directories: the charges
        // themselves limit their listings.
        let is_worth = aim != Aim::Files
            || self.is_worth_before_contents(at, count * self.mean_entries(), corrected * 2);
        if !is_worth {
            chosen.clear();
        }
        chosen.sort_unstable();
        // One that was moved meanwhile is found in two directories.
        chosen.dedup_by_key(|(name, _)| name.node);
        if let Some(walk) = &mut self.walks[at] {
            let unplaced = &mut walk.unplaced;
            (unplaced.chosen, unplaced.each) = (chosen.into(), price / count.max(1));
            if !is_worth {
                unplaced.forget_some();
            }
        }
        self.list_more(at);
        self.walks[at].as_ref().is_some_and(|walk| walk.awaited > 0)
    }

    /// Lists as many of the chosen directories as the worst case allows.
    fn list_more(&mut self, at: usize) {
        loop {
            let (room, may) = (self.room(at), self.may_list(at));
            let model = self.ledger.model();
            let Some(walk) = &mut self.walks[at] else { return };
            let Some((name, blocks)) = walk.unplaced.chosen.front().copied() else { return };
            let worst =
                worst(model, blocks) + if walk.unplaced.lists == 0 { model.far() } else { Nanos::ZERO };
            if !may || worst > room || walk.round.is_none_or(|round| round < model.near()) {
                if walk.unplaced.lists == 0 {
                    walk.unplaced.chosen.clear();
                }
                return;
            }
            if walk.lists as usize >= LISTS_LIMIT {
                return;
            }
            walk.unplaced.chosen.pop_front();
            if self.list_below(at, name)
                && let Some(directory) = self.tree.key(name.node).and_then(|key| self.tree.get_mut(key))
            {
                directory.unplaced = Some(blocks);
                if let Some(walk) = &mut self.walks[at] {
                    walk.unplaced.begin(blocks);
                }
                self.charge_unplaced(at);
            }
        }
    }

    /// A listing that may have read so many blocks has read these: the next ones.
    pub(crate) fn listed_unplaced(&mut self, at: usize, blocks: u64, read: Option<&[SectorSpan]>) {
        let Some(walk) = &mut self.walks[at] else { return };
        let before = walk.unplaced.way;
        walk.unplaced.end(self.ledger.model(), self.ledger.head(), blocks, read);
        let cost = walk.unplaced.way - before;
        self.spent_on_metadata(at, cost);
        self.charge_unplaced(at);
        self.list_more(at);
        let Some(walk) = &mut self.walks[at] else { return };
        if walk.unplaced.lists == 0 && walk.unplaced.chosen.is_empty() {
            walk.unplaced.end_pass();
        }
    }

    /// Charges what the listings may have cost by now, or gives back what they have not.
    fn charge_unplaced(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        let price = walk.unplaced.price(self.ledger.model(), self.ledger.head());
        let before = std::mem::replace(&mut walk.unplaced.charged, price);
        // Differences of amounts are zero at least.
        let (more, less) = (price - before, before - price);
        self.ledger.charge(&mut walk.account, more);
        self.ledger.refund(&mut walk.account, less);
    }
}

/// The most that so many blocks anywhere on the device can cost, without the way back.
fn worst(model: &Model, blocks: u64) -> Nanos {
    (model.far() + model.slowest(Sectors(SECTORS_PER_PAGE))) * blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::tests::model;
    use proptest::prelude::*;

    proptest! {
        /// Against the naive cost of reading the same blocks in the same order: what is charged is never less, an
        /// answer never raises it, and in the end it is that cost.
        #[test]
        fn a_charge_never_rises_by_an_answer_and_ends_as_the_cost_of_the_way(
            lists in prop::collection::vec(prop::collection::vec(0u64..900_000_000, 0..4), 1..20),
            together in 1..9usize, head in prop::option::of(0u64..900_000_000),
        ) {
            let model = model("barracuda-500g");
            let head = head.map(Lba);
            let mut unplaced = Unplaced::default();
            let (mut naive, mut at, mut begun) = (Nanos::ZERO, head, 0);
            for (nth, blocks) in lists.iter().enumerate() {
                while begun < lists.len().min(nth + together) {
                    unplaced.begin(lists[begun].len().max(1) as u64);
                    begun += 1;
                }
                let before = unplaced.price(&model, head);
                let spans: Vec<SectorSpan> = blocks.iter().map(|lba| SectorSpan::at(Lba(*lba), Sectors(8))).collect();
                unplaced.end(&model, head, spans.len().max(1) as u64, Some(&spans));
                for span in spans {
                    naive += at.map_or(model.far(), |at| model.step(at, span.start)) + model.transfer(span);
                    at = Some(span.end);
                }
                let after = unplaced.price(&model, head);
                prop_assert!(after <= before, "{before} {after}");
                prop_assert!(after >= naive);
            }
            let back = at.filter(|_| !naive.is_zero()).map_or(Nanos::ZERO, |at| head.map_or(model.far(), |head| model.step(at, head)));
            prop_assert_eq!(unplaced.price(&model, head), naive + back);
        }
    }

    /// Two walks are joined while each has listings under way: each answer lowers the charge, and in the end it is the
    /// cost of both ways.
    #[test]
    fn joined_listings_are_charged_once() {
        let model = model("barracuda-500g");
        let places = [[8, 1 << 12], [1 << 20, 1 << 28]];
        let span = |lba: u64| SectorSpan::at(Lba(lba), Sectors(8));
        let mut both = places.map(|_| Unplaced::default());
        for (unplaced, places) in both.iter_mut().zip(places) {
            places.iter().for_each(|_| unplaced.begin(1));
            unplaced.end(&model, None, 1, Some(&[span(places[0])]));
            unplaced.charged = unplaced.price(&model, None);
        }
        let [mut one, other] = both;
        let charged = one.charged + other.charged;
        one.join(&other);
        assert_eq!(one.charged, charged);
        let mut before = charged;
        for places in places {
            let now = one.price(&model, None);
            assert!(now <= before, "{now} {before}");
            one.end(&model, None, 1, Some(&[span(places[1])]));
            before = now;
        }
        let far = model.far();
        let ways = far * 2 + far + model.step(span(places[0][1]).end, Lba(places[1][1]));
        let transfers: Nanos = places.iter().flatten().map(|lba| model.transfer(span(*lba))).sum();
        assert_eq!(one.price(&model, None), ways + transfers + far);
    }

    #[test]
    fn later_passes_are_expected_to_cost_as_much_more_as_earlier_ones_did() {
        let model = model("barracuda-500g");
        let mut unplaced = Unplaced::default();
        let guess = Nanos::from_millis(1);
        assert_eq!(unplaced.corrected(guess), guess, "nothing is known");
        for _ in 0..2 {
            unplaced.each = guess / 4;
            for place in [8, 1 << 12, 1 << 20, 1 << 24] {
                unplaced.begin(1);
                unplaced.end(&model, None, 1, Some(&[SectorSpan::at(Lba(place), Sectors(8))]));
            }
            unplaced.charged = guess * 10;
            unplaced.end_pass();
            assert_eq!(unplaced.corrected(guess), guess * 10);
        }
        (0..FORGOTTEN * 10).for_each(|_| unplaced.forget_some());
        assert!(unplaced.corrected(guess) < guess + guess / 10, "where nothing is listed nothing is known");
        // Passes that cost less than expected may have been lucky.
        unplaced.earlier = [guess, guess * 2];
        assert_eq!(unplaced.corrected(guess), guess);
    }

    #[test]
    fn a_driver_that_does_not_tell_is_charged_an_average_positioning() {
        let model = model("barracuda-500g");
        let mut unplaced = Unplaced::default();
        unplaced.begin(1);
        assert_eq!(unplaced.price(&model, None), worst(&model, 1) + model.far());
        unplaced.end(&model, None, 1, None);
        assert_eq!(unplaced.price(&model, None), model.average() + model.far());
    }
}
