//! Errors of servers, whatever their kind.

use crate::CallError;
use std::io;
use std::time::Duration;

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
    /// It sent nothing while it was started.
    #[error("the server reported nothing within {} s", .0.as_secs())]
    NoReport(Duration),
    /// It ended before it was ready.
    #[error("the server ended before it was ready ({0})")]
    Died(io::Error),
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
