//! The source of work: a closed loop of clients, or a batch of jobs.

use super::events::Event;
use super::process::{Doing, Process};
use super::{Machine, MachineError};
use crate::program::{self, Drive};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Nanos};

/// The clients, or the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) drive: Drive,
    /// Concurrent requests, of a closed loop.
    pub(super) concurrency: u32,
    pub(super) seed: u64,
    /// Programs that were made.
    pub(super) made: u64,
}

impl Machine {
    /// Begins the work.
    pub(super) fn start(&mut self) -> Result<(), MachineError> {
        match self.client.drive {
            Drive::Closed => {
                self.workload.begins_with(self.client.concurrency);
                for _ in 0..self.client.concurrency {
                    self.events.arrange(self.now, Event::Arrive);
                }
            }
            Drive::Jobs(jobs) => {
                for _ in 0..jobs {
                    self.spawn()?;
                }
            }
        }
        Ok(())
    }

    /// Makes the process of the next request or job.
    pub(super) fn spawn(&mut self) -> Result<(), MachineError> {
        let number = self.client.made;
        self.client.made += 1;
        let (program, random) = program::begin(&mut *self.workload, self.client.seed, number);
        // Process 0 is write-back.
        let pid = ProcessId(self.client.made as u32);
        let mut process = Process::new((pid, number), program, random, self.now);
        process.doing = Doing::Compute(self.settings.costs.create);
        let memory = process.memory;
        let process = self.processes.insert(process) as u32;
        self.take(process, memory)?;
        self.ready(process);
        self.work_of_kernel();
        Ok(())
    }

    /// A process has ended; its client makes the next request.
    pub(super) fn ended(&mut self, number: u64, born: Instant) {
        match self.client.drive {
            Drive::Closed => self.events.arrange(self.now + self.settings.client_delay, Event::Arrive),
            Drive::Jobs(_) => {
                let took: Nanos = self.now - born;
                self.metrics.jobs.push((number, took));
            }
        }
    }
}
