//! What a server of a block device does to its own process, so that it can always go on serving
//! while the kernel is short of memory or the machine is busy.
//!
//! What cannot be had is told in one line each; the disk works without.
#![allow(unsafe_code)]

use rustix::fd::{FromRawFd, OwnedFd};
use std::fs;
use std::io;
use std::os::fd::RawFd;

/// Real-time priority of the timer: the lowest suffices against everything that has none.
const PRIORITY: i32 = 1;

/// Of `linux/prctl.h` (Linux 5.6), which libc does not name.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Leaves whoever started it: a session of its own, no working directory, no descriptors but the
/// standard ones.
pub(crate) fn become_daemon() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // SAFETY: nothing in this process has opened a descriptor above the standard ones yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// Makes standard output and error go to `log`, standard input come from nowhere.
pub(crate) fn redirect(log: &fs::File) -> io::Result<()> {
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}

/// Blocks the signals that ask a process to end, in this thread and those that it starts, and
/// gives a descriptor that becomes readable when one came.
pub(crate) fn end_signals() -> io::Result<OwnedFd> {
    // SAFETY: a signal set is plain memory, which sigemptyset initialises before it is used.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives across these calls; pthread_sigmask may be given no old set.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: the set was initialised above.
    let fd: RawFd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

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
