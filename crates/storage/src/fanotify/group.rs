//! A fanotify group: what it is told to watch, and the events that it brings.
#![allow(unsafe_code)]

use super::events::{Events, FileSystemId};
use crate::advice::last_error;
use crate::handle::FileHandle;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The buffer for a read: some 400 events of a directory, 200 with names.
const BUFFER: usize = 32 * 1024;

/// One event as a watcher sees it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The process that opened something.
    pub process: u32,
    /// A descriptor of it, if the group brings them and the process was there: it names that process for
    /// good, unlike the number.
    pub process_fd: Option<OwnedFd>,
    /// The file system.
    pub file_system: FileSystemId,
    /// The directory that was opened, or that holds what was opened.
    pub directory: FileHandle,
    /// Whether the directory itself was opened.
    pub on_directory: bool,
    /// The name of what was opened in the directory.
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
        Self::new(libc::FAN_REPORT_PIDFD)
    }

    /// A group for files that are opened in directories.
    ///
    /// # Errors
    /// As [`of_directories`](Self::of_directories).
    pub fn of_files() -> Result<Self, Errno> {
        Self::new(0)
    }

    fn new(extra: libc::c_uint) -> Result<Self, Errno> {
        let report = libc::FAN_REPORT_DIR_FID | libc::FAN_REPORT_NAME | extra;
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | report;
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY.cast_unsigned()) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, overflows: 0 })
    }

    /// Reports every directory that is opened on the file system of `place`, and no file.
    ///
    /// # Errors
    /// What the kernel said: ENODEV, EXDEV or EOPNOTSUPP from file systems that cannot be watched.
    pub fn watch_directories(&self, place: BorrowedFd<'_>) -> Result<(), Errno> {
        let on = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        // Before the mark that reports: otherwise files would be reported in between.
        mark(&self.fd, on | libc::FAN_MARK_IGNORE_SURV, libc::FAN_OPEN, place)?;
        mark(&self.fd, on, libc::FAN_OPEN | libc::FAN_ONDIR, place)
    }

    /// Whereby other threads say which directories are attended.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub fn marker(&self) -> Result<Marker, Errno> {
        Ok(Marker { fd: rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)? })
    }

    /// Takes the events that wait, one buffer of them; does not wait. Answers whether there may be more.
    pub fn take(&mut self, mut each: impl FnMut(Seen<'_>)) -> bool {
        // The structures are of 8-byte numbers; the decoder reads them wherever they lie.
        let mut buffer = [0u8; BUFFER];
        let Ok(read) = rustix::io::read(&self.fd, &mut buffer[..]) else { return false };
        for event in Events::of(&buffer[..read.min(BUFFER)]) {
            // SAFETY: the kernel opened this descriptor for whoever reads the event, and each event is
            // decoded once.
            let process_fd = event.process_fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            if event.overflow {
                self.overflows += 1;
            }
            let Some((file_system, directory)) = event.directory else { continue };
            each(Seen {
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

    /// How often the queue overflowed.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

/// Says which directories are attended.
#[derive(Debug)]
pub struct Marker {
    fd: OwnedFd,
}

impl Marker {
    /// Reports every file that is opened by its name in this directory.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn attend(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_EVICTABLE | libc::FAN_MARK_ONLYDIR;
        mark(&self.fd, flags, libc::FAN_OPEN | libc::FAN_EVENT_ON_CHILD, directory)
    }

    /// Ends [`attend`](Self::attend) for all directories.
    pub fn leave_all(&self) {
        // SAFETY: no memory is passed; the kernel checks the descriptors.
        unsafe {
            libc::fanotify_mark(
                self.fd.as_raw_fd(),
                libc::FAN_MARK_FLUSH,
                0,
                libc::AT_FDCWD,
                std::ptr::null(),
            );
        }
    }

    /// Ends [`attend`](Self::attend).
    ///
    /// # Errors
    /// What the kernel said: ENOENT where the mark is gone already.
    pub fn leave(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = libc::FAN_MARK_REMOVE | libc::FAN_MARK_ONLYDIR;
        mark(&self.fd, flags, libc::FAN_OPEN | libc::FAN_EVENT_ON_CHILD, directory)
    }
}

fn mark(group: &OwnedFd, flags: libc::c_uint, mask: u64, place: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the path is a string that ends with NUL and outlives the call, which checks the
    // descriptors.
    let result =
        unsafe { libc::fanotify_mark(group.as_raw_fd(), flags, mask, place.as_raw_fd(), c".".as_ptr()) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

impl AsFd for Group {
    /// Readable while events wait.
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
    fn one_group_sees_directories_alone_and_the_other_files_of_attended_directories_alone() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let (attended, other) = (place.path().join("attended"), place.path().join("other"));
        for directory in [&attended, &other] {
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
        let marker = files.marker().unwrap();
        marker.attend(open(&attended).as_fd()).unwrap();
        let inode = |path: &Path| Some(rustix::fs::stat(path).unwrap().st_ino);
        cat(&attended.join("file"));
        cat(&other.join("file"));
        assert!(Command::new("ls").arg(&other).output().unwrap().status.success());
        let seen = taken(&mut directories);
        assert!(seen.iter().all(|event| event.on_directory && event.name.is_none()), "a file was reported");
        let listed: Vec<_> = seen.iter().filter(|event| event.inode == inode(&other)).collect();
        assert_eq!(listed.len(), 1, "the directory that was listed");
        // `ls` had ended when the event was read, and its zombie was gone.
        assert!(!listed[0].alive);
        let seen = taken(&mut files);
        assert_eq!(seen.len(), 1, "one file of the attended directory");
        assert_eq!((seen[0].inode, seen[0].name.as_deref()), (inode(&attended), Some(&b"file"[..])));
        marker.leave(open(&attended).as_fd()).unwrap();
        cat(&attended.join("file"));
        assert!(taken(&mut files).is_empty());
    }
}
