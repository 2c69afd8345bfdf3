//! Errors of servers, whatever their kind.

use crate::CallError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why an operation on or by a server failed. Each kind of server has its own messages for
/// [`Dead`](Self::Dead) and [`Silent`](Self::Silent), which name the server and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operating-system call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server refused, with its reason.
    #[error("{0}")]
    Refused(String),
    /// It ended before it was ready, or had to be killed.
    #[error("the server ended before it was ready {0}")]
    Died(Death),
    /// Its process has ended without cleaning up.
    #[error("the server is dead")]
    Dead,
    /// It runs but does not answer, or its answer is not understood.
    #[error("the server does not answer ({0})")]
    Silent(io::Error),
    /// It was killed, and threads of it still run.
    #[error(
        "process {0} was killed but does not end: it waits for storage that does not answer; try again when that answers or is gone"
    )]
    Unkillable(u32),
}

/// How a server ended before it was ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Death {
    /// Its exit status, or why it was killed.
    pub how: String,
    /// The last line of its log.
    pub last_line: Option<String>,
    /// The log, where it is kept.
    pub log: Option<PathBuf>,
    /// Why what it left behind could not be freed.
    pub left: Option<String>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({})", self.how)?;
        self.last_line.iter().try_for_each(|line| write!(f, ": {line}"))?;
        self.log.iter().try_for_each(|log| write!(f, "; its log is {}", log.display()))?;
        self.left.iter().try_for_each(|why| write!(f, "; what it left behind is not freed: {why}"))
    }
}
