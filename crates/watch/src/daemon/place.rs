//! The watcher outside its process: its folder below `/run/foreseek/watch`, and its requests. There is at most
//! one watcher at a time.

use crate::WatchStatus;
use crate::error::Result;
use foreseek_server::{Kind, MemoryGroup, ServerFolder, ServerProcess};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The kind of server.
const KIND: Kind = Kind::Watch;
/// The name of the one watcher.
const NAME: &str = "watch";
/// The name of its control group.
pub(super) const GROUP: &str = "foreseek-watch";

/// What the watcher has made so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) server: ServerProcess,
    /// The control group that it makes.
    pub(super) group: Option<PathBuf>,
}

/// The requests of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerRequest {
    /// Send the status.
    Status,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = Box<WatchStatus>;
    type Line = ();
}

/// The watcher has started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ready {
    /// Its first status.
    pub(super) status: WatchStatus,
}

pub(super) fn folder() -> ServerFolder {
    ServerFolder::of(KIND, NAME)
}

/// Removes what an ended watcher has left behind.
pub(super) fn clean(record: &Record) -> Result<()> {
    if let Some(group) = &record.group {
        MemoryGroup::remove(group)?;
    }
    Ok(folder().remove()?)
}
