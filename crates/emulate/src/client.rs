//! Attaches emulated disks and sends requests to their servers.
//!
//! Every call is bounded in time. A target is a disk's name or its `/dev/loopN`.

use crate::calibrate::measure;
use crate::model::check_scale;
use crate::protocol::{AttachLoop, LoopAttached, Measured, Reply, ServerRequest};
use crate::state::{self, Record};
use crate::teardown::{free_leftovers, wait_for_end};
use crate::{AttachOptions, Backing, Error, LogEntry, NO_PROFILE, Set, Stats};
use foreseek_device::Profile;
use foreseek_export::{NbdAddress, attach_loop, loop_device_over};
use foreseek_server::{Client, Context, Health, Kind, Launch, ServerFolder, Users, absolute_path};
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

pub use crate::protocol::Attached;

/// Longest wait for a server to write back, free its device and exit.
const DETACH_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a disk that is still being attached, or whose attachment was killed: measuring the path
/// takes half a second, and several times that on a busy machine.
const STARTING_LIMIT: Duration = Duration::from_secs(5);
/// Between checks of it.
const STARTING_POLL: Duration = Duration::from_millis(5);
/// How long a device may be open before it counts as busy: other programs may open it briefly, and the caller
/// waits for the answer.
const BRIEFLY: Duration = Duration::from_millis(500);
/// Requests that a log holds by default.
pub const DEFAULT_LOG_CAPACITY: usize = 1 << 20;

/// What is to be done with a disk, for errors.
const DETACH: &str = "detach an emulated disk";
const LOG: &str = "log the requests of an emulated disk";
/// The name that `losetup` shows for the file of an emulated disk's loop device.
const SHOWN_NAME: &str = "foreseek";

/// A disk in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The block device, if it has been attached yet.
    pub device: Option<PathBuf>,
    /// The state of its server.
    pub health: Health,
    /// Whether its power is off.
    pub power_off: bool,
    /// The URI of its NBD export.
    pub nbd: Option<String>,
    /// The server's process.
    pub pid: Option<u32>,
    /// The profile.
    pub profile: String,
    /// The member of an array that has failed, counted from zero.
    pub failed_member: Option<usize>,
    /// Its size.
    pub size_bytes: u64,
    /// The file that holds its data.
    pub backing: PathBuf,
    /// Where it is mounted.
    pub mount_points: Vec<PathBuf>,
}

/// A request log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The requests, in order of completion.
    pub entries: Vec<LogEntry>,
    /// Requests that were not logged because the log was full.
    pub missed: u64,
}

/// Attaches a disk: starts its server, which outlives the caller.
///
/// # Errors
/// Why the disk could not be attached; nothing is left behind then.
pub fn attach(options: &AttachOptions) -> Result<Attached, Error> {
    // Checked here too: JSON has no representation of NaN and infinity.
    check_scale(options.time_scale)?;
    let program = options.server.as_deref();
    let launch = Launch { kind: Kind::Disk, program, arguments: &["disk", "serve"], free };
    let options = with_absolute_paths(options)?;
    let attach = |request: AttachLoop| match attach_and_measure(&request.file, Bytes(request.size_bytes)) {
        Ok((device, measured)) => LoopAttached { device: Ok(device), measured },
        Err(why) => LoopAttached { device: Err(why.to_string()), measured: Measured::default() },
    };
    Ok(launch.start_with(&options, attach)?)
}

/// Frees what a server left that ended before it was ready.
fn free(folder: &ServerFolder) -> Result<(), String> {
    free_leftovers(folder, &Users::default()).map_err(|error| error.to_string())
}

/// Attaches a loop device to a disk's file and times reads of it. On any failure the server frees it.
fn attach_and_measure(file: &Path, size: Bytes) -> Result<(PathBuf, Measured), Error> {
    let options = LoopOptions::DISK;
    let device = attach_loop(file, SHOWN_NAME, options).map_err(|error| Error::Refused(error.to_string()))?;
    let measured = measure(&device.path(), size)?;
    Ok((device.path(), measured))
}

