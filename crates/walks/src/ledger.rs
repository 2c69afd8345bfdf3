//! The limit of fetches: the bound, its proof, and what no rule can bound.
//!
//! # The bound
//!
//! Times are device times of [`crate::costs`], one request at a time. Let
//!
//! - `F` be the device time of all fetches;
//! - `OPT` be the cheapest order of exactly those inodes, blocks of directories and contents that needed the
//!   device and were used;
//! - `K` be the allowance [`Settings::start`](crate::Settings::start), one for the device and all of its walks.
//!
//! Then at any time
//!
//! > **(1)** `F <= rho x OPT + K`
//!
//! for every layout, order, choice of opened files, end of each walk and interleaving of walks, even if they
//! are chosen with knowledge of all fetches. `OPT` may use any amount of memory, in particular the same amount.
//! With `W`, the cost of the programs' own reads, all device time is `A = F + W`, and
//!
//! > **(2)** `A <= rho x OPT + K + W`, where `W` is the reads that were not predicted in time,
//! >
//! > **(3)** `A <= (rho + 1) x S + K`, where `S` is the cost of the same programs without prefetching.
//!
//! A walk that is predicted from its eighth file on therefore costs `rho x OPT + K` and its first eight files.
//! A walk that is never predicted costs as much as without prefetching, and `rho x OPT + K` more.
//!
//! *A fetch* is charged before it is requested: the [pass](crate::sweep) over its pieces, the positioning to it
//! from the last known use by a program, and the positioning back. Without a known last use, it is charged
//! twice the longest positioning of the device. Listings of directories whose blocks have no known address are
//! charged the worst case, which falls to their cost once that is known ([`crate::unplaced`]). *Uses* are one more [`Sweep`], over all walks together: its
//! cost is exactly `OPT`, since no order is cheaper than one ascending pass. A use counts only if its data was
//! not in memory when it was placed, or was fetched before it was opened, so that a program that reads from
//! memory earns nothing.
//!
//! # The rule
//!
//! Each walk has two sums: `f`, its charges, and `o`, the growth of `OPT` by its uses. Its *deficit* is `d =
//! max(0, f - rho x o)`. There is one pot for the device, `pot <= K`, full in the beginning. A fetch of cost
//! `c` is made only if afterwards
//!
//! - (R1) the deficits of all live walks together are at most `pot`, and
//! - (R2) the time that the fetch is expected to take, `c` or less ([`crate::speed`]), is at most the cost of the walk so far: its own reads, and the larger of `f` and the least cost
//!   of its used fetched files without prefetching. A walk that ends at the worst moment has therefore cost at
//!   most twice that.
//!
//! When a walk ends, its deficit is taken from the pot for good. A surplus `rho x o - f` is added to it, up to
//! the walk's savings (the cost of its fetched files without prefetching, less `f`) and never beyond `K`. Only
//! confirmed savings therefore refill `K`, and not the beginning of a walk.
//!
//! **Proof of (1).** Live walks: `f <= rho x o + d`, and the sum of the `d` is at most `pot` by (R1): a fetch
//! keeps this, a use lowers `d`, and an end lowers the sum and the pot by the same or only raises the pot.
//! Ended walks: `f = rho x o + d - surplus`; the pot has lost all these `d` and gained at most the surpluses,
//! so the sum of `f` is at most `rho x (sum of o) + K - pot`. Together `F <= rho x (sum of all o) + K`.
//!
//! The `o` are the growth of the cost of the pass over everything used, so their sum is that cost, `OPT`. It
//! never falls when more is used, because moving from one address to another directly never costs more than
//! with a stop on the way. (A test checks that for the built-in profiles.) ∎
//!
//! **(2)** is (1) and the definition of `A`.
//!
//! **(3)**: with prefetching, programs read a part of what they read without it, in the same order. Leaving out
//! stops makes no path longer, and the positionings to and from fetches are in `F`. So `W <= S`; and `OPT <=
//! S`, since `S` is the cost of an order of the same data. ∎ A program that reads by itself during a fetch
//! interrupts its pass. That costs a positioning back, at most the longest one for each such read, and is part
//! of `W` here.
//!
//! # Why 4
//!
//! Consider rounds that are used completely and double in cost, `f = 1, 2, 4, ..., 2^n`: they have cost less
//! than `2 x 2^n`. If a pass over few files costs as much as one over many, the used files are worth one pass,
//! `o = 2^n` (a round's own pass is its optimum). The next round of `2^(n+1)` makes `f = 4 x 2^n = 4 x o`. With
//! `rho = 4` the doubling of (R2) never waits for (R1) as long as all is used; with a smaller `rho` it does. No
//! deterministic rule reaches less than 4 there: online bidding (Chrobak, Kenyon, Noga and Young, "Incremental
//! medians via online bidding", Algorithmica 2008). If each file adds its own positioning to the optimum,
//! rounds could grow faster; (R2) limits them to doubling the cost of the walk.
//!
//! # What no rule can guarantee
//!
//! **No constant `c` and no `K` give `A <= c x OPT + K` for every walk**, for any fetches, if memory `M` is at
//! most half of the tree. *Proof.* `G` groups lie far apart, each of `b` contiguous small files whose transfer
//! takes one positioning `p`; `M` holds half of all files. The walk always opens a file that it has not opened
//! and that is not in memory. There is one until half of the files were opened. Each costs its reader at least
//! the shortest positioning `q`: `A >= G b q / 2`. All of them fit into memory and one pass reads them: `OPT <=
//! 2 G p`. The quotient `b q / (4 p)` grows with `b`, the number of files that pass in the time of a
//! positioning: 100 files of 4 KiB and more on a disk. `A` and `OPT` grow with `G`, so that no `K` helps. ∎
//!
//! The test `tests/adversary.rs` runs this walk. Sparse layouts do not help either. A walk that alternates
//! between both ends of the disk costs `far / near` times the pass if none of it is predicted: 4 and more.
//!
//! This is a weakness of the walk and not of fetching: without prefetching the program costs these multiples,
//! too. The cost that prefetching adds can be bounded by the optimum, as in (1). The program's own unpredicted
//! reads can only be bounded by themselves, as in (2).
//!
//! # Limits
//!
//! - `OPT` reorders within a *period*. One ends when a walk ends and no other live walk has fetched or used anything that
//!   counts, and after [`RUNS_LIMIT`] separate runs. An optimum that holds data for walks of a later period is outside of
//!   the comparison. So is one that joins the passes of walks which follow one another while a third opens a directory now
//!   and then: otherwise no second walk over data that was evicted meanwhile would earn anything on a busy machine.
//! - An open counts as the use of all fetched data of the file.
//! - Costs are those of the profile: on a device that costs more, the bound is weaker in proportion.
//! - If a program reads at unknown addresses, the positionings of a fetch are counted from the last known one.
//! - Not included are evictions of other programs' pages, processor time, and the FIEMAP calls of
//!   [`Command::Place`](crate::Command::Place).

