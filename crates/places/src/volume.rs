//! The file systems of a listing, and their properties for the order of files.
//!
//! They are identified by the number from `fstatfs`. If FIEMAP is missing or reports addresses that are not
//! those of a disk (btrfs, ZFS, NFS, overlayfs), files are ordered by inode number. A file system that is not
//! in the list is queried for addresses if it is on a block device.

use crate::{HoldBack, SharedDisk};
use foreseek_storage::{BackingDevice, DeviceNumber, read_text};
use rustix::fs::FsWord;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The order of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderBy {
    /// Their addresses on the device.
    Address,
    /// Their inode numbers.
    Inode,
    /// Nothing: they are in memory (tmpfs).
    InMemory,
    /// They are generated when they are read (`/proc`): not read ahead.
    None,
}

/// One mounted file system, identified by its device number.
#[derive(Clone, Debug)]
pub struct Volume {
    /// `st_dev` of its files.
    pub device: DeviceNumber,
    /// Its kind.
    pub name: &'static str,
    /// The order of its files.
    pub by: OrderBy,
    /// The device below it.
    pub backing: BackingDevice,
    /// The disk: one from which others are seen to read, if the volume was made to hold back.
    pub disk: Arc<SharedDisk>,
}

const KNOWN: [(FsWord, &str, OrderBy); 37] = [
    (0xEF53, "ext4", OrderBy::Address),
    (0x5846_5342, "xfs", OrderBy::Address),
    (0xF2F5_2010, "f2fs", OrderBy::Address),
    (0x3153_464A, "jfs", OrderBy::Address),
    (0x9123_683E, "btrfs", OrderBy::Inode),
    (0xCA45_1A4E, "bcachefs", OrderBy::Inode),
    (0x2FC1_2FC1, "ZFS", OrderBy::Inode),
    (0x6969, "NFS", OrderBy::Inode),
    (0xFF53_4D42, "CIFS", OrderBy::Inode),
    (0xFE53_4D42, "SMB", OrderBy::Inode),
    (0x794C_7630, "overlayfs", OrderBy::Inode),
    (0x6573_5546, "FUSE", OrderBy::Inode),
    (0x00C3_6400, "Ceph", OrderBy::Inode),
    (0x0102_1997, "9p", OrderBy::Inode),
    (0x7371_7368, "squashfs", OrderBy::Inode),
    (0x4D44, "vfat", OrderBy::Inode),
    (0x2011_BAB0, "exfat", OrderBy::Inode),
    (0x0102_1994, "tmpfs", OrderBy::InMemory),
    (0x8584_58F6, "ramfs", OrderBy::InMemory),
    (0x9584_58F6, "hugetlbfs", OrderBy::InMemory),
    (0x9FA0, "proc", OrderBy::None),
    (0x6265_6572, "sysfs", OrderBy::None),
    (0x0027_E0EB, "cgroup", OrderBy::None),
    (0x6367_7270, "cgroup2", OrderBy::None),
    (0x6462_6720, "debugfs", OrderBy::None),
    (0x7472_6163, "tracefs", OrderBy::None),
    (0x7363_6673, "securityfs", OrderBy::None),
    (0xCAFE_4A11, "bpf", OrderBy::None),
    (0x6165_676C, "pstore", OrderBy::None),
    (0x6265_6570, "configfs", OrderBy::None),
    (0x1CD1, "devpts", OrderBy::None),
    (0x1980_0202, "mqueue", OrderBy::None),
    (0x4249_4E4D, "binfmt_misc", OrderBy::None),
    (0x0187, "autofs", OrderBy::None),
    (0x6573_5543, "fusectl", OrderBy::None),
    (0xDE5E_81E4, "efivarfs", OrderBy::None),
    (0x6E73_6673, "nsfs", OrderBy::None),
];

impl Volume {
    /// The file system of an open file or directory.
    #[must_use]
    pub fn of(fd: BorrowedFd<'_>, device: DeviceNumber) -> Self {
        Self::on(fd, device, |_| Arc::new(SharedDisk::unobserved()))
    }

    /// The same; requests to it hold back while others read from its disk.
    #[must_use]
    pub fn that_holds_back(fd: BorrowedFd<'_>, device: DeviceNumber, when: HoldBack) -> Self {
        Self::on(fd, device, |backing| SharedDisk::below(backing, when))
    }

