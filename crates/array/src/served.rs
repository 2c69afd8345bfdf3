//! A device that is being served: carries out the driver's actions.
//!
//! The driver is behind one lock, held while it decides and while frames are claimed. I/O is started and
//! answers are copied after it. A hit is answered in the thread that received the request, and so is a miss if
//! its read is the only one in flight: to wake other threads takes some per cent of a disk's read. The other
//! requests are answered by the threads that complete I/O.

use crate::below::Below;
use crate::changes::Changes;
use crate::gather::{Gather, Place};
use crate::options::{DATA_MEMORY, Parts};
use crate::pause::PauseWatch;
use crate::{AttachOptions, Error};
use foreseek_export::{DataReply, DoneReply, Failure, Request, Server};
use foreseek_seam::{FetchId, RequestId, Urgency};
use foreseek_storage::reads::{DiskRead, DiskReader, Ended, Target, read_here};
use foreseek_storage::{Arena, Buffer, Frames, Reading, available};
use foreseek_strips::Outcome;
use foreseek_strips::driver::{Action, StripDriver, skip};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, Stripes};
use serde::{Deserialize, Serialize};
use slab::Slab;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The status of an array. Counts are since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its policy.
    pub policy: String,
    /// Bytes of a strip.
    pub strip_bytes: u64,
    /// Its members, including those of parity.
    pub members: u64,
    /// `raid0`, `raid5` or `raid6`.
    pub level: String,
    /// The copies of each strip: more than one in a RAID-10, whose members are pairs here.
    pub copies: u64,
    /// Blocks of 4 KiB that were read and had been requested before.
    pub cache_hits: u64,
    /// Blocks that were read and had been prefetched.
    pub prefetch_hits: u64,
    /// Blocks that were read from the array for a request.
    pub misses: u64,
    /// Blocks that were read without the cache.
    pub uncached: u64,
    /// The share of the blocks read that were hits of either kind; `None` before the first.
    pub hit_rate: Option<f64>,
    /// Blocks that strip prefetching has read in addition to those requested.
    pub strip_blocks: u64,
    /// Blocks that massive stripe prefetching has read.
    pub massive_blocks: u64,
    /// Prefetched blocks that were evicted unused.
    pub culled: u64,
    /// Strips that were evicted.
    pub evicted: u64,
    /// Strips in the upstream, and its limit.
    pub upstream: (u64, u64),
    /// Strips in the downstream.
    pub downstream: u64,
    /// Whole stripes that were written together from the pieces in which they came.
    #[serde(default)]
    pub joined_stripes: u64,
    /// Bytes in the cache.
    pub cached_bytes: u64,
    /// The modelled disk time with strip prefetching and without, in nanoseconds; `None` where the policy
    /// does not compare them.
    pub costs_ns: Option<(u64, u64)>,
    /// The time of a read of each member beyond its profile, in microseconds, if the policy measures it.
    #[serde(default)]
    pub beyond_profile_us: Vec<i64>,
    /// Why prefetching is paused, if it is.
    #[serde(default, alias = "resting")]
    pub paused: Option<String>,
    /// The current length of the backing device, if it differs from the served one.
    #[serde(default, alias = "below_bytes")]
    pub backing_bytes: Option<u64>,
    /// Precautions against emergencies that could not be taken, one line each.
    pub precautions: Vec<String>,
    /// Clients that are connected over NBD.
    pub clients: Vec<String>,
}

/// An unanswered request.
enum Pending {
    Read(DataReply),
    Write(ByteSpan, Buffer, DoneReply),
    Discard(ByteSpan, DoneReply),
}

/// A write that goes below.
struct Write {
    request: RequestId,
    data: Buffer,
    reply: DoneReply,
}

/// When a read below was handed to the kernel, and when it ended.
type Times = (Instant, Instant);

/// The purpose of a read below.
enum Under {
    Fetch(FetchId),
    Part(RequestId, usize),
}

/// A read without the cache.
struct Pass {
    reply: DataReply,
    parts: Vec<Option<Buffer>>,
    left: usize,
    failed: bool,
}