/// The same options with absolute paths, since the server has another working directory.
fn with_absolute_paths(options: &AttachOptions) -> Result<AttachOptions, Error> {
    let mut options = options.clone();
    options.nbd =
        options.nbd.map(NbdAddress::made_absolute).transpose().context("find", "the working directory")?;
    match &mut options.backing {
        Backing::File(path) => *path = absolute_path(path)?,
        Backing::Sparse { directory } => *directory = directory.as_deref().map(absolute_path).transpose()?,
    }
    if options.profile != NO_PROFILE {
        let resolved = Profile::in_any_directory(&options.profile, |path| fs::canonicalize(path));
        options.profile = resolved.map_err(|error| Error::Refused(error.to_string()))?;
    }
    Ok(options)
}

/// All emulated disks, including those whose server is dead.
///
/// # Errors
/// When their directory cannot be read.
pub fn list() -> Result<Vec<Listed>, Error> {
    Ok(state::all("list emulated disks")?.iter().map(listed).collect())
}

/// The names of all emulated disks, to detach them.
///
/// # Errors
/// When their directory cannot be read.
pub fn names() -> Result<Vec<String>, Error> {
    Ok(state::all(DETACH)?.iter().map(ServerFolder::name).collect())
}

/// The name of the disk of this name or device, to detach it.
///
/// # Errors
/// [`Error::Unknown`].
pub fn name_of(target: &str) -> Result<String, Error> {
    Ok(state::find(target, DETACH)?.name())
}

/// Detaches a disk and removes everything but a kept backing file. A dead or silent server is cleaned up.
/// `force` detaches the device although it is in use: file systems on it are written back as far as possible
/// and unmounted lazily.
///
/// # Errors
/// [`Error::Busy`] while it is in use and `force` is not set; nothing is changed then.
pub fn detach(target: &str, force: bool) -> Result<(), Error> {
    let folder = state::find(target, DETACH)?;
    wait_until_started(&folder);
    if !folder.path().exists() {
        return Ok(());
    }
    let device = device_of(&folder);
    let record = state::record(&folder);
    let server = record.as_ref().map(|record| record.server.pid);
    let users = || {
        let mut users = device.as_ref().map(|device| Users::of(&device.path(), server)).unwrap_or_default();
        // A server that does not answer has no clients.
        let clients = stats(target, false).map(|stats| stats.clients).unwrap_or_default();
        users.others.extend(clients.into_iter().map(|peer| format!("connected to by {peer} over NBD")));
        users
    };
    let Some(record) = record.filter(|record| record.server.is_alive()) else {
        // Detaching a dead disk from its users loses nothing more.
        return free_leftovers(&folder, &users());
    };
    let refuse_if_used = || match lasting_users(&users, force) {
        users if force || users.is_empty() => Ok(()),
        users => Err(Error::Busy {
            device: device.as_ref().map(LoopDevice::path).unwrap_or_default(),
            users: users.describe(),
        }),
    };
    refuse_if_used()?;
    if Client::of(&folder).ping().is_err() {
        return free_leftovers(&folder, &users());
    }
    // At full speed: delays are of no use to anyone now.
    if let Err(error) = set(target, &Set { delays: Some(false), ..Set::default() }) {
        tracing::debug!("delays stay on: {error}");
    }
    if force {
        users().write_back(DETACH_LIMIT);
        notify(target, DETACH, &ServerRequest::Dismiss)?;
    }
    // Closing the device writes data back. This process waits for that rather than the server.
    if let Some(device) = &device
        && users().is_empty()
        && let Err(error) = device.begin_clear()
    {
        tracing::warn!("{error}");
    }
    if users().is_empty() && Client::of(&folder).end().is_ok() && wait_for_end(&folder, &record, DETACH_LIMIT)
    {
        return if folder.path().exists() { free_leftovers(&folder, &users()) } else { Ok(()) };
    }
    refuse_if_used()?;
    free_leftovers(&folder, &users())
}

/// The users that remain after a moment. A program that attaches a loop device asks the kernel for a free one
/// and opens it. If two get the same number, the slower one briefly has the device of the faster one open.
fn lasting_users(users: &impl Fn() -> Users, force: bool) -> Users {
    let deadline = Instant::now() + BRIEFLY;
    loop {
        let found = users();
        if force || found.is_empty() || !found.mount_points.is_empty() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(STARTING_POLL);
    }
}

