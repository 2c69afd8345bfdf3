//! Which files programs close.
//!
//! A mark on a whole file system covers every program, however it is linked and through whichever mount it
//! comes; a mark on a mount would miss bind mounts and containers.
//!
//! *By handle* where a handle shows the inode number (ext2 to ext4, xfs, f2fs, jfs): no file is opened for an event, so no
//! lease is broken (Samba's oplocks). *By descriptor* elsewhere (overlayfs, btrfs, FUSE): each event brings an open
//! descriptor, which is closed at once after an `fstat`.
//!
//! Limits: Linux 5.1 and CAP_SYS_ADMIN. The kernel's queue holds 16,384 events; further events are lost, and the
//! loss is counted.
#![allow(unsafe_code)]

use super::events::{Events, FileSystemId};
use super::group::{init, mark};
use crate::detect::DeviceNumber;
use crate::handle::FileHandle;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The size of a read of events by handle: some 500 of them.
const BY_HANDLE: usize = 32 * 1024;
/// The same by descriptor: 64 events, and as many open descriptors.
const BY_DESCRIPTOR: usize = 64 * super::events::METADATA;

/// A file that a process closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The process.
    pub process: u32,
    /// The file system that holds the file.
    pub device: DeviceNumber,
    /// The inode number of the file.
    pub inode: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct CloseWatch {
    by_handle: OwnedFd,
    by_descriptor: OwnedFd,
    /// The file systems of the first group.
    file_systems: Vec<(FileSystemId, DeviceNumber)>,
    /// Whether the second group has any.
    opens_files: bool,
    /// How often a queue overflowed, or a file could not be opened for its event.
    overflows: u64,
}

impl CloseWatch {
    /// A watch without a mark.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENOSYS or EINVAL in a kernel that is too old.
    pub fn new() -> Result<Self, Errno> {
        let opens = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NOATIME;
        // Users without privileges may have a group by handle, but no mark on a file system.
        let by_descriptor = init(0, opens)?;
        let by_handle = init(libc::FAN_REPORT_FID, libc::O_RDONLY)?;
        Ok(Self { by_handle, by_descriptor, file_systems: Vec::new(), opens_files: false, overflows: 0 })
    }

    /// Watches the files of the file system of a directory. `handles`: whether its file handles show inode numbers.
    ///
    /// # Errors
    /// The kernel's error: ENODEV and EXDEV where the file system cannot be watched.
    pub fn add(&mut self, directory: BorrowedFd<'_>, handles: bool) -> Result<(), Errno> {
        let on = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let stat = rustix::fs::fstat(directory)?;
        let device = DeviceNumber::from_raw(stat.st_dev);
        let id = FileSystemId(rustix::fs::fstatvfs(directory)?.f_fsid);
        // A copy of a file system may have the same identity.
        let is_taken = self.file_systems.iter().any(|(known, of)| *known == id && *of != device);
        let shows = |handle: FileHandle| handle.inode() == Some(stat.st_ino);
        if handles
            && !is_taken
            && FileHandle::of(directory).is_ok_and(shows)
            && mark(&self.by_handle, on, libc::FAN_CLOSE, directory).is_ok()
        {
            self.file_systems.push((id, device));
            return Ok(());
        }
        self.opens_files = true;
        mark(&self.by_descriptor, on, libc::FAN_CLOSE, directory)
    }

    /// Whether files of a watched file system are opened for events.
    #[must_use]
    pub fn opens_files(&self) -> bool {
        self.opens_files
    }

