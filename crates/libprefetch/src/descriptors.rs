//! The descriptor numbers that a client has seen, and those of them that the host is about to close. Look-ups
//! take no lock, so that closing any other descriptor costs almost nothing. Updates do not wait for a round of
//! prefetching in progress.
//!
//! The result of a check of a descriptor is valid for its next [`PASSES`] reads:
//!
//! - *It belongs to no watched file*: those reads pass. To identify the file costs several times as much as the
//!   rest of an unrelated read. A new region ends that. If the C library closes the descriptor internally
//!   (`fclose`), the number may belong to a watched file earlier: up to this many reads of that file pass
//!   unseen.
//! - *Its reads use the page cache*: `O_DIRECT` is not checked again. If the host sets `O_DIRECT` meanwhile
//!   (`F_SETFL`), up to this many reads are treated as cached ones.
//!
//! Closing the descriptor ends both.

use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Descriptors below this number have a bit of their own; higher ones always count as seen. It is four times
/// the usual limit of a process (1024) and takes 512 bytes, and 8 KiB for the results of checks.
const TRACKED: usize = 4096;

/// Reads of a descriptor before it is checked again.
const PASSES: u8 = 64;

/// Closed numbers that are kept until the client takes them. Further ones are noticed at their next check. Each
/// close searches this list, and a server may close sockets by the ten thousand.
const CLOSING_LIMIT: usize = 64;

#[derive(Debug)]
pub(crate) struct Descriptors {
    seen: [AtomicU64; TRACKED / 64],
    /// It belongs to no watched file.
    unwatched: Passes,
    /// Its reads use the page cache.
    buffered: Passes,
    any_closing: AtomicBool,
    closing: Mutex<Vec<RawFd>>,
}

/// For how many reads of each descriptor the result of its check is valid.
#[derive(Debug)]
struct Passes([AtomicU8; TRACKED]);

impl Default for Passes {
    fn default() -> Self {
        Self([const { AtomicU8::new(0) }; TRACKED])
    }
}

impl Passes {
    fn of(&self, fd: RawFd) -> Option<&AtomicU8> {
        self.0.get(usize::try_from(fd).ok()?)
    }

