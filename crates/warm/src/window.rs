//! How far ahead of its reader a tree is brought into memory.
//!
//! What is to be read is cut into *batches*, in the order in which it will be read. If all of it fits
//! into the budget there is one batch. Otherwise each batch is half of the budget, and one is fetched
//! while the one before is read. Within a batch the order is that of the disk; larger batches are cheaper, a
//! file in a batch of 2,000 costs five times as much as in one of 30,000.
//!
//! A batch is fetched when it and all that was brought and not used yet fit into the budget. So
//! nothing is brought that would push out something that waits to be used. The reader has *reached*
//! a batch when it has used a sixteenth of it. What it left unused in batches before that one is
//! not waited for any more: it passed it over.
//!
//! Pure: events go in, the number of a batch to be fetched comes out.

use foreseek_units::Bytes;
use std::ops::Range;

/// The part of a batch whose use shows that the reader is there: some files of the next batch are
/// opened early by readers with several threads, and a sixteenth is more than those have open.
const REACHED: u64 = 16;

/// The budget's part that one batch takes where all does not fit: with two, one is read while
/// the other is fetched, and larger ones could not be.
const BATCHES: u64 = 2;

/// Cuts items, given in the order of reading, into batches: ranges of their indices.
#[must_use]
pub fn batches(sizes: &[Bytes], budget: Bytes) -> Vec<Range<usize>> {
    let total: Bytes = sizes.iter().copied().sum();
    let most = if total <= budget { budget } else { budget / BATCHES };
    let mut batches = Vec::new();
    let (mut start, mut held) = (0, Bytes::ZERO);
    for (index, size) in sizes.iter().enumerate() {
        if index > start && held + *size > most {
            batches.push(start..index);
            (start, held) = (index, Bytes::ZERO);
        }
        held += *size;
    }
    if start < sizes.len() {
        batches.push(start..sizes.len());
    }
    batches
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Batch {
    /// All of it.
    bytes: Bytes,
    /// Brought by us.
    fetched_bytes: Bytes,
    /// Used by the reader, whoever brought it.
    used: Bytes,
    fetched: bool,
}

impl Batch {
    fn is_reached(&self) -> bool {
        !self.used.is_zero() && self.used >= self.bytes / REACHED
    }

    fn unused(&self) -> Bytes {
        self.fetched_bytes - self.used
    }
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Window {
    budget: Bytes,
    batches: Vec<Batch>,
}

impl Window {
    /// A window over batches of these sizes.
    #[must_use]
    pub fn new(budget: Bytes, sizes: impl IntoIterator<Item = Bytes>) -> Self {
        let batches = sizes.into_iter().map(|bytes| Batch { bytes, ..Batch::default() }).collect();
        Self { budget, batches }
    }

    /// The batch to be fetched now; `None` while it would push out what waits to be used, or when
    /// there is none left. Batches before the reader are not fetched any more. The first batch is
    /// always fetched: its size is bounded where it was cut.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        let next = self.unfetched()?;
        let held = self.held();
        (held.is_zero() || held + self.batches[next].bytes <= self.budget).then_some(next)
    }

    /// The batch that the reader is in: the last that it reached.
    #[must_use]
    pub fn reader(&self) -> usize {
        self.batches.iter().rposition(Batch::is_reached).unwrap_or(0)
    }

    /// What was brought, will be used and has not been yet.
    #[must_use]
    pub fn held(&self) -> Bytes {
        self.batches[self.reader().min(self.batches.len())..].iter().map(Batch::unused).sum()
    }

    /// A batch was fetched; so much of it had to be brought.
    pub fn fetched(&mut self, batch: usize, fetched_bytes: Bytes) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.fetched = true;
            batch.fetched_bytes = fetched_bytes.min(batch.bytes);
        }
    }

    /// The reader used so much of a batch.
    pub fn used(&mut self, batch: usize, bytes: Bytes) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.used = (batch.used + bytes).min(batch.bytes);
        }
    }

    /// The first batch from the reader on that was not fetched, whether there is room for it or not.
    #[must_use]
    pub fn unfetched(&self) -> Option<usize> {
        (self.reader()..self.batches.len()).find(|index| !self.batches[*index].fetched)
    }

    /// Whether a batch was fetched.
    #[must_use]
    pub fn is_fetched(&self, batch: usize) -> bool {
        self.batches.get(batch).is_some_and(|batch| batch.fetched)
    }

    /// The reader was seen in a batch.
    pub fn reached(&mut self, batch: usize) {
        if let Some(batch) = self.batches.get_mut(batch).filter(|batch| !batch.is_reached()) {
            batch.used = batch.bytes.min(batch.bytes / REACHED + Bytes(1));
        }
    }

    /// What was brought and not used so far.
    #[must_use]
    pub fn unused(&self) -> Bytes {
        self.batches.iter().map(Batch::unused).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes() -> impl Strategy<Value = Vec<Bytes>> {
        prop::collection::vec((0..100u64).prop_map(Bytes), 0..80)
    }

    proptest! {
        #[test]
        fn batches_hold_every_item_once_and_no_more_than_they_may(sizes in sizes(), budget in 200..5000u64) {
            let budget = Bytes(budget);
            let cut = batches(&sizes, budget);
            let mut at = 0;
            for batch in &cut {
                prop_assert_eq!(batch.start, at);
                prop_assert!(batch.end > batch.start);
                let bytes: Bytes = sizes[batch.clone()].iter().copied().sum();
                let most = if cut.len() == 1 { budget } else { budget / 2 };
                prop_assert!(bytes <= most, "{bytes:?}");
                at = batch.end;
            }
            prop_assert_eq!(at, sizes.len());
        }

        /// Whatever the reader does, what waits to be used stays within the budget.
        #[test]
        fn what_waits_to_be_used_stays_within_the_budget(
            sizes in sizes(), budget in 200..2000u64,
            acts in prop::collection::vec((any::<bool>(), 0..40usize, 0..400u64), 0..200),
        ) {
            let budget = Bytes(budget);
            let cut = batches(&sizes, budget);
            let bytes = |range: &Range<usize>| sizes[range.clone()].iter().copied().sum::<Bytes>();
            let mut window = Window::new(budget, cut.iter().map(bytes));
            let mut fetched = Vec::new();
            for (fetch, batch, amount) in acts {
                if fetch {
                    if let Some(next) = window.next() {
                        prop_assert!(!fetched.contains(&next));
                        window.fetched(next, bytes(&cut[next]));
                        fetched.push(next);
                    }
                } else {
                    window.used(batch, Bytes(amount));
                }
                prop_assert!(window.held() <= budget, "{:?}", window.held());
                prop_assert!(window.held() <= window.unused());
            }
        }

        /// A reader in order, which uses all, sees every batch fetched before it comes there.
        #[test]
        fn a_reader_in_order_finds_every_batch(sizes in sizes(), budget in 200..2000u64) {
            let budget = Bytes(budget);
            let cut = batches(&sizes, budget);
            let bytes = |range: &Range<usize>| sizes[range.clone()].iter().copied().sum::<Bytes>();
            let mut window = Window::new(budget, cut.iter().map(bytes));
            let mut fetched = 0;
            for (index, batch) in cut.iter().enumerate() {
                while let Some(next) = window.next() {
                    prop_assert_eq!(next, fetched);
                    window.fetched(next, bytes(&cut[next]));
                    fetched += 1;
                }
                prop_assert!(fetched > index || bytes(batch).is_zero(), "batch {index} of {cut:?}");
                for item in batch.clone() {
                    window.used(index, sizes[item]);
                }
            }
            prop_assert_eq!(window.unused(), Bytes::ZERO);
        }
    }

    #[test]
    fn what_a_reader_passed_over_is_not_waited_for() {
        let mut window = Window::new(Bytes(100), [Bytes(50); 4]);
        for batch in [0, 1] {
            assert_eq!(window.next(), Some(batch));
            window.fetched(batch, Bytes(50));
        }
        assert_eq!((window.next(), window.held()), (None, Bytes(100)));
        // It reads a little of the second without the first.
        window.used(1, Bytes(5));
        assert_eq!((window.next(), window.held()), (Some(2), Bytes(45)));
        // It is beyond the third already: that would be late.
        window.used(3, Bytes(5));
        assert_eq!(window.next(), Some(3));
        assert_eq!(window.unused(), Bytes(95));
    }
}
