//! With what priority a thread's requests wait for a disk (`ioprio_set`, block/ioprio.c).
//!
//! Limits: only schedulers that look at it heed it (BFQ, mq-deadline; not `none`), and it says nothing to
//! the drive. A thread of the idle class waits as long as others have requests, on a busy disk for ever
//! (mq-deadline lets one pass every ten seconds).
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::io::Errno;

/// `IOPRIO_WHO_PROCESS`, which with 0 means the calling thread.
const THIS_THREAD: libc::c_int = 1;
/// Where the class begins in a priority.
const CLASS_SHIFT: u32 = 13;
const BEST_EFFORT: libc::c_int = 2;
/// The lowest of the class.
const LOWEST: libc::c_int = 7;

/// Gives the calling thread, and those that it starts, the lowest priority of the ordinary (best-effort) class.
///
/// # Errors
/// What the kernel said: ENOSYS without block devices.
pub fn lowest_io_priority() -> Result<(), Errno> {
    let priority = BEST_EFFORT << CLASS_SHIFT | LOWEST;
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, THIS_THREAD, 0, priority) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_priority_that_it_was_given() {
        std::thread::spawn(|| {
            lowest_io_priority().unwrap();
            // SAFETY: no memory is passed.
            let told = unsafe { libc::syscall(libc::SYS_ioprio_get, THIS_THREAD, 0) };
            assert_eq!(told, libc::c_long::from(BEST_EFFORT << CLASS_SHIFT | LOWEST));
        })
        .join()
        .unwrap();
    }
}
