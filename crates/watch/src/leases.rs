//! Files under a lease: opening such a file makes the holder give the lease up (Samba's oplocks, NFS
//! delegations), therefore it is not opened.
//!
//! Source: `/proc/locks` (fs/locks.c, `lock_get_status`): number, kind (`LEASE`, `DELEG`), state, access, process,
//! `major:minor:inode` with hexadecimal device numbers, range.
//!
//! To read it takes some 10 ms, in which the kernel waits for all processors. A thread of its own does that while files
//! are opened, every [`RENEWED`] at most. Files are opened by what it has read in the last [`OLDEST`].
//!
//! Limit: a lease that is taken between the read and the open is broken; the open does not wait for it
//! (`O_NONBLOCK`).

use foreseek_storage::DeviceNumber;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two reads, unless there is none of the last [`OLDEST`].
const RENEWED: Duration = Duration::from_millis(20);
/// The longest time between a read and an open: a disk serves ten requests in it.
const OLDEST: Duration = Duration::from_millis(100);
/// A read that takes longer is ended.
const LONGEST: Duration = Duration::from_secs(1);
/// After a read that failed there is none for this time, and nothing is opened: a user may have a million locks, whose
/// table takes minutes to read.
const FAILED: Duration = Duration::from_secs(1);

/// The files under leases at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leases(FxHashSet<(DeviceNumber, u64)>);

/// The leases as they were read last, for all threads.
#[derive(Debug, Default)]
pub(crate) struct LastLeases(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    /// With the time at which the read began.
    leases: Option<(Instant, Arc<Leases>)>,
    /// A thread reads them.
    reading: bool,
    /// When a read failed last.
    failed: Option<Instant>,
}

impl Last {
    fn read(&mut self, begun: Instant, leases: Option<Leases>) -> Option<Arc<Leases>> {
        if leases.is_none() {
            if self.failed.is_none() {
                tracing::warn!(
                    "/proc/locks cannot be read within {LONGEST:?}: while that is so, no files are read ahead"
                );
            }
            self.failed = Some(Instant::now());
        }
        self.leases = leases.map(|leases| (begun, Arc::new(leases)));
        self.leases.as_ref().map(|(_, leases)| leases.clone())
    }

    /// Whether a read failed within [`FAILED`].
    fn has_failed(&self, now: Instant) -> bool {
        self.failed.is_some_and(|at| now.saturating_duration_since(at) < FAILED)
    }

    /// Those of the last [`OLDEST`], and whether it is time to read them again.
    fn present(&self, now: Instant) -> Option<(Arc<Leases>, bool)> {
        let (begun, leases) = self.leases.as_ref()?;
        let age = now.saturating_duration_since(*begun);
        (age <= OLDEST).then(|| (leases.clone(), age >= RENEWED && !self.reading))
    }
}

impl LastLeases {
    /// The leases of the last [`OLDEST`]; if there are none, it waits for a read. `None` if they cannot be read; then
    /// nothing may be opened.
    pub(crate) fn present(self: &Arc<Self>) -> Option<Arc<Leases>> {
        let mut last = self.last();
        let now = Instant::now();
        if last.has_failed(now) {
            return None;
        }
        let Some((present, is_due)) = last.present(now) else {
            // Other threads wait for the same read.
            return last.read(now, Leases::now());
        };
        if is_due {
            let all = self.clone();
            let thread = std::thread::Builder::new().name("watch-leases".to_owned());
            last.reading = thread.spawn(move || all.renew()).is_ok();
        }
        Some(present)
    }

