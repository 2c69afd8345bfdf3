//! Invalidates the kernel's caches, in threads of their own.
//!
//! To drop pages the kernel waits until no program reads or writes them: a thread that answers requests would
//! wait for itself. A reply that must not arrive before the pages are dropped is sent by the thread that drops them,
//! afterwards. To drop a name the kernel waits until nobody looks anything up in its directory. Such a look-up may be
//! among the replies that wait for pages. Hence names have another thread.
//!
//! Limits: what waits for the pages of one file also waits for those of the files that were asked for before.

use fuser::{INodeNo, Notifier};
use rustc_hash::{FxHashMap, FxHashSet};
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
    queues: Mutex<Queues>,
    ready: Condvar,
}

#[derive(Default)]
struct Queues {
    pages: VecDeque<Pages>,
    names: VecDeque<(u64, OsString)>,
    /// Files whose pages are already to be dropped.
    files: FxHashSet<u64>,
    /// How often the pages of a file are still to be dropped, the present one included.
    pending: FxHashMap<u64, u32>,
    stopped: bool,
}

enum Pages {
    Drop { file: u64, after: Option<After> },
    Turn(After),
}

impl KernelCache {
    /// Has the kernel drop a file's attributes and pages; calls `after` then.
    pub(crate) fn forget_pages(&self, file: u64, after: Option<After>) {
        let mut queues = self.lock();
        if after.is_some() || queues.files.insert(file) {
            *queues.pending.entry(file).or_default() += 1;
            queues.pages.push_back(Pages::Drop { file, after });
            self.ready.notify_all();
        }
    }

    /// Calls `after` when the kernel has dropped the pages of a file as often as it was asked to: at once, if it has.
    pub(crate) fn when_forgotten(&self, file: u64, after: impl FnOnce() + Send + 'static) {
        let mut queues = self.lock();
        if queues.pending.contains_key(&file) {
            queues.pages.push_back(Pages::Turn(Box::new(after)));
            self.ready.notify_all();
        } else {
            drop(queues);
            after();
        }
    }

    /// Has the kernel look a name up again; it may then forget the file of that name.
    pub(crate) fn forget_name(&self, parent: u64, name: OsString) {
        self.lock().names.push_back((parent, name));
        self.ready.notify_all();
    }

    /// Ends [`drop_pages`](Self::drop_pages) and [`drop_names`](Self::drop_names); replies that still wait are dropped.
    pub(crate) fn stop(&self) {
        let mut queues = self.lock();
        queues.stopped = true;
        queues.pages.clear();
        self.ready.notify_all();
    }

    /// Has pages dropped until it is stopped.
    pub(crate) fn drop_pages(&self, notifier: &Notifier) {
        self.drop_pages_with(|file| notifier.inval_inode(INodeNo(file), 0, 0));
    }

    /// Has names dropped until it is stopped.
    pub(crate) fn drop_names(&self, notifier: &Notifier) {
        self.drop_names_with(|parent, name| notifier.inval_entry(INodeNo(parent), name));
    }

    fn drop_pages_with(&self, ask: impl Fn(u64) -> io::Result<()>) {
        while let Some(next) = self.next(Self::next_pages) {
            match next {
                Pages::Turn(after) => after(),
                Pages::Drop { file, after } => {
                    report(ask(file));
                    after.into_iter().for_each(|after| after());
                    self.dropped(file);
                }
            }
        }
    }

    fn drop_names_with(&self, ask: impl Fn(u64, &OsStr) -> io::Result<()>) {
        while let Some((parent, name)) = self.next(|queues| queues.names.pop_front()) {
            report(ask(parent, &name));
        }
    }

    fn next_pages(queues: &mut Queues) -> Option<Pages> {
        let next = queues.pages.pop_front();
        if let Some(Pages::Drop { file, after: None }) = &next {
            queues.files.remove(file);
        }
        next
    }

    fn dropped(&self, file: u64) {
        let mut queues = self.lock();
        if let Some(left) = queues.pending.get_mut(&file) {
            *left -= 1;
            if *left == 0 {
                queues.pending.remove(&file);
            }
        }
    }

    /// Waits for what is next; `None` once it is stopped.
    fn next<T>(&self, take: impl Fn(&mut Queues) -> Option<T>) -> Option<T> {
        let mut queues = self.lock();
        loop {
            if queues.stopped {
                return None;
            }
            if let Some(next) = take(&mut queues) {
                return Some(next);
            }
            queues = self.ready.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(asked: io::Result<()>) {
    if let Err(error) = asked {
        tracing::debug!("the kernel does not drop what it was asked to: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_waits_for_pages_comes_after_they_were_dropped_as_often_as_was_asked() {
        let (cache, done) = (Arc::new(KernelCache::default()), Arc::new(Mutex::new(Vec::new())));
        let log = |what: &str| {
            let (done, what) = (Arc::clone(&done), what.to_owned());
            move || done.lock().expect("whole").push(what)
        };
        cache.when_forgotten(7, log("nothing to wait for"));
        cache.forget_pages(7, Some(Box::new(log("dropped"))));
        cache.forget_pages(7, None);
        cache.when_forgotten(7, log("first"));
        cache.when_forgotten(8, log("another file"));
        // One that comes while the pages are being dropped waits as well.
        let (during, late) = (Arc::clone(&cache), log("second"));
        let late = Mutex::new(Some(late));
        let ask = |file: u64| {
            log(&format!("pages {file}"))();
            if let Some(late) = late.lock().expect("whole").take() {
                let (ending, again) = (Arc::clone(&during), Arc::clone(&during));
                during.when_forgotten(7, move || {
                    late();
                    again.when_forgotten(7, || ());
                    ending.stop();
                });
            }
            Ok(())
        };
        cache.drop_pages_with(ask);
        let expected =
            ["nothing to wait for", "another file", "pages 7", "dropped", "pages 7", "first", "second"];
        assert_eq!(*done.lock().expect("whole"), expected);
        assert!(cache.lock().pending.is_empty());
    }

    /// As the kernel does while somebody looks up in the directory, and the answer waits for pages.
    #[test]
    fn a_name_that_waits_holds_no_pages_back() {
        let cache = Arc::new(KernelCache::default());
        let (looked_up, waits) = std::sync::mpsc::channel();
        cache.forget_name(1, "a".into());
        let names = Arc::clone(&cache);
        let limit = std::time::Duration::from_secs(60);
        let names = std::thread::spawn(move || {
            names.drop_names_with(|_, _| {
                waits.recv_timeout(limit).expect("the look-up is answered");
                names.stop();
                Ok(())
            });
        });
        cache.forget_pages(7, Some(Box::new(move || looked_up.send(()).expect("somebody waits"))));
        cache.drop_pages_with(|_| Ok(()));
        names.join().expect("no panic");
    }
}
