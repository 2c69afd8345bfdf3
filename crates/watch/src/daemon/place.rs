//! What is known of the watcher outside its process: its folder below `/run/foreseek/watch`, and the requests
//! that it understands. There is one watcher at a time.

use crate::WatchStatus;
use crate::error::Result;
use foreseek_server::{MemoryGroup, ServerFolder, ServerProcess};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The kind of server.
const KIND: &str = "watch";
/// The name of the one that there is.
const NAME: &str = "watch";
/// Its control group's.
pub(super) const GROUP: &str = "foreseek-watch";

/// What the watcher has made so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) server: ServerProcess,
    /// The control group that it makes.
    pub(super) group: Option<PathBuf>,
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerRequest {
    /// How are you?
    Status,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = Box<WatchStatus>;
    type Line = ();
}

/// It watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ready {
    /// How it began.
    pub(super) status: WatchStatus,
}

pub(super) fn folder() -> ServerFolder {
    ServerFolder::of(KIND, NAME)
}

/// Removes what a watcher that has ended left behind.
pub(super) fn clean(record: &Record) -> Result<()> {
    if let Some(group) = &record.group {
        MemoryGroup::remove(group)?;
    }
    Ok(folder().remove()?)
}
