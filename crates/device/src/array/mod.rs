//! An array: several disks, each with its own queue and head, behind one address space.
//!
//! A request is cut at rows into *jobs*; a job is at most one transfer on each member, reads first,
//! then writes. RAID-0 requests and RAID-5 reads with all members well are one job a row (RAID-0:
//! one for the whole request), other RAID-5 work one a piece (see [`plan`]). A read that fails on
//! one member of a RAID-5 is reconstructed from all the others; a second loss in a row fails the
//! request. Transfers that a member's queue has no room for wait in front of it in order.
//!
//! The link to the host has a rate of its own: a request finishes when its data have also gone over
//! it.
//!
//! Limits: member disks of one kind; no journal or write-intent bitmap, no cache in the controller,
//! no locking of a row between concurrent writes of it (timing would differ only for overlapping
//! ones); an unreadable sector stays unreadable after it was reconstructed, and two strips of a row
//! with unreadable sectors count as lost together even where these lie at different offsets (md goes
//! by blocks of 4 KiB).

mod layout;
mod plan;

pub(crate) use layout::{Level, Stripes};
pub(crate) use plan::Members;

use crate::disk::Disk;
use crate::io::{Counters, Device, Finished, Full, Io, IoId, Op, Outcome};
use foreseek_units::{Instant, Lba, Nanos, Rate, SectorSpan, Sectors};
use plan::Transfers;
use std::collections::VecDeque;

/// Most members: one bit each in a machine word, and more than arrays without a second parity have.
pub(crate) const MEMBERS_LIMIT: u64 = 32;
/// Jobs of one request that are under way at a time, so that a request of the whole array's length
/// does not fan out into millions. Eight rows of at most three pieces keep every member busy.
const JOBS_LIMIT: u32 = 24;
/// Most jobs that one row makes.
const JOBS_PER_ROW: u32 = 3;

/// Everything that makes an array.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) stripes: Stripes,
    pub(crate) disks: Vec<Disk>,
    pub(crate) failed: Members,
    pub(crate) link: Rate,
    /// Time in the controller until a request is passed on, for each, overlapping.
    pub(crate) overhead: Nanos,
    pub(crate) depth: usize,
    pub(crate) capacity: Sectors,
}

/// An array of disks.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    parts: Parts,
    clock: Instant,
    next: Option<Instant>,
    sequence: u64,
    requests: Slab<Request>,
    jobs: Slab<Job>,
    /// Transfers for which a member's queue has no room yet.
    backlog: Vec<VecDeque<Io>>,
    /// Requests that wait for the controller or the link: when, in which order, which.
    leaving: Vec<(Instant, u64, usize)>,
    starting: VecDeque<(Instant, usize)>,
    link_free: Instant,
    /// Flushes that wait for the writes before them.
    held_flushes: usize,
    done: Vec<Finished>,
    counters: Counters,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    io: Io,
    sequence: u64,
    arrived: Instant,
    /// What is not yet cut into jobs.
    rest: SectorSpan,
    jobs: u32,
    outcome: Outcome,
    /// Whether it is a flush that waits for the writes before it.
    held: bool,
    /// Whether nothing is left to do on the members.
    over: bool,
}

/// What a job does on the members that it concerns.
#[derive(Clone, Copy, Debug)]
enum Where {
    /// The same range on each.
    Same(SectorSpan),
    /// On each what it holds of this part of the request.
    Own(SectorSpan),
}

/// Transfers that belong together.
#[derive(Clone, Copy, Debug)]
struct Job {
    request: usize,
    at: Where,
    op: Op,
    /// Members on which a transfer is under way.
    pending: Members,
    /// Members whose data have been read, or asked for.
    read: Members,
    /// What to write when all reads are done.
    writes: Members,
    /// Members that are of no use for this job: failed, or unreadable here.
    lost: Members,
    outcome: Outcome,
}

/// Entries with reusable numbers.
#[derive(Clone, Debug)]
struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, entry: T) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[at] = Some(entry);
        at
    }

    fn get(&mut self, at: usize) -> Option<&mut T> {
        self.entries.get_mut(at)?.as_mut()
    }

    fn take(&mut self, at: usize) -> Option<T> {
        let entry = self.entries.get_mut(at)?.take();
        if entry.is_some() {
            self.free.push(at);
        }
        entry
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn position(&self, is: impl Fn(&T) -> bool) -> Option<usize> {
        self.entries.iter().position(|entry| entry.as_ref().is_some_and(&is))
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }
}

