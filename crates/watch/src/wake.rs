//! Wakes the thread that waits for events when there is an answer.

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that becomes readable when it is woken.
#[derive(Debug)]
pub(crate) struct Wake {
    fd: Option<OwnedFd>,
}

impl Default for Wake {
    fn default() -> Self {
        Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok() }
    }
}

impl Wake {
    /// Wakes the thread that waits.
    pub(crate) fn wake(&self) {
        // A full counter wakes as well.
        let _ = self.fd.as_ref().map(|fd| rustix::io::write(fd, &1u64.to_ne_bytes()));
    }

    /// Resets the wake-ups so far.
    pub(crate) fn take(&self) {
        let _ = self.fd.as_ref().map(|fd| rustix::io::read(fd, &mut [0u8; 8][..]));
    }

    /// The descriptor to wait for. `None` if the kernel gave none; then answers are found a little later.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}
