//! Which pages of a file are in the page cache.
//!
//! `cachestat` (Linux 6.5) counts the cached pages of a range exactly. It works for the file's owner, for
//! users who may write it and for root, and refuses others (EPERM). Runs are found by halving: a range that
//! is wholly cached or wholly uncached needs one call, and the count of one half gives that of the other. A
//! page whose read is in flight counts as cached, as a prefetcher needs it (`mincore` counts it once its data
//! have arrived).
//!
//! Where the kernel has no `cachestat` (ENOSYS), `mincore` on a mapping gives the same for a file of this
//! process's user. For another user's file it reports all pages as resident, so it is not used there.
//! `preadv2(RWF_NOWAIT)` would work for all files, but a miss starts a read, and a probe must not cause what
//! it probes for. What remains is the engine's own record of its fetches.
#![allow(unsafe_code)]

use crate::advice::last_error;
use crate::fd::HostFd;
use foreseek_units::{PageIndex, PageSpan, Pages, Span};
use rustix::io::Errno;
use std::os::fd::RawFd;

/// Number of the system call `cachestat`, on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// How much of a file is mapped for a call of `mincore`: 64 MiB of address space and 16 KiB for the answer,
/// which a 32-bit host can afford too.
const WINDOW: Pages = Pages(16 * 1024);

#[repr(C)]
struct CachestatRange {
    offset_bytes: u64,
    length_bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct CachestatCounts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How the residency of a file can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// By `cachestat`.
    Cachestat,
    /// By `mincore`: the kernel is older than 6.5 and this process's user owns the file.
    Mincore,
    /// Not at all: the file belongs to another user.
    Forbidden,
    /// Not at all: the kernel is older than 6.5 and the file belongs to another user, or the file system has
    /// no page cache.
    Unsupported,
}

impl Residency {
    /// How the residency of this file can be found; it checks the first page to find out.
    #[must_use]
    pub fn of(fd: HostFd) -> Self {
        let first = Span::new(PageIndex(0), PageIndex(1));
        match cachestat(fd, first) {
            Ok(_) => Self::Cachestat,
            Err(Errno::PERM | Errno::ACCESS) => Self::Forbidden,
            // A seccomp filter without this call may return ENOSYS or EPERM.
            Err(Errno::NOSYS) if fd.is_own() => Self::Mincore,
            Err(_) => Self::Unsupported,
        }
    }

    /// Appends the resident runs of a range, ascending and merged. Returns false, with `runs` unchanged,
    /// where they cannot be found.
    pub fn runs(self, fd: HostFd, range: PageSpan, runs: &mut Vec<PageSpan>) -> bool {
        let before = runs.len();
        let known = match self {
            Self::Cachestat => halve(range, &mut |part| cachestat(fd, part), before, runs),
            Self::Mincore => mincore(fd.raw(), range, before, runs),
            Self::Forbidden | Self::Unsupported => return false,
        };
        if known.is_err() {
            runs.truncate(before);
        }
        known.is_ok()
    }
}

/// How many pages of a range are cached.
///
/// # Errors
/// EPERM for another user's file, ENOSYS before Linux 6.5, EOPNOTSUPP for hugetlbfs.
pub fn cachestat(fd: HostFd, range: PageSpan) -> Result<Pages, Errno> {
    let bytes = range.bytes();
    if bytes.is_empty() {
        // A length of zero means "up to the end of the file".
        return Ok(Pages::ZERO);
    }
    let counted = CachestatRange { offset_bytes: bytes.start.get(), length_bytes: bytes.len().get() };
    let mut counts = CachestatCounts::default();
    // SAFETY: both structures are laid out as the kernel's `struct cachestat_range` and `struct
    // cachestat`, and live until the call returns. The kernel checks the descriptor.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, fd.raw(), &raw const counted, &raw mut counts, 0 as libc::c_uint)
    };
    if result == 0 { Ok(Pages(counts.cached)) } else { Err(last_error()) }
}

