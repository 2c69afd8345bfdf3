//! The whole reader in virtual time, under a seed: its driver, engine, frames, buffers and replies,
//! everything below the threads. The seed decides what happens next:
//!
//! - reads of several streams;
//! - ends of reads below (whole, short, with an error, refused, out of order);
//! - writes and changes of length, through the mount and by other programs;
//! - memory pressure, processes that run and end, closes.
//!
//! Every answer is compared with a model of the files. Each byte must be one that the file had there at some
//! time between request and answer, and an answer must end where the file did at such a time. After a change
//! by another program either state is right until the mount examines the file: when it is opened or changed.
//! Only reads of pages of which a read below failed while they waited may get an error. After each step no
//! read is lost, no bound of memory is exceeded and no internal check has failed. At the end every read is
//! answered and every frame is free or holds a page of the prefetch cache.
//!
//! `make test` runs [`SEEDS`], `make soak` ten thousand. A failure prints its seed, and
//!
//! ```text
//! FORESEEK_MOUNT_SEED=77 cargo test -p foreseek-mount --lib simulation
//! ```
//!
//! runs that seed alone; `FORESEEK_MOUNT_SEEDS=10000` sets their number. Limits: there is one thread, so that
//! the locks are not tested. Files have no address on a device, and their reads need no alignment.

use super::alarm::Alarm;
use super::core::Core;
use super::found::{LaidOutFile, Places};
use super::options::ReaderOptions;
use super::outside::Outside;
use super::shared::Shared;
use super::timers::set_budget;
use super::token::Token;
use super::work::Below;
use crate::read_path::{Answer, OpenedFile, ReadRequest, Version};
use foreseek_readahead::serving::{MEMORY_LEAST, Settings};
use foreseek_readahead::{ServingDriver, ServingEngine};
use foreseek_seam::{Event, ObjectId, ProcessId, ServingEvent, StreamId};
use foreseek_storage::reads::{self, DiskReader, Ended, ReadFile, Target};
use foreseek_storage::{Arena, Frames};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, PAGE_SIZE, Pages};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Seeds of `make test`: some seconds.
const SEEDS: u64 = 200;
/// Steps of a seed.
const STEPS: u64 = 400;
const FILES: u64 = 3;
const STREAMS: u64 = 6;
/// A file's greatest length, in bytes.
const LENGTH_MOST: u64 = 600 * PAGE_SIZE;
/// Memory for passed reads: so little that some wait for it.
const PASSING: Bytes = Bytes::mib(2);

/// Draws the next step.
struct Random(u64);

impl Random {
    /// A number below the limit, which is not 0.
    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's MMIX generator; its upper bits are good enough.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_in(&mut self, so_many: u64) -> bool {
        self.below(so_many) == 0
    }
}

/// The environment of a simulated reader beside its reads.
#[derive(Default)]
pub(super) struct Simulated {
    now: AtomicU64,
    /// By the address of the file.
    versions: Mutex<BTreeMap<usize, Version>>,
}

impl Simulated {
    pub(super) fn now(&self) -> Instant {
        Instant(self.now.load(Relaxed))
    }

    pub(super) fn version(&self, file: &ReadFile) -> Option<Version> {
        self.versions.lock().expect("no panic").get(&address(file)).copied()
    }
}

fn address(file: &ReadFile) -> usize {
    std::ptr::from_ref(file).addr()
}

/// Accepts reads and keeps them until the simulation ends them.
#[derive(Default)]
struct Device {
    taken: Mutex<Vec<reads::DiskRead>>,
    /// How many of the next ones are refused.
    refusing: AtomicU64,
    /// The refused ones.
    refused: Mutex<Vec<(usize, ByteSpan)>>,
}

impl DiskReader for Device {
    fn start(&self, wanted: Vec<reads::DiskRead>) -> Vec<reads::DiskRead> {
        let (mut taken, mut back) = (self.taken.lock().expect("no panic"), Vec::new());
        for read in wanted {
            let left = self.refusing.load(Relaxed);
            if left > 0 {
                self.refusing.store(left - 1, Relaxed);
                let range = ByteSpan::at(read.offset, Bytes(read.into.len() as u64));
                self.refused.lock().expect("no panic").push((address(&read.file), range));
                back.push(read);
            } else {
                taken.push(read);
            }
        }
        back
    }

    fn stop(&self, _patience: Duration) -> bool {
        true
    }
}

