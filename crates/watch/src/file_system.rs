//! A watched file system, and access to its files.
//!
//! *Nothing blocks an unmount.* Nothing is ever opened through the mount that programs use, not even to find out what it
//! is, but through a detached clone of it (`open_tree`). So no open file keeps `umount` from succeeding. The
//! file system itself stays alive while the clone exists, so the clone must be closed soon after the unmount.
//! The table of mounts is polled, and [`FileSystem::leave`] is called as soon as the mount is missing. The
//! clone is also closed when nothing was opened for [`IDLE`].
//!
//! Limits: between `umount` and the end of operations in progress (the requests in the queue of the disk) the device
//! is still in use, and cannot be formatted or detached. The kernel holds the mount itself for some microseconds while it
//! is cloned: an `umount` in just this time is refused. The clone is made by the path of the mount point: where a
//! file system that waits for its server was mounted over a directory above it, and the table of mounts was not read
//! since, that waits, too.

use foreseek_places::{Volume, xfs};
use foreseek_storage::fanotify::FileSystemId;
use foreseek_storage::{DeviceNumber, FileHandle, XfsGeometry};
use foreseek_units::{Bytes, Lba};
use foreseek_walks::{DeviceNo, InodeReads, Node};
use rustc_hash::FxHashSet;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// The clone is closed after this time without use. It is longer than the pauses within a walk, since a new
/// clone takes the kernel a millisecond.
pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// A clone of what is mounted, and of nothing that autofs would mount first.
const CLONED: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_NO_AUTOMOUNT);
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOATIME);

/// A detached clone of a mount.
#[derive(Debug)]
pub(crate) struct View {
    root: OwnedFd,
}

impl View {
    /// Of whatever is mounted there.
    fn of(mount: &Path) -> Result<Self, Errno> {
        let tree = open_tree(CWD, mount, CLONED)?;
        // Handles are opened through an ordinary descriptor.
        Ok(Self { root: rustix::fs::openat(&tree, ".", LISTED, Mode::empty())? })
    }

    /// Of this device's file system.
    fn new(mount: &Path, device: DeviceNumber) -> Result<Self, Errno> {
        let view = Self::of(mount)?;
        // Something else may be mounted there by now, or nothing.
        if view.device()? == device { Ok(view) } else { Err(Errno::XDEV) }
    }

    fn device(&self) -> Result<DeviceNumber, Errno> {
        Ok(DeviceNumber::from_raw(rustix::fs::fstat(&self.root)?.st_dev))
    }

    /// Opens a file or directory by its handle.
    ///
    /// # Errors
    /// As [`FileHandle::open`].
    pub(crate) fn open(&self, handle: &FileHandle, flags: OFlags) -> Result<OwnedFd, Errno> {
        handle.open(self.root.as_fd(), flags)
    }

    /// The root of the mount.
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
    /// Its number, which is never reused.
    pub(crate) number: DeviceNo,
    /// Its identifier in events.
    pub(crate) id: FileSystemId,
    /// The mount point.
    pub(crate) mount: PathBuf,
    /// The kind of file system and the devices below it.
    pub(crate) volume: Volume,
    /// The addresses of inodes by their numbers, on xfs.
    pub(crate) inodes: Option<xfs::Geometry>,
    /// What is read for one of its inodes.
    pub(crate) inode_reads: InodeReads,
    attachment: Mutex<Attachment>,
    left: AtomicBool,
    covered: RwLock<FxHashSet<u64>>,
}

impl FileSystem {
    /// The file system that is mounted at a path; `volume` examines it.
    ///
    /// # Errors
    /// The kernel's error: EPERM without CAP_SYS_ADMIN.
    pub(crate) fn at(
        mount: &Path,
        number: DeviceNo,
        volume: fn(BorrowedFd<'_>, DeviceNumber) -> Volume,
    ) -> Result<Self, Errno> {
        let view = View::of(mount)?;
        let volume = volume(view.root(), view.device()?);
        let geometry = volume.is_xfs().then(|| XfsGeometry::of(view.root()).ok()).flatten();
        let inodes = geometry.and_then(xfs::Geometry::new);
        let stat = rustix::fs::fstatvfs(view.root())?;
        Ok(Self {
            number,
            id: FileSystemId(stat.f_fsid),
            mount: mount.to_owned(),
            inode_reads: inode_reads(&volume, inodes.as_ref(), Bytes(stat.f_frsize)),
            volume,
            inodes,
            attachment: Mutex::new(Attachment { view: Some(Arc::new(view)), used: Some(Instant::now()) }),
            left: AtomicBool::new(false),
            covered: RwLock::default(),
        })
    }

    fn attachment(&self) -> MutexGuard<'_, Attachment> {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clone for access to its files; drop it soon.
    ///
    /// # Errors
    /// ESTALE if it was unmounted; otherwise the kernel's error.
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

    /// Closes the clone if it was not used recently; returns when to check again.
    pub(crate) fn rest(&self, now: Instant) -> Option<Instant> {
        let mut attachment = self.attachment();
        let until = attachment.used? + IDLE;
        if now < until {
            return Some(until);
        }
        *attachment = Attachment::default();
        None
    }

    /// Whether this file system is still mounted there: the device may hold another one by now.
    pub(crate) fn is_still_there(&self) -> bool {
        let id = self.view().and_then(|view| rustix::fs::fstatvfs(view.root()));
        id.is_ok_and(|found| FileSystemId(found.f_fsid) == self.id)
    }

    /// It was unmounted: closes the clone for good.
    pub(crate) fn leave(&self) {
        let mut attachment = self.attachment();
        self.left.store(true, Ordering::Release);
        *attachment = Attachment::default();
    }

    /// The inodes of directories on which something is mounted: the files that they hide are not fetched.
    pub(crate) fn covered(&self) -> RwLockReadGuard<'_, FxHashSet<u64>> {
        self.covered.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up the directories on which something is mounted: `paths` are relative to the root of the mount.
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

    /// The engine's node for an inode of it.
    pub(crate) fn node(&self, inode: u64) -> Node {
        Node { device: self.number, inode }
    }
}

/// The blocks of a group's inode table, as `mke2fs` makes them for groups of 32,768 blocks.
const TABLE: u64 = 512;

fn inode_reads(volume: &Volume, clusters: Option<&xfs::Geometry>, block: Bytes) -> InodeReads {
    let from = Lba(0) + volume.backing.start;
    if let Some(clusters) = clusters {
        return InodeReads { from, ..InodeReads::alone(clusters.cluster().pages_ceil()) };
    }
    let least = block.pages_ceil();
    // The kernel ends at the end of a group's table.
    let blocks = volume.inode_readahead_blocks().map(|blocks| blocks.min(TABLE));
    let together = blocks.map(|blocks| Bytes(block.get() * blocks).pages_ceil());
    InodeReads { least, together: together.unwrap_or(InodeReads::EXT4.together), from }
}
