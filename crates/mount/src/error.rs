//! Errors of mounts.

use foreseek_server::{Error as Failed, ServerFolder};
use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on a mount failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source is missing, or no directory.
    #[error("source {path}: {reason}; give a directory that exists")]
    Source {
        /// The path that was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The mount point is unsuitable.
    #[error("mount point {path}: {reason}")]
    MountPoint {
        /// The path that was given.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A mount of ours is served there.
    #[error(
        "{path} is a Foreseek mount already (process {pid}): 'foreseek mount --status {path}' shows it, \
         'foreseek mount --unmount {path}' takes it away"
    )]
    AlreadyMounted {
        /// The mount point.
        path: PathBuf,
        /// The server's process.
        pid: u32,
    },
    /// The server of a mount that was there has not ended.
    #[error(
        "{path}: the server of what was mounted there (process {pid}) still runs, since programs use files of it: end \
         them, or end it by 'foreseek mount --unmount {path}', then mount again"
    )]
    Ending {
        /// The mount point.
        path: PathBuf,
        /// The server's process.
        pid: u32,
    },
    /// A requirement of mounting is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The requirement.
        what: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// The profile of the device below cannot be read.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// No mount of ours is there.
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
    /// The server refused with this message, or ended.
    #[error("{0}")]
    Refused(String),
    /// An operating-system call failed.
    #[error(transparent)]
    Call(#[from] foreseek_server::CallError),
    /// Only root may do this.
    #[error(transparent)]
    NotRoot(#[from] foreseek_server::NotRoot),
}

impl Error {
    /// The error of a request to a mount's server.
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
            error => Self::Refused(error.to_string()),
        }
    }
}
