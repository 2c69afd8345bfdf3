//! An [`AccessListEngine`] as a pump: it answers what it needs, and is given the answer.
//!
//! A driver carries out what the engine wants. Some drivers call a page cache and have the answer when
//! the call returns ([`Driver`](crate::Driver)); to a modelled process each need is a step that takes
//! virtual time, during which other processes run. The pump serves both. After each call
//! ([`open`](Pump::open), [`read`](Pump::read), [`hint`](Pump::hint), ...) the caller asks
//! [`advance`](Pump::advance): a [`Need`] is carried out and its answer handed back by
//! [`fetched`](Pump::fetched), [`forgotten`](Pump::forgotten) or [`resident`](Pump::resident), until
//! the call is [over](Next::Over).
//!
//! The time of an event is that of the call that brings it, and time does not run backwards.

use crate::state::AccessListEngine;
use crate::{Settings, Stats};
use foreseek_seam::{
    Access, Command, Commands, Engine, Epoch, Event, Extent, FetchId, FetchOutcome, HintCommand, HintEvent,
    HintMode, ObjectId, ProcessId, QueryId, Recorder, Refusal, RequestId, StreamId,
};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PageIndex, PageSpan, Pages, Position};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// How often the budget is asked for anew while reads go on. Reading the kernel's figures takes
/// tens of microseconds and they move within seconds.
const BUDGET_PERIOD: Nanos = Nanos::from_secs(1);

/// How many commands may follow from one call before the pump lets the read go and steps aside:
/// many more than a full list gives rise to, few enough to end within seconds.
const COMMANDS_PER_CALL: u64 = 1 << 24;

/// What a read does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read as ever.
    Pass,
    /// First call the application back, then [`Pump::answered`].
    Callback(CallbackRequest),
}

/// A callback to the application, which asks for its coming reads (ATC'09 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackRequest {
    /// To be given to [`Pump::answered`].
    pub request: RequestId,
    /// The most recently accessed marked entry of the list, if any was.
    pub marked: Option<(ObjectId, PageIndex)>,
    /// The page whose read led to the callback.
    pub requested: (ObjectId, PageIndex),
}

/// What the engine needs of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Pages are to be fetched; answered by [`Pump::fetched`].
    Fetch(ObjectId, PageSpan),
    /// Pages are to be given back; answered by [`Pump::forgotten`].
    Forget(ObjectId, PageSpan),
    /// Which of these pages are in memory; answered by [`Pump::resident`].
    Resident(ObjectId, PageSpan),
}

/// What comes next in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This is to be carried out and answered.
    Do(Need),
    /// The call is over; of a read, this is the answer.
    Over(Step),
}

/// What the answer that is waited for belongs to.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Fetch(FetchId, Epoch),
    Query(QueryId),
}

/// An engine and what is left to carry out of its commands.
pub struct Pump {
    engine: AccessListEngine,
    recorder: Option<Recorder>,
    out: Commands,
    queue: VecDeque<Command>,
    now: Instant,
    /// Whose answer the call is to find.
    request: Option<RequestId>,
    /// The answer, as far as it is known.
    step: Step,
    /// Commands of this call so far.
    carried: u64,
    waiting: Option<Waiting>,
    epochs: FxHashMap<ObjectId, Epoch>,
    next_request: u64,
    budget_given: Option<Instant>,
    /// Accesses were refused since the list was last replaced or the application last asked.
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

    /// Writes all events and commands of the engine from here on; meant for a new pump, as a replay
    /// starts with a new engine.
    pub fn record_into(&mut self, mut recorder: Recorder) {
        recorder.begin(self.engine.settings());
        self.recorder = Some(recorder);
    }

    /// A stream was opened on an object of `length` bytes that lies in `extents`, or its object has
    /// that length now.
    pub fn open(
        &mut self,
        now: Instant,
        opened: (StreamId, ObjectId, ProcessId),
        length: Bytes,
        extents: &[Extent],
    ) {
        let (stream, object, who) = opened;
        self.begin(now, None);
        self.tell(Event::Opened { stream, object, length, who });
        self.tell(Event::Placed { object, extents });
    }

