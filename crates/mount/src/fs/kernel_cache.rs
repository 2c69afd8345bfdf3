//! Invalidates the kernel's caches, in a separate thread.
//!
//! To drop pages the kernel waits until no program reads or writes them: a thread that answers requests would
//! wait for itself. A reply that must not arrive before the pages are dropped is sent by this thread
//! afterwards. Nothing that the kernel waits for here depends on such a reply.

use fuser::{INodeNo, Notifier};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What to do afterwards: send a reply.
pub(crate) type After = Box<dyn FnOnce() + Send>;

/// The invalidations, in order. Their number is bounded by the files that the kernel knows and the requests
/// that it has in flight.
#[derive(Default)]
pub(crate) struct KernelCache {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    notices: VecDeque<Notice>,
    /// Files whose pages are already to be dropped.
    files: FxHashSet<u64>,
    stopped: bool,
}

enum Notice {
    Pages { file: u64, after: Option<After> },
    Name { parent: u64, name: OsString },
}

impl KernelCache {
    /// Has the kernel drop a file's attributes and pages; calls `after` then.
    pub(crate) fn forget_pages(&self, file: u64, after: Option<After>) {
        let mut queue = self.lock();
        if after.is_some() || queue.files.insert(file) {
            queue.notices.push_back(Notice::Pages { file, after });
            self.ready.notify_one();
        }
    }

    /// Has the kernel look a name up again; it may then forget the file of that name.
    pub(crate) fn forget_name(&self, parent: u64, name: OsString) {
        self.lock().notices.push_back(Notice::Name { parent, name });
        self.ready.notify_one();
    }

    /// Ends [`run`](Self::run); replies that still wait are dropped.
    pub(crate) fn stop(&self) {
        let mut queue = self.lock();
        queue.stopped = true;
        queue.notices.clear();
        self.ready.notify_one();
    }

    /// Sends the invalidations until it is stopped.
    pub(crate) fn run(&self, notifier: &Notifier) {
        while let Some(notice) = self.next() {
            let (sent, after) = match notice {
                Notice::Pages { file, after } => (notifier.inval_inode(INodeNo(file), 0, 0), after),
                Notice::Name { parent, name } => (notifier.inval_entry(INodeNo(parent), &name), None),
            };
            if let Err(error) = sent {
                tracing::debug!("the kernel does not drop the pages that it was asked to: {error}");
            }
            after.into_iter().for_each(|after| after());
        }
    }

    fn next(&self) -> Option<Notice> {
        let mut queue = self.lock();
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(notice) = queue.notices.pop_front() {
                if let Notice::Pages { file, after: None } = &notice {
                    queue.files.remove(file);
                }
                return Some(notice);
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
