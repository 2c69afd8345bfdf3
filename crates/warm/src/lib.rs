//! Trees and lists of files in the order in which they lie on their disk, and into memory.
//!
//! A program that reads a tree of small files from a disk waits for a seek a file: it reads in the
//! order in which directories list, which is none of the disk's. This crate finds the files
//! ([`Tree`]), their places ([`Places`]), and either prints them in physical order ([`in_physical_order`])
//! or brings them into the page cache in that order ([`warm`]), ahead of a program that then reads them
//! from memory. Directories and inodes are brought first ([`foreseek_places::Metadata`]), since on ext4 they are half of
//! the seeks.
//!
//! Nothing is written and nothing is evicted. What a program reads stays what it was.
#![forbid(unsafe_code)]

mod command;
mod error;
mod fetch;
mod follow;
mod parallel;
mod place;
mod run;
mod tree;
mod trouble;
mod window;

pub use command::{SIGNALS, run_command, status_of};
pub use error::{Error, Result};
pub use place::{Piece, Places};
pub use run::{Ended, Options, Report, Source, in_physical_order, warm};
pub use tree::{File, Limits, Reading, Tree, path_of};
pub use trouble::{ReadErrors, shown};
pub use window::{Window, batches};

use std::sync::atomic::{AtomicBool, Ordering};

/// How work is reported and ended.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Set to end it.
    pub stop: &'a AtomicBool,
    /// Told the share of the whole that is done, and what is being done.
    pub progress: &'a (dyn Fn(f64, &str) + Sync),
}

impl Work<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn tell(&self, share: f64, what: &str) {
        (self.progress)(share, what);
    }
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("stop", &self.stop).finish_non_exhaustive()
    }
}
