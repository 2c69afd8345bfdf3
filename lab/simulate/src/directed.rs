//! Application-directed prefetching in a modelled process (ATC'09 section 4): libprefetch as steps of a
//! program.
//!
//! [`Directed`] is libprefetch in a process: the same [`Pump`] as in real ones, whose needs become [`Step`]s of
//! the program; the machine gives the answers. [`Hinted`] puts it in front of any program: before each read it
//! does what libprefetch does, and when the engine asks what comes, its [`Application`] answers.
//!
//! The processor time of calls counts, that of the engine itself does not.

use crate::program::{Answer, Drive, FileNumber, FileSpec, Handle, Program, Question, Step, Workload};
use foreseek_hints::{self as hints, CallbackRequest, Need, Next, Pump, Settings, Stats};
use foreseek_seam::{Access, Extent, HintMode, ObjectId, ProcessId, StreamId};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, PageSpan, Pages, Span};
use rand_core::Rng;
use std::sync::{Arc, Mutex, PoisonError};

/// The engine's number of the process, the only one that it knows.
const PROCESS: ProcessId = ProcessId(1);

/// A call of the process to its engine.
#[derive(Clone, Copy, Debug)]
enum Call {
    Open { stream: StreamId, object: ObjectId, length: Bytes },
    Read { stream: StreamId, range: ByteSpan },
    Answered { want: CallbackRequest },
}

/// The machine's last answer.
#[derive(Clone, Debug)]
enum Answered {
    Advised(Pages),
    Forgotten,
    Resident(Vec<PageSpan>),
    Extents(Vec<Extent>),
    Budget(Pages),
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The process makes this step.
    Step(Step),
    /// The call is over; of a read, this is its result.
    Over(hints::Step),
}

/// libprefetch in a process. A call is begun, then [`next`](Self::next) is called until it is over.
pub struct Directed {
    pump: Pump,
    /// The call that is to be made once its question is answered.
    call: Option<Call>,
    /// The handle of each open object.
    handles: Vec<(ObjectId, Handle)>,
    answered: Option<Answered>,
}

impl Directed {
    /// With a new engine.
    #[must_use]
    pub fn new(pump: Pump) -> Self {
        Self { pump, call: None, handles: Vec::new(), answered: None }
    }

    /// Begins: a stream was opened on an object, and all of its reads are to be watched.
    pub fn open(&mut self, stream: StreamId, (object, handle): (ObjectId, Handle), length: Bytes) {
        self.handles.retain(|(known, _)| *known != object);
        self.handles.push((object, handle));
        self.call = Some(Call::Open { stream, object, length });
    }

    /// Begins: a read is about to be made.
    pub fn read(&mut self, stream: StreamId, range: ByteSpan) {
        self.call = Some(Call::Read { stream, range });
    }

    /// The process passes hints on what it will read: see [`Pump::hint`].
    pub fn hint(&mut self, now: Instant, mode: HintMode, accesses: &[Access], done: bool) -> usize {
        self.pump.hint(now, mode, accesses, done)
    }

    /// Begins: the process has answered a question.
    pub fn callback_done(&mut self, want: CallbackRequest) {
        self.call = Some(Call::Answered { want });
    }

    /// Begins: a stream was closed.
    pub fn close(&mut self, now: Instant, stream: StreamId) {
        self.pump.close(now, stream);
    }

    /// The machine's answer to the step that was made.
    pub fn answered(&mut self, answer: Answer<'_>) {
        self.answered = Some(match answer {
            Answer::Advised(pages) => Answered::Advised(pages),
            Answer::Forgotten => Answered::Forgotten,
            Answer::Resident(runs) => Answered::Resident(runs.to_vec()),
            Answer::Extents(extents) => Answered::Extents(extents.to_vec()),
            Answer::Budget(pages) => Answered::Budget(pages),
        });
    }

