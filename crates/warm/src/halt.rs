//! Why work ends early.

use std::sync::atomic::{AtomicI32, Ordering};

const GOES_ON: i32 = 0;
/// No signal has this number.
const NOT_NEEDED: i32 = -1;

/// Ends work early: by a signal, or because its result is not needed.
#[derive(Debug, Default)]
pub struct Halt(AtomicI32);

impl Halt {
    /// Ends the work by a signal. The first one counts.
    pub(crate) fn by(&self, signal: i32) {
        let _ = self.0.compare_exchange(GOES_ON, signal, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ends the work, whose result is not needed.
    pub(crate) fn end(&self) {
        self.by(NOT_NEEDED);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != GOES_ON
    }

    /// The signal that ended the work.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|signal| *signal > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let stop = Halt::default();
        assert_eq!((stop.is_set(), stop.signal()), (false, None));
        stop.by(15);
        stop.by(2);
        stop.end();
        assert_eq!((stop.is_set(), stop.signal()), (true, Some(15)));
        let stop = Halt::default();
        stop.end();
        assert_eq!((stop.is_set(), stop.signal()), (true, None));
    }
}
