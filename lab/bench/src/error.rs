//! What can go wrong, each with the object concerned and what to do about it.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// Why the benchmark cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its set-up failed.
    #[error(transparent)]
    Rig(#[from] foreseek_rig::Error),
    /// An array cannot be served.
    #[error(transparent)]
    Array(#[from] foreseek_array::Error),
    /// This machine lacks what is needed.
    #[error("this cannot be measured here; missing: {}", what.join(", "))]
    Missing {
        /// What is missing, each with its remedy.
        what: Vec<String>,
    },
    /// An option, or a combination of options, that is not valid.
    #[error("{what}")]
    Option {
        /// What is wrong and what is accepted.
        what: String,
    },
    /// The results cannot be written down.
    #[error("cannot write {}: {error}; give --output another folder, or make this one writable and give the same command to go on", path.display())]
    Out {
        /// The file.
        path: PathBuf,
        /// The system's error; part of the message, and so no `source`.
        error: io::Error,
    },
    /// The existing results come from other settings.
    #[error("{} holds runs of other settings ({what}): name another folder, or give the same settings to go on", path.display())]
    OtherPlan {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// A line of the raw results that is not valid.
    #[error("{}, line {line}: {why}: correct or remove the line, or name another folder", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// The parser's message.
        why: String,
    },
    /// The readers failed.
    #[error("the readers of {cell} over {policy}: {what}")]
    Readers {
        /// The cell.
        cell: String,
        /// The policy.
        policy: String,
        /// What happened.
        what: String,
    },
    /// A server did not start.
    #[error("the server of {policy} {what}")]
    Server {
        /// The policy.
        policy: String,
        /// What happened.
        what: String,
    },
    /// A workload that is not valid.
    #[error(transparent)]
    Workload(#[from] foreseek_simulate::workload::WorkloadError),
    /// A device profile that does not exist or is not valid.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// A device that cannot be built from the profile.
    #[error(transparent)]
    Device(#[from] foreseek_device::BuildError),
    /// Something could not be modelled.
    #[error("it cannot be modelled: {0}")]
    Modelled(String),
}

/// A result of the benchmark.
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

    /// Whether it is an interrupt by the user.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.signal().is_some()
    }
}
