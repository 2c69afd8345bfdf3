//! A server's request handlers: the simulator's programs with real system calls.
//!
//! A closed loop as in the simulator: always as many requests as the concurrency, the next one as soon as one
//! is over. Each request has a thread of its own, as each of the papers' had a process: what a policy knows of
//! a handler ends with it.

use super::files::Checked;
use super::private::PrivateMemory;
use super::times::Times;
use super::{Counted, Job, ReaderMessage, send, watch_input};
use foreseek_simulate::program::{FileSpec, Handle, Step, Workload, begin};
use foreseek_simulate::workload;
use foreseek_units::{self as units, Bytes, Nanos};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Stack of a handler: it calls nothing deep.
const STACK: usize = 128 << 10;

/// How often the waiting thread checks for a failure.
const LOOK: Duration = Duration::from_millis(20);

/// The state that all handlers share.
struct Server<'a> {
    job: &'a Job,
    files: &'a [FileSpec],
    requests: Mutex<Requests>,
    stop: AtomicBool,
    read_bytes: AtomicU64,
    reads: AtomicU64,
    /// The response times of the requests that have ended.
    responses: Mutex<Times>,
    failed: Mutex<Option<String>>,
}

/// The source of requests.
struct Requests {
    workload: Box<dyn Workload>,
    made: u64,
}

pub(super) fn work(job: &Job, name: &str, concurrency: u32, files: &[FileSpec]) -> Result<(), String> {
    let workload = workload::by_name(name, &job.parameters()).map_err(|error| error.to_string())?;
    let server = Server {
        job,
        files,
        requests: Mutex::new(Requests { workload, made: 0 }),
        stop: AtomicBool::new(false),
        read_bytes: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        responses: Mutex::new(Times::default()),
        failed: Mutex::new(None),
    };
    thread::scope(|scope| {
        scope.spawn(|| watch_input(&server.stop));
        for _ in 0..concurrency {
            scope.spawn(|| server.serve());
        }
        let done = server.measure();
        if let Err(why) = &done {
            server.stop.store(true, Ordering::Relaxed);
            // Reported at once: the parent then closes the input, for which a thread waits.
            return send(&ReaderMessage::Failed(why.clone()));
        }
        done
    })
}

impl Server<'_> {
    /// One of the closed loop's clients: one request after the other, each in a thread of its own.
    fn serve(&self) {
        let mut private = PrivateMemory::new(Bytes(self.job.private_bytes));
        while !self.stop.load(Ordering::Relaxed) {
            // A request works on all of it: none of it is idle for longer than a request takes.
            private.touch();
            let handled = thread::scope(|scope| {
                let handler = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || self.handle());
                match handler.map(thread::ScopedJoinHandle::join) {
                    Ok(Ok(handled)) => handled,
                    Ok(Err(_)) => Err("a handler panicked".to_owned()),
                    Err(error) => Err(format!("no thread for a handler: {error}")),
                }
            });
            if let Err(why) = handled {
                hold(&self.failed).get_or_insert(why);
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// One request from its beginning to its end.
    fn handle(&self) -> Result<(), String> {
        let (mut program, mut random) = {
            let mut requests = hold(&self.requests);
            let number = requests.made;
            requests.made += 1;
            begin(&mut *requests.workload, self.job.seed, number)
        };
        let started = Instant::now();
        let mut begun = started;
        let mut open: BTreeMap<u32, Checked> = BTreeMap::new();
        let mut buffer = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            match program.next(now(started), &mut random) {
                Step::Open { handle: Handle(handle), file, .. } => {
                    open.insert(handle, Checked::open(&self.job.folder, file.0, self.files)?);
                }
                Step::Read { handle: Handle(handle), range } => {
                    let file = open.get(&handle).ok_or("a read of what is not open")?;
                    buffer.resize(range.len().get() as usize, 0);
                    file.read_checked(range.start.get(), &mut buffer)?;
                    self.count(range.len());
                }
                Step::Close { handle: Handle(handle) } => drop(open.remove(&handle)),
                Step::Sleep(time) => thread::sleep(self.scaled(time)),
                Step::Begun => begun = Instant::now(),
                Step::Finished => hold(&self.responses).push(begun.elapsed()),
                Step::Exit => break,
                other @ (Step::Direct { .. }
                | Step::DirectWrite { .. }
                | Step::Sync { .. }
                | Step::Unlink { .. }
                | Step::Touch { .. }
                | Step::Write { .. }
                | Step::Compute(_)
                | Step::Advise { .. }
                | Step::Forget { .. }
                | Step::Ask { .. }
                | Step::Stat { .. }
                | Step::List { .. }
                | Step::Await
                | Step::Hold(_)) => {
                    return Err(format!("{other:?}: the readers of this benchmark only read"));
                }
            }
        }
        Ok(())
    }

    fn count(&self, read: Bytes) {
        self.read_bytes.fetch_add(read.get(), Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn scaled(&self, think: Nanos) -> Duration {
        Duration::from_secs_f64(think.as_secs_f64() * self.job.time_scale)
    }

    /// Waits through the warm-up and the measured time and reports what was read in the latter.
    fn measure(&self) -> Result<(), String> {
        let read = || (self.read_bytes.load(Ordering::Relaxed), self.reads.load(Ordering::Relaxed));
        self.wait(self.job.warm_up())?;
        *hold(&self.responses) = Times::default();
        let (before, start) = (read(), Instant::now());
        send(&ReaderMessage::Begun)?;
        self.wait(self.job.measured())?;
        let (after, seconds) = (read(), start.elapsed().as_secs_f64());
        let mut responses = std::mem::take(&mut *hold(&self.responses));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        send(&ReaderMessage::Ended(Counted {
            seconds,
            read_bytes: after.0 - before.0,
            reads: after.1 - before.1,
            requests: responses.count(),
            response_mean_ms: ms(responses.mean()),
            response_p95_ms: responses.within(0.95).map(ms).unwrap_or_default(),
            read_median_us: 0.0,
        }))
    }

    fn wait(&self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        loop {
            if let Some(why) = hold(&self.failed).clone() {
                return Err(why);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err("ended before its time".to_owned());
            }
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => thread::sleep(left.min(LOOK)),
            }
        }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time for a program: since its request began.
fn now(started: Instant) -> units::Instant {
    units::Instant::ZERO + Nanos::from(started.elapsed())
}
