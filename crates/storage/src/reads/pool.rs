//! Reads by a pool of threads, each with one read at a time, where io_uring is forbidden (containers,
//! hardened kernels). Each read is a system call of its own, whether or not it is marked
//! [`apart`](super::DiskRead::apart).
#![allow(unsafe_code)]

use super::flight::{Next, ReadInFlight};
use super::read::{DiskRead, DiskReader, Ended, Sink};
use crate::advice::last_error;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads, and so reads at a time: the length of a disk's own queue (NCQ). More would only serve the
/// kernel's I/O scheduler.
pub(super) const THREADS: usize = 32;
/// The stack of a thread. Its system calls need less than 64 KiB; glibc and tracing need this.
const STACK: usize = 256 << 10;

/// See the module's documentation.
pub struct PoolReads {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is something to do.
    work: Condvar,
    /// A thread has ended.
    ended: Condvar,
    sink: Sink,
}

#[derive(Default)]
struct Queue {
    urgent: VecDeque<DiskRead>,
    patient: VecDeque<DiskRead>,
    in_flight: usize,
    threads: usize,
    stopping: bool,
}

impl PoolReads {
    /// Starts the threads.
    ///
    /// # Errors
    /// Not one could be started.
    pub fn start(sink: Sink) -> std::io::Result<Self> {
        let (queue, work, ended) = (Mutex::default(), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { queue, work, ended, sink });
        for number in 0..THREADS {
            let thread = std::thread::Builder::new().name("reads".to_owned()).stack_size(STACK);
            let run = Arc::clone(&shared);
            shared.lock().threads += 1;
            if let Err(error) = thread.spawn(move || run.serve()) {
                shared.lock().threads -= 1;
                if number == 0 {
                    return Err(error);
                }
                break;
            }
        }
        Ok(Self { shared })
    }
}

impl DiskReader for PoolReads {
    fn start(&self, reads: Vec<DiskRead>) -> Vec<DiskRead> {
        let mut queue = self.shared.lock();
        if queue.stopping {
            return reads;
        }
        for read in reads {
            let queue = if read.urgent { &mut queue.urgent } else { &mut queue.patient };
            queue.push_back(read);
            self.shared.work.notify_one();
        }
        Vec::new()
    }

    fn stop(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut queue = self.shared.lock();
        queue.stopping = true;
        self.shared.work.notify_all();
        while queue.threads > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.shared.ended.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for PoolReads {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl Shared {
    /// The queue is consistent after every step.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main loop of a thread.
    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            let next = queue.urgent.pop_front().or_else(|| queue.patient.pop_front());
            match next {
                Some(read) if queue.stopping => {
                    drop(queue);
                    (self.sink)(vec![ReadInFlight::new(read, 0).end(Some(Errno::CANCELED))]);
                    queue = self.lock();
                }
                Some(read) => {
                    let flight = ReadInFlight::new(read, queue.in_flight);
                    queue.in_flight += 1;
                    drop(queue);
                    (self.sink)(vec![fly(flight)]);
                    queue = self.lock();
                    queue.in_flight -= 1;
                }
                None if queue.stopping => break,
                None => queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
        queue.threads -= 1;
        self.ended.notify_all();
    }
}

/// While it lives, this thread's reads have a priority of their own.
struct Priority;

impl Priority {
    fn new(priority: u16) -> Self {
        set_priority(priority);
        Self
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        set_priority(0);
    }
}

fn set_priority(priority: u16) {
    /// `IOPRIO_WHO_PROCESS`; with 0 it means the calling thread.
    const PROCESS: libc::c_int = 1;
    // SAFETY: it takes numbers only. If it fails, the read may be merged with another one.
    unsafe { libc::syscall(libc::SYS_ioprio_set, PROCESS, 0, libc::c_int::from(priority)) };
}

/// Makes a read in the calling thread. A single read is over sooner than by a [`DiskReader`]: no thread is woken.
#[must_use]
pub fn read_here(read: DiskRead) -> Ended {
    fly(ReadInFlight::new(read, 0))
}

/// Makes one read.
fn fly(mut flight: ReadInFlight) -> Ended {
    loop {
        let answer = flight.request().and_then(|request| {
            let vectors = request.vectors.len() as libc::c_int;
            let _own = (request.priority != 0).then(|| Priority::new(request.priority));
            // SAFETY: the vectors describe memory that the flight owns, and the flight outlives the call.
            let got = unsafe {
                libc::preadv(request.fd, request.vectors.as_ptr(), vectors, request.offset.get() as i64)
            };
            usize::try_from(got).map_err(|_| last_error())
        });
        if let Next::Over(error) = flight.answered(answer) {
            return flight.end(error);
        }
    }
}
