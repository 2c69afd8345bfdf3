//! The state of an array outside its server, and the requests to it.

use crate::{Error, Status};
use foreseek_export::{Leftovers, NbdAddress};
use foreseek_server::{Kind, ServerFolder, ServerProcess};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KIND: Kind = Kind::Array;
/// What all arrays are found for.
pub(crate) const LIST: &str = "list arrays";
/// The most arrays; a free name is searched among as many.
const ARRAYS: usize = 64;
const NAME_LIMIT: usize = 32;

/// A server's record of itself and its array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) server: ServerProcess,
    pub(crate) ready: bool,
    pub(crate) below: PathBuf,
    /// The path by which it was attached, which may be a link to the device.
    #[serde(default)]
    pub(crate) asked: PathBuf,
    pub(crate) size_bytes: u64,
    pub(crate) connection: Option<u32>,
    pub(crate) device: Option<PathBuf>,
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) nbd: Option<NbdAddress>,
}

/// An attached array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Its name.
    pub name: String,
    /// The block device, `/dev/loopN`, if one was requested.
    pub device: Option<PathBuf>,
    /// The URI of the NBD export, if one was requested.
    pub nbd: Option<String>,
    /// Warnings, one line each.
    #[serde(alias = "remarks")]
    pub warnings: Vec<String>,
}

/// The requests to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerRequest {
    Status,
    /// Accept no more clients over NBD, and close all connections.
    Dismiss,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = Status;
    type Line = ();
}

/// Attach a loop device to this file: a server that did so itself would wait for its own answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lay {
    pub(crate) file: PathBuf,
    /// The device's logical block.
    pub(crate) block_bytes: u64,
    /// Its read-ahead.
    pub(crate) read_ahead_bytes: u64,
}

/// A folder that is removed when dropped.
pub(crate) struct GuardedFolder(pub(crate) ServerFolder);

impl Drop for GuardedFolder {
    fn drop(&mut self) {
        if let Err(error) = self.0.remove() {
            tracing::warn!("{error}");
        }
    }
}

/// Makes the folder of an array of this name, or of the first free `arrayN`.
pub(crate) fn make(name: Option<&str>) -> Result<ServerFolder, Error> {
    let names: Vec<String> = match name {
        Some(name) => {
            check_name(name)?;
            vec![name.to_owned()]
        }
        None => (0..ARRAYS).map(|number| format!("array{number}")).collect(),
    };
    for asked in &names {
        let folder = ServerFolder::of(KIND, asked);
        match folder.make() {
            Err(_) if name.is_some() && is_dead(&folder) => return Err(Error::Dead(asked.clone())),
            Ok(()) => return Ok(folder),
            Err(error) if error.cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Refused(format!(
        "an array named '{}' exists: choose another --name, or detach it first",
        names[0]
    )))
}

/// The folders of all arrays, in order of name. `what` is to be done with them, for the error.
pub(crate) fn all(what: &'static str) -> Result<Vec<ServerFolder>, Error> {
    ServerFolder::all(KIND).map_err(|error| error.or_not_root(what))
}

/// The folder of the array with this name, block device, or device below. `what` is to be done with it.
pub(crate) fn find(target: &str, what: &'static str) -> Result<ServerFolder, Error> {
    let folders = all(what)?;
    let device = |folder: &ServerFolder| record(folder).and_then(|record| record.device);
    let is_it = |folder: &&ServerFolder| {
        folder.name() == target || device(folder).is_some_and(|device| device == Path::new(target))
    };
    // The link by which it was attached may be gone or replaced.
    let found = fs::canonicalize(target).ok();
    let serves = |folder: &&ServerFolder| {
        let is_below = |record: Record| {
            record.asked == Path::new(target) || found.as_ref().is_some_and(|found| record.below == *found)
        };
        record(folder).is_some_and(is_below)
    };
    let found = folders.iter().find(is_it).or_else(|| folders.iter().find(serves));
    found
        .map(|folder| ServerFolder::of(KIND, &folder.name()))
        .ok_or_else(|| Error::Unknown(target.to_owned()))
}

/// The name of the array that serves this device, and whether its server is dead.
pub(crate) fn over(below: &Path) -> Option<(String, bool)> {
    let serves = |folder: &&ServerFolder| record(folder).is_some_and(|record| record.below == below);
    all(LIST).ok()?.iter().find(serves).map(|folder| (folder.name(), is_dead(folder)))
}

fn is_dead(folder: &ServerFolder) -> bool {
    record(folder).is_some_and(|record| !record.server.is_alive())
}

pub(crate) fn record(folder: &ServerFolder) -> Option<Record> {
    folder.record().ok().flatten()
}

/// What is to be freed for it.
pub(crate) fn leftovers(folder: &ServerFolder, record: Option<&Record>) -> Leftovers {
    Leftovers {
        mount_point: folder.mount_point(),
        connection: record.and_then(|record| record.connection),
        server: record.map(|record| record.server),
        cgroup: record.and_then(|record| record.cgroup.clone()),
        nbd: record.and_then(|record| record.nbd.clone()),
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let fits = (1..=NAME_LIMIT).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if fits {
        return Ok(());
    }
    let reason = format!("give 1 to {NAME_LIMIT} letters, digits, '-' and '_', a letter or digit first");
    Err(Error::Invalid { option: "--name", value: format!("'{name}'"), reason })
}