/// Appends a run, merged with the last one if that belongs to this answer (index `from` on).
fn append(runs: &mut Vec<PageSpan>, from: usize, run: PageSpan) {
    match runs[from..].last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Finds the runs of a range by counts of its halves.
fn halve(
    range: PageSpan,
    count: &mut impl FnMut(PageSpan) -> Result<Pages, Errno>,
    from: usize,
    runs: &mut Vec<PageSpan>,
) -> Result<(), Errno> {
    let total = count(range)?;
    halve_known(range, total, count, from, runs)
}

fn halve_known(
    range: PageSpan,
    cached: Pages,
    count: &mut impl FnMut(PageSpan) -> Result<Pages, Errno>,
    from: usize,
    runs: &mut Vec<PageSpan>,
) -> Result<(), Errno> {
    if cached.is_zero() || range.is_empty() {
        return Ok(());
    }
    if cached >= range.len() {
        append(runs, from, range);
        return Ok(());
    }
    // One page is wholly cached or not, so from here on the range has at least two, and both halves are
    // shorter. The cache may change between two counts; the answer is then as old as the first of them.
    let (left, right) = range.split(range.start + range.len() / 2);
    let in_left = count(left)?;
    halve_known(left, in_left, count, from, runs)?;
    halve_known(right, cached.saturating_sub(in_left), count, from, runs)
}

/// Finds the runs of a range by `mincore` on a mapping, for a file of this process's user.
fn mincore(fd: RawFd, range: PageSpan, from: usize, runs: &mut Vec<PageSpan>) -> Result<(), Errno> {
    let mut rest = range;
    while !rest.is_empty() {
        let (window, after) = rest.split(rest.start + WINDOW);
        mincore_window(fd, window, from, runs)?;
        rest = after;
    }
    Ok(())
}

fn mincore_window(fd: RawFd, range: PageSpan, from: usize, runs: &mut Vec<PageSpan>) -> Result<(), Errno> {
    let length = usize::try_from(range.len().bytes().get()).map_err(|_| Errno::OVERFLOW)?;
    let offset = i64::try_from(range.bytes().start.get()).map_err(|_| Errno::OVERFLOW)?;
    let mut answer = vec![0u8; range.iter().len()];
    // SAFETY: a new mapping that nothing refers to. It is never read, so it cannot fault if the file is
    // shorter. The kernel checks the descriptor. Unmapping closes no descriptor and so drops no lock.
    let result = unsafe {
        let map = libc::mmap64(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, offset);
        if map == libc::MAP_FAILED {
            return Err(last_error());
        }
        let result =
            if libc::mincore(map, length, answer.as_mut_ptr()) == 0 { Ok(()) } else { Err(last_error()) };
        libc::munmap(map, length);
        result
    };
    result?;
    for (page, state) in range.iter().zip(answer) {
        if state & 1 != 0 {
            append(runs, from, Span::new(page, page.next()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn runs_of(pages: &BTreeSet<u64>, range: PageSpan) -> Vec<PageSpan> {
        let mut runs = Vec::new();
        for page in range.iter().filter(|page| pages.contains(&page.get())) {
            append(&mut runs, 0, Span::new(page, page.next()));
        }
        runs
    }

    proptest! {
        #[test]
        fn halving_finds_exactly_the_cached_runs(
            pages in prop::collection::btree_set(0..100u64, 0..60), start in 0..90u64, length in 0..40u64,
        ) {
            let range = PageSpan::at(PageIndex(start), Pages(length));
            let mut calls = 0u64;
            let mut count = |part: PageSpan| {
                calls += 1;
                assert!(!part.is_empty() || length == 0);
                Ok(Pages(part.iter().filter(|page| pages.contains(&page.get())).count() as u64))
            };
            let mut runs = Vec::new();
            halve(range, &mut count, 0, &mut runs).unwrap();
            prop_assert_eq!(&runs, &runs_of(&pages, range));
            prop_assert!(calls <= length.max(1), "{} calls for {} pages", calls, length);
        }

        /// The cache may change between counts: no answer leaves the range or overlaps itself, and the
        /// counting ends.
        #[test]
        fn halving_survives_a_cache_that_changes(seed in any::<u64>(), length in 1..200u64) {
            let range = PageSpan::at(PageIndex(7), Pages(length));
            let mut state = seed | 1;
            let mut runs = Vec::new();
            halve(range, &mut |_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                Ok(Pages((state >> 33) % 50))
            }, 0, &mut runs).unwrap();
            prop_assert!(runs.iter().all(|run| range.covers(*run) && !run.is_empty()));
            prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start));
        }
    }
}
