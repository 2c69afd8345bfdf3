//! Page-aligned memory of a fixed size, from the kernel and not from the allocator: what is given
//! back is the machine's again at once.
//!
//! Who may touch which part of it is for its users to say ([`Arena`](crate::Arena),
//! [`Frames`](crate::Frames)).
#![allow(unsafe_code)]

use foreseek_units::{Bytes, PAGE_SIZE};
use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use std::ptr::NonNull;

/// Bytes in a page, as lengths in memory are counted.
pub(crate) const PAGE: usize = PAGE_SIZE as usize;
/// `madvise` of locked pages too (Linux 5.18).
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// A range of zeroed memory. A page of it takes memory once it has been written to.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: the region is plain memory that it owns; its users decide who touches which part when.
unsafe impl Send for Region {}
// SAFETY: as above; the region itself never looks at the memory.
unsafe impl Sync for Region {}

impl Region {
    /// Address space for so much, at least a page. `None` where there is none left.
    pub(crate) fn reserve(size: Bytes) -> Option<Self> {
        let pages = usize::try_from(size.pages_ceil().get()).ok()?.max(1);
        let length = pages.checked_mul(PAGE)?;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that
        // there is.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, PROT_READ | PROT_WRITE, flags, -1, 0) };
        let start = NonNull::new(start.cast()).filter(|_| start != MAP_FAILED)?;
        Some(Self { start, pages })
    }

    /// The same with every page in place. `None` where there is no memory.
    pub(crate) fn touched(size: Bytes) -> Option<Self> {
        let region = Self::reserve(size)?;
        for page in 0..region.pages {
            // SAFETY: within the region, which nobody else knows yet. Volatile, lest the compiler
            // take a zero written over a zero for nothing: this is what makes the page exist.
            unsafe { region.page(page).write_volatile(0) };
        }
        Some(region)
    }

    /// How many pages there are.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Where a page of it starts.
    pub(crate) fn page(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(page * PAGE) }
    }

    /// From now on pages that are written to stay in memory: no swapping. Whether the kernel lets it.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the mapping is the region's own; locking changes no contents.
        unsafe { libc::mlock2(self.start.as_ptr().cast(), self.pages * PAGE, libc::MLOCK_ONFAULT) == 0 }
    }

    /// Gives the memory of these pages back; they are zero afterwards. Whether the kernel took it.
    ///
    /// # Safety
    /// Nobody else touches these pages meanwhile, the kernel included.
    pub(crate) unsafe fn give_back(&self, page: usize, pages: usize) -> bool {
        assert!(page + pages <= self.pages, "pages {page}+{pages} of {}", self.pages);
        // SAFETY: within the mapping; contents are the caller's to lose. Of locked pages Linux 5.18
        // and later take this advice.
        let advise = |advice| unsafe { libc::madvise(self.page(page).cast(), pages * PAGE, advice) == 0 };
        advise(MADV_DONTNEED_LOCKED) || advise(libc::MADV_DONTNEED)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `reserve` with this length; its users hold it while they use it. It
        // fails only for arguments that these are not.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.pages * PAGE) };
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;

    #[test]
    fn memory_given_back_is_zero_again() {
        let region = Region::touched(Bytes::kib(12)).expect("memory");
        assert_eq!(region.pages(), 3);
        // SAFETY: the region is this test's alone.
        unsafe {
            (0..3).for_each(|page| region.page(page).write(7));
            assert!(region.give_back(1, 1));
            let first_bytes: Vec<u8> = (0..3).map(|page| region.page(page).read()).collect();
            assert_eq!(first_bytes, [7, 0, 7]);
        }
    }

    #[test]
    fn locked_memory_can_be_given_back_too() {
        let region = Region::reserve(Bytes::kib(8)).expect("memory");
        if !region.lock() {
            println!("SKIPPED: this process may not lock memory");
            return;
        }
        // SAFETY: the region is this test's alone.
        unsafe {
            region.page(1).write(7);
            assert!(region.give_back(0, 2));
            assert_eq!(region.page(1).read(), 0);
        }
    }
}
