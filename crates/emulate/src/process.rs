//! What a server of a block device does to its own process, so that it can always go on serving
//! while the kernel is short of memory or the machine is busy.
//!
//! What cannot be had is told in one line each; the disk works without.
#![allow(unsafe_code)]

use std::fs;
use std::io;

/// Real-time priority of the timer: the lowest suffices against everything that has none.
const PRIORITY: i32 = 1;

/// Of `linux/prctl.h` (Linux 5.6), which libc does not name.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Tells the kernel that this process writes out what others need freed: its own allocations then
/// never wait for such writing.
pub(crate) fn io_flusher() -> Option<String> {
    // SAFETY: this prctl takes numbers only.
    let done = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    remark(done, "PR_SET_IO_FLUSHER is refused", "it needs CAP_SYS_RESOURCE")
}

/// Keeps all memory of this process resident, what is there now and what comes.
pub(crate) fn lock_memory() -> Option<String> {
    // Pages are locked when they are first touched: the receive buffers are far larger than what
    // is ever used of them.
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: mlockall takes flags only.
    let done = unsafe { libc::mlockall(flags) };
    remark(done, "memory cannot be locked", "it needs CAP_IPC_LOCK or a higher 'ulimit -l'")
}

/// Gives the calling thread real-time priority and precise sleep.
pub(crate) fn real_time() -> Option<String> {
    // SAFETY: this prctl takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: process 0 is the calling thread; the parameters live across the call.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    remark(done, "the timer has no real-time priority", "it needs CAP_SYS_NICE; delays are less exact")
}

/// Lets the calling thread and those that it starts run before ordinary work: a disk's hardware
/// would not wait for a processor either. Not in real time: without delays it could use up a core.
pub(crate) fn favour() -> Option<String> {
    let done = rustix::process::setpriority_process(None, -20);
    done.err().map(|error| format!("the server has no higher priority ({error}): it needs CAP_SYS_NICE"))
}

/// Asks not to be the one that is killed when memory runs out.
pub(crate) fn spare_from_oom() -> Option<String> {
    let spared = fs::write("/proc/self/oom_score_adj", "-1000");
    spared.err().map(|error| format!("the server may be killed when memory runs out: {error}"))
}

fn remark(done: i32, what: &str, remedy: &str) -> Option<String> {
    (done != 0).then(|| format!("{what} ({}): {remedy}", io::Error::last_os_error()))
}