use crate::costs::Model;
use crate::sweep::Sweep;
use foreseek_units::{Lba, Nanos, Pages, SectorSpan};

/// How many separate runs of used sectors a period may have; then a new one begins. 24 bytes each: 6 MiB.
pub(crate) const RUNS_LIMIT: usize = 1 << 18;
/// The positionings of a file: one for its inode, one for its contents.
const POSITIONINGS_A_FILE: u64 = 2;

/// The sums of one walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// The charges for it.
    pub(crate) spent: Nanos,
    /// The growth of the optimum by its uses.
    pub(crate) optimum: Nanos,
    /// The cost of its programs' own reads, as far as known.
    pub(crate) own: Nanos,
    /// The least cost of its used fetched files without prefetching.
    pub(crate) alone: Nanos,
}

impl Account {
    /// The cost of the walk so far, or what it would have cost without prefetching.
    pub(crate) fn cost(&self) -> Nanos {
        self.own + self.spent.max(self.alone)
    }

    /// Joins the sums of two walks that are one.
    pub(crate) fn join(&mut self, other: &Self) {
        self.spent += other.spent;
        self.optimum += other.optimum;
        self.own += other.own;
        self.alone += other.alone;
    }
}

/// What a use adds to the sums of its walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Earned {
    /// The growth of the optimum.
    pub(crate) optimum: Nanos,
    /// The least cost without prefetching.
    pub(crate) alone: Nanos,
}

