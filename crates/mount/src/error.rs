//! What can go wrong with a mount.

use foreseek_server::{Error as Failed, ServerFolder};
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done to a mount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source is not there, or no directory.
    #[error("source {path}: {reason}; give a directory that exists")]
    Source {
        /// What was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The mount point cannot be one.
    #[error("mount point {path}: {reason}")]
    MountPoint {
        /// What was given.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Something is mounted there by us, and served.
    #[error(
        "{path} is a Foreseek mount already (process {pid}): 'foreseek mount --status {path}' shows it, \
         'foreseek mount --unmount {path}' takes it away"
    )]
    AlreadyMounted {
        /// Where.
        path: PathBuf,
        /// The server.
        pid: u32,
    },
    /// Something that mounting needs is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is needed.
        what: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// The profile of the device below cannot be had.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// Nothing of ours is mounted there.
    #[error("{0} is not a Foreseek mount: 'foreseek mount --list' shows those that are")]
    NotMounted(PathBuf),
    /// The server is dead.
    #[error(
        "the server of {0} is dead: 'foreseek mount --unmount {0}' frees what it left behind, and so does \
         mounting there again"
    )]
    Dead(PathBuf),
    /// The server does not answer.
    #[error(
        "the server of {path} does not answer ({cause}): see {log}; 'foreseek mount --unmount {path}' ends it"
    )]
    Silent {
        /// The mount point.
        path: PathBuf,
        /// The server's log.
        log: PathBuf,
        /// How the exchange with it failed.
        cause: io::Error,
    },
    /// The server said why it could not, or ended.
    #[error("{0}")]
    Refused(String),
    /// An operating-system call failed.
    #[error(transparent)]
    Call(#[from] foreseek_server::CallError),
    /// Only root may do that.
    #[error(transparent)]
    NotRoot(#[from] foreseek_server::NotRoot),
}

impl Error {
    /// What went wrong with a request to a mount's server.
    pub(crate) fn of(folder: &ServerFolder, mount_point: &Path, error: Failed) -> Self {
        let path = mount_point.to_owned();
        match error {
            Failed::Dead => Self::Dead(path),
            Failed::Silent(cause) => Self::Silent { path, log: folder.log(), cause },
            error => error.into(),
        }
    }
}

impl From<Failed> for Error {
    fn from(error: Failed) -> Self {
        match error {
            Failed::Call(error) => Self::Call(error),
            Failed::Died(cause) => Self::Refused(format!("the server ended before it had mounted ({cause})")),
            error => Self::Refused(error.to_string()),
        }
    }
}
