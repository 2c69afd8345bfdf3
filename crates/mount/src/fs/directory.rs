//! Reading directories.
//!
//! The offsets that the kernel sees are the backing file system's own (`d_off`). A reader that continues
//! after names were added or removed therefore gets what it would get in the source.

use crate::fs::handles::OpenDirectory;
use crate::fs::nodes::Node;
use crate::fs::source::Source;
use foreseek_seam::ProcessId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// Bytes of names read at a time: about as many as a reply of the kernel's usual 4 KiB to 32 KiB holds. More
/// would be read again.
const BUFFER: usize = 8 << 10;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryEntry<'a> {
    /// The directory.
    pub(crate) node: &'a Node,
    /// Its open descriptor.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// The inode number in its file system.
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    /// The offset of the next entry.
    pub(crate) next: u64,
}

/// Opens a directory for reading.
pub(crate) fn open(source: &Source, id: u64, pid: ProcessId) -> Result<u64, Errno> {
    let node = source.nodes.get(id)?;
    let fd = source.unless_last(node.open(OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    if let Some(walks) = &source.walks {
        walks.directory_opened(pid.0, fd.as_fd());
    }
    Ok(source.directories.add(OpenDirectory { node, fd: Mutex::new(fd) }))
}

/// Passes the entries from an offset on to `take`, with the names that follow, until it has no room (returns
/// true).
pub(crate) fn read(
    source: &Source,
    handle: u64,
    offset: u64,
    mut take: impl FnMut(DirectoryEntry<'_>, Following<'_>) -> bool,
) -> Result<(), Errno> {
    let opened = source.directories.get(handle)?;
    let fd = opened.fd.lock().unwrap_or_else(PoisonError::into_inner);
    rustix::fs::seek(&*fd, SeekFrom::Start(offset))?;
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(&*fd, &mut buffer);
    let mut names = Names::default();
    let mut taken = false;
    loop {
        match names.fill(&mut entries) {
            // The entries before the error are returned first.
            Err(errno) if !taken => return Err(errno),
            Ok(()) if !names.list.is_empty() => taken = true,
            _ => return Ok(()),
        }
        for (at, Name { place, number, kind, next }) in names.list.iter().enumerate() {
            let name = OsStr::from_bytes(&names.bytes[place.clone()]);
            let (number, kind, next) = (*number, *kind, *next);
            let entry =
                DirectoryEntry { node: &opened.node, directory: fd.as_fd(), name, number, kind, next };
            if take(entry, Following { list: &names.list[at + 1..], bytes: &names.bytes }) {
                return Ok(());
            }
        }
    }
}

/// Entries that were read together.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    list: Vec<Name>,
}

#[derive(Debug)]
struct Name {
    /// The range of its bytes.
    place: Range<usize>,
    number: u64,
    kind: FileType,
    next: u64,
}

impl Names {
    /// Reads the next entries; leaves none at the end.
    fn fill(&mut self, entries: &mut RawDir<'_, &OwnedFd>) -> Result<(), Errno> {
        self.bytes.clear();
        self.list.clear();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let start = self.bytes.len();
            self.bytes.extend_from_slice(entry.file_name().to_bytes());
            let place = start..self.bytes.len();
            let (number, kind, next) = (entry.ino(), entry.file_type(), entry.next_entry_cookie());
            self.list.push(Name { place, number, kind, next });
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// Entries that were read and come after an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Following<'a> {
    list: &'a [Name],
    bytes: &'a [u8],
}

impl<'a> Following<'a> {
    /// Inode numbers and names.
    pub(crate) fn names(self) -> impl Iterator<Item = (u64, &'a OsStr)> {
        self.list.iter().map(move |name| (name.number, OsStr::from_bytes(&self.bytes[name.place.clone()])))
    }
}
