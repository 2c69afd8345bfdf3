//! The programs for which this process reads ahead, and what they read themselves.
//!
//! Their reads are no reason to hold back. A process is named again and again; it counts for [`RECENT`] after the last
//! time.
//!
//! Who names a process reads nothing, and waits for nobody. Its account is read at the next look, and its reads count
//! from then on. To read an account may take as long as that process likes ([`crate::counts`]): whoever does so holds no
//! lock, and reports what it found here.
//!
//! Limits: reads of a process before the first look at it, and after the last one before it ended, are not
//! known; [`Helped::changes`] says that there may be some. A process whose account may not be read is never known.

use foreseek_units::Bytes;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// How long a process counts after it was named.
const RECENT: Duration = Duration::from_secs(10);
/// The most processes that are known at a time: a look reads the account of each, which takes 10 us.
const MOST: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Program {
    /// What it had read at the last look; `None` before the first one.
    read: Option<Bytes>,
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
        if self.programs.len() < MOST {
            self.programs.insert(process, Program { read: None, named: now });
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

    /// A look has found these accounts; `None` for a process that has none any more. Returns what all programs have read.
    pub(crate) fn looked(&mut self, accounts: &[(u32, Option<Bytes>)], now: Instant) -> Bytes {
        for (process, account) in accounts {
            let Some(program) = self.programs.get_mut(process) else { continue };
            let before = std::mem::replace(&mut program.read, *account);
            match (before, *account) {
                (Some(before), Some(read)) => self.read += read - before,
                // What it has read before, or since, counts as read by others.
                _ => self.changed = true,
            }
            if account.is_none() || now.duration_since(program.named) > RECENT {
                self.programs.remove(process);
            }
        }
        self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_for_a_while_after_it_was_named() {
        let (mut helped, now) = (Helped::default(), Instant::now());
        helped.name(1, now);
        helped.name(2, now);
        assert!(helped.changes() && !helped.changes());
        helped.looked(&[(1, Some(Bytes(5))), (2, None)], now);
        assert_eq!(helped.processes(), [1], "a process that is gone has no account");
        assert!(helped.changes(), "its reads are not known");
        helped.looked(&[(1, Some(Bytes(5)))], now);
        helped.name(1, now);
        assert!(!helped.changes(), "it is known");
        helped.misses();
        assert!(helped.changes());
        helped.name(1, now + RECENT);
        assert_eq!(helped.looked(&[(1, Some(Bytes(7)))], now + RECENT * 2), Bytes(2));
        assert_eq!(helped.processes(), [1]);
        assert_eq!(helped.looked(&[(1, Some(Bytes(8)))], now + RECENT * 3), Bytes(3));
        assert!(helped.processes().is_empty());
        // A look that has begun before ends after that.
        assert_eq!(helped.looked(&[(1, Some(Bytes(100)))], now), Bytes(3));
        (0..100).for_each(|process| helped.name(process, now));
        assert_eq!(helped.processes().len(), MOST);
    }

    /// Its reads until then are those of others, and evidence from before the look is void.
    #[test]
    fn what_was_read_before_the_first_look_does_not_count() {
        let (mut helped, now) = (Helped::default(), Instant::now());
        helped.name(1, now);
        assert!(helped.changes());
        assert_eq!(helped.looked(&[(1, Some(Bytes(1000)))], now), Bytes::ZERO);
        assert!(helped.changes(), "it may have read since it was named");
        assert_eq!(helped.looked(&[(1, Some(Bytes(1300)))], now), Bytes(300));
        assert!(!helped.changes());
    }
}
