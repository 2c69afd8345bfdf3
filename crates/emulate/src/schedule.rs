//! When each request is answered: the model, the requests that wait for its queue, and the answers to come.
//!
//! A state machine without clock or thread: real times are its input; its output is answers and the time of
//! the next one. The model runs in modelled time ([`ModelClock`]), ahead of real time by the cost of the way
//! back to the caller ([`PathModel`]), so that an answer can be sent in time. Requests beyond the model's own
//! queue wait in order of arrival.

use crate::clock::ModelClock;
use crate::path::PathModel;
use foreseek_device::{Counters, Device, Finished, Full, Io, IoId, Outcome};
use foreseek_units::{Bytes, Instant, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// The most requests in flight: twice the tags of the loop driver.
pub(crate) const REQUESTS: usize = 256;

/// A request whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The request.
    pub(crate) id: IoId,
    /// When its answer was due to be sent.
    pub(crate) at: Instant,
    /// From the caller's issue to its completion according to the model, in real time.
    pub(crate) modelled: Nanos,
    /// The cost of its path, both directions together.
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
    /// The latest modelled time that was passed to the device.
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

    /// Takes a request that reached the server at `now`.
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

    /// Drops all requests: they are to be answered now. The device finishes what it holds without effect.
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

    pub(crate) fn clock(&self) -> &ModelClock {
        &self.clock
    }

    pub(crate) fn counters(&self) -> Counters {
        self.device.counters()
    }

    /// How far the model runs ahead of real time: the way back of the largest request in flight.
    fn lead(&self) -> Nanos {
        let way_back = |pending: &Pending| self.path.after(pending.io.op, size(&pending.io));
        self.pending.values().map(way_back).max().unwrap_or_default()
    }

    /// Lets modelled time pass up to `until`, one event at a time, so that a waiting request enters the queue
    /// when a slot becomes free.
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

    /// Puts a request into the device's queue, or back at the head of the waiting ones.
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
        // An unknown one was released.
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

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_device::{Build, Op, Profile};
    use foreseek_units::{Lba, Sectors, Span};
    use proptest::prelude::*;

    const SIZE: Bytes = Bytes::mib(256);

    fn model() -> Box<dyn Device> {
        let build = Build { size: Some(SIZE), queue_depth: 4, ..Build::default() };
        Profile::builtin("barracuda-500g").expect("built in").build(&build).expect("sound")
    }

    fn io(id: usize, page: u64, op: Op) -> Io {
        let page = page % SIZE.pages_floor().get();
        Io { id: IoId(id as u64), op, range: Span::at(Lba(page * 8), Sectors(8)) }
    }

    fn path() -> PathModel {
        let (small, large) = ((Bytes(4096), Nanos(100_000)), (Bytes::mib(1), Nanos(400_000)));
        PathModel::from_measured(small, large)
    }

    /// Lets time pass to `until`, waking exactly when requested.
    fn wake_until(schedule: &mut Schedule, until: Instant, out: &mut Vec<Due>) {
        while let Some(next) = schedule.next().filter(|next| *next <= until) {
            schedule.act(next, out);
        }
    }

    /// The times of the device itself, driven directly: a queue before it, and no path.
    fn naive(arrivals: &[(Instant, Io)]) -> Vec<(IoId, Instant)> {
        let (mut device, mut waiting, mut ends) = (model(), VecDeque::new(), Vec::new());
        let mut arrivals: VecDeque<_> = arrivals.iter().copied().collect();
        loop {
            let next = device.next().filter(|next| arrivals.front().is_none_or(|(at, _)| next <= at));
            let now = match (next, arrivals.front().copied()) {
                (Some(now), _) => {
                    let mut done = Vec::new();
                    device.advance(now, &mut done);
                    ends.extend(done.into_iter().map(|end| (end.id, end.at)));
                    now
                }
                (None, Some((now, io))) => {
                    arrivals.pop_front();
                    waiting.push_back(io);
                    now
                }
                (None, None) => return ends,
            };
            while waiting.front().is_some_and(|io| device.submit(now, *io).is_ok()) {
                waiting.pop_front();
            }
        }
    }

    fn arrivals() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
        prop::collection::vec((0..20_000_000u64, 0..65_536u64, any::<bool>()), 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Without a path and with exact wake-ups, the schedule equals the device behind a queue, scaled by
        /// the factor on time.
        #[test]
        fn answers_come_when_the_device_says(arrivals in arrivals(), scale in prop::sample::select(vec![1.0, 0.25, 2.0])) {
            let origin = Instant(1_000_000_000);
            let clock = ModelClock::new(origin, scale);
            let mut schedule = Schedule::new(model(), clock, PathModel::default());
            let (mut out, mut at, mut plain) = (Vec::new(), origin, Vec::new());
            for (id, (gap, page, write)) in arrivals.into_iter().enumerate() {
                at += Nanos(gap / 4 * 4);
                wake_until(&mut schedule, at, &mut out);
                let io = io(id, page, if write { Op::Write } else { Op::Read });
                schedule.arrive(at, io);
                plain.push((clock.model_at(at), io));
            }
            wake_until(&mut schedule, Instant(u64::MAX / 2), &mut out);
            let mut expected: Vec<_> = naive(&plain).into_iter().map(|(id, end)| (id, clock.real_at(end))).collect();
            expected.sort();
            let mut answered: Vec<_> = out.iter().map(|due| (due.id, due.at)).collect();
            answered.sort();
            prop_assert_eq!(answered, expected);
        }

        /// The path is subtracted: for its caller, a single request takes the modelled time.
        #[test]
        fn a_caller_sees_the_modelled_time(pages in prop::collection::vec((0..65_536u64, 0..9_000_000u64), 1..30)) {
            let path = path();
            let clock = ModelClock::new(Instant(0), 1.0);
            let mut schedule = Schedule::new(model(), clock, path);
            let mut alone = model();
            let (mut now, mut out) = (Instant(1_000_000), Vec::new());
            for (id, (page, think)) in pages.into_iter().enumerate() {
                now += Nanos(think);
                let io = io(id, page, Op::Read);
                schedule.arrive(now + path.before(io.op, Bytes(4096)), io);
                wake_until(&mut schedule, Instant(u64::MAX / 2), &mut out);
                let due = out.pop().expect("answered");
                let mut done = Vec::new();
                // Earlier events first: the drive reads ahead on its own.
                while let Some(next) = alone.next().filter(|next| *next <= clock.model_at(now)) {
                    alone.advance(next, &mut done);
                }
                alone.submit(clock.model_at(now), io).expect("it is empty");
                while done.is_empty() {
                    let next = alone.next().expect("busy");
                    alone.advance(next, &mut done);
                }
                let seen = due.at + path.after(io.op, Bytes(4096)) - now;
                prop_assert_eq!(seen, done[0].at - clock.model_at(now));
                prop_assert_eq!(due.modelled, seen);
                now += seen;
            }
        }

        /// Whatever is switched and however late the timer wakes, every request is answered once and none
        /// before it arrived.
        #[test]
        fn each_request_is_answered_exactly_once(
            steps in prop::collection::vec((0..5u8, 0..30_000_000u64, 0..65_536u64), 1..120)
        ) {
            let mut schedule = Schedule::new(model(), ModelClock::new(Instant(0), 1.0), path());
            let (mut now, mut out, mut arrived) = (Instant(1_000_000), Vec::new(), Vec::new());
            for (step, gap, page) in steps {
                now += Nanos(gap);
                match step {
                    0 => schedule.release(now, &mut out),
                    1 => schedule.set_scale(now, [0.1, 1.0, 3.0][page as usize % 3]),
                    2 => schedule.act(now, &mut out),
                    _ => {
                        schedule.arrive(now, io(arrived.len(), page, Op::Read));
                        arrived.push(now);
                    }
                }
            }
            wake_until(&mut schedule, Instant(u64::MAX / 2), &mut out);
            prop_assert_eq!(schedule.next(), None);
            let mut ids: Vec<_> = out.iter().map(|due| due.id.0 as usize).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, (0..arrived.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_failed_request_is_reported_as_failed() {
        let build =
            Build { size: Some(SIZE), unreadable: vec![Span::at(Lba(80), Sectors(1))], ..Build::default() };
        let device = Profile::builtin("wd-500g").expect("built in").build(&build).expect("sound");
        let mut schedule = Schedule::new(device, ModelClock::new(Instant(0), 1.0), PathModel::default());
        let mut out = Vec::new();
        for (id, page) in [(0, 10), (1, 11)] {
            schedule.arrive(Instant(5), io(id, page, Op::Read));
        }
        wake_until(&mut schedule, Instant(u64::MAX / 2), &mut out);
        let mut failed: Vec<_> = out.iter().map(|due| (due.id.0, due.failed)).collect();
        failed.sort_unstable();
        assert_eq!(failed, [(0, true), (1, false)]);
    }
}