/// The expected state of a file.
struct Model {
    file: Arc<ReadFile>,
    bytes: Arc<Vec<u8>>,
    /// How often it was changed: its version's time.
    changes: i64,
    /// Its states before changes by other programs, since the mount last examined it.
    stale: Vec<Arc<Vec<u8>>>,
    /// Pages that cannot be read.
    bad: Vec<u64>,
}

impl Model {
    fn version(&self) -> Version {
        Version { modified: (self.changes, 0), changed: (0, 0), length: Bytes(self.bytes.len() as u64) }
    }
}

/// A read that is not answered yet.
struct ModelRead {
    stream: usize,
    file: usize,
    range: ByteSpan,
    /// The states of the file since its request.
    seen: Vec<Arc<Vec<u8>>>,
    /// Whether a read of its pages has failed since.
    may_fail: bool,
}

type Answers = Arc<Mutex<Vec<(u64, Result<Vec<u8>, Errno>)>>>;

struct Simulation {
    random: Random,
    simulated: Arc<Simulated>,
    shared: Arc<Shared>,
    device: Arc<Device>,
    settings: Settings,
    files: Vec<Model>,
    /// Open streams, their files, and their next positions.
    streams: Vec<Option<(StreamId, usize, u64)>>,
    waiting: BTreeMap<u64, ModelRead>,
    answers: Answers,
    asked: u64,
    /// A hash of the run, the same for the same seed.
    trace: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
        let policy = ["adaptive", "competitive", "on-demand", "aggressive", "none"][random.below(5) as usize];
        let memory = Pages(MEMORY_LEAST.get() + random.below(2000));
        let mut settings = Settings::of_mount(policy, memory, Pages(2 * memory.get()), random.one_in(4));
        settings.in_flight = [1, 4, 1024][random.below(3) as usize];
        settings.fetch = Pages(1 + random.below(64));
        let costs = ReaderOptions::new(policy, memory.bytes()).costs();
        let engine = ServingEngine::new(settings, &costs).expect("a policy");
        let settings = engine.settings().clone();
        let frames = Frames::new(settings.memory).expect("address space");
        let simulated = Arc::new(Simulated::default());
        let device = Arc::new(Device::default());
        let driver = ServingDriver::new(engine, None, Below::new(Arc::clone(&frames)));
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(driver)),
            frames,
            passing: Arena::untouched(PASSING).expect("address space"),
            reads: OnceLock::new(),
            processes: Mutex::default(),
            programs: None,
            places: Places::default(),
            alarm: Alarm::default(),
            outside: Outside::Simulated(Arc::clone(&simulated)),
        });
        assert!(shared.reads.set(Arc::clone(&device) as Arc<dyn DiskReader>).is_ok());
        let mut simulation = Self {
            random,
            simulated,
            shared,
            device,
            settings,
            files: Vec::new(),
            streams: Vec::new(),
            waiting: BTreeMap::new(),
            answers: Answers::default(),
            asked: 0,
            trace: 0,
        };
        simulation.begin();
        simulation
    }

    fn begin(&mut self) {
        let nothing = Arc::new(File::open("/dev/null").expect("Linux has it"));
        for _ in 0..FILES {
            let length = self.random.below(LENGTH_MOST);
            let file = Arc::new(ReadFile::buffered_over(Arc::clone(&nothing)));
            let bytes = Arc::new(self.contents(length));
            let bad = if self.random.one_in(3) { vec![self.random.below(600)] } else { Vec::new() };
            self.files.push(Model { file, bytes, changes: 0, stale: Vec::new(), bad });
        }
        self.streams = (0..STREAMS).map(|_| None).collect();
        (0..STREAMS as usize).for_each(|stream| self.open(stream));
    }

    /// Bytes that differ from all others.
    fn contents(&mut self, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        for (at, sector) in bytes.chunks_mut(512).enumerate() {
            let stamp = (self.random.below(1 << 20) << 24 | at as u64).to_le_bytes();
            sector.fill(stamp[0] ^ stamp[4]);
            let length = sector.len().min(stamp.len());
            sector[..length].copy_from_slice(&stamp[..length]);
        }
        bytes
    }

    fn pass_time(&mut self, nanos: u64) {
        self.simulated.now.fetch_add(nanos, Relaxed);
        if self.shared.lock().driver.deadline().is_some_and(|deadline| deadline <= self.simulated.now()) {
            self.shared.with(|core, now| core.driver.send(now, Event::Tick));
        }
    }

    fn open(&mut self, stream: usize) {
        let file = self.random.below(FILES) as usize;
        let model = &mut self.files[file];
        // From now on only the current state is right.
        model.stale.clear();
        self.simulated.versions.lock().expect("no panic").insert(address(&model.file), model.version());
        let opened = OpenedFile {
            object: ObjectId(file as u64),
            version: model.version(),
            file: Arc::new(File::open("/dev/null").expect("Linux has it")),
            pid: ProcessId(stream as u32),
            writes: false,
        };
        let found = LaidOutFile { file: Arc::clone(&model.file), layout: None };
        let name = self.shared.with(|core, now| core.opened(now, &opened, found, None));
        let at = if self.random.one_in(2) { 0 } else { self.random.below(LENGTH_MOST) };
        self.streams[stream] = Some((name, file, at));
    }

    /// Closes a stream without waiting reads, and opens it again.
    fn reopen(&mut self, stream: usize) {
        let waits = self.waiting.values().any(|asked| asked.stream == stream);
        if let Some((name, ..)) = self.streams[stream].take_if(|_| !waits) {
            drop(self.shared.with(|core, now| core.driver.close(now, name)));
            self.open(stream);
        }
    }

    fn read(&mut self, stream: usize) {
        let Some((name, file, at)) = self.streams[stream] else { return };
        let start = if self.random.one_in(8) { self.random.below(LENGTH_MOST) } else { at };
        let length = match self.random.below(20) {
            0 => 1 + self.random.below(3 * PAGE_SIZE),
            // Longer than the limit: it is passed.
            1 => (257 + self.random.below(40)) * PAGE_SIZE,
            _ => (1 + self.random.below(64)) * PAGE_SIZE,
        };
        let range = ByteSpan::at(ByteOffset(start), Bytes(length));
        self.streams[stream] = Some((name, file, start + length));
        let model = &self.files[file];
        let seen = model.stale.iter().chain([&model.bytes]).map(Arc::clone).collect();
        let request = self.asked;
        self.asked += 1;
        self.waiting.insert(request, ModelRead { stream, file, range, seen, may_fail: false });
        let answers = Arc::clone(&self.answers);
        let answer = Answer::call(move |answer| {
            answers.lock().expect("no panic").push((request, answer.map(<[u8]>::to_vec)));
        });
        // The call that is found for a reader may be wrong.
        let call = self.random.one_in(4).then(|| {
            let start = if self.random.one_in(4) { self.random.below(LENGTH_MOST) } else { start };
            ByteSpan::at(ByteOffset(start), Bytes(self.random.below(600) * PAGE_SIZE))
        });
        let read = ReadRequest { stream: name, range, pid: ProcessId(stream as u32), call };
        self.shared.with(|core, now| core.read(now, read, answer));
    }

    /// Ends some of the reads below, together.
    fn end_some(&mut self, most: u64) {
        let mut ended = Vec::new();
        for _ in 0..=self.random.below(most) {
            let mut taken = self.device.taken.lock().expect("no panic");
            if taken.is_empty() {
                break;
            }
            let at = self.random.below(taken.len().min(8) as u64) as usize;
            let read = taken.remove(at);
            drop(taken);
            ended.push(self.end(read));
        }
        Shared::ended(&Arc::downgrade(&self.shared), ended);
    }

    /// Carries out a read below.
    fn end(&mut self, mut read: reads::DiskRead) -> Ended {
        let file = self.file_of(address(&read.file));
        let model = &self.files[file];
        let start = (read.offset.get() as usize).min(model.bytes.len());
        let there = &model.bytes[start..(start + read.into.len()).min(model.bytes.len())];
        // It fails at a bad page, or sometimes anywhere.
        let pages = ByteSpan::at(read.offset, Bytes(there.len() as u64)).pages();
        let mut fails = model.bad.iter().copied().find(|page| pages.iter().any(|one| one.get() == *page));
        if fails.is_none() && !there.is_empty() && self.random.one_in(40) {
            fails = Some(pages.start.get() + self.random.below(pages.len().get()));
        }
        let got = match fails {
            Some(page) => (page * PAGE_SIZE).saturating_sub(read.offset.get()) as usize,
            None => there.len(),
        };
        match &mut read.into {
            Target::Frames(filling) => filling.copy_from(0, &there[..got]),
            Target::Buffer(buffer) => buffer[..got].copy_from_slice(&there[..got]),
        }
        if fails.is_some() {
            // The bytes after a bad page are missing as well.
            let range =
                ByteSpan::new(read.offset + Bytes(got as u64), read.offset + Bytes(read.into.len() as u64));
            self.excuse(file, range);
        }
        let (issued, error) = (std::time::Instant::now(), fails.map(|_| Errno::IO));
        let from_memory = self.random.one_in(10);
        Ended { read, got: Bytes(got as u64), error, issued, ended: issued, others: 0, from_memory }
    }

    fn file_of(&self, at: usize) -> usize {
        self.files.iter().position(|model| address(&model.file) == at).expect("one of them")
    }

    /// Waiting reads of these bytes may fail.
    fn excuse(&mut self, file: usize, range: ByteSpan) {
        let pages = range.pages();
        let concerned = |asked: &&mut ModelRead| asked.file == file && asked.range.pages().overlaps(pages);
        self.waiting.values_mut().filter(concerned).for_each(|asked| asked.may_fail = true);
    }

    /// Changes a file's bytes: through the mount, which gets a report before the change is acknowledged, or
    /// behind its back.
    fn change(&mut self) {
        let file = self.random.below(FILES) as usize;
        let behind = self.random.one_in(4);
        let mut bytes = self.files[file].bytes.as_ref().clone();
        let before = bytes.len() as u64;
        let range = if self.random.one_in(3) {
            bytes.resize(self.random.below(LENGTH_MOST) as usize, 0);
            ByteSpan::new(
                ByteOffset(before.min(bytes.len() as u64)),
                ByteOffset(before.max(bytes.len() as u64)),
            )
        } else {
            let start = self.random.below(before + PAGE_SIZE);
            let length = 1 + self.random.below(40 * PAGE_SIZE);
            let written = self.contents(length);
            bytes.resize(before.max(start + length) as usize, 0);
            bytes[start as usize..(start + length) as usize].copy_from_slice(&written);
            // Bytes between the old end and the start have become zeros.
            ByteSpan::new(ByteOffset(start.min(before)), ByteOffset(start + length))
        };
        let bytes = Arc::new(bytes);
        let model = &mut self.files[file];
        let old = std::mem::replace(&mut model.bytes, Arc::clone(&bytes));
        model.changes += 1;
        // The file system examines a file before it changes it: after a change by another program, nothing
        // known about it holds.
        let foreign = !model.stale.is_empty();
        if behind {
            model.stale.push(old);
        } else {
            model.stale.clear();
        }
        for asked in self.waiting.values_mut().filter(|asked| asked.file == file) {
            asked.seen.push(Arc::clone(&bytes));
        }
        let version = model.version();
        self.simulated.versions.lock().expect("no panic").insert(address(&model.file), version);
        if self.random.one_in(3) {
            // The file has changed, and the change is not reported yet.
            self.end_some(3);
        }
        if !behind {
            let range = (!foreign && !self.random.one_in(5)).then_some(range);
            self.shared.with(|core, now| core.driver.changed(now, ObjectId(file as u64), range, version));
        }
    }

    fn step(&mut self) {
        let stream = self.random.below(STREAMS) as usize;
        match self.random.below(100) {
            0..38 => self.read(stream),
            38..76 => self.end_some(4),
            76..82 => {
                let nanos = self.random.below(20_000_000);
                self.pass_time(nanos);
            }
            82..87 => self.change(),
            87..89 => {
                let pages = Pages(self.random.below(self.settings.memory.get() * 5 / 4));
                set_budget(&self.shared, pages);
            }
            89..91 => self.device.refusing.store(1 + self.random.below(3), Relaxed),
            91..94 => self.reopen(stream),
            94..97 => self.send(ServingEvent::Ran { pid: ProcessId(stream as u32) }),
            97..98 => self.send(ServingEvent::Exited { pid: ProcessId(stream as u32) }),
            98 => self.mend_or_break(),
            _ => self.shared.with(|core, now| core.count_thrashing(now)),
        }
        self.simulated.now.fetch_add(1 + self.random.below(100_000), Relaxed);
    }

    fn send(&self, event: ServingEvent<'_>) {
        self.shared.with(|core, now| core.driver.send(now, Event::Serving(event)));
    }

    /// A page becomes bad or readable again.
    fn mend_or_break(&mut self) {
        let (file, page) = (self.random.below(FILES) as usize, self.random.below(600));
        let bad = &mut self.files[file].bad;
        if bad.pop().is_none() {
            bad.push(page);
        }
    }

    /// The invariants after each step.
    fn check(&mut self) {
        let refused = std::mem::take(&mut *self.device.refused.lock().expect("no panic"));
        for (file, range) in refused {
            self.excuse(self.file_of(file), range);
        }
        let answers = std::mem::take(&mut *self.answers.lock().expect("no panic"));
        for (request, answer) in answers {
            let asked = self.waiting.remove(&request).expect("a read is answered once");
            self.trace = (self.trace ^ request).wrapping_mul(0x0100_0000_01b3);
            match answer {
                Ok(bytes) => {
                    let some = bytes.iter().step_by(61).map(|byte| u64::from(*byte));
                    self.trace ^= some.fold(bytes.len() as u64, |sum, byte| sum * 31 % 65_521 + byte);
                    right(&asked, &bytes);
                }
                Err(errno) => {
                    assert!(asked.may_fail, "{request}, {:?}, failed with {errno}", asked.range);
                    assert_eq!(errno, Errno::IO);
                }
            }
        }
        let core = self.shared.lock();
        let stats = core.driver.stats();
        assert_eq!(stats.internal_errors, 0);
        assert_eq!(core.driver.unanswered(), self.waiting.len(), "a read is lost");
        let backed = self.shared.frames.backed();
        assert!(
            stats.backed <= self.settings.memory && backed <= stats.backed,
            "{backed} have memory: {stats:?}"
        );
        assert!(stats.budget >= MEMORY_LEAST && stats.cached <= stats.backed);
        let taken = self.device.taken.lock().expect("no panic");
        let fetches = taken.iter().filter(|read| Token::fetch(read.token).is_some()).count();
        assert_eq!(fetches, stats.in_flight as usize, "a fetch is lost");
    }

    /// Ends everything.
    fn finish(&mut self) {
        self.device.refusing.store(0, Relaxed);
        for _ in 0..100_000 {
            let stats = self.shared.lock().driver.stats();
            if self.waiting.is_empty() && stats.in_flight == 0 && stats.queued == 0 {
                break;
            }
            self.end_some(8);
            self.pass_time(2_000_000);
            self.check();
        }
        let stats = self.shared.lock().driver.stats();
        assert!(self.waiting.is_empty(), "{} reads wait for ever: {stats:?}", self.waiting.len());
        assert!(self.device.taken.lock().expect("no panic").is_empty());
        assert_eq!(stats.free + stats.cached, stats.budget, "a frame is lost: {stats:?}");
        assert!(stats.backed <= stats.budget, "{stats:?}");
        for stream in 0..STREAMS as usize {
            if let Some((name, ..)) = self.streams[stream].take() {
                drop(self.shared.with(|core, now| core.driver.close(now, name)));
            }
        }
        self.shared.lock().stop();
    }
}

