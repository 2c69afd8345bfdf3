//! What can go wrong with a server, before its kind is known.

use crate::CallError;
use std::io;
use std::time::Duration;

/// Why something could not be done to or by a server. Each kind of server has messages of its own for
/// [`Dead`](Self::Dead) and [`Silent`](Self::Silent), which name the server and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operating-system call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server said why it could not.
    #[error("{0}")]
    Refused(String),
    /// It said nothing while it was started.
    #[error("no word from the server within {} s", .0.as_secs())]
    NoWord(Duration),
    /// It ended before it was ready.
    #[error("the server ended before it was ready ({0})")]
    Died(io::Error),
    /// Its process has ended without cleaning up.
    #[error("the server is dead")]
    Dead,
    /// It runs and does not answer, or answers something else.
    #[error("the server does not answer ({0})")]
    Silent(io::Error),
    /// It was killed and is still there.
    #[error("process {0} does not end though it was killed")]
    Unkillable(u32),
}
