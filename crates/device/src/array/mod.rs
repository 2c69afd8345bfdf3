//! An array: several disks, each with its own queue and head, behind one address space. A member is any device: a disk, or one
//! behind a scheduler of its own.
//!
//! A request is cut at rows into *jobs*; a job is at most one transfer on each member, reads first, then
//! writes. RAID-0 requests, and RAID-5 reads without a failed member, are one job for each row (RAID-0: one
//! for the whole request). Other RAID-5 work is one job for each piece (see [`plan`]). A read that fails on
//! one member of a RAID-5 is reconstructed from all the others; a second loss in a row fails the request.
//! Transfers for which a member's queue has no room wait in front of it in order.
//!
//! The link to the host has its own rate: a request finishes when its data have also passed over the link.
//!
//! Limits:
//!
//! - The member disks are of one kind.
//! - There is no journal or write-intent bitmap, no cache in the controller, and no lock on a row between
//!   concurrent writes of it (timing would differ only for overlapping ones).
//! - An unreadable sector stays unreadable after it was reconstructed. Two strips of a row with unreadable
//!   sectors count as lost together even if the sectors have different offsets (md uses blocks of 4 KiB).

mod job;
mod jobs;
mod plan;
mod slab;
#[cfg(test)]
mod tests;

pub(crate) use plan::{Members, Plan};

use crate::io::{Counters, Device, Finished, Io, Op, Outcome, Submitter};
use crate::machine::{Clock, Machine};
use foreseek_units::{Instant, Lba, Level, Nanos, Rate, SectorSpan, Sectors, Stripes};
use job::{Job, Where};
use plan::Transfers;
use slab::Slab;
use std::collections::VecDeque;

/// Most members: one bit each in a machine word, and more than arrays without a second parity have.
pub(crate) const MEMBERS_LIMIT: u64 = 32;
/// The most jobs of one request in flight, so that a request of the whole array's length does not become
/// millions. Eight rows of at most three pieces keep every member busy.
const JOBS_LIMIT: u32 = 24;
/// Most jobs that one row makes.
const JOBS_PER_ROW: u32 = 3;

/// The parts of an array.
pub(crate) struct Parts {
    pub(crate) stripes: Stripes,
    pub(crate) disks: Vec<Box<dyn Device>>,
    pub(crate) failed: Members,
    pub(crate) link: Rate,
    /// The time in the controller before a request is passed on; the times of several requests overlap.
    pub(crate) overhead: Nanos,
    pub(crate) depth: usize,
    pub(crate) capacity: Sectors,
}

