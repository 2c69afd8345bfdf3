//! Names of files and directories, and the entries of a listing.

use foreseek_units::{Lba, Pages, SectorSpan};

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
    /// What holds the inode, and is read at least.
    pub least: Pages,
    /// What a look-up reads, by a program or by a fetch: the kernel may read its neighbours as well.
    pub together: Pages,
}

impl InodeReads {
    /// ext4: a block of the table, and with it the 32 blocks around it (`inode_readahead_blks`).
    pub const EXT4: Self = Self { least: Pages(1), together: Pages(32) };

    /// A file system that reads no neighbours (xfs: a cluster of inodes).
    #[must_use]
    pub const fn alone(pages: Pages) -> Self {
        Self { least: pages, together: pages }
    }

    /// What holds the inode at an address.
    pub(crate) fn holding(self, place: Lba) -> SectorSpan {
        SectorSpan::at(aligned(place, Pages(1)), self.least.max(Pages(1)).sectors())
    }

    /// What a look-up of the inode at an address reads.
    pub(crate) fn read(self, place: Lba) -> SectorSpan {
        if self.together <= self.least {
            return self.holding(place);
        }
        SectorSpan::at(aligned(place, self.together), self.together.sectors())
    }
}

fn aligned(place: Lba, unit: Pages) -> Lba {
    let unit = unit.sectors().get();
    Lba(place.get() / unit * unit)
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
