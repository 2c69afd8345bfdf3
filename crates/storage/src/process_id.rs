//! The id of this process, without a system call for each use.
//!
//! It is kept in a page that the kernel zeroes in a forked child (`MADV_WIPEONFORK`, Linux 4.14), so that the
//! child asks the kernel again. A child of `vfork` shares its parent's memory until it runs another program;
//! it gets its parent's id.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The page; null until it is made. No lock: a fork may leave one locked for ever.
static KEPT: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// Stands for a page that cannot be made: each use is a system call then.
static NONE: AtomicU32 = AtomicU32::new(0);
/// The length of the page; only the first four bytes are used.
const LENGTH: usize = 4096;

/// The id of this process.
#[must_use]
pub fn process_id() -> u32 {
    match kept() {
        None => std::process::id(),
        Some(kept) => match kept.load(Ordering::Relaxed) {
            0 => renew_process_id(),
            id => id,
        },
    }
}

/// The same, from the kernel: also correct where a child of `vfork` was the first to store an id.
pub fn renew_process_id() -> u32 {
    let id = std::process::id();
    if let Some(kept) = kept() {
        kept.store(id, Ordering::Relaxed);
    }
    id
}

/// The stored id, if there can be such a page.
fn kept() -> Option<&'static AtomicU32> {
    let page = match KEPT.load(Ordering::Acquire) {
        page if page.is_null() => make(),
        page => page,
    };
    // SAFETY: a page made by `make` is never unmapped, and a wiped page is zero.
    (!std::ptr::eq(page, &raw const NONE)).then(|| unsafe { &*page })
}

/// Makes the page, or uses the one that another thread has made.
fn make() -> *mut AtomicU32 {
    let made = wiped_on_fork().unwrap_or((&raw const NONE).cast_mut());
    match KEPT.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(others) => {
            if !std::ptr::eq(made, &raw const NONE) {
                // SAFETY: it is the page that was just made, and no other thread has it.
                unsafe { libc::munmap(made.cast(), LENGTH) };
            }
            others
        }
    }
}

fn wiped_on_fork() -> Option<*mut AtomicU32> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe { libc::mmap(null_mut(), LENGTH, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping that was just made.
    if unsafe { libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above.
        unsafe { libc::munmap(page, LENGTH) };
        return None;
    }
    Some(page.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_gets_its_own() {
        assert_eq!(process_id(), std::process::id());
        assert_eq!(process_id(), std::process::id());
        // SAFETY: the child only makes system calls, and ends without running the parent's exit handlers.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(process_id() != std::process::id()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(process_id(), std::process::id());
    }
}
