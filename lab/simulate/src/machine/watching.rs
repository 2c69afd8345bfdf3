//! A daemon that is notified of what processes open, and reads ahead of them.
//!
//! Opens and listings are reported to the [`Watch`] as fanotify would report them; each report costs the
//! process [`EVENT`]. The daemon's workers are ordinary processes: they take commands, wait for the device, and
//! compete for memory. They live as long as the machine.

use super::Machine;
use super::process::{Process, Wait};
use super::processors::Turn;
use crate::program::{FileNumber, Program};
use crate::watch::{Seen, Watch, Worker, locked};
use foreseek_seam::ProcessId;
use foreseek_units::Nanos;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::sync::{Arc, Mutex};

/// The cost of an event for the watched process: 0.8 to 2.6 us were measured for an open and its close.
const EVENT: Nanos = Nanos(1_700);

/// The first number of the workers: no other process has these.
const WORKERS: u32 = u32::MAX - 16;

/// The daemon and its workers.
pub(super) struct Watching {
    watch: Arc<Mutex<Watch>>,
    workers: Vec<u32>,
    /// The idle ones.
    idle: Vec<u32>,
}

impl Machine {
    /// The same machine with a daemon; both must read [metadata](Self::with_metadata).
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Self {
        let watch = Arc::new(Mutex::new(watch));
        let mut workers = Vec::new();
        for (number, worker) in (0..).zip(Worker::all(&watch)) {
            let program: Box<dyn Program> = Box::new(worker);
            let pid = ProcessId(WORKERS + number);
            let random = Pcg64Mcg::seed_from_u64(u64::from(number));
            let process = Process::new((pid, u64::from(pid.0)), program, random, self.now);
            workers.push(self.processes.insert(process) as u32);
        }
        for worker in &workers {
            self.ready(*worker);
        }
        self.watching = Some(Watching { watch, workers, idle: Vec::new() });
        self
    }

    /// The status of the daemon's engine.
    #[must_use]
    pub fn walks(&self) -> Option<foreseek_walks::Status> {
        self.watching.as_ref().map(|watching| locked(&watching.watch).status())
    }

    /// Jobs that have not ended.
    pub(super) fn jobs_left(&self) -> usize {
        self.processes.len() - self.watching.as_ref().map_or(0, |watching| watching.workers.len())
    }

    pub(super) fn jobs_are_over(&self) -> bool {
        self.jobs_left() == 0
    }

    pub(super) fn seen_opened(&mut self, process: u32, file: FileNumber) {
        self.seen(process, Seen::Opened(file));
    }

    pub(super) fn seen_listed(&mut self, process: u32, directory: u32) {
        self.seen(process, Seen::Listed(directory));
    }

    fn seen(&mut self, process: u32, what: Seen) {
        let Some(watching) = &self.watching else { return };
        if watching.workers.contains(&process) {
            return;
        }
        let pid = self.processes.get(process as usize).map_or(ProcessId(0), |one| one.pid);
        if locked(&watching.watch).seen(self.now, pid, what) {
            self.bill += EVENT;
        }
        self.hand_out_work();
    }

    /// A worker has nothing to do.
    pub(super) fn await_work(&mut self, process: u32) -> Turn {
        if let Some(watching) = &mut self.watching {
            watching.idle.push(process);
        }
        self.wait(process, Wait::Work);
        Turn::Waits
    }

    /// Wakes workers if there is work.
    pub(super) fn hand_out_work(&mut self) {
        let Some(watching) = &mut self.watching else { return };
        if watching.idle.is_empty() || !locked(&watching.watch).has_work() {
            return;
        }
        for worker in std::mem::take(&mut watching.idle) {
            self.ready(worker);
        }
    }
}