    fn on(
        fd: BorrowedFd<'_>,
        device: DeviceNumber,
        disk: impl Fn(&BackingDevice) -> Arc<SharedDisk>,
    ) -> Self {
        let magic = rustix::fs::fstatfs(fd).map_or(0, |stat| stat.f_type);
        let backing = BackingDevice::of(device);
        let known = KNOWN.iter().find(|(number, ..)| *number == magic);
        let (name, by) = match known {
            // Its files may be on another device than it reports, or on several.
            Some((_, name, OrderBy::Address)) if backing.length.is_none() => (*name, OrderBy::Inode),
            Some((_, name, by)) => (*name, *by),
            None if backing.length.is_some() => ("a file system of an unknown kind", OrderBy::Address),
            None => ("a file system of an unknown kind", OrderBy::Inode),
        };
        Self { device, name, by, backing, disk: disk(&backing) }
    }

    /// Whether it is xfs: the numbers of its inodes are their addresses.
    #[must_use]
    pub fn is_xfs(&self) -> bool {
        self.name == "xfs"
    }

    /// Whether its inodes can be read through its block device: ext2 to ext4.
    #[must_use]
    pub fn is_ext4(&self) -> bool {
        self.name == "ext4"
    }

    /// Whether the handle of a file shows its inode number.
    #[must_use]
    pub fn shows_inodes_in_handles(&self) -> bool {
        ["ext4", "xfs", "f2fs", "jfs"].contains(&self.name)
    }

    /// Whether it may be asked for holes (`SEEK_DATA`): before they answer, clients of servers and ZFS write dirty
    /// data back.
    #[must_use]
    pub fn shows_holes(&self) -> bool {
        !["NFS", "CIFS", "SMB", "ZFS"].contains(&self.name)
    }

    /// How many blocks of inodes ext4 reads with each that it looks up (`inode_readahead_blks`, by which it aligns them as
    /// well). 0: no others.
    #[must_use]
    pub fn inode_readahead_blocks(&self) -> Option<u64> {
        let device = std::fs::canonicalize(format!("/sys/dev/block/{}", self.device)).ok()?;
        let settings = Path::new("/sys/fs/ext4").join(device.file_name()?);
        read_text(&settings.join("inode_readahead_blks")).ok()?.trim().parse().ok()
    }
}

/// The file systems found so far: as many as there are mounts below the trees.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    list: Vec<Volume>,
}

impl Volumes {
    /// The index of the volume with this device number; it is added if it is new, and [holds back](Volume::that_holds_back).
    pub fn index_of(&mut self, fd: BorrowedFd<'_>, device: DeviceNumber) -> u16 {
        self.find(device)
            .unwrap_or_else(|| self.index_as(Volume::that_holds_back(fd, device, HoldBack::Likely)))
    }

    /// The index of a volume; it is added if it is new.
    pub fn index_as(&mut self, volume: Volume) -> u16 {
        self.find(volume.device).unwrap_or_else(|| {
            self.list.push(volume);
            // More than 65,536 mounts in one tree share the last number: only their order suffers.
            u16::try_from(self.list.len() - 1).unwrap_or(u16::MAX)
        })
    }

    /// The index of a volume that was found before.
    #[must_use]
    pub fn find(&self, device: DeviceNumber) -> Option<u16> {
        let found = self.list.iter().position(|volume| volume.device == device)?;
        Some(u16::try_from(found).unwrap_or(u16::MAX))
    }

    /// A volume.
    #[must_use]
    pub fn get(&self, index: u16) -> &Volume {
        &self.list[usize::from(index)]
    }

    /// All volumes.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Volume)> {
        (0..=u16::MAX).zip(&self.list)
    }

    /// How long requests were held back because others read from the disks.
    #[must_use]
    pub fn held_back(&self) -> Duration {
        let is_first =
            |at: usize| self.list[..at].iter().all(|it| !Arc::ptr_eq(&it.disk, &self.list[at].disk));
        (0..self.list.len()).filter(|at| is_first(*at)).map(|at| self.list[at].disk.held_back()).sum()
    }

    /// A volume turned out not to report addresses (FIEMAP).
    pub fn set_unmapped(&mut self, index: u16) {
        self.list[usize::from(index)].by = OrderBy::Inode;
    }
}
