//! Frees what a dead or hung server left behind: everything of the export, the temporary backing file and the
//! disk's folder.

use crate::Error;
use crate::state::{self, Record};
use foreseek_export::Leftovers;
use foreseek_server::{Context, ServerFolder, Users, ignore_missing};
use std::fs;
use std::time::Duration;

/// Frees everything of the disk, whatever the state of its server; `users` are unmounted lazily.
pub(crate) fn free_leftovers(folder: &ServerFolder, users: &Users) -> Result<(), Error> {
    let record = state::record(folder);
    leftovers_of(folder, record.as_ref()).free(users)?;
    remove_files(folder, record.as_ref())
}

fn leftovers_of(folder: &ServerFolder, record: Option<&Record>) -> Leftovers {
    Leftovers {
        mount_point: folder.mount_point(),
        connection: record.and_then(|record| record.connection),
        server: record.map(|record| record.server),
        cgroup: record.and_then(|record| record.cgroup.clone()),
        nbd: record.and_then(|record| record.nbd.clone()),
    }
}

/// Removes a temporary backing file and the disk's folder.
pub(crate) fn remove_files(folder: &ServerFolder, record: Option<&Record>) -> Result<(), Error> {
    if let Some(record) = record.filter(|record| record.remove_backing) {
        ignore_missing(fs::remove_file(&record.backing)).context("remove", &record.backing)?;
    }
    Ok(folder.remove()?)
}

/// Waits until the server's process has ended, and removes the cgroup created for it.
pub(crate) fn wait_for_end(folder: &ServerFolder, record: &Record, limit: Duration) -> bool {
    let ended = record.server.wait_for_end(limit);
    if ended {
        leftovers_of(folder, Some(record)).remove_cgroup();
    }
    ended
}
