//! Advice to the kernel about the page cache: WILLNEED and DONTNEED.
//!
//! *WILLNEED.* `posix_fadvise(WILLNEED)` and `readahead(2)` read at most the larger of the file's read-ahead
//! window and the device's longest request. They report success for the whole range even where they read less
//! (`force_page_cache_ra` in mm/readahead.c). A longer range is therefore split into calls that the kernel
//! carries out in full. The kernel uses the window of the time when the file was opened, which no call
//! returns, and the longest request of the present. A call is as long as the device's longest request where
//! that is known: the kernel carries it out in full, and the block layer would split a longer one there.
//! Without a request queue (NFS, FUSE, btrfs) it is as long as the device's window, or 128 KiB, the kernel's
//! default, where that is unknown too.
//!
//! *DONTNEED.* `POSIX_FADV_DONTNEED` starts write-back of the range's dirty pages and drains the per-CPU page
//! lists at each call. Ranges are therefore collected, merged and passed together (ATC'09 section 4.5 found
//! the same).
#![allow(unsafe_code)]

use crate::detect::BackingDevice;
use crate::fd::HostFd;
use foreseek_units::{ByteSpan, Bytes, PAGE_SIZE, PageSpan, Position, Span};
use rustix::fs::Advice;
use rustix::io::Errno;
use std::num::NonZeroU64;

/// The length of a call where nothing is known of the device: the kernel's default read-ahead window
/// (`VM_READAHEAD_PAGES`).
pub const DEFAULT_CALL: Bytes = Bytes::kib(128);

/// Which call brings pages in. The kernel does the same for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// `posix_fadvise(POSIX_FADV_WILLNEED)`.
    #[default]
    Fadvise,
    /// `readahead(2)`, for kernels built without advice (`CONFIG_ADVISE_SYSCALLS`).
    Readahead,
}

impl BackingDevice {
    /// The longest call that the kernel carries out in full: whole pages, at least one.
    #[must_use]
    pub fn call_length(&self) -> Bytes {
        let known = self.max_request.or(self.read_ahead).unwrap_or(DEFAULT_CALL);
        known.pages_floor().bytes().max(Bytes(PAGE_SIZE))
    }
}

/// Requests a range with calls of at most `call` bytes. Returns how much of the range, from its start, was
/// requested: less than the range where a call failed after others had succeeded.
///
/// # Errors
/// The error of the first call.
pub fn will_need(fd: HostFd, range: ByteSpan, call: Bytes, means: Means) -> Result<Bytes, Errno> {
    let mut requested = Bytes::ZERO;
    for piece in pieces(range, call) {
        match bring_in(fd, piece, means) {
            Ok(()) => requested += piece.len(),
            Err(error) if requested.is_zero() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(requested)
}

/// A range cut at multiples of `call` from its start.
fn pieces(range: ByteSpan, call: Bytes) -> impl Iterator<Item = ByteSpan> {
    let mut rest = range;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split(rest.start + call);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn bring_in(fd: HostFd, range: ByteSpan, means: Means) -> Result<(), Errno> {
    match means {
        Means::Fadvise => {
            let length = NonZeroU64::new(range.len().get());
            rustix::fs::fadvise(fd.borrow(), range.start.get(), length, Advice::WillNeed)
        }
        Means::Readahead => {
            let offset = i64::try_from(range.start.get()).map_err(|_| Errno::INVAL)?;
            let length = usize::try_from(range.len().get()).map_err(|_| Errno::INVAL)?;
            // SAFETY: no memory is passed, and the kernel checks the descriptor.
            let result = unsafe { libc::readahead(fd.raw(), offset, length) };
            if result == 0 { Ok(()) } else { Err(last_error()) }
        }
    }
}

/// The errno of the last failed C library call of this thread.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Ranges of one file to be dropped from the page cache together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DontNeed {
    ranges: Vec<PageSpan>,
}

impl DontNeed {
    /// Adds a range; one that continues the last is merged at once.
    pub fn push(&mut self, range: PageSpan) {
        match self.ranges.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ if range.is_empty() => {}
            _ => self.ranges.push(range),
        }
    }

    /// Whether there is nothing to drop.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a page of `range` is to be dropped.
    #[must_use]
    pub fn overlaps(&self, range: PageSpan) -> bool {
        self.ranges.iter().any(|held| held.overlaps(range))
    }

    /// Takes the ranges out, ascending, disjoint and merged.
    pub fn take(&mut self) -> Vec<PageSpan> {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged = Self::default();
        for range in ranges {
            merged.push(range);
        }
        merged.ranges
    }
}

/// Drops a range from the page cache. Pages that are dirty, mapped or locked stay.
///
/// # Errors
/// The kernel's error.
pub fn dont_need(fd: HostFd, range: PageSpan) -> Result<(), Errno> {
    let bytes = range.bytes();
    match NonZeroU64::new(bytes.len().get()) {
        // A length of zero means "up to the end of the file".
        None => Ok(()),
        length => rustix::fs::fadvise(fd.borrow(), bytes.start.get(), length, Advice::DontNeed),
    }
}

/// The part of a range of pages that lies within a file of this length.
pub(crate) fn clip(range: PageSpan, length: Bytes) -> PageSpan {
    let end = foreseek_units::PageIndex::ZERO.after(length.pages_ceil());
    Span::new(range.start, range.end.min(end).max(range.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{ByteOffset, PageIndex, Pages, Sectors};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_call_is_as_long_as_the_kernel_reads_in_full() {
        let backing = |max_request, read_ahead| BackingDevice {
            disk: crate::DeviceNumber::default(),
            start: Sectors::ZERO,
            length: None,
            rotational: None,
            max_request,
            read_ahead,
        };
        let kib = |n| Some(Bytes::kib(n));
        assert_eq!(backing(kib(1280), kib(128)).call_length(), Bytes::kib(1280));
        assert_eq!(backing(kib(512), kib(4096)).call_length(), Bytes::kib(512));
        assert_eq!(backing(None, kib(256)).call_length(), Bytes::kib(256));
        assert_eq!(backing(None, None).call_length(), DEFAULT_CALL);
        assert_eq!(backing(None, kib(0)).call_length(), Bytes(4096));
        assert_eq!(backing(kib(1279), None).call_length(), Bytes::kib(1276));
    }

    proptest! {
        #[test]
        fn pieces_make_the_range(start in 0..1000u64, length in 0..1000u64, call in 1..300u64) {
            let range = ByteSpan::at(ByteOffset(start), Bytes(length));
            let pieces: Vec<_> = pieces(range, Bytes(call)).collect();
            let mut at = range.start;
            for piece in &pieces {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.len() <= Bytes(call) && !piece.is_empty());
                at = piece.end;
            }
            prop_assert_eq!(at, range.end);
        }

        #[test]
        fn merged_ranges_hold_the_same_pages(ranges in prop::collection::vec((0..60u64, 0..9u64), 0..20)) {
            let mut batch = DontNeed::default();
            let mut pages = BTreeSet::new();
            for (start, length) in ranges {
                let range = PageSpan::at(PageIndex(start), Pages(length));
                batch.push(range);
                pages.extend(range.iter());
            }
            prop_assert_eq!(batch.is_empty(), pages.is_empty());
            let merged = batch.take();
            prop_assert!(merged.windows(2).all(|two| two[0].end < two[1].start));
            prop_assert_eq!(merged.iter().flat_map(|range| range.iter()).collect::<Vec<_>>(),
                pages.into_iter().collect::<Vec<_>>());
            prop_assert!(batch.is_empty());
        }
    }
}