    /// The next step of the call.
    pub fn next(&mut self, now: Instant) -> Said {
        match self.answered.take() {
            Some(Answered::Advised(pages)) => self.pump.fetched(now, Ok(pages)),
            Some(Answered::Forgotten) => self.pump.forgotten(now),
            Some(Answered::Resident(runs)) => self.pump.resident(now, Some(&runs)),
            Some(Answered::Extents(extents)) => self.opened(now, &extents),
            Some(Answered::Budget(pages)) => {
                self.pump.budget(now, pages);
                self.begin(now);
            }
            None => {}
        }
        loop {
            match self.pump.advance() {
                Next::Do(need) => return Said::Step(self.step(need)),
                Next::Over(step) if self.call.is_none() => return Said::Over(step),
                // The steps that hints caused are done: now the call.
                Next::Over(_) => match self.question(now) {
                    Some(question) => return Said::Step(question),
                    None => self.begin(now),
                },
            }
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.pump.stats()
    }

    /// The question that must be answered before the call is made.
    fn question(&self, now: Instant) -> Option<Step> {
        // The budget is the machine's: any open file serves for the question.
        let (question, of) = match self.call? {
            Call::Open { object, .. } => (Question::Extents, Some(object)),
            Call::Read { .. } if !self.pump.wants_budget(now) => return None,
            Call::Read { .. } | Call::Answered { .. } => (Question::Budget, None),
        };
        let known = self.handles.iter().find(|(known, _)| of.is_none_or(|object| object == *known));
        known.map(|(_, handle)| Step::Ask { handle: *handle, question })
    }

    /// Makes the call.
    fn begin(&mut self, now: Instant) {
        match self.call.take() {
            Some(Call::Read { stream, range }) => self.pump.read(now, stream, range),
            Some(Call::Answered { want }) => self.pump.answered(now, want.request),
            Some(Call::Open { .. }) | None => {}
        }
    }

    fn opened(&mut self, now: Instant, extents: &[Extent]) {
        let Some(Call::Open { stream, object, length }) = self.call.take() else { return };
        self.pump.open(now, (stream, object, PROCESS), length, extents);
        self.pump.watch(now, object, Span::at(ByteOffset::ZERO, length));
    }

    fn step(&self, need: Need) -> Step {
        let (Need::Fetch(object, _) | Need::Forget(object, _) | Need::Resident(object, _)) = need;
        let handle = self.handles.iter().find(|(known, _)| *known == object);
        let handle = handle.map_or(Handle(u32::MAX), |(_, handle)| *handle);
        match need {
            Need::Fetch(_, pages) => Step::Advise { handle, pages },
            Need::Forget(_, pages) => Step::Forget { handle, pages },
            Need::Resident(_, pages) => Step::Ask { handle, question: Question::Resident(pages) },
        }
    }
}

/// How an application gives hints: mode, accesses, and whether these are all; returns how many were taken.
pub type Hint<'a> = dyn FnMut(HintMode, &[Access], bool) -> usize + 'a;

/// An application that answers what it will read.
pub trait Application: Send {
    /// It has made this many reads and is asked before the next.
    fn asked(&mut self, reads: usize, want: CallbackRequest, hint: &mut Hint<'_>);
}

impl Application for Box<dyn Application> {
    fn asked(&mut self, reads: usize, want: CallbackRequest, hint: &mut Hint<'_>) {
        (**self).asked(reads, want, hint);
    }
}

impl<F: FnMut(&mut Hint<'_>, usize, CallbackRequest) + Send> Application for F {
    fn asked(&mut self, reads: usize, want: CallbackRequest, hint: &mut Hint<'_>) {
        self(hint, reads, want);
    }
}

/// The state of a [`Hinted`] program.
enum Doing {
    /// A step of its program.
    Program,
    /// The engine's needs before this step is made, if there is one.
    Engine(Option<Step>),
}

/// A program with libprefetch in front of it. Objects have the numbers of files, streams those of handles.
pub struct Hinted<P, A> {
    program: P,
    application: A,
    directed: Directed,
    lengths: Vec<Bytes>,
    doing: Doing,
    reads: usize,
    stats: Arc<Mutex<Stats>>,
}

impl<P: Program, A: Application> Hinted<P, A> {
    /// A program over files of these lengths, an application that answers for it, and the engine.
    pub fn new(program: P, application: A, pump: Pump, lengths: Vec<Bytes>) -> Self {
        Self {
            program,
            application,
            directed: Directed::new(pump),
            lengths,
            doing: Doing::Program,
            reads: 0,
            stats: Arc::default(),
        }
    }

