//! A machine in virtual time: processes, processors, memory, a page cache, a block layer, a device.
//!
//! There is one event loop. The next event is the earliest of those that are scheduled (at one time in the
//! order of scheduling) and of those of the block layer, which go first. A process on a processor works page by
//! page. After each page it checks whether another event comes before the page's time is over, so that nothing
//! sees a state of the future. All of it is deterministic: the same parts and the same seed give the same run
//! to the last bit.
//!
//! The parts: [`crate::block`] below, a [`Prefetcher`] that is called at each touched page, a [`Reclaim`] that
//! chooses victims, a [`Workload`] that defines what processes do. `docs/internals/simulator.md` explains the
//! rules and what is left out.

mod advice;
mod client;
mod direct;
mod error;
mod events;
mod fetch;
mod files;
mod frames;
mod memory;
mod metadata;
mod metrics;
mod mount;
mod names;
mod private;
mod process;
mod processors;
mod reading;
pub mod reclaim;
mod settings;
mod steps;
mod watching;
mod writing;

#[cfg(test)]
mod audit;
#[cfg(test)]
mod tests;

pub use error::MachineError;
pub use metrics::{Counters, FETCH_SIZES_LIMIT, Logged, Report, Responses, USE_PERIOD};
pub use names::FrameNo;
pub use reclaim::Reclaim;
pub use settings::{Costs, Memory, Settings, WriteBack};

use crate::block::{self, BlockLayer, scheduler};
use crate::program::{Drive, Workload};
use events::{Event, Events};
use files::File;
use foreseek_device::Device;
use foreseek_readahead::stream::{self, Ahead, Generation, Prefetcher};
use foreseek_seam::Extent;
use foreseek_units::{Bytes, Instant, Lba, Nanos, Pages};
use frames::Frames;
use process::{OpenStream, Process};
use slab::Slab;
use std::collections::VecDeque;

/// The most processors: as many as today's largest machines have; idle ones are searched in turn.
pub const PROCESSORS_LIMIT: u32 = 1024;

/// The most concurrent requests: 16 times the most of the benchmark, and more than the process ids of the
/// papers' kernels (32,768).
pub const CONCURRENCY_LIMIT: u32 = 1 << 16;

/// The most memory: frames and page tables count in 31 bits, of which two thirds are left unused.
pub const MEMORY_LIMIT: Bytes = Bytes::gib(2048);

/// The parts of a machine.
pub struct Parts {
    /// Memory, processors, costs.
    pub settings: Settings,
    /// The block layer with its scheduler and device.
    pub block: BlockLayer,
    /// The read-ahead.
    pub prefetcher: Box<dyn Prefetcher>,
    /// The page replacement.
    pub reclaim: Box<dyn Reclaim>,
    /// The programs.
    pub workload: Box<dyn Workload>,
    /// The extents of each of the workload's files, ascending.
    pub extents: Vec<Vec<Extent>>,
    /// Concurrent requests, if the workload is a closed loop.
    pub concurrency: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Parts {
    /// A stock kernel of today with this much memory for cached pages and no other users (see
    /// [`Settings::stock`]), which reads ahead on demand up to 128 KiB, over a device without a scheduler.
    #[must_use]
    pub fn stock(
        memory: Pages,
        device: Box<dyn Device>,
        workload: Box<dyn Workload>,
        extents: Vec<Vec<Extent>>,
    ) -> Self {
        let window =
            stream::Settings { window: Bytes::kib(128).pages_floor(), ..stream::Settings::default() };
        Self {
            settings: Settings::stock(memory.bytes()),
            block: BlockLayer::new(
                block::Settings::LINUX_6_LOOP,
                Box::new(scheduler::Noop::default()),
                device,
            ),
            prefetcher: stream::stock(Generation::ON_DEMAND, &window),
            reclaim: Box::new(reclaim::LinuxLists::linux_6()),
            workload,
            extents,
            concurrency: 1,
            seed: 0,
        }
    }
}

/// The length of a run, and the part that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Time before the measurement; jobs are measured from their start.
    pub warm_up: Nanos,
    /// Time measured, of a closed loop; the longest that jobs may take.
    pub duration: Nanos,
}