struct State {
    driver: StripDriver,
    pending: HashMap<RequestId, Pending>,
    requests: u64,
    under: Slab<Under>,
    passes: HashMap<RequestId, Pass>,
    /// Reads without the cache that wait for memory.
    short: VecDeque<(RequestId, ByteSpan, DataReply)>,
    paused: Option<String>,
    /// The current length of the device below, if it has changed.
    below_now: Option<Bytes>,
}

/// What to do once the lock is free.
#[derive(Default)]
struct Todo {
    reads: Vec<DiskRead>,
    /// Its only read is the only one in flight, and is waited for.
    alone: bool,
    served: Vec<(DataReply, ByteSpan, Reading)>,
    passed: Vec<Pass>,
    changes: Vec<(RequestId, Pending)>,
}

/// See the module's documentation.
pub(crate) struct Served {
    this: Weak<Self>,
    state: Mutex<State>,
    below: Arc<Below>,
    frames: Arc<Frames>,
    reads: Arc<dyn DiskReader>,
    changes: Changes,
    gather: Gather<Write>,
    /// [`Status::joined_stripes`].
    joined_stripes: AtomicU64,
    read_memory: Arc<Arena>,
    change_memory: Arc<Arena>,
    policy: String,
    stripes: Stripes,
    copies: u64,
    /// The origin of times.
    origin: std::time::Instant,
}

/// A device that has just been started.
pub(crate) struct Started {
    pub(crate) served: Arc<Served>,
    /// To be kept as long.
    pub(crate) pause: PauseWatch,
    /// The warning, if any.
    pub(crate) warning: Option<String>,
}

impl Served {
    pub(crate) fn start(options: &AttachOptions, below: Below) -> Result<Started, Error> {
        options.check_memory(available().bytes)?;
        let Parts { engine, geometry, stripes, frames, found } = options.parts(&below)?;
        let memory =
            || Error::Refused(format!("there is no memory of {} for it", Bytes(options.memory_bytes)));
        let driver = StripDriver::new(engine, geometry, frames.get() as u32);
        let frames = Frames::touched(frames).ok_or_else(memory)?;
        let read_memory = Arena::new(DATA_MEMORY).ok_or_else(memory)?;
        let change_memory = Arena::new(DATA_MEMORY).ok_or_else(memory)?;
        let threads = |error| Error::Refused(format!("cannot start its threads: {error}"));
        let changes = Changes::start().map_err(threads)?;
        let gather = Gather::new(&stripes, below.origin());
        let state = State {
            driver,
            pending: HashMap::new(),
            requests: 0,
            under: Slab::new(),
            passes: HashMap::new(),
            short: VecDeque::new(),
            paused: None,
            below_now: None,
        };
        let mut started = Err(std::io::Error::other("not yet"));
        let served = Arc::new_cyclic(|this: &Weak<Self>| {
            let to = this.clone();
            let sink = move |ended| {
                if let Some(to) = to.upgrade() {
                    to.ended(ended);
                }
            };
            started = foreseek_storage::reads::start(Box::new(sink));
            let reads: Arc<dyn DiskReader> = match &started {
                Ok((reads, _)) => Arc::clone(reads),
                Err(_) => Arc::new(Nothing),
            };
            Self {
                this: this.clone(),
                state: Mutex::new(state),
                below: Arc::new(below),
                frames,
                reads,
                changes,
                gather,
                joined_stripes: AtomicU64::new(0),
                read_memory,
                change_memory,
                policy: options.policy.clone(),
                stripes,
                copies: found.map_or(1, |found| found.copies),
                origin: std::time::Instant::now(),
            }
        });
        let (_, warning) = started.map_err(threads)?;
        let pause = PauseWatch::start(Arc::downgrade(&served), Arc::clone(&served.below), found);
        Ok(Started { served, pause: pause.map_err(threads)?, warning })
    }

    /// The device below has this length now.
    pub(crate) fn below_now(&self, length: Option<Bytes>) {
        let changed = length.filter(|length| *length != self.below.length());
        let mut state = self.lock();
        if let Some(length) = changed.filter(|_| state.below_now != changed) {
            tracing::warn!("the device below has {length} now, and {} are served", self.below.length());
        }
        state.below_now = changed;
    }

