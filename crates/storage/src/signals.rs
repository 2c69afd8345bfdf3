//! Signals as a queue to read, with the origin of each (signalfd).
//!
//! A program that runs another one passes on signals that were sent to itself alone (`kill PID`). A signal of
//! the terminal (Ctrl-C) reaches the whole foreground group, including the other program, which must not get
//! it twice. The signal's code distinguishes the two.
//!
//! A signal that was ignored when the program started stays ignored: `nohup` and the `&` of a script ask for that.
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A signal from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Whether the kernel sent it (for a terminal) rather than a process.
    pub by_kernel: bool,
}

impl std::fmt::Debug for SignalQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalQueue").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// Signals that are blocked and queued.
pub struct SignalQueue {
    queue: OwnedFd,
    /// The signal mask before the block.
    before: libc::sigset_t,
}

impl SignalQueue {
    /// Blocks these signals in this thread and in threads that it starts later, and queues them; ignored ones are
    /// left alone. Call it before any thread is started. Programs inherit the block, except those started by
    /// [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// EINVAL for a number that is no signal, EMFILE.
    pub fn block(signals: &[i32]) -> Result<Self, Errno> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` makes the set a valid one before anything reads it; the other calls
        // get pointers to it that live until they return.
        let queue = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals.iter().filter(|signal| !is_ignored(**signal)) {
                if libc::sigaddset(set.as_mut_ptr(), *signal) != 0 {
                    return Err(Errno::INVAL);
                }
            }
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            if failed != 0 {
                return Err(Errno::from_raw_os_error(failed));
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if queue < 0 {
            return Err(last_error());
        }
        // SAFETY: the descriptor is new and has no other owner; the call that blocked the signals wrote the
        // previous mask.
        Ok(unsafe { Self { queue: OwnedFd::from_raw_fd(queue), before: before.assume_init() } })
    }

    /// Starts a program with the signal mask from before the block.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        let before = self.before;
        let unblock = move || {
            // SAFETY: the C library wrote the set, and the closure owns a copy of it.
            let failed =
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
            if failed == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(failed)) }
        };
        // SAFETY: between fork and exec only `pthread_sigmask` is called, which is async-signal-safe
        // (signal-safety(7)); nothing is allocated.
        unsafe { command.pre_exec(unblock) };
        command.spawn()
    }

    /// The next queued signal; does not wait.
    #[must_use]
    pub fn next(&self) -> Option<Signal> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.queue, &mut info[..]).ok()?;
        if read < info.len() {
            return None;
        }
        // SAFETY: there are as many bytes as the structure has, and any bytes are a valid one.
        let info: libc::signalfd_siginfo = unsafe { std::ptr::read_unaligned(info.as_ptr().cast()) };
        Some(Signal { number: info.ssi_signo.cast_signed(), by_kernel: info.ssi_code == libc::SI_KERNEL })
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call only writes the structure; without success it is not read.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_from_a_process_is_queued_and_known_as_such() {
        // In a thread of its own, whose mask ends with it.
        std::thread::spawn(|| {
            let queue = SignalQueue::block(&[libc::SIGURG]).unwrap();
            assert_eq!(queue.next(), None);
            let me = rustix::thread::gettid().as_raw_nonzero().get();
            // SAFETY: no memory is passed; the signal is blocked in this thread.
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), me, libc::SIGURG) };
            assert_eq!(queue.next(), Some(Signal { number: libc::SIGURG, by_kernel: false }));
        })
        .join()
        .unwrap();
        assert!(SignalQueue::block(&[999]).is_err());
    }

    #[test]
    fn an_ignored_signal_stays_ignored() {
        std::thread::spawn(|| {
            // SAFETY: no memory is passed. No other test uses this signal.
            unsafe { libc::signal(libc::SIGWINCH, libc::SIG_IGN) };
            let queue = SignalQueue::block(&[libc::SIGWINCH]).unwrap();
            let me = rustix::thread::gettid().as_raw_nonzero().get();
            // SAFETY: no memory is passed; the signal is ignored.
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), me, libc::SIGWINCH) };
            assert_eq!(queue.next(), None);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_program_that_is_started_gets_the_signals() {
        let status = std::thread::spawn(|| {
            let queue = SignalQueue::block(&[libc::SIGTERM]).unwrap();
            let mut command = Command::new("sleep");
            let mut child = queue.spawn(command.arg("60")).unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            child.wait().unwrap()
        });
        let status = status.join().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
    }
}
