//! The state of a mount outside its server: its folder below `/run/foreseek/mounts` ([`ServerFolder`]), named
//! by the digest of the mount point's path.

use crate::Error;
use crate::daemon::names;
use foreseek_server::{Kind, ServerFolder, ServerProcess};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The kind of server.
const KIND: Kind = Kind::Mount;
/// What all mounts are found for.
pub(crate) const LIST: &str = "list mounts";

/// A server's record of itself and its mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) server: ServerProcess,
    pub(crate) source: PathBuf,
    pub(crate) mount_point: PathBuf,
}

/// The folder of the mount on this point, whether it exists or not.
pub(crate) fn folder_of(mount_point: &Path) -> ServerFolder {
    // A name as long as the path would not fit into the path of the socket.
    ServerFolder::of(KIND, &names::digest(mount_point))
}

/// The folder of the mount on this point and its record, if it exists. It also finds the folder of a server
/// of an earlier version, which named folders differently. `what` is to be done with it, for the error.
pub(crate) fn find(mount_point: &Path, what: &'static str) -> Result<Option<(ServerFolder, Record)>, Error> {
    let folder = folder_of(mount_point);
    if let Some(record) = folder.record().map_err(|error| error.or_not_root::<Error>(what))? {
        return Ok(Some((folder, record)));
    }
    Ok(all(what)?.into_iter().find(|(_, record)| record.mount_point == mount_point))
}

/// The folders of all mounts, in order of mount point. `what` is to be done with them, for the error.
pub(crate) fn all(what: &'static str) -> Result<Vec<(ServerFolder, Record)>, Error> {
    let folders = ServerFolder::all(KIND).map_err(|error| error.or_not_root::<Error>(what))?;
    let mut found = Vec::new();
    for folder in folders {
        if let Some(record) = folder.record::<Record>()? {
            found.push((folder, record));
        }
    }
    found.sort_by(|a, b| a.1.mount_point.cmp(&b.1.mount_point));
    Ok(found)
}