    /// Pauses prefetching for this reason, or resumes it.
    pub(crate) fn pause(&self, why: Option<String>) {
        let mut state = self.lock();
        if state.paused == why {
            return;
        }
        match &why {
            Some(why) => tracing::info!("prefetching rests: {why}"),
            None => tracing::info!("prefetching goes on"),
        }
        state.driver.pause(why.is_some());
        state.paused = why;
    }

    /// Its status.
    pub(crate) fn status(&self) -> Status {
        let state = self.lock();
        let cache = state.driver.cache();
        let (stats, (up, down, _)) = (cache.stats(), cache.strips());
        let hits = stats.cache_hits + stats.prefetch_hits;
        let blocks = hits + stats.misses + stats.uncached;
        Status {
            policy: self.policy.clone(),
            strip_bytes: self.stripes.strip.bytes().get(),
            members: self.stripes.members,
            level: self.stripes.level.name().to_owned(),
            copies: self.copies,
            cache_hits: stats.cache_hits,
            prefetch_hits: stats.prefetch_hits,
            misses: stats.misses,
            uncached: stats.uncached,
            hit_rate: (blocks > 0).then(|| hits as f64 / blocks as f64),
            strip_blocks: stats.strip_blocks,
            massive_blocks: stats.massive_blocks,
            culled: stats.culled,
            evicted: stats.evicted,
            upstream: (up, cache.upstream_limit()),
            downstream: down,
            joined_stripes: self.joined_stripes.load(Ordering::Relaxed),
            cached_bytes: cache.used().bytes().get(),
            paused: state.paused.clone(),
            backing_bytes: state.below_now.map(Bytes::get),
            precautions: Vec::new(),
            clients: Vec::new(),
            costs_ns: cache.costs().map(|(with, without)| (with.get(), without.get())),
            beyond_profile_us: cache.beyond_profile().map(|ns| ns / 1000).collect(),
        }
    }

    fn at(&self, time: std::time::Instant) -> Instant {
        Instant::ZERO + Nanos::from(time.saturating_duration_since(self.origin))
    }

    fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver decide, claims the memory, and carries the actions out.
    fn step(&self, decide: impl FnOnce(&mut State, &mut Vec<Action>)) {
        let todo = self.decide(decide);
        self.carry_out(todo);
    }

    /// Has the driver decide, and claims the memory.
    fn decide(&self, decide: impl FnOnce(&mut State, &mut Vec<Action>)) -> Todo {
        let (mut todo, mut actions) = (Todo::default(), Vec::new());
        let mut state = self.lock();
        decide(&mut state, &mut actions);
        self.claim(&mut state, actions, &mut todo);
        self.begin_passes(&mut state, &mut todo);
        todo.alone = state.under.len() == 1 && todo.reads.first().is_some_and(|read| read.urgent);
        todo
    }

    fn claim(&self, state: &mut State, actions: Vec<Action>, todo: &mut Todo) {
        let mut actions = VecDeque::from(actions);
        while let Some(act) = actions.pop_front() {
            match act {
                Action::Fetch { fetch, pages, frames, urgency } => match self.frames.fill(&frames) {
                    Some(filling) => {
                        let (into, range) = (Target::Frames(filling), pages.bytes());
                        let under = Under::Fetch(fetch);
                        todo.reads.push(self.read(state, under, range, into, urgency == Urgency::Demand));
                    }
                    // A slow reply still reads one of the frames.
                    None => {
                        let mut more = Vec::new();
                        state.driver.fetched(fetch, Outcome::Failed, &mut more);
                        actions.extend(more);
                    }
                },
                Action::Serve { request, range, frames } => {
                    let Some(Pending::Read(reply)) = state.pending.remove(&request) else { continue };
                    match self.frames.read(&frames) {
                        Some(reading) => todo.served.push((reply, range, reading)),
                        None => state.short.push_back((request, range, reply)),
                    }
                }
                Action::Pass { request, range } => {
                    let Some(Pending::Read(reply)) = state.pending.remove(&request) else { continue };
                    state.short.push_back((request, range, reply));
                }
                Action::Change { request } => match state.pending.remove(&request) {
                    Some(change) => todo.changes.push((request, change)),
                    // Nobody waits for it. It is over, so that nothing waits behind it.
                    None => {
                        let mut more = Vec::new();
                        state.driver.changed(request, self.now(), &mut more);
                        actions.extend(more);
                    }
                },
                Action::Empty { frames } => self.frames.empty(&frames),
            }
        }
    }

