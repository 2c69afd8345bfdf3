//! Carries out an [`AccessListEngine`]'s commands on a page cache: no threads, no lock, no clock of
//! its own.
//!
//! `libprefetch` drives one for each client over the kernel's page cache, the simulator over a
//! modelled one. A call returns when the engine has nothing more to say about it: a
//! [`read`](Driver::read) that begins a round returns when the round has been asked for.
//!
//! A read answers [`Step::Want`] when the application should first say what it will read: the
//! caller runs the application's callback, which calls [`hint`](Driver::hint), and then
//! [`answered`](Driver::answered).

use crate::state::AccessListEngine;
use crate::{Settings, Stats};
use foreseek_seam::{
    Access, Command, Commands, Engine, Epoch, Event, FetchOutcome, HintCommand, HintEvent, HintMode,
    ObjectId, PageCache, Recorder, RequestId, StreamId, Who,
};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PageIndex, PageSpan, Position};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// How often the budget is asked for anew while reads go on. Reading the kernel's figures takes
/// tens of microseconds and they move within seconds.
const BUDGET_PERIOD: Nanos = Nanos::from_secs(1);

/// How many commands may follow from one call before the driver lets the read go and steps aside:
/// many more than a full list gives rise to, few enough to end within seconds.
const COMMANDS_PER_CALL: u64 = 1 << 24;

/// What a read does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read as ever.
    Pass,
    /// First ask the application, then call [`Driver::answered`].
    Want(Want),
}

/// A question to the application: what will it read?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// To be given to [`Driver::answered`].
    pub request: RequestId,
    /// The most recently accessed marked entry of the list, if any was.
    pub marked: Option<(ObjectId, PageIndex)>,
    /// The page that led to the question.
    pub requested: (ObjectId, PageIndex),
}

/// An engine and the execution of its commands.
pub struct Driver {
    engine: AccessListEngine,
    recorder: Option<Recorder>,
    out: Commands,
    queue: VecDeque<Command>,
    runs: Vec<PageSpan>,
    epochs: FxHashMap<ObjectId, Epoch>,
    next_request: u64,
    budget_told: Option<Instant>,
    /// Accesses were refused since the list was last replaced or the application last asked.
    refused: bool,
}

