//! How a workload's file system is made, and how it was used before.

use super::metadata::FileSystem;
use foreseek_units::Pages;

/// The settings of a file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayoutSettings {
    /// The seed of directories' groups, and of the holes of an aged file system.
    pub seed: u64,
    /// Whether each run's seed is added to that, so that runs with different seeds have their files in
    /// different places.
    pub by_seed: bool,
    /// The sixteenth of a group, 0 to 15, in which the search for a file's first block begins: the kernel takes
    /// the writer's process id modulo 16, which is the same for all files of one copy.
    pub colour: u32,
    /// Whether there is a journal, as in ext3.
    pub journal: bool,
    /// Its earlier use.
    pub aging: Option<Aging>,
    /// Whose rules apply to metadata that are read from the device; `None`: directories, inodes and indirect
    /// blocks are in memory.
    pub metadata: Option<FileSystem>,
    /// No file system: files lie one behind the other from the start of the device, as for a program that reads
    /// the device itself.
    pub raw: bool,
}

impl Default for LayoutSettings {
    /// A new ext3, colour 0.
    fn default() -> Self {
        Self { seed: 0, by_seed: false, colour: 0, journal: true, aging: None, metadata: None, raw: false }
    }
}

/// A file system that has been in use: in every group runs of used and of free blocks alternate, with
/// exponentially distributed lengths (as after independent allocations and releases). The share `used` is in
/// use, and the mean free run is `free_run`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aging {
    /// Share of the blocks that older files hold, from 0 to less than 1.
    pub used: f64,
    /// Mean length of a free run; ATC'09 section 5.2 read a file in runs of 14 KB (3.5 pages) on a
    /// fragmented and of 3.8 MB on a fresh file system.
    pub free_run: Pages,
}
