//! The block layer itself: pool, plug, pieces, and the way to the device and back.
//!
//! The rules, all of Linux 2.6 (`drivers/block/ll_rw_blk.c`):
//!
//! - *Pieces.* A submission longer than the largest request becomes several requests, cut at whole
//!   pages. It is over when all of them are.
//! - *Merging.* A piece that begins where a waiting request of its kind ends (or the reverse) becomes
//!   part of it if the sum is not too long; if that closes a gap, the two requests become one.
//! - *Infill.* A read that cannot be merged joins the nearest waiting read across a short gap, which is read and
//!   discarded (ATC'09 section 4.7). A read that overlaps such a gap of a waiting request is served from it.
//! - *Pool.* There is a fixed number of requests for each direction. A submitter that finds none sleeps, and
//!   the queue is unplugged for it. If a submission gets only some of the requests that it needs, it is taken,
//!   and its other pieces follow as requests become free. Nobody else of that direction gets a request before,
//!   except a process for which the scheduler keeps the device idle. A process that finds a free request, at
//!   once or after sleeping, may take up to a batch of them (2.6's `ioc_batching`).
//! - *Plug.* The first request in an empty queue plugs it: nothing goes to the device until enough requests
//!   wait, a process waits for one ([`BlockLayer::unplug`]), the time is over, or a request completes (drivers
//!   run their queue then).
//! - *Device.* The driver keeps a fixed number of requests in the device. When one completes it takes the next
//!   one from the scheduler, before the process that waited for it runs.
//!
//! Limits: a failed request fails all submissions that have a piece in it (a kernel would retry them one by
//! one). A process that a free request wakes uses its batch for one submission only; a kernel lets it use the
//! rest of the batch for its next ones.

use super::infill::Infill;
use super::merge::Neighbours;
use super::{Completed, Full, Metrics, Request, RequestId, Scheduler, Settings, Submission, Tag};
use foreseek_device::{Counters, Device, Finished, Io, IoId, Op, Outcome, Submitter};
use foreseek_readahead::stream::Served;
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Lba, SECTORS_PER_PAGE, SectorSpan, Sectors};
use slab::Slab;
use std::collections::VecDeque;

/// A submission that is not complete.
#[derive(Clone, Copy, Debug)]
struct Open {
    tag: Tag,
    submitted: Instant,
    outcome: Outcome,
    /// Pieces that are not complete, whether they have a request or not.
    left: usize,
}

/// A request, or room for one.
#[derive(Clone, Debug)]
struct Slot {
    request: Request,
    /// The submissions that it serves: one entry for each of their pieces.
    owners: Vec<usize>,
}

/// The rest of a submission for which no request was free.
#[derive(Clone, Copy, Debug)]
struct Rest {
    owner: usize,
    template: Request,
    range: SectorSpan,
}

/// What a piece of a submission joins.
#[derive(Clone, Copy, Debug)]
enum Join {
    /// A waiting request that it touches.
    Neighbour(RequestId),
    /// The nearest waiting request, with a dummy between.
    AcrossGap(RequestId),
    /// A waiting request, a dummy of which it lies in.
    Dummy(RequestId),
}

/// The next piece of a submission.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: Request,
    join: Option<Join>,
}

/// The block layer of one device.
pub struct BlockLayer {
    settings: Settings,
    scheduler: Box<dyn Scheduler>,
    device: Box<dyn Device>,
    clock: Instant,
    slots: Vec<Slot>,
    free: Vec<RequestId>,
    open: Slab<Open>,
    neighbours: Neighbours,
    infill: Infill,
    /// Requests in use, by direction.
    used: [usize; 2],
    congested: [bool; 2],
    /// Partly taken submissions, by direction, in order.
    rest: [VecDeque<Rest>; 2],
    /// Until when the queue stays plugged.
    plugged: Option<Instant>,
    /// A request from the scheduler that the device did not take.
    held: Option<Request>,
    in_device: usize,
    busy_since: Instant,
    /// The end of the last completed request.
    head: Lba,
    finished: Vec<Finished>,
    served: Vec<Served>,
    metrics: Metrics,
}

/// Read or write: each direction has its own part of the pool.
fn side(op: Op) -> usize {
    usize::from(op != Op::Read)
}

