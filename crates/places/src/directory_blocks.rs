//! The addresses of a directory's blocks.

use foreseek_storage::{Extent, HostFd, Layout};
use foreseek_units::{ByteSpan, Sectors};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Extents of one directory: 4,096 blocks hold a million names.
const EXTENTS_PER_DIRECTORY: usize = 4096;

/// The extents of a directory on the device of its file system; none if that does not show them.
#[must_use]
pub fn extents_of_directory(directory: BorrowedFd<'_>) -> Vec<Extent> {
    let layout = HostFd::new(directory.as_raw_fd())
        .and_then(|fd| Layout::exactly(fd, Sectors::ZERO, EXTENTS_PER_DIRECTORY).ok());
    layout.map_or_else(Vec::new, |layout| layout.extents)
}

/// The blocks of an extent.
#[must_use]
pub fn blocks_of(extent: &Extent) -> ByteSpan {
    ByteSpan::at(extent.lba.offset(), extent.pages.bytes())
}

/// The blocks of a directory on the device of its file system.
#[must_use]
pub fn blocks_of_directory(directory: BorrowedFd<'_>) -> Vec<ByteSpan> {
    extents_of_directory(directory).iter().map(blocks_of).collect()
}
