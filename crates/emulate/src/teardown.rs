//! Freeing what a dead or wedged server left behind.
//!
//! In this order, so that no step waits for an answer that cannot come: abort the FUSE connection
//! (every request that hangs fails now), end the server, unmount what is mounted on the device, free
//! the loop device, take the FUSE mount away, remove the temporary backing file and the disk's directory. Each step is fine with
//! finding its work done, so a teardown that was itself interrupted can be repeated.

use crate::Error;
use crate::state::{Place, Record};
use crate::usage::Users;
use foreseek_export::Context;
use foreseek_export::loop_device_over;
use foreseek_export::mount_table::{abort_connection, connection_of, mounted_on};
use foreseek_export::run::ignore_missing;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for a killed process to be gone and for a device to be free.
const LIMIT: Duration = Duration::from_secs(10);
/// Between looks.
const POLL: Duration = Duration::from_millis(5);
/// Mounts one over the other on a mount point that are taken away; there is at most one.
const LAYERS: usize = 8;

/// Frees everything of the disk, whatever state its server is in; `users` are unmounted lazily.
pub(crate) fn wreck(place: &Place, users: &Users) -> Result<(), Error> {
    let record = place.record().unwrap_or_default();
    let connection = record.as_ref().and_then(|record| record.connection);
    if let Err(error) = abort(&place.mount_point(), connection) {
        tracing::warn!("{error}");
    }
    if let Some(record) = &record {
        kill(record)?;
    }
    for point in users.mount_points.iter().rev() {
        unmount(point, UnmountFlags::DETACH).context("unmount", point)?;
    }
    let mount_point = place.mount_point();
    let device = loop_device_over(&mount_point, connection);
    if let Some(device) = &device {
        device.begin_clear().map_err(|error| Error::Refused(error.to_string()))?;
    }
    detach_mount(&mount_point)?;
    if let Some(device) = device {
        device.clear(LIMIT).map_err(|error| Error::Refused(error.to_string()))?;
    }
    remove_files(place, record.as_ref())
}

/// Removes a temporary backing file and the disk's directory.
pub(crate) fn remove_files(place: &Place, record: Option<&Record>) -> Result<(), Error> {
    if let Some(record) = record.filter(|record| record.remove_backing) {
        ignore_missing(fs::remove_file(&record.backing)).context("remove", &record.backing)?;
    }
    place.remove()
}

/// Waits until the server's process has ended, and removes the cgroup that was made for it.
pub(crate) fn wait_for_end(record: &Record, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while record.alive() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
    if let Some(group) = &record.cgroup {
        // Another disk's server may still be in it.
        let _ = fs::remove_dir(group);
    }
    true
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

/// Ends the server, if it is still the process that wrote the record.
fn kill(record: &Record) -> Result<(), Error> {
    let Some(pid) = Pid::from_raw(record.pid.cast_signed()) else { return Ok(()) };
    // The descriptor names the process for good; only then is its start looked at.
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
        && record.alive()
    {
        pidfd_send_signal(&process, Signal::KILL).context("end", format!("process {}", record.pid))?;
    }
    if wait_for_end(record, LIMIT) {
        return Ok(());
    }
    Err(Error::Refused(format!("process {} does not end though it was killed", record.pid)))
}

/// Takes away what is mounted there, though it be in use.
fn detach_mount(mount_point: &Path) -> Result<(), Error> {
    for _ in 0..LAYERS {
        if mounted_on(mount_point).is_none() {
            break;
        }
        unmount(mount_point, UnmountFlags::DETACH).context("unmount", mount_point)?;
    }
    Ok(())
}
