//! Starts, queries and stops the watcher. Every call is bounded in time.

use super::place::{Ready, Record, ServerRequest, clean, folder};
use crate::error::{Error, Result};
use crate::{Options, WatchStatus};
use foreseek_server::{Client, Kind, Launch, ServerFolder, absolute_path};
use std::time::Duration;

/// Longest wait for its end: each of its threads may have one request in progress.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Starts the watcher, which outlives the caller, and returns its first status. Its server is this program, which
/// calls [`serve::run_detached`](super::serve::run_detached) when it gets these arguments.
///
/// # Errors
/// The reason why it did not start; nothing is left behind then.
pub fn start(options: &Options, arguments: &[&str]) -> Result<WatchStatus> {
    let mut options = options.clone();
    for path in &mut options.paths {
        *path = absolute_path(path)?;
    }
    let launch = Launch { kind: Kind::Watch, program: None, arguments, free };
    let ready: Ready = launch.start(&options)?;
    Ok(ready.status)
}

/// Frees what a server left that ended before it was ready.
fn free(folder: &ServerFolder) -> Result<(), String> {
    let freed = || folder.record::<Record>()?.as_ref().map_or(Ok(()), clean);
    freed().map_err(|error| error.to_string())
}

/// The status of the watcher.
///
/// # Errors
/// [`Error::NotRunning`], [`Error::Dead`], [`Error::Silent`].
pub fn status() -> Result<WatchStatus> {
    let (folder, record) = (folder(), record("ask the watcher")?);
    let answer = Client::of(&folder).ask(&ServerRequest::Status);
    Ok(*answer.map_err(|error| Error::of(&folder, record.server, error))?)
}

/// Stops the watcher and removes all that it has made, even if it is dead or does not answer.
///
/// # Errors
/// [`Error::NotRunning`], or the reason why something cannot be removed.
pub fn stop() -> Result<()> {
    let record = record("stop the watcher")?;
    if Client::of(&folder()).end().is_ok() && record.server.wait_for_end(END_LIMIT) {
        return clean(&record);
    }
    record.server.kill()?;
    clean(&record)
}

/// Its record. `what` is to be done with it, for the error.
fn record(what: &'static str) -> Result<Record> {
    let record = folder().record::<Record>().map_err(|error| error.or_not_root::<Error>(what))?;
    record.ok_or(Error::NotRunning)
}
