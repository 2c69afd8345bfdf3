//! What can go wrong as a whole. What goes wrong with one file is counted and told, and no error.

use rustix::io::Errno;
use std::path::PathBuf;

/// Why nothing can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tree or list that was named cannot be opened.
    #[error("cannot open {}: {cause}", .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// The kernel's reason.
        cause: Errno,
    },
    /// There is more than can be numbered.
    #[error("more than {limit} {what}: name smaller trees, one after the other")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most.
        limit: u32,
    },
    /// The command cannot be started.
    #[error("cannot start {}: {cause}", .program.display())]
    Start {
        /// Which.
        program: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// A system call failed that nothing can be done without.
    #[error("{operation}: {cause}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The kernel's reason.
        cause: Errno,
    },
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
