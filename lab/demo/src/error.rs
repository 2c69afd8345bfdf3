//! What can go wrong, each with the object concerned and what to do about it.

use std::fmt::Display;
use std::io;

/// Why the demo cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its set-up failed.
    #[error(transparent)]
    Rig(#[from] foreseek_rig::Error),
    /// The database did not turn out as planned.
    #[error("the database is not as planned: {what}")]
    Database {
        /// What differs.
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
    /// An option, or a combination of options, that is not valid.
    #[error("{what}")]
    Option {
        /// What is wrong and what is accepted.
        what: String,
    },
    /// A device profile that does not exist or is not valid.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// A device that cannot be built from the profile.
    #[error(transparent)]
    Device(#[from] foreseek_device::BuildError),
    /// No best schedule could be modelled.
    #[error("the best schedule cannot be modelled: {0}")]
    Limit(#[from] foreseek_simulate::limit::LimitError),
    /// The database cannot be understood. It is ours, so this is a bug.
    #[error("the scan of the database cannot be followed: {0}")]
    Scan(#[from] foreseek_sqlite::Error),
    /// The modelled machine cannot go on.
    #[error(transparent)]
    Modelled(#[from] foreseek_simulate::machine::MachineError),
}

/// A result of the demo.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The signal by which the user ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Rig(error) => error.signal(),
            _ => None,
        }
    }

    /// A system call that failed.
    pub(crate) fn io(operation: &'static str, object: impl Display, source: impl Into<io::Error>) -> Self {
        Self::Rig(foreseek_rig::Error::io(operation, object, source))
    }
}
