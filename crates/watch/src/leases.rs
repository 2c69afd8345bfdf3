//! Files under a lease: opening such a file makes the holder give the lease up (Samba's oplocks, NFS
//! delegations), therefore it is not opened.
//!
//! Source: `/proc/locks` (fs/locks.c, `lock_get_status`): number, kind (`LEASE`, `DELEG`), state, access, process,
//! `major:minor:inode` with hexadecimal device numbers, range.
//!
//! To read it makes the kernel wait for all processors, a millisecond, and stops everyone who locks a file meanwhile. It is
//! therefore read every [`RENEWED`] at most.
//!
//! Limit: a lease that is taken between the read and the open is broken; the open does not wait for it
//! (`O_NONBLOCK`).

use foreseek_storage::DeviceNumber;
use rustc_hash::FxHashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time between a read of the leases and an open: a disk serves two requests in it.
const RENEWED: Duration = Duration::from_millis(20);

/// The files under leases at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leases(FxHashSet<(DeviceNumber, u64)>);

/// The leases as they were read last, for all threads.
#[derive(Debug, Default)]
pub(crate) struct LastLeases(Mutex<Option<(Instant, Arc<Leases>)>>);

impl LastLeases {
    /// The leases of the last [`RENEWED`]. `None` if they cannot be read; then nothing may be opened.
    pub(crate) fn present(&self) -> Option<Arc<Leases>> {
        self.read_by(Instant::now(), || std::fs::read_to_string("/proc/locks").ok())
    }

    fn read_by(&self, now: Instant, read: impl FnOnce() -> Option<String>) -> Option<Arc<Leases>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, leases)) = &*last
            && now.saturating_duration_since(*at) < RENEWED
        {
            return Some(leases.clone());
        }
        let leases = Arc::new(Leases::parse(&read()?));
        *last = Some((now, leases.clone()));
        Some(leases)
    }
}

impl Leases {
    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(leased).collect())
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
        let leases = Leases::parse(text);
        let on = |major, minor| DeviceNumber { major, minor };
        assert!(leases.hold(on(0xfd, 11), 131) && leases.hold(on(8, 1), 99) && leases.hold(on(8, 1), 100));
        assert!(!leases.hold(on(0, 0x1a), 1150));
        assert_eq!(leases.0.len(), 3);
    }

    #[test]
    fn leases_are_read_again_after_a_time_and_after_a_failure() {
        let (last, begin) = (LastLeases::default(), Instant::now());
        let text = |inode| Some(format!("1: LEASE ACTIVE READ 7 08:01:{inode} 0 EOF\n"));
        let disk = DeviceNumber { major: 8, minor: 1 };
        let held = |at, text: Option<String>| {
            let leases = last.read_by(begin + at, || text)?;
            Some([1, 2].map(|inode| leases.hold(disk, inode)))
        };
        assert_eq!(held(Duration::ZERO, None), None);
        assert_eq!(held(Duration::ZERO, text(1)), Some([true, false]));
        assert_eq!(held(RENEWED / 2, text(2)), Some([true, false]), "read too often");
        assert_eq!(held(RENEWED, text(2)), Some([false, true]));
        assert_eq!(held(RENEWED * 3, None), None, "an old one instead of none");
    }
}
