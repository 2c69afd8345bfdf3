//! A device whose every request takes the same time, any number at once: to measure the path with.

use foreseek_device::{Counters, Device, Finished, Full, Io, Outcome};
use foreseek_units::{Instant, Nanos, Sectors};
use std::collections::VecDeque;

/// See the module's documentation.
pub(crate) struct FixedDelay {
    delay: Nanos,
    under_way: VecDeque<(Instant, Io)>,
}

impl FixedDelay {
    pub(crate) fn new(delay: Nanos) -> Self {
        Self { delay, under_way: VecDeque::new() }
    }
}

impl Device for FixedDelay {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        self.under_way.push_back((now + self.delay, io));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.under_way.front().map(|(end, _)| *end)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some((at, io)) = self.under_way.front().copied().filter(|(end, _)| *end <= now) {
            self.under_way.pop_front();
            done.push(Finished { id: io.id, at, outcome: Outcome::Done });
        }
    }

    fn capacity(&self) -> Sectors {
        Sectors(u64::MAX)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
