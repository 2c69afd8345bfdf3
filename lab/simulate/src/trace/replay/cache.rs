//! A trace as programs: its requests are reads and writes of files, through a machine's page cache.

use super::addresses::Addresses;
use super::chains::{Chained, Chains};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use crate::trace::{Record, Summary, TraceError, TraceTarget};
use foreseek_device::Op;
use foreseek_seam::{Extent, ProcessId};
use foreseek_units::{Bytes, Instant, Lba, Nanos, PageIndex};
use rand_core::Rng;
use std::collections::{BTreeMap, VecDeque};

/// The most requests of a replay through the page cache: half a gigabyte of them. (The processes of a machine
/// run independently, so that the whole trace must be in memory.)
pub const REQUESTS_LIMIT: usize = 5_000_000;

/// The most processes of a replay.
pub const PROCESSES_LIMIT: usize = 4096;

/// The requests of a trace, as a workload: one job for each process of the trace, which opens each file when it
/// first needs it, thinks, reads or writes, and reports that it has finished. Flushes have no counterpart and
/// only count as think time.
pub struct Accesses {
    files: Vec<FileSpec>,
    targets: BTreeMap<TraceTarget, u32>,
    chains: Vec<VecDeque<Chained>>,
}

impl Accesses {
    /// Reads a trace with a known summary.
    ///
    /// # Errors
    /// It is malformed, or has too many requests or processes.
    pub fn new(
        trace: impl Iterator<Item = Result<Record, TraceError>>,
        summary: &Summary,
    ) -> Result<Self, TraceError> {
        let too_long = |limit| TraceError::TooLong { file: summary.file.clone(), limit };
        if summary.requests() > REQUESTS_LIMIT as u64 {
            return Err(too_long(REQUESTS_LIMIT));
        }
        let mut chains = Chains::new();
        let mut numbers: BTreeMap<ProcessId, usize> = BTreeMap::new();
        let mut by_process: Vec<VecDeque<Chained>> = Vec::new();
        for record in trace {
            let chained = chains.add(record?);
            let next = numbers.len();
            let at = *numbers.entry(chained.pid).or_insert(next);
            if at == by_process.len() {
                if at == PROCESSES_LIMIT {
                    return Err(TraceError::Processes { file: summary.file.clone(), limit: PROCESSES_LIMIT });
                }
                by_process.push(VecDeque::new());
            }
            by_process[at].push_back(chained);
        }
        let number = |(n, target): (u32, &crate::trace::TargetSummary)| (target.target, n);
        let files = summary.targets.iter().map(|target| FileSpec { length: target.end, directory: 0 });
        Ok(Self {
            files: files.collect(),
            targets: (0..).zip(&summary.targets).map(number).collect(),
            chains: by_process,
        })
    }

    /// The extents of the files: each in one piece, at the same addresses as in a replay through the block
    /// layer. A trace that must be wrapped has none.
    #[must_use]
    pub fn extents(summary: &Summary, addresses: &Addresses) -> Vec<Vec<Extent>> {
        let extent = |target: &crate::trace::TargetSummary| {
            let lba = Lba(addresses.base(target.target).sectors_floor().get());
            let pages = target.end.pages_ceil();
            let extent = Extent { page: PageIndex::ZERO, pages, lba };
            if pages.is_zero() { Vec::new() } else { vec![extent] }
        };
        summary.targets.iter().map(extent).collect()
    }
}

impl Workload for Accesses {
    fn files(&self) -> Vec<FileSpec> {
        self.files.clone()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.chains.len() as u32)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        // Each chain runs once: it is moved, not copied.
        let chain = self.chains.get_mut(number as usize).map(std::mem::take).unwrap_or_default();
        Box::new(Replayed { chain, targets: self.targets.clone(), open: Vec::new(), steps: VecDeque::new() })
    }
}

/// One process of a trace.
struct Replayed {
    chain: VecDeque<Chained>,
    targets: BTreeMap<TraceTarget, u32>,
    open: Vec<u32>,
    steps: VecDeque<Step>,
}

impl Replayed {
    fn access(&mut self, chained: &Chained) {
        if chained.think > Nanos::ZERO {
            self.steps.push_back(Step::Sleep(chained.think));
        }
        let record = &chained.record;
        let Some(&file) = self.targets.get(&record.target) else { return };
        let handle = Handle(file);
        if !self.open.contains(&file) {
            self.open.push(file);
            self.steps.push_back(Step::Open { handle, file: FileNumber(file), announced: None });
        }
        let range = record.range;
        let access = match record.op {
            Op::Read => Step::Read { handle, range },
            Op::Write => Step::Write { handle, range },
            Op::Flush => return,
        };
        self.steps.extend([Step::Begun, access, Step::Finished]);
    }
}

impl Program for Replayed {
    fn next(&mut self, _now: Instant, _random: &mut dyn Rng) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            match self.chain.pop_front() {
                Some(chained) => self.access(&chained),
                None => return Step::Exit,
            }
        }
    }

    fn memory(&self) -> Bytes {
        // The process's memory is not known; its data count as page cache.
        Bytes::ZERO
    }
}
