//! Errors of a watcher as a whole. Failures with a single file are counted.

use rustix::io::Errno;
use std::path::PathBuf;

/// Why nothing can be watched, or a watcher does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An indispensable system call failed.
    #[error("{operation}: {cause}{}", remedy(.cause))]
    System {
        /// What failed.
        operation: &'static str,
        /// The kernel's reason.
        cause: Errno,
    },
    /// A given path cannot be examined.
    #[error("cannot watch {}: {cause}", .path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The kernel's reason.
        cause: Errno,
    },
    /// No file system is worth watching.
    #[error("nothing to watch: {0}")]
    Nothing(String),
    /// The profile cannot be loaded.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// A watcher runs already.
    #[error(
        "a watcher runs already (process {0}): 'foreseek watch --status' shows it, 'foreseek watch --stop' ends it"
    )]
    Running(u32),
    /// No watcher runs.
    #[error("no watcher runs: 'foreseek watch PATH' starts one")]
    NotRunning,
    /// The watcher was killed.
    #[error(
        "the watcher is dead: 'foreseek watch --stop' removes what it left behind, and so does starting one"
    )]
    Dead,
    /// It does not answer, could not start, or refused.
    #[error("{0}")]
    Server(String),
    /// A call on behalf of the server failed.
    #[error(transparent)]
    Call(#[from] foreseek_server::CallError),
    /// The caller must be root.
    #[error(transparent)]
    NotRoot(#[from] foreseek_server::NotRoot),
}

fn remedy(cause: &Errno) -> &'static str {
    match *cause {
        Errno::PERM => "; root privileges required (run as root or with sudo)",
        Errno::NOSYS | Errno::INVAL => "; it needs Linux 6.5 or later with fanotify",
        _ => "",
    }
}

impl From<foreseek_server::Error> for Error {
    fn from(error: foreseek_server::Error) -> Self {
        match error {
            foreseek_server::Error::Dead => Self::Dead,
            foreseek_server::Error::Call(error) => Self::Call(error),
            error => Self::Server(error.to_string()),
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
