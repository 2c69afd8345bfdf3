//! State of the calling thread, without allocation or destructors, so that it can be read in a signal handler
//! and while a thread ends.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

static NEXT_TOKEN: AtomicU64 = AtomicU64::new(1);

/// While one of these lives, reads and closes of this thread pass the library unseen: its own, those of an
/// application's callback, and those of a signal handler that interrupts it.
#[derive(Debug)]
pub struct ReentryGuard {
    before: bool,
}

impl ReentryGuard {
    /// Begins; dropping it ends it.
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

/// A number of this thread; never 0.
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
