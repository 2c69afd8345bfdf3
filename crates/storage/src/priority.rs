//! How much a thread that works in the background stands back: its requests at the disk (`ioprio_set`, block/ioprio.c), and its
//! use of a processor (`sched_setscheduler`, sched(7)).
//!
//! Limits of the first: only schedulers that look at it heed it (BFQ, mq-deadline; not `none`), and it says nothing to
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

/// Lets the calling thread, and those that it starts, wait for the next tick of the scheduler when what wakes it is a program on the same
/// processor, instead of interrupting that program (`SCHED_BATCH`). Its share of the processor stays the same.
///
/// # Errors
/// What the kernel said: EPERM where the thread is of the idle class.
pub fn batch_scheduling() -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call, which only reads it.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_back_as_it_was_told() {
        std::thread::spawn(|| {
            lowest_io_priority().unwrap();
            // SAFETY: no memory is passed.
            let told = unsafe { libc::syscall(libc::SYS_ioprio_get, THIS_THREAD, 0) };
            assert_eq!(told, libc::c_long::from(BEST_EFFORT << CLASS_SHIFT | LOWEST));
            batch_scheduling().unwrap();
            // SAFETY: no memory is passed.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
        })
        .join()
        .unwrap();
    }
}
