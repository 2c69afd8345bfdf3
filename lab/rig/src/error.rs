//! What can go wrong, each with the object concerned and what to do about it.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// Why a set-up failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that is needed is not installed.
    #[error("the program '{program}' is not installed: install it ({package} on Debian)")]
    MissingProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// A program failed.
    #[error("{task}: '{program}' failed ({status}): {stderr}")]
    Program {
        /// What it was to do.
        task: String,
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// A system call failed.
    #[error("{operation} {object}: {source}")]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// Its object.
        object: String,
        /// The system's reason.
        source: io::Error,
    },
    /// No memory control group can be made.
    #[error("no memory limit can be set: {reason}")]
    NoMemoryGroup {
        /// Why, and the remedy.
        reason: String,
    },
    /// There is too little room.
    #[error("no space: {path} has {available}, {needed} are needed: free some or name another place", path = path.display())]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// What is left there.
        available: foreseek_units::Bytes,
        /// What is needed.
        needed: foreseek_units::Bytes,
    },
    /// Something did not end within its limit of time.
    #[error("{what} did not end within {seconds} s")]
    TooSlow {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// The emulated disk could not do what was asked.
    #[error(transparent)]
    Disk(#[from] foreseek_emulate::Error),
    /// The user ended it.
    #[error("interrupted; everything was restored")]
    Interrupted {
        /// The signal by which.
        signal: i32,
    },
}

/// A result of setting up.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The signal by which the user ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Interrupted { signal } => Some(*signal),
            _ => None,
        }
    }

    /// An [`Error::Io`].
    pub fn io(operation: &'static str, object: impl Display, source: impl Into<io::Error>) -> Self {
        Self::Io { operation, object: object.to_string(), source: source.into() }
    }
}
