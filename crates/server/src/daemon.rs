//! Becomes a server: a process of its own that ends in order when it is signalled.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use std::fs;
use std::io;
use std::os::fd::RawFd;

/// Detaches from the starter: a session of its own, no working directory, no descriptors but the standard
/// ones.
pub(crate) fn become_daemon() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // SAFETY: nothing in this process has opened a descriptor above the standard ones yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// Redirects standard output and error to `log`, and standard input to `/dev/null`.
pub(crate) fn redirect(log: &fs::File) -> io::Result<()> {
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}

/// Blocks the signals that request a process to end, in this thread and in threads that it starts. Returns a
/// descriptor that becomes readable when one has arrived.
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
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads all signals from a non-blocking descriptor.
pub(crate) fn drain(signals: impl AsFd) {
    let mut taken = [0u8; 1024];
    while rustix::io::read(&signals, &mut taken).is_ok_and(|read| read > 0) {}
}
