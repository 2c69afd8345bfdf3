//! Files and directories that are open through the mount, by the numbers that the kernel has for them.
#![allow(unsafe_code)]

use crate::fs::caller::Caller;
use crate::fs::nodes::Node;
use foreseek_seam::StreamId;
use foreseek_units::Bytes;
use rustix::fd::{AsFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;
use slab::Slab;
use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: Arc<Node>,
    /// The backing file, opened with the same access.
    pub(crate) file: Arc<File>,
    /// The path of its reads.
    pub(crate) reads: ReadRoute,
    /// Whether it is open for writing.
    pub(crate) writes: bool,
    /// Whether its writes come from the page cache of the mount, and not from the program itself.
    pub(crate) cached: bool,
    /// The user and group that opened it.
    pub(crate) by: Caller,
}

/// What answers the reads of an open file.
#[derive(Debug)]
pub(crate) enum ReadRoute {
    /// It is not open for reading.
    None,
    /// The backing file, through the source's page cache.
    Below,
    /// As in a mount without prefetching, since prefetching does not pay.
    Plain(StreamId),
    /// The read path.
    Path(OpenReads),
}

/// The reads of an open file that the read path answers.
#[derive(Debug)]
pub(crate) struct OpenReads {
    /// Their stream on the read path, once the read path has to answer one of them.
    pub(crate) stream: OnceLock<StreamId>,
    /// How much from its start may be in memory.
    pub(crate) in_memory: Bytes,
    /// How much of it was read ahead of the program.
    pub(crate) brought: Bytes,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub(crate) node: Arc<Node>,
    /// The backing directory. Held while it is read, since reading moves its position.
    pub(crate) fd: Mutex<OwnedFd>,
}

/// Open files or directories by number.
#[derive(Debug)]
pub(crate) struct Handles<T>(RwLock<Slab<Arc<T>>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> Handles<T> {
    pub(crate) fn add(&self, opened: T) -> u64 {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::new(opened)) as u64
    }

    pub(crate) fn get(&self, number: u64) -> Result<Arc<T>, Errno> {
        let handles = self.0.read().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(number).ok().and_then(|number| handles.get(number)).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let number = usize::try_from(number).ok()?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).try_remove(number)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All that are open now.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let handles = self.0.read().unwrap_or_else(PoisonError::into_inner);
        handles.iter().map(|(_, opened)| Arc::clone(opened)).collect()
    }
}

/// Closes a copy of a descriptor, which reports errors of earlier writes.
pub(crate) fn close_copy(fd: &impl AsFd) -> Result<(), Errno> {
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, 0)?.into_raw_fd();
    // SAFETY: the descriptor is ours alone and not used afterwards.
    if unsafe { libc::close(copy) } == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