impl Array {
    pub(crate) fn new(parts: Parts) -> Self {
        let backlog = parts.disks.iter().map(|_| VecDeque::new()).collect();
        Self {
            parts,
            clock: Instant::ZERO,
            next: None,
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
        let disks = self.parts.disks.iter().filter_map(Disk::next);
        let leaving = self.leaving.iter().map(|(at, ..)| *at);
        let starting = self.starting.front().map(|(at, _)| *at);
        disks.chain(leaving).chain(starting).min()
    }

    /// Does what happens at `now`.
    fn step(&mut self, now: Instant, done: &mut Vec<Finished>) {
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
        self.next = self.next_event();
    }

    fn complete(&mut self, now: Instant, done: &mut Vec<Finished>) {
        loop {
            let due = self.leaving.iter().enumerate().filter(|(_, (at, ..))| *at <= now);
            let Some((index, _)) = due.min_by_key(|(_, (at, sequence, _))| (*at, *sequence)) else { return };
            let (at, _, request) = self.leaving.swap_remove(index);
            let Some(request) = self.requests.take(request) else { continue };
            self.count(&request);
            done.push(Finished { id: request.io.id, at, outcome: request.outcome });
        }
    }

    fn count(&mut self, request: &Request) {
        self.counters.requests += 1;
        match (request.outcome, request.io.op) {
            (Outcome::Failed, _) => self.counters.failed += 1,
            (Outcome::Done, Op::Read) => self.counters.read += request.io.range.len().bytes(),
            (Outcome::Done, Op::Write) => self.counters.written += request.io.range.len().bytes(),
            (Outcome::Done, Op::Flush) => {}
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

    /// Cuts more of a request into jobs, as far as may be under way; finishes it when all is done.
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
            // The row itself counts as a job until all of its jobs are there.
            request.jobs += 1;
            let op = request.io.op;
            self.start_part(now, at, op, part);
            if let Some(request) = self.requests.get(at) {
                request.jobs -= 1;
            }
        }
    }

    /// Starts the jobs of a part of a request.
    fn start_part(&mut self, now: Instant, at: usize, op: Op, part: SectorSpan) {
        let stripes = self.parts.stripes;
        let failed = self.parts.failed;
        if stripes.level == Level::Raid0 || (op == Op::Read && failed.is_empty()) {
            let members = (0..stripes.members).filter(|member| !self.own(part, *member).is_empty());
            let concerned = members.fold(Members::default(), |set, member| set.with(Members::one(member)));
            let lost = !concerned.and(failed).is_empty();
            let transfers = match op {
                _ if lost => None,
                Op::Write => Some(Transfers { reads: Members::default(), writes: concerned }),
                _ => Some(Transfers { reads: concerned, writes: Members::default() }),
            };
            return self.start_job(now, at, op, Where::Own(part), transfers);
        }
        for piece in stripes.pieces(part).into_iter().flatten() {
            let transfers = match op {
                Op::Write => stripes.write(&piece, failed),
                _ => stripes.read(&piece, failed),
            };
            let range = stripes.on_member(piece.row, piece.from, piece.to);
            self.start_job(now, at, op, Where::Same(range), transfers);
        }
    }

    /// What a member holds of a part of a request, in one piece.
    fn own(&self, part: SectorSpan, member: u64) -> SectorSpan {
        let stripes = &self.parts.stripes;
        if stripes.level == Level::Raid5 {
            return stripes.on_member_of(part, member);
        }
        // Of RAID-0: its first strip within the part up to its last.
        let first = stripes.first_row_of(part);
        let last_row = SectorSpan::new(
            part.start
                .max(Lba((part.end.get() - 1) / stripes.row_sectors().get() * stripes.row_sectors().get())),
            part.end,
        );
        let mut hull = stripes.on_member_of(first, member).hull(stripes.on_member_of(last_row, member));
        let (from, to) = (stripes.locate(first.start).row, stripes.locate(last_row.start).row);
        if to > from + 1 {
            let start = stripes.on_member(from + 1, Sectors::ZERO, stripes.strip).start;
            let end = stripes.on_member(to - 1, Sectors::ZERO, stripes.strip).end;
            hull = hull.hull(SectorSpan::new(start, end));
        }
        hull
    }

    fn start_job(&mut self, now: Instant, request: usize, op: Op, at: Where, transfers: Option<Transfers>) {
        let Some(transfers) = transfers else {
            if let Some(request) = self.requests.get(request) {
                request.outcome = Outcome::Failed;
            }
            return;
        };
        if let Some(request) = self.requests.get(request) {
            request.jobs += 1;
        }
        let Transfers { reads, writes } = transfers;
        let (pending, lost) = (Members::default(), self.parts.failed);
        let job = Job { request, at, op, pending, read: reads, writes, lost, outcome: Outcome::Done };
        let job = self.jobs.insert(job);
        if reads.is_empty() {
            self.second_phase(now, job);
        } else {
            self.transfer(now, job, Op::Read, reads);
        }
    }

    /// Puts a job's transfers into the members' queues.
    fn transfer(&mut self, now: Instant, at: usize, op: Op, members: Members) {
        let Some(job) = self.jobs.get(at) else { return };
        job.pending = job.pending.with(members);
        let place = job.at;
        for member in members.iter() {
            let range = match place {
                Where::Same(range) => range,
                Where::Own(part) => self.own(part, member),
            };
            self.backlog[member as usize].push_back(Io { id: IoId(at as u64), op, range });
            self.feed(now, member as usize);
        }
    }

    /// Moves what waits in front of a member into its queue.
    fn feed(&mut self, now: Instant, member: usize) {
        while let Some(io) = self.backlog[member].front() {
            if self.parts.disks[member].submit(now, *io).is_err() {
                return;
            }
            self.backlog[member].pop_front();
        }
    }

    /// A member has done its part of a job.
    fn transferred(&mut self, now: Instant, member: u64, one: Finished) {
        let at = one.id.0 as usize;
        let Some(job) = self.jobs.get(at) else { return };
        let member = Members::one(member);
        job.pending = job.pending.without(member);
        if one.outcome == Outcome::Failed {
            self.lose(now, at, member);
        }
        let Some(job) = self.jobs.get(at) else { return };
        if !job.pending.is_empty() {
            return;
        }
        if job.outcome == Outcome::Failed {
            return self.end_job(now, at);
        }
        self.second_phase(now, at);
    }

    /// A transfer failed: what the member holds is reconstructed from the others if they are there.
    fn lose(&mut self, now: Instant, at: usize, member: Members) {
        let redundant = self.parts.stripes.level == Level::Raid5;
        let all = Members::all(self.parts.stripes.members);
        let Some(job) = self.jobs.get(at) else { return };
        let alone = job.lost.is_empty();
        job.lost = job.lost.with(member);
        let reading = !job.read.and(member).is_empty();
        if !redundant || !alone || !reading {
            job.outcome = Outcome::Failed;
            return;
        }
        match job.at {
            Where::Same(_) => {
                let rest = all.without(job.read).without(job.lost);
                job.read = job.read.with(rest);
                self.transfer(now, at, Op::Read, rest);
            }
            Where::Own(part) => {
                // The others of this job hold other offsets: a job of its own reads around.
                let (request, lost) = (job.request, job.lost);
                job.lost = Members::default();
                let range = self.own(part, lost.iter().next().unwrap_or_default());
                self.reconstruct(now, request, range, lost);
            }
        }
    }

    fn reconstruct(&mut self, now: Instant, request: usize, range: SectorSpan, lost: Members) {
        let reads = Members::all(self.parts.stripes.members).without(lost);
        if let Some(request) = self.requests.get(request) {
            request.jobs += 1;
        }
        let job = self.jobs.insert(Job {
            request,
            at: Where::Same(range),
            op: Op::Read,
            pending: Members::default(),
            read: reads,
            writes: Members::default(),
            lost,
            outcome: Outcome::Done,
        });
        self.transfer(now, job, Op::Read, reads);
    }

    /// All reads of a job are done: now its writes, once.
    fn second_phase(&mut self, now: Instant, at: usize) {
        let Some(job) = self.jobs.get(at) else { return };
        let (writes, op) = (std::mem::take(&mut job.writes), job.op);
        if writes.is_empty() {
            return self.end_job(now, at);
        }
        job.read = Members::default();
        self.transfer(now, at, op, writes);
    }

    fn end_job(&mut self, now: Instant, at: usize) {
        let Some(job) = self.jobs.take(at) else { return };
        let Some(request) = self.requests.get(job.request) else { return };
        request.jobs -= 1;
        if job.outcome == Outcome::Failed {
            request.outcome = Outcome::Failed;
        }
        if request.io.op == Op::Flush {
            if request.jobs == 0 {
                self.finish(now, job.request);
            }
            return;
        }
        self.go_on(now, job.request);
    }

    /// A request is done but for the link.
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

    /// Starts flushes before which no write is under way.
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

impl Device for Array {
    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Full> {
        if self.requests.len() >= self.parts.depth {
            return Err(Full);
        }
        let now = now.max(self.clock);
        self.sequence += 1;
        let request = Request {
            io,
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
        self.next = Some(self.next.map_or(starts, |next| next.min(starts)));
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some(at) = self.next.filter(|at| *at <= now) {
            self.clock = self.clock.max(at);
            self.step(self.clock, done);
        }
        self.clock = self.clock.max(now);
    }

    fn capacity(&self) -> Sectors {
        self.parts.capacity
    }

    fn counters(&self) -> Counters {
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
