//! Stepping aside: after an internal failure every call does nothing for the rest of the process, and the host
//! reads as without the library.

use crate::settings;
use foreseek_storage::HostFd;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

static ASIDE: AtomicBool = AtomicBool::new(false);

/// How often a briefly held lock is tried, a millisecond apart, before its holder counts as gone (a thread that
/// a fork did not copy).
const LOCK_TRIES: u32 = 1000;

/// Whether the library has stepped aside.
#[must_use]
pub fn is_aside() -> bool {
    ASIDE.load(Ordering::Relaxed)
}

/// Switches the library off from now on, and prints why, once.
pub fn step_aside(why: &str) {
    if !ASIDE.swap(true, Ordering::Relaxed) {
        print_line(&format!("{why}; prefetching is off for the rest of this process"));
    }
}

/// As [`print_line_of`], of this library.
pub(crate) fn print_line(line: &str) {
    print_line_of("libprefetch", line);
}

/// Prints one line of a library on standard error, unless `FORESEEK_QUIET` forbids it or the number of standard
/// error belongs to another file.
pub fn print_line_of(library: &str, line: &str) {
    let takes_messages = HostFd::new(libc::STDERR_FILENO).is_some_and(HostFd::takes_messages);
    if takes_messages && !settings::is_quiet() {
        // In one write, so that lines of several threads don't mix. A closed standard error is the host's
        // choice.
        let _ = std::io::stderr().write_all(format!("{library}: {line}\n").as_bytes());
    }
}

/// Takes a lock that is only ever held briefly. If it cannot be taken, steps aside and returns `None`.
pub(crate) fn lock_briefly<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..LOCK_TRIES {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(_)) => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    step_aside("an internal lock is lost");
    None
}
