//! Descriptors that belong to the host program, and the files behind them.
#![allow(unsafe_code)]

use crate::detect::DeviceNumber;
use foreseek_units::{ByteOffset, Bytes};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, RawFd};

/// A descriptor of the host. It is only passed to the kernel. The host may close it at any time, and its
/// number may then refer to another file: a user of it [identifies](HostFd::identify) it first. Advice that
/// reaches another file in between costs time and changes no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostFd(RawFd);

/// What kind of thing a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
}

/// The file behind a descriptor, the same for every descriptor of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device that holds the file, or the block device itself.
    pub device: DeviceNumber,
    /// The inode number; 0 for a block device, which has one page cache for all its nodes.
    pub inode: u64,
    /// Which kind of file.
    pub kind: FileKind,
}

impl HostFd {
    /// A descriptor by number. `None` for a negative one.
    #[must_use]
    pub const fn new(fd: RawFd) -> Option<Self> {
        if fd < 0 { None } else { Some(Self(fd)) }
    }

    /// The number.
    #[must_use]
    pub const fn raw(self) -> RawFd {
        self.0
    }

    /// The descriptor as rustix takes it.
    pub(crate) fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is not -1 (checked in `new`) and is only passed to system calls, which
        // check it themselves. Nothing is assumed about what it refers to, and it is never closed.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }

    /// Which file this is, and its length: `None` for anything but an open regular file or block device. The
    /// length of a block device is not in its inode and is `None`.
    #[must_use]
    pub fn identify(self) -> Option<(Identity, Option<Bytes>)> {
        let stat = rustix::fs::fstat(self.borrow()).ok()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some((
                Identity {
                    device: DeviceNumber::from_raw(stat.st_dev),
                    inode: stat.st_ino,
                    kind: FileKind::File,
                },
                Some(Bytes(u64::try_from(stat.st_size).unwrap_or(0))),
            )),
            FileType::BlockDevice => Some((
                Identity {
                    device: DeviceNumber::from_raw(stat.st_rdev),
                    inode: 0,
                    kind: FileKind::BlockDevice,
                },
                None,
            )),
            _ => None,
        }
    }

    /// Whether this process's user owns the file, or this process runs as root.
    pub(crate) fn is_own(self) -> bool {
        let user = rustix::process::geteuid();
        user.is_root() || rustix::fs::fstat(self.borrow()).is_ok_and(|stat| stat.st_uid == user.as_raw())
    }

    /// Reads at an offset (`pread`); the file position stays. Returns how much was read: less than the length
    /// of the buffer at the end of the file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_at(self, buffer: &mut [u8], offset: ByteOffset) -> Result<usize, Errno> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(self.borrow(), &mut buffer[done..], offset.get() + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// The file position; `None` where there is none (a pipe).
    #[must_use]
    pub fn position(self) -> Option<ByteOffset> {
        rustix::fs::seek(self.borrow(), rustix::fs::SeekFrom::Current(0)).ok().map(ByteOffset)
    }

    /// Whether messages may be written to this descriptor. The host may have closed its standard error and
    /// opened a database under that number. A file therefore counts only if it was opened for writing alone,
    /// as shells open the targets of redirections and databases are not opened. The descriptor must also be
    /// writable at once: a write to a full pipe would wait, and one to a pipe without readers would end the
    /// process (SIGPIPE).
    #[must_use]
    pub fn takes_messages(self) -> bool {
        let Ok(flags) = rustix::fs::fcntl_getfl(self.borrow()) else { return false };
        (flags & OFlags::ACCMODE == OFlags::WRONLY || self.identify().is_none()) && self.is_writable_now()
    }

    fn is_writable_now(self) -> bool {
        let mut poll = libc::pollfd { fd: self.0, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one live structure is passed, and a count of one; the kernel checks the descriptor.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready == 1 && poll.revents & (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) == libc::POLLOUT
    }

    /// Whether reads through it bypass the page cache (`O_DIRECT`).
    #[must_use]
    pub fn is_direct(self) -> bool {
        rustix::fs::fcntl_getfl(self.borrow()).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
    }

    /// Why reads through this descriptor cannot be prefetched; `None` where they can.
    #[must_use]
    pub fn obstacle(self) -> Option<&'static str> {
        let flags = match rustix::fs::fcntl_getfl(self.borrow()) {
            Ok(flags) => flags,
            Err(Errno::BADF) => return Some("it is not open"),
            Err(_) => return Some("its flags cannot be read"),
        };
        if flags.contains(OFlags::PATH) {
            Some("it was opened with O_PATH: open it for reading")
        } else if flags & OFlags::ACCMODE == OFlags::WRONLY {
            Some("it was opened for writing only: open it for reading")
        } else if flags.contains(OFlags::DIRECT) {
            Some("it was opened with O_DIRECT, which bypasses the page cache: open it without")
        } else if self.identify().is_none() {
            Some("it is neither a regular file nor a block device")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn host(file: &std::fs::File) -> HostFd {
        HostFd::new(file.as_raw_fd()).unwrap()
    }

    #[test]
    fn two_descriptors_of_a_file_are_one_file_and_two_files_are_two() {
        let a = tempfile::NamedTempFile::new().unwrap();
        let b = tempfile::NamedTempFile::new().unwrap();
        a.as_file().set_len(5000).unwrap();
        let again = a.reopen().unwrap();
        assert_eq!(host(a.as_file()).identify(), host(&again).identify());
        assert_eq!(host(&again).identify().unwrap().1, Some(Bytes(5000)));
        assert_ne!(host(a.as_file()).identify(), host(b.as_file()).identify());
    }

    #[test]
    fn a_database_takes_no_messages_and_a_log_does() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let log = std::fs::File::options().append(true).open(path.path()).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        assert!(!host(path.as_file()).takes_messages(), "open for reading and writing");
        assert!(host(&log).takes_messages());
        assert!(HostFd::new(writer.as_raw_fd()).unwrap().takes_messages());
        assert!(!HostFd::new(1_000_000).unwrap().takes_messages());
    }

    #[test]
    fn a_message_neither_waits_for_a_reader_nor_fails_without_one() {
        let (reader, writer) = std::io::pipe().unwrap();
        let fd = HostFd::new(writer.as_raw_fd()).unwrap();
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
        assert!(!fd.takes_messages(), "the pipe is full");
        drop(reader);
        assert!(!fd.takes_messages(), "the pipe has no reader");
    }

    #[test]
    fn an_obstacle_to_prefetching_is_named() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let write_only = std::fs::File::options().write(true).open(path.path()).unwrap();
        assert!(host(&write_only).obstacle().unwrap().contains("writing only"));
        assert_eq!(host(path.as_file()).obstacle(), None);
        let (reader, _writer) = std::io::pipe().unwrap();
        let pipe = HostFd::new(reader.as_raw_fd()).unwrap();
        assert!(pipe.obstacle().unwrap().contains("neither"));
        assert_eq!(pipe.identify(), None);
        assert_eq!(pipe.position(), None);
        assert!(HostFd::new(1_000_000).unwrap().obstacle().unwrap().contains("not open"));
        assert_eq!(HostFd::new(-1), None);
    }
}
