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
    /// Where the file system begins on the device: the kernel counts both from there.
    pub from: Lba,
}

impl InodeReads {
    /// ext4: a block of the table, and with it the 32 blocks around it (`inode_readahead_blks`).
    pub const EXT4: Self = Self { least: Pages(1), together: Pages(32), from: Lba(0) };

    /// A file system that reads no neighbours (xfs: a cluster of inodes).
    #[must_use]
    pub const fn alone(pages: Pages) -> Self {
        Self { least: pages, together: pages, from: Lba(0) }
    }

    /// What holds the inode at an address.
    pub(crate) fn holding(self, place: Lba) -> SectorSpan {
        SectorSpan::at(self.aligned(place, Pages(1)), self.least.max(Pages(1)).sectors())
    }

    /// Whether a look-up reads more than what holds the inode.
    pub(crate) fn has_neighbours(self) -> bool {
        self.together > self.least
    }

    /// What a look-up of the inode at an address reads.
    pub(crate) fn read(self, place: Lba) -> SectorSpan {
        if !self.has_neighbours() {
            return self.holding(place);
        }
        SectorSpan::at(self.aligned(place, self.together), self.together.sectors())
    }

    fn aligned(self, place: Lba, unit: Pages) -> Lba {
        let from = self.from.min(place);
        let unit = unit.sectors().get();
        Lba(from.get() + (place.get() - from.get()) / unit * unit)
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
    /// Whether the inode is known to be in memory, or on its way there.
    pub inode_in_memory: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition begins at sector 63: the kernel counts from there.
    #[test]
    fn units_are_counted_from_where_the_file_system_begins() {
        let reads = InodeReads { from: Lba(63), ..InodeReads::EXT4 };
        assert_eq!(reads.holding(Lba(63 + 256)), SectorSpan::at(Lba(63 + 256), Pages(1).sectors()));
        assert_eq!(reads.read(Lba(63 + 256 + 8)), SectorSpan::at(Lba(63 + 256), Pages(32).sectors()));
        assert_eq!(reads.read(Lba(63 + 255)), SectorSpan::at(Lba(63), Pages(32).sectors()));
    }

    #[test]
    fn without_neighbours_no_more_is_read_than_what_holds_the_inode() {
        let reads = InodeReads::alone(Pages(4));
        assert_eq!(reads.read(Lba(40)), reads.holding(Lba(40)));
        assert_eq!(reads.read(Lba(40)), SectorSpan::at(Lba(40), Pages(4).sectors()));
    }
}
