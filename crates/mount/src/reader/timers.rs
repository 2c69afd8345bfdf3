//! Periodic work: the engine's ticks, checks of readers, checks of memory.

use super::budget::{Budget, Memory};
use super::shared::Shared;
use foreseek_seam::{Event, ProcessId, ServingEvent};
use foreseek_storage::Activity;
use foreseek_units::{Nanos, Pages};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The period of checks which readers have run. The mark of a prefetched page needs to know whether its
/// reader has run since: readers of a loaded disk run some ten times a second.
const LOOK: Nanos = Nanos::from_millis(250);
/// Readers checked each time: at 6 us each 3 ms, about one processor in a hundred.
const LOOKED_AT: usize = 512;
/// How long the memory thread may take to notice the end; it holds nothing meanwhile.
const MEMORY_LOOK: Duration = Duration::from_secs(1);

/// The threads.
pub(super) struct Timers {
    ticking: JoinHandle<()>,
}

impl Timers {
    pub(super) fn start(shared: &Arc<Shared>, mut memory: Box<dyn Memory>) -> std::io::Result<Self> {
        // Before the first read: if a control group has less memory than the setting, it would fill up, and
        // this process be killed, within the second until the next check.
        let mut budget = Budget::new(shared.frames.count());
        look_at_memory(shared, &mut budget, &mut *memory, false);
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (ticked, watched) = (Arc::clone(shared), Arc::downgrade(shared));
        let ticking = named("ticks").spawn(move || tick(&ticked))?;
        // It ends by itself soon after it is not needed any more: it may be in a wait.
        let watching = named("memory").spawn(move || watch_memory(&watched, budget, memory));
        if let Err(error) = watching {
            shared.alarm.end();
            let _ = ticking.join();
            return Err(error);
        }
        Ok(Self { ticking })
    }

    pub(super) fn stop(self, shared: &Shared) {
        shared.alarm.end();
        if self.ticking.join().is_err() {
            tracing::error!("a thread of the reader has panicked");
        }
    }
}

/// Ticks, and checks readers in between.
fn tick(shared: &Shared) {
    let mut look = shared.now() + LOOK;
    loop {
        let deadline = shared.lock().driver.deadline();
        let now = shared.now();
        let until = deadline.map_or(look, |deadline| deadline.min(look));
        if until > now {
            if shared.alarm.sleep(now, until) {
                return;
            }
            continue;
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            shared.with(|core, now| core.driver.send(now, Event::Tick));
        }
        if look <= now {
            look_at_readers(shared);
            look = now + LOOK;
        }
    }
}

/// Reports to the engine which readers have run or ended.
fn look_at_readers(shared: &Shared) {
    let mut seen = Vec::new();
    let mut processes = shared.processes.lock().unwrap_or_else(PoisonError::into_inner);
    processes.sample(LOOKED_AT, |thread, activity| seen.push((ProcessId(thread), activity)));
    drop(processes);
    shared.with(|core, now| {
        core.count_thrashing(now);
        for (pid, activity) in seen {
            let event = match activity {
                Activity::Ran => Event::Serving(ServingEvent::Ran { pid }),
                Activity::Ended => Event::Serving(ServingEvent::Exited { pid }),
            };
            core.driver.send(now, event);
        }
    });
}

/// Checks memory periodically.
fn watch_memory(shared: &Weak<Shared>, mut budget: Budget, mut memory: Box<dyn Memory>) {
    loop {
        let scarce = memory.wait(MEMORY_LOOK);
        let Some(shared) = shared.upgrade() else { return };
        if shared.lock().driver.is_stopped() {
            return;
        }
        look_at_memory(&shared, &mut budget, &mut *memory, scarce);
    }
}

/// Reports to the engine how much memory there is, if that has changed.
fn look_at_memory(shared: &Shared, budget: &mut Budget, memory: &mut dyn Memory, scarce: bool) {
    let change = budget.look(scarce, memory.available().pages_floor(), shared.frames.backed());
    if let Some(pages) = change {
        set_budget(shared, pages);
    }
}

pub(super) fn set_budget(shared: &Shared, pages: Pages) {
    shared.with(|core, now| core.driver.send(now, Event::Budget { pages }));
}
