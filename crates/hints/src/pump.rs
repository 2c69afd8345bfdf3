//! An [`AccessListEngine`] as a pump: it returns its needs, and is passed the answers.
//!
//! A driver carries out the engine's commands. Some drivers call a page cache and have the answer when the call
//! returns ([`Driver`](crate::Driver)). For a modelled process each need is a step in virtual time, during
//! which other processes run. The pump serves both. After each call ([`open`](Pump::open),
//! [`read`](Pump::read), [`hint`](Pump::hint), ...) the caller calls [`advance`](Pump::advance) until the call
//! is [over](Next::Over). It carries out each [`Need`] and passes the answer to [`fetched`](Pump::fetched),
//! [`forgotten`](Pump::forgotten) or [`resident`](Pump::resident).
//!
//! An event has the time of the call that passes it, and time does not run backwards.

use crate::state::AccessListEngine;
use crate::{Settings, Stats};
use foreseek_seam::{
    Access, Command, Commands, Engine, Epoch, Event, Extent, FetchId, FetchOutcome, HintCommand, HintEvent,
    HintMode, ObjectId, ProcessId, QueryId, Recorder, Refusal, RequestId, StreamId,
};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PageIndex, PageSpan, Pages, Position};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// How often the budget is requested while reads go on. Reading the kernel's figures takes tens of
/// microseconds, and they change within seconds.
const BUDGET_PERIOD: Nanos = Nanos::from_secs(1);

/// The most commands of one call, after which the pump lets the read pass: many more than a full list gives
/// rise to, few enough to end within seconds.
const COMMANDS_PER_CALL: u64 = 1 << 24;

/// What a read does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read without change.
    Pass,
    /// First run the application's callback, then call [`Pump::answered`].
    Callback(CallbackRequest),
}

/// A callback to the application, which asks for its coming reads (ATC'09 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackRequest {
    /// The argument for [`Pump::answered`].
    pub request: RequestId,
    /// The most recently accessed marked entry of the list, if any was.
    pub marked: Option<(ObjectId, PageIndex)>,
    /// The page whose read led to the callback.
    pub requested: (ObjectId, PageIndex),
}

/// What the engine needs of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Fetch pages; answered by [`Pump::fetched`].
    Fetch(ObjectId, PageSpan),
    /// Release pages; answered by [`Pump::forgotten`].
    Forget(ObjectId, PageSpan),
    /// Report which of these pages are in memory; answered by [`Pump::resident`].
    Resident(ObjectId, PageSpan),
}

/// What comes next in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Carry this out and pass the answer.
    Do(Need),
    /// The call is over, with the answer if it was a read.
    Over(Step),
}

/// What the awaited answer belongs to.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Fetch(FetchId, Epoch),
    Query(QueryId),
}

/// An engine and its commands that are not carried out yet.
pub struct Pump {
    engine: AccessListEngine,
    recorder: Option<Recorder>,
    out: Commands,
    queue: VecDeque<Command>,
    now: Instant,
    /// The request whose answer ends the call.
    request: Option<RequestId>,
    /// The answer so far.
    step: Step,
    /// Commands of this call so far.
    carried: u64,
    waiting: Option<Waiting>,
    epochs: FxHashMap<ObjectId, Epoch>,
    next_request: u64,
    budget_given: Option<Instant>,
    /// Accesses were refused since the list was last replaced.
    refused: bool,
}