impl std::ops::AddAssign for Earned {
    fn add_assign(&mut self, other: Self) {
        self.optimum += other.optimum;
        self.alone += other.alone;
    }
}

/// The sums of the device.
#[derive(Clone)]
pub(crate) struct Ledger {
    model: Model,
    /// In thousandths.
    rho: u64,
    limit: Nanos,
    pot: Nanos,
    used: Sweep,
    head: Option<Lba>,
    spent: Nanos,
    optimum: Nanos,
    periods: u64,
}

impl Ledger {
    /// A ledger with a full pot.
    pub(crate) fn new(model: Model, rho: f64, start: u32) -> Self {
        let limit = model.average() * POSITIONINGS_A_FILE * u64::from(start);
        let rho = (rho.clamp(1.0, 1000.0) * 1000.0).round() as u64;
        Self {
            model,
            rho,
            limit,
            pot: limit,
            used: Sweep::default(),
            head: None,
            spent: Nanos::ZERO,
            optimum: Nanos::ZERO,
            periods: 0,
        }
    }

    /// The device's times.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The charges, the optimum of the uses, and the rest of the pot.
    pub(crate) fn sums(&self) -> (Nanos, Nanos, Nanos) {
        (self.spent, self.optimum, self.pot)
    }

    fn earned(&self, account: &Account) -> Nanos {
        let earned = u128::from(account.optimum.get()) * u128::from(self.rho) / 1000;
        Nanos(u64::try_from(earned).unwrap_or(u64::MAX))
    }

    /// The charges beyond the earnings.
    pub(crate) fn deficit(&self, account: &Account) -> Nanos {
        account.spent.saturating_sub(self.earned(account))
    }

    /// The highest cost of the next fetch by (R1); `others` are the deficits of all other live walks.
    pub(crate) fn room(&self, account: &Account, others: Nanos) -> Nanos {
        let room = self.earned(account).get().saturating_add(self.pot.saturating_sub(others).get());
        Nanos(room.saturating_sub(account.spent.get()))
    }

    /// The cost of a fetch with this pass, with the positionings to it and back to the last use by a program.
    pub(crate) fn price(&self, pass: &Sweep) -> Nanos {
        let Some((first, last)) = pass.ends() else { return Nanos::ZERO };
        let ways = self.head.map(|head| self.model.step(head, first) + self.model.step(last, head));
        pass.cost() + ways.unwrap_or(self.model.far() * 2)
    }

    /// The same with so many pieces besides, of which nobody knows where they lie. Each may cost the longest way to it and,
    /// if it interrupts the pass, back.
    pub(crate) fn price_with_unknown(&self, pass: &Sweep, pieces: u64, each: Pages) -> Nanos {
        if pieces == 0 {
            return self.price(pass);
        }
        let far = self.model.far();
        let ways = if pass.ends().is_some() { far * 2 * pieces } else { far * (pieces + 1) };
        self.price(pass) + ways + self.model.slowest(each.sectors()) * pieces
    }

    /// The address that a program has last used, if it is known.
    pub(crate) fn head(&self) -> Option<Lba> {
        self.head
    }

