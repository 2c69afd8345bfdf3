//! Processors and the processes that run on them.
//!
//! Processes that are ready wait in one queue, first come first served. One that has used up its time slice
//! while others wait goes to the end. Putting another process on a processor takes the time of a context
//! switch. A processor's time is used once: by a process, a switch, an interrupt or a thread of the kernel.
//!
//! *A process never overlaps itself.* What a step submits is submitted at its beginning, and its cost is spent
//! after that. A process that has to wait stays on its processor until that time is over. If the event comes
//! before, it goes on there without a switch: a process that finds its page unlocked never sleeps
//! (`wait_on_page_locked`), and one that is woken while it still runs goes on where it runs (`try_to_wake_up`:
//! `task_running`). One whose slice is over enters the queue at the end of that time.
//!
//! *Interrupts* come to the first processor, one after the other, and delay what runs there. In Linux 2.6 the
//! interrupt of a device goes to one processor, and is moved twice a second at most (`do_irq_balance`,
//! `MIN_BALANCED_IRQ_INTERVAL`); the rest of the work is a softirq on the same one (`blk_complete_request`). A
//! process that is woken by it can run when it is over, on that processor if it is idle (`wake_idle`).
//!
//! *Threads of the kernel* (kswapd, pdflush) and the creation of processes have no process here. They take an
//! idle processor, or else delay what runs on the first one, since the process that sleeps most comes first in
//! 2.6's scheduler (`TASK_PREEMPTS_CURR`).
//!
//! Limits: no priorities, no affinity; a process that wakes up preempts none before its slice is over; an
//! interrupt in the middle of a step delays its end, not its middle.

use super::events::Event;
use super::process::Wait;
use super::{Machine, MachineError};
use foreseek_units::{Instant, Nanos};
use std::collections::VecDeque;

/// One processor.
#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    /// The process that runs on it.
    running: Option<u32>,
    /// Its process's slice is over, and others wait.
    slice_over: bool,
    /// A process runs on it, or is about to.
    taken: bool,
    /// It is running or about to: an event for it is scheduled.
    awake: bool,
    /// Until when its time is used.
    until: Instant,
    /// The time of interrupts since then.
    owed: Nanos,
}

/// The processor that gets the interrupts.
const INTERRUPTED: usize = 0;

/// All of them and the queue before them.
#[derive(Debug)]
pub(super) struct Processors {
    all: Vec<Processor>,
    ready: VecDeque<u32>,
    /// The end of the last interrupt.
    interrupt_over: Instant,
    /// Whether the machine runs an interrupt.
    interrupted: bool,
}

/// The state of a process after a step on its processor.
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
        Self {
            all: vec![Processor::default(); count as usize],
            ready: VecDeque::new(),
            interrupt_over: Instant::ZERO,
            interrupted: false,
        }
    }

    /// The times after `now` that are already in use.
    pub(super) fn given_after(&self, now: Instant) -> impl Iterator<Item = Nanos> {
        self.all.iter().filter(move |one| one.until > now).map(move |one| one.until - now)
    }
}

