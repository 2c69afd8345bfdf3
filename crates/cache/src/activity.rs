//! The living processes, and when each ran last.
//!
//! The table contains living processes only: an exit removes one entry. A page whose process is not in the
//! table was prefetched for a process that has ended. When the table is full, the process that has not run
//! for longest is removed, and counts as ended until it runs again.

use crate::queue::Queue;
use foreseek_units::Instant;

/// A process or thread that reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u32);

/// The most processes: twice the process ids of a stock kernel's default (`pid_max` 32,768); 3 MB.
pub const PROCESSES_LIMIT: usize = 1 << 16;

/// The living processes.
#[derive(Clone, Debug)]
pub struct Activity {
    ran: Queue<Process, Instant>,
    most: usize,
}

impl Activity {
    /// A table of at most [`PROCESSES_LIMIT`] processes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(PROCESSES_LIMIT)
    }

    /// A table of at most `most` processes, and of at least one.
    #[must_use]
    pub fn with_limit(most: usize) -> Self {
        Self { ran: Queue::with_capacity(0), most: most.max(1) }
    }

    /// A process runs, or ran at that time.
    pub fn ran(&mut self, process: Process, now: Instant) {
        if let Some(slot) = self.ran.find(&process) {
            if let Some(last) = self.ran.at(slot) {
                *last = now.max(*last);
            }
            self.ran.renew(slot);
            return;
        }
        // A full table has an oldest entry.
        while self.ran.len() >= self.most
            && let Some(oldest) = self.ran.oldest()
        {
            self.ran.remove(oldest);
        }
        self.ran.push(process, now);
    }

    /// A process has ended.
    pub fn exited(&mut self, process: Process) {
        if let Some(slot) = self.ran.find(&process) {
            self.ran.remove(slot);
        }
    }

    /// When a process ran last; `None` if it has ended, or was never seen.
    #[must_use]
    pub fn last_ran(&self, process: Process) -> Option<Instant> {
        self.ran.get(&process).copied()
    }

    /// How many processes are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ran.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_from_its_first_run_to_its_end() {
        let mut activity = Activity::new();
        assert_eq!(activity.last_ran(Process(1)), None);
        activity.ran(Process(1), Instant(5));
        activity.ran(Process(1), Instant(9));
        // A late report of an earlier time changes nothing.
        activity.ran(Process(1), Instant(7));
        assert_eq!(activity.last_ran(Process(1)), Some(Instant(9)));
        activity.exited(Process(1));
        activity.exited(Process(2));
        assert_eq!(activity.last_ran(Process(1)), None);
        assert!(activity.is_empty());
    }

    #[test]
    fn a_full_table_forgets_the_process_that_has_not_run_for_longest() {
        let mut activity = Activity::with_limit(2);
        for (process, at) in [(1, 1), (2, 2), (1, 3), (3, 4)] {
            activity.ran(Process(process), Instant(at));
        }
        assert_eq!(activity.len(), 2);
        assert_eq!(
            [1, 2, 3].map(|one| activity.last_ran(Process(one))),
            [Some(Instant(3)), None, Some(Instant(4))]
        );
    }
}