    /// A program has last used this address.
    pub(crate) fn set_head(&mut self, head: Lba) {
        self.head = Some(head);
    }

    /// A fetch is requested.
    pub(crate) fn charge(&mut self, account: &mut Account, cost: Nanos) {
        account.spent += cost;
        self.spent += cost;
    }

    /// A fetch was not made.
    pub(crate) fn refund(&mut self, account: &mut Account, cost: Nanos) {
        account.spent -= cost;
        self.spent -= cost;
    }

    /// Sectors were used that were not in memory before; returns what that earns.
    pub(crate) fn used(&mut self, span: SectorSpan) -> Earned {
        if self.used.runs() >= RUNS_LIMIT {
            self.end_period();
        }
        self.set_head(span.end);
        Earned { optimum: self.used.insert(&self.model, span), alone: Nanos::ZERO }
    }

    /// A walk has earned this.
    pub(crate) fn earn(&mut self, account: &mut Account, earned: Earned) {
        account.optimum += earned.optimum;
        account.alone += earned.alone;
        self.optimum += earned.optimum;
    }

    /// A walk is over: its sums do not count from now on.
    pub(crate) fn settle(&mut self, account: &Account) {
        self.pot -= self.deficit(account);
        let surplus = self.earned(account).saturating_sub(account.spent);
        let saved = account.alone.saturating_sub(account.spent);
        self.pot = (self.pot + surplus.min(saved)).min(self.limit);
    }

    /// What is used from here on is compared with an optimum of its own.
    pub(crate) fn end_period(&mut self) {
        self.periods += u64::from(self.used.runs() > 0);
        self.used.clear();
    }

