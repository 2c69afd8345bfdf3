//! Which files programs open and close, as fanotify tells root.
//!
//! A mark on a whole file system sees every program, whatever it is linked with and through which
//! mount it comes; a mark on a mount would miss bind mounts and containers. Only notifications are
//! asked for (`FAN_CLASS_NOTIF`): no program ever waits for this one. Each event brings an open
//! descriptor, which is looked at (`fstat`) and closed at once.
//!
//! Limits: it needs CAP_SYS_ADMIN. The kernel's queue holds 16,384 events; what overflows is lost,
//! and the loss is reported.
#![allow(unsafe_code)]

use crate::advice::last_error;
use crate::detect::DeviceNumber;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Events read at a time: 6 KiB of buffer, and at most so many descriptors open at once.
const BATCH: usize = 256;

const EVENT: usize = size_of::<libc::fanotify_event_metadata>();

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file system that holds the file.
    pub device: DeviceNumber,
    /// The file.
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
    /// Whose events are left out: this process's.
    own: i32,
    /// How often the queue overflowed.
    overflows: u64,
}

impl OpenWatch {
    /// A watch that sees nothing yet.
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
        // SAFETY: the descriptor is new and nobody else's.
        let group = unsafe { OwnedFd::from_raw_fd(group) };
        Ok(Self { group, own: std::process::id().cast_signed(), overflows: 0 })
    }

    /// Watches the files of the file system that holds `place`.
    ///
    /// # Errors
    /// What the kernel said: ENODEV and EXDEV from file systems that cannot be watched.
    pub fn add(&self, place: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let mask = libc::FAN_OPEN | libc::FAN_CLOSE_NOWRITE | libc::FAN_CLOSE_WRITE;
        // SAFETY: the path is a string that ends with NUL and outlives the call, which checks the
        // descriptors.
        let result = unsafe {
            libc::fanotify_mark(self.group.as_raw_fd(), flags, mask, place.as_raw_fd(), c".".as_ptr())
        };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Takes what was opened and closed since the last time, other than by this process; does not
    /// wait. Answers whether there may be more.
    pub fn take(&mut self, mut each: impl FnMut(Opened)) -> bool {
        let mut buffer = [0u8; BATCH * EVENT];
        let Ok(read) = rustix::io::read(&self.group, &mut buffer[..]) else { return false };
        let mut rest = &buffer[..read.min(BATCH * EVENT)];
        while rest.len() >= EVENT {
            // SAFETY: there are as many bytes as the structure has, and each value is one of it.
            let event: libc::fanotify_event_metadata =
                unsafe { std::ptr::read_unaligned(rest.as_ptr().cast()) };
            self.look(&event, &mut each);
            let length = (event.event_len as usize).max(EVENT);
            rest = rest.get(length..).unwrap_or_default();
        }
        read > 0
    }

    fn look(&mut self, event: &libc::fanotify_event_metadata, each: &mut impl FnMut(Opened)) {
        if event.mask & libc::FAN_Q_OVERFLOW != 0 {
            self.overflows += 1;
        }
        if event.fd < 0 {
            return;
        }
        // SAFETY: the kernel opened this descriptor for whoever reads the event.
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

    /// How often events were lost.
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
    fn a_file_opened_by_another_program_is_seen_and_ours_are_not() {
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
        assert!(seen.iter().all(|opened| opened.inode != inode), "our own open was told: {seen:?}");
        assert!(std::process::Command::new("cat").arg(&path).output().unwrap().status.success());
        while watch.take(|opened| seen.push(opened)) {}
        let of_file: Vec<_> = seen.iter().filter(|opened| opened.inode == inode).collect();
        assert!(of_file.iter().any(|opened| opened.opened), "{seen:?}");
        assert!(of_file.iter().any(|opened| opened.closed), "{seen:?}");
    }
}
