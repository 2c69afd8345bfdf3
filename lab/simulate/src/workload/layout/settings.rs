//! How the file system is made in which a workload lies, and what had been there before.

use super::metadata::FileSystem;
use foreseek_units::Pages;

/// How a file system is made and filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayoutSettings {
    /// Where directories begin to look for their group, and where an aged file system has holes.
    pub seed: u64,
    /// Whether each run's seed is added to that, so that runs with different seeds find the files at other places.
    pub by_seed: bool,
    /// From which sixteenth of a group the first block of a file is looked for, 0 to 15: the kernel
    /// takes the writer's process id modulo 16, which is the same for all files of one copy.
    pub colour: u32,
    /// Whether there is a journal, as in ext3.
    pub journal: bool,
    /// What had been there before.
    pub aging: Option<Aging>,
    /// Whether metadata are read from the device, and by which rules; without it directories, inodes and indirect
    /// blocks are in memory.
    pub metadata: Option<FileSystem>,
    /// No file system: files lie one behind the other from the start of the device, as for a program that reads the
    /// device itself.
    pub raw: bool,
}

impl Default for LayoutSettings {
    /// Freshly made ext3, colour 0.
    fn default() -> Self {
        Self { seed: 0, by_seed: false, colour: 0, journal: true, aging: None, metadata: None, raw: false }
    }
}

/// A file system that has been in use: in every group runs of used and of free blocks alternate,
/// the lengths of both exponentially distributed (a file system that allocates and frees without
/// memory). It is used to the share `used`, and a free run has `free_run` on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aging {
    /// Share of the blocks that older files hold, from 0 to less than 1.
    pub used: f64,
    /// Mean length of a free run; ATC'09 section 5.2 read a file in runs of 14 KB (3.5 pages) on a
    /// fragmented and of 3.8 MB on a fresh file system.
    pub free_run: Pages,
}
