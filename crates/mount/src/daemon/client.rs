//! Mounting, and requests to the servers of mounts. Every call is bounded in time.

use crate::daemon::place::{self, LIST, Record};
use crate::daemon::protocol::{Ready, ServerRequest};
use crate::daemon::serve::LINGER;
use crate::fs::mount_point;
use crate::{Error, MountStatus, Settings};
use foreseek_server::mount_table::mounted_on;
use foreseek_server::{Client, Kind, Launch, ServerFolder, absolute_path, users_inside};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use foreseek_server::Health;

/// Longest wait for a server to end after the request: the time that it gives open files, and half as long.
const END_LIMIT: Duration = Duration::from_secs(LINGER.as_secs() * 3 / 2);
/// A server whose mount is not in use has ended by then.
const SOON: Duration = Duration::from_millis(500);

/// A mount in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The mount point.
    pub mount_point: PathBuf,
    /// The directory that it shows.
    pub source: PathBuf,
    /// Its server's process.
    pub pid: u32,
    /// The state of its server.
    pub health: Health,
}

/// Mounts: starts a server, which outlives the caller. Returns the server's warnings. The server is this program,
/// which calls [`serve::run_detached`] when it gets these arguments.
///
/// [`serve::run_detached`]: crate::daemon::serve::run_detached
///
/// # Errors
/// The reason why it cannot be mounted; nothing is left behind then.
pub fn mount(settings: &Settings, arguments: &[&str]) -> Result<Vec<String>, Error> {
    let mut settings = settings.clone();
    let others = settings.state.iter_mut().chain(settings.record.as_mut());
    for path in [&mut settings.mount.source, &mut settings.mount.mount_point].into_iter().chain(others) {
        *path = absolute_path(path)?;
    }
    let launch = Launch { kind: Kind::Mount, program: None, arguments, free };
    let ready: Ready = launch.start(&settings)?;
    Ok(ready.warnings)
}

/// Frees what a server left that ended before it was ready.
fn free(folder: &ServerFolder) -> Result<(), String> {
    let freed = || -> Result<(), Error> {
        folder.record::<Record>()?.map_or(Ok(()), |record| mount_point::free(&record.mount_point))?;
        Ok(folder.remove()?)
    };
    freed().map_err(|error| error.to_string())
}

/// All mounts, dead ones included.
///
/// # Errors
/// They cannot be listed.
pub fn list() -> Result<Vec<Listed>, Error> {
    Ok(place::all(LIST)?.into_iter().filter_map(|(folder, record)| listed(&folder, record)).collect())
}

/// `None` for a mount whose server has ended in order meanwhile.
fn listed(folder: &ServerFolder, record: Record) -> Option<Listed> {
    let health = match Client::of(folder).health() {
        Health::Ready if !mount_point::is_ours(&record.mount_point) => Health::Ending,
        Health::Dead if !folder.path().exists() => return None,
        health => health,
    };
    let Record { server, source, mount_point } = record;
    Some(Listed { mount_point, source, pid: server.pid, health })
}

/// The status of a mount.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::Dead`], [`Error::Silent`].
pub fn status(point: &Path) -> Result<MountStatus, Error> {
    let (folder, record) = find(point, "show a mount's status")?;
    let status = Client::of(&folder).ask(&ServerRequest::Status);
    status.map_err(|error| Error::of(&folder, &record.mount_point, error))
}

/// A mount that is unmounted, and whose server continues for the programs that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyUnmount {
    /// The former mount point.
    pub mount_point: PathBuf,
    /// Descriptions of its users.
    pub users: Vec<String>,
    /// How long they can continue to use it.
    pub limit: Duration,
    /// The server's process: a signal ends it at once.
    pub pid: u32,
}

/// Unmounts and removes every trace of the mount. If its server is dead or silent, the leftovers are freed.
///
/// # Errors
/// [`Error::NotMounted`], or the reason why it cannot be freed.
pub fn unmount(point: &Path) -> Result<(), Error> {
    unmount_with(point, |_| {})
}

/// The same; `notify` is called if it takes a while, since the mount is in use.
///
/// # Errors
/// As [`unmount`].
pub fn unmount_with(point: &Path, notify: impl FnOnce(&BusyUnmount)) -> Result<(), Error> {
    let (folder, record) = match find(point, "unmount") {
        Ok(found) => found,
        // The record is gone, but its mount is not.
        Err(Error::NotMounted(_)) if mount_point::is_ours(&mount_point::name_of(point)) => {
            return mount_point::free(&mount_point::name_of(point));
        }
        Err(error) => return Err(error),
    };
    // Read before it is unmounted.
    let mounted = mounted_on(&record.mount_point);
    if Client::of(&folder).end().is_ok() {
        if !record.server.wait_for_end(SOON) {
            let pid = record.server.pid;
            let users =
                mounted.map_or_else(Vec::new, |mount| users_inside(&mount, &[pid, std::process::id()]));
            notify(&BusyUnmount { mount_point: record.mount_point.clone(), users, limit: LINGER, pid });
        }
        if record.server.wait_for_end(END_LIMIT) {
            return Ok(folder.remove()?);
        }
    }
    // Freed first, so that nothing waits for an answer that cannot arrive.
    mount_point::free(&record.mount_point)?;
    record.server.kill()?;
    Ok(folder.remove()?)
}

fn find(point: &Path, what: &'static str) -> Result<(ServerFolder, Record), Error> {
    let point = mount_point::name_of(point);
    place::find(&point, what)?.ok_or(Error::NotMounted(point))
}
