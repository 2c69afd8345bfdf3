//! The anticipatory scheduler: after a read it may keep the disk idle for a few milliseconds, since
//! the process that is now woken will probably ask for the sectors that follow (Iyer and Druschel,
//! SOSP 2001; Linux 2.6.0 to 2.6.32, `as-iosched.c`).
//!
//! Its queue is served as by an elevator: ascending, with short ways back allowed at twice the cost.
//! Synchronous and asynchronous requests are served in batches that alternate when both wait (see [`batch`]).
//! From time to time a batch checks its oldest request, and serves it without anticipation if it has waited too
//! long.
//!
//! In a read batch, before each choice, the scheduler decides whether to wait for the process whose read it
//! dispatched last. It waits unless
//!
//! - the chosen request is that process's, or the process has others waiting;
//! - the chosen one is *near* the disk's position, or nearer than the process's mean seek;
//! - the process thinks longer than the wait lasts (see [`process`]), or has ended.
//!
//! It never waits after a write, nor twice for one request. The wait begins at the end of that read and lasts
//! at most [`AnticipatorySettings::wait`]. For a request that comes meanwhile the decision is made again.
//!
//! With [`AnticipatorySettings::blind`] all requests have one process. Any waiting request is then that
//! process's, and there is no anticipation while any waits: what remains is the elevator.
//!
//! Limits: a process's requests count as in flight until they are complete, as with an IDE disk (SCSI drivers
//! report less to the scheduler). The time of a write batch always begins at its first request; the kernel
//! forgets it if reads were still in the device.

mod batch;
mod process;
mod settings;

pub use settings::{AnticipatorySettings, Rules};

use self::batch::{ASYNC, Batch, SYNC};
use self::process::{Newcomers, Process, after};
use super::contract::Scheduler;
use super::habits::ONE;
use super::queue::{RequestQueue, WaitingRequest, at_tick, ticks};
use crate::block::metrics::End;
use crate::block::{AnticipationTimer, Anticipations, Request, RequestId};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors};
use rustc_hash::FxHashMap;

/// Half of certainty, in the fixed point of the probabilities.
const LIKELY: u64 = ONE / 2;

/// After this many ticks everything is near, however long the wait is: the distance doubles with each tick.
const NEAR_LIMIT: u64 = 20;

/// The state of an anticipation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None.
    Off,
    /// Decided; the read before it is not complete.
    Decided,
    /// The disk is idle until this tick.
    Waiting { until: u64, since: Instant },
    /// Over: the next request is served, whichever it is.
    Over,
}

/// The anticipatory scheduler.
#[derive(Clone, Debug)]
pub struct Anticipatory {
    settings: AnticipatorySettings,
    queues: [RequestQueue; 2],
    /// The end of the last request of each kind.
    head: [Lba; 2],
    /// When the oldest request of each kind was last checked, as a tick.
    looked: [u64; 2],
    batch: Batch,
    in_device: usize,
    state: State,
    /// The process whose read was dispatched last, if the last request was a read.
    last_reader: Option<ProcessId>,
    /// The tick at which that read was complete.
    over: Option<u64>,
    processes: FxHashMap<ProcessId, Process>,
    newcomers: Newcomers,
    outcomes: Anticipations,
}

impl Anticipatory {
    /// A scheduler with an empty queue.
    #[must_use]
    pub fn new(settings: AnticipatorySettings) -> Self {
        Self {
            settings,
            queues: [RequestQueue::default(), RequestQueue::default()],
            head: [Lba::ZERO; 2],
            looked: [0; 2],
            batch: Batch::new(settings.batch),
            in_device: 0,
            state: State::Off,
            last_reader: None,
            over: None,
            processes: FxHashMap::default(),
            newcomers: Newcomers::default(),
            outcomes: Anticipations::default(),
        }
    }

    fn name(&self, pid: ProcessId) -> ProcessId {
        if self.settings.blind { ProcessId(0) } else { pid }
    }

    fn anticipating(&self) -> bool {
        matches!(self.state, State::Decided | State::Waiting { .. })
    }

