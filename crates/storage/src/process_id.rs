//! The number of this process, without a system call for each question.
//!
//! It is kept in a page that a forked child finds empty (`MADV_WIPEONFORK`, Linux 4.14), so that the child asks the kernel anew. A child of `vfork`,
//! which has its parent's memory until it runs another program, is given its parent's number.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The page; null until it is made. No lock: a fork may leave one locked for ever.
static KEPT: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// What stands for a page where there can be none: the number is asked for each time.
static NONE: AtomicU32 = AtomicU32::new(0);
/// Of which only the first four bytes are used.
const LENGTH: usize = 4096;

/// The number of this process.
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

/// The same, asked of the kernel: also where a child of `vfork` has been the first to ask in this process.
pub fn renew_process_id() -> u32 {
    let id = std::process::id();
    if let Some(kept) = kept() {
        kept.store(id, Ordering::Relaxed);
    }
    id
}

/// Where it is kept, if there can be such a page.
fn kept() -> Option<&'static AtomicU32> {
    let page = match KEPT.load(Ordering::Acquire) {
        page if page.is_null() => make(),
        page => page,
    };
    // SAFETY: what `make` has put there is never unmapped, and a wiped page is zero.
    (!std::ptr::eq(page, &raw const NONE)).then(|| unsafe { &*page })
}

/// Makes the page, or finds that another thread has.
fn make() -> *mut AtomicU32 {
    let made = wiped_on_fork().unwrap_or((&raw const NONE).cast_mut());
    match KEPT.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(others) => {
            if !std::ptr::eq(made, &raw const NONE) {
                // SAFETY: it is the page that was just made, and nobody else knows it.
                unsafe { libc::munmap(made.cast(), LENGTH) };
            }
            others
        }
    }
}

fn wiped_on_fork() -> Option<*mut AtomicU32> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the kernel's choice.
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
    fn a_forked_child_is_given_its_own() {
        assert_eq!(process_id(), std::process::id());
        assert_eq!(process_id(), std::process::id());
        // SAFETY: the child makes system calls alone, and ends without what the parent has arranged.
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
