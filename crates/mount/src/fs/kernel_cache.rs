//! Invalidates the kernel's caches, in a separate thread.
//!
//! To drop pages the kernel waits until no program reads or writes them: a thread that answers requests would
//! wait for itself. A reply that must not arrive before the pages are dropped is sent by this thread
//! afterwards. Nothing that the kernel waits for here depends on such a reply.

use fuser::{INodeNo, Notifier};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
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
    Turn(After),
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

    /// Calls `after` when the kernel has dropped all that it was asked to before.
    pub(crate) fn in_turn(&self, after: After) {
        self.lock().notices.push_back(Notice::Turn(after));
        self.ready.notify_one();
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
        self.run_with(
            |file| notifier.inval_inode(INodeNo(file), 0, 0),
            |parent, name| notifier.inval_entry(INodeNo(parent), name),
        );
    }

    fn run_with(
        &self,
        drop_pages: impl Fn(u64) -> io::Result<()>,
        drop_name: impl Fn(u64, &OsStr) -> io::Result<()>,
    ) {
        while let Some(notice) = self.next() {
            let (sent, after) = match notice {
                Notice::Pages { file, after } => (drop_pages(file), after),
                Notice::Name { parent, name } => (drop_name(parent, &name), None),
                Notice::Turn(after) => (Ok(()), Some(after)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_waits_for_its_turn_comes_after_all_that_was_asked_before() {
        let (cache, done) = (Arc::new(KernelCache::default()), Arc::new(Mutex::new(Vec::new())));
        let log = |what: &str| {
            let (done, what) = (Arc::clone(&done), what.to_owned());
            move || done.lock().expect("whole").push(what)
        };
        cache.forget_pages(7, Some(Box::new(log("dropped"))));
        cache.in_turn(Box::new(log("first")));
        cache.forget_name(1, "a".into());
        cache.in_turn(Box::new(log("second")));
        let ending = Arc::clone(&cache);
        cache.in_turn(Box::new(move || ending.stop()));
        cache.run_with(
            |file| {
                log(&format!("pages {file}"))();
                Ok(())
            },
            |parent, _| {
                log(&format!("name in {parent}"))();
                Ok(())
            },
        );
        assert_eq!(*done.lock().expect("whole"), ["pages 7", "dropped", "first", "name in 1", "second"]);
    }
}
