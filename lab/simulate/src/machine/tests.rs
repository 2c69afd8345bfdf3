//! Random machines with random programs, audited while they run; and machines that cannot go on.

use super::reclaim::{self, Inserted, LinuxLists};
use super::*;
use crate::block::scheduler;
use crate::program::{FileNumber, FileSpec, Handle, Program, Question, Step};
use crate::workload::{FileSystem, Layout, LayoutSettings};
use foreseek_device::{Build, Profile};
use foreseek_readahead::stream::{Found, Opened, Served, Touch, View};
use foreseek_readahead::{ServingEngine, serving};
use foreseek_seam::StreamId;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, DeviceCosts, PAGE_SIZE, Pages, Span};
use proptest::prelude::*;
use rand_core::Rng;
use std::sync::Arc;

/// Files of the random workload.
const FILES: u32 = 4;
/// Length of each, in pages.
const LENGTH: u64 = 150;

/// Makes any step that a program may make, this many times.
struct Anything {
    left: u32,
    opened: bool,
}

impl Program for Anything {
    fn next(&mut self, _now: Instant, random: &mut dyn Rng) -> Step {
        let handle = Handle(0);
        if !self.opened {
            self.opened = true;
            let file = FileNumber(random.next_u32() % FILES);
            return Step::Open { handle, file, announced: None };
        }
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        let start = u64::from(random.next_u32()) % (LENGTH * PAGE_SIZE);
        let length = 1 + u64::from(random.next_u32()) % (20 * PAGE_SIZE);
        let range = ByteSpan::at(ByteOffset(start), Bytes(length));
        let pages = range.pages();
        match random.next_u32() % 25 {
            0..7 => Step::Read { handle, range },
            7 | 8 => Step::Touch { handle, page: ByteOffset(start).page() },
            9 | 10 => Step::Write { handle, range },
            11 => Step::Compute(Nanos(length * 100)),
            12 => Step::Sleep(Nanos(length * 1000)),
            13 => Step::Advise { handle, pages },
            14 => Step::Forget { handle, pages },
            15 => Step::Ask { handle, question: Question::Resident(pages) },
            16 => Step::Hold(Bytes(length * 5)),
            17 => Step::Stat { file: FileNumber(random.next_u32() % FILES) },
            18 => Step::List { directory: 0 },
            23 => Step::Sync { handle },
            24 => Step::Unlink { file: FileNumber(random.next_u32() % FILES) },
            19 => {
                self.opened = false;
                Step::Close { handle }
            }
            _ => Step::Finished,
        }
    }

    fn memory(&self) -> Bytes {
        Bytes(u64::from(self.left % 7) * 5 * PAGE_SIZE)
    }
}

struct Jobs {
    jobs: u32,
    steps: u32,
}

impl Workload for Jobs {
    fn files(&self) -> Vec<FileSpec> {
        (0..FILES).map(|_| FileSpec { length: Pages(LENGTH).bytes(), directory: 0 }).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.jobs)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        Box::new(Anything { left: self.steps + number as u32, opened: false })
    }
}

/// Reads this many pages from a missing page on and, at a hit, sometimes further ahead.
struct Window(u64);

impl Prefetcher for Window {
    fn opened(&mut self, _now: Instant, _opened: Opened) {}

    fn closed(&mut self, _now: Instant, _stream: StreamId) {}

    fn touch(&mut self, _now: Instant, touch: Touch, _view: &dyn View, out: &mut Vec<Ahead>) {
        let page = touch.page;
        match touch.found {
            Found::Miss => {
                let marker = touch.marker.then_some(page);
                out.push(Ahead { range: Span::at(page, Pages(self.0)), marker, demand: true });
            }
            Found::Thrashed => {
                out.push(Ahead { range: Span::at(page, Pages(1)), marker: None, demand: true });
            }
            Found::Hit if page.get().is_multiple_of(11) => {
                out.push(Ahead { range: Span::at(page.next(), Pages(self.0)), marker: None, demand: false });
            }
            Found::Hit | Found::InFlight => {}
        }
    }

