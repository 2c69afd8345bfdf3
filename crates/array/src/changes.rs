//! The threads that make changes below: one of them waits for each write, discard and flush.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Changes in flight: as many as a loop device sends, since with fewer the disks have less to choose from.
const THREADS: usize = 128;
/// The stack of a thread, which only waits in system calls.
const STACK: usize = 256 << 10;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Bounded by the unanswered requests: each is one job at most.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    ending: bool,
}

/// See the module's documentation. Its threads end when it is dropped.
#[derive(Default)]
pub(crate) struct Changes(Arc<(Mutex<Queue>, Condvar)>);

impl Changes {
    pub(crate) fn start() -> io::Result<Self> {
        let made = Self::default();
        for _ in 0..THREADS {
            let shared = Arc::clone(&made.0);
            let thread = std::thread::Builder::new().name("changes".to_owned()).stack_size(STACK);
            thread.spawn(move || {
                loop {
                    let mut queue = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let job = loop {
                        match queue.jobs.pop_front() {
                            Some(job) => break job,
                            None if queue.ending => return,
                            None => queue = shared.1.wait(queue).unwrap_or_else(PoisonError::into_inner),
                        }
                    };
                    drop(queue);
                    job();
                }
            })?;
        }
        Ok(made)
    }

    pub(crate) fn add(&self, job: Job) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.0.1.notify_one();
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).ending = true;
        self.0.1.notify_all();
    }
}
