//! A machine in virtual time: processes, processors, memory, a page cache, a block layer, a device.
//!
//! One event loop. What happens next is the earliest of what is arranged (the order of arrangement
//! decides at one time) and of what the block layer will do, which goes first. A process on a
//! processor works page by page; after each it looks whether something else happens before it would
//! be done, so that nothing ever sees a state of the future. All of it is deterministic: the same
//! parts and the same seed give the same run to the last bit.
//!
//! The parts: [`crate::block`] below, a [`Prefetcher`] asked at each touched page, a [`Reclaim`]
//! asked for victims, a [`Workload`] that says what processes do. `docs/internals/simulator.md` tells the
//! rules as prose and what is left out.

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

/// Most processors: as many as today's largest machines have; idle ones are looked for in turn.
pub const PROCESSORS_LIMIT: u32 = 1024;

/// Most concurrent requests: 16 times the most that the benchmark shows, and more than process ids of
/// the papers' kernels (32,768).
pub const CONCURRENCY_LIMIT: u32 = 1 << 16;

/// Most memory: frames and page tables count in 31 bits, and two in three of those are left unused.
pub const MEMORY_LIMIT: Bytes = Bytes::gib(2048);

/// Everything that makes a machine.
pub struct Parts {
    /// Memory, processors, costs.
    pub settings: Settings,
    /// The block layer with its scheduler and device.
    pub block: BlockLayer,
    /// The read-ahead.
    pub prefetcher: Box<dyn Prefetcher>,
    /// The page replacement.
    pub reclaim: Box<dyn Reclaim>,
    /// What processes do.
    pub workload: Box<dyn Workload>,
    /// Where each of the workload's files lies; ascending pieces.
    pub extents: Vec<Vec<Extent>>,
    /// Requests at a time, where the workload is a closed loop.
    pub concurrency: u32,
    /// Fixes every random choice.
    pub seed: u64,
}

impl Parts {
    /// A stock kernel of today, alone with this much memory for cached pages (see [`Settings::stock`]), that reads
    /// ahead on demand up to 128 KiB, over a device without a scheduler.
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

/// How long a run is and which part of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Time before the measurement; jobs are measured from their start.
    pub warm_up: Nanos,
    /// Time measured, of a closed loop; the longest that jobs may take.
    pub duration: Nanos,
}

impl Period {
    /// All of it, of a closed loop.
    #[must_use]
    pub fn whole(self) -> Nanos {
        self.warm_up + self.duration
    }
}

/// A machine at work.
pub struct Machine {
    settings: Settings,
    now: Instant,
    /// Until when it is to run.
    end: Instant,
    events: Events,
    block: BlockLayer,
    /// When the block layer has something to do.
    block_next: Option<Instant>,
    prefetcher: Box<dyn Prefetcher>,
    reclaim: Box<dyn Reclaim>,
    workload: Box<dyn Workload>,
    client: client::Client,
    files: Vec<File>,
    /// Where growing files get their space.
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
    /// Processor time spent and not yet paid.
    bill: Nanos,
    metrics: metrics::Metrics,
    mark: metrics::Mark,
    /// Room for the prefetcher's answers, used again.
    wanted: Vec<Ahead>,
    /// Room for the processes that wait for a page, used again.
    waiters: Vec<u32>,
}

impl Machine {
    /// A machine at rest.
    ///
    /// # Errors
    /// There are not as many lists of extents as files, memory is too small for a page cache, or
    /// something is beyond its limit.
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

    /// Runs it: warm-up and measurement of a closed loop, or all jobs to their end. `progress` is
    /// told the time now and then.
    ///
    /// # Errors
    /// A program does what cannot be done, the device fails, everything waits for something that
    /// will not come, or the jobs take longer than they may.
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

    /// Works until a time, or until the last job is done.
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
            Event::Reclaim => {
                self.reclaim.tick(self.now);
                self.arrange_reclaim();
            }
        }
        Ok(())
    }

    /// Nothing will ever happen, although processes wait: tells for what.
    fn stuck(&self) -> MachineError {
        /// Processes that the message tells of.
        const NAMED: usize = 5;
        let mut waits: Vec<String> =
            self.processes.iter().take(NAMED).map(|(_, process)| process.describe()).collect();
        if self.processes.len() > NAMED {
            waits.push(format!("and {} more", self.processes.len() - NAMED));
        }
        MachineError::Stuck { at: self.now - Instant::ZERO, waits: waits.join("; ") }
    }
}