    /// Takes one of them, and returns whether there was one.
    fn take(&self, fd: RawFd) -> bool {
        let Some(left) = self.of(fd) else { return false };
        match left.load(Ordering::Relaxed) {
            0 => false,
            // Another thread may have taken this one or ended them: then there is none.
            some => left.compare_exchange(some, some - 1, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
        }
    }

    fn allow(&self, fd: RawFd, reads: u8) {
        if let Some(left) = self.of(fd) {
            left.store(reads, Ordering::Relaxed);
        }
    }
}

impl Default for Descriptors {
    fn default() -> Self {
        Self {
            seen: [const { AtomicU64::new(0) }; TRACKED / 64],
            unwatched: Passes::default(),
            buffered: Passes::default(),
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

    /// Whether a read of it passes without a check. Uses up one of its passes.
    pub(crate) fn pass(&self, fd: RawFd) -> bool {
        self.unwatched.take(fd)
    }

    /// Records that it belongs to no watched file.
    pub(crate) fn set_unwatched(&self, fd: RawFd) {
        self.unwatched.allow(fd, PASSES);
    }

    /// There is a new region: every descriptor must be checked again.
    pub(crate) fn check_all(&self) {
        self.unwatched.0.iter().for_each(|left| left.store(0, Ordering::Relaxed));
    }

    /// Whether its reads bypass the page cache; `look` checks this if it is not known.
    pub(crate) fn is_direct(&self, fd: RawFd, look: impl FnOnce() -> bool) -> bool {
        if self.buffered.take(fd) {
            return false;
        }
        let is_direct = look();
        if !is_direct {
            self.buffered.allow(fd, PASSES);
        }
        is_direct
    }

    /// Records that the client uses this descriptor.
    pub(crate) fn record_use(&self, fd: RawFd) {
        if let Some((word, bit)) = self.word_and_bit(fd)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The host is about to close it; kept for [`Descriptors::take_closing`] if it was ever used.
    pub(crate) fn close(&self, fd: RawFd) {
        self.unwatched.allow(fd, 0);
        self.buffered.allow(fd, 0);
        let was_seen = match self.word_and_bit(fd) {
            Some((word, bit)) => {
                word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
            }
            None => fd >= 0,
        };
        // A lost record is harmless: each use of a descriptor checks its file.
        if was_seen && let Ok(mut closing) = self.closing.lock() {
            if closing.len() >= CLOSING_LIMIT || closing.contains(&fd) {
                return;
            }
            closing.push(fd);
            self.any_closing.store(true, Ordering::Release);
        }
    }

    /// The same for those from `first` to `last`. Numbers without a bit of their own are noticed at their next
    /// check.
    pub(crate) fn close_range(&self, first: RawFd, last: RawFd) {
        let last = last.min(TRACKED as RawFd - 1);
        (first.max(0)..=last).for_each(|fd| self.close(fd));
    }

    /// Takes the descriptors that were closed since the last call.
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
            descriptors.record_use(fd);
        }
        for fd in [-1, 0, 3, 3, 5, 64, 5000, 5000] {
            descriptors.close(fd);
        }
        assert_eq!(descriptors.take_closing(), [3, 64, 5000]);
        assert_eq!(descriptors.take_closing(), []);
        [3, 7, 9, 4095].into_iter().for_each(|fd| descriptors.record_use(fd));
        descriptors.close_range(7, RawFd::MAX);
        assert_eq!(descriptors.take_closing(), [7, 9, 4095]);
        descriptors.close_range(-5, 4);
        assert_eq!(descriptors.take_closing(), [3]);
    }

    #[test]
    fn reads_of_an_unwatched_file_pass_until_it_is_closed_or_a_region_is_new() {
        let descriptors = Descriptors::default();
        let passed = |fd| (0..1000).take_while(|_| descriptors.pass(fd)).count();
        assert_eq!(passed(5), 0);
        let ends: [fn(&Descriptors); 3] = [|_| {}, |known| known.close(5), Descriptors::check_all];
        for end in ends {
            descriptors.set_unwatched(5);
            descriptors.set_unwatched(6);
            assert!(descriptors.pass(5));
            end(&descriptors);
            let left = passed(5);
            assert!(left == 0 || left == usize::from(PASSES) - 1, "{left}");
        }
        assert_eq!(passed(5), 0);
        // A number without an entry of its own is checked each time.
        descriptors.set_unwatched(TRACKED as RawFd);
        assert_eq!((passed(TRACKED as RawFd), passed(-1)), (0, 0));
    }

    #[test]
    fn o_direct_is_checked_once_in_a_while_and_after_a_close() {
        let descriptors = Descriptors::default();
        let mut looks = 0;
        let mut read = |fd, is_direct| {
            let mut looked = false;
            let answer = descriptors.is_direct(fd, || {
                looked = true;
                is_direct
            });
            looks += i32::from(looked);
            (answer, looks)
        };
        assert_eq!(read(5, false), (false, 1));
        (0..PASSES).for_each(|_| assert_eq!(read(5, true), (false, 1)));
        assert_eq!(read(5, true), (true, 2));
        assert_eq!(read(5, false), (false, 3), "one that is direct is checked each time");
        descriptors.close(5);
        assert_eq!(read(5, true), (true, 4));
        assert_eq!(read(TRACKED as RawFd, false), (false, 5));
        assert_eq!(read(TRACKED as RawFd, false), (false, 6), "it has no entry of its own");
    }

    #[test]
    fn a_server_that_closes_sockets_by_the_thousand_is_not_slowed_down() {
        let descriptors = Descriptors::default();
        (TRACKED as RawFd..100_000).for_each(|fd| descriptors.close(fd));
        assert_eq!(descriptors.take_closing().len(), CLOSING_LIMIT);
    }
}
