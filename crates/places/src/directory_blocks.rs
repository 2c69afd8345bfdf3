//! The addresses of a directory's blocks.

use foreseek_storage::{HostFd, Layout};
use foreseek_units::{ByteSpan, Sectors};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Extents of one directory: 4,096 blocks hold a million names.
const EXTENTS_PER_DIRECTORY: usize = 4096;

/// The blocks of a directory on the device of its file system.
#[must_use]
pub fn blocks_of_directory(directory: BorrowedFd<'_>) -> Vec<ByteSpan> {
    let layout = HostFd::new(directory.as_raw_fd())
        .and_then(|fd| Layout::exactly(fd, Sectors::ZERO, EXTENTS_PER_DIRECTORY).ok());
    let extents = layout.into_iter().flat_map(|layout| layout.extents);
    extents.map(|extent| ByteSpan::at(extent.lba.offset(), extent.pages.bytes())).collect()
}