    /// Begins the reads without the cache for which there is memory, in order.
    fn begin_passes(&self, state: &mut State, todo: &mut Todo) {
        while let Some((request, range, reply)) = state.short.pop_front() {
            let parts: Vec<ByteSpan> = state.driver.parts(range).collect();
            let take = |part: &ByteSpan| self.read_memory.try_take(part.len().get() as usize);
            let Some(buffers) = parts.iter().map(take).collect::<Option<Vec<_>>>() else {
                state.short.push_front((request, range, reply));
                return;
            };
            let left = parts.len();
            let pass = Pass { reply, parts: (0..left).map(|_| None).collect(), left, failed: false };
            state.passes.insert(request, pass);
            for (at, (part, buffer)) in parts.into_iter().zip(buffers).enumerate() {
                let under = Under::Part(request, at);
                todo.reads.push(self.read(state, under, part, Target::Buffer(buffer), true));
            }
        }
    }

    fn read(&self, state: &mut State, under: Under, range: ByteSpan, into: Target, urgent: bool) -> DiskRead {
        let token = state.under.insert(under) as u64;
        DiskRead { token, file: self.below.reads(), offset: range.start, into, urgent, apart: false }
    }

    fn carry_out(&self, todo: Todo) {
        if !todo.reads.is_empty() {
            let refused = self.reads.start(todo.reads);
            self.over(refused.into_iter().map(|read| (read, None)).collect());
        }
        for (request, change) in todo.changes {
            self.change(request, change);
        }
        for (reply, range, reading) in todo.served {
            let slices = reading.slices(skip(range).get() as usize, range.len().get() as usize);
            answer(reply, &slices);
        }
        let passed = !todo.passed.is_empty();
        for Pass { reply, parts, failed, .. } in todo.passed {
            if failed {
                reply.fail(Failure::Io);
            } else {
                let parts: Vec<&[u8]> = parts.iter().flatten().map(|part| &**part).collect();
                answer(reply, &parts);
            }
        }
        if passed {
            // Their memory is free.
            self.step(|_, _| {});
        }
    }

    /// Has a thread make a change below, and answer it.
    fn change(&self, request: RequestId, change: Pending) {
        let Some(this) = self.this.upgrade() else { return };
        match change {
            Pending::Write(range, data, reply) => {
                if let Some(place) = self.gather.add(range, Write { request, data, reply }) {
                    self.changes.add(Box::new(move || this.write(place)));
                }
            }
            Pending::Discard(range, reply) => {
                self.changes.add(Box::new(move || this.changed(request, reply, this.below.discard(range))));
            }
            Pending::Read(_) => {}
        }
    }

    /// Makes a write below together with its neighbours, unless another thread makes it.
    fn write(&self, place: Place<Write>) {
        let writes = self.gather.wait(place);
        if writes.len() > 1 {
            self.joined_stripes.fetch_add(self.gather.stripes(&writes), Ordering::Relaxed);
        }
        let results = self.below.write_joined(writes.iter().map(|(range, write)| (*range, &*write.data)));
        for ((_, Write { request, reply, .. }), result) in writes.into_iter().zip(results) {
            self.changed(request, reply, result);
        }
    }

    /// A change has ended below.
    fn changed(&self, request: RequestId, reply: DoneReply, result: Result<(), Failure>) {
        // Answered after the cache has dropped its copies, and before the waiting requests continue.
        let now = self.now();
        self.step(|state, actions| state.driver.changed(request, now, actions));
        reply.end(result);
    }