impl Pump {
    /// A pump with an empty list.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            engine: AccessListEngine::new(settings),
            recorder: None,
            out: Commands::new(),
            queue: VecDeque::new(),
            now: Instant::ZERO,
            request: None,
            step: Step::Pass,
            carried: 0,
            waiting: None,
            epochs: FxHashMap::default(),
            next_request: 0,
            budget_given: None,
            refused: false,
        }
    }

    /// Records all further events and commands of the engine. Call it on a new pump, as a replay starts with a
    /// new engine.
    pub fn record_into(&mut self, mut recorder: Recorder) {
        recorder.begin(self.engine.settings());
        self.recorder = Some(recorder);
    }

    /// A stream was opened on an object of `length` bytes in `extents`, or its object's length has changed to
    /// `length`.
    pub fn open(
        &mut self,
        now: Instant,
        opened: (StreamId, ObjectId, ProcessId),
        length: Bytes,
        extents: &[Extent],
    ) {
        let (stream, object, pid) = opened;
        self.begin(now, None);
        self.notify(Event::Opened { stream, object, length, pid });
        self.notify(Event::Placed { object, extents });
    }

    /// A stream was closed.
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        self.begin(now, None);
        self.notify(Event::Closed { stream });
    }

    /// Starts to watch reads of this range.
    pub fn watch(&mut self, now: Instant, object: ObjectId, range: ByteSpan) {
        self.begin(now, None);
        self.notify(Event::Hint(HintEvent::Watched { object, range }));
    }

    /// Ends the watch of a range that was passed to `watch`.
    pub fn unwatch(&mut self, now: Instant, object: ObjectId, range: ByteSpan) {
        self.begin(now, None);
        self.notify(Event::Hint(HintEvent::Unwatched { object, range }));
    }

    /// The application announces its reads. Returns how many of `accesses` were accepted: fewer than given once
    /// the list is full. `done`: the application has no more for now. If some were refused, the application is
    /// asked again when the list has room, as in the paper's figure 7: a callback ends with `done` whether all
    /// were accepted or not.
    pub fn hint(&mut self, now: Instant, mode: HintMode, accesses: &[Access], done: bool) -> usize {
        let accepted = accesses.len().min(self.engine.room(mode));
        self.refused &= mode == HintMode::Append;
        self.refused |= accepted < accesses.len();
        let done = done && !self.refused;
        self.begin(now, None);
        self.notify(Event::Hint(HintEvent::Hinted { mode, accesses: &accesses[..accepted], done }));
        accepted
    }

    /// Whether [`budget`](Self::budget) is to be called before the next read.
    #[must_use]
    pub fn wants_budget(&self, now: Instant) -> bool {
        self.budget_given.is_none_or(|given| now.since(given) >= BUDGET_PERIOD)
    }

    /// Sets the memory for cached pages. Call it when [wanted](Self::wants_budget) and before each
    /// [`answered`](Self::answered); it is part of the call that follows.
    pub fn budget(&mut self, now: Instant, pages: Pages) {
        self.now = now;
        self.budget_given = Some(now);
        self.notify(Event::Budget { pages });
    }

    /// A read is about to be made. Call it before each read of an object with watched ranges.
    pub fn read(&mut self, now: Instant, stream: StreamId, range: ByteSpan) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.begin(now, Some(request));
        self.notify(Event::Read { request, stream, range, pid: None });
    }

    /// The application has answered a [`CallbackRequest`], with or without hints.
    pub fn answered(&mut self, now: Instant, request: RequestId) {
        self.begin(now, Some(request));
        self.notify(Event::Hint(HintEvent::Answered { request }));
    }

    /// The bytes of a range changed: pages fetched of it no longer count as prefetched.
    pub fn changed(&mut self, now: Instant, object: ObjectId, range: ByteSpan) {
        let epoch = self.epochs.entry(object).or_default();
        *epoch = Epoch(epoch.0.wrapping_add(1));
        let epoch = *epoch;
        self.begin(now, None);
        self.notify(Event::Changed { object, range, epoch });
    }

    /// The next need of the call.
    pub fn advance(&mut self) -> Next {
        loop {
            while let Some(command) = self.queue.pop_front() {
                self.carried += 1;
                if let Some(need) = self.need(command) {
                    return Next::Do(need);
                }
            }
            let due = self.engine.deadline().is_some_and(|deadline| deadline <= self.now);
            if !due || self.carried > COMMANDS_PER_CALL {
                return Next::Over(self.step);
            }
            self.notify(Event::Tick);
        }
    }

    /// The answer to [`Need::Fetch`]: how many pages from its start were requested, or why none.
    pub fn fetched(&mut self, now: Instant, result: Result<Pages, Refusal>) {
        self.now = now;
        let Some(Waiting::Fetch(fetch, epoch)) = self.waiting.take() else { return };
        match result {
            Ok(got) => {
                self.notify(Event::Done { fetch, epoch, got, outcome: FetchOutcome::Issued, in_flight: 0 });
            }
            Err(why) => self.notify(Event::Refused { fetch, why }),
        }
    }

    /// The answer to [`Need::Forget`].
    pub fn forgotten(&mut self, now: Instant) {
        self.now = now;
    }

    /// The answer to [`Need::Resident`]: the runs in memory, ascending; `None` if they are not known.
    pub fn resident(&mut self, now: Instant, runs: Option<&[PageSpan]>) {
        self.now = now;
        let Some(Waiting::Query(query)) = self.waiting.take() else { return };
        self.notify(Event::Hint(HintEvent::Resident { query, runs }));
    }

    /// Whether the whole list has been fetched in a round that holds it.
    #[must_use]
    pub fn has_fetched_all(&self) -> bool {
        self.engine.has_fetched_all()
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.engine.stats()
    }

    /// A call begins.
    fn begin(&mut self, now: Instant, request: Option<RequestId>) {
        self.now = now;
        self.request = request;
        self.step = Step::Pass;
        self.carried = 0;
    }

    /// Passes an event to the engine and queues its commands.
    fn notify(&mut self, event: Event<'_>) {
        let now = self.now;
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &event);
        }
        self.engine.on(now, event, &mut self.out);
        if let Some(recorder) = &mut self.recorder {
            recorder.commands(self.out.as_slice());
        }
        self.queue.extend(self.out.drain());
    }

    /// What a command needs, if anything. Keeps the answer to the call's request.
    fn need(&mut self, command: Command) -> Option<Need> {
        match command {
            Command::Fetch { fetch, object, range, epoch, .. } => {
                self.waiting = Some(Waiting::Fetch(fetch, epoch));
                Some(Need::Fetch(object, range))
            }
            Command::Hint(HintCommand::Forget { object, range }) => Some(Need::Forget(object, range)),
            Command::Hint(HintCommand::AskResident { query, object, range }) => {
                self.waiting = Some(Waiting::Query(query));
                Some(Need::Resident(object, range))
            }
            Command::Pass { request } => {
                if Some(request) == self.request {
                    self.step = Step::Pass;
                }
                None
            }
            Command::Hint(HintCommand::Callback { request, marked, requested }) => {
                if Some(request) == self.request {
                    self.step = Step::Callback(CallbackRequest { request, marked, requested });
                }
                None
            }
            // The page cache has no frames: nothing is served or dropped.
            Command::Serving(_) => None,
        }
    }
}
