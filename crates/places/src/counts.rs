//! The counts that tell who reads from a disk, and the thread that takes them.
//!
//! The kernel shows no account of a process (`/proc/PID/io`) while that begins another program. It closes files
//! then, and a file server of its own user (FUSE) may take its time. So accounts of programs are read by a thread of
//! their own, which holds no lock meanwhile. A request waits for its counts for [`PATIENCE`] at most. After counts that took
//! long ([`NOTICED`]) no request waits for [`REST`] times as long. Until the thread has its answer, and in that rest, there
//! are none: requests go out as they come, and no reads of others are seen.
//!
//! The thread begins with the first program that is helped, and ends with its object, or as soon as its read is over.

use crate::helped::Helped;
use foreseek_storage::{DiskLoad, process_reads};
use foreseek_units::Bytes;
use foreseek_walks::Counted;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long counts are waited for. They take some 0.1 ms; on a busy machine a thread waits for a processor.
const PATIENCE: Duration = Duration::from_millis(50);
/// Counts that took so long were held up by a program.
const NOTICED: Duration = Duration::from_millis(2);
/// Thus a program may take a tenth of the time.
const REST: u32 = 9;

/// Where counts come from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) load: DiskLoad,
    /// Counts the reads of the whole machine, if it can.
    machine: fn() -> Option<Bytes>,
    /// Counts those of a program, and may wait for it.
    account: fn(u32) -> Option<Bytes>,
    helped: Mutex<Helped>,
}

impl Sources {
    pub(crate) fn new(
        load: DiskLoad,
        machine: fn() -> Option<Bytes>,
        account: fn(u32) -> Option<Bytes>,
    ) -> Self {
        Self { load, machine, account, helped: Mutex::default() }
    }

    /// The programs that are helped. It waits for nobody.
    pub(crate) fn helped(&self) -> MutexGuard<'_, Helped> {
        self.helped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read until now, these programs looked at.
    pub(crate) fn count(&self, programs: &[u32], of_machine: bool) -> Option<Counted> {
        let before = own_reads()? + self.read_by(programs);
        let idle = self.load.reads_in_flight() == Some(0);
        let machine = if of_machine { (self.machine)() } else { None };
        let disk = self.load.read()?;
        Some(Counted { before, idle, machine, disk, own: own_reads()?, helped: self.read_by(programs) })
    }

    fn read_by(&self, programs: &[u32]) -> Bytes {
        let accounts: Vec<_> = programs.iter().map(|process| (*process, (self.account)(*process))).collect();
        self.helped().looked(&accounts, Instant::now())
    }
}

/// What this process has read. It begins no other program.
pub(crate) fn own_reads() -> Option<Bytes> {
    process_reads(std::process::id())
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Counter(Option<Thread>);

#[derive(Debug)]
struct Thread {
    asks: SyncSender<(Vec<u32>, bool)>,
    answers: Receiver<Answer>,
    /// Its last answer was not waited for.
    is_behind: bool,
    rests_until: Option<Instant>,
}

/// Counts, and how long they took, without waits for a processor before.
type Answer = (Option<Counted>, Duration);

impl Counter {
    /// What was read until now; `None` where that is not to be known in time.
    pub(crate) fn count(&mut self, sources: &Arc<Sources>, of_machine: bool) -> Option<Counted> {
        let programs = sources.helped().processes();
        if programs.is_empty() {
            return sources.count(&[], of_machine);
        }
        if self.0.is_none() {
            self.0 = Thread::start(sources);
        }
        self.0.as_mut()?.count(programs, of_machine)
    }
}

impl Thread {
    fn start(sources: &Arc<Sources>) -> Option<Self> {
        let (asks, asked) = sync_channel::<(Vec<u32>, bool)>(1);
        let (answer, answers) = channel();
        let sources = Arc::clone(sources);
        let work = move || {
            while let Ok((programs, of_machine)) = asked.recv() {
                let begun = Instant::now();
                let counted = sources.count(&programs, of_machine);
                if answer.send((counted, begun.elapsed())).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("disk-counts".to_owned()).spawn(work);
        started.is_ok().then_some(Self { asks, answers, is_behind: false, rests_until: None })
    }

    fn count(&mut self, programs: Vec<u32>, of_machine: bool) -> Option<Counted> {
        if self.is_behind {
            // That answer is of then.
            let (_, took) = self.answers.try_recv().ok()?;
            self.is_behind = false;
            self.rest_after(took);
        }
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        self.asks.send((programs, of_machine)).ok()?;
        let answer = self.answers.recv_timeout(PATIENCE);
        self.is_behind = answer.is_err();
        let (counted, took) = answer.ok()?;
        self.rest_after(took);
        counted
    }

    fn rest_after(&mut self, took: Duration) {
        if took >= NOTICED {
            self.rests_until = Some(Instant::now() + took.min(PATIENCE) * REST);
        }
    }
}
