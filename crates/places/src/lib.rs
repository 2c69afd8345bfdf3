//! Where files, directories and inodes lie on their disk, and the order of one pass over it.
//!
//! Shared by whatever reads trees ahead of a program: `warm`, which is told what to read, and `watch`, which
//! finds out. A directory lists its entries ([`entries_of`]); a file's missing pages lie in pieces
//! ([`Map`]); ext4's inodes and directories are read through the block device ([`Metadata`]); what is known of a
//! file system decides by what its files are ordered ([`Volume`], [`c_look`]).
//!
//! Nothing is written and nothing is evicted.
#![forbid(unsafe_code)]

mod directory_blocks;
mod entries;
pub mod ext4;
mod map;
mod metadata;
mod order;
mod volume;

pub use directory_blocks::blocks_of_directory;
pub use entries::{Entries, Entry, entries_of};
pub use map::{Cached, DiskRun, EXTENTS_PER_FILE, Map, missing, placed};
pub use metadata::Metadata;
pub use order::{DiskPosition, Stop, c_look};
pub use volume::{OrderBy, Volume, Volumes};