/// An array of disks.
pub(crate) struct Array {
    parts: Parts,
    clock: Clock,
    sequence: u64,
    requests: Slab<Request>,
    jobs: Slab<Job>,
    /// Transfers for which a member's queue has no room yet.
    backlog: Vec<VecDeque<(Io, Submitter)>>,
    /// Requests that wait for the controller or the link: the time, the order, the request.
    leaving: Vec<(Instant, u64, usize)>,
    starting: VecDeque<(Instant, usize)>,
    link_free: Instant,
    /// Flushes that wait for the writes before them.
    held_flushes: usize,
    done: Vec<Finished>,
    counters: Counters,
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
struct Request {
    io: Io,
    submitter: Submitter,
    sequence: u64,
    arrived: Instant,
    /// The part that is not yet cut into jobs.
    rest: SectorSpan,
    jobs: u32,
    outcome: Outcome,
    /// Whether it is a flush that waits for the writes before it.
    held: bool,
    /// Whether nothing is left to do on the members.
    over: bool,
}

impl Array {
    pub(crate) fn new(parts: Parts) -> Self {
        let backlog = parts.disks.iter().map(|_| VecDeque::new()).collect();
        Self {
            parts,
            clock: Clock::default(),
            sequence: 0,
            requests: Slab::new(),
            jobs: Slab::new(),
            backlog,
            leaving: Vec::new(),
            starting: VecDeque::new(),
            link_free: Instant::ZERO,
            held_flushes: 0,
            done: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let disks = self.parts.disks.iter().filter_map(|disk| disk.next());
        let leaving = self.leaving.iter().map(|(at, ..)| *at);
        let starting = self.starting.front().map(|(at, _)| *at);
        disks.chain(leaving).chain(starting).min()
    }

    fn complete(&mut self, now: Instant, done: &mut Vec<Finished>) {
        loop {
            let due = self.leaving.iter().enumerate().filter(|(_, (at, ..))| *at <= now);
            let Some((index, _)) = due.min_by_key(|(_, (at, sequence, _))| (*at, *sequence)) else { return };
            let (at, _, request) = self.leaving.swap_remove(index);
            let Some(request) = self.requests.take(request) else { continue };
            self.counters.count(request.io, request.outcome);
            done.push(Finished { id: request.io.id, at, outcome: request.outcome });
        }
    }

    /// Passes a request on to the members.
    fn start(&mut self, now: Instant, at: usize) {
        let Some(request) = self.requests.get(at) else { return };
        let io = request.io;
        let beyond = io.range.end > Lba(self.parts.capacity.get());
        match io.op {
            Op::Flush => {
                request.held = true;
                self.held_flushes += 1;
                self.release_flushes(now);
            }
            _ if io.range.is_empty() || beyond => {
                request.outcome = if io.range.is_empty() { Outcome::Done } else { Outcome::Failed };
                self.finish(now, at);
            }
            _ => {
                request.rest = io.range;
                self.go_on(now, at);
            }
        }
    }

    /// Cuts more of a request into jobs, up to the limit; finishes the request when all is done.
    fn go_on(&mut self, now: Instant, at: usize) {
        loop {
            let stripes = self.parts.stripes;
            let Some(request) = self.requests.get(at) else { return };
            if request.outcome == Outcome::Failed {
                request.rest = SectorSpan::default();
            }
            if request.rest.is_empty() {
                if request.jobs == 0 {
                    self.finish(now, at);
                }
                return;
            }
            if request.jobs + JOBS_PER_ROW > JOBS_LIMIT {
                return;
            }
            let whole = stripes.level == Level::Raid0;
            let part = if whole { request.rest } else { stripes.first_row_of(request.rest) };
            request.rest = SectorSpan::new(part.end, request.rest.end);
            // The row itself counts as a job until all of its jobs are started.
            request.jobs += 1;
            let op = request.io.op;
            self.start_part(now, at, op, part);
            if let Some(request) = self.requests.get(at) {
                request.jobs -= 1;
            }
        }
    }

    /// Moves waiting transfers of a member into its queue.
    fn feed(&mut self, now: Instant, member: usize) {
        while let Some((io, submitter)) = self.backlog[member].front() {
            if self.parts.disks[member].submit_for(now, *io, *submitter).is_err() {
                return;
            }
            self.backlog[member].pop_front();
        }
    }

    /// A request is done except for the link.
    fn finish(&mut self, now: Instant, at: usize) {
        let Some(request) = self.requests.get(at) else { return };
        let (sequence, op) = (request.sequence, request.io.op);
        let mut leaves = now;
        if request.outcome == Outcome::Done && op != Op::Flush {
            let time = self.parts.link.time_for(request.io.range.len().bytes());
            self.link_free = self.link_free.max(request.arrived) + time;
            leaves = leaves.max(self.link_free);
        }
        request.over = true;
        self.leaving.push((leaves, sequence, at));
        if op == Op::Write {
            self.release_flushes(now);
        }
    }

    /// Starts flushes whose earlier writes are all done.
    fn release_flushes(&mut self, now: Instant) {
        while self.held_flushes > 0 {
            let writes = self.requests.iter().filter(|one| one.io.op == Op::Write && !one.over);
            let first_write = writes.map(|one| one.sequence).min().unwrap_or(u64::MAX);
            let may_go = |one: &Request| one.held && one.sequence < first_write;
            let Some(at) = self.requests.position(may_go) else { return };
            self.held_flushes -= 1;
            if let Some(request) = self.requests.get(at) {
                request.held = false;
            }
            let members = Members::all(self.parts.stripes.members).without(self.parts.failed);
            let transfers = Transfers { reads: Members::default(), writes: members };
            self.start_job(now, at, Op::Flush, Where::Same(SectorSpan::default()), Some(transfers));
        }
    }
}

impl Machine for Array {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    fn step(&mut self, now: Instant, done: &mut Vec<Finished>) -> Option<Instant> {
        self.complete(now, done);
        while let Some((_, at)) = self.starting.front().copied().filter(|(at, _)| *at <= now) {
            self.starting.pop_front();
            self.start(now, at);
        }
        for member in 0..self.parts.disks.len() {
            if self.parts.disks[member].next().is_none_or(|next| next > now) {
                continue;
            }
            let mut finished = std::mem::take(&mut self.done);
            self.parts.disks[member].advance(now, &mut finished);
            for one in finished.drain(..) {
                self.transferred(now, member as u64, one);
            }
            self.done = finished;
            self.feed(now, member);
        }
        self.next_event()
    }

    fn is_full(&self) -> bool {
        self.requests.len() >= self.parts.depth
    }

    fn arrive(&mut self, now: Instant, io: Io) {
        self.arrive_for(now, io, Submitter::default());
    }

    fn arrive_for(&mut self, now: Instant, io: Io, submitter: Submitter) {
        self.sequence += 1;
        let request = Request {
            io,
            submitter,
            sequence: self.sequence,
            arrived: now,
            rest: SectorSpan::default(),
            jobs: 0,
            outcome: Outcome::Done,
            held: false,
            over: false,
        };
        let at = self.requests.insert(request);
        let starts = now + self.parts.overhead;
        self.starting.push_back((starts, at));
        self.clock.wake(starts);
    }

    fn sectors(&self) -> Sectors {
        self.parts.capacity
    }

    fn counted(&self) -> Counters {
        let mut sum = self.counters;
        for disk in &self.parts.disks {
            let one = disk.counters();
            sum.seeks += one.seeks;
            sum.seek_distance += one.seek_distance;
            sum.buffer_hits += one.buffer_hits;
            sum.busy += one.busy;
            sum.seek_time += one.seek_time;
            sum.rotation_time += one.rotation_time;
            sum.transfer_time += one.transfer_time;
        }
        sum
    }
}
