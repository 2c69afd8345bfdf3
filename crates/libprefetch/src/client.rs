//! A client: one access list, the regions whose reads it expects, and the driver that fetches.

use crate::{Entry, Error, HintMode, Region, Settings, Stats, Want};
use foreseek_units::ByteSpan;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

/// One access list and its regions. `Send` and `Sync`; any number of threads may read through it.
///
/// Files are known by device and inode number, so that every descriptor of a file counts as the
/// file. Descriptors are borrowed: the client never closes one.
#[derive(Debug)]
pub struct Client {
    #[expect(dead_code, reason = "the driver is built from it")]
    settings: Settings,
    state: Mutex<Stats>,
}

impl Client {
    /// A client with an empty access list and no regions.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Watches the reads of a range of a file through any of its descriptors (figure 6:
    /// `register_region`). A range beyond the end of the file is clipped as the file grows or
    /// shrinks.
    ///
    /// # Errors
    /// A descriptor that is no readable file or block device, or was opened with `O_DIRECT`; a range
    /// that another client of this process watches.
    pub fn watch(&self, _fd: RawFd, _range: ByteSpan) -> Result<Region, Error> {
        Ok(Region(0))
    }

    /// Ends it (figure 6: `unregister_region`).
    ///
    /// # Errors
    /// A region that is not this client's.
    pub fn unwatch(&self, _region: Region) -> Result<(), Error> {
        Ok(())
    }

    /// Tells what will be read, in order (figure 6: `request_prefetching`). Answers how many of the
    /// entries were taken: fewer than given once the list is full. `done`: there is no more to tell
    /// for now.
    ///
    /// # Errors
    /// An entry of a file that this client does not watch; then none is taken.
    pub fn hint(&self, _mode: HintMode, accesses: &[Entry], _done: bool) -> Result<usize, Error> {
        Ok(accesses.len())
    }

    /// From now on this thread's reads are not counted as progress through the list, until
    /// [`Client::unignore`]; the two nest.
    pub fn ignore(&self) {}

    /// Ends [`Client::ignore`]. Without one it does nothing.
    pub fn unignore(&self) {}

    /// To be called before each read: finds out whether the pages are there, fetches the next
    /// buffer where they are not, and asks the application through `ask` where the list has ended or
    /// been left. `ask` may call [`Client::hint`]; the reads that it makes itself on this thread are
    /// ignored.
    ///
    /// A descriptor or range that is not watched costs next to nothing.
    pub fn before_read(&self, _fd: RawFd, _range: ByteSpan, _ask: &mut dyn FnMut(&Client, Want)) {}

    /// To be called before a descriptor is closed, so that it is not used any more. Never waits.
    pub fn closed(&self, _fd: RawFd) {}

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
