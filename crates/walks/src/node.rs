//! Names of files and directories, and the entries of a listing.

use foreseek_units::{Lba, Pages, SECTORS_PER_PAGE, SectorSpan};

/// A file system on the device: `st_dev`, or any number by which the driver identifies file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNo(pub u32);

/// A file or directory. Nodes sort by file system and inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The file system.
    pub device: DeviceNo,
    /// The inode's number there.
    pub inode: u64,
}

/// A node and a directory that lists it, so that a driver finds its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InDirectory {
    /// The file or directory.
    pub node: Node,
    /// A directory with an entry for it.
    pub directory: Node,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory of the same file system. One on which another file system is mounted is
    /// [`Kind::Other`].
    Directory,
    /// Anything else. It is never fetched.
    Other,
}

/// How much of the device is read for one inode, on a file system that shows the addresses of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeReads {
    /// By a fetch of it.
    pub by_fetch: Pages,
    /// By a program that looks it up: the kernel may read its neighbours as well. Not less than by a fetch.
    pub by_program: Pages,
}

impl InodeReads {
    /// ext4: a fetch reads one block through the device. The kernel reads 32 blocks of the table
    /// (`inode_readahead_blks`).
    pub const EXT4: Self = Self { by_fetch: Pages(1), by_program: Pages(32) };

    /// A file system of which kernel and fetch read the same number of pages (xfs: a cluster of inodes).
    #[must_use]
    pub const fn together(pages: Pages) -> Self {
        Self { by_fetch: pages, by_program: pages }
    }

    /// What a fetch of the inode at an address reads.
    pub(crate) fn fetched(self, place: Lba) -> SectorSpan {
        let start = Lba(place.get() / SECTORS_PER_PAGE * SECTORS_PER_PAGE);
        SectorSpan::at(start, self.by_fetch.max(Pages(1)).sectors())
    }

    /// The beginning of what a program's look-up of it reads.
    pub(crate) fn unit(self, place: Lba) -> Lba {
        let unit = self.by_program.max(Pages(1)).sectors().get();
        Lba(place.get() / unit * unit)
    }
}

impl Default for InodeReads {
    fn default() -> Self {
        Self::EXT4
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its inode (`d_ino`).
    pub node: Node,
    /// Its type (`d_type`).
    pub kind: Kind,
    /// Its name: any bytes.
    pub name: &'a [u8],
    /// The address of the inode itself, if the driver can compute it without reading (ext4: group and table;
    /// xfs: the inode number). Inodes that the device reads together have one address. `None` otherwise.
    pub inode_at: Option<Lba>,
}
