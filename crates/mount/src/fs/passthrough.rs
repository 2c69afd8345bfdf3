//! FUSE passthrough (Linux 6.9): the kernel itself reads files that are in the source's page cache.
//!
//! A file of more than 128 KiB is passed through if it is opened for reading only, has no other handle, and
//! all of its pages are in memory (`cachestat`). Then there is nothing to prefetch, a read costs the same as
//! in the source, and nothing is cached twice. Pages that are evicted later are read again with the kernel's
//! own read-ahead, as in the source. A shorter file is one request and then in the page cache of the mount:
//! passing it through makes each open slower, by measurement (`docs/use/mount.md`).
//!
//! A file that is not in memory is passed through as well while prefetching does not pay
//! ([`ReadPath::steps_aside`](crate::ReadPath::steps_aside)).
//!
//! *The kernel's rules* (`fs/fuse/iomode.c`, `passthrough.c`):
//!
//! - While a file is open, either all of its handles use the page cache of the mount, or all are passed
//!   through to the same backing file. A handle that differs fails with EIO.
//! - The reads and writes of a handle that is passed through may still come to the server
//!   (`FOPEN_DIRECT_IO`). Its mappings are then those of the backing file.
//! - The file system of the backing file must not be stacked on another one.
//!
//! The first handle therefore decides, and [`IoMode`] counts them. A handle is counted from before the kernel
//! gets it until after the kernel has closed it: the count is never less than the kernel's. Later handles of
//! a file that is passed through:
//!
//! - for reading: are passed through as well;
//! - for writing, or with `O_DIRECT`: their reads and writes come here, so that quotas, appending,
//!   set-user-ID bits and alignment stay as they are. Reads are answered out of the source's page cache,
//!   where mappings of the file are.
//!
//! *From passed through to cached.* While a file is passed through, pages of it may come into the page cache of
//! the mount (`readahead`, `sendfile`), which then misses changes. They are dropped before the first handle that
//! uses that cache is answered, and all opens meanwhile [wait for it](crate::fs::kernel_cache). The kernel's own way, an
//! answer without `FOPEN_KEEP_CACHE`, is too late: the opener drops the pages once it runs, and other handles may have
//! been opened and be in use by then. It would drop the new bytes of a write that is on its way here. A read would
//! bring the old ones back, and they would stay.
//!
//! Limits: with `sendfile` from a handle that is also open for writing, data stored through a mapping
//! meanwhile may be missing for up to two seconds. An executable or library in use stays as it was opened
//! first.

use crate::fs::from_memory::{SMALL, is_in_memory};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use fuser::BackingId;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stack depth of backing files' file systems: those that are not stacked on another. With a larger value
/// the mount itself could not be a layer of an overlay.
pub(crate) const STACK_DEPTH: u32 = 1;
/// Why no file is passed through where the source's file system is stacked.
pub(crate) const STACKED: &str = "the source's file system is stacked on another";
/// How a handle reads and writes.
#[derive(Clone, Debug)]
pub(crate) enum Means<B = BackingId> {
    /// Through the page cache of the mount.
    Cached,
    /// Passed through: the kernel reads the backing file.
    Passed(Arc<B>),
    /// Through the server, without a cache of the mount.
    Direct(Arc<B>),
}

/// The means of a file's handles.
#[derive(Debug)]
pub(crate) struct IoMode<B = BackingId>(Mutex<Handles<B>>);

#[derive(Debug)]
struct Handles<B> {
    open: usize,
    backing: Option<Arc<B>>,
    /// Whether it was passed through, and has not used the page cache of the mount since: what that has may be old.
    was_passed: bool,
}

impl<B> Default for IoMode<B> {
    fn default() -> Self {
        Self(Mutex::new(Handles { open: 0, backing: None, was_passed: false }))
    }
}

