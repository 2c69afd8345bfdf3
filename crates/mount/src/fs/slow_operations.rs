//! Slow operations, away from the threads that receive requests: a flush to a slow disk must not delay
//! readers of cached data.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads that run slow operations. Flushes of one file system wait for each other in the kernel, so that a
/// few threads are as good as many.
const THREADS: usize = 4;

type SlowOperation = Box<dyn FnOnce() + Send>;

/// Runs slow operations. At most as many are queued as the kernel has requests in flight, one for each
/// caller.
#[derive(Debug)]
pub(crate) struct SlowOperations {
    to: Mutex<Option<Sender<SlowOperation>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SlowOperations {
    /// Starts the threads.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (to, from) = channel::<SlowOperation>();
        let from = Arc::new(Mutex::new(from));
        let thread = |number| {
            let from = Arc::clone(&from);
            std::thread::Builder::new().name(format!("operation-{number}")).spawn(move || run(&from))
        };
        let threads = (0..THREADS).map(thread).collect::<Result<_, _>>()?;
        Ok(Self { to: Mutex::new(Some(to)), threads: Mutex::new(threads) })
    }

    /// Queues an operation; drops it if the threads have ended.
    pub(crate) fn run(&self, operation: impl FnOnce() + Send + 'static) {
        if let Some(to) = &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = to.send(Box::new(operation));
        }
    }

    /// Finishes the running operations and ends the threads.
    pub(crate) fn stop(&self) {
        self.to.lock().unwrap_or_else(PoisonError::into_inner).take();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn run(from: &Mutex<Receiver<SlowOperation>>) {
    loop {
        let next = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(operation) = next else { return };
        operation();
    }
}
