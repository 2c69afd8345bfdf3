//! The programs for which this process reads ahead, and what they read themselves.
//!
//! Their reads are no reason to hold back. A process is named again and again; it counts for [`RECENT`] after the last
//! time.
//!
//! Limits: reads of a process before it was first named, and after the last look before it ended, are not
//! known; [`Helped::changes`] says that there may be some. A process whose account may not be read is never known.

use foreseek_storage::process_reads;
use foreseek_units::Bytes;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// How long a process counts after it was named.
const RECENT: Duration = Duration::from_secs(10);
/// The most processes that are known at a time: a look reads the account of each, which takes 10 us.
const MOST: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Program {
    /// What it had read at the last look.
    read: Bytes,
    named: Instant,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Helped {
    programs: FxHashMap<u32, Program>,
    /// What all of them have read.
    read: Bytes,
    changed: bool,
}

impl Helped {
    /// A process belongs to the programs that are helped.
    pub(crate) fn name(&mut self, process: u32, now: Instant) {
        if let Some(program) = self.programs.get_mut(&process) {
            program.named = now;
            return;
        }
        self.changed = true;
        if self.programs.len() < MOST
            && let Some(read) = process_reads(process)
        {
            self.programs.insert(process, Program { read, named: now });
        }
    }

    /// One has ended before it was named.
    pub(crate) fn misses(&mut self) {
        self.changed = true;
    }

    /// Whether one was added or has ended since the last call, or cannot be known.
    pub(crate) fn changes(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Their processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.programs.keys().copied().collect()
    }

    /// What they have read up to now.
    pub(crate) fn read(&mut self, now: Instant) -> Bytes {
        let (total, changed) = (&mut self.read, &mut self.changed);
        self.programs.retain(|process, program| {
            let Some(read) = process_reads(*process) else {
                *changed = true;
                return false;
            };
            *total += read - program.read;
            program.read = read;
            now.duration_since(program.named) <= RECENT
        });
        *total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_for_a_while_after_it_was_named() {
        let (mut helped, now) = (Helped::default(), Instant::now());
        let own = std::process::id();
        helped.name(own, now);
        helped.name(u32::MAX, now);
        assert_eq!(helped.programs.len(), 1, "a process that is gone has no account");
        assert!(helped.changes() && !helped.changes());
        helped.name(own, now);
        assert!(!helped.changes(), "it is known");
        helped.name(u32::MAX, now);
        assert!(helped.changes(), "its reads are not known");
        helped.misses();
        assert!(helped.changes());
        let first = helped.read(now);
        helped.name(own, now + RECENT);
        assert!(helped.read(now + RECENT * 2) >= first && helped.programs.len() == 1);
        helped.read(now + RECENT * 3);
        assert!(helped.programs.is_empty());
    }

    #[test]
    fn what_was_read_before_it_was_named_does_not_count() {
        let mut helped = Helped::default();
        let read = process_reads(std::process::id()).expect("this process has an account");
        helped.name(std::process::id(), Instant::now());
        let counted = helped.read(Instant::now());
        assert!(counted <= process_reads(std::process::id()).expect("as before") - read);
    }
}
