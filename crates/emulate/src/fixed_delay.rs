//! A device whose every request takes the same time, at any concurrency: used to measure the path.

use foreseek_device::{Counters, Device, Finished, Full, Io, Outcome};
use foreseek_units::{Instant, Nanos, Sectors};
use std::collections::VecDeque;

/// See the module's documentation.
pub(crate) struct FixedDelay {
    delay: Nanos,
    in_flight: VecDeque<(Instant, Io)>,
}

impl FixedDelay {
    pub(crate) fn new(delay: Nanos) -> Self {
        Self { delay, in_flight: VecDeque::new() }
    }
}

impl Device for FixedDelay {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        self.in_flight.push_back((now + self.delay, io));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.in_flight.front().map(|(end, _)| *end)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some((at, io)) = self.in_flight.front().copied().filter(|(end, _)| *end <= now) {
            self.in_flight.pop_front();
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
