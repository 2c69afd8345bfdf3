//! Files that lie in the source's page cache, handed to the kernel: it reads them there by itself (FUSE passthrough, Linux 6.9).
//!
//! A file of more than 128 KiB is handed over when it is opened for reading only, nobody else has it open, and all of its pages are in
//! memory (`cachestat`). Then there is nothing to prefetch, a read costs what it costs in the source, and nothing is kept twice. What the
//! kernel drops later it reads again with its own read-ahead, as it does in the source. A shorter file is one request and then in the
//! page cache of the mount: handing it over takes longer at each open, by measurement (`docs/use/mount.md`).
//!
//! The same is done with a file that is not in memory while prefetching does not pay ([`ReadPath::steps_aside`](crate::ReadPath::steps_aside)).
//!
//! *The kernel's rules* (`fs/fuse/iomode.c`, `passthrough.c`). While a file is open, all of its handles go through the page cache of the
//! mount, or all are handed over, to the same backing file; a handle that differs fails with EIO. A handle that is handed over
//! may have its reads and writes come to the server nevertheless (`FOPEN_DIRECT_IO`); mappings are then those of the backing file. The
//! backing file must lie on a file system that is not itself stacked on another one.
//!
//! So the first handle decides, and [`IoMode`] counts them: a handle is counted from before the kernel hears of it until after the kernel
//! has closed it, never less than the kernel counts. Handles that come to a file that is handed over:
//!
//! - for reading: are handed over as well;
//! - for writing, or with `O_DIRECT`: their reads and writes come here, so that quotas, appending, set-user-ID bits and alignment stay
//!   what they are. Reads are answered out of the source's page cache, where mappings of the file are.
//!
//! Limits: with `sendfile` from a handle that is open for writing too, what was stored through a mapping meanwhile may be missing for up to
//! two seconds. An executable or library in use stays as it was opened first.

use crate::fs::from_memory::SMALL;
use foreseek_storage::{HostFd, cachestat};
use foreseek_units::{Bytes, PageIndex, Span};
use fuser::BackingId;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// File systems on which backing files may lie: those that are stacked on no other. With more, the mount itself could not be
/// a layer of an overlay.
pub(crate) const STACK_DEPTH: u32 = 1;
/// Why nothing is handed over where they lie on others.
pub(crate) const STACKED: &str = "the source's file system is stacked on another";
/// How a handle reads and writes.
#[derive(Clone, Debug)]
pub(crate) enum Means {
    /// Through the page cache of the mount, which may keep what it has.
    Cached {
        /// That cache holds nothing older than what the read path answered.
        keep: bool,
    },
    /// By the kernel, in the backing file.
    Passed(Arc<BackingId>),
    /// Through the server, without a cache of the mount.
    Direct(Arc<BackingId>),
}

/// The means of a file's handles.
#[derive(Debug, Default)]
pub(crate) struct IoMode(Mutex<Handles>);

#[derive(Debug, Default)]
struct Handles {
    open: usize,
    backing: Option<Arc<BackingId>>,
    /// It was handed over, and has not gone through the page cache of the mount since.
    was_passed: bool,
}

impl IoMode {
    /// Counts one more handle; `pass` hands the file over, if it is to be, where this is the first.
    pub(crate) fn open(&self, reads_only: bool, pass: impl FnOnce() -> Option<BackingId>) -> Means {
        let mut handles = self.lock();
        if handles.open == 0 {
            handles.backing = if reads_only { pass().map(Arc::new) } else { None };
        }
        handles.open += 1;
        match handles.backing.clone() {
            None => Means::Cached { keep: !std::mem::take(&mut handles.was_passed) },
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
            // Takes a system call.
            drop(backing);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Handles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether files are handed over, and how many were.
#[derive(Debug, Default)]
pub(crate) struct Passthrough {
    is_on: AtomicBool,
    /// Why it is not, unless that was asked for.
    unavailable: Mutex<Option<String>>,
    opens: AtomicU64,
}

impl Passthrough {
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Relaxed);
    }

    /// It cannot be.
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

    /// Opens that were handed over.
    pub(crate) fn opens(&self) -> u64 {
        self.opens.load(Relaxed)
    }

    pub(crate) fn count(&self) {
        self.opens.fetch_add(1, Relaxed);
    }

    /// Hands an open file of this length to the kernel by `register`, if it is not small, and wholly in memory or read without
    /// prefetching (`aside`).
    pub(crate) fn pass(
        &self,
        file: &File,
        length: Bytes,
        aside: bool,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> Option<BackingId> {
        if !self.is_on() || length <= SMALL || !(aside || is_in_memory(file, length)) {
            return None;
        }
        let registered = register(file);
        if let Err(error) = &registered {
            match Errno::from_io_error(error) {
                // Another time.
                Some(Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {}
                Some(Errno::LOOP) => self.turn_off(STACKED.to_owned()),
                Some(Errno::PERM) => self.turn_off("this process has not CAP_SYS_ADMIN".to_owned()),
                _ => self.turn_off(error.to_string()),
            }
        }
        registered.ok()
    }
}

/// Whether all pages of a file are in memory, or on their way.
fn is_in_memory(file: &File, length: Bytes) -> bool {
    let Some(fd) = HostFd::new(file.as_raw_fd()) else { return false };
    let is_there = |length: Bytes| {
        let pages = Span::new(PageIndex(0), PageIndex(length.pages_ceil().get()));
        cachestat(fd, pages).is_ok_and(|there| there >= pages.len())
    };
    // Its beginning first: of a file that is not in memory that is all that looking costs.
    is_there(length.min(SMALL)) && is_there(length)
}
