//! Fetches trees and lists of files into memory, or prints them, in disk order.
//!
//! A program that reads a tree of small files from a disk waits for about one seek a file: it reads in the
//! order of the directories' listings, which is not that of the disk. This crate finds the files ([`Tree`]) and
//! their addresses ([`TreeAddresses`]). It prints them in physical order ([`in_physical_order`]), or fetches them into
//! the page cache in that order ([`warm`]) ahead of a program that then reads them from memory. Directories and
//! inodes are fetched first ([`foreseek_places::Metadata`]), since on ext4 they are half of the seeks.
//!
//! Nothing is written and nothing is evicted. The data that a program reads is the same.
#![forbid(unsafe_code)]

mod addresses;
mod ahead;
mod command;
mod error;
mod fetch;
mod follow;
mod given;
mod halt;
mod parallel;
mod progress;
mod run;
mod tree;
mod trouble;
mod window;

pub use addresses::{Piece, TreeAddresses};
pub use command::{SIGNALS, run_command, status_of, status_of_signal};
pub use error::{Error, Result};
pub use halt::Halt;
pub use progress::{Progress, Step};
pub use run::{Ended, MEMORY_LEAST, Options, Report, Source, in_physical_order, warm};
pub use tree::{File, Limits, Reading, Tree, path_of};
pub use trouble::{ReadErrors, shown};
pub use window::{Window, batches};

/// How work is reported and stopped.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Set to end it.
    pub stop: &'a Halt,
    /// Gets the progress.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl Work<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(Error::Interrupted { signal: self.stop.signal() }) } else { Ok(()) }
    }

    fn report(&self, step: Step, share: f64, what: &str) {
        (self.progress)(Progress::At { step, share, what });
    }
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("stop", &self.stop).finish_non_exhaustive()
    }
}
