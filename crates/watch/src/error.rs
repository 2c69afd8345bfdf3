//! Errors of a watcher as a whole. Failures with a single file are counted.

use foreseek_server::{Error as Failed, ServerFolder, ServerProcess};
use rustix::io::Errno;
use std::io;
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
    /// The kernel does not show the programs of other users.
    #[error(
        "cannot see which programs open files: this needs CAP_SYS_PTRACE, which root has outside of containers"
    )]
    Blind,
    /// A given path cannot be examined.
    #[error("cannot watch {}: {cause}", .path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The kernel's reason.
        cause: Errno,
    },
    /// Events and commands cannot be recorded.
    #[error("cannot record to {}: {cause}; give FORESEEK_RECORD a file in a directory that exists", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
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
    /// It runs but does not answer.
    #[error(
        "the watcher (process {pid}) does not answer ({cause}): see {}; 'foreseek watch --stop' ends it", .log.display()
    )]
    Silent {
        /// Its process.
        pid: u32,
        /// Its log.
        log: PathBuf,
        /// The error of the exchange with it.
        cause: io::Error,
    },
    /// It could not start, or refused.
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

impl Error {
    /// The error of a request to the watcher.
    pub(crate) fn of(folder: &ServerFolder, server: ServerProcess, error: Failed) -> Self {
        match error {
            Failed::Silent(cause) => Self::Silent { pid: server.pid, log: folder.log(), cause },
            error => error.into(),
        }
    }
}

impl From<Failed> for Error {
    fn from(error: Failed) -> Self {
        match error {
            Failed::Dead => Self::Dead,
            Failed::Call(error) => Self::Call(error),
            error => Self::Server(error.to_string()),
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_server::Kind;

    #[test]
    fn a_silent_watcher_is_named_with_its_log_and_the_command_that_ends_it() {
        let (folder, server) = (ServerFolder::of(Kind::Watch, "watch"), ServerProcess::own());
        let silent = Failed::Silent(io::Error::new(io::ErrorKind::TimedOut, "nothing came"));
        let said = Error::of(&folder, server, silent).to_string();
        let parts = [format!("process {}", server.pid), folder.log().display().to_string()];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(
            said.contains("(nothing came)") && said.contains("'foreseek watch --stop' ends it"),
            "{said}"
        );
    }
}