impl BlockLayer {
    /// A block layer with an empty queue over an idle device.
    #[must_use]
    pub fn new(settings: Settings, scheduler: Box<dyn Scheduler>, device: Box<dyn Device>) -> Self {
        Self {
            settings,
            scheduler,
            device,
            clock: Instant::ZERO,
            slots: Vec::new(),
            free: Vec::new(),
            open: Slab::new(),
            neighbours: Neighbours::default(),
            infill: Infill::new(settings.infill),
            used: [0; 2],
            congested: [false; 2],
            rest: [VecDeque::new(), VecDeque::new()],
            plugged: None,
            held: None,
            in_device: 0,
            busy_since: Instant::ZERO,
            head: Lba::ZERO,
            finished: Vec::new(),
            served: Vec::new(),
            metrics: Metrics::default(),
        }
    }

    /// Takes a submission. The caller has called [`advance`](Self::advance) up to `now`.
    ///
    /// # Errors
    /// [`Full`] if no request of its direction is free, none can be merged with, and the scheduler does not
    /// wait for this process. Nothing has changed then, except that the queue is unplugged; the submitter tries
    /// again when there is [`room`](Self::room).
    pub fn submit(&mut self, now: Instant, submission: Submission) -> Result<(), Full> {
        let Submission { tag, op, range, pid, synchronous } = submission;
        let template = Request { id: RequestId(u32::MAX), op, range, pid, synchronous, at: now };
        let first = self.next_piece(&template);
        let room = self.room(op) || self.awaits(pid);
        if !room && (!self.rest[side(op)].is_empty() || first.join.is_none()) {
            self.metrics.refused += 1;
            self.unplug(now);
            return Err(Full);
        }
        let left = self.pieces(range);
        self.metrics.submissions += 1;
        self.metrics.splits += left as u64 - 1;
        let owner = self.open.insert(Open { tag, submitted: now, outcome: Outcome::Done, left });
        if let Some(rest) = self.feed(now, Rest { owner, template, range }) {
            self.rest[side(op)].push_back(rest);
        }
        self.dispatch(now);
        Ok(())
    }

    /// A process waits for what was submitted: the queue is no longer deferred.
    pub fn unplug(&mut self, now: Instant) {
        self.plugged = None;
        self.dispatch(now);
    }

    /// Whether so many reads wait that read-ahead is to be cancelled.
    #[must_use]
    pub fn congested(&self) -> bool {
        self.congested[side(Op::Read)]
    }

    /// Whether so many writes wait that write-back is to pause.
    #[must_use]
    pub fn congested_writes(&self) -> bool {
        self.congested[side(Op::Write)]
    }

    /// Whether a submission of this kind would be taken.
    #[must_use]
    pub fn room(&self, op: Op) -> bool {
        self.rest[side(op)].is_empty() && self.used[side(op)] < self.settings.requests
    }

    /// Whether the scheduler keeps the device idle for this process. Its submission is then taken even if there
    /// is no room, and overtakes those of processes that sleep for a request.
    #[must_use]
    pub fn awaits(&self, pid: ProcessId) -> bool {
        self.scheduler.awaits(pid)
    }

    /// Whether a submission of this process has been taken in part, and its other pieces wait for requests.
    #[must_use]
    pub fn owes(&self, pid: ProcessId) -> bool {
        self.rest[side(Op::Read)].iter().any(|rest| rest.template.pid == pid)
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The longest request: whole pages, if it holds one.
    #[must_use]
    pub fn longest(&self) -> Sectors {
        self.piece()
    }

    /// The time of the next event, if nothing is submitted: the caller then calls [`advance`](Self::advance).
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let could_dispatch = self.plugged.is_none() && self.in_device < self.settings.in_device;
        let scheduler = if could_dispatch { self.scheduler.deadline() } else { None };
        [self.device.next(), self.plugged, scheduler].into_iter().flatten().min()
    }

