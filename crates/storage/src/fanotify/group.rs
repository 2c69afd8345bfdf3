//! A fanotify group: its marks and its events.
#![allow(unsafe_code)]

use super::events::{Events, FileSystemId, METADATA};
use crate::advice::last_error;
use crate::handle::FileHandle;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The size of a read: some 400 events of a directory, 200 with names.
const BUFFER: usize = 32 * 1024;

/// An open of a directory or of an entry of one.
#[derive(Debug)]
pub struct OpenEvent<'a> {
    /// The process that opened it.
    pub process: u32,
    /// A pidfd of the process, if the group requests them and the process was still there. Unlike the number,
    /// it is never reused.
    pub process_fd: Option<OwnedFd>,
    /// The file system.
    pub file_system: FileSystemId,
    /// The directory that was opened, or that holds the opened entry.
    pub directory: FileHandle,
    /// Whether the directory itself was opened.
    pub on_directory: bool,
    /// The name of the entry; none for the directory itself.
    pub name: Option<&'a [u8]>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Group {
    fd: OwnedFd,
    overflows: u64,
}

impl Group {
    /// A group for directories that are opened, with a descriptor of the process in each event.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENOSYS or EINVAL in a kernel that is too old.
    pub fn of_directories() -> Result<Self, Errno> {
        Self::new()
    }

    /// A group for files that are opened in directories, with a descriptor of the process in each event.
    ///
    /// # Errors
    /// As [`of_directories`](Self::of_directories).
    pub fn of_files() -> Result<Self, Errno> {
        Self::new()
    }

    /// A group for files that are opened anywhere on a file system, with a descriptor of the process in each event.
    ///
    /// # Errors
    /// As [`of_directories`](Self::of_directories).
    pub fn of_all_files() -> Result<Self, Errno> {
        Self::new()
    }

    fn new() -> Result<Self, Errno> {
        let report = libc::FAN_REPORT_DIR_FID | libc::FAN_REPORT_NAME | libc::FAN_REPORT_PIDFD;
        Ok(Self { fd: init(report, libc::O_RDONLY)?, overflows: 0 })
    }

    /// Reports each open of a directory, and of no file, on the file system of `any`.
    ///
    /// # Errors
    /// The kernel's error: ENODEV, EXDEV or EOPNOTSUPP where the file system cannot be watched.
    pub fn watch_directories(&self, any: BorrowedFd<'_>) -> Result<(), Errno> {
        let on = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        // The ignore mask first: otherwise opens of files would be reported in between.
        mark(&self.fd, on | libc::FAN_MARK_IGNORE_SURV, libc::FAN_OPEN, any)?;
        mark(&self.fd, on, libc::FAN_OPEN | libc::FAN_ONDIR, any)
    }

    /// Ends what [`watch_directories`](Self::watch_directories) began.
    pub fn leave_directories(&self, any: BorrowedFd<'_>) {
        let off = libc::FAN_MARK_REMOVE | libc::FAN_MARK_FILESYSTEM;
        // Without the file system there are no marks either.
        let _ = mark(&self.fd, off, libc::FAN_OPEN | libc::FAN_ONDIR, any);
        let _ = mark(&self.fd, off | libc::FAN_MARK_IGNORE, libc::FAN_OPEN, any);
    }

    /// Reports each open of a file, by its name in its directory, on the file system of `any`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch_files(&self, any: BorrowedFd<'_>) -> Result<(), Errno> {
        mark(&self.fd, libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM, libc::FAN_OPEN, any)
    }

    /// Reports nothing any more of whole file systems.
    pub fn forget_file_systems(&self) {
        flush(&self.fd, libc::FAN_MARK_FILESYSTEM);
    }

    /// A second handle on the group, with which other threads mark directories.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub fn marker(&self) -> Result<Marker, Errno> {
        Ok(Marker { fd: rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)? })
    }

    /// Reads the queued events, one buffer of them, without waiting. Returns whether there may be more.
    pub fn take(&mut self, mut each: impl FnMut(OpenEvent<'_>)) -> bool {
        // The decoder reads bytes: the buffer needs no alignment.
        let mut buffer = [0u8; BUFFER];
        let Ok(read) = rustix::io::read(&self.fd, &mut buffer[..]) else { return false };
        for event in Events::of(&buffer[..read.min(BUFFER)]) {
            // SAFETY: the kernel opened this descriptor for the reader of the event, and each event is
            // decoded once.
            let process_fd = event.process_fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            if event.overflow {
                self.overflows += 1;
            }
            let Some((file_system, directory)) = event.directory else { continue };
            each(OpenEvent {
                process: event.process,
                process_fd,
                file_system,
                directory,
                on_directory: event.on_directory,
                name: event.name,
            });
        }
        read > 0
    }

    /// How many events are queued.
    #[must_use]
    pub fn queued(&self) -> usize {
        // The kernel counts the bytes of what each event begins with, without its records.
        let bytes = rustix::io::ioctl_fionread(&self.fd).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX) / METADATA
    }

    /// How often the queue overflowed.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

/// Marks directories whose files are watched.
#[derive(Debug)]
pub struct Marker {
    fd: OwnedFd,
}

