//! What is known about the calling thread, without allocation or destructors, so that it can be
//! asked for in a signal handler and while a thread ends.

use foreseek_storage::Identity;
use foreseek_units::Bytes;
use std::cell::Cell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static TOKEN: Cell<u64> = const { Cell::new(0) };
    static LAST: Cell<Option<(LastFile, u32)>> = const { Cell::new(None) };
}

/// Reads of one descriptor for which it is looked at once which file it is: a call of the kernel's that costs a third of the read itself.
/// Where the C library closes a descriptor by itself (`fclose`) and its number is another file's before they are over, they count as
/// reads of the one before.
const READS_A_LOOK: u32 = 16;

/// The file that this thread read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastFile {
    /// The client that looked.
    pub(crate) client: u64,
    pub(crate) fd: RawFd,
    /// How often the client's descriptors had been closed then.
    pub(crate) closes: u64,
    pub(crate) identity: Identity,
    pub(crate) length: Option<Bytes>,
}

/// The file behind a descriptor, if this thread has looked lately.
pub(crate) fn last_file(client: u64, fd: RawFd, closes: u64) -> Option<LastFile> {
    let (last, left) = LAST.get()?;
    if left == 0 || last.client != client || last.fd != fd || last.closes != closes {
        return None;
    }
    LAST.set(Some((last, left - 1)));
    Some(last)
}

/// This thread has looked at a descriptor.
pub(crate) fn looked(file: LastFile) {
    LAST.set(Some((file, READS_A_LOOK - 1)));
}

static NEXT_TOKEN: AtomicU64 = AtomicU64::new(1);

/// While one of these lives, reads and closes of this thread pass the library unseen: those that it
/// makes itself, those of an application's callback, and those of a signal handler that interrupts
/// it.
#[derive(Debug)]
pub struct ReentryGuard {
    before: bool,
}

impl ReentryGuard {
    /// From now on, until it is dropped.
    #[must_use]
    pub fn enter() -> Self {
        Self { before: INSIDE.replace(true) }
    }
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Whether this thread is within the library.
#[must_use]
pub fn is_inside() -> bool {
    INSIDE.get()
}

/// A number that is this thread's alone; never 0.
pub(crate) fn token() -> u64 {
    if TOKEN.get() == 0 {
        TOKEN.set(NEXT_TOKEN.fetch_add(1, Ordering::Relaxed));
    }
    TOKEN.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_inside_nests_and_belongs_to_one_thread() {
        assert!(!is_inside());
        let outer = ReentryGuard::enter();
        {
            let _inner = ReentryGuard::enter();
            assert!(is_inside());
        }
        assert!(is_inside());
        assert!(!std::thread::spawn(is_inside).join().unwrap());
        drop(outer);
        assert!(!is_inside());
    }

    #[test]
    fn tokens_are_constant_and_distinct() {
        let mine = token();
        assert_eq!(token(), mine);
        assert_ne!(std::thread::spawn(token).join().unwrap(), mine);
    }
}
