//! What the kernel reports of a mounted xfs: its geometry (XFS_IOC_FSGEOMETRY), which needs no right and reads
//! nothing from the device, and the blocks of a directory (XFS_IOC_GETBMAPX), for which xfs has no FIEMAP.
#![allow(unsafe_code)]

use foreseek_seam::Extent;
use foreseek_units::{Lba, PageIndex, Pages, SECTORS_PER_PAGE};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater};
use std::os::fd::BorrowedFd;

/// `_IOR('X', 100, struct xfs_fsop_geom_v1)`.
const XFS_IOC_FSGEOMETRY_V1: Opcode = 0x8070_5864;

/// `struct xfs_fsop_geom_v1`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct FsopGeometry {
    block_size: u32,
    realtime_extent_size: u32,
    ag_blocks: u32,
    ag_count: u32,
    log_blocks: u32,
    sector_size: u32,
    inode_size: u32,
    inodes_max_percent: u32,
    data_blocks: u64,
    realtime_blocks: u64,
    realtime_extents: u64,
    log_start: u64,
    uuid: [u8; 16],
    stripe_unit: u32,
    stripe_width: u32,
    version: i32,
    flags: u32,
    log_sector_size: u32,
    realtime_sector_size: u32,
    directory_block_size: u32,
    padding: u32,
}

/// What places inodes on an xfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XfsGeometry {
    /// The length of a block in bytes.
    pub block_bytes: u32,
    /// The length of an inode in bytes.
    pub inode_bytes: u32,
    /// The blocks of an allocation group; the last one may have fewer.
    pub ag_blocks: u32,
    /// The number of allocation groups.
    pub ag_count: u32,
    /// The blocks of all allocation groups.
    pub data_blocks: u64,
}

impl XfsGeometry {
    /// The geometry of the xfs that holds an open file or directory.
    ///
    /// # Errors
    /// ENOTTY on another file system; otherwise the kernel's error.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut found = FsopGeometry::default();
        // SAFETY: the opcode is that of XFS_IOC_FSGEOMETRY_V1, and `FsopGeometry` is laid out as `struct
        // xfs_fsop_geom_v1`, whose size the opcode contains.
        let request = unsafe { Updater::<XFS_IOC_FSGEOMETRY_V1, FsopGeometry>::new(&mut found) };
        // SAFETY: the call writes into the structure that is passed and nowhere else.
        unsafe { rustix::ioctl::ioctl(fd, request)? };
        Ok(Self {
            block_bytes: found.block_size,
            inode_bytes: found.inode_size,
            ag_blocks: found.ag_blocks,
            ag_count: found.ag_count,
            data_blocks: found.data_blocks,
        })
    }
}

/// `_IOWR('X', 56, struct getbmap)`: the number names the shorter structure of XFS_IOC_GETBMAP, whose fields are the
/// first of `struct getbmapx`.
const XFS_IOC_GETBMAPX: Opcode = 0xC020_5838;
/// Nothing is written back first.
const BMV_IF_DELALLOC: i32 = 0x8;
/// Extents of a directory that are returned: one for each block of those that are listed ahead.
const DIRECTORY_EXTENTS: usize = 255;

/// `struct getbmapx`; in the first one of a call the request, in the others the extents.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct BlockMap {
    offset: i64,
    block: i64,
    length: i64,
    count: i32,
    entries: i32,
    request_flags: i32,
    flags: i32,
    unused: [i32; 2],
}

/// The first extents of an open directory of xfs, on the device of its file system.
///
/// # Errors
/// ENOTTY on another file system; otherwise the kernel's error.
pub fn xfs_directory(directory: BorrowedFd<'_>) -> Result<Vec<Extent>, Errno> {
    let mut maps = [BlockMap::default(); DIRECTORY_EXTENTS + 1];
    maps[0] = BlockMap {
        length: -1,
        count: maps.len() as i32,
        request_flags: BMV_IF_DELALLOC,
        ..BlockMap::default()
    };
    // SAFETY: the opcode is that of XFS_IOC_GETBMAPX, and `BlockMap` is laid out as `struct getbmapx`; there are as
    // many as the first announces.
    let request = unsafe { Updater::<XFS_IOC_GETBMAPX, [BlockMap; DIRECTORY_EXTENTS + 1]>::new(&mut maps) };
    // SAFETY: the call writes into the structures that are passed and nowhere else.
    unsafe { rustix::ioctl::ioctl(directory, request)? };
    let found = usize::try_from(maps[0].entries).unwrap_or(0).min(DIRECTORY_EXTENTS);
    Ok(maps[1..=found].iter().filter_map(extent).collect())
}

/// An extent, rounded outward to whole pages; holes and delayed blocks have none.
fn extent(map: &BlockMap) -> Option<Extent> {
    let sector = |number: i64| u64::try_from(number).ok();
    let (offset, block, length) = (sector(map.offset)?, sector(map.block)?, sector(map.length)?);
    let end = offset.checked_add(length).filter(|_| length > 0)?;
    let page = offset / SECTORS_PER_PAGE;
    let lead = offset - page * SECTORS_PER_PAGE;
    let pages = Pages(end.div_ceil(SECTORS_PER_PAGE) - page);
    Some(Extent { page: PageIndex(page), pages, lba: Lba(block.checked_sub(lead)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<FsopGeometry>(), (XFS_IOC_FSGEOMETRY_V1 as usize >> 16) & 0x3fff);
    }

    #[test]
    fn extents_are_whole_pages_and_holes_are_none() {
        assert_eq!(size_of::<BlockMap>(), 48);
        // As the kernel defines it: the length of `struct getbmap`.
        assert_eq!((XFS_IOC_GETBMAPX as usize >> 16) & 0x3fff, std::mem::offset_of!(BlockMap, request_flags));
        let map = |offset, block, length| BlockMap { offset, block, length, ..BlockMap::default() };
        let whole = Extent { page: PageIndex(1), pages: Pages(2), lba: Lba(800) };
        assert_eq!(extent(&map(8, 800, 16)), Some(whole));
        assert_eq!(extent(&map(10, 802, 12)), Some(whole));
        for none in [map(0, -1, 8), map(0, -2, 8), map(0, 8, 0), map(-8, 8, 8), map(8, 8, i64::MIN)] {
            assert_eq!(extent(&none), None, "{none:?}");
        }
        assert_eq!(extent(&map(7, 0, i64::MAX)), None);
    }

    #[test]
    fn another_file_system_has_none() {
        let proc = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(XfsGeometry::of(proc.as_fd()), Err(Errno::NOTTY));
    }
}
