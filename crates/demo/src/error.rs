//! What can go wrong, each with the object concerned and what to do about it.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// Why the demo cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the demo runs is not installed.
    #[error("the program '{program}' is not installed: install it ({package} on Debian)")]
    MissingProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// A program that the demo ran failed.
    #[error("{task}: '{program}' failed ({status}): {stderr}")]
    Program {
        /// What it was to do.
        task: String,
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The last it said.
        stderr: String,
    },
    /// A system call failed.
    #[error("{operation} {object}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
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
    /// There is too little room for the database.
    #[error("no space: {path} has {available}, the demo needs {needed}: free some or set TMPDIR", path = path.display())]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// What is left there.
        available: foreseek_units::Bytes,
        /// What is needed.
        needed: foreseek_units::Bytes,
    },
    /// The database did not turn out as planned.
    #[error("the database is not as it was planned: {what}")]
    Database {
        /// In what respect.
        what: String,
    },
    /// The two runs gave different results. Prefetching must never change what is read.
    #[error("the results differ: stock {stock}, with Foreseek {foreseek}; this is a bug")]
    Differ {
        /// Rows and fingerprint of the stock run.
        stock: String,
        /// Rows and fingerprint of the run with Foreseek.
        foreseek: String,
    },
    /// An option, or options together, that make no sense.
    #[error("{what}")]
    Option {
        /// What is wrong and what is accepted.
        what: String,
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
    /// A device profile that does not exist or makes no sense.
    #[error(transparent)]
    Profile(#[from] foreseek_storage::Error),
    /// A device that the profile cannot be.
    #[error(transparent)]
    Device(#[from] foreseek_device::BuildError),
    /// No best schedule could be modelled.
    #[error("the best schedule cannot be modelled: {0}")]
    Limit(#[from] foreseek_simulate::limit::LimitError),
    /// The database cannot be understood. It is ours, so this is a bug.
    #[error("the scan of the database cannot be followed: {0}")]
    Scan(#[from] foreseek_sqlite::Error),
    /// The modelled kernel could not read.
    #[error(transparent)]
    Modelled(#[from] foreseek_simulate::kernel::ReadError),
    /// The user ended it.
    #[error("interrupted; everything was put back")]
    Interrupted,
}

/// A result of the demo.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Io`].
    pub(crate) fn io(operation: &'static str, object: impl Display, source: impl Into<io::Error>) -> Self {
        Self::Io { operation, object: object.to_string(), source: source.into() }
    }
}
