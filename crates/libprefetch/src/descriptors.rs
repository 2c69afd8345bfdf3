//! Which descriptor numbers a client has seen, and which of them the host is about to close:
//! answered without a lock, so that closing anything else costs next to nothing, and kept without
//! waiting for a round of prefetching that is under way.

use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors below this number have a bit of their own; higher ones always count as seen. It is
/// four times the usual limit of a process (1024) and takes 512 bytes.
const TRACKED: usize = 4096;

/// Closed numbers that are kept until the client looks; more are left to be found out when they are
/// next looked at. Each close goes through them, and a server may close sockets by the ten thousand.
const CLOSING_LIMIT: usize = 64;

#[derive(Debug)]
pub(crate) struct Descriptors {
    seen: [AtomicU64; TRACKED / 64],
    any_closing: AtomicBool,
    closing: Mutex<Vec<RawFd>>,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self {
            seen: [const { AtomicU64::new(0) }; TRACKED / 64],
            any_closing: AtomicBool::new(false),
            closing: Mutex::default(),
        }
    }
}

impl Descriptors {
    fn word_and_bit(&self, fd: RawFd) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok().filter(|fd| *fd < TRACKED)?;
        Some((&self.seen[fd / 64], 1 << (fd % 64)))
    }

    /// The client uses this descriptor.
    pub(crate) fn note(&self, fd: RawFd) {
        if let Some((word, bit)) = self.word_and_bit(fd)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The host is about to close it; kept for [`Descriptors::take_closing`] if it was ever used.
    pub(crate) fn close(&self, fd: RawFd) {
        let was_seen = match self.word_and_bit(fd) {
            Some((word, bit)) => {
                word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
            }
            None => fd >= 0,
        };
        // A lost note is harmless: each use of a descriptor looks at what it refers to.
        if was_seen && let Ok(mut closing) = self.closing.lock() {
            if closing.len() >= CLOSING_LIMIT || closing.contains(&fd) {
                return;
            }
            closing.push(fd);
            self.any_closing.store(true, Ordering::Release);
        }
    }

    /// The same for those from `first` to `last`. Numbers without a bit of their own are left to be
    /// found out when they are next looked at.
    pub(crate) fn close_range(&self, first: RawFd, last: RawFd) {
        let last = last.min(TRACKED as RawFd - 1);
        (first.max(0)..=last).for_each(|fd| self.close(fd));
    }

    /// Takes out what was closed since the last time.
    pub(crate) fn take_closing(&self) -> Vec<RawFd> {
        if !self.any_closing.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        self.closing.lock().map(|mut closing| std::mem::take(&mut *closing)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptors_that_were_used_are_kept_and_each_once() {
        let descriptors = Descriptors::default();
        for fd in [3, 64, 4095] {
            descriptors.note(fd);
        }
        for fd in [-1, 0, 3, 3, 5, 64, 5000, 5000] {
            descriptors.close(fd);
        }
        assert_eq!(descriptors.take_closing(), [3, 64, 5000]);
        assert_eq!(descriptors.take_closing(), []);
        [3, 7, 9, 4095].into_iter().for_each(|fd| descriptors.note(fd));
        descriptors.close_range(7, RawFd::MAX);
        assert_eq!(descriptors.take_closing(), [7, 9, 4095]);
        descriptors.close_range(-5, 4);
        assert_eq!(descriptors.take_closing(), [3]);
    }

    #[test]
    fn a_server_that_closes_sockets_by_the_thousand_is_not_slowed_down() {
        let descriptors = Descriptors::default();
        (TRACKED as RawFd..100_000).for_each(|fd| descriptors.close(fd));
        assert_eq!(descriptors.take_closing().len(), CLOSING_LIMIT);
    }
}