    fn renew(&self) {
        let (begun, leases) = (Instant::now(), Leases::now());
        let mut last = self.last();
        last.reading = false;
        // Another thread may have read them meanwhile.
        if last.leases.as_ref().is_none_or(|(at, _)| *at < begun) {
            last.read(begun, leases);
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases {
    fn now() -> Option<Self> {
        let until = Instant::now() + LONGEST;
        Self::read(BufReader::new(File::open("/proc/locks").ok()?), || Instant::now() < until)
    }

    /// Reads them line by line while that goes on; `None` if it does not, or fails.
    fn read(mut from: impl BufRead, mut goes_on: impl FnMut() -> bool) -> Option<Self> {
        let (mut all, mut line) = (FxHashSet::default(), Vec::new());
        while from.read_until(b'\n', &mut line).ok()? > 0 {
            if !goes_on() {
                return None;
            }
            all.extend(std::str::from_utf8(&line).ok().and_then(leased));
            line.clear();
        }
        Some(Self(all))
    }

    /// Whether a file is under a lease.
    pub(crate) fn hold(&self, device: DeviceNumber, inode: u64) -> bool {
        self.0.contains(&(device, inode))
    }
}

fn leased(line: &str) -> Option<(DeviceNumber, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1).skip_while(|field| *field == "->");
    if !matches!(fields.next()?, "LEASE" | "DELEG") {
        return None;
    }
    let mut place = fields.nth(3)?.split(':');
    let major = u32::from_str_radix(place.next()?, 16).ok()?;
    let minor = u32::from_str_radix(place.next()?, 16).ok()?;
    Some((DeviceNumber { major, minor }, place.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_and_delegations_are_found_and_locks_are_not() {
        let text = "1: POSIX  ADVISORY  WRITE 1021 00:1a:1150 0 EOF\n\
                    2: LEASE  ACTIVE    WRITE 4242 fd:0b:131 0 EOF\n\
                    3: DELEG  BREAKING  READ 17 08:01:99 0 EOF\n\
                    3: -> LEASE BREAKER   READ 17 08:01:100 0 EOF\n\
                    4: FLOCK\n5:\n\n6: LEASE ACTIVE READ 1 xx:1:1 0 EOF\n";
        let leases = Leases::read(text.as_bytes(), || true).unwrap();
        let on = |major, minor| DeviceNumber { major, minor };
        assert!(leases.hold(on(0xfd, 11), 131) && leases.hold(on(8, 1), 99) && leases.hold(on(8, 1), 100));
        assert!(!leases.hold(on(0, 0x1a), 1150));
        assert_eq!(leases.0.len(), 3);
    }

    #[test]
    fn leases_are_read_again_in_time_and_old_ones_do_not_count() {
        let (mut last, begin) = (Last::default(), Instant::now());
        assert_eq!(last.present(begin), None);
        last.read(begin, Some(Leases::default()));
        let is_due = |last: &Last, age| last.present(begin + age).map(|(_, is_due)| is_due);
        let ages = [Duration::ZERO, RENEWED, OLDEST, OLDEST + Duration::from_millis(1)];
        assert_eq!(ages.map(|age| is_due(&last, age)), [Some(false), Some(true), Some(true), None]);
        last.reading = true;
        assert_eq!(is_due(&last, RENEWED), Some(false), "two read at a time");
        last.read(begin, None);
        assert_eq!(last.present(begin), None, "those of before a failure");
    }

    #[test]
    fn a_table_that_takes_too_long_is_given_up_and_not_read_again_at_once() {
        let text = "1: LEASE  ACTIVE    WRITE 4242 fd:0b:131 0 EOF\n".repeat(1000);
        let mut lines = 0..10;
        assert_eq!(Leases::read(text.as_bytes(), || lines.next().is_some()), None);
        let (mut last, begin) = (Last::default(), Instant::now());
        assert!(!last.has_failed(begin));
        last.read(begin, None);
        assert!(last.has_failed(begin) && last.has_failed(Instant::now()));
        assert!(!last.has_failed(Instant::now() + FAILED));
    }

    #[test]
    fn a_thread_reads_them_while_they_are_asked_for() {
        let leases = Arc::new(LastLeases::default());
        let first = leases.present().expect("/proc/locks");
        let until = Instant::now() + Duration::from_secs(10);
        while Arc::ptr_eq(&leases.present().expect("/proc/locks"), &first) {
            assert!(Instant::now() < until, "never read again");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
