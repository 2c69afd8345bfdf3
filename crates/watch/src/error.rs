//! What can go wrong with a watcher as a whole. What goes wrong with one file is counted.

use rustix::io::Errno;
use std::path::PathBuf;

/// Why nothing can be watched, or a watcher cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed that nothing can be done without.
    #[error("{operation}: {cause}{}", remedy(.cause))]
    System {
        /// What was tried.
        operation: &'static str,
        /// The kernel's reason.
        cause: Errno,
    },
    /// A path that was named cannot be looked at.
    #[error("cannot watch {}: {cause}", .path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// The kernel's reason.
        cause: Errno,
    },
    /// No file system is worth watching.
    #[error("nothing to watch: {0}")]
    Nothing(String),
    /// The profile cannot be had.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// There is one already.
    #[error(
        "a watcher runs already (process {0}): 'foreseek watch --status' shows it, 'foreseek watch --stop' ends it"
    )]
    Running(u32),
    /// There is none.
    #[error("no watcher runs: 'foreseek watch PATH' starts one")]
    NotRunning,
    /// It was killed.
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
    /// Only root may do that.
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
