//! The log of requests. It can be started and stopped while the disk runs, and is bounded.

use crate::protocol::{LogEntry, LoggedOp};
use foreseek_export::Failure;
use foreseek_units::{ByteSpan, Instant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most requests that a log may hold: 64 MiB of memory.
pub(crate) const CAPACITY_MOST: usize = 1 << 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Logbook {
    on: AtomicBool,
    log: Mutex<Option<RequestLog>>,
}

/// A log that is running or finished.
#[derive(Debug)]
pub(crate) struct RequestLog {
    started: Instant,
    /// The sector past the end of the latest request.
    head: u64,
    pub(crate) entries: Vec<LogEntry>,
    pub(crate) missed: u64,
}

impl Logbook {
    /// Starts logging, at most `capacity` requests; allocates the memory for them. Returns whether there was
    /// enough.
    pub(crate) fn start(&self, now: Instant, capacity: usize) -> bool {
        let mut entries = Vec::new();
        if entries.try_reserve_exact(capacity).is_err() {
            return false;
        }
        *self.lock() = Some(RequestLog { started: now, head: 0, entries, missed: 0 });
        self.on.store(true, Ordering::Release);
        true
    }

    /// Stops logging and returns the log.
    pub(crate) fn stop(&self) -> Option<RequestLog> {
        self.on.store(false, Ordering::Release);
        self.lock().take()
    }

    /// Logs a request right before it is answered, so that a reader's next request follows it in the log.
    pub(crate) fn answers(
        &self,
        op: LoggedOp,
        range: ByteSpan,
        times: (Instant, Instant),
        result: Result<(), Failure>,
    ) {
        if self.on.load(Ordering::Acquire)
            && let Some(log) = self.lock().as_mut()
        {
            log.answers(op, range, times, result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<RequestLog>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestLog {
    fn answers(
        &mut self,
        op: LoggedOp,
        range: ByteSpan,
        (arrival, completion): (Instant, Instant),
        result: Result<(), Failure>,
    ) {
        if self.entries.len() == self.entries.capacity() {
            self.missed += 1;
            return;
        }
        let sectors = range.sectors();
        let moves = matches!(op, LoggedOp::Read | LoggedOp::Write);
        self.entries.push(LogEntry {
            arrival_ns: (arrival - self.started).get(),
            completion_ns: (completion - self.started).get(),
            op,
            lba: sectors.start.get(),
            sectors: sectors.len().get(),
            seek_sectors: if moves { sectors.start.get().wrapping_sub(self.head).cast_signed() } else { 0 },
            failed: result.is_err(),
        });
        if moves {
            self.head = sectors.end.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{ByteOffset, Bytes, Nanos};

    #[test]
    fn a_log_holds_so_many_requests_and_counts_the_others() {
        let book = Logbook::default();
        let log = |at: u64, length| {
            let range = ByteSpan::at(ByteOffset(at), Bytes(length));
            book.answers(LoggedOp::Read, range, (Instant(100), Instant(200)), Ok(()));
        };
        log(0, 512);
        assert!(book.stop().is_none(), "it was not started");
        assert!(book.start(Instant(50), 2));
        log(4096, 4096);
        log(512, 512);
        log(0, 512);
        let taken = book.stop().expect("it was started");
        assert_eq!(taken.missed, 1);
        let seen: Vec<_> =
            taken.entries.iter().map(|entry| (entry.lba, entry.sectors, entry.seek_sectors)).collect();
        assert_eq!(seen, [(8, 8, 8), (1, 1, -15)]);
        assert_eq!(taken.entries[0].completion_ns, (Instant(200) - Instant(50)).get());
        assert_eq!(Nanos(taken.entries[0].arrival_ns), Nanos(50));
        log(0, 512);
        assert!(book.stop().is_none());
    }
}
