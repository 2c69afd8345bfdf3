//! Freeing what a dead or wedged server left behind.
//!
//! In this order, so that no step waits for an answer that cannot come: abort the FUSE connection
//! (every request that hangs fails now), end the server, unmount what is mounted on the device, free
//! the loop device, take the FUSE mount away, remove the temporary backing file and the disk's directory. Each step is fine with
//! finding its work done, so a teardown that was itself interrupted can be repeated.

use crate::Error;
use crate::state::{self, Record};
use foreseek_export::loop_device_over;
use foreseek_server::mount_table::{abort_connection, connection_of, take_away};
use foreseek_server::{Context, ServerFolder, Users, ignore_missing};
use foreseek_storage::loop_device::LoopError;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Longest wait for a device to be free.
const LIMIT: Duration = Duration::from_secs(10);

/// Frees everything of the disk, whatever state its server is in; `users` are unmounted lazily.
pub(crate) fn wreck(folder: &ServerFolder, users: &Users) -> Result<(), Error> {
    let record = state::record(folder);
    let connection = record.as_ref().and_then(|record| record.connection);
    let mount_point = folder.mount_point();
    if let Err(error) = abort(&mount_point, connection) {
        tracing::warn!("{error}");
    }
    if let Some(record) = &record {
        record.server.kill()?;
        remove_cgroup(record);
    }
    users.unmount_lazily()?;
    let refused = |error: LoopError| Error::Refused(error.to_string());
    let device = loop_device_over(&mount_point, connection);
    if let Some(device) = &device {
        device.begin_clear().map_err(refused)?;
    }
    take_away(&mount_point, |_| true)?;
    if let Some(device) = device {
        device.clear(LIMIT).map_err(refused)?;
    }
    remove_files(folder, record.as_ref())
}

/// Removes a temporary backing file and the disk's folder.
pub(crate) fn remove_files(folder: &ServerFolder, record: Option<&Record>) -> Result<(), Error> {
    if let Some(record) = record.filter(|record| record.remove_backing) {
        ignore_missing(fs::remove_file(&record.backing)).context("remove", &record.backing)?;
    }
    Ok(folder.remove()?)
}

/// Waits until the server's process has ended, and removes the cgroup that was made for it.
pub(crate) fn wait_for_end(record: &Record, limit: Duration) -> bool {
    let ended = record.server.wait_for_end(limit);
    if ended {
        remove_cgroup(record);
    }
    ended
}

fn remove_cgroup(record: &Record) {
    if let Some(group) = &record.cgroup {
        // Another disk's server may still be in it.
        let _ = fs::remove_dir(group);
    }
}

/// Makes every request of the FUSE file system mounted there fail, now and from now on; `recorded`
/// is its number, should it no longer be mounted.
fn abort(mount_point: &Path, recorded: Option<u32>) -> Result<(), Error> {
    // A number of the past may be another's by now: only one that a loop device of ours still
    // holds is still ours.
    let held = || recorded.filter(|_| loop_device_over(mount_point, recorded).is_some());
    let Some(connection) = connection_of(mount_point).or_else(held) else { return Ok(()) };
    Ok(abort_connection(connection).context("abort the FUSE connection of", mount_point)?)
}
