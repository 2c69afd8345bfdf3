//! Errors of arrays.

use foreseek_server::{Error as Failed, ServerFolder};
use std::io;
use std::path::PathBuf;

/// Why an operation on an array failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option's value is invalid, or not supported.
    #[error("{option} {value}: {reason}")]
    Invalid {
        /// The option, as on the command line.
        option: &'static str,
        /// The value that was given.
        value: String,
        /// What is wrong with it and what to give instead.
        reason: String,
    },
    /// No array has this name or device.
    #[error("no array is named or attached as '{0}': see 'foreseek array list'")]
    Unknown(String),
    /// The device is in use.
    #[error("{device} is busy: {users}; {remedy}")]
    Busy {
        /// The device.
        device: PathBuf,
        /// Its users.
        users: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A refusal, with its reason.
    #[error("{0}")]
    Refused(String),
    /// The server is dead.
    #[error(
        "the server of {0} is dead, and what is mounted on it gets errors: 'foreseek array detach {0}' unmounts that and frees \
         what it left; then attach the array anew and mount it again"
    )]
    Dead(String),
    /// The server does not answer.
    #[error(
        "the server of {name} does not answer ({cause}): see {log}; 'foreseek array detach --force {name}' ends it"
    )]
    Silent {
        /// The array.
        name: String,
        /// The server's log.
        log: PathBuf,
        /// The error of the exchange with it.
        cause: io::Error,
    },
    /// An operating-system call failed.
    #[error(transparent)]
    Call(#[from] foreseek_server::CallError),
    /// Only root may do this.
    #[error(transparent)]
    NotRoot(#[from] foreseek_server::NotRoot),
}

impl Error {
    /// The error of a request to an array's server.
    pub(crate) fn of(folder: &ServerFolder, error: Failed) -> Self {
        match error {
            Failed::Dead => Self::Dead(folder.name()),
            Failed::Silent(cause) => Self::Silent { name: folder.name(), log: folder.log(), cause },
            error => error.into(),
        }
    }
}

impl From<Failed> for Error {
    fn from(error: Failed) -> Self {
        match error {
            Failed::Call(error) => Self::Call(error),
            error => Self::Refused(error.to_string()),
        }
    }
}
