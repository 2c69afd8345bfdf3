//! Lower priorities for background threads: for their disk requests (`ioprio_set`, block/ioprio.c) and for
//! processor time (`sched_setscheduler`, sched(7)).
//!
//! Limits of the first: only BFQ uses the level. It gives a process of level 7 a quarter of the share of one of
//! level 4, the default (`bfq_ioprio_to_weight`: weights 10 and 40). mq-deadline maps the class alone
//! (`ioprio_class_to_prio`), so that all levels of the best-effort class, and processes without a class, are one
//! to it. `none` has no priorities, and the drive does not see them.
//!
//! The idle class is not used, although mq-deadline heeds it: its requests wait as long as others have any, on
//! a busy disk without end (mq-deadline lets one pass after ten seconds). A program that needs a page in flight
//! would wait with them.
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::io::Errno;

/// `IOPRIO_WHO_PROCESS`; with 0 it means the calling thread.
const THIS_THREAD: libc::c_int = 1;
/// The bit where the class begins in a priority.
const CLASS_SHIFT: u32 = 13;
const BEST_EFFORT: libc::c_int = 2;
/// The lowest level of the class.
const LOWEST: libc::c_int = 7;

/// Gives the calling thread, and threads that it starts, the lowest priority of the best-effort class.
///
/// # Errors
/// The kernel's error: ENOSYS without block devices.
pub fn lowest_io_priority() -> Result<(), Errno> {
    let priority = BEST_EFFORT << CLASS_SHIFT | LOWEST;
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, THIS_THREAD, 0, priority) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Sets `SCHED_BATCH` for the calling thread and threads that it starts. When a program on the same processor
/// wakes such a thread, the thread waits for the scheduler's next tick and does not preempt the program. Its
/// share of the processor stays the same.
///
/// # Errors
/// The kernel's error: EPERM where the thread is of the idle class.
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
    fn a_thread_gets_the_priorities_that_were_set() {
        std::thread::spawn(|| {
            lowest_io_priority().unwrap();
            // SAFETY: no memory is passed.
            let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, THIS_THREAD, 0) };
            assert_eq!(priority, libc::c_long::from(BEST_EFFORT << CLASS_SHIFT | LOWEST));
            batch_scheduling().unwrap();
            // SAFETY: no memory is passed.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
        })
        .join()
        .unwrap();
    }
}