    fn served(&mut self, _now: Instant, _served: Served) {}
}

/// The settings of a machine's kernel.
#[derive(Default)]
struct Kernel<'a> {
    scheduler: &'a str,
    paged: bool,
    /// A pool of this many requests, whose submitters sleep.
    pool: Option<usize>,
    /// The file system whose metadata are read before contents.
    system: Option<FileSystem>,
}

/// A machine with this many pages for its cache.
fn machine(cache: u64, window: u64, jobs: Jobs, scheduler: &str, seed: u64) -> Machine {
    let kernel = Kernel { scheduler, ..Kernel::default() };
    parts(cache, window, jobs, &kernel, seed, &|memory| Box::new(LinuxLists::linux_2_6(memory)))
}

/// A pool of this many requests, whose submitters sleep, or a kernel's, whose do not.
fn pool(requests: Option<usize>) -> crate::block::Settings {
    let usual = crate::block::Settings::LINUX_2_6_3;
    match requests {
        Some(requests) => crate::block::Settings { requests, submitter_sleeps: true, ..usual },
        None => usual,
    }
}

fn parts(
    cache: u64,
    window: u64,
    jobs: impl Workload + 'static,
    kernel: &Kernel<'_>,
    seed: u64,
    reclaim: &dyn Fn(&Memory) -> Box<dyn Reclaim>,
) -> Machine {
    let profile = Profile::builtin("ibm-36g-51").expect("a profile");
    let size = Some(Bytes::mib(256));
    let device = profile.build(&Build { seed, size, ..Build::default() }).expect("a device");
    let files = jobs.files();
    let placing = LayoutSettings { metadata: kernel.system, ..LayoutSettings::default() };
    let layout = Layout::place(&files, Bytes::mib(192).sectors_floor(), &placing).expect("room");
    let memory = Memory {
        total: Pages(cache).bytes(),
        system: Bytes::ZERO,
        private_share: 0.5,
        paged: kernel.paged,
        marks_beginning: kernel.paged,
        reused: true,
        advice_moves: false,
        low: Pages(4),
        high: Pages(8),
    };
    let scheduler = scheduler::by_name(kernel.scheduler).expect("a scheduler");
    let machine = Machine::new(Parts {
        settings: Settings { memory, ..Settings::xeons(Bytes::mib(512)) },
        block: BlockLayer::new(pool(kernel.pool), scheduler, device),
        prefetcher: Box::new(Window(window)),
        reclaim: reclaim(&memory),
        workload: Box::new(jobs),
        extents: (0..FILES).map(|file| layout.extents(FileNumber(file)).to_vec()).collect(),
        concurrency: 1,
        seed,
    })
    .unwrap_or_else(|error| panic!("{error}"));
    match layout.metadata() {
        Some(metadata) => machine.with_metadata(metadata.clone()),
        None => machine,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever programs do, the accounts balance at every audit and all jobs end.
    #[test]
    fn accounts_balance_and_jobs_end(
        cache in 40..400u64,
        window in 1..64u64,
        jobs in 1..12u32,
        steps in 1..60u32,
        scheduler in prop::sample::select(vec!["noop", "deadline", "anticipatory", "cfq"]),
        reclaim in prop::sample::select(reclaim::NAMES),
        system in prop::sample::select(vec![None, Some(FileSystem::Ext3), Some(FileSystem::Ext4)]),
        paged: bool,
        pool in prop::option::of(1..8usize),
        seed: u64,
    ) {
        let named = |memory: &Memory| reclaim::by_name(reclaim.0, memory).expect("a name of its own list");
        let kernel = Kernel { scheduler, paged, pool, system };
        let mut machine = parts(cache, window, Jobs { jobs, steps }, &kernel, seed, &named);
        prop_assert!(machine.start().is_ok());
        for look in 1..2000u64 {
            let run = machine.run_until(Instant::ZERO + Nanos::from_millis(50 * look), &mut |_| {});
            prop_assert!(run.is_ok(), "{run:?}");
            machine.audit();
            if machine.processes.is_empty() {
                break;
            }
        }
        prop_assert!(machine.processes.is_empty(), "{}", machine.stuck());
        let report = machine.report();
        prop_assert_eq!(report.jobs.len() as u32, jobs);
        prop_assert_eq!(report.counters.demanded + report.counters.prefetched >= report.counters.used, true);
    }

    /// The same parts give the same run to the last bit.
    #[test]
    fn runs_repeat(cache in 40..400u64, window in 1..64u64, seed: u64) {
        let run = || {
            let machine = machine(cache, window, Jobs { jobs: 5, steps: 30 }, "anticipatory", seed);
            let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(1000) };
            machine.run(period, &mut |_| {})
        };
        let (first, second) = (run(), run());
        prop_assert!(first.is_ok(), "{first:?}");
        prop_assert_eq!(first, second);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Programs close files while their read-ahead waits at the server, which has few fetches in flight.
    #[test]
    fn behind_a_mount_all_jobs_end_and_no_read_fails(
        cache in 40..400u64,
        jobs in 1..12u32,
        steps in 1..60u32,
        in_flight in 1..4u32,
        policy in prop::sample::select(vec!["none", "competitive", "adaptive"]),
        seed: u64,
    ) {
        let settings = serving::Settings { in_flight, ..serving::Settings::of_mount(policy, Pages(256), Pages(2048), false) };
        let costs: Arc<dyn DeviceCosts> = Arc::new(Profile::builtin("ibm-36g-51").expect("a profile"));
        let engine = ServingEngine::new(settings, &costs).expect("a policy");
        let machine = machine(cache, 32, Jobs { jobs, steps }, "deadline", seed).behind(engine);
        let report = machine.run(Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(1000) }, &mut |_| {});
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        let stats = report.mount.expect("a mount");
        prop_assert_eq!(report.jobs.len() as u32, jobs);
        prop_assert_eq!((stats.failed_reads, stats.internal_errors), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever things cost, a processor's time is used once, and a process gets no more of it than there is
    /// (`Machine::exit` checks that).
    #[test]
    fn in_no_second_are_processors_busier_than_there_are(
        jobs in 1..12u32,
        interrupt_us in 0..60_000u64,
        submit_us in 0..60_000u64,
        copy_us in 0..3_000u64,
        slice_us in 100..20_000u64,
        seed: u64,
    ) {
        let mut machine = machine(100, 16, Jobs { jobs, steps: 40 }, "deadline", seed);
        machine.settings.costs.interrupt = Nanos::from_micros(interrupt_us);
        machine.settings.costs.submit = Nanos::from_micros(submit_us);
        machine.settings.costs.copy = Nanos::from_micros(copy_us);
        machine.settings.time_slice = Nanos::from_micros(slice_us);
        let report = machine.run(Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(10_000) }, &mut |_| {});
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        let processors = u64::from(report.processors);
        let mut left = report.time;
        for (second, busy) in report.processor_busy_by_second.iter().enumerate() {
            let there = left.min(USE_PERIOD);
            left -= there;
            prop_assert!(*busy <= there * processors, "second {second}: {busy} of {processors} x {there}");
        }
        let all = report.processor_busy_by_second.iter().fold(Nanos::ZERO, |all, one| all + *one);
        prop_assert_eq!(all, report.processor_busy);
    }
}

/// Reads a file from its beginning to its end, page by page.
struct Reader {
    at: u64,
}

impl Program for Reader {
    fn next(&mut self, _now: Instant, _random: &mut dyn Rng) -> Step {
        let handle = Handle(0);
        self.at += 1;
        match self.at - 1 {
            0 => Step::Open { handle, file: FileNumber(0), announced: None },
            page if page <= LENGTH => Step::Read {
                handle,
                range: ByteSpan::at(ByteOffset((page - 1) * PAGE_SIZE), Bytes(PAGE_SIZE)),
            },
            _ => Step::Exit,
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// Five pieces of a fetch and two requests: a reader that sleeps has all of them queued before it reads the
/// first page.
#[test]
fn a_reader_sleeps_until_all_that_it_reads_ahead_has_a_request() {
    for sleeps in [false, true] {
        let kernel = Kernel { scheduler: "noop", pool: Some(2), ..Kernel::default() };
        let jobs = Same { jobs: 1, program: || Box::new(Reader { at: 0 }) };
        let lists = |memory: &Memory| Box::new(LinuxLists::linux_2_6(memory)) as Box<dyn Reclaim>;
        let mut machine = parts(400, LENGTH, jobs, &kernel, 1, &lists);
        let settings = crate::block::Settings { submitter_sleeps: sleeps, ..*machine.block.settings() };
        let device =
            Profile::builtin("ibm-36g-51").expect("a profile").build(&Build::default()).expect("one");
        machine.block = BlockLayer::new(settings, scheduler::by_name("noop").expect("one"), device);
        machine.start().expect("it starts");
        let mut read_early = false;
        for look in 1..100 {
            machine.run_until(Instant::ZERO + Nanos::from_millis(look), &mut |_| {}).expect("it runs");
            let pid = machine.processes.iter().next().map(|(_, one)| one.pid);
            let owed = pid.is_some_and(|pid| machine.block.owes(pid));
            read_early |= owed && !machine.metrics.counters.read.is_zero();
        }
        assert_eq!(read_early, !sleeps);
        assert!(machine.processes.is_empty(), "{}", machine.stuck());
    }
}

/// Computes for this many seconds.
struct Computing {
    left: u32,
}

impl Program for Computing {
    fn next(&mut self, _now: Instant, _random: &mut dyn Rng) -> Step {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Step::Compute(Nanos::from_secs(1))
            }
            None => Step::Exit,
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// This many jobs with the same program.
struct Same {
    jobs: u32,
    program: fn() -> Box<dyn Program>,
}

impl Workload for Same {
    fn files(&self) -> Vec<FileSpec> {
        Jobs { jobs: 1, steps: 0 }.files()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.jobs)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        (self.program)()
    }
}

/// The cost of a read is spent before its reader goes on, even if the disk is faster and another processor is
/// idle.
#[test]
fn a_process_is_never_charged_more_than_the_time_that_passes() {
    let kernel = Kernel { scheduler: "noop", ..Kernel::default() };
    let reader = Same { jobs: 1, program: || Box::new(Reader { at: 0 }) };
    let mut machine = parts(400, 1, reader, &kernel, 1, &|memory| Box::new(LinuxLists::linux_2_6(memory)));
    machine.settings.costs.submit = Nanos::from_millis(30);
    machine.settings.costs.interrupt = Nanos::ZERO;
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(1000) };
    let report = machine.run(period, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let (_, took) = report.jobs[0];
    assert!(report.processor_busy <= took, "{} of processors in {took}", report.processor_busy);
    assert!(took >= Nanos::from_millis(30) * LENGTH, "{took}");
}

/// An interrupt delays the process on its processor, and no other one: a computation of a second takes a second
/// and the time of the interrupts on the first processor, and a second on another.
#[test]
fn interrupts_take_the_time_of_the_first_processor() {
    let kernel = Kernel { scheduler: "noop", ..Kernel::default() };
    let computing = Same { jobs: 2, program: || Box::new(Computing { left: 1 }) };
    let mut machine = parts(400, 1, computing, &kernel, 1, &|memory| Box::new(LinuxLists::linux_2_6(memory)));
    machine.settings.costs = Costs { switch: Nanos::ZERO, create: Nanos::ZERO, ..machine.settings.costs };
    machine.settings.costs.interrupt = Nanos::from_millis(7);
    assert!(machine.start().is_ok());
    let at = Instant::ZERO + Nanos::from_millis(500);
    assert!(machine.run_until(at, &mut |_| {}).is_ok());
    for _ in 0..10 {
        machine.interrupt();
    }
    assert!(machine.run_until(at + Nanos::from_secs(1), &mut |_| {}).is_ok());
    let mut took: Vec<Nanos> = machine.metrics.jobs.iter().map(|(_, took)| *took).collect();
    took.sort_unstable();
    assert_eq!(took, [Nanos::from_millis(1000), Nanos::from_millis(1070)]);
}

/// Processor time after the end of the run does not count, nor does its second.
#[test]
fn a_run_is_over_when_its_time_is() {
    let kernel = Kernel { scheduler: "noop", ..Kernel::default() };
    let computing = Same { jobs: 2, program: || Box::new(Computing { left: 5 }) };
    let mut machine = parts(400, 1, computing, &kernel, 1, &|memory| Box::new(LinuxLists::linux_2_6(memory)));
    machine.settings.ends_jobs = true;
    machine.settings.costs.create = Nanos::from_micros(300);
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(2) };
    let report = machine.run(period, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.processor_busy, report.time * 2);
    assert_eq!(report.processor_busy_by_second, [Nanos::from_secs(2); 2]);
}

/// A page replacement that frees nothing, and looks busy.
#[derive(Default)]
struct Miser {
    ticks: u64,
}

impl Reclaim for Miser {
    fn inserted(&mut self, _now: Instant, _inserted: Inserted) {}
    fn referenced(&mut self, _now: Instant, _frame: FrameNo) {}
    fn held(&mut self, _frame: FrameNo, _held: bool) {}
    fn removed(&mut self, _frame: FrameNo) {}
    fn victim(&mut self, _now: Instant) -> Option<FrameNo> {
        None
    }
    fn deadline(&self) -> Option<Instant> {
        Some(Instant::ZERO + Nanos::from_millis(100) * (self.ticks + 1))
    }
    fn tick(&mut self, _now: Instant) {
        self.ticks += 1;
    }
}

#[test]
fn a_machine_that_is_stuck_says_what_waits_for_what() {
    let jobs = Jobs { jobs: 3, steps: 60 };
    let kernel = Kernel { scheduler: "noop", ..Kernel::default() };
    let machine = parts(40, 8, jobs, &kernel, 1, &|_| Box::<Miser>::default());
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(1000) };
    let error = machine.run(period, &mut |_| {}).expect_err("no page is ever free").to_string();
    assert!(error.contains("stuck") && error.contains("waits for memory"), "{error}");
}

#[test]
fn jobs_that_take_too_long_are_an_error() {
    let machine = machine(100, 8, Jobs { jobs: 2, steps: 60 }, "noop", 1);
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_millis(5) };
    let error = machine.run(period, &mut |_| {}).expect_err("too short").to_string();
    assert!(error.contains("2 jobs") && error.contains("raise the duration"), "{error}");
}

#[test]
fn private_memory_takes_its_share_of_the_cache_and_no_more() {
    let mut machine = machine(1000, 8, Jobs { jobs: 1, steps: 1 }, "noop", 1);
    assert_eq!(machine.cache_limit(), Pages(1000));
    machine.take(0, Pages(300)).expect("room");
    assert_eq!(machine.cache_limit(), Pages(700));
    machine.take(0, Pages(900)).expect("room");
    assert_eq!(machine.cache_limit(), Pages(500));
    assert_eq!(machine.metrics.counters.swapped_most, Pages(700));
    machine.give_back(Pages(1200));
    assert_eq!(machine.cache_limit(), Pages(1000));
}
