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
use std::marker::PhantomData;

/// `IOPRIO_WHO_PROCESS`; with 0 it means the calling thread.
const THIS_THREAD: libc::c_int = 1;
/// The bit where the class begins in a priority.
const CLASS_SHIFT: u32 = 13;
const BEST_EFFORT: libc::c_int = 2;
/// The lowest level of the class.
const LOWEST: libc::c_int = 7;
/// The priorities of a process that has chosen none: no class, and what some kernels state instead.
const NOT_CHOSEN: [libc::c_int; 2] = [0, BEST_EFFORT << CLASS_SHIFT | 4];

/// While it lives, the thread that made it, and threads that it starts meanwhile, read with the lowest priority
/// of the best-effort class. A priority that was chosen (`ionice`, `IOSchedulingClass=` of systemd) stays as it
/// is. Without block devices the kernel has no priorities, and nothing changes.
///
/// A program that is started meanwhile would have that priority, too: start it outside.
#[derive(Debug)]
pub struct LowIoPriority {
    before: Option<libc::c_int>,
    /// The priority is that of a thread.
    _thread: PhantomData<*const ()>,
}

impl LowIoPriority {
    /// Lowers the priority of the calling thread.
    #[must_use = "the priority is low while this lives"]
    pub fn begin() -> Self {
        // SAFETY: no memory is passed.
        let before = unsafe { libc::syscall(libc::SYS_ioprio_get, THIS_THREAD, 0) };
        let before = libc::c_int::try_from(before).ok().filter(|before| NOT_CHOSEN.contains(before));
        let before = before.filter(|_| set_priority(BEST_EFFORT << CLASS_SHIFT | LOWEST));
        Self { before, _thread: PhantomData }
    }
}

impl Drop for LowIoPriority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set_priority(before);
        }
    }
}

/// Whether the calling thread got this priority.
fn set_priority(priority: libc::c_int) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_ioprio_set, THIS_THREAD, 0, priority) == 0 }
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
        let lowest = libc::c_long::from(BEST_EFFORT << CLASS_SHIFT | LOWEST);
        // SAFETY: no memory is passed.
        let priority = || unsafe { libc::syscall(libc::SYS_ioprio_get, THIS_THREAD, 0) };
        std::thread::spawn(move || {
            let before = priority();
            let low = LowIoPriority::begin();
            assert_eq!(priority(), lowest);
            assert_eq!(std::thread::spawn(priority).join().unwrap(), lowest, "threads have it, too");
            drop(low);
            assert_eq!(priority(), before);
            // One that was chosen stays.
            let chosen = BEST_EFFORT << CLASS_SHIFT | 2;
            assert!(set_priority(chosen));
            let low = LowIoPriority::begin();
            assert_eq!(priority(), libc::c_long::from(chosen));
            drop(low);
            assert_eq!(priority(), libc::c_long::from(chosen));
            batch_scheduling().unwrap();
            // SAFETY: no memory is passed.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
        })
        .join()
        .unwrap();
    }
}
