//! Jobs: transfers on several members that form one step, reads first, then writes.

use super::Array;
use super::job::{Job, Where};
use super::plan::{Members, Plan, Transfers};
use crate::io::{Finished, Io, IoId, Op, Outcome};
use foreseek_units::{Instant, Lba, Level, SectorSpan, Sectors};

impl Array {
    /// Starts the jobs of a part of a request.
    pub(super) fn start_part(&mut self, now: Instant, at: usize, op: Op, part: SectorSpan) {
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

    /// A member's part of a part of a request, as one range.
    fn own(&self, part: SectorSpan, member: u64) -> SectorSpan {
        let stripes = &self.parts.stripes;
        if stripes.level == Level::Raid5 {
            return stripes.on_member_of(part, member);
        }
        // For RAID-0: from its first strip within the part to its last.
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

    pub(super) fn start_job(
        &mut self,
        now: Instant,
        request: usize,
        op: Op,
        at: Where,
        transfers: Option<Transfers>,
    ) {
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
        let (place, request) = (job.at, job.request);
        let submitter = self.requests.get(request).map_or_else(Default::default, |request| request.submitter);
        for member in members.iter() {
            let range = match place {
                Where::Same(range) => range,
                Where::Own(part) => self.own(part, member),
            };
            self.backlog[member as usize].push_back((Io { id: IoId(at as u64), op, range }, submitter));
            self.feed(now, member as usize);
        }
    }

    /// A member has finished its transfer of a job.
    pub(super) fn transferred(&mut self, now: Instant, member: u64, one: Finished) {
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

    /// A transfer failed: the member's data are reconstructed from the others if these are available.
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
                // The other transfers of this job have other offsets: a separate job reads around the
                // failure.
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
}
