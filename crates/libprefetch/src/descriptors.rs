//! The descriptor numbers that a client has seen, and those of them that the host is about to close. Look-ups
//! take no lock, so that closing any other descriptor costs almost nothing. Updates do not wait for a round of
//! prefetching in progress.
//!
//! To find out which file a descriptor belongs to takes a system call, which costs as much as the rest of a read
//! that finds its page in memory. The result of such a check is therefore valid for the next [`PASSES`] reads of
//! the descriptor, until it is closed or there is a new region:
//!
//! - *It belongs to no watched file*: those reads pass.
//! - *It belongs to a watched file, and its reads use the page cache*: those reads are counted as reads of that
//!   file, as long as they find all of their pages in memory. One that does not is checked before anything
//!   follows from it.
//!
//! If the C library closes a descriptor internally (`fclose`), its number may belong to another file earlier. Up
//! to this many reads of a watched file then pass unseen, or as many of another file count as reads of the
//! watched one. If the host sets `O_DIRECT` meanwhile (`F_SETFL`), up to this many reads are treated as cached
//! ones.

use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Descriptors below this number have a bit of their own; higher ones always count as seen. It is four times
/// the usual limit of a process (1024) and takes 512 bytes, and 16 KiB for the results of checks.
const TRACKED: usize = 4096;

/// Reads of a descriptor before it is checked again.
const PASSES: u8 = 64;

/// Closed numbers that are kept until the client takes them. Further ones are noticed at their next check. Each
/// close searches this list, and a server may close sockets by the ten thousand.
const CLOSING_LIMIT: usize = 64;

#[derive(Debug)]
pub(crate) struct Descriptors {
    seen: [AtomicU64; TRACKED / 64],
    passes: Passes,
    any_closing: AtomicBool,
    closing: Mutex<Vec<RawFd>>,
}

/// What a check of a descriptor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It belongs to no watched file.
    Unwatched,
    /// It belongs to the watched file of this number, and its reads use the page cache.
    Watched(FileNo),
}

/// The number of a watched file; not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileNo(pub(crate) u32);

impl FileNo {
    /// Numbers from here on have no room beside the count: such a file is checked at each read.
    const LIMIT: u32 = (1 << (u32::BITS - u8::BITS)) - 1;
}

/// For each descriptor, what was found, and for how many reads that is valid: the number of the file plus one in
/// the high bits, or zero without one; the count in the low byte.
#[derive(Debug)]
struct Passes([AtomicU32; TRACKED]);

impl Default for Passes {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; TRACKED])
    }
}

impl Passes {
    fn of(&self, fd: RawFd) -> Option<&AtomicU32> {
        self.0.get(usize::try_from(fd).ok()?)
    }

    /// Takes one of them, if there is one.
    fn take(&self, fd: RawFd) -> Option<Found> {
        let left = self.of(fd)?;
        let some = left.load(Ordering::Relaxed);
        if some & u32::from(u8::MAX) == 0 {
            return None;
        }
        // Another thread may have taken this one or ended them: then there is none.
        left.compare_exchange(some, some - 1, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(match some >> u8::BITS {
            0 => Found::Unwatched,
            number => Found::Watched(FileNo(number - 1)),
        })
    }

    fn allow(&self, fd: RawFd, found: Found) {
        let number = match found {
            Found::Unwatched => 0,
            Found::Watched(FileNo(number)) if number < FileNo::LIMIT => number + 1,
            Found::Watched(_) => return,
        };
        if let Some(left) = self.of(fd) {
            left.store(number << u8::BITS | u32::from(PASSES), Ordering::Relaxed);
        }
    }

    fn end(&self, fd: RawFd) {
        if let Some(left) = self.of(fd) {
            left.store(0, Ordering::Relaxed);
        }
    }
}

impl Default for Descriptors {
    fn default() -> Self {
        Self {
            seen: [const { AtomicU64::new(0) }; TRACKED / 64],
            passes: Passes::default(),
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

    /// What the last check found, if that is valid for another read. Uses up one of its passes.
    pub(crate) fn pass(&self, fd: RawFd) -> Option<Found> {
        self.passes.take(fd)
    }

    /// Records what a check found.
    pub(crate) fn set_found(&self, fd: RawFd, found: Found) {
        self.passes.allow(fd, found);
    }

    /// It must be checked again.
    pub(crate) fn end_passes(&self, fd: RawFd) {
        self.passes.end(fd);
    }

    /// There is a new region: every descriptor must be checked again.
    pub(crate) fn check_all(&self) {
        self.passes.0.iter().for_each(|left| left.store(0, Ordering::Relaxed));
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
        self.passes.end(fd);
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
        // Looked at first: to exchange it costs each read as much as a lock.
        if !self.any_closing.load(Ordering::Relaxed) || !self.any_closing.swap(false, Ordering::Acquire) {
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
    fn what_a_check_found_holds_for_some_reads_until_a_close_or_a_new_region() {
        let descriptors = Descriptors::default();
        let passed = |fd, found| (0..1000).take_while(|_| descriptors.pass(fd) == Some(found)).count();
        let ends: [fn(&Descriptors); 3] = [|_| {}, |known| known.close(5), Descriptors::check_all];
        for found in [Found::Unwatched, Found::Watched(FileNo(0)), Found::Watched(FileNo(FileNo::LIMIT - 1))]
        {
            assert_eq!(passed(5, found), 0);
            for end in ends {
                descriptors.set_found(5, found);
                descriptors.set_found(6, Found::Unwatched);
                assert_eq!(descriptors.pass(5), Some(found));
                end(&descriptors);
                let left = passed(5, found);
                assert!(left == 0 || left == usize::from(PASSES) - 1, "{left}");
            }
            assert_eq!(descriptors.pass(5), None);
        }
        // A number without an entry of its own is checked each time, and so is a file without room for its own.
        let none = TRACKED as RawFd;
        descriptors.set_found(none, Found::Unwatched);
        descriptors.set_found(7, Found::Watched(FileNo(FileNo::LIMIT)));
        assert_eq!([none, -1, 7].map(|fd| descriptors.pass(fd)), [None; 3]);
    }

    #[test]
    fn a_later_check_replaces_an_earlier_one() {
        let descriptors = Descriptors::default();
        descriptors.set_found(5, Found::Unwatched);
        descriptors.pass(5);
        descriptors.set_found(5, Found::Watched(FileNo(3)));
        for _ in 0..PASSES {
            assert_eq!(descriptors.pass(5), Some(Found::Watched(FileNo(3))));
        }
        assert_eq!(descriptors.pass(5), None);
    }

    #[test]
    fn a_server_that_closes_sockets_by_the_thousand_is_not_slowed_down() {
        let descriptors = Descriptors::default();
        (TRACKED as RawFd..100_000).for_each(|fd| descriptors.close(fd));
        assert_eq!(descriptors.take_closing().len(), CLOSING_LIMIT);
    }
}