/// Waits until a disk is no longer being attached: until then its server answers no requests, and the server
/// or the attaching program has the device open.
fn wait_until_started(folder: &ServerFolder) {
    let deadline = Instant::now() + STARTING_LIMIT;
    let starting = || state::record(folder).as_ref().is_some_and(is_starting);
    while starting() && Instant::now() < deadline {
        std::thread::sleep(STARTING_POLL);
    }
}

fn is_starting(record: &Record) -> bool {
    !record.ready && record.server.is_alive()
}

/// The counters of a disk; `reset` restarts them.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Dead`], [`Error::Silent`].
pub fn stats(target: &str, reset: bool) -> Result<Stats, Error> {
    let folder = state::find(target, "show an emulated disk's counters")?;
    match Client::of(&folder).ask(&ServerRequest::Stats { reset }) {
        Ok(Reply::Stats(stats)) => Ok(*stats),
        Ok(other) => Err(unexpected(&folder, &other)),
        Err(error) => Err(Error::of(&folder, error)),
    }
}

/// Changes a running disk; the new settings apply to requests in flight too.
///
/// # Errors
/// [`Error::Refused`] for invalid values; nothing is changed then. Otherwise as
/// [`stats`].
pub fn set(target: &str, set: &Set) -> Result<(), Error> {
    // Checked here too: JSON has no representation of NaN and infinity.
    set.time_scale.map(check_scale).transpose()?;
    notify(target, "change an emulated disk", &ServerRequest::Set(set.clone()))
}

/// Starts logging requests, at most `capacity` of them; an earlier log is dropped.
///
/// # Errors
/// As [`set`].
pub fn log_start(target: &str, capacity: usize) -> Result<(), Error> {
    notify(target, LOG, &ServerRequest::LogStart { capacity })
}

/// Stops logging and returns the log.
///
/// # Errors
/// As [`stats`]; [`Error::Refused`] where no log was started.
pub fn log_stop(target: &str) -> Result<Log, Error> {
    let folder = state::find(target, LOG)?;
    match Client::of(&folder).ask_lines(&ServerRequest::LogStop) {
        Ok((Reply::Log { missed }, entries)) => Ok(Log { entries, missed }),
        Ok((other, _)) => Err(unexpected(&folder, &other)),
        Err(error) => Err(Error::of(&folder, error)),
    }
}

fn notify(target: &str, what: &'static str, ask: &ServerRequest) -> Result<(), Error> {
    let folder = state::find(target, what)?;
    Client::of(&folder).notify(ask).map_err(|error| Error::of(&folder, error))
}

fn unexpected(folder: &ServerFolder, reply: &Reply) -> Error {
    Error::of(folder, foreseek_server::Error::Silent(io::Error::other(format!("it sent {reply:?}"))))
}

fn listed(folder: &ServerFolder) -> Listed {
    let record = state::record(folder);
    let device = device_of(folder);
    let users = device.as_ref().map(|device| Users::of(&device.path(), None)).unwrap_or_default();
    let listed = Listed {
        name: folder.name(),
        device: device.map(|device| device.path()),
        mount_points: users.mount_points,
        ..Listed::default()
    };
    let Some(record) = record else { return listed };
    let (health, power_off) = if is_starting(&record) { (Health::Starting, false) } else { state_of(folder) };
    Listed {
        health,
        power_off,
        nbd: record.nbd.as_ref().map(|nbd| nbd.uri(&folder.name())),
        pid: Some(record.server.pid),
        profile: record.profile,
        failed_member: record.failed_member,
        size_bytes: record.size_bytes,
        backing: record.backing,
        ..listed
    }
}

/// The state of a disk's server, and whether the disk's power is off.
fn state_of(folder: &ServerFolder) -> (Health, bool) {
    let answer = Client::of(folder).ask(&ServerRequest::Stats { reset: false });
    (Health::of(&answer), matches!(answer, Ok(Reply::Stats(stats)) if stats.power_off))
}

/// The loop device over the disk's file, according to the kernel: the record may not have it yet.
fn device_of(folder: &ServerFolder) -> Option<LoopDevice> {
    let connection = state::record(folder).and_then(|record| record.connection);
    loop_device_over(&folder.mount_point(), connection)
}
