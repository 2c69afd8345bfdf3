//! Starts, queries and stops the watcher. Every call is bounded in time.

use super::place::{Ready, Record, ServerRequest, clean, folder};
use crate::error::{Error, Result};
use crate::{Options, WatchStatus};
use foreseek_server::{CallError, Client, Launch};
use std::path::Path;
use std::time::Duration;

/// Longest wait for its end: each of its threads may have one request in progress.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Starts the watcher, which outlives the caller, and returns its first status. `server` is the program with
/// the arguments for which it calls [`serve::run_detached`](super::serve::run_detached).
///
/// # Errors
/// The reason why it did not start; nothing is left behind then.
pub fn start(options: &Options, server: (&Path, &[&str])) -> Result<WatchStatus> {
    let (program, arguments) = server;
    let mut options = options.clone();
    for path in &mut options.paths {
        *path = std::path::absolute(&*path).map_err(|error| Error::Server(error.to_string()))?;
    }
    let ready: Ready = Launch { program, arguments }.start(&options)?;
    Ok(ready.status)
}

/// The status of the watcher.
///
/// # Errors
/// [`Error::NotRunning`], [`Error::Dead`], [`Error::Server`].
pub fn status() -> Result<WatchStatus> {
    record()?;
    Ok(*Client::of(&folder()).ask(&ServerRequest::Status)?)
}

/// Stops the watcher and removes all that it has made, even if it is dead or does not answer.
///
/// # Errors
/// [`Error::NotRunning`], or the reason why something cannot be removed.
pub fn stop() -> Result<()> {
    let record = record()?;
    if Client::of(&folder()).end().is_ok() && record.server.wait_for_end(END_LIMIT) {
        return clean(&record);
    }
    record.server.kill()?;
    clean(&record)
}

fn denied(error: CallError) -> Error {
    error.or_not_root("ask the watcher")
}

fn record() -> Result<Record> {
    folder().record::<Record>().map_err(denied)?.ok_or(Error::NotRunning)
}
