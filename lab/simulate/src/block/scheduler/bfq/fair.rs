//! The order of queues: worst-case fair queueing in the domain of service (B-WF2Q+, all weights equal).
//!
//! Each queue with requests has a start and a finish on a common virtual clock, which advances by the service
//! given divided by the number of queues. Of the queues whose start has come, the one that would finish its
//! budget first is next: small budgets are served soon, and no queue gets more than its share.

use super::rules::Key;
use foreseek_units::Sectors;
use std::collections::BTreeMap;

/// A sector of service, in virtual time.
const SECTOR: u64 = 1 << 16;

/// From when on a queue may be served, and by when it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) start: u64,
    pub(super) finish: u64,
    /// The order of queues with the same stamps.
    order: u64,
}

/// The queues that have requests and are not being served.
#[derive(Clone, Debug, Default)]
pub(super) struct Fair {
    clock: u64,
    eligible: BTreeMap<(u64, u64), (Key, Stamps)>,
    early: BTreeMap<(u64, u64), (Key, Stamps)>,
    orders: u64,
}

impl Fair {
    /// Stamps of a queue that gets requests after having had none; `last` is its last finish.
    pub(super) fn wake(&mut self, last: u64, budget: Sectors) -> Stamps {
        self.stamp(last.max(self.clock), budget)
    }

    /// Stamps of a queue that continues after this much service since its start.
    pub(super) fn go_on(&mut self, stamps: Stamps, service: Sectors, budget: Sectors) -> Stamps {
        self.stamp(stamps.start + service.get() * SECTOR, budget)
    }

    fn stamp(&mut self, start: u64, budget: Sectors) -> Stamps {
        self.orders += 1;
        Stamps { start, finish: start + budget.get() * SECTOR, order: self.orders }
    }

    pub(super) fn insert(&mut self, key: Key, stamps: Stamps) {
        if stamps.start <= self.clock {
            self.eligible.insert((stamps.finish, stamps.order), (key, stamps));
        } else {
            self.early.insert((stamps.start, stamps.order), (key, stamps));
        }
    }

    /// A queue outside of these was served.
    pub(super) fn serve(&mut self, service: Sectors) {
        let queues = (self.eligible.len() + self.early.len() + 1) as u64;
        self.clock += service.get() * SECTOR / queues;
    }

    /// Takes the queue that is next.
    pub(super) fn take(&mut self) -> Option<(Key, Stamps)> {
        if self.eligible.is_empty()
            && let Some((&(start, _), _)) = self.early.first_key_value()
        {
            self.clock = self.clock.max(start);
        }
        while let Some(entry) = self.early.first_entry().filter(|entry| entry.key().0 <= self.clock) {
            let (key, stamps) = entry.remove();
            self.eligible.insert((stamps.finish, stamps.order), (key, stamps));
        }
        self.eligible.pop_first().map(|(_, one)| one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_seam::ProcessId;

    #[test]
    fn among_those_whose_start_has_come_the_earliest_finish_is_next() {
        let mut fair = Fair::default();
        for (pid, budget) in [(1, 1000), (2, 100), (3, 500)] {
            let stamps = fair.wake(0, Sectors(budget));
            fair.insert(Some(ProcessId(pid)), stamps);
        }
        let late = fair.wake(10 * SECTOR, Sectors(1));
        fair.insert(Some(ProcessId(4)), late);
        let order: Vec<_> = std::iter::from_fn(|| fair.take()).map(|(key, _)| key).collect();
        assert_eq!(order, [2, 3, 1, 4].map(|pid| Some(ProcessId(pid))));
    }

    /// Queues with very different budgets get the same service in the long run.
    #[test]
    fn shares_are_equal_whatever_the_budgets() {
        let mut fair = Fair::default();
        let budgets = [8u64, 100, 3000];
        for (pid, budget) in budgets.iter().enumerate() {
            let stamps = fair.wake(0, Sectors(*budget));
            fair.insert(Some(ProcessId(pid as u32)), stamps);
        }
        let mut served = [0; 3];
        while served.iter().sum::<u64>() < 3_000_000 {
            let (key, stamps) = fair.take().expect("all have requests");
            let pid = key.expect("a process").0 as usize;
            let budget = Sectors(budgets[pid]);
            fair.serve(budget);
            served[pid] += budget.get();
            let stamps = fair.go_on(stamps, budget, budget);
            fair.insert(key, stamps);
        }
        assert!(served.iter().all(|sectors| sectors.abs_diff(1_000_000) <= 3000), "{served:?}");
    }
}