    /// The periods that are over.
    pub(crate) fn periods(&self) -> u64 {
        self.periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::tests::model;
    use proptest::prelude::*;

    fn ledger() -> Ledger {
        Ledger::new(model("barracuda-500g"), 4.0, 8)
    }

    fn block(at: u64) -> SectorSpan {
        SectorSpan::new(Lba(at), Lba(at + 8))
    }

    /// The highest cost of the next fetch by both rules.
    fn allowed(ledger: &Ledger, account: &Account, others: Nanos) -> Nanos {
        ledger.room(account, others).min(account.cost())
    }

    /// Rounds that double and are all used, where a pass over few files costs as much as one over many: with 4,
    /// and no less, the optimum never delays them.
    #[test]
    fn doubling_rounds_need_a_rho_of_four() {
        let round = |rho: f64| {
            let mut ledger = Ledger::new(model("barracuda-500g"), rho, 0);
            let mut account = Account { own: Nanos::from_secs(1), ..Account::default() };
            account.optimum = Nanos::from_secs(1);
            let mut costs = Vec::new();
            for _ in 0..8 {
                let cost = allowed(&ledger, &account, Nanos::ZERO);
                ledger.charge(&mut account, cost);
                // All of it is used, and worth one pass: this one.
                account.optimum = account.optimum.max(cost);
                costs.push(cost.as_secs_f64());
            }
            costs
        };
        assert_eq!(round(4.0), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
        assert_eq!(round(3.0), [1.0, 2.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0], "rounds stop");
    }

    #[test]
    fn a_pot_is_refilled_by_savings_and_not_by_beginnings() {
        let mut ledger = ledger();
        let full = ledger.sums().2;
        assert_eq!(full, ledger.model().average() * 16);
        for _ in 0..100 {
            let mut account = Account { own: full, ..Account::default() };
            let cost = allowed(&ledger, &account, Nanos::ZERO);
            ledger.charge(&mut account, cost);
            ledger.settle(&account);
            ledger.end_period();
        }
        assert_eq!((ledger.sums().0, ledger.sums().2), (full, Nanos::ZERO));
        // A walk that was predicted, and has saved more than that.
        let mut account = Account { own: full, alone: full * 3, ..Account::default() };
        for place in [1 << 20, 1 << 24] {
            let earned = ledger.used(block(place));
            ledger.earn(&mut account, earned);
        }
        let cost = allowed(&ledger, &account, Nanos::ZERO);
        assert!(cost > Nanos::ZERO);
        ledger.charge(&mut account, cost / 2);
        ledger.settle(&account);
        assert!(ledger.sums().2 > Nanos::ZERO && ledger.sums().2 <= full);
    }

    proptest! {
        /// A pass with pieces anywhere, each of which interrupts it, or without a pass.
        #[test]
        fn pieces_at_unknown_places_are_charged_what_they_can_cost(
            pass in prop::collection::btree_set(0u64..100_000, 0..6),
            unknown in prop::collection::vec(0u64..100_000, 1..6), head in 0u64..100_000,
        ) {
            let mut ledger = ledger();
            ledger.set_head(Lba(head * 8000));
            let model = ledger.model().clone();
            let sweep = Sweep::over(&model, pass.iter().map(|at| block(at * 8000)));
            let price = ledger.price_with_unknown(&sweep, unknown.len() as u64, Pages(1));
            let mut order: Vec<u64> = pass.into_iter().collect();
            for (nth, at) in unknown.iter().enumerate() {
                order.insert((2 * nth).min(order.len()), *at);
            }
            let (mut cost, mut at) = (Nanos::ZERO, Lba(head * 8000));
            for span in order.iter().map(|at| block(at * 8000)) {
                cost += model.step(at, span.start) + model.transfer(span);
                at = span.end;
            }
            cost += model.step(at, Lba(head * 8000));
            prop_assert!(price >= cost, "{price} {cost}");
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Fetch(usize, u64),
        Use(usize, u64),
        Own(usize, u64),
        End(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            3 => (0..4usize, 0..=100u64).prop_map(|(walk, share)| Act::Fetch(walk, share)),
            4 => (0..4usize, 0..100_000u64).prop_map(|(walk, at)| Act::Use(walk, at * 8000)),
            1 => (0..4usize, 1..50u64).prop_map(|(walk, ms)| Act::Own(walk, ms)),
            1 => (0..4usize).prop_map(Act::End),
        ];
        prop::collection::vec(act, 0..300)
    }

    proptest! {
        /// (1), against the pass over all uses, sorted and summed by brute force.
        #[test]
        fn charges_stay_within_the_bound_for_all_walks(acts in acts()) {
            let mut ledger = ledger();
            let model = ledger.model().clone();
            let limit = ledger.sums().2;
            let mut walks = [Account::default(); 4];
            let mut used = std::collections::BTreeSet::new();
            for act in acts {
                match act {
                    Act::Fetch(at, share) => {
                        let others =
                            (0..4).filter(|it| *it != at).map(|it| ledger.deficit(&walks[it])).sum();
                        let cost = allowed(&ledger, &walks[at], others) * share / 100;
                        ledger.charge(&mut walks[at], cost);
                    }
                    Act::Use(at, place) => {
                        used.insert(place);
                        let earned = ledger.used(block(place));
                        ledger.earn(&mut walks[at], earned);
                        walks[at].alone += model.near();
                    }
                    Act::Own(at, ms) => walks[at].own += Nanos::from_millis(ms),
                    Act::End(at) => ledger.settle(&std::mem::take(&mut walks[at])),
                }
                let places: Vec<u64> = used.iter().copied().collect();
                let mut optimum: Nanos = places.iter().map(|at| model.transfer(block(*at))).sum();
                optimum += places.windows(2).map(|two| model.step(Lba(two[0] + 8), Lba(two[1]))).sum();
                let (spent, counted, pot) = ledger.sums();
                let slack = Nanos(8 * places.len() as u64 + 8);
                prop_assert!(spent <= optimum * 4 + limit + slack, "{spent} {optimum}");
                prop_assert!(counted <= optimum + slack && pot <= limit);
            }
        }
    }
}
