//! When each request is answered: the model, its waiting room, and the answers to come.
//!
//! A state machine without clock or thread: real times come in, answers and the time of the next
//! come out. The model runs in modelled time ([`ModelClock`]) and a little ahead of real time: by
//! what the way back to the caller costs ([`PathModel`]), so that the answer can leave in time.
//! Requests beyond the model's own queue wait in order of arrival.

use crate::clock::ModelClock;
use crate::path::PathModel;
use foreseek_device::{Counters, Device, Finished, Full, Io, IoId, Outcome};
use foreseek_units::{Bytes, Instant, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Requests that can be under way: twice what the loop driver has tags for.
pub(crate) const REQUESTS: usize = 256;

/// A request whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Which.
    pub(crate) id: IoId,
    /// When its answer was to leave.
    pub(crate) at: Instant,
    /// From the caller's issue to its completion, as the model has it, in real time.
    pub(crate) modelled: Nanos,
    /// What the path costs it, both ways together.
    pub(crate) path: Nanos,
    /// Whether the modelled device failed it.
    pub(crate) failed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    io: Io,
    /// When the caller issued it.
    issued: Instant,
}

/// See the module's documentation.
pub(crate) struct Schedule {
    device: Box<dyn Device>,
    clock: ModelClock,
    path: PathModel,
    /// The latest modelled time that the device was told.
    model_now: Instant,
    waiting: VecDeque<Io>,
    pending: HashMap<IoId, Pending>,
    leaving: BinaryHeap<Reverse<(Instant, IoId)>>,
    due: HashMap<IoId, Due>,
    finished: Vec<Finished>,
}

impl Schedule {
    pub(crate) fn new(device: Box<dyn Device>, clock: ModelClock, path: PathModel) -> Self {
        Self {
            device,
            clock,
            path,
            model_now: Instant::ZERO,
            waiting: VecDeque::with_capacity(REQUESTS),
            pending: HashMap::with_capacity(REQUESTS),
            leaving: BinaryHeap::with_capacity(REQUESTS),
            due: HashMap::with_capacity(REQUESTS),
            finished: Vec::with_capacity(REQUESTS),
        }
    }

    /// A request reached the server at `now`.
    pub(crate) fn arrive(&mut self, now: Instant, io: Io) {
        let issued = now - self.path.before(io.op, io.range.len().bytes());
        self.pending.insert(io.id, Pending { io, issued });
        self.run_to(self.clock.model_at(issued));
        if self.waiting.is_empty() {
            self.offer(io);
        } else {
            self.waiting.push_back(io);
        }
    }

    /// When [`act`](Self::act) has something to do next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let leaving = self.leaving.peek().map(|Reverse((at, _))| *at);
        let model = self.device.next().map(|next| self.clock.real_at(next) - self.lead());
        match (leaving, model) {
            (Some(leaving), Some(model)) => Some(leaving.min(model)),
            (one, other) => one.or(other),
        }
    }

    /// Lets time pass up to `now` and appends the requests to be answered now.
    pub(crate) fn act(&mut self, now: Instant, out: &mut Vec<Due>) {
        self.run_to(self.clock.model_at(now + self.lead()));
        while let Some(Reverse((at, id))) = self.leaving.peek().copied() {
            if at > now {
                break;
            }
            self.leaving.pop();
            out.extend(self.due.remove(&id));
        }
    }

    /// Gives up all requests: they are to be answered now. The device finishes what it holds
    /// without anybody waiting for it.
    pub(crate) fn release(&mut self, now: Instant, out: &mut Vec<Due>) {
        self.waiting.clear();
        self.leaving.clear();
        let path = self.path;
        let released = |(id, pending): (IoId, Pending)| Due {
            id,
            at: now,
            modelled: now - pending.issued,
            path: path.whole(pending.io.op, size(&pending.io)),
            failed: false,
        };
        out.extend(self.pending.drain().map(released));
        out.extend(self.due.drain().map(|(_, due)| due));
        out.sort_by_key(|due| due.id);
    }

    pub(crate) fn set_scale(&mut self, now: Instant, scale: f64) {
        self.clock.set_scale(now, scale);
    }

    pub(crate) fn set_path(&mut self, path: PathModel) {
        self.path = path;
    }

    pub(crate) fn path(&self) -> PathModel {
        self.path
    }

    pub(crate) fn scale(&self) -> f64 {
        self.clock.scale()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.device.counters()
    }

    /// How far the model runs ahead of real time: the way back of the largest request in it.
    fn lead(&self) -> Nanos {
        let way_back = |pending: &Pending| self.path.after(pending.io.op, size(&pending.io));
        self.pending.values().map(way_back).max().unwrap_or_default()
    }

    /// Lets modelled time pass up to `until`, an event at a time so that a request that waits gets
    /// its place in the queue when it becomes free.
    fn run_to(&mut self, until: Instant) {
        while let Some(next) = self.device.next().filter(|next| *next <= until) {
            self.model_now = self.model_now.max(next);
            self.device.advance(self.model_now, &mut self.finished);
            let mut finished = std::mem::take(&mut self.finished);
            for end in finished.drain(..) {
                self.finish(end);
            }
            self.finished = finished;
            while let Some(io) = self.waiting.pop_front() {
                if !self.offer(io) {
                    break;
                }
            }
        }
        self.model_now = self.model_now.max(until);
    }

    /// Puts a request into the device's queue, or back in front of those that wait.
    fn offer(&mut self, io: Io) -> bool {
        match self.device.submit(self.model_now, io) {
            Ok(()) => true,
            Err(Full) => {
                self.waiting.push_front(io);
                false
            }
        }
    }

    fn finish(&mut self, end: Finished) {
        // One that is not known was released.
        let Some(pending) = self.pending.remove(&end.id) else { return };
        let done = self.clock.real_at(end.at);
        let (op, size) = (pending.io.op, size(&pending.io));
        let at = done - self.path.after(op, size);
        let failed = end.outcome == Outcome::Failed;
        let (modelled, path) = (done - pending.issued, self.path.whole(op, size));
        self.due.insert(end.id, Due { id: end.id, at, modelled, path, failed });
        self.leaving.push(Reverse((at, end.id)));
    }
}

fn size(io: &Io) -> Bytes {
    io.range.len().bytes()
}
