//! Page-aligned memory of a fixed size, from the kernel and not from the allocator: what is given back is
//! available to the machine at once.
//!
//! The users of a region ([`Arena`](crate::Arena), [`Frames`](crate::Frames)) decide which thread may access
//! which part.
#![allow(unsafe_code)]

use foreseek_units::{Bytes, PAGE_SIZE};
use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use std::ptr::NonNull;

/// Bytes in a page, as a length in memory.
pub(crate) const PAGE: usize = PAGE_SIZE as usize;
/// `madvise` for locked pages too (Linux 5.18).
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// A range of zeroed memory. A page takes memory once it has been written to.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: the region is plain memory that it owns; its users decide which thread accesses which part when.
unsafe impl Send for Region {}
// SAFETY: as above; the region itself never accesses the memory.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves address space of this size, at least a page. `None` where there is none left.
    pub(crate) fn reserve(size: Bytes) -> Option<Self> {
        let pages = usize::try_from(size.pages_ceil().get()).ok()?.max(1);
        let length = pages.checked_mul(PAGE)?;
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice changes no existing mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, PROT_READ | PROT_WRITE, flags, -1, 0) };
        let start = NonNull::new(start.cast()).filter(|_| start != MAP_FAILED)?;
        Some(Self { start, pages })
    }

    /// The same with memory for every page. `None` where there is no memory.
    pub(crate) fn touched(size: Bytes) -> Option<Self> {
        let region = Self::reserve(size)?;
        for page in 0..region.pages {
            // SAFETY: within the region, which no other thread has yet. Volatile, since the compiler might
            // drop the write of a zero over a zero; this write makes the page exist.
            unsafe { region.page(page).write_volatile(0) };
        }
        Some(region)
    }

    /// The number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// The address of a page.
    pub(crate) fn page(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(page * PAGE) }
    }

    /// Locks pages in memory as they are written, so that they are not swapped out. Returns whether the
    /// kernel allows it.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the mapping is the region's own; locking changes no contents.
        unsafe { libc::mlock2(self.start.as_ptr().cast(), self.pages * PAGE, libc::MLOCK_ONFAULT) == 0 }
    }

    /// Returns the memory of these pages; they are zero afterwards. Returns whether the kernel did it.
    ///
    /// # Safety
    /// No other thread accesses these pages meanwhile, nor does the kernel.
    pub(crate) unsafe fn give_back(&self, page: usize, pages: usize) -> bool {
        assert!(page + pages <= self.pages, "pages {page}+{pages} of {}", self.pages);
        // SAFETY: within the mapping; the caller gives up the content. Linux 5.18 and later accept this
        // advice for locked pages.
        let advise = |advice| unsafe { libc::madvise(self.page(page).cast(), pages * PAGE, advice) == 0 };
        advise(MADV_DONTNEED_LOCKED) || advise(libc::MADV_DONTNEED)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `reserve` with this length; users hold the region while they use it. It fails
        // only for invalid arguments, and these are valid.
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