impl<B> IoMode<B> {
    /// Adds a handle. If it is the first, `pass` decides whether the file is passed through. `drop_pages` asks the kernel
    /// to drop the pages of the file. No open is answered until that is done, so that no handle is in use meanwhile.
    pub(crate) fn open(
        &self,
        reads_only: bool,
        pass: impl FnOnce() -> Option<B>,
        drop_pages: impl FnOnce(),
    ) -> Means<B> {
        let mut handles = self.lock();
        if handles.open == 0 {
            handles.backing = if reads_only { pass().map(Arc::new) } else { None };
        }
        handles.open += 1;
        match handles.backing.clone() {
            None => {
                if std::mem::take(&mut handles.was_passed) {
                    // Under the lock, so that all later opens find it asked for.
                    drop_pages();
                }
                Means::Cached
            }
            Some(backing) => {
                handles.was_passed = true;
                if reads_only { Means::Passed(backing) } else { Means::Direct(backing) }
            }
        }
    }

    /// The kernel has closed a handle.
    pub(crate) fn close(&self) {
        let mut handles = self.lock();
        handles.open = handles.open.saturating_sub(1);
        if handles.open == 0 {
            let backing = handles.backing.take();
            drop(handles);
            drop(backing);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Handles<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether files are passed through, and how many opens were.
#[derive(Debug, Default)]
pub(crate) struct Passthrough {
    is_on: AtomicBool,
    /// Why passthrough is unavailable, if it was requested.
    unavailable: Mutex<Option<String>>,
    opens: AtomicU64,
}

impl Passthrough {
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Relaxed);
    }

    /// Passthrough is unavailable.
    pub(crate) fn turn_off(&self, why: String) {
        self.is_on.store(false, Relaxed);
        tracing::info!("files in memory are not handed to the kernel: {why}");
        *self.unavailable.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub(crate) fn unavailable(&self) -> Option<String> {
        self.unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens that were passed through.
    pub(crate) fn opens(&self) -> u64 {
        self.opens.load(Relaxed)
    }

    pub(crate) fn count(&self) {
        self.opens.fetch_add(1, Relaxed);
    }

    /// Passes an open file of this length through by `register`. It must not be small, and must either be in
    /// memory as a whole or be read without prefetching (`aside`).
    pub(crate) fn pass(
        &self,
        file: &File,
        length: Bytes,
        aside: bool,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> Option<BackingId> {
        if !self.is_on() || length <= SMALL || !(aside || is_whole_in_memory(file, length)) {
            return None;
        }
        let registered = register(file);
        if let Err(error) = &registered {
            match Errno::from_io_error(error) {
                // A temporary lack: a later open may succeed.
                Some(Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {}
                Some(Errno::LOOP) => self.turn_off(STACKED.to_owned()),
                Some(Errno::PERM) => self.turn_off("this process has not CAP_SYS_ADMIN".to_owned()),
                _ => self.turn_off(error.to_string()),
            }
        }
        registered.ok()
    }
}

/// Whether all pages of a file are in memory, or in flight.
fn is_whole_in_memory(file: &File, length: Bytes) -> bool {
    let is_there = |length: Bytes| is_in_memory(file, ByteSpan::at(ByteOffset::ZERO, length));
    // Its beginning first: if the file is not in memory, this is the only cost.
    is_there(length.min(SMALL)) && is_there(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_of_the_page_cache_after_each_time_that_a_file_was_passed_through_has_its_pages_dropped()
    {
        let (mode, mut asked) = (IoMode::<()>::default(), 0);
        let mut open = |passes: bool| {
            let means = mode.open(true, || passes.then_some(()), || asked += 1);
            (matches!(means, Means::Cached), asked)
        };
        assert_eq!(open(false), (true, 0), "it was never passed through");
        mode.close();
        for round in 0..2 {
            assert_eq!([open(true), open(false)], [(false, round); 2], "the first decides");
            mode.close();
            assert_eq!(open(false), (false, round), "one is open");
            mode.close();
            mode.close();
            assert_eq!([open(false), open(false)], [(true, round + 1); 2], "asked for once");
            mode.close();
            mode.close();
        }
    }
}