    /// Ends an anticipation whose time is over.
    fn expire(&mut self, now: Instant) {
        if let State::Waiting { until, .. } = self.state
            && ticks(now) >= until
        {
            let awaited = self.last_reader.and_then(|pid| self.processes.get(&pid));
            if awaited.is_some_and(|process| process.think_mean().is_none()) {
                self.newcomers.gone = after(self.newcomers.gone, true);
            }
            if awaited.is_none_or(|process| !process.running) {
                self.newcomers.alone = after(self.newcomers.alone, true);
            }
            self.stop(at_tick(until), End::TimedOut);
        }
    }

    /// Ends the anticipation, if there is one.
    fn stop(&mut self, now: Instant, end: End) {
        match self.state {
            State::Decided => self.outcomes.ended_by(end, Nanos::ZERO),
            State::Waiting { since, .. } => self.outcomes.ended_by(end, now - since),
            State::Off | State::Over => return,
        }
        self.state = State::Over;
    }

    /// Whether this request ends the wait for the last reader, or prevents it.
    fn pointless(&mut self, now: Instant, request: Option<&Request>) -> Option<End> {
        let pid = self.last_reader?;
        if request.is_some_and(|request| self.name(request.pid) == pid) {
            return Some(End::Met);
        }
        if self.over.is_some_and(|over| ticks(now) - over >= self.settings.wait) {
            return Some(End::TimedOut);
        }
        let Some(process) = self.processes.get(&pid).copied() else { return Some(End::GivenUp) };
        if self.settings.rules == Rules::Linux2_6_3 && !process.running {
            self.ended_unused(&process);
            return Some(End::GivenUp);
        }
        if process.queued > 0 {
            return Some(End::Met);
        }
        if let Some(request) = request.filter(|request| request.synchronous)
            && self.near(now, request, &process)
        {
            self.helped(now, pid, request);
            return Some(End::Near);
        }
        if self.unlikely(&process) {
            return Some(End::GivenUp);
        }
        // 2.6.18 asks this only of synchronous requests, as part of nearness.
        let nearer = |request: &Request| self.distance(request) < process.seek_mean(&self.newcomers);
        request
            .filter(|request| self.settings.rules == Rules::Linux2_6_3 && nearer(request))
            .map(|_| End::Near)
    }

    /// The distance from the end of the last synchronous request.
    fn distance(&self, request: &Request) -> Sectors {
        self.head[SYNC].distance(request.range.start)
    }

    /// Whether another process's request is so near that it is served at once. The longer the wait has lasted,
    /// the less likely its request is to come, and the larger the distance that counts as near.
    fn near(&self, now: Instant, request: &Request, process: &Process) -> bool {
        let waited = self.over.filter(|_| self.state != State::Off).map_or(0, |over| ticks(now) - over);
        if waited > self.settings.wait.min(NEAR_LIMIT) {
            return true;
        }
        let reach = match self.settings.rules {
            Rules::Linux2_6_3 => 64 << waited.saturating_sub(1),
            Rules::Linux2_6_18 => 8192 << waited,
        };
        let (last, start) = (self.head[self.batch.side].get(), request.range.start.get());
        let within = last <= start + reach / 2 && start <= last + reach;
        let nearer = self.settings.rules == Rules::Linux2_6_18
            && self.distance(request) < process.seek_mean(&self.newcomers);
        within || nearer
    }

