//! Processors and who runs on them.
//!
//! Processes that want a processor wait in one queue, first come first served. One that has used up
//! its time slice while others wait goes to the end. Putting another process on a processor takes
//! the time of a context switch. Limits: no priorities, no affinity; a process that wakes up takes no
//! processor from another before its slice is over.

use super::events::Event;
use super::process::Wait;
use super::{Machine, MachineError};
use foreseek_units::{Instant, Nanos};
use std::collections::VecDeque;

/// One processor.
#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    /// Who runs on it.
    running: Option<u32>,
    /// Whether it is at work or about to be: an event for it is arranged.
    awake: bool,
}

/// All of them and the queue before them.
#[derive(Debug)]
pub(super) struct Processors {
    all: Vec<Processor>,
    ready: VecDeque<u32>,
}

/// What became of a process on its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It can go on.
    GoesOn,
    /// It waits.
    Waits,
    /// It has ended.
    Ended,
}

impl Processors {
    pub(super) fn new(count: u32) -> Self {
        Self { all: vec![Processor::default(); count as usize], ready: VecDeque::new() }
    }
}

impl Machine {
    /// A process wants a processor.
    pub(super) fn ready(&mut self, process: u32) {
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.wait = Wait::None;
        }
        self.processors.ready.push_back(process);
        let idle = self.processors.all.iter().position(|processor| !processor.awake);
        if let Some(processor) = idle {
            self.processors.all[processor].awake = true;
            self.events.arrange(self.now, Event::Run(processor as u32));
        }
    }

    /// A processor's event: its process goes on until something else happens first, it waits or its
    /// slice is over.
    pub(super) fn run_processor(&mut self, processor: u32) -> Result<(), MachineError> {
        let at = processor as usize;
        let Some(process) = self.processors.all[at].running else {
            self.switch(processor);
            return Ok(());
        };
        loop {
            let turn = self.step(process)?;
            let spent = self.pay();
            if turn != Turn::GoesOn {
                self.processors.all[at].running = None;
                self.events.arrange(self.now + spent, Event::Run(processor));
                return Ok(());
            }
            let preempted = self.use_slice(process, spent);
            if preempted {
                self.processors.all[at].running = None;
                self.processors.ready.push_back(process);
            }
            let until = self.now + spent;
            if preempted || until >= self.end || self.next().is_some_and(|next| next <= until) {
                self.events.arrange(until, Event::Run(processor));
                return Ok(());
            }
            self.now = until;
        }
    }

    /// Takes what was spent from the process's slice; whether that is over and others wait.
    fn use_slice(&mut self, process: u32, spent: Nanos) -> bool {
        let Some(process) = self.processes.get_mut(process as usize) else { return false };
        process.slice -= spent;
        if !process.slice.is_zero() {
            return false;
        }
        process.slice = self.settings.time_slice;
        !self.processors.ready.is_empty()
    }

    /// Puts the next process on a processor, or lets it sleep.
    fn switch(&mut self, processor: u32) {
        let at = processor as usize;
        let Some(process) = self.processors.ready.pop_front() else {
            self.processors.all[at].awake = false;
            return;
        };
        self.processors.all[at].running = Some(process);
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.slice = self.settings.time_slice;
            let who = one.who;
            self.reclaim.ran(self.now, who);
            self.mount_ran(who);
        }
        self.bill += self.settings.costs.switch;
        let spent = self.pay();
        self.events.arrange(self.now + spent, Event::Run(processor));
    }

    /// The processor time that was billed since this was last called, which is spent from now on.
    pub(super) fn pay(&mut self) -> Nanos {
        let spent = std::mem::take(&mut self.bill);
        self.metrics.processor(self.now, spent);
        spent
    }

    /// When the next thing happens that is arranged or that the device will do.
    pub(super) fn next(&self) -> Option<Instant> {
        match (self.events.next(), self.block_next) {
            (Some(event), Some(block)) => Some(event.min(block)),
            (event, block) => event.or(block),
        }
    }
}