    /// A stream was closed.
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        self.begin(now, None);
        self.tell(Event::Closed { stream });
    }

    /// Reads of this range are to be watched from here on.
    pub fn watch(&mut self, now: Instant, object: ObjectId, range: ByteSpan) {
        self.begin(now, None);
        self.tell(Event::Hint(HintEvent::Watched { object, range }));
    }

    /// Reads of this range are no longer to be watched; the range as it was given to `watch`.
    pub fn unwatch(&mut self, now: Instant, object: ObjectId, range: ByteSpan) {
        self.begin(now, None);
        self.tell(Event::Hint(HintEvent::Unwatched { object, range }));
    }

    /// The application says what it will read. Answers how many of `accesses` were accepted: fewer
    /// than were given once the list is full. `done`: the application has no more to say for now.
    /// If something was refused, it is asked again when the list has room, as in the paper's
    /// figure 7: a callback ends with `done` whether all was taken or not.
    pub fn hint(&mut self, now: Instant, mode: HintMode, accesses: &[Access], done: bool) -> usize {
        let accepted = accesses.len().min(self.engine.room(mode));
        self.refused &= mode == HintMode::Append;
        self.refused |= accepted < accesses.len();
        let done = done && !self.refused;
        self.begin(now, None);
        self.tell(Event::Hint(HintEvent::Hinted { mode, accesses: &accesses[..accepted], done }));
        accepted
    }

    /// Whether [`budget`](Self::budget) is to be called before the next read.
    #[must_use]
    pub fn wants_budget(&self, now: Instant) -> bool {
        self.budget_given.is_none_or(|given| now.since(given) >= BUDGET_PERIOD)
    }

    /// So much memory there is for cached pages. To be called where [wanted](Self::wants_budget) and
    /// before each [`answered`](Self::answered); it is part of the call that follows.
    pub fn budget(&mut self, now: Instant, pages: Pages) {
        self.now = now;
        self.budget_given = Some(now);
        self.tell(Event::Budget { pages });
    }

    /// A read is about to be made. To be called before each read of an object with watched ranges.
    pub fn read(&mut self, now: Instant, stream: StreamId, range: ByteSpan) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.begin(now, Some(request));
        self.tell(Event::Read { request, stream, range, who: None });
    }

    /// The application has answered a [`CallbackRequest`], with or without hints.
    pub fn answered(&mut self, now: Instant, request: RequestId) {
        self.begin(now, Some(request));
        self.tell(Event::Hint(HintEvent::Answered { request }));
    }

    /// The bytes of a range changed: what was fetched of it is no longer counted as prefetched.
    pub fn changed(&mut self, now: Instant, object: ObjectId, range: ByteSpan) {
        let epoch = self.epochs.entry(object).or_default();
        *epoch = Epoch(epoch.0.wrapping_add(1));
        let epoch = *epoch;
        self.begin(now, None);
        self.tell(Event::Changed { object, range, epoch });
    }

    /// What the call needs next.
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
            self.tell(Event::Tick);
        }
    }

    /// The answer to [`Need::Fetch`]: how many pages from its start were asked for, or why none.
    pub fn fetched(&mut self, now: Instant, result: Result<Pages, Refusal>) {
        self.now = now;
        let Some(Waiting::Fetch(fetch, epoch)) = self.waiting.take() else { return };
        match result {
            Ok(got) => {
                self.tell(Event::Done { fetch, epoch, got, outcome: FetchOutcome::Issued, in_flight: 0 });
            }
            Err(why) => self.tell(Event::Refused { fetch, why }),
        }
    }

    /// The answer to [`Need::Forget`].
    pub fn forgotten(&mut self, now: Instant) {
        self.now = now;
    }

    /// The answer to [`Need::Resident`]: the runs in memory, ascending; none where they can't be known.
    pub fn resident(&mut self, now: Instant, runs: Option<&[PageSpan]>) {
        self.now = now;
        let Some(Waiting::Query(query)) = self.waiting.take() else { return };
        self.tell(Event::Hint(HintEvent::Resident { query, runs }));
    }

    /// Whether all of the list has been fetched, and there is room for it.
    #[must_use]
    pub fn has_fetched_all(&self) -> bool {
        self.engine.has_fetched_all()
    }

    /// What happened so far.
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

    /// Tells the engine and queues what it says.
    fn tell(&mut self, event: Event<'_>) {
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

    /// What a command needs, if anything; the answer to the call's request is kept.
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
            // Advice has no frames: nothing is served or dropped.
            Command::Serving(_) => None,
        }
    }
}
