//! Wakes the ticking thread when the engine's deadline moves forward.

use foreseek_units::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Wakes the ticking thread when the engine's deadline moves forward.
#[derive(Default)]
pub(super) struct Alarm {
    /// The end of the thread's sleep, in nanoseconds; 0 while it is awake.
    sleeps_until: AtomicU64,
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    rung: bool,
    ending: bool,
}

impl Alarm {
    /// Sets the engine's deadline.
    pub(super) fn set(&self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if deadline.get() < self.sleeps_until.load(Ordering::Acquire) {
            self.lock().rung = true;
            self.rung.notify_one();
        }
    }

    pub(super) fn end(&self) {
        self.lock().ending = true;
        self.rung.notify_one();
    }

    /// Sleeps until then, or until it is woken; returns whether this is the end.
    pub(super) fn sleep(&self, now: Instant, until: Instant) -> bool {
        let mut state = self.lock();
        if !state.rung && !state.ending {
            self.sleeps_until.store(until.get(), Ordering::Release);
            state =
                self.rung.wait_timeout(state, (until - now).into()).unwrap_or_else(PoisonError::into_inner).0;
            self.sleeps_until.store(0, Ordering::Release);
        }
        state.rung = false;
        state.ending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
