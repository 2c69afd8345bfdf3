//! Errors of emulated disks.

use foreseek_server::{Error as Failed, ServerFolder};
use std::io;
use std::path::PathBuf;

/// Why an operation on an emulated disk failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option's value is invalid.
    #[error("{option} {value}: {reason}")]
    Invalid {
        /// The option, as on the command line.
        option: &'static str,
        /// The given value.
        value: String,
        /// What is wrong with it and what to give instead.
        reason: String,
    },
    /// No disk has this name or device.
    #[error("no emulated disk is named or attached as '{0}': see 'foreseek disk list'")]
    Unknown(String),
    /// A disk of this name exists.
    #[error("a disk named '{0}' exists: choose another --name, or detach it first")]
    Exists(String),
    /// The device is in use.
    #[error(
        "{device} is busy: {users}; end that first, or give --force (what cannot be written back is lost)"
    )]
    Busy {
        /// The device.
        device: PathBuf,
        /// Mount points, processes, swap areas or devices that use it.
        users: String,
    },
    /// Something that the emulator needs is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is needed.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// The file system of the backing file is too full.
    #[error(
        "no space: {path} needs {needed}, but its file system has {free} free; choose another file system, or give --thin to let writes fail when it is full"
    )]
    NoSpace {
        /// The backing file.
        path: PathBuf,
        /// The space that the disk needs beyond what it has.
        needed: foreseek_units::Bytes,
        /// The free space.
        free: foreseek_units::Bytes,
    },
    /// The server refused, with its reason.
    #[error("{0}")]
    Refused(String),
    /// The server is dead.
    #[error("the server of {0} is dead: 'foreseek disk detach {0}' frees what it left behind")]
    Dead(String),
    /// The server does not answer.
    #[error(
        "the server of {name} does not answer ({cause}): see {log}; 'foreseek disk detach --force {name}' ends it"
    )]
    Silent {
        /// The disk.
        name: String,
        /// The server's log.
        log: PathBuf,
        /// The error of the exchange with it.
        cause: io::Error,
    },
    /// An operating-system call failed.
    #[error(transparent)]
    Call(#[from] foreseek_server::CallError),
    /// Only root may do that.
    #[error(transparent)]
    NotRoot(#[from] foreseek_server::NotRoot),
}

impl Error {
    /// The error of a request to a disk's server.
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
