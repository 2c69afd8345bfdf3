//! How much of `--memory` is available, by the machine and its control groups.
//!
//! Frames may take three quarters of their current memory plus the available memory, so that a part remains
//! for the page cache that holds the pages read. When tasks wait for memory they give back a quarter of
//! theirs, and again a second later if that continues. They grow again by a sixteenth at a time, after some
//! seconds without pressure. Growth costs nothing where it is not used.
//!
//! The machine's pressure also counts tasks that wait at the limit of a control group of their own. Memory
//! that is given back would not help those: while as much memory is available as the frames may take at most,
//! pressure does not count.

use foreseek_storage::{PressureWatch, available};
use foreseek_units::{Bytes, Pages};
use std::time::Duration;

/// Checks without pressure before the next growth, one each second.
const CALM: u32 = 5;
/// The least budget: what the engine needs.
const LEAST: Pages = foreseek_readahead::serving::MEMORY_LEAST;

/// The source of information about memory.
pub trait Memory: Send {
    /// Waits until memory is scarce, at most this long; returns whether it is.
    fn wait(&mut self, limit: Duration) -> bool;

    /// How much can be used beside the memory in use.
    fn available(&mut self) -> Bytes;
}

/// The machine's memory, and that of this process's control groups.
#[derive(Debug, Default)]
pub struct SystemMemory(PressureWatch);

impl SystemMemory {
    /// Starts watching.
    #[must_use]
    pub fn new() -> Self {
        Self(PressureWatch::new())
    }
}

impl Memory for SystemMemory {
    fn wait(&mut self, limit: Duration) -> bool {
        let scarce = self.0.wait(limit);
        if scarce {
            // A trigger fires once in its window, and memory that was given back takes time to have an
            // effect.
            std::thread::sleep(limit);
        }
        scarce
    }

    fn available(&mut self) -> Bytes {
        available().bytes
    }
}

/// The budget of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    most: Pages,
    now: Pages,
    calm: u32,
}

impl Budget {
    pub(super) fn new(most: Pages) -> Self {
        Self { most, now: most, calm: 0 }
    }

    /// Checks memory: `backed` frames have some. Returns the new budget if it changes.
    pub(super) fn look(&mut self, scarce: bool, available: Pages, backed: Pages) -> Option<Pages> {
        let share = |pages: Pages| Pages(pages.get() / 4 * 3);
        let scarce = scarce && available < self.most;
        self.calm = if scarce { 0 } else { self.calm.saturating_add(1) };
        let wanted = if scarce {
            share(self.now.min(backed))
        } else if self.calm > CALM {
            self.now + Pages(self.most.get() / 16)
        } else {
            self.now
        };
        let next = wanted.min(share(backed + available)).min(self.most).max(LEAST.min(self.most));
        (next != std::mem::replace(&mut self.now, next)).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MUCH: Pages = Pages(10_000_000);
    const LITTLE: Pages = Pages(100_000);

    #[test]
    fn without_pressure_all_memory_is_available() {
        let mut budget = Budget::new(Pages(100_000));
        for _ in 0..20 {
            assert_eq!(budget.look(false, MUCH, Pages(50_000)), None);
        }
    }

    #[test]
    fn under_pressure_a_quarter_of_the_used_memory_goes_and_returns_later() {
        let mut budget = Budget::new(Pages(160_000));
        assert_eq!(budget.look(true, LITTLE, Pages(80_000)), Some(Pages(60_000)));
        assert_eq!(budget.look(true, LITTLE, Pages(60_000)), Some(Pages(45_000)));
        let changes: Vec<_> = (0..CALM).map(|_| budget.look(false, MUCH, Pages(45_000))).collect();
        assert!(changes.iter().all(Option::is_none));
        assert_eq!(budget.look(false, MUCH, Pages(45_000)), Some(Pages(55_000)));
        for _ in 0..20 {
            budget.look(false, MUCH, Pages(45_000));
        }
        assert_eq!(budget.look(false, MUCH, Pages(45_000)), None, "it is whole again");
    }

    #[test]
    fn pressure_of_another_groups_limit_does_not_count() {
        let mut budget = Budget::new(Pages(160_000));
        assert_eq!(budget.look(true, MUCH, Pages(80_000)), None);
    }

    #[test]
    fn a_limit_of_a_group_binds_at_once() {
        let mut budget = Budget::new(Pages(100_000));
        assert_eq!(budget.look(false, Pages(20_000), Pages(0)), Some(Pages(15_000)));
        assert_eq!(budget.look(false, Pages(5_000), Pages(15_000)), None, "three quarters of the same");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            most in 1..10_000_000u64,
            looks in prop::collection::vec((any::<bool>(), 0..1_000_000u64, 0..1_000_000u64), 0..40),
        ) {
            let mut budget = Budget::new(Pages(most));
            for (scarce, available, backed) in looks {
                budget.look(scarce, Pages(available), Pages(backed));
                prop_assert!(budget.now <= Pages(most) && budget.now >= LEAST.min(Pages(most)));
            }
        }
    }
}
