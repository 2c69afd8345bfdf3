//! The disk addresses of files, directories and inodes, and the order of one pass over a disk.
//!
//! It is shared by the programs that read trees ahead: `warm`, which gets the names to read, and `watch`,
//! which detects them. A directory lists its entries ([`entries_of`]); a file's missing pages have addresses
//! in pieces ([`Map`]), and where it has none its parts with data are known ([`data_in`]); ext4's inodes and directories are read through the block device ([`Metadata`]); the
//! number of an xfs inode is its address ([`xfs`]). The properties of a file system decide the order of its files ([`Volume`], [`c_look`]).
//!
//! Nothing is written and nothing is evicted.
#![forbid(unsafe_code)]

mod costs;
mod counts;
mod directory_blocks;
mod entries;
pub mod ext4;
mod helped;
mod holes;
mod map;
mod metadata;
mod order;
mod requests;
mod shared_disk;
mod volume;
pub mod xfs;

pub use costs::costs_of;
pub use directory_blocks::{blocks_of, blocks_of_directory, extents_of_directory};
pub use entries::{Entries, Entry, entries_of, entries_while};
pub use holes::data_in;
pub use map::{Cached, DiskRun, EXTENTS_PER_FILE, Map, is_little, missing, placed};
pub use metadata::{Metadata, Missing};
pub use order::{DiskPosition, Stop, c_look};
pub use requests::Requests;
pub use shared_disk::{HoldBack, SharedDisk};
pub use volume::{OrderBy, Volume, Volumes};
