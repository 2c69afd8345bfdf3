//! A device with constant times and a log, and a block layer over it.

use foreseek_device::{Counters, Device, Finished, Full, Io, Op, Outcome};
use foreseek_seam::ProcessId;
use foreseek_simulate::block::{BlockLayer, Completed, Scheduler, Settings, Submission, Tag};
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors, Span};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A millisecond, the clock tick of the kernels that are modelled.
pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn at(ms: u64) -> Instant {
    Instant(ms * MS)
}

pub(crate) fn sectors(start: u64, length: u64) -> SectorSpan {
    Span::at(Lba(start), Sectors(length))
}

/// Serves one request after the other, each in the same time; logs what it gets.
pub(crate) struct Plain {
    service: Nanos,
    queue: VecDeque<(Io, Instant)>,
    diary: Arc<Mutex<Vec<(Instant, Io)>>>,
    depth: usize,
    bad: Option<Lba>,
}

impl Device for Plain {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        if self.queue.len() >= self.depth {
            return Err(Full);
        }
        self.diary.lock().expect("a diary").push((now, io));
        let free = self.queue.back().map_or(now, |(_, until)| *until).max(now);
        self.queue.push_back((io, free + self.service));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(_, until)| *until)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some((io, until)) = self.queue.front().copied().filter(|(_, until)| *until <= now) {
            self.queue.pop_front();
            let bad = self.bad.is_some_and(|bad| io.range.contains(bad));
            let outcome = if bad { Outcome::Failed } else { Outcome::Done };
            done.push(Finished { id: io.id, at: until, outcome });
        }
    }

    fn capacity(&self) -> Sectors {
        Sectors(1 << 40)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// A block layer over a [`Plain`] device.
pub(crate) struct Rig {
    pub(crate) layer: BlockLayer,
    diary: Arc<Mutex<Vec<(Instant, Io)>>>,
    pub(crate) done: Vec<Completed>,
    next: u64,
}

impl Rig {
    pub(crate) fn new(settings: Settings, scheduler: Box<dyn Scheduler>, service: Nanos) -> Self {
        Self::with_device(settings, scheduler, service, 32, None)
    }

    pub(crate) fn with_device(
        settings: Settings,
        scheduler: Box<dyn Scheduler>,
        service: Nanos,
        depth: usize,
        bad: Option<Lba>,
    ) -> Self {
        let diary = Arc::new(Mutex::new(Vec::new()));
        let device = Plain { service, queue: VecDeque::new(), diary: Arc::clone(&diary), depth, bad };
        let layer = BlockLayer::new(settings, scheduler, Box::new(device));
        Self { layer, diary, done: Vec::new(), next: 0 }
    }

    pub(crate) fn advance(&mut self, to: Instant) {
        self.layer.advance(to, &mut self.done);
    }

    /// Advances the time to `now` and submits; returns the tag, or `None` if the pool is empty.
    pub(crate) fn submit(&mut self, now: Instant, op: Op, range: SectorSpan, pid: u32) -> Option<u64> {
        self.advance(now);
        let tag = self.next;
        self.next += 1;
        let synchronous = op == Op::Read;
        let submission = Submission { tag: Tag(tag), op, range, pid: ProcessId(pid), synchronous };
        self.layer.submit(now, submission).ok().map(|()| tag)
    }

    pub(crate) fn read(&mut self, now: Instant, range: SectorSpan, pid: u32) -> Option<u64> {
        self.submit(now, Op::Read, range, pid)
    }

    pub(crate) fn unplug(&mut self, now: Instant) {
        self.advance(now);
        self.layer.unplug(now);
    }

    /// Runs until everything is complete.
    pub(crate) fn finish(&mut self) {
        while let Some(next) = self.layer.next() {
            self.advance(next);
        }
    }

    /// The requests that went to the device: time in nanoseconds, first sector, number of sectors.
    pub(crate) fn dispatched(&self) -> Vec<(u64, u64, u64)> {
        let diary = self.diary.lock().expect("a diary");
        diary.iter().map(|(when, io)| (when.get(), io.range.start.get(), io.range.len().get())).collect()
    }

    /// Tags in order of completion, with the time in nanoseconds.
    pub(crate) fn completed(&self) -> Vec<(u64, u64)> {
        self.done.iter().map(|one| (one.tag.0, one.at.get())).collect()
    }
}
