//! How much may be held: pages that were read ahead and not used yet.
//!
//! The window is a part of the memory that is available for cached pages, measured every few seconds, or less
//! if the user has set a limit. Changes of less than an eighth are ignored.
//!
//! The control group of the daemon is limited to twice the window at its start: used pages stay charged to it
//! as well, and are evicted first. That limit is therefore no measure of the available memory, and the window
//! never grows beyond its first value ([`Confined`]).

use crate::Options;
use crate::options::MEMORY_LEAST;
use foreseek_storage::{available, available_besides};
use foreseek_units::Bytes;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often it is measured.
const PERIOD: Duration = Duration::from_secs(5);
/// The smallest change that counts, as a part of the whole.
const CHANGE: u64 = 8;

/// The control group of this process, which the process itself has limited for a window.
#[derive(Clone, Debug)]
pub(crate) struct Confined {
    pub(crate) group: PathBuf,
    pub(crate) window: Bytes,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Budget {
    confined: Option<Confined>,
    share: f64,
    most: Bytes,
    window: Bytes,
    measured: Instant,
}

impl Budget {
    /// A budget by the options and the memory that is available at present.
    pub(crate) fn new(options: &Options) -> Self {
        Self::confined(options, None)
    }

    /// The same in a control group of its own.
    pub(crate) fn confined(options: &Options, confined: Option<Confined>) -> Self {
        let most = Bytes(options.memory_bytes.unwrap_or(u64::MAX));
        let most = confined.as_ref().map_or(most, |confined| confined.window.min(most));
        let (share, measured) = (options.share, Instant::now());
        let mut budget = Self { confined, share, most, window: Bytes::ZERO, measured };
        budget.window = budget.of(budget.available());
        budget
    }

    /// The memory that is available for cached pages at present.
    fn available(&self) -> Bytes {
        self.confined.as_ref().map_or_else(available, |own| available_besides(&own.group)).bytes
    }

    fn of(&self, available: Bytes) -> Bytes {
        Bytes((available.get() as f64 * self.share) as u64).min(self.most).max(MEMORY_LEAST)
    }

    /// The most that may be held.
    pub(crate) fn window(&self) -> Bytes {
        self.window
    }

    /// Whether it is time to measure.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now.duration_since(self.measured) >= PERIOD
    }

    fn measure(&mut self, available: Bytes, now: Instant) {
        self.measured = now;
        let new = self.of(available);
        let change = if new > self.window { new - self.window } else { self.window - new };
        if change >= self.window / CHANGE {
            self.window = new;
        }
    }
}

/// The window with the memory that is available at present.
#[must_use]
pub fn current_window(options: &Options) -> Bytes {
    Budget::new(options).window()
}

/// Measures the window again.
pub(crate) fn window_of(budget: &mut Budget) -> Bytes {
    budget.measure(budget.available(), Instant::now());
    budget.window()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_memory_within_its_bounds() {
        let options = Options { share: 0.25, memory_bytes: Some(1 << 30), ..Options::default() };
        let mut budget = Budget::new(&options);
        let now = Instant::now();
        let mut measured = |available| {
            budget.measure(available, now);
            budget.window()
        };
        assert_eq!(measured(Bytes::gib(2)), Bytes::mib(512));
        assert_eq!(measured(Bytes::mib(2100)), Bytes::mib(512), "a small change");
        assert_eq!(measured(Bytes::gib(64)), Bytes::gib(1));
        assert_eq!(measured(Bytes::ZERO), MEMORY_LEAST);
    }

    #[test]
    fn a_control_group_does_not_reduce_the_window_but_bounds_it() {
        let options = Options { share: 0.25, ..Options::default() };
        let confined = Confined { group: "/no/such/group".into(), window: Bytes::mib(64) };
        let mut budget = Budget::confined(&options, Some(confined));
        let now = Instant::now();
        let mut measured = |available| {
            budget.measure(available, now);
            budget.window()
        };
        assert_eq!(measured(Bytes::gib(64)), Bytes::mib(64));
        assert_eq!(measured(Bytes::mib(128)), Bytes::mib(32));
        assert_eq!(measured(Bytes::gib(1)), Bytes::mib(64));
    }
}
