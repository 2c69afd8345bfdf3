//! A member of an array: a disk behind a block layer.
//!
//! Linux has a scheduler for each disk, also for the members of an array. The driver submits all that it has at
//! one time and then unplugs the queue, so that neighbours merge before the disk gets the first of them.

use crate::block::{BlockLayer, Completed, Scheduler, Settings, Submission, Tag};
use foreseek_device::{Counters, Device, Finished, Full, Io, IoId, Op, Submitter};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Sectors};

/// A disk with its scheduler.
pub struct Member {
    layer: BlockLayer,
    /// When the driver has submitted all that it has for now.
    unplug: Option<Instant>,
    completed: Vec<Completed>,
}

impl Member {
    /// An idle member.
    #[must_use]
    pub fn new(settings: Settings, scheduler: Box<dyn Scheduler>, disk: Box<dyn Device>) -> Self {
        Self { layer: BlockLayer::new(settings, scheduler, disk), unplug: None, completed: Vec::new() }
    }
}

impl Device for Member {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        self.submit_for(now, io, Submitter::default())
    }

    fn submit_for(&mut self, now: Instant, io: Io, submitter: Submitter) -> Result<(), Full> {
        self.layer.advance(now, &mut self.completed);
        let (tag, pid) = (Tag(io.id.0), ProcessId(submitter.0));
        let synchronous = io.op == Op::Read;
        let submission = Submission { tag, op: io.op, range: io.range, pid, synchronous };
        self.layer.submit(now, submission).map_err(|_| Full)?;
        // A refused submission has unplugged the queue itself. Arranging that here as well would call the
        // driver again at the same time, to be refused again, without end.
        self.unplug = Some(self.unplug.map_or(now, |at| at.min(now)));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        let completed = self.completed.first().map(|one| one.at);
        [self.layer.next(), self.unplug, completed].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        if let Some(at) = self.unplug.take_if(|at| *at <= now) {
            self.layer.advance(at, &mut self.completed);
            self.layer.unplug(at);
        }
        self.layer.advance(now, &mut self.completed);
        let finished = |one: Completed| Finished { id: IoId(one.tag.0), at: one.at, outcome: one.outcome };
        done.extend(self.completed.drain(..).map(finished));
    }

    fn capacity(&self) -> Sectors {
        self.layer.capacity()
    }

    fn counters(&self) -> Counters {
        self.layer.device_counters()
    }
}