impl Driver {
    /// A driver with an empty list.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            engine: AccessListEngine::new(settings),
            recorder: None,
            out: Commands::new(),
            queue: VecDeque::new(),
            runs: Vec::new(),
            epochs: FxHashMap::default(),
            next_request: 0,
            budget_told: None,
            refused: false,
        }
    }

    /// Writes everything that the engine is told and says from now on; meant for a new driver, as a
    /// replay starts with a new engine.
    pub fn record_into(&mut self, mut recorder: Recorder) {
        recorder.begin(self.engine.settings());
        self.recorder = Some(recorder);
    }

    /// A stream was opened on an object of `length` bytes, or its object has that length now.
    pub fn open(
        &mut self,
        cache: &mut dyn PageCache,
        stream: StreamId,
        object: ObjectId,
        length: Bytes,
        who: Who,
    ) {
        let now = cache.now();
        self.tell(now, Event::Opened { stream, object, length, who });
        let extents = cache.extents(object);
        self.tell(now, Event::Placed { object, extents: &extents });
        self.carry_out(cache, None);
    }

    /// A stream was closed.
    pub fn close(&mut self, cache: &mut dyn PageCache, stream: StreamId) {
        let now = cache.now();
        self.tell(now, Event::Closed { stream });
        self.carry_out(cache, None);
    }

    /// Reads of this range are to be watched from now on.
    pub fn watch(&mut self, cache: &mut dyn PageCache, object: ObjectId, range: ByteSpan) {
        let now = cache.now();
        self.tell(now, Event::Hint(HintEvent::Watched { object, range }));
        self.carry_out(cache, None);
    }

    /// Reads of this range are no longer to be watched; the range as it was given to `watch`.
    pub fn unwatch(&mut self, cache: &mut dyn PageCache, object: ObjectId, range: ByteSpan) {
        let now = cache.now();
        self.tell(now, Event::Hint(HintEvent::Unwatched { object, range }));
        self.carry_out(cache, None);
    }

    /// The application tells what it will read. Answers how many of `accesses` were accepted: fewer
    /// than were given once the list is full. `done`: the application has no more to tell for now.
    /// If something was refused before, it is asked again when the list has room, as in the paper's
    /// figure 7: a callback ends with `done` whether all was taken or not.
    pub fn hint(
        &mut self,
        cache: &mut dyn PageCache,
        mode: HintMode,
        accesses: &[Access],
        done: bool,
    ) -> usize {
        let now = cache.now();
        let accepted = accesses.len().min(self.engine.room(mode));
        self.refused &= mode == HintMode::Append;
        self.refused |= accepted < accesses.len();
        let done = done && !self.refused;
        self.tell(now, Event::Hint(HintEvent::Hinted { mode, accesses: &accesses[..accepted], done }));
        self.carry_out(cache, None);
        accepted
    }

    /// A read is about to be made. To be called before each read of an object with watched ranges.
    pub fn read(&mut self, cache: &mut dyn PageCache, stream: StreamId, range: ByteSpan) -> Step {
        let now = cache.now();
        if self.budget_told.is_none_or(|told| now.since(told) >= BUDGET_PERIOD) {
            self.tell_budget(now, cache);
        }
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.tell(now, Event::Read { request, stream, range, who: None });
        self.carry_out(cache, Some(request))
    }

    /// The application has answered a [`Want`], with or without hints.
    pub fn answered(&mut self, cache: &mut dyn PageCache, request: RequestId) -> Step {
        let now = cache.now();
        self.tell_budget(now, cache);
        self.tell(now, Event::Hint(HintEvent::Answered { request }));
        self.carry_out(cache, Some(request))
    }

    /// The bytes of a range changed: what was fetched of it is no longer counted as ours.
    pub fn changed(&mut self, cache: &mut dyn PageCache, object: ObjectId, range: ByteSpan) {
        let now = cache.now();
        let epoch = self.epochs.entry(object).or_default();
        *epoch = Epoch(epoch.0.wrapping_add(1));
        let epoch = *epoch;
        self.tell(now, Event::Changed { object, range, epoch });
        self.carry_out(cache, None);
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.engine.stats()
    }

    fn tell_budget(&mut self, now: Instant, cache: &mut dyn PageCache) {
        self.budget_told = Some(now);
        let pages = cache.budget();
        self.tell(now, Event::Budget { pages });
    }

    /// Tells the engine and queues what it says.
    fn tell(&mut self, now: Instant, event: Event<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &event);
        }
        self.engine.on(now, event, &mut self.out);
        if let Some(recorder) = &mut self.recorder {
            recorder.commands(self.out.as_slice());
        }
        self.queue.extend(self.out.drain());
    }

    /// Carries out what is queued and what follows from it, until the engine has no more to say.
    fn carry_out(&mut self, cache: &mut dyn PageCache, request: Option<RequestId>) -> Step {
        let mut step = Step::Pass;
        let mut carried = 0;
        loop {
            while let Some(command) = self.queue.pop_front() {
                carried += 1;
                if let Some(answer) = self.execute(cache, command, request) {
                    step = answer;
                }
            }
            let Some(deadline) = self.engine.deadline() else { break };
            let now = cache.now();
            if deadline > now || carried > COMMANDS_PER_CALL {
                break;
            }
            self.tell(now, Event::Tick);
        }
        step
    }

    /// Carries out one command; the answer to `request`, if this is it.
    fn execute(
        &mut self,
        cache: &mut dyn PageCache,
        command: Command,
        request: Option<RequestId>,
    ) -> Option<Step> {
        match command {
            Command::Fetch { fetch, object, range, epoch, .. } => {
                let result = cache.fetch(object, range);
                let now = cache.now();
                match result {
                    Ok(got) => {
                        let outcome = FetchOutcome::Issued;
                        self.tell(now, Event::Done { fetch, epoch, got, outcome, in_flight: 0 });
                    }
                    Err(why) => self.tell(now, Event::Refused { fetch, why }),
                }
                None
            }
            Command::Hint(HintCommand::Forget { object, range }) => {
                cache.forget(object, range);
                None
            }
            Command::Hint(HintCommand::AskResident { query, object, range }) => {
                let mut runs = std::mem::take(&mut self.runs);
                runs.clear();
                let known = cache.resident(object, range, &mut runs);
                let now = cache.now();
                self.tell(now, Event::Hint(HintEvent::Resident { query, runs: known.then_some(&runs) }));
                self.runs = runs;
                None
            }
            Command::Pass { request: passed } => (Some(passed) == request).then_some(Step::Pass),
            Command::Hint(HintCommand::Want { request: asked, marked, requested }) => {
                (Some(asked) == request).then_some(Step::Want(Want { request: asked, marked, requested }))
            }
            // Advice has no frames: nothing is served or dropped.
            Command::Serving(_) => None,
        }
    }
}
