//! Attaching arrays, and requests to their servers. Every call is bounded in time. A target is an array's
//! name, its `/dev/loopN` or the device below.

use crate::state::{self, Attached, LIST, Lay, ServerRequest};
use crate::{AttachOptions, Error, Shape, Status};
use foreseek_device::Profile;
use foreseek_export::{NbdAddress, attach_loop, loop_device_over};
use foreseek_server::{Client, Context, Health, Kind, Launch, ServerFolder, Users, absolute_path};
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for a server to end.
const DETACH_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for programs that only look at the device: udev, and LVM by its rules, do so when a file system on
/// it was unmounted.
const LOOK_LIMIT: Duration = Duration::from_secs(3);
/// The file name of the loop device in `losetup`.
const SHOWN_NAME: &str = "foreseek-array";

/// An array in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The block device, if it exists yet.
    pub device: Option<PathBuf>,
    /// The state of its server.
    pub health: Health,
    /// The URI of its NBD export.
    pub nbd: Option<String>,
    /// The server's process.
    pub pid: Option<u32>,
    /// The device below.
    pub below: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// Its mount points.
    pub mount_points: Vec<PathBuf>,
}

/// Attaches an array: starts its server, which outlives the caller.
///
/// # Errors
/// The reason why it cannot be attached; nothing is left behind then.
pub fn attach(options: &AttachOptions) -> Result<Attached, Error> {
    let mut options = options.clone();
    options.device = absolute_path(&options.device)?;
    options.nbd =
        options.nbd.map(NbdAddress::made_absolute).transpose().context("find", "the working directory")?;
    let (Shape::Profile(profile)
    | Shape::Found { member: profile, .. }
    | Shape::Given { member: profile, .. }) = &mut options.shape;
    let resolved = Profile::in_any_directory(profile, |path| fs::canonicalize(path));
    *profile = resolved.map_err(|error| Error::Refused(error.to_string()))?;
    let launch = Launch { kind: Kind::Array, program: None, arguments: &["array", "serve"], free };
    let lay = |asked: Lay| -> Result<PathBuf, String> {
        let (block, read_ahead) = (Bytes(asked.block_bytes), Bytes(asked.read_ahead_bytes));
        let options = LoopOptions { block, read_ahead, ..LoopOptions::DISK };
        let laid = attach_loop(&asked.file, SHOWN_NAME, options).map_err(|error| error.to_string())?;
        Ok(laid.path())
    };
    Ok(launch.start_with(&options, lay)?)
}

/// Frees what a server left that ended before it was ready.
fn free(folder: &ServerFolder) -> Result<(), String> {
    let freed = state::leftovers(folder, state::record(folder).as_ref()).free(&Users::default());
    freed.map_err(Error::from).and_then(|()| Ok(folder.remove()?)).map_err(|error| error.to_string())
}

/// All arrays, dead ones included.
///
/// # Errors
/// Their folder cannot be read.
pub fn list() -> Result<Vec<Listed>, Error> {
    Ok(state::all(LIST)?.iter().map(listed).collect())
}

/// The status of an array.
///
/// # Errors
/// There is no such array, or its server is dead or silent.
pub fn status(target: &str) -> Result<Status, Error> {
    let folder = state::find(target, "show an array's status")?;
    Client::of(&folder).ask(&ServerRequest::Status).map_err(|error| Error::of(&folder, error))
}

/// Detaches an array; returns whether its server was alive. If it is dead or silent, the leftovers are freed.
/// `force` takes the device away from its users, after their writes were written back as far as possible.
///
/// # Errors
/// [`Error::Busy`] while it is in use and `force` is not set; nothing is changed then.
pub fn detach(target: &str, force: bool) -> Result<bool, Error> {
    let folder = state::find(target, "detach an array")?;
    let device = device_of(&folder);
    let record = state::record(&folder);
    let server = record.as_ref().map(|record| record.server);
    let users = || {
        let mut users =
            device.as_ref().map(|it| Users::of(&it.path(), server.map(|it| it.pid))).unwrap_or_default();
        // A silent server is taken to have no clients.
        let clients =
            Client::of(&folder).ask(&ServerRequest::Status).map(|status| status.clients).unwrap_or_default();
        users.others.extend(clients.into_iter().map(|peer| format!("connected to by {peer} over NBD")));
        users
    };
    let free_leftovers = || -> Result<(), Error> {
        state::leftovers(&folder, record.as_ref()).free(&users())?;
        Ok(folder.remove()?)
    };
    let Some(server) = server.filter(|server| server.is_alive()) else {
        return free_leftovers().map(|()| false);
    };
    let refuse_if_used = || match if force { Users::default() } else { lasting(users) } {
        users if users.is_empty() => Ok(()),
        users => Err(Error::Busy {
            device: device.as_ref().map_or_else(|| folder.name().into(), LoopDevice::path),
            users: users.describe(),
            remedy: "end that first, or give --force (what cannot be written back is lost)",
        }),
    };
    refuse_if_used()?;
    if Client::of(&folder).ping().is_err() {
        return free_leftovers().map(|()| true);
    }
    if force {
        users().write_back(DETACH_LIMIT);
        Client::of(&folder).notify(&ServerRequest::Dismiss).map_err(|error| Error::of(&folder, error))?;
    }
    if lasting(users).is_empty() && Client::of(&folder).end().is_ok() && server.wait_for_end(DETACH_LIMIT) {
        state::leftovers(&folder, record.as_ref()).remove_cgroup();
        return if folder.path().exists() { free_leftovers().map(|()| true) } else { Ok(true) };
    }
    refuse_if_used()?;
    free_leftovers().map(|()| true)
}

/// The users that are there after a moment; a file system that is mounted stays.
fn lasting(users: impl Fn() -> Users) -> Users {
    let end = Instant::now() + LOOK_LIMIT;
    loop {
        let users = users();
        if users.is_empty() || !users.mount_points.is_empty() || Instant::now() >= end {
            return users;
        }
        sleep(Duration::from_millis(50));
    }
}

fn listed(folder: &ServerFolder) -> Listed {
    let record = state::record(folder);
    let device = device_of(folder);
    let users = device.as_ref().map(|device| Users::of(&device.path(), None)).unwrap_or_default();
    let starting = record.as_ref().is_some_and(|record| !record.ready && record.server.is_alive());
    Listed {
        name: folder.name(),
        device: device.map(|device| device.path()),
        health: if starting { Health::Starting } else { Client::of(folder).health() },
        nbd: record.as_ref().and_then(|record| record.nbd.as_ref()).map(|nbd| nbd.uri(&folder.name())),
        pid: record.as_ref().map(|record| record.server.pid),
        below: record.as_ref().map(|record| record.below.clone()).unwrap_or_default(),
        size_bytes: record.map_or(0, |record| record.size_bytes),
        mount_points: users.mount_points,
    }
}

fn device_of(folder: &ServerFolder) -> Option<LoopDevice> {
    let connection = state::record(folder).and_then(|record| record.connection);
    loop_device_over(&folder.mount_point(), connection)
}
