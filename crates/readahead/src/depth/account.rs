//! The account of a stream: the costs of its fetches, and how deep the next one may be so that the bound
//! holds.
//!
//! All amounts are seconds of device time. The bound therefore holds where the rate differs from zone to
//! zone, and where the positioning cost changes while a stream is read. Let
//!
//! - `E` be the positionings that were paid,
//! - `X` the transfer of the pages fetched,
//! - `C` the costliest positioning of the stream so far, including the next one,
//! - `Y` the transfer of the pages that the stream is sure to use.
//!
//! Knowing the length costs `C + Y`. With `a = 1 / (rho - 1)` a fetch of `t` whose positioning costs `c` stays
//! within the bound
//!
//! - now, if `E + c + X + t <= rho (C + Y)`, as the stream may end right there ([`Account::most`]);
//! - for ever, if `X + t >= a (E + c) + (a^2 - 1) C` ([`Account::least`]). From that line on the next fetch
//!   leads to the line again, whatever it costs. Below the line the room can run out.
//!
//! docs/internals/adaptive-depth.md has the proof. With `rho = 2` and constant costs both leave `t = C`.
//!
//! Limits: costs are those that the caller passes when it fetches.

/// The costs of one stream, in seconds or in any other unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    rho: f64,
    /// `E`: positionings, and transfers that were wasted.
    spent: f64,
    /// `X`: the transfer of the pages fetched.
    transfer: f64,
    /// `C` without the next fetch.
    costliest: f64,
}

impl Account {
    /// For a stream without fetches. `rho` is raised to at least 2, as no rule has a smaller competitive
    /// ratio (EuroSys'07 section 4.2).
    #[must_use]
    pub fn new(rho: f64) -> Self {
        Self { rho: rho.max(2.0), spent: 0.0, transfer: 0.0, costliest: 0.0 }
    }

    /// The account after this many fetches whose positionings cost one unit of time each.
    pub(super) fn after(rho: f64, fetches: usize, transfer: f64) -> Self {
        Self { spent: fetches as f64, transfer, costliest: 1.0, ..Self::new(rho) }
    }

    /// The transfer of the pages fetched.
    #[must_use]
    pub fn transfer(&self) -> f64 {
        self.transfer
    }

    /// The costliest positioning of the stream, if its next one costs `positioning`.
    fn costliest(&self, positioning: f64) -> f64 {
        self.costliest.max(positioning)
    }

    /// The least transfer of the next fetch, so that one after it can stay within the bound.
    #[must_use]
    pub fn least(&self, positioning: f64) -> f64 {
        let a = 1.0 / (self.rho - 1.0);
        let line = a * (self.spent + positioning) + (a * a - 1.0) * self.costliest(positioning);
        (line - self.transfer).max(0.0)
    }

    /// The largest transfer of the next fetch, for a stream that is sure to use `used`. Negative where no
    /// fetch stays within the bound.
    #[must_use]
    pub fn most(&self, positioning: f64, used: f64) -> f64 {
        self.rho * (self.costliest(positioning) + used) - self.spent - positioning - self.transfer
    }

    /// The least that a stream must be sure to use for a fetch of this transfer to stay within the bound.
    #[must_use]
    pub fn used(&self, positioning: f64, transfer: f64) -> f64 {
        (self.spent + positioning + self.transfer + transfer) / self.rho - self.costliest(positioning)
    }

    /// How much may be wasted beside the next fetch, if all other pages fetched are used: as much as leaves
    /// its largest transfer at its least one.
    #[must_use]
    pub fn spare(&self, positioning: f64) -> f64 {
        let (a, costliest) = (1.0 / (self.rho - 1.0), self.costliest(positioning));
        let spare = (self.rho - 1.0) * (costliest + self.transfer) + (1.0 - a) * costliest;
        (spare - self.spent - positioning).max(0.0)
    }

    /// A fetch was made.
    pub fn fetched(&mut self, positioning: f64, transfer: f64) {
        self.costliest = self.costliest(positioning);
        self.spent += positioning;
        self.transfer += transfer;
    }

    /// Pages were transferred that the stream does not lead to.
    pub fn wasted(&mut self, transfer: f64) {
        self.spent += transfer;
    }

    /// Pages that were fetched are evicted before use: they are not charged.
    pub fn lost(&mut self, transfer: f64) {
        self.transfer = (self.transfer - transfer).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slack for rounding.
    const ROUNDING: f64 = 1e-9;

    #[test]
    fn with_a_rho_of_two_the_least_and_the_most_are_the_positioning() {
        let mut account = Account::new(2.0);
        for _ in 0..5 {
            let used = account.transfer();
            assert_eq!((account.least(1.0), account.most(1.0, used)), (1.0, 1.0));
            account.fetched(1.0, 1.0);
        }
    }

    #[test]
    fn wasted_transfers_leave_less_for_the_fetch() {
        let mut account = Account::new(3.0);
        let spare = account.spare(1.0);
        account.wasted(spare);
        assert!((account.least(1.0) - account.most(1.0, 0.0)).abs() < ROUNDING);
        assert_eq!(Account::new(2.0).spare(1.0), 0.0);
    }

    #[test]
    fn where_costs_are_the_same_for_ever_less_than_the_least_ends_without_room() {
        // The first fetch has no least transfer.
        let mut account = Account::after(3.0, 1, 0.0);
        account.fetched(1.0, account.least(1.0) - 1e-3);
        let stuck = (0..40).any(|_| {
            let most = account.most(1.0, account.transfer());
            account.fetched(1.0, most.max(0.0));
            most < 0.0
        });
        assert!(stuck);
    }

    proptest! {
        /// The theorem: whatever the positionings cost and whichever permitted depths are chosen, a depth for the
        /// next fetch remains.
        #[test]
        fn there_is_always_a_depth_for_the_next_fetch(
            rho in 2.0..10.0f64,
            fetches in prop::collection::vec((1e-3..1e3f64, 0.0..=1.0f64, prop::option::of(0.0..=1.0f64)), 1..60),
        ) {
            let mut account = Account::new(rho);
            for (positioning, share, early) in fetches {
                let all = account.transfer();
                let (least, most) = (account.least(positioning), account.most(positioning, all));
                let slack = ROUNDING * (all + account.spent + positioning);
                prop_assert!(least <= most + slack, "{least} of {most}: {account:?}");
                // A fetch before all pages are used is made only if there is room for it.
                let used = early.map_or(all, |early| all * early);
                let most = account.most(positioning, used);
                if least > most {
                    continue;
                }
                let transfer = least + (most - least) * share;
                account.fetched(positioning, transfer);
                let cost = account.spent + account.transfer;
                prop_assert!(cost <= rho * (account.costliest + used) + slack, "{cost}: {account:?}");
            }
        }

        #[test]
        fn room_for_a_fetch_comes_from_used_pages(
            rho in 2.0..10.0f64, first in 1e-3..1e3f64, deep in 0.0..1e3f64,
            positioning in 1e-3..1e3f64, transfer in 0.0..1e3f64,
        ) {
            let mut account = Account::new(rho);
            account.fetched(first, deep);
            let used = account.used(positioning, transfer);
            let slack = ROUNDING * (first + deep + positioning + transfer) * rho;
            prop_assert!((account.most(positioning, used) - transfer).abs() <= slack);
        }
    }
}