impl Marker {
    /// Reports each open of a file by its name in this directory.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_EVICTABLE | libc::FAN_MARK_ONLYDIR;
        mark(&self.fd, flags, libc::FAN_OPEN | libc::FAN_EVENT_ON_CHILD, directory)
    }

    /// Removes all marks.
    pub fn flush(&self) {
        flush(&self.fd, 0);
    }

    /// Removes the mark of a directory.
    ///
    /// # Errors
    /// The kernel's error: ENOENT where the mark is gone already.
    pub fn remove(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_REMOVE | libc::FAN_MARK_ONLYDIR;
        mark(&self.fd, flags, libc::FAN_OPEN | libc::FAN_EVENT_ON_CHILD, directory)
    }
}

/// Removes all marks of a kind.
fn flush(group: &OwnedFd, kind: libc::c_uint) {
    let flags = libc::FAN_MARK_FLUSH | kind;
    // SAFETY: no memory is passed; the kernel checks the descriptors.
    unsafe { libc::fanotify_mark(group.as_raw_fd(), flags, 0, libc::AT_FDCWD, std::ptr::null()) };
}

/// A group that takes notifications. `report`: what its events name; `opens`: how descriptors of events are opened.
pub(super) fn init(report: libc::c_uint, opens: libc::c_int) -> Result<OwnedFd, Errno> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | report;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::fanotify_init(flags, opens.cast_unsigned()) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn mark(group: &OwnedFd, flags: libc::c_uint, mask: u64, on: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the path is a string that ends with NUL and outlives the call. The kernel checks the
    // descriptors.
    let result =
        unsafe { libc::fanotify_mark(group.as_raw_fd(), flags, mask, on.as_raw_fd(), c".".as_ptr()) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

impl AsFd for Group {
    /// Readable while events are queued.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    struct Noted {
        inode: Option<u64>,
        name: Option<Vec<u8>>,
        on_directory: bool,
        alive: bool,
    }

    fn taken(group: &mut Group) -> Vec<Noted> {
        let mut all = Vec::new();
        while group.take(|seen| {
            if seen.process != std::process::id() {
                all.push(Noted {
                    inode: seen.directory.inode(),
                    name: seen.name.map(<[u8]>::to_vec),
                    on_directory: seen.on_directory,
                    alive: seen.process_fd.is_some(),
                });
            }
        }) {}
        all
    }

    fn cat(path: &Path) {
        assert!(Command::new("cat").arg(path).output().unwrap().status.success());
    }

    #[test]
    fn one_group_sees_directories_alone_and_the_other_files_of_marked_directories_alone() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let (marked, other) = (place.path().join("marked"), place.path().join("other"));
        for directory in [&marked, &other] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("file"), "text").unwrap();
        }
        let (mut directories, mut files) = match (Group::of_directories(), Group::of_files()) {
            (Ok(directories), Ok(files)) => (directories, files),
            (Err(error), _) | (_, Err(error)) => {
                println!("SKIPPED: fanotify needs root ({error})");
                return;
            }
        };
        let open = |path: &Path| std::fs::File::open(path).unwrap();
        if let Err(error) = directories.watch_directories(open(place.path()).as_fd()) {
            println!("SKIPPED: {} cannot be watched: {error}", place.path().display());
            return;
        }
        let mut all_files = Group::of_all_files().unwrap();
        all_files.watch_files(open(place.path()).as_fd()).unwrap();
        let marker = files.marker().unwrap();
        marker.add(open(&marked).as_fd()).unwrap();
        let inode = |path: &Path| Some(rustix::fs::stat(path).unwrap().st_ino);
        cat(&marked.join("file"));
        cat(&other.join("file"));
        assert!(Command::new("ls").arg(&other).output().unwrap().status.success());
        let seen = taken(&mut directories);
        assert!(seen.iter().all(|event| event.on_directory && event.name.is_none()), "a file was reported");
        let listed: Vec<_> = seen.iter().filter(|event| event.inode == inode(&other)).collect();
        assert_eq!(listed.len(), 1, "the directory that was listed");
        // `ls` had ended when the event was read, and its zombie was gone.
        assert!(!listed[0].alive);
        let seen = taken(&mut files);
        assert_eq!(seen.len(), 1, "one file of the marked directory");
        assert_eq!((seen[0].inode, seen[0].name.as_deref()), (inode(&marked), Some(&b"file"[..])));
        let seen = taken(&mut all_files);
        for (directory, name) in [(&marked, b"file"), (&other, b"file")] {
            let is_it =
                |event: &&Noted| event.inode == inode(directory) && event.name.as_deref() == Some(name);
            assert_eq!(seen.iter().filter(is_it).count(), 1);
        }
        assert!(seen.iter().all(|event| !event.on_directory));
        all_files.forget_file_systems();
        cat(&other.join("file"));
        assert!(taken(&mut all_files).is_empty());
        assert!(taken(&mut directories).iter().all(|event| event.on_directory));
        marker.remove(open(&marked).as_fd()).unwrap();
        cat(&marked.join("file"));
        assert!(taken(&mut files).is_empty());
    }
}