    /// Another process reads near the one that is waited for: they may work together.
    fn helped(&mut self, now: Instant, pid: ProcessId, request: &Request) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        match self.settings.rules {
            Rules::Linux2_6_3 => process.last_end = Some(ticks(now)),
            Rules::Linux2_6_18 => {
                if !process.running {
                    if process.think_mean().is_none() {
                        self.newcomers.gone = after(self.newcomers.gone, true);
                    }
                    self.newcomers.alone = after(self.newcomers.alone, false);
                }
                process.asks(ticks(now), request, &mut self.newcomers);
            }
        }
    }

    fn ended_unused(&mut self, process: &Process) {
        if process.think_mean().is_none() {
            self.newcomers.gone = after(self.newcomers.gone, true);
        }
    }

    /// Whether the process's next request is not expected in time.
    fn unlikely(&mut self, process: &Process) -> bool {
        if !process.running {
            self.ended_unused(process);
            if self.newcomers.alone > LIKELY {
                return true;
            }
        }
        match (process.think_mean(), self.settings.rules) {
            (Some(mean), _) => mean > self.settings.wait,
            (None, _) if self.newcomers.think_mean() > self.settings.wait => true,
            (None, Rules::Linux2_6_3) => self.newcomers.gone > LIKELY,
            (None, Rules::Linux2_6_18) => self.newcomers.gone * self.newcomers.alone > LIKELY * ONE,
        }
    }

    /// Whether the oldest request of a kind has waited too long; checked no more often than that time.
    fn too_old(&mut self, tick: u64, side: usize) -> bool {
        if tick - self.looked[side] < self.settings.expire[side] {
            return false;
        }
        self.looked[side] = tick;
        self.queues[side].oldest().is_some_and(|oldest| tick > oldest.expires)
    }

    fn oldest(&self, side: usize) -> Option<RequestId> {
        self.queues[side].oldest().map(|entry| entry.request.id)
    }

    fn next_of(&self, side: usize) -> Option<Request> {
        self.queues[side].elevator(self.head[side], self.settings.back).map(|entry| entry.request)
    }

    /// The request to serve; `None` if the disk is to stay idle.
    fn choose(&mut self, now: Instant) -> Option<RequestId> {
        let tick = ticks(now);
        let (reads, writes) = (!self.queues[SYNC].is_empty(), !self.queues[ASYNC].is_empty());
        if !(reads && writes && self.batch.expired(tick)) {
            let side = self.batch.side;
            let next = self.next_of(side);
            if side == SYNC && self.settings.wait > 0 {
                if self.too_old(tick, SYNC) {
                    return self.oldest(SYNC);
                }
                if self.waits(now, next.as_ref()) {
                    return None;
                }
            }
            if let Some(next) = next {
                if reads && !writes {
                    self.batch.prolong(tick);
                }
                return self.or_older(tick, next.id);
            }
        }
        if reads && !(writes && self.batch.side == SYNC) {
            self.batch.turn_to_reads();
            self.looked[SYNC] = tick;
            return self.oldest(SYNC);
        }
        self.batch.turn_to_writes();
        let next = self.next_of(ASYNC)?;
        self.or_older(tick, next.id)
    }

    fn or_older(&mut self, tick: u64, id: RequestId) -> Option<RequestId> {
        let side = self.batch.side;
        if self.too_old(tick, side) { self.oldest(side) } else { Some(id) }
    }

    /// Whether to wait for the last reader instead of serving this request; begins the wait.
    fn waits(&mut self, now: Instant, next: Option<&Request>) -> bool {
        if self.last_reader.is_none() || self.state == State::Over || self.pointless(now, next).is_some() {
            return false;
        }
        self.state = match self.over {
            Some(over) => State::Waiting { until: over + self.settings.wait, since: now },
            None => State::Decided,
        };
        true
    }

    fn send(&mut self, id: RequestId) -> Option<Request> {
        let side = self.batch.side;
        let request = self.queues[side].remove(id)?.request;
        self.state = State::Off;
        self.head[side] = request.range.end;
        self.over = None;
        self.in_device += 1;
        let pid = self.name(request.pid);
        let process = self.processes.entry(pid).or_insert_with(|| Process::new(0, 0));
        process.queued = process.queued.saturating_sub(1);
        process.in_device += 1;
        let reader = (side == SYNC).then_some(pid);
        if side == ASYNC {
            self.batch.writes_left = self.batch.writes_left.saturating_sub(1);
        }
        let before = std::mem::replace(&mut self.last_reader, reader);
        self.forget(before);
        Some(request)
    }

    /// Drops the data of a process that has ended, when none of its requests is left.
    fn forget(&mut self, pid: Option<ProcessId>) {
        let Some(pid) = pid.filter(|pid| self.last_reader != Some(*pid)) else { return };
        let gone = |process: &Process| !process.running && process.queued + process.in_device == 0;
        if self.processes.get(&pid).is_some_and(gone) {
            self.processes.remove(&pid);
        }
    }
}

fn side(request: &Request) -> usize {
    if request.synchronous { SYNC } else { ASYNC }
}