impl Period {
    /// The whole time, of a closed loop.
    #[must_use]
    pub fn whole(self) -> Nanos {
        self.warm_up + self.duration
    }
}

/// A running machine.
pub struct Machine {
    settings: Settings,
    now: Instant,
    /// The end of the run.
    end: Instant,
    events: Events,
    block: BlockLayer,
    /// The time of the block layer's next event.
    block_next: Option<Instant>,
    prefetcher: Box<dyn Prefetcher>,
    reclaim: Box<dyn Reclaim>,
    workload: Box<dyn Workload>,
    client: client::Client,
    files: Vec<File>,
    /// The beginning of the free space for growing files.
    free_from: Lba,
    frames: Frames,
    memory: memory::Held,
    swap: Option<private::Swap>,
    short_of_memory: VecDeque<u32>,
    flight: fetch::IoInFlight,
    mount: Option<Box<mount::Mount>>,
    tables: Option<Box<metadata::Tables>>,
    watching: Option<watching::Watching>,
    dirt: writing::Dirt,
    streams: Slab<OpenStream>,
    openings: u32,
    processes: Slab<Process>,
    processors: processors::Processors,
    /// Processor time that is billed and not yet spent.
    bill: Nanos,
    metrics: metrics::Metrics,
    mark: metrics::Mark,
    /// A buffer for the prefetcher's answers.
    wanted: Vec<Ahead>,
    /// A buffer for the processes that wait for a page.
    waiters: Vec<u32>,
}

impl Machine {
    /// An idle machine.
    ///
    /// # Errors
    /// The number of lists of extents is not that of files, memory is too small for a page cache, or something
    /// exceeds its limit.
    pub fn new(parts: Parts) -> Result<Self, MachineError> {
        let Parts { settings, block, prefetcher, reclaim, workload, extents, concurrency, seed } = parts;
        let specs = workload.files();
        if specs.len() != extents.len() {
            return Err(MachineError::Files { files: specs.len(), placed: extents.len() });
        }
        let used = extents.iter().flatten().map(|extent| extent.lba + extent.pages.sectors());
        let free_from = used.max().unwrap_or(Lba::ZERO);
        let files =
            specs.iter().zip(extents).map(|(spec, extents)| File::new(spec.length, extents)).collect();
        let drive = workload.drive();
        let mut machine = Self {
            processors: processors::Processors::new(settings.processors.min(PROCESSORS_LIMIT)),
            settings,
            now: Instant::ZERO,
            end: Instant::ZERO,
            events: Events::default(),
            block,
            block_next: None,
            prefetcher,
            reclaim,
            workload,
            client: client::Client { drive, concurrency, seed, made: 0 },
            files,
            free_from,
            frames: Frames::default(),
            memory: memory::Held::default(),
            swap: None,
            short_of_memory: VecDeque::new(),
            flight: fetch::IoInFlight::default(),
            mount: None,
            tables: None,
            watching: None,
            dirt: writing::Dirt::default(),
            streams: Slab::new(),
            openings: 0,
            processes: Slab::new(),
            bill: Nanos::ZERO,
            metrics: metrics::Metrics::new(),
            mark: metrics::Mark::start(),
            wanted: Vec::new(),
            waiters: Vec::new(),
        };
        machine.check()?;
        machine.lay_out_swap();
        machine.resized();
        Ok(machine)
    }