    /// Advances the time to `now` and appends the completed submissions, in order of time.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Completed>) {
        self.served.clear();
        while let Some(at) = self.next().filter(|at| *at <= now) {
            self.clock = self.clock.max(at);
            self.step(self.clock, done);
        }
        self.clock = self.clock.max(now);
    }

    /// The requests that were served during the last [`advance`](Self::advance), in order: depth rules learn
    /// the cost of switches from them.
    #[must_use]
    pub fn served(&self) -> &[Served] {
        &self.served
    }

    /// A process has ended; nothing need wait for its next request.
    pub fn exited(&mut self, now: Instant, pid: ProcessId) {
        self.scheduler.exited(now, pid);
        self.dispatch(now);
    }

    /// The metrics so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = self.metrics.clone();
        metrics.anticipations = self.scheduler.anticipations();
        if self.in_device > 0 {
            metrics.busy += self.clock - self.busy_since;
        }
        metrics
    }

    /// The device's counters so far.
    #[must_use]
    pub fn device_counters(&self) -> Counters {
        self.device.counters()
    }

    /// The device's capacity.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    /// How many requests wait in the scheduler.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.waiting()
    }

    /// The longest piece: whole pages, if the largest request holds one.
    fn piece(&self) -> Sectors {
        let largest = self.settings.largest.get();
        let pages = largest / SECTORS_PER_PAGE * SECTORS_PER_PAGE;
        Sectors(if pages == 0 { largest.max(1) } else { pages })
    }

    /// Into how many pieces a submission is cut, where no dummy cuts it.
    fn pieces(&self, range: SectorSpan) -> usize {
        let pieces = range.len().get().div_ceil(self.piece().get()).max(1);
        usize::try_from(pieces).unwrap_or(usize::MAX)
    }

    /// The first piece of what is left of a submission, and what it joins. A piece lies in one dummy or in none.
    fn next_piece(&self, rest: &Request) -> Piece {
        let (longest, _) = rest.range.split(rest.range.start + self.piece());
        let whole = Request { range: longest, ..*rest };
        let Some((dummy, id)) = self.infill.overlapped(rest.op, longest) else { return self.joining(whole) };
        if dummy.contains(longest.start) {
            let request = Request { range: longest.intersection(dummy), ..*rest };
            return Piece { request, join: Some(Join::Dummy(id)) };
        }
        self.joining(Request { range: SectorSpan::new(longest.start, dummy.start), ..*rest })
    }

    fn joining(&self, request: Request) -> Piece {
        let touched = self.neighbour(&request).map(Join::Neighbour);
        Piece { request, join: touched.or_else(|| self.across_a_gap(&request).map(Join::AcrossGap)) }
    }

    /// How many requests a new submitter may bring the pool to: one that finds a free request takes up to a
    /// batch, up to half a pool beyond the limit.
    fn limit(&self, op: Op) -> usize {
        let (used, Settings { requests, batch, .. }) = (self.used[side(op)], self.settings);
        if used < requests { (used + batch).clamp(requests, requests * 3 / 2) } else { requests }
    }

    /// Makes requests of a submission's pieces until none is free; returns the rest.
    fn feed(&mut self, now: Instant, mut rest: Rest) -> Option<Rest> {
        let limit = self.limit(rest.template.op);
        loop {
            let piece = self.next_piece(&Request { range: rest.range, at: now, ..rest.template });
            let (_, after) = rest.range.split(piece.request.range.end);
            if !self.place(now, rest.owner, piece, limit) {
                self.unplug(now);
                return Some(rest);
            }
            self.cut_by_a_dummy(&rest, after);
            rest.range = after;
            if after.is_empty() {
                return None;
            }
        }
    }

    /// A piece that a dummy made shorter leaves more of them to its submission.
    fn cut_by_a_dummy(&mut self, rest: &Rest, after: SectorSpan) {
        let left = if after.is_empty() { 0 } else { self.pieces(after) };
        let more = left + 1 - self.pieces(rest.range);
        self.open[rest.owner].left += more;
        self.metrics.splits += more as u64;
    }

    /// Puts a piece into a waiting request or a new one, if there is any.
    fn place(&mut self, now: Instant, owner: usize, piece: Piece, limit: usize) -> bool {
        let Piece { request: piece, join } = piece;
        if let Some(join) = join {
            self.join(now, owner, piece.range, join);
            return true;
        }
        if self.used[side(piece.op)] >= limit && !self.awaits(piece.pid) {
            return false;
        }
        if self.scheduler.waiting() == 0 && self.plugged.is_none() {
            self.plugged = Some(now + self.settings.unplug_after);
        }
        let request = self.make(owner, piece);
        self.insert(&request);
        self.scheduler.add(now, request);
        if self.plugged.is_some() && self.scheduler.waiting() >= self.settings.unplug_at {
            self.unplug(now);
        }
        true
    }

    /// A piece becomes part of a waiting request.
    fn join(&mut self, now: Instant, owner: usize, range: SectorSpan, join: Join) {
        let (Join::Neighbour(id) | Join::AcrossGap(id) | Join::Dummy(id)) = join;
        self.slots[id.0 as usize].owners.push(owner);
        match join {
            Join::Neighbour(_) => self.metrics.merges += 1,
            Join::AcrossGap(_) => {
                let with = self.slots[id.0 as usize].request.range;
                self.metrics.infilled += 1;
                self.metrics.infill += self.infill.fill(id, with, range);
            }
            Join::Dummy(_) => {
                self.metrics.served_by_infill += 1;
                return;
            }
        }
        self.grow(now, id, range);
    }

    fn make(&mut self, owner: usize, piece: Request) -> Request {
        let id = self.free.pop().unwrap_or(RequestId(self.slots.len() as u32));
        let request = Request { id, ..piece };
        match self.slots.get_mut(id.0 as usize) {
            Some(slot) => {
                slot.request = request;
                slot.owners.push(owner);
            }
            None => self.slots.push(Slot { request, owners: vec![owner] }),
        }
        let side = side(piece.op);
        self.used[side] += 1;
        self.congested[side] |= self.used[side] > self.settings.congested_above;
        request
    }

    /// A waiting request that this one can be merged into: preferably at its end.
    fn neighbour(&self, piece: &Request) -> Option<RequestId> {
        if piece.op == Op::Flush || piece.range.is_empty() {
            return None;
        }
        let behind = self.neighbours.ending(piece.op, piece.range.start);
        let before = self.neighbours.beginning(piece.op, piece.range.end);
        behind.into_iter().chain(before).find(|id| self.fits(*id, piece))
    }

    /// The nearest waiting request of those that the scheduler would merge this one with, if the two and a short
    /// gap between them are no longer than a request may be.
    fn across_a_gap(&self, piece: &Request) -> Option<RequestId> {
        let nearest = self.infill.nearest(piece, |id| self.scheduler.may_merge(id, piece));
        nearest.filter(|id| self.fits(*id, piece))
    }

    fn fits(&self, id: RequestId, piece: &Request) -> bool {
        let length = self.slots[id.0 as usize].request.range.hull(piece.range).len();
        length <= self.settings.largest && self.scheduler.may_merge(id, piece)
    }

    /// A request waits.
    fn insert(&mut self, request: &Request) {
        self.neighbours.insert(request);
        self.infill.insert(request);
    }

    /// A request waits no more, or not with this range.
    fn remove(&mut self, request: &Request) {
        self.neighbours.remove(request);
        self.infill.remove(request);
    }

    /// Adds a range to a waiting request; if it now touches another, the two become one.
    fn grow(&mut self, now: Instant, id: RequestId, by: SectorSpan) {
        let request = self.widen(id, by);
        self.scheduler.grown(now, id, request.range);
        let after = self.neighbours.beginning(request.op, request.range.end);
        let before = self.neighbours.ending(request.op, request.range.start);
        let other = after.into_iter().chain(before).find(|other| {
            *other != id && {
                let with = self.slots[other.0 as usize].request;
                self.fits(id, &with) && self.scheduler.may_merge(*other, &request)
            }
        });
        if let Some(other) = other {
            // The earlier one is kept, as in a kernel.
            let later = self.slots[other.0 as usize].request.range.start > request.range.start;
            let (kept, gone) = if later { (id, other) } else { (other, id) };
            self.absorb(now, kept, gone);
        }
    }

    fn widen(&mut self, id: RequestId, by: SectorSpan) -> Request {
        let old = self.slots[id.0 as usize].request;
        let request = Request { range: old.range.hull(by), ..old };
        self.remove(&old);
        self.slots[id.0 as usize].request = request;
        self.insert(&request);
        request
    }

    fn absorb(&mut self, now: Instant, kept: RequestId, gone: RequestId) {
        let absorbed = self.slots[gone.0 as usize].request;
        let mut owners = std::mem::take(&mut self.slots[gone.0 as usize].owners);
        self.remove(&absorbed);
        self.infill.absorbed(kept, &absorbed);
        self.slots[kept.0 as usize].owners.append(&mut owners);
        let request = self.widen(kept, absorbed.range);
        self.scheduler.absorbed(now, kept, gone, request.range);
        self.release(gone, absorbed.op);
    }

    /// Returns a request to the pool.
    fn release(&mut self, id: RequestId, op: Op) {
        let side = side(op);
        self.used[side] -= 1;
        self.congested[side] &= self.used[side] >= self.settings.uncongested_below;
        self.free.push(id);
    }

    /// Fills the device.
    fn dispatch(&mut self, now: Instant) {
        while self.plugged.is_none() && self.in_device < self.settings.in_device {
            let Some(request) = self.held.take().or_else(|| self.taken(now)) else { return };
            let io = Io { id: IoId(u64::from(request.id.0)), op: request.op, range: request.range };
            if self.device.submit_for(now, io, Submitter(request.pid.0)).is_err() {
                // The device holds requests; their completion leads here again.
                self.held = Some(request);
                return;
            }
            if self.in_device == 0 {
                self.busy_since = now;
            }
            self.in_device += 1;
            self.metrics.dispatched += 1;
            self.metrics.queued += now - request.at;
        }
    }

    fn taken(&mut self, now: Instant) -> Option<Request> {
        let request = self.scheduler.dispatch(now)?;
        self.remove(&request);
        self.infill.leave(&request);
        Some(request)
    }

    /// Handles the events at `now`.
    fn step(&mut self, now: Instant, done: &mut Vec<Completed>) {
        self.plugged = self.plugged.filter(|until| *until > now);
        let mut finished = std::mem::take(&mut self.finished);
        self.device.advance(now, &mut finished);
        for one in finished.drain(..) {
            self.complete(one, done);
        }
        self.finished = finished;
        self.dispatch(now);
    }

    fn complete(&mut self, finished: Finished, done: &mut Vec<Completed>) {
        let Finished { id, at, outcome } = finished;
        // The ids in the device are those of this layer.
        let id = RequestId(id.0 as u32);
        let slot = &mut self.slots[id.0 as usize];
        let request = slot.request;
        let mut owners = std::mem::take(&mut slot.owners);
        self.in_device -= 1;
        if self.in_device == 0 {
            self.metrics.busy += at - self.busy_since;
        }
        let from = self.metrics.served(&mut self.head, request.op, request.range);
        if outcome == Outcome::Done {
            self.served.push(Served { from, range: request.range });
        }
        self.metrics.failed += u64::from(outcome == Outcome::Failed);
        let whole = self.pieces_over(&owners, at, outcome, done);
        owners.clear();
        self.slots[id.0 as usize].owners = owners;
        self.scheduler.completed(at, &request, whole);
        self.release(id, request.op);
        self.plugged = None;
        if let Some(rest) = self.rest[side(request.op)].pop_front()
            && let Some(rest) = self.feed(at, rest)
        {
            self.rest[side(request.op)].push_front(rest);
        }
    }

    /// Completes pieces of these submissions; returns whether all of the submissions are complete.
    fn pieces_over(
        &mut self,
        owners: &[usize],
        at: Instant,
        outcome: Outcome,
        done: &mut Vec<Completed>,
    ) -> bool {
        for owner in owners {
            self.open[*owner].left -= 1;
        }
        let mut whole = true;
        for owner in owners {
            // A submission with several pieces here is gone the second time.
            let Some(open) = self.open.get_mut(*owner) else { continue };
            if outcome == Outcome::Failed {
                open.outcome = Outcome::Failed;
            }
            let Open { tag, submitted, outcome, left } = *open;
            if left == 0 {
                self.open.remove(*owner);
                done.push(Completed { tag, submitted, at, outcome });
            }
            whole &= left == 0;
        }
        whole
    }
}