impl Scheduler for Anticipatory {
    fn add(&mut self, now: Instant, request: Request) {
        self.expire(now);
        let (pid, side, tick) = (self.name(request.pid), side(&request), ticks(now));
        let process = self.processes.entry(pid).or_insert_with(|| Process::new(0, 0));
        if !process.running {
            // A new process has the number of an ended one.
            *process = Process::new(process.queued, process.in_device);
        }
        if side == SYNC {
            process.asks(tick, &request, &mut self.newcomers);
        }
        process.queued += 1;
        self.queues[side].insert(request, tick + self.settings.expire[side]);
        if self.anticipating()
            && let Some(end) = self.pointless(now, Some(&request))
        {
            self.stop(now, end);
        }
    }

    fn grown(&mut self, _now: Instant, id: RequestId, range: SectorSpan) {
        let _ = self.queues[SYNC].grow(id, range) || self.queues[ASYNC].grow(id, range);
    }

    fn absorbed(&mut self, _now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan) {
        let entry = if self.queues[SYNC].get(kept).is_some() {
            absorb(&mut self.queues, SYNC, kept, gone, range)
        } else {
            absorb(&mut self.queues, ASYNC, kept, gone, range)
        };
        if let Some(entry) = entry {
            let pid = self.name(entry.request.pid);
            if let Some(process) = self.processes.get_mut(&pid) {
                process.queued = process.queued.saturating_sub(1);
            }
            self.forget(Some(pid));
        }
    }

    fn dispatch(&mut self, now: Instant) -> Option<Request> {
        self.expire(now);
        let (reads, writes) = (!self.queues[SYNC].is_empty(), !self.queues[ASYNC].is_empty());
        if self.batch.side == ASYNC && !reads && (self.batch.writes_left == 0 || !writes) {
            self.batch.idled = true;
        }
        if !(reads || writes) || self.anticipating() || self.batch.changed {
            return None;
        }
        let id = self.choose(now)?;
        if self.batch.changed {
            if self.in_device > 0 {
                return None;
            }
            self.batch.begin(ticks(now));
        }
        self.send(id)
    }

    fn completed(&mut self, now: Instant, request: &Request, whole: bool) {
        self.expire(now);
        let tick = ticks(now);
        if self.batch.changed && self.in_device == 1 {
            self.batch.begin(tick);
        }
        self.in_device -= 1;
        if self.batch.new && self.batch.side == side(request) {
            self.batch.first_over(tick);
        }
        let pid = self.name(request.pid);
        let process = self.processes.entry(pid).or_insert_with(|| Process::new(0, 0));
        process.in_device = process.in_device.saturating_sub(1);
        if request.synchronous {
            process.last_end = Some(tick);
        }
        // Pieces that are neither here nor in the device may take long to come.
        let all = whole || process.in_device == 0;
        if self.last_reader == Some(pid) && (all || self.settings.timer == AnticipationTimer::FirstPiece) {
            self.over = Some(tick);
            if self.state == State::Decided {
                self.state = State::Waiting { until: tick + self.settings.wait, since: now };
            }
        }
        self.forget(Some(pid));
    }

    fn exited(&mut self, now: Instant, pid: ProcessId) {
        self.expire(now);
        if self.settings.blind {
            return;
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.running = false;
        let process = *process;
        if self.awaits(pid) && self.settings.rules == Rules::Linux2_6_3 {
            self.ended_unused(&process);
            self.stop(now, End::GivenUp);
        }
        self.forget(Some(pid));
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until, .. } => Some(at_tick(until)),
            _ => None,
        }
    }

    fn waiting(&self) -> usize {
        self.queues[SYNC].len() + self.queues[ASYNC].len()
    }

    fn awaits(&self, pid: ProcessId) -> bool {
        self.anticipating() && self.last_reader == Some(self.name(pid))
    }

    fn anticipations(&self) -> Anticipations {
        self.outcomes
    }
}

/// Both requests have one direction, but one may be synchronous and the other not.
fn absorb(
    queues: &mut [RequestQueue; 2],
    side: usize,
    kept: RequestId,
    gone: RequestId,
    range: SectorSpan,
) -> Option<WaitingRequest> {
    if queues[side].get(gone).is_some() {
        return queues[side].absorb(kept, gone, range);
    }
    queues[side].grow(kept, range);
    queues[1 - side].remove(gone)
}
