//! The shell of an event machine: its time, its next event, the loop that lets time pass, and the [`Device`]
//! for a driver. The machine itself defines what happens at each event.

use crate::io::{Counters, Device, Finished, Full, Io, Submitter};
use foreseek_units::{Instant, Sectors};

/// A machine's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    now: Instant,
    next: Option<Instant>,
}

impl Clock {
    /// The time up to which it has run.
    pub(crate) fn now(self) -> Instant {
        self.now
    }

    /// The time of the machine's next event.
    pub(crate) fn next(self) -> Option<Instant> {
        self.next
    }

    /// When an arrival at `at` takes effect: not before events that have already happened.
    pub(crate) fn arrival(self, at: Instant) -> Instant {
        at.max(self.now)
    }

    /// Schedules an event at `at`, unless there is an earlier one.
    pub(crate) fn wake(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Handles the events due at a time, and returns the time of the next.
pub(crate) trait Machine: Send {
    /// Its time.
    fn clock(&self) -> &Clock;

    /// Its time, mutable.
    fn clock_mut(&mut self) -> &mut Clock;

    /// Whether it accepts no more requests for now.
    fn is_full(&self) -> bool;

    /// Accepts a request for which it has room, and schedules its event.
    fn arrive(&mut self, now: Instant, io: Io);

    /// The same, with the origin of the request.
    fn arrive_for(&mut self, now: Instant, io: Io, _whom: Submitter) {
        self.arrive(now, io);
    }

    /// Its capacity.
    fn sectors(&self) -> Sectors;

    /// Its counters.
    fn counted(&self) -> Counters;

    /// Handles the events at `now`; returns the time of the next event.
    fn step(&mut self, now: Instant, done: &mut Vec<Finished>) -> Option<Instant>;

    /// Lets time pass up to `now`.
    fn pass(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some(at) = self.clock().next.filter(|at| *at <= now) {
            let at = self.clock().arrival(at);
            self.clock_mut().now = at;
            self.clock_mut().next = self.step(at, done);
        }
        self.clock_mut().now = self.clock().arrival(now);
    }
}

impl<M: Machine> Device for M {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        self.submit_for(now, io, Submitter::default())
    }

    fn submit_for(&mut self, now: Instant, io: Io, submitter: Submitter) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let now = self.clock().arrival(now);
        self.arrive_for(now, io, submitter);
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.clock().next()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        self.pass(now, done);
    }

    fn capacity(&self) -> Sectors {
        self.sectors()
    }

    fn counters(&self) -> Counters {
        self.counted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{IoId, Outcome};
    use foreseek_units::Nanos;

    /// Finishes something at each tenth nanosecond.
    #[derive(Default)]
    struct Ticks(Clock);

    impl Machine for Ticks {
        fn clock(&self) -> &Clock {
            &self.0
        }

        fn clock_mut(&mut self) -> &mut Clock {
            &mut self.0
        }

        fn is_full(&self) -> bool {
            false
        }

        fn arrive(&mut self, now: Instant, _: Io) {
            self.0.wake(now);
        }

        fn sectors(&self) -> Sectors {
            Sectors::ZERO
        }

        fn counted(&self) -> Counters {
            Counters::default()
        }

        fn step(&mut self, now: Instant, done: &mut Vec<Finished>) -> Option<Instant> {
            done.push(Finished { id: IoId(now.get()), at: now, outcome: Outcome::Done });
            Some(now + Nanos(10))
        }
    }

    #[test]
    fn a_late_driver_gets_all_that_was_due_at_its_time() {
        let (mut ticks, mut done) = (Ticks::default(), Vec::new());
        ticks.pass(Instant(25), &mut done);
        assert!(done.is_empty(), "it has not been woken");
        ticks.clock_mut().wake(Instant(20));
        ticks.clock_mut().wake(Instant(90));
        ticks.pass(Instant(55), &mut done);
        // Woken for a time that has passed, it acts at once.
        assert_eq!(done.iter().map(|one| one.at.get()).collect::<Vec<_>>(), [25, 35, 45, 55]);
        assert_eq!((ticks.0.now(), ticks.0.next()), (Instant(55), Some(Instant(65))));
        assert_eq!(ticks.0.arrival(Instant(50)), Instant(55));
    }
}
