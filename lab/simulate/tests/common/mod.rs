//! A file on a modelled disk, and programs that read it: alone, or with libprefetch in front of them.
#![allow(dead_code)]

use foreseek_device::{Build, Profile};
use foreseek_hints::{CallbackRequest, Pump, Settings, Stats};
use foreseek_seam::{Access, Extent, HintMode, ObjectId, Recorder};
use foreseek_simulate::directed::{Application, Hint, Hinted};
use foreseek_simulate::machine::{Machine, MachineError, Parts, Period, Report};
use foreseek_simulate::program::{Answer, Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use foreseek_units::{ByteSpan, Bytes, Instant, Lba, Nanos, PageIndex, Pages, SectorSpan, Span};
use rand_core::Rng;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

pub(crate) const FILE: ObjectId = ObjectId(0);
pub(crate) const HANDLE: Handle = Handle(0);

/// One file with extents of 8 MiB that lie apart.
pub(crate) fn extents(file: Bytes) -> Vec<Extent> {
    let piece = Bytes::mib(8).pages_floor();
    let pieces = file.pages_ceil().get().div_ceil(piece.get());
    (0..pieces)
        .map(|n| Extent {
            page: PageIndex(n * piece.get()),
            pages: piece.min(file.pages_ceil() - Pages(n * piece.get())),
            lba: Lba(2048 + n * (piece.sectors().get() + 4096)),
        })
        .collect()
}

/// Pseudo-random pages of a file; the same for the same seed.
pub(crate) fn random_pages(seed: u64, reads: usize, file: Bytes) -> Vec<PageIndex> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..reads)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            PageIndex((state >> 11) % file.pages_floor().get())
        })
        .collect()
}

pub(crate) fn page(at: PageIndex) -> ByteSpan {
    Span::at(at.offset(), Bytes(4096))
}

pub(crate) fn access(at: PageIndex) -> Access {
    Access { object: FILE, page: at, mark: false }
}

/// The steps that read these ranges of the file.
pub(crate) fn reads(ranges: &[ByteSpan]) -> Vec<Step> {
    ranges.iter().map(|range| Step::Read { handle: HANDLE, range: *range }).collect()
}

/// The answers to a [`List`], as text, with their times.
pub(crate) type Answers = Arc<Mutex<Vec<(Instant, String)>>>;

/// A program that opens the file and makes these steps.
pub(crate) struct List {
    steps: VecDeque<Step>,
    answers: Answers,
    answer: Option<String>,
}

impl List {
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        let mut steps = VecDeque::from(steps);
        steps.push_front(Step::Open { handle: HANDLE, file: FileNumber(0), announced: None });
        Self { steps, answers: Answers::default(), answer: None }
    }

    /// The same without opening a file.
    pub(crate) fn bare(steps: Vec<Step>) -> Self {
        Self { steps: steps.into(), answers: Answers::default(), answer: None }
    }

    pub(crate) fn answers(&self) -> Answers {
        Arc::clone(&self.answers)
    }
}

impl Program for List {
    fn next(&mut self, now: Instant, _random: &mut dyn Rng) -> Step {
        if let Some(answer) = self.answer.take() {
            self.answers.lock().expect("one thread").push((now, answer));
        }
        self.steps.pop_front().unwrap_or(Step::Exit)
    }

    fn answered(&mut self, answer: Answer<'_>) {
        self.answer = Some(format!("{answer:?}"));
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// The file and one program.
struct One {
    length: Bytes,
    program: Option<Box<dyn Program>>,
}

impl Workload for One {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: self.length, directory: 0 }]
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        self.program.take().expect("one job")
    }
}

/// A machine with this much memory for cached pages and a 7,200 rpm disk of 8 GiB, of which nothing is reserved for
/// private memory.
pub(crate) struct Setup {
    pub(crate) length: Bytes,
    pub(crate) memory: Pages,
    /// Sectors that the disk cannot read.
    pub(crate) unreadable: Vec<SectorSpan>,
    /// The share of the memory that programs may hold.
    pub(crate) private_share: f64,
    /// Whether advice moves pages in memory.
    pub(crate) advice_moves: bool,
}

impl Setup {
    pub(crate) fn new(length: Bytes, memory: Pages) -> Self {
        Self { length, memory, unreadable: Vec::new(), private_share: 0.0, advice_moves: false }
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, program: impl Program + 'static) -> Result<Report, MachineError> {
        let profile = Profile::builtin("barracuda-500g").expect("built in");
        let build =
            Build { size: Some(Bytes::gib(8)), unreadable: self.unreadable.clone(), ..Build::default() };
        let device = profile.build(&build).expect("fits");
        let workload = Box::new(One { length: self.length, program: Some(Box::new(program)) });
        let mut parts = Parts::stock(self.memory, device, workload, vec![extents(self.length)]);
        parts.settings.memory.private_share = self.private_share;
        parts.settings.memory.advice_moves = self.advice_moves;
        let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(100_000) };
        Machine::new(parts)?.logging(1 << 20).run(period, &mut |_| {})
    }

    /// The time of these steps.
    pub(crate) fn stock(&self, steps: Vec<Step>) -> Nanos {
        self.run(List::new(steps)).expect("readable").time
    }

    /// The time of the same steps with libprefetch, and its statistics.
    pub(crate) fn prefetched(
        &self,
        settings: Settings,
        recorder: Option<Recorder>,
        steps: Vec<Step>,
        application: impl Application + 'static,
    ) -> (Nanos, Stats) {
        let mut pump = Pump::new(settings);
        if let Some(recorder) = recorder {
            pump.record_into(recorder);
        }
        let program = Hinted::new(List::new(steps), application, pump, vec![self.length]);
        let stats = program.stats();
        let time = self.run(program).expect("readable").time;
        let stats = *stats.lock().expect("one thread");
        (time, stats)
    }
}

/// An application that hints all of its list, from its current read on, each time it is asked.
pub(crate) fn tells(list: &[PageIndex]) -> impl Application + Clone + use<> {
    let list: Vec<Access> = list.iter().map(|at| access(*at)).collect();
    move |hint: &mut Hint<'_>, reads: usize, _: CallbackRequest| {
        hint(HintMode::Set, &list[reads.min(list.len())..], true);
    }
}
