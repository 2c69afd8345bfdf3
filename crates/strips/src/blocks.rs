//! A set of blocks of one strip: one bit for each block.
//!
//! A block is a page of 4 KiB, as in the paper (section 3.1). Block 0 is the first of the strip.

/// The most blocks of a strip: 1 MiB, the largest strip of hardware controllers; Linux md's default is 512
/// KiB. A set has four words, so that a strip's state stays within a few cache lines.
pub const STRIP_PAGES_LIMIT: u64 = 256;
const WORDS: usize = (STRIP_PAGES_LIMIT / 64) as usize;

/// Blocks of one strip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Blocks([u64; WORDS]);

impl Blocks {
    /// The empty set.
    pub const NONE: Self = Self([0; WORDS]);

    /// The blocks from `start` up to and without `end`; blocks at or past [`STRIP_PAGES_LIMIT`] are left out.
    #[must_use]
    pub fn range(start: u64, end: u64) -> Self {
        let mut set = Self::NONE;
        for (word, bits) in set.0.iter_mut().enumerate() {
            let first = word as u64 * 64;
            let from = start.clamp(first, first + 64) - first;
            let to = end.clamp(first, first + 64) - first;
            if from < to {
                *bits = (u64::MAX >> (64 - (to - from))) << from;
            }
        }
        set
    }

    /// The number of blocks.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Whether it contains this block.
    #[must_use]
    pub fn has(self, block: u64) -> bool {
        self.0.get((block / 64) as usize).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// The union.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// The intersection.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// The difference: blocks that are not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether it contains all blocks of the other.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// The first block and the one after the last; `None` for the empty set.
    #[must_use]
    pub fn hull(self) -> Option<(u64, u64)> {
        let low = self.0.iter().position(|word| *word != 0)?;
        let high = self.0.iter().rposition(|word| *word != 0)?;
        let start = low as u64 * 64 + u64::from(self.0[low].trailing_zeros());
        let end = high as u64 * 64 + 64 - u64::from(self.0[high].leading_zeros());
        Some((start, end))
    }

    /// Runs of consecutive blocks, ascending, as half-open ranges.
    pub fn runs(self) -> impl Iterator<Item = (u64, u64)> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let (start, end) = rest.hull()?;
            // The first hole after the start is the first missing block.
            let missing = Self::range(start, end).without(rest);
            let stop = missing.hull().map_or(end, |(hole, _)| hole);
            rest = rest.without(Self::range(start, stop));
            Some((start, stop))
        })
    }

    fn zip(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let mut set = self;
        set.0.iter_mut().zip(other.0).for_each(|(a, b)| *a = op(*a, b));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn drawn() -> impl Strategy<Value = BTreeSet<u64>> {
        prop_oneof![
            proptest::collection::btree_set(0..STRIP_PAGES_LIMIT, 0..40),
            (0..STRIP_PAGES_LIMIT, 0..=STRIP_PAGES_LIMIT).prop_map(|(start, end)| (start..end).collect()),
        ]
    }

    fn set(blocks: &BTreeSet<u64>) -> Blocks {
        blocks.iter().fold(Blocks::NONE, |set, block| set.with(Blocks::range(*block, block + 1)))
    }

    fn listed(set: Blocks) -> BTreeSet<u64> {
        (0..STRIP_PAGES_LIMIT + 9).filter(|block| set.has(*block)).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set(a in drawn(), b in drawn()) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(listed(x), a.clone());
            prop_assert_eq!(x.count(), a.len() as u64);
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(listed(x.with(y)), &a | &b);
            prop_assert_eq!(listed(x.and(y)), &a & &b);
            prop_assert_eq!(listed(x.without(y)), &a - &b);
            prop_assert_eq!(x.covers(y), b.is_subset(&a));
            let hull = a.first().zip(a.last()).map(|(first, last)| (*first, last + 1));
            prop_assert_eq!(x.hull(), hull);
        }

        #[test]
        fn runs_are_apart_and_make_the_set(a in drawn()) {
            let runs: Vec<(u64, u64)> = set(&a).runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].1 < pair[1].0));
            prop_assert_eq!(runs.iter().flat_map(|(start, end)| *start..*end).collect::<BTreeSet<u64>>(), a);
        }

        #[test]
        fn a_range_has_the_blocks_within(start in 0..300u64, end in 0..300u64) {
            let expected: BTreeSet<u64> = (start..end.min(STRIP_PAGES_LIMIT)).collect();
            prop_assert_eq!(listed(Blocks::range(start, end)), expected);
        }
    }
}
