//! How far ahead of its reader a tree is fetched into memory.
//!
//! The data is cut into *batches*, in the order in which it will be read. If all of it fits into the budget
//! there is one batch. Otherwise each batch is half of the budget, and one is fetched while the last one is
//! read. A batch is fetched in disk order. Larger batches are cheaper: a file in a batch of 2,000 costs five
//! times as much as in one of 30,000.
//!
//! A batch is fetched when it and all fetched and unused data fit into the budget. Nothing is therefore fetched
//! that would evict data that waits to be used. One that is larger than the budget is never fetched. The reader has *reached* a batch when it has used a sixteenth
//! of it. Unused data of earlier batches is then not waited for: the reader has skipped it.
//!
//! It is pure: its inputs are events, its output is the number of the batch to fetch.

use foreseek_units::Bytes;
use std::ops::Range;

/// The part of a batch whose use shows that the reader has reached it. Readers with several threads open some
/// files of the next batch early, and a sixteenth is more than those have open.
const REACHED: u64 = 16;

/// The divisor for the part of the budget that one batch takes if not everything fits. With two, one is read
/// while the other is fetched; batches could not be larger.
const BATCHES: u64 = 2;

/// Cuts items, given in the order of reading, into batches: ranges of their indices. An item that is larger than a
/// batch may be is one of its own.
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
    /// Its size.
    bytes: Bytes,
    /// Bytes that were fetched.
    fetched_bytes: Bytes,
    /// Bytes that the reader has used, fetched or not.
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

    /// The batch to fetch now. `None` while it would evict data that waits to be used, or if there is none
    /// left. Batches before the reader are not fetched.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        let next = self.unfetched()?;
        (self.held() + self.batches[next].bytes <= self.budget).then_some(next)
    }

    /// The reader's batch: the last one that it has reached.
    #[must_use]
    pub fn reader(&self) -> usize {
        self.batches.iter().rposition(Batch::is_reached).unwrap_or(0)
    }

    /// Fetched bytes that will be used and were not used yet.
    #[must_use]
    pub fn held(&self) -> Bytes {
        self.batches[self.reader().min(self.batches.len())..].iter().map(Batch::unused).sum()
    }

    /// A batch was fetched; `fetched_bytes` of it came from the disk.
    pub fn fetched(&mut self, batch: usize, fetched_bytes: Bytes) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.fetched = true;
            batch.fetched_bytes = fetched_bytes.min(batch.bytes);
        }
    }

    /// The reader has used `bytes` of a batch.
    pub fn used(&mut self, batch: usize, bytes: Bytes) {
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.used = (batch.used + bytes).min(batch.bytes);
        }
    }

    /// The first batch from the reader on that was not fetched and can be, whether or not there is room for it at
    /// present.
    #[must_use]
    pub fn unfetched(&self) -> Option<usize> {
        let can_be = |batch: &Batch| !batch.fetched && batch.bytes <= self.budget;
        (self.reader()..self.batches.len()).find(|index| can_be(&self.batches[*index]))
    }

    /// Whether a batch was fetched.
    #[must_use]
    pub fn is_fetched(&self, batch: usize) -> bool {
        self.batches.get(batch).is_some_and(|batch| batch.fetched)
    }

    /// The reader was found in a batch.
    pub fn reached(&mut self, batch: usize) {
        if let Some(batch) = self.batches.get_mut(batch).filter(|batch| !batch.is_reached()) {
            batch.used = batch.bytes.min(batch.bytes / REACHED + Bytes(1));
        }
    }

    /// Fetched bytes that were not used yet.
    #[must_use]
    pub fn unused(&self) -> Bytes {
        self.batches.iter().map(Batch::unused).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Some items are larger than the budget.
    fn sizes() -> impl Strategy<Value = Vec<Bytes>> {
        prop::collection::vec(prop_oneof![8 => 0..100u64, 1 => 0..10_000u64].prop_map(Bytes), 0..80)
    }

    proptest! {
        #[test]
        fn batches_hold_every_item_once_within_their_limit(sizes in sizes(), budget in 200..5000u64) {
            let budget = Bytes(budget);
            let cut = batches(&sizes, budget);
            let mut at = 0;
            for batch in &cut {
                prop_assert_eq!(batch.start, at);
                prop_assert!(batch.end > batch.start);
                let bytes: Bytes = sizes[batch.clone()].iter().copied().sum();
                let most = if cut.len() == 1 { budget } else { budget / 2 };
                let used = sizes[batch.clone()].iter().filter(|size| !size.is_zero()).count();
                prop_assert!(bytes <= most || used == 1, "{bytes:?}");
                at = batch.end;
            }
            prop_assert_eq!(at, sizes.len());
        }

        /// For any reader, the bytes that wait to be used stay within the budget.
        #[test]
        fn bytes_that_wait_to_be_used_stay_within_the_budget(
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

        /// For a reader in order that uses everything, each batch that fits is fetched before it is reached.
        #[test]
        fn a_reader_in_order_finds_every_batch_fetched(sizes in sizes(), budget in 200..2000u64) {
            let budget = Bytes(budget);
            let cut = batches(&sizes, budget);
            let bytes = |range: &Range<usize>| sizes[range.clone()].iter().copied().sum::<Bytes>();
            let mut window = Window::new(budget, cut.iter().map(bytes));
            let mut last = None;
            for (index, batch) in cut.iter().enumerate() {
                while let Some(next) = window.next() {
                    prop_assert!(Some(next) > last && bytes(&cut[next]) <= budget);
                    window.fetched(next, bytes(&cut[next]));
                    last = Some(next);
                }
                prop_assert_eq!(window.is_fetched(index), bytes(batch) <= budget, "batch {} of {:?}", index, cut);
                for item in batch.clone() {
                    window.used(index, sizes[item]);
                }
            }
            prop_assert_eq!(window.unused(), Bytes::ZERO);
        }
    }

    #[test]
    fn batches_that_a_reader_skipped_are_not_waited_for() {
        let mut window = Window::new(Bytes(100), [Bytes(50); 4]);
        for batch in [0, 1] {
            assert_eq!(window.next(), Some(batch));
            window.fetched(batch, Bytes(50));
        }
        assert_eq!((window.next(), window.held()), (None, Bytes(100)));
        // It reads a little of the second without the first.
        window.used(1, Bytes(5));
        assert_eq!((window.next(), window.held()), (Some(2), Bytes(45)));
        // It is beyond the third already, which would be late.
        window.used(3, Bytes(5));
        assert_eq!(window.next(), Some(3));
        assert_eq!(window.unused(), Bytes(95));
    }
}
