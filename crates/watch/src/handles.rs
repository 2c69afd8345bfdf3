//! Nodes and paths of the directories whose handles events name.

use crate::file_system::FileSystem;
use crate::processes::Opener;
use crate::work::Shared;
use foreseek_storage::{DeviceNumber, FileHandle};
use foreseek_walks::Node;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Directories above a file that are looked at: real trees are not deeper, and the search ends here in a loop of a damaged
/// file system.
const ABOVE: usize = 64;

/// A directory that a program opened.
#[derive(Debug)]
pub(crate) struct DirectoryOpened {
    pub(crate) file_system: Arc<FileSystem>,
    pub(crate) handle: FileHandle,
    pub(crate) process: u32,
    pub(crate) opener: Opener,
    pub(crate) at: Instant,
    /// Those above it may have been opened without a report.
    pub(crate) unsure: bool,
    /// Its opener is recorded, but not above it.
    pub(crate) recorded: bool,
}

impl DirectoryOpened {
    /// Its node, if its handle tells that.
    pub(crate) fn node(&self) -> Option<Node> {
        self.handle.inode().map(|inode| self.file_system.node(inode))
    }

    /// Its node and that of the directory above it; `None` if it is gone.
    pub(crate) fn find(&self) -> Option<(Node, Option<Node>)> {
        let fd = open(&self.file_system, &self.handle).ok()?;
        let look = |path: &str| {
            let stat = rustix::fs::statat(&fd, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let device = DeviceNumber::from_raw(stat.st_dev);
            (device == self.file_system.volume.device).then(|| self.file_system.node(stat.st_ino))
        };
        let node = self.node().or_else(|| look("."))?;
        // Looked up each time: it may have been moved. The root of a file system is its own parent.
        Some((node, look("..").filter(|parent| *parent != node)))
    }

    /// Itself and those above it; `None` if it is gone.
    pub(crate) fn chain(&self) -> Option<Chain> {
        above(&self.file_system, open(&self.file_system, &self.handle).ok()?).ok()
    }
}

/// A directory and those above it, from itself up to the root of its file system, each with its handle.
pub(crate) type Chain = Vec<(Node, FileHandle)>;

/// A file that a program opened, and the directories above it, from the nearest one up to the root of its file system.
pub(crate) struct EnteredFile {
    pub(crate) file: Node,
    pub(crate) directories: Chain,
}

fn open(file_system: &FileSystem, handle: &FileHandle) -> Result<OwnedFd, Errno> {
    file_system.view()?.open(handle, FLAGS)
}

/// A file by its name in a directory, and the directory.
pub(crate) fn file_of(
    shared: &Shared,
    file_system: &FileSystem,
    directory: &FileHandle,
    name: &[u8],
) -> Option<(Node, Node)> {
    let above = file_system.node(directory.inode()?);
    if let Some(listing) = shared.directories.get(above).and_then(|known| known.listing())
        && let Some((inode, _)) = listing.inode_of(name)
    {
        return Some((above, file_system.node(inode)));
    }
    let fd = open(file_system, directory).ok()?;
    Some((above, file_in(file_system, fd.as_fd(), name)?))
}

/// A file by its name in a directory, with all directories above it; none if these are not to be seen.
pub(crate) fn entered_file(
    file_system: &FileSystem,
    directory: &FileHandle,
    name: &[u8],
) -> Option<EnteredFile> {
    let fd = open(file_system, directory).ok()?;
    let file = file_in(file_system, fd.as_fd(), name)?;
    let directories = above(file_system, fd).ok().filter(|all| !all.is_empty())?;
    Some(EnteredFile { file, directories })
}

fn file_in(file_system: &FileSystem, directory: BorrowedFd<'_>, name: &[u8]) -> Option<Node> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| file_system.node(stat.st_ino))
}

/// A directory and those above it.
fn above(file_system: &FileSystem, mut at: OwnedFd) -> Result<Chain, Errno> {
    let mut all = Chain::new();
    while all.len() < ABOVE {
        let stat = rustix::fs::fstat(&at)?;
        let node = file_system.node(stat.st_ino);
        let is_other = DeviceNumber::from_raw(stat.st_dev) != file_system.volume.device;
        // The root of a file system is its own parent.
        if is_other || all.last().is_some_and(|(below, _)| *below == node) {
            return Ok(all);
        }
        all.push((node, FileHandle::of(at.as_fd())?));
        at = rustix::fs::openat(&at, "..", FLAGS, Mode::empty())?;
    }
    Err(Errno::LOOP)
}

/// The path of a directory, for root.
pub(crate) fn path_of(shared: &Shared, node: Node) -> Option<PathBuf> {
    let known = shared.directories.get(node)?;
    let file_system = shared.file_system(node.device)?;
    let fd = open(&file_system, &known.handle).ok()?;
    let within = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    let below = within.as_os_str().as_bytes();
    let below = below.strip_prefix(b"/").unwrap_or(below);
    Some(file_system.mount.join(OsStr::from_bytes(below)))
}
