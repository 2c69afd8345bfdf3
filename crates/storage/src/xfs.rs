//! The geometry of a mounted xfs, as the kernel reports it (XFS_IOC_FSGEOMETRY): it needs no right, and reads
//! nothing from the device.
#![allow(unsafe_code)]

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<FsopGeometry>(), (XFS_IOC_FSGEOMETRY_V1 as usize >> 16) & 0x3fff);
    }

    #[test]
    fn another_file_system_has_none() {
        let proc = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(XfsGeometry::of(proc.as_fd()), Err(Errno::NOTTY));
    }
}