    fn check(&self) -> Result<(), MachineError> {
        let Settings { memory, processors, .. } = &self.settings;
        let least = memory.high * 2;
        let share = memory.total.pages_floor().scale(1.0 - memory.private_share);
        if !(1..=PROCESSORS_LIMIT).contains(processors) {
            return Err(MachineError::Processors { processors: *processors, most: PROCESSORS_LIMIT });
        }
        let concurrency = self.client.concurrency;
        if !(1..=CONCURRENCY_LIMIT).contains(&concurrency) {
            return Err(MachineError::Concurrency { concurrency, most: CONCURRENCY_LIMIT });
        }
        if memory.total > MEMORY_LIMIT {
            return Err(MachineError::TooMuchMemory { total: memory.total, most: MEMORY_LIMIT });
        }
        let usable = memory.total.pages_floor() - memory.system.pages_ceil();
        if memory.paged && usable < least {
            return Err(MachineError::Memory { total: memory.total, least: memory.system + least.bytes() });
        }
        if !memory.paged && share < memory.system.pages_ceil() + least {
            let least = (memory.system + least.bytes()).scale(1.0 / (1.0 - memory.private_share));
            return Err(MachineError::Memory { total: memory.total, least });
        }
        Ok(())
    }

    /// Runs it: warm-up and measurement of a closed loop, or all jobs to their end. `progress` is called with
    /// the time now and then.
    ///
    /// # Errors
    /// A program makes a step that is not possible, the device fails, every process waits and no event is left,
    /// or the jobs take longer than allowed.
    pub fn run(mut self, period: Period, progress: &mut dyn FnMut(Instant)) -> Result<Report, MachineError> {
        self.arrange_reclaim();
        self.start()?;
        if self.client.drive == Drive::Closed {
            self.run_until(Instant::ZERO + period.warm_up, progress)?;
            self.begin_measurement();
            self.run_until(self.now + period.duration, progress)?;
        } else {
            let limit = Instant::ZERO + period.duration;
            self.run_until(limit, progress)?;
            if !self.jobs_are_over() && !self.settings.ends_jobs {
                return Err(MachineError::TooLong { limit: period.duration, left: self.jobs_left() });
            }
        }
        Ok(self.report())
    }

    /// Runs until a time, or until the last job has ended.
    fn run_until(&mut self, end: Instant, progress: &mut dyn FnMut(Instant)) -> Result<(), MachineError> {
        /// Events between two calls of `progress`: some milliseconds of the real machine.
        const EVENTS: u32 = 1 << 15;
        let mut left = EVENTS;
        self.end = end;
        loop {
            if self.client.drive != Drive::Closed && self.jobs_are_over() {
                return Ok(());
            }
            if self.block_next.is_none() && self.events.only_ticks() {
                return Err(self.stuck());
            }
            let Some(next) = self.next() else { return Err(self.stuck()) };
            if next > end {
                self.now = end;
                return Ok(());
            }
            self.now = next;
            if self.block_next == Some(next) {
                self.serve_block()?;
            } else if let Some(event) = self.events.take() {
                self.happens(event)?;
            }
            left -= 1;
            if left == 0 {
                progress(self.now);
                left = EVENTS;
            }
        }
    }

    fn happens(&mut self, event: Event) -> Result<(), MachineError> {
        match event {
            Event::Run(processor) => return self.run_processor(processor),
            Event::Wake(process) => self.ready(process),
            Event::Arrive => self.spawn()?,
            Event::Flush => self.flush(),
            Event::Balance => self.balance_on(),
            Event::Serve => self.serve_again(),
            Event::Reclaim => {
                self.reclaim.tick(self.now);
                self.arrange_reclaim();
            }
        }
        Ok(())
    }

    /// No event is left although processes wait: returns what they wait for.
    fn stuck(&self) -> MachineError {
        /// The most processes that the message names.
        const NAMED: usize = 5;
        let mut waits: Vec<String> =
            self.processes.iter().take(NAMED).map(|(_, process)| process.describe()).collect();
        if self.processes.len() > NAMED {
            waits.push(format!("and {} more", self.processes.len() - NAMED));
        }
        MachineError::Stuck { at: self.now - Instant::ZERO, waits: waits.join("; ") }
    }
}
