//! A member that is slower than the others: each of its requests is delayed.
//!
//! Such a disk retries reads, or has a bad link. Limit: with several requests in the disk the delays overlap.

use foreseek_device::{Counters, Device, Finished, Full, Io, Submitter};
use foreseek_units::{Instant, Nanos, Sectors};
use std::collections::VecDeque;

/// A disk, and its delay.
pub(super) struct Slowed {
    disk: Box<dyn Device>,
    by: Nanos,
    /// Requests that the disk has finished, in the order of their late ends.
    held: VecDeque<Finished>,
    finished: Vec<Finished>,
}

impl Slowed {
    pub(super) fn new(disk: Box<dyn Device>, by: Nanos) -> Self {
        Self { disk, by, held: VecDeque::new(), finished: Vec::new() }
    }
}

impl Device for Slowed {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        self.disk.submit(now, io)
    }

    fn submit_for(&mut self, now: Instant, io: Io, submitter: Submitter) -> Result<(), Full> {
        self.disk.submit_for(now, io, submitter)
    }

    fn next(&self) -> Option<Instant> {
        let held = self.held.front().map(|one| one.at);
        self.disk.next().into_iter().chain(held).min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        self.disk.advance(now, &mut self.finished);
        let later = |one: Finished| Finished { at: one.at + self.by, ..one };
        self.held.extend(self.finished.drain(..).map(later));
        let due = self.held.partition_point(|one| one.at <= now);
        done.extend(self.held.drain(..due));
    }

    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_device::{Build, IoId, Op, Profile};
    use foreseek_units::{Lba, SectorSpan};

    #[test]
    fn a_request_takes_so_much_longer() {
        let disk =
            || Profile::builtin("ibm-36g-51").expect("built in").build(&Build::default()).expect("valid");
        let time = |mut disk: Box<dyn Device>| {
            let range = SectorSpan::new(Lba(8000), Lba(8008));
            disk.submit(Instant::ZERO, Io { id: IoId(1), op: Op::Read, range }).expect("room");
            let mut done = Vec::new();
            while let Some(at) = disk.next().filter(|_| done.is_empty()) {
                disk.advance(at, &mut done);
            }
            done[0].at
        };
        let by = Nanos::from_millis(20);
        assert_eq!(time(Box::new(Slowed::new(disk(), by))), time(disk()) + by);
    }
}