    /// Reads the queued closes, without waiting. Returns whether there may be more.
    pub fn take(&mut self, mut each: impl FnMut(Closed)) -> bool {
        let device_of = |id: FileSystemId| self.file_systems.iter().find(|(known, _)| *known == id);
        let mut overflows = 0;
        let mut buffer = [0u8; BY_HANDLE];
        let mut more = false;
        for (group, size) in [(&self.by_handle, BY_HANDLE), (&self.by_descriptor, BY_DESCRIPTOR)] {
            let read = match rustix::io::read(group, &mut buffer[..size]) {
                Ok(read) => read,
                Err(Errno::AGAIN) => continue,
                Err(_) => {
                    // The kernel drops an event whose file cannot be opened.
                    (overflows, more) = (overflows + 1, true);
                    continue;
                }
            };
            more |= read > 0;
            for event in Events::of(&buffer[..read.min(size)]) {
                overflows += u64::from(event.overflow);
                let file = match (event.descriptor, &event.file) {
                    (Some(descriptor), _) => identity_of(descriptor),
                    (None, Some((id, handle))) => {
                        device_of(*id).and_then(|(_, device)| Some((*device, handle.inode()?)))
                    }
                    (None, None) => None,
                };
                if let Some((device, inode)) = file {
                    each(Closed { process: event.process, device, inode });
                }
            }
        }
        self.overflows += overflows;
        more
    }

    /// How often a queue overflowed, or a file could not be opened for its event.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

/// The file of the descriptor of an event, which is closed.
fn identity_of(descriptor: RawFd) -> Option<(DeviceNumber, u64)> {
    // SAFETY: the kernel opened this descriptor for the reader of the event, and each event is decoded once.
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let stat = rustix::fs::fstat(file.as_fd()).ok()?;
    Some((DeviceNumber::from_raw(stat.st_dev), stat.st_ino))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::process::Command;

    fn watch_of(directory: &Path, handles: bool) -> Option<CloseWatch> {
        let mut watch = match CloseWatch::new() {
            Ok(watch) => watch,
            Err(error) => {
                println!("SKIPPED: fanotify needs root ({error})");
                return None;
            }
        };
        match watch.add(File::open(directory).unwrap().as_fd(), handles) {
            Ok(()) => Some(watch),
            Err(error) => {
                println!("SKIPPED: {} cannot be watched: {error}", directory.display());
                None
            }
        }
    }

    /// The closes of a file by another process, and of this one.
    fn seen(watch: &mut CloseWatch, path: &Path) -> (usize, usize) {
        let stat = rustix::fs::stat(path).unwrap();
        let device = DeviceNumber::from_raw(stat.st_dev);
        let (mut others, mut own) = (0, 0);
        while watch.take(|closed| {
            if (closed.device, closed.inode) == (device, stat.st_ino) {
                let count = if closed.process == std::process::id() { &mut own } else { &mut others };
                *count += 1;
            }
        }) {}
        (others, own)
    }

    #[test]
    fn a_file_that_was_closed_is_seen_with_its_process_and_keeps_its_lease() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("file\nof two lines");
        std::fs::write(&path, "text").unwrap();
        // Last by handle: a watch by descriptor that is still there would open the file.
        for handles in [false, true] {
            let Some(mut watch) = watch_of(directory.path(), handles) else { return };
            std::fs::read(&path).unwrap();
            assert!(Command::new("cat").arg(&path).output().unwrap().status.success());
            assert_eq!(seen(&mut watch, &path), (1, 1), "{handles}");
            assert_eq!(watch.overflows(), 0);
            if !handles {
                continue;
            }
            if watch.file_systems.is_empty() {
                println!("SKIPPED: handles of {} show no inode numbers", directory.path().display());
                return;
            }
            std::fs::read(&path).unwrap();
            let file = File::open(&path).unwrap();
            // SAFETY: no memory is passed.
            let lease = |command, kind: libc::c_int| unsafe { libc::fcntl(file.as_raw_fd(), command, kind) };
            if lease(libc::F_SETLEASE, libc::F_WRLCK) != 0 {
                println!("SKIPPED: no leases on {}", directory.path().display());
                return;
            }
            // If it opened the file, the holder would be asked to give the lease up: by a signal that ends this process.
            assert_eq!(seen(&mut watch, &path), (0, 1));
            assert_eq!(lease(libc::F_GETLEASE, 0), libc::F_WRLCK);
        }
    }
}
