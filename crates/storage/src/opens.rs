//! Which files programs open and close, as fanotify reports it to root.
//!
//! A mark on a whole file system covers every program, however it is linked and through whichever mount it
//! comes; a mark on a mount would miss bind mounts and containers. The group only takes notifications
//! (`FAN_CLASS_NOTIF`): no program waits for this one. Each event brings an open descriptor, which is closed
//! at once after an `fstat`.
//!
//! Limits: it needs CAP_SYS_ADMIN. The kernel's queue holds 16,384 events; further events are lost, and the
//! loss is reported.
#![allow(unsafe_code)]

use crate::advice::last_error;
use crate::detect::DeviceNumber;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Events in a read: 6 KiB of buffer, and at most as many open descriptors.
const BATCH: usize = 256;

const EVENT: usize = size_of::<libc::fanotify_event_metadata>();

/// The opens and closes of a file that one event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file system that holds the file.
    pub device: DeviceNumber,
    /// The inode number of the file.
    pub inode: u64,
    /// Whether it was opened (events of one file may be merged).
    pub opened: bool,
    /// Whether it was closed.
    pub closed: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct OpenWatch {
    group: OwnedFd,
    /// The process whose events are left out: this one.
    own: i32,
    /// How often the queue overflowed.
    overflows: u64,
}

impl OpenWatch {
    /// A watch without a mark.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENOSYS in a kernel without fanotify.
    pub fn new() -> Result<Self, Errno> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        let opens = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NOATIME;
        // SAFETY: no memory is passed.
        let group = unsafe { libc::fanotify_init(flags, opens.cast_unsigned()) };
        if group < 0 {
            return Err(last_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let group = unsafe { OwnedFd::from_raw_fd(group) };
        Ok(Self { group, own: std::process::id().cast_signed(), overflows: 0 })
    }

    /// Watches the files of the file system of `any`.
    ///
    /// # Errors
    /// The kernel's error: ENODEV and EXDEV where the file system cannot be watched.
    pub fn add(&self, any: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let mask = libc::FAN_OPEN | libc::FAN_CLOSE_NOWRITE | libc::FAN_CLOSE_WRITE;
        // SAFETY: the path is a string that ends with NUL and outlives the call. The kernel checks the
        // descriptors.
        let result = unsafe {
            libc::fanotify_mark(self.group.as_raw_fd(), flags, mask, any.as_raw_fd(), c".".as_ptr())
        };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Reads the queued opens and closes by other processes, without waiting. Returns whether there may be
    /// more.
    pub fn take(&mut self, mut each: impl FnMut(Opened)) -> bool {
        let mut buffer = [0u8; BATCH * EVENT];
        let Ok(read) = rustix::io::read(&self.group, &mut buffer[..]) else { return false };
        let mut rest = &buffer[..read.min(BATCH * EVENT)];
        while rest.len() >= EVENT {
            // SAFETY: there are as many bytes as the structure has, and any bytes are a valid one.
            let event: libc::fanotify_event_metadata =
                unsafe { std::ptr::read_unaligned(rest.as_ptr().cast()) };
            self.handle(&event, &mut each);
            let length = (event.event_len as usize).max(EVENT);
            rest = rest.get(length..).unwrap_or_default();
        }
        read > 0
    }

    fn handle(&mut self, event: &libc::fanotify_event_metadata, each: &mut impl FnMut(Opened)) {
        if event.mask & libc::FAN_Q_OVERFLOW != 0 {
            self.overflows += 1;
        }
        if event.fd < 0 {
            return;
        }
        // SAFETY: the kernel opened this descriptor for the reader of the event.
        let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
        if event.pid == self.own {
            return;
        }
        if let Ok(stat) = rustix::fs::fstat(file.as_fd()) {
            each(Opened {
                device: DeviceNumber::from_raw(stat.st_dev),
                inode: stat.st_ino,
                opened: event.mask & libc::FAN_OPEN != 0,
                closed: event.mask & (libc::FAN_CLOSE_NOWRITE | libc::FAN_CLOSE_WRITE) != 0,
            });
        }
    }

    /// How often the queue overflowed.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;

    #[test]
    fn a_file_opened_by_another_program_is_seen_and_own_ones_are_not() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("file\nof two lines");
        std::fs::write(&path, "text").unwrap();
        let place = std::fs::File::open(directory.path()).unwrap();
        let mut watch = match OpenWatch::new() {
            Ok(watch) => watch,
            Err(error) => {
                println!("SKIPPED: fanotify needs root ({error})");
                return;
            }
        };
        if let Err(error) = watch.add(place.as_fd()) {
            println!("SKIPPED: {} cannot be watched: {error}", directory.path().display());
            return;
        }
        let inode = rustix::fs::stat(&path).unwrap().st_ino;
        let mut seen = Vec::new();
        std::fs::read(&path).unwrap();
        watch.take(|opened| seen.push(opened));
        assert!(
            seen.iter().all(|opened| opened.inode != inode),
            "an open of this process was reported: {seen:?}"
        );
        assert!(std::process::Command::new("cat").arg(&path).output().unwrap().status.success());
        while watch.take(|opened| seen.push(opened)) {}
        let of_file: Vec<_> = seen.iter().filter(|opened| opened.inode == inode).collect();
        assert!(of_file.iter().any(|opened| opened.opened), "{seen:?}");
        assert!(of_file.iter().any(|opened| opened.closed), "{seen:?}");
    }
}
