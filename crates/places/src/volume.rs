//! The file systems that a listing meets, and what each tells about places.
//!
//! Known by the number that `fstatfs` gives. Where FIEMAP is missing or tells addresses that are
//! not those of a disk (btrfs, ZFS, NFS, overlayfs), files are ordered by inode number. A file
//! system that is not in the list is asked for places if it lies on a block device.

use foreseek_storage::{Backing, DeviceNumber};
use rustix::fs::FsWord;
use std::os::fd::BorrowedFd;

/// By what files are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Their places on the device.
    Place,
    /// Their inode numbers.
    Inode,
    /// Nothing: they are in memory (tmpfs).
    Memory,
    /// They are made up when they are read (`/proc`): left alone.
    Nothing,
}

/// One mounted file system, known by its device number.
#[derive(Clone, Debug)]
pub struct Volume {
    /// `st_dev` of its files.
    pub device: DeviceNumber,
    /// Its kind.
    pub name: &'static str,
    /// By what its files are ordered.
    pub by: By,
    /// The device below it.
    pub backing: Backing,
}

const KNOWN: [(FsWord, &str, By); 37] = [
    (0xEF53, "ext4", By::Place),
    (0x5846_5342, "xfs", By::Place),
    (0xF2F5_2010, "f2fs", By::Place),
    (0x3153_464A, "jfs", By::Place),
    (0x9123_683E, "btrfs", By::Inode),
    (0xCA45_1A4E, "bcachefs", By::Inode),
    (0x2FC1_2FC1, "ZFS", By::Inode),
    (0x6969, "NFS", By::Inode),
    (0xFF53_4D42, "CIFS", By::Inode),
    (0xFE53_4D42, "SMB", By::Inode),
    (0x794C_7630, "overlayfs", By::Inode),
    (0x6573_5546, "FUSE", By::Inode),
    (0x00C3_6400, "Ceph", By::Inode),
    (0x0102_1997, "9p", By::Inode),
    (0x7371_7368, "squashfs", By::Inode),
    (0x4D44, "vfat", By::Inode),
    (0x2011_BAB0, "exfat", By::Inode),
    (0x0102_1994, "tmpfs", By::Memory),
    (0x8584_58F6, "ramfs", By::Memory),
    (0x9584_58F6, "hugetlbfs", By::Memory),
    (0x9FA0, "proc", By::Nothing),
    (0x6265_6572, "sysfs", By::Nothing),
    (0x0027_E0EB, "cgroup", By::Nothing),
    (0x6367_7270, "cgroup2", By::Nothing),
    (0x6462_6720, "debugfs", By::Nothing),
    (0x7472_6163, "tracefs", By::Nothing),
    (0x7363_6673, "securityfs", By::Nothing),
    (0xCAFE_4A11, "bpf", By::Nothing),
    (0x6165_676C, "pstore", By::Nothing),
    (0x6265_6570, "configfs", By::Nothing),
    (0x1CD1, "devpts", By::Nothing),
    (0x1980_0202, "mqueue", By::Nothing),
    (0x4249_4E4D, "binfmt_misc", By::Nothing),
    (0x0187, "autofs", By::Nothing),
    (0x6573_5543, "fusectl", By::Nothing),
    (0xDE5E_81E4, "efivarfs", By::Nothing),
    (0x6E73_6673, "nsfs", By::Nothing),
];

impl Volume {
    /// The file system of an open file or directory.
    #[must_use]
    pub fn of(fd: BorrowedFd<'_>, device: DeviceNumber) -> Self {
        let magic = rustix::fs::fstatfs(fd).map_or(0, |told| told.f_type);
        let backing = Backing::of(device);
        let known = KNOWN.iter().find(|(number, ..)| *number == magic);
        let (name, by) = match known {
            // Its files may lie on another device than it says, or on several.
            Some((_, name, By::Place)) if backing.length.is_none() => (*name, By::Inode),
            Some((_, name, by)) => (*name, *by),
            None if backing.length.is_some() => ("a file system of an unknown kind", By::Place),
            None => ("a file system of an unknown kind", By::Inode),
        };
        Self { device, name, by, backing }
    }

    /// Whether its inodes can be read through its block device: ext2 to ext4.
    #[must_use]
    pub fn is_ext4(&self) -> bool {
        self.name == "ext4"
    }
}

/// The file systems met so far: as many as there are mounts below the trees.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    list: Vec<Volume>,
}

impl Volumes {
    /// The number of the volume with this device number; found out about where it is new.
    pub fn index_of(&mut self, fd: BorrowedFd<'_>, device: DeviceNumber) -> u16 {
        self.find(device).unwrap_or_else(|| self.index_as(Volume::of(fd, device)))
    }

    /// The number of a volume; added where it is new.
    pub fn index_as(&mut self, volume: Volume) -> u16 {
        self.find(volume.device).unwrap_or_else(|| {
            self.list.push(volume);
            // More than 65,536 mounts in one tree share the last number: only their order suffers.
            u16::try_from(self.list.len() - 1).unwrap_or(u16::MAX)
        })
    }

    /// The number of a volume that was met before.
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

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Volume)> {
        (0..=u16::MAX).zip(&self.list)
    }

    /// A volume turned out to tell no places.
    pub fn tells_no_places(&mut self, index: u16) {
        self.list[usize::from(index)].by = By::Inode;
    }
}