/// Compares an answer with the states of the file while its reader waited.
fn right(asked: &ModelRead, bytes: &[u8]) {
    let (start, end) = (asked.range.start.get() as usize, asked.range.end.get() as usize);
    let of = |seen: &'_ Arc<Vec<u8>>| start.min(seen.len())..end.min(seen.len());
    if asked.seen.iter().any(|seen| seen[of(seen)] == *bytes) {
        return;
    }
    let lengths = || asked.seen.iter().map(|seen| of(seen).len());
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let range = asked.range;
    assert!(
        (least..=most).contains(&bytes.len()),
        "{range:?}: {} bytes and not {least} to {most}",
        bytes.len()
    );
    for (at, byte) in bytes.iter().enumerate() {
        // A page continues with zeros beyond the file's earlier end.
        let was = |seen: &Arc<Vec<u8>>| seen.get(start + at).copied().unwrap_or(0) == *byte;
        assert!(asked.seen.iter().any(was), "{range:?}: byte {at} is {byte}, which was never there");
    }
}

/// Runs a seed; returns a hash of the run.
fn run(seed: u64) -> u64 {
    let mut simulation = Simulation::new(seed);
    for _ in 0..STEPS {
        simulation.step();
        simulation.check();
    }
    simulation.finish();
    simulation.trace
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is '{value}' and not a number")))
}

#[test]
fn every_seed_serves_what_the_files_hold() {
    let seeds = match variable("FORESEEK_MOUNT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("FORESEEK_MOUNT_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        // The failure is printed by then.
        let ended = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let repeat = format!("FORESEEK_MOUNT_SEED={seed} cargo test -p foreseek-mount --lib simulation");
        assert!(ended.is_ok(), "seed {seed} failed; it is repeated by: {repeat}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 4, 5] {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(3), run(4));
}
