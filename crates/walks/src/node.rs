//! Names of files and directories, and the entries of a listing.

use foreseek_units::Lba;

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