    /// The engine's counters, readable after the program has ended.
    #[must_use]
    pub fn stats(&self) -> Arc<Mutex<Stats>> {
        Arc::clone(&self.stats)
    }

    /// Reports a step of the program to the engine; returns the rest of the step.
    fn begin(&mut self, now: Instant, step: Step) -> Option<Step> {
        match step {
            Step::Read { handle, range } => {
                self.directed.read(stream(handle), range);
                self.doing = Doing::Engine(Some(step));
                None
            }
            Step::Open { handle, file, .. } => {
                let length = self.lengths.get(file.0 as usize).copied().unwrap_or_default();
                self.directed.open(stream(handle), (ObjectId(u64::from(file.0)), handle), length);
                self.doing = Doing::Engine(None);
                Some(step)
            }
            Step::Close { handle } => {
                self.directed.close(now, stream(handle));
                self.doing = Doing::Engine(Some(step));
                None
            }
            Step::Exit => {
                *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = *self.directed.stats();
                Some(step)
            }
            other => Some(other),
        }
    }

    /// The engine asks what comes.
    fn ask(&mut self, now: Instant, want: CallbackRequest) {
        let Self { application, directed, reads, .. } = self;
        application.asked(*reads, want, &mut |mode, accesses, done| directed.hint(now, mode, accesses, done));
        directed.callback_done(want);
    }
}

/// A program and the application that answers for it.
pub type Pair = (Box<dyn Program>, Box<dyn Application>);

/// A workload whose programs use libprefetch, if they know what they will read ([`Workload::directed`]).
pub struct WithLibprefetch {
    workload: Box<dyn Workload>,
    settings: Settings,
}

impl WithLibprefetch {
    /// A workload, and the settings of its programs' clients.
    #[must_use]
    pub fn new(workload: Box<dyn Workload>, settings: Settings) -> Self {
        Self { workload, settings }
    }
}

impl Workload for WithLibprefetch {
    fn files(&self) -> Vec<FileSpec> {
        self.workload.files()
    }

    fn drive(&self) -> Drive {
        self.workload.drive()
    }

    fn tree(&self) -> Option<Arc<Vec<Vec<FileNumber>>>> {
        self.workload.tree()
    }

    fn begins_with(&mut self, requests: u32) {
        self.workload.begins_with(requests);
    }

    fn program(&mut self, number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let Some((program, application)) = self.workload.directed(number, random) else {
            return self.workload.program(number, random);
        };
        let lengths = self.workload.files().iter().map(|file| file.length).collect();
        Box::new(Hinted::new(program, application, Pump::new(self.settings.clone()), lengths))
    }
}

fn stream(handle: Handle) -> StreamId {
    StreamId(u64::from(handle.0))
}

impl<P: Program, A: Application> Program for Hinted<P, A> {
    fn next(&mut self, now: Instant, random: &mut dyn Rng) -> Step {
        loop {
            match self.doing {
                Doing::Program => {
                    let step = self.program.next(now, random);
                    if let Some(step) = self.begin(now, step) {
                        return step;
                    }
                }
                Doing::Engine(after) => match self.directed.next(now) {
                    Said::Step(step) => return step,
                    Said::Over(hints::Step::Callback(want)) => self.ask(now, want),
                    Said::Over(hints::Step::Pass) => {
                        self.doing = Doing::Program;
                        self.reads += usize::from(matches!(after, Some(Step::Read { .. })));
                        if let Some(step) = after {
                            return step;
                        }
                    }
                },
            }
        }
    }

    fn answered(&mut self, answer: Answer<'_>) {
        match self.doing {
            Doing::Program => self.program.answered(answer),
            Doing::Engine(_) => self.directed.answered(answer),
        }
    }

    fn memory(&self) -> Bytes {
        self.program.memory()
    }
}
