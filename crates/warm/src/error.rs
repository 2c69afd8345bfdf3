//! Errors that end a whole run. Errors of single files are counted and reported, and do not end it.

use rustix::io::Errno;
use std::path::PathBuf;

/// The reason why a run ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A given path does not exist.
    #[error("cannot open {}: {cause}", .path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The kernel's reason.
        cause: Errno,
    },
    /// None of the given paths can be taken.
    #[error("{reason}; nothing is left to read")]
    Nothing {
        /// What is wrong with the first of them.
        reason: String,
    },
    /// There are more things than can be numbered.
    #[error("more than {limit} {what}: name smaller trees, one after the other")]
    TooMany {
        /// The things.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// The command cannot be started.
    #[error("cannot start {}: {cause}", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// An indispensable system call failed.
    #[error("{operation}: {cause}")]
    System {
        /// What failed.
        operation: &'static str,
        /// The kernel's reason.
        cause: Errno,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted {
        /// The signal.
        signal: Option<i32>,
    },
}

impl Error {
    /// The signal that ended the run.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Interrupted { signal } => *signal,
            _ => None,
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
