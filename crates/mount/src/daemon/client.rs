//! Mounting, and talking to the servers of mounts. Every call is bounded in time.

use crate::daemon::place::{self, Record};
use crate::daemon::protocol::{Ready, ServerRequest};
use crate::daemon::serve::LINGER;
use crate::fs::mount_point;
use crate::{Error, MountStatus, Settings};
use foreseek_server::mount_table::mounted_on;
use foreseek_server::{Client, Context, Launch, ServerFolder, users_inside};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

pub use foreseek_server::Health;

/// Longest wait for a server to end once it was asked to: what it gives open files, and half as long.
const END_LIMIT: Duration = Duration::from_secs(LINGER.as_secs() * 3 / 2);
/// A server that nobody keeps from ending has ended by then.
const SOON: Duration = Duration::from_millis(500);

/// A mount in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Where it is.
    pub mount_point: PathBuf,
    /// What it shows.
    pub source: PathBuf,
    /// Its server's process.
    pub pid: u32,
    /// How its server is.
    pub health: Health,
}

/// Mounts: starts a server, which outlives the caller. Answers what works less well than it might.
/// `server` is the program and the arguments with which it calls [`serve::run_detached`].
///
/// [`serve::run_detached`]: crate::daemon::serve::run_detached
///
/// # Errors
/// Whatever kept it from being mounted; nothing is left behind then.
pub fn mount(settings: &Settings, server: (&Path, &[&str])) -> Result<Vec<String>, Error> {
    let (program, arguments) = server;
    let mut settings = settings.clone();
    for path in [&mut settings.mount.source, &mut settings.mount.mount_point] {
        *path = absolute(&path).context("find", &path)?;
    }
    let ready: Ready = Launch { program, arguments }.start(&settings)?;
    Ok(ready.warnings)
}

/// All mounts, dead ones included.
///
/// # Errors
/// When they cannot be listed.
pub fn list() -> Result<Vec<Listed>, Error> {
    let listed = |(folder, record): (ServerFolder, Record)| Listed {
        health: Client::of(&folder).health(),
        mount_point: record.mount_point,
        source: record.source,
        pid: record.server.pid,
    };
    Ok(place::all()?.into_iter().map(listed).collect())
}

/// How a mount is.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::Dead`], [`Error::Silent`].
pub fn status(point: &Path) -> Result<MountStatus, Error> {
    let (folder, record) = find(point)?;
    let status = Client::of(&folder).ask(&ServerRequest::Status);
    status.map_err(|error| Error::of(&folder, &record.mount_point, error))
}

/// A mount that was taken away, and whose server goes on for those who use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyUnmount {
    /// Where it was.
    pub mount_point: PathBuf,
    /// Who uses it, each in words.
    pub users: Vec<String>,
    /// For so long they can.
    pub limit: Duration,
    /// The server's process: a signal ends it at once.
    pub pid: u32,
}

/// Takes a mount away and removes every trace of it. A dead or silent server is cleaned up after.
///
/// # Errors
/// [`Error::NotMounted`], or what kept it from being freed.
pub fn unmount(point: &Path) -> Result<(), Error> {
    unmount_with(point, |_| {})
}

/// The same; `tell` is called where it takes a while, since the mount is in use.
///
/// # Errors
/// As [`unmount`].
pub fn unmount_with(point: &Path, tell: impl FnOnce(&BusyUnmount)) -> Result<(), Error> {
    let (folder, record) = match find(point) {
        Ok(found) => found,
        // The record is gone, and what it spoke of is not.
        Err(Error::NotMounted(_)) if mount_point::is_ours(&mount_point::name_of(point)) => {
            return mount_point::free(&mount_point::name_of(point));
        }
        Err(error) => return Err(error),
    };
    // Before it is out of the tree.
    let mounted = mounted_on(&record.mount_point);
    if Client::of(&folder).end().is_ok() {
        if !record.server.wait_for_end(SOON) {
            let pid = record.server.pid;
            let users =
                mounted.map_or_else(Vec::new, |mount| users_inside(&mount, &[pid, std::process::id()]));
            tell(&BusyUnmount { mount_point: record.mount_point.clone(), users, limit: LINGER, pid });
        }
        if record.server.wait_for_end(END_LIMIT) {
            return Ok(folder.remove()?);
        }
    }
    // First, so that nothing waits for an answer that cannot come.
    mount_point::free(&record.mount_point)?;
    record.server.kill()?;
    Ok(folder.remove()?)
}

fn find(point: &Path) -> Result<(ServerFolder, Record), Error> {
    let point = mount_point::name_of(point);
    place::find(&point)?.ok_or(Error::NotMounted(point))
}
