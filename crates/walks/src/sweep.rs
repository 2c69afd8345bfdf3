//! The cheapest way to read a set of addresses: one ascending pass.
//!
//! **It is exact.** Let the cost of moving from one piece to another grow with the interval between them (of
//! nested intervals, the inner one costs no more), as in [`Model`]. Each order of reading is a path through all
//! pieces, and therefore a spanning tree. An edge of any path covers all gaps between neighbours within it, and
//! costs at least as much as each of them. By the cycle property the edges between neighbours are therefore a
//! spanning tree of least cost, and the ascending pass *is* that tree. No order therefore costs less, with any
//! amount of memory. If moving backward costs more than forward, this holds a fortiori.
//!
//! Gaps that are cheaper to read than to seek over are kept as part of a run. Pieces that are added within a
//! gap later cost nothing more, as in a pass. That bounds the number of runs: two of them are at least a
//! positioning's time of transfer apart (some 500 KiB of a disk).

use crate::costs::Model;
use foreseek_units::{Lba, Nanos, SectorSpan};
use std::collections::BTreeMap;

/// A set of addresses and the cost of one pass over it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    runs: BTreeMap<Lba, Lba>,
    cost: Nanos,
}

impl Sweep {
    /// A pass over these sectors.
    pub(crate) fn over(model: &Model, spans: impl IntoIterator<Item = SectorSpan>) -> Self {
        let mut pass = Self::default();
        for span in spans {
            pass.insert(model, span);
        }
        pass
    }

    /// The cost of the pass from its first sector to its last, without the positioning to the first.
    pub(crate) fn cost(&self) -> Nanos {
        self.cost
    }

    /// The number of separate runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Empties the set.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.cost = Nanos::ZERO;
    }

    /// The first and the last address.
    pub(crate) fn ends(&self) -> Option<(Lba, Lba)> {
        Some((*self.runs.first_key_value()?.0, *self.runs.last_key_value()?.1))
    }

    /// Whether the pass reads or passes over these sectors anyway.
    pub(crate) fn covers(&self, span: SectorSpan) -> bool {
        let run = self.runs.range(..=span.start).next_back();
        run.is_some_and(|(_, end)| span.end <= *end)
    }

    /// Adds sectors. Returns the growth of the cost.
    pub(crate) fn insert(&mut self, model: &Model, span: SectorSpan) -> Nanos {
        if span.is_empty() {
            return Nanos::ZERO;
        }
        let (mut low, mut high) = (span.start, span.end);
        let mut old = Nanos::ZERO;
        let before = self.runs.range(..=low).next_back().map(|(start, end)| (*start, *end));
        let mut previous = before;
        if let Some((start, end)) = before
            && (end >= low || model.passes(end, low))
        {
            if end >= high {
                return Nanos::ZERO;
            }
            (low, high) = (start, high.max(end));
            previous = self.runs.range(..start).next_back().map(|(start, end)| (*start, *end));
        }
        // The costs that vanish: the absorbed runs, and the steps from one to the next.
        let mut last = previous.map(|(_, end)| end);
        loop {
            let next = self.runs.range(low..).next().map(|(start, end)| (*start, *end));
            if let (Some(last), Some((start, _))) = (last, next) {
                old += model.step(last, start);
            }
            let Some((start, end)) = next else { break };
            if start > high && !model.passes(high, start) {
                break;
            }
            self.runs.remove(&start);
            old += model.transfer(SectorSpan::new(start, end));
            (low, high) = (low.min(start), high.max(end));
            last = Some(end);
        }
        let mut new = model.transfer(SectorSpan::new(low, high));
        new += previous.map_or(Nanos::ZERO, |(_, end)| model.step(end, low));
        new += self.runs.range(low..).next().map_or(Nanos::ZERO, |(start, _)| model.step(high, *start));
        self.runs.insert(low, high);
        self.cost = self.cost + new - old;
        new - old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::tests::model;
    use proptest::prelude::*;

    /// The cost of reading pieces in an order.
    fn in_order(model: &Model, pieces: &[SectorSpan]) -> Nanos {
        let steps: Nanos = pieces.windows(2).map(|two| model.step(two[0].end, two[1].start)).sum();
        steps + pieces.iter().map(|piece| model.transfer(*piece)).sum::<Nanos>()
    }

    fn pieces(most: usize) -> impl Strategy<Value = Vec<SectorSpan>> {
        // A dense tree, one over a gigabyte, and one over all of the disk.
        let place = prop_oneof![0u64..20_000, 0u64..2_000_000, 0u64..900_000_000];
        prop::collection::btree_map(place.prop_map(|at| at / 64 * 64), 1u64..64, 1..most).prop_map(|all| {
            all.into_iter().map(|(at, len)| SectorSpan::new(Lba(at), Lba(at + len))).collect()
        })
    }

    fn permutations(
        items: &[SectorSpan],
        chosen: &mut Vec<SectorSpan>,
        visit: &mut impl FnMut(&[SectorSpan]),
    ) {
        if chosen.len() == items.len() {
            return visit(chosen);
        }
        for item in items {
            if !chosen.contains(item) {
                chosen.push(*item);
                permutations(items, chosen, visit);
                chosen.pop();
            }
        }
    }

    proptest! {
        #[test]
        fn a_pass_costs_as_much_as_its_pieces_in_order(
            pieces in pieces(60), seed in any::<u64>(),
        ) {
            let model = model("barracuda-500g");
            let mut shuffled = pieces.clone();
            let mut state = seed | 1;
            for at in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(at, (state >> 33) as usize % (at + 1));
            }
            let (mut sweep, mut sum) = (Sweep::default(), Nanos::ZERO);
            for piece in shuffled {
                sum += sweep.insert(&model, piece);
                prop_assert_eq!(sweep.insert(&model, piece), Nanos::ZERO);
            }
            prop_assert_eq!(sum, sweep.cost());
            let direct = in_order(&model, &pieces);
            // Rounding of the two halves of a gap.
            let error = direct.get().abs_diff(sweep.cost().get());
            prop_assert!(error <= 4 * pieces.len() as u64, "{direct} {}", sweep.cost());
            prop_assert_eq!(sweep.ends(), Some((pieces[0].start, pieces[pieces.len() - 1].end)));
        }

        #[test]
        fn no_order_of_reading_costs_less(pieces in pieces(7)) {
            let model = model("barracuda-500g");
            let mut sweep = Sweep::default();
            for piece in &pieces {
                sweep.insert(&model, *piece);
            }
            let mut least = Nanos(u64::MAX);
            permutations(&pieces, &mut Vec::new(), &mut |order| least = least.min(in_order(&model, order)));
            prop_assert!(sweep.cost().get() <= least.get() + 50, "{} {least}", sweep.cost());
        }
    }
}