impl Machine {
    /// A process is ready.
    pub(super) fn ready(&mut self, process: u32) {
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.wait = Wait::None;
        }
        if self.processors.all.iter().any(|processor| processor.running == Some(process)) {
            return;
        }
        self.queue(process);
    }

    /// A process that is on no processor waits for one.
    fn queue(&mut self, process: u32) {
        self.processors.ready.push_back(process);
        let Some(at) = self.processors.all.iter().position(|processor| !processor.taken) else { return };
        let from = if self.processors.interrupted { self.processors.interrupt_over } else { self.now };
        let processor = &mut self.processors.all[at];
        processor.taken = true;
        if !processor.awake {
            processor.awake = true;
            self.events.arrange(from.max(self.now), Event::Run(at as u32));
        }
    }

    /// A processor's event: its process goes on until another event comes first, it waits, or its slice is
    /// over.
    pub(super) fn run_processor(&mut self, processor: u32) -> Result<(), MachineError> {
        let at = processor as usize;
        let owed = std::mem::take(&mut self.processors.all[at].owed);
        if !owed.is_zero() {
            self.give(at, owed);
            return Ok(());
        }
        self.leave(at);
        let Some(process) = self.processors.all[at].running else {
            self.switch(at);
            return Ok(());
        };
        loop {
            let turn = self.step(process)?;
            let spent = self.spend(at);
            if turn == Turn::Ended {
                self.processors.all[at].running = None;
            } else {
                self.processors.all[at].slice_over = self.use_slice(process, spent);
            }
            let until = self.now + spent;
            let stops = turn != Turn::GoesOn || self.processors.all[at].slice_over;
            if stops || until >= self.end || self.next().is_some_and(|next| next <= until) {
                self.events.arrange(until, Event::Run(processor));
                return Ok(());
            }
            self.now = until;
        }
    }

    /// The time of a processor's process is over: it leaves if it waits or its slice is over.
    fn leave(&mut self, at: usize) {
        let slice_over = std::mem::take(&mut self.processors.all[at].slice_over);
        let Some(process) = self.processors.all[at].running else { return };
        if self.processes.get(process as usize).is_none_or(|one| one.wait != Wait::None) {
            self.processors.all[at].running = None;
        } else if slice_over {
            self.processors.all[at].running = None;
            self.queue(process);
        }
    }

    /// Takes the time spent off the process's slice; returns whether that is over and others wait.
    fn use_slice(&mut self, process: u32, spent: Nanos) -> bool {
        let Some(process) = self.processes.get_mut(process as usize) else { return false };
        process.charged += spent;
        process.slice -= spent;
        if !process.slice.is_zero() {
            return false;
        }
        process.slice = self.settings.time_slice;
        !self.processors.ready.is_empty()
    }

    /// Puts the next process on a processor, or lets it idle.
    fn switch(&mut self, at: usize) {
        let Some(process) = self.processors.ready.pop_front() else {
            self.processors.all[at].taken = false;
            self.processors.all[at].awake = false;
            return;
        };
        self.processors.all[at].taken = true;
        self.processors.all[at].running = Some(process);
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.slice = self.settings.time_slice;
            let pid = one.pid;
            self.reclaim.ran(self.now, pid);
            self.mount_ran(pid);
        }
        self.bill += self.settings.costs.switch;
        let time = std::mem::take(&mut self.bill);
        self.give(at, time);
    }

    /// The device has served a request.
    pub(super) fn interrupt(&mut self) {
        let time = self.settings.costs.interrupt;
        self.processors.interrupt_over = self.processors.interrupt_over.max(self.now) + time;
        self.hold_up(INTERRUPTED, time);
    }

    /// From here on the machine runs an interrupt, or does so no longer.
    pub(super) fn interrupted(&mut self, interrupted: bool) {
        self.processors.interrupted = interrupted;
    }

    /// The billed time is that of a thread of the kernel.
    pub(super) fn work_of_kernel(&mut self) {
        let time = std::mem::take(&mut self.bill);
        let idle = self.processors.all.iter().position(|processor| !processor.awake);
        self.hold_up(idle.unwrap_or(INTERRUPTED), time);
    }

    /// Takes time of a processor from the process on it.
    fn hold_up(&mut self, at: usize, time: Nanos) {
        if time.is_zero() {
            return;
        }
        if std::mem::replace(&mut self.processors.all[at].awake, true) {
            self.processors.all[at].owed += time;
        } else {
            self.give(at, time);
        }
    }

    /// Uses the next time of a processor, at the end of which it has an event.
    fn give(&mut self, at: usize, time: Nanos) {
        self.bill += time;
        let spent = self.spend(at);
        self.events.arrange(self.now + spent, Event::Run(at as u32));
    }

    /// The processor time that was billed since the last payment, which this processor spends from now on.
    fn spend(&mut self, at: usize) -> Nanos {
        let spent = std::mem::take(&mut self.bill);
        self.metrics.processor(self.now, spent);
        self.processors.all[at].until = self.now + spent;
        spent
    }

    /// The time of the next event that is scheduled or comes from the device.
    pub(super) fn next(&self) -> Option<Instant> {
        match (self.events.next(), self.block_next) {
            (Some(event), Some(block)) => Some(event.min(block)),
            (event, block) => event.or(block),
        }
    }
}
