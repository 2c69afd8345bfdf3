//! Reading directories.
//!
//! The offsets that the kernel sees are the backing file system's own (`d_off`), so that a reader
//! that goes on after others have added or removed names meets what it would meet in the source.

use crate::fs::handles::OpenDirectory;
use crate::fs::nodes::Node;
use crate::fs::source::Source;
use foreseek_seam::Who;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// Bytes of names read at a time: about as many as a reply of the kernel's usual 4 KiB to 32 KiB
/// takes. More would be read again.
const BUFFER: usize = 8 << 10;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// The directory.
    pub(crate) node: &'a Node,
    /// The same, open.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// The inode number as its file system has it.
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    /// Where to go on after it.
    pub(crate) next: u64,
}

/// Opens a directory for reading.
pub(crate) fn open(source: &Source, id: u64, who: Who) -> Result<u64, Errno> {
    let node = source.nodes.get(id)?;
    let fd = source.while_there_are_more(node.open(OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    if let Some(walks) = &source.walks {
        walks.directory_opened(who.0, fd.as_fd());
    }
    Ok(source.directories.add(OpenDirectory { node, fd: Mutex::new(fd) }))
}

/// Gives the entries from an offset on to `take`, until that has no room (answers true).
pub(crate) fn read(
    source: &Source,
    handle: u64,
    offset: u64,
    mut take: impl FnMut(Entry<'_>) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    let opened = source.directories.get(handle)?;
    let fd = opened.fd.lock().unwrap_or_else(PoisonError::into_inner);
    rustix::fs::seek(&*fd, SeekFrom::Start(offset))?;
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(&*fd, &mut buffer);
    let mut taken = false;
    while let Some(entry) = entries.next() {
        let full = entry.and_then(|entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let (number, kind, next) = (entry.ino(), entry.file_type(), entry.next_entry_cookie());
            take(Entry { node: &opened.node, directory: fd.as_fd(), name, number, kind, next })
        });
        match full {
            Ok(false) => taken = true,
            Ok(true) => break,
            // What came before the error is told first.
            Err(_) if taken => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
