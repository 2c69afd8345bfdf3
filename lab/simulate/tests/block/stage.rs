//! A scheduler alone: what it dispatches when, for requests that are added by hand.

use crate::rig::{at, sectors};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_simulate::block::{Request, RequestId, Scheduler, scheduler};
use foreseek_units::Instant;
use std::collections::HashMap;

/// Requests are 8 sectors long by default, and are identified by their first sector.
pub(crate) struct Stage {
    pub(crate) scheduler: Box<dyn Scheduler>,
    next: u32,
    given: HashMap<u64, Request>,
}

impl Stage {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(scheduler::by_name(name).unwrap_or_else(|| panic!("no scheduler {name}")))
    }

    pub(crate) fn of(scheduler: Box<dyn Scheduler>) -> Self {
        Self { scheduler, next: 0, given: HashMap::new() }
    }

    pub(crate) fn add(&mut self, now: Instant, op: Op, start: u64, pid: u32) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        let (range, synchronous) = (sectors(start, 8), op == Op::Read);
        self.scheduler.add(now, Request { id, op, range, pid: ProcessId(pid), synchronous, at: now });
        id
    }

    /// A read that arrives at a millisecond.
    pub(crate) fn read(&mut self, ms: u64, start: u64, pid: u32) -> RequestId {
        self.add(at(ms), Op::Read, start, pid)
    }

    pub(crate) fn write(&mut self, ms: u64, start: u64, pid: u32) -> RequestId {
        self.add(at(ms), Op::Write, start, pid)
    }

    /// What is dispatched at a millisecond, if anything.
    pub(crate) fn dispatch(&mut self, ms: u64) -> Option<u64> {
        let request = self.scheduler.dispatch(at(ms))?;
        let start = request.range.start.get();
        assert!(self.given.insert(start, request).is_none(), "{start} is in the device already");
        Some(start)
    }

    /// A request is complete, with all of its submission's pieces.
    pub(crate) fn over(&mut self, ms: u64, start: u64) {
        self.piece_over(ms, start, true);
    }

    pub(crate) fn piece_over(&mut self, ms: u64, start: u64, whole: bool) {
        let request = self.given.remove(&start).unwrap_or_else(|| panic!("{start} is not in the device"));
        self.scheduler.completed(at(ms), &request, whole);
    }

    /// Serves one request to its end, which must be this one.
    #[track_caller]
    pub(crate) fn serves(&mut self, ms: u64, start: u64, over: u64) {
        assert_eq!(self.dispatch(ms), Some(start));
        self.over(over, start);
    }

    /// All that is dispatched at a millisecond, each complete at once.
    pub(crate) fn order(&mut self, ms: u64) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(start) = self.dispatch(ms) {
            self.over(ms, start);
            order.push(start);
        }
        order
    }

    /// Its deadline, in milliseconds.
    pub(crate) fn deadline(&self) -> Option<f64> {
        self.scheduler.deadline().map(|at| at.get() as f64 / 1e6)
    }

    pub(crate) fn exited(&mut self, ms: u64, pid: u32) {
        self.scheduler.exited(at(ms), ProcessId(pid));
    }
}