    /// Reads below have ended.
    fn ended(&self, ended: Vec<Ended>) {
        let well = |ended: Ended| {
            // A short read means that the device was truncated.
            let all = ended.error.is_none() && ended.got == Bytes(ended.read.into.len() as u64);
            let times = (self.at(ended.issued), self.at(ended.ended));
            (ended.read, all.then_some(times))
        };
        self.over(ended.into_iter().map(well).collect());
    }

    /// These reads have ended, with their times where they are complete.
    fn over(&self, reads: Vec<(DiskRead, Option<Times>)>) {
        if reads.is_empty() {
            return;
        }
        let mut todo = Todo::default();
        {
            let mut state = self.lock();
            for (read, times) in reads {
                let Some(under) = state.under.try_remove(read.token as usize) else { continue };
                let well = times.is_some();
                if let Some((begun, now)) = times {
                    let range = ByteSpan::at(read.offset, Bytes(read.into.len() as u64));
                    state.driver.took(range, begun, now);
                }
                match (under, read.into) {
                    (Under::Fetch(fetch), Target::Frames(filling)) => {
                        let length = Bytes(filling.len() as u64);
                        filling.finish(if well { length } else { Bytes::ZERO });
                        let outcome = if well { Outcome::Arrived } else { Outcome::Failed };
                        let mut actions = Vec::new();
                        state.driver.fetched(fetch, outcome, &mut actions);
                        self.claim(&mut state, actions, &mut todo);
                    }
                    (Under::Part(request, at), Target::Buffer(buffer)) => {
                        let Some(pass) = state.passes.get_mut(&request) else { continue };
                        pass.parts[at] = Some(buffer);
                        pass.failed |= !well;
                        pass.left -= 1;
                        if pass.left == 0 {
                            todo.passed.extend(state.passes.remove(&request));
                        }
                    }
                    _ => {}
                }
            }
            self.begin_passes(&mut state, &mut todo);
        }
        self.carry_out(todo);
    }

    fn take_on(&self, range: ByteSpan, pending: Pending) {
        let (is_read, may_wait) = match &pending {
            Pending::Read(reply) => (true, reply.leaves_others()),
            Pending::Write(..) | Pending::Discard(..) => (false, false),
        };
        let mut todo = self.decide(|state, actions| {
            let request = RequestId(state.requests);
            state.requests += 1;
            state.pending.insert(request, pending);
            if is_read {
                state.driver.read(request, range, actions);
            } else {
                state.driver.change(request, range, actions);
            }
        });
        let here = if may_wait && todo.alone { todo.reads.pop() } else { None };
        self.carry_out(todo);
        if let Some(read) = here {
            self.ended(vec![read_here(read)]);
        }
    }
}

impl Server for Served {
    fn serve(&self, request: Request<'_>) {
        match request {
            Request::Read { range, reply } => self.take_on(range, Pending::Read(reply)),
            Request::Write { range, data, reply } => {
                // Waits for memory, which changes in flight give back without needing any.
                let Some(mut buffer) = self.change_memory.take(data.len()) else {
                    return reply.end(Err(Failure::Io));
                };
                buffer.copy_from_slice(data);
                self.take_on(range, Pending::Write(range, buffer, reply));
            }
            Request::Discard { range, reply } => self.take_on(range, Pending::Discard(range, reply)),
            Request::Flush { reply } => {
                let Some(this) = self.this.upgrade() else { return };
                self.lock().driver.wide_begins();
                self.changes.add(Box::new(move || {
                    let result = this.below.flush();
                    this.lock().driver.wide_ends(this.now());
                    reply.end(result);
                }));
            }
        }
    }
}

/// Answers with these bytes; they are copied together only if they are in several pieces.
fn answer(reply: DataReply, slices: &[&[u8]]) {
    match slices {
        [one] => reply.data(one),
        several => reply.data(&several.concat()),
    }
}

/// Accepts no reads: a substitute until it is reported that no threads could be started.
struct Nothing;

impl DiskReader for Nothing {
    fn start(&self, reads: Vec<DiskRead>) -> Vec<DiskRead> {
        reads
    }

    fn stop(&self, _: std::time::Duration) -> bool {
        true
    }
}
