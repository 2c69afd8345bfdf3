//! A file system that is watched, and the way to its files.
//!
//! *Nothing is held against unmounting.* Files are never opened through the mount that programs use, but through a
//! detached clone of it (`open_tree`). So `umount` never finds it busy because of this process. While
//! the clone is there the file system itself goes on, so the clone must go soon after the mount: the
//! table of mounts is polled, and with the first look that does not find the mount [`FileSystem::leave`] is called. The
//! clone is also given up when nothing was opened for [`IDLE`].
//!
//! Limits: between `umount` and the end of what was under way (one request to the disk) the device is still in use:
//! it cannot be formatted or taken away in that time.

use foreseek_places::Volume;
use foreseek_storage::fanotify::FileSystemId;
use foreseek_storage::{DeviceNumber, FileHandle};
use foreseek_walks::{DeviceNo, Node};
use rustc_hash::FxHashSet;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// After how long without use the clone is given up: longer than the pauses within a walk, since making
/// one takes the kernel a millisecond.
pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// A detached clone of a mount.
#[derive(Debug)]
pub(crate) struct View {
    root: OwnedFd,
}

impl View {
    fn new(mount: &Path, device: DeviceNumber) -> Result<Self, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, mount, flags)?;
        // Handles are opened by way of an ordinary descriptor.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOATIME;
        let root = rustix::fs::openat(&tree, ".", flags, Mode::empty())?;
        // Something else may be mounted there by now, or nothing.
        if DeviceNumber::from_raw(rustix::fs::fstat(&root)?.st_dev) != device {
            return Err(Errno::XDEV);
        }
        Ok(Self { root })
    }

    /// Opens a file or directory by its handle.
    ///
    /// # Errors
    /// As [`FileHandle::open`].
    pub(crate) fn open(&self, handle: &FileHandle, flags: OFlags) -> Result<OwnedFd, Errno> {
        handle.open(self.root.as_fd(), flags)
    }

    /// The root of what the mount shows.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

#[derive(Debug, Default)]
struct Attachment {
    view: Option<Arc<View>>,
    used: Option<Instant>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct FileSystem {
    /// Its number, which is never used again.
    pub(crate) number: DeviceNo,
    /// How events name it.
    pub(crate) id: FileSystemId,
    /// Where it is mounted.
    pub(crate) mount: PathBuf,
    /// What it is, and what lies below.
    pub(crate) volume: Volume,
    attachment: Mutex<Attachment>,
    left: AtomicBool,
    covered: RwLock<FxHashSet<u64>>,
}

impl FileSystem {
    /// The file system that is mounted at a place.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn at(mount: &Path, number: DeviceNo) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOATIME;
        let fd = rustix::fs::open(mount, flags, Mode::empty())?;
        let device = DeviceNumber::from_raw(rustix::fs::fstat(&fd)?.st_dev);
        Ok(Self {
            number,
            id: FileSystemId(rustix::fs::fstatvfs(&fd)?.f_fsid),
            mount: mount.to_owned(),
            volume: Volume::of(fd.as_fd(), device),
            attachment: Mutex::default(),
            left: AtomicBool::new(false),
            covered: RwLock::default(),
        })
    }

    fn attachment(&self) -> MutexGuard<'_, Attachment> {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to its files; to be let go of soon.
    ///
    /// # Errors
    /// ESTALE where it was unmounted; what the kernel said.
    pub(crate) fn view(&self) -> Result<Arc<View>, Errno> {
        let mut attachment = self.attachment();
        if self.is_left() {
            return Err(Errno::STALE);
        }
        attachment.used = Some(Instant::now());
        if let Some(view) = &attachment.view {
            return Ok(view.clone());
        }
        let view = Arc::new(View::new(&self.mount, self.volume.device)?);
        attachment.view = Some(view.clone());
        Ok(view)
    }

    /// Gives the clone up if it was not used of late; when to look again.
    pub(crate) fn rest(&self, now: Instant) -> Option<Instant> {
        let mut attachment = self.attachment();
        let until = attachment.used? + IDLE;
        if now < until {
            return Some(until);
        }
        *attachment = Attachment::default();
        None
    }

    /// Whether what is mounted there now is still this file system: a device may have been given another one.
    pub(crate) fn is_still_there(&self) -> bool {
        let id = self.view().and_then(|view| rustix::fs::fstatvfs(view.root()));
        id.is_ok_and(|told| FileSystemId(told.f_fsid) == self.id)
    }

    /// It was unmounted: gives the clone up, for good.
    pub(crate) fn leave(&self) {
        let mut attachment = self.attachment();
        self.left.store(true, Ordering::Release);
        *attachment = Attachment::default();
    }

    /// The inodes of directories on which something is mounted: what they hide is left alone.
    pub(crate) fn covered(&self) -> RwLockReadGuard<'_, FxHashSet<u64>> {
        self.covered.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up on which directories something is mounted: these paths, from the root of the mount.
    pub(crate) fn cover(&self, paths: &[PathBuf]) {
        let inodes = self.view().map(|view| {
            let inode = |path: &PathBuf| {
                Some(rustix::fs::statat(view.root(), path, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_ino)
            };
            paths.iter().filter_map(inode).collect()
        });
        *self.covered.write().unwrap_or_else(PoisonError::into_inner) = inodes.unwrap_or_default();
    }

    /// Whether it was unmounted.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// The name by which the engine knows an inode of it.
    pub(crate) fn node(&self, inode: u64) -> Node {
        Node { device: self.number, inode }
    }
}
