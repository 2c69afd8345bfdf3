//! Attaching emulated disks and talking to their servers.
//!
//! Every call is bounded in time. A target is a disk's name or its `/dev/loopN`.

use crate::calibrate::measure;
use crate::model::check_scale;
use crate::protocol::{Laid, Lay, Measured, Reply, ServerRequest};
use crate::state::{self, Record};
use crate::teardown::{wait_for_end, wreck};
use crate::{AttachOptions, Backing, Error, LogEntry, NO_PROFILE, Set, Stats};
use foreseek_device::Profile;
use foreseek_export::{NbdAddress, attach_loop, loop_device_over};
use foreseek_server::{Client, Context, Health, Launch, ServerFolder, Users};
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, Instant};
use std::{fs, io};

pub use crate::protocol::Attached;

/// Longest wait for a server to write back, free its device and end.
const DETACH_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a disk that is still being attached, or given up since whoever attached it
/// was killed: measuring its path takes half a second, on a busy machine some times that.
const STARTING_LIMIT: Duration = Duration::from_secs(5);
/// Between looks at it.
const STARTING_POLL: Duration = Duration::from_millis(5);
/// How long a device that is open may be so only for a moment: long for a moment, and short for whoever waits for
/// the answer that it is busy.
const MOMENT: Duration = Duration::from_millis(500);
/// Requests that a log holds unless told otherwise.
pub const DEFAULT_LOG_CAPACITY: usize = 1 << 20;

/// What `losetup` shows for the file of an emulated disk's loop device.
const SHOWN_NAME: &str = "foreseek";

/// A disk in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The block device, where it has come so far.
    pub device: Option<PathBuf>,
    /// How its server is.
    pub health: Health,
    /// The server's process.
    pub pid: Option<u32>,
    /// The profile.
    pub profile: String,
    /// The member of an array that has failed, counted from zero.
    pub failed_member: Option<usize>,
    /// Its size.
    pub size_bytes: u64,
    /// Where its data lie.
    pub backing: PathBuf,
    /// Where it is mounted.
    pub mount_points: Vec<PathBuf>,
}

/// A request log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The requests, in order of completion.
    pub entries: Vec<LogEntry>,
    /// Requests that found the log full.
    pub missed: u64,
}

/// Attaches a disk: starts its server, which outlives the caller.
///
/// # Errors
/// Whatever kept the disk from being attached; nothing is left behind then, unless the server
/// crashed ([`Error::Died`]).
pub fn attach(options: &AttachOptions) -> Result<Attached, Error> {
    // Here too: JSON has no word for what is no number.
    check_scale(options.time_scale)?;
    let program = options.server.clone().unwrap_or_else(|| "/proc/self/exe".into());
    let launch = Launch { program: &program, arguments: &["disk", "serve"] };
    let options = with_absolute_paths(options)?;
    let laid = |asked: Lay| match lay(&asked.file, Bytes(asked.size_bytes)) {
        Ok((device, measured)) => Laid { device: Ok(device), measured },
        Err(why) => Laid { device: Err(why.to_string()), measured: Measured::default() },
    };
    Ok(launch.start_with(&options, laid)?)
}

/// Lays a loop device over a disk's file and times reads of it. The server frees it whatever goes
/// wrong.
fn lay(file: &Path, size: Bytes) -> Result<(PathBuf, Measured), Error> {
    let options = LoopOptions::DISK;
    let device = attach_loop(file, SHOWN_NAME, options).map_err(|error| Error::Refused(error.to_string()))?;
    let measured = measure(&device.path(), size)?;
    Ok((device.path(), measured))
}

/// The same with paths that mean the same in the server's working directory.
fn with_absolute_paths(options: &AttachOptions) -> Result<AttachOptions, Error> {
    let lost = |result: io::Result<_>| result.context("find", "the working directory");
    let mut options = options.clone();
    options.nbd =
        options.nbd.map(NbdAddress::made_absolute).transpose().context("find", "the working directory")?;
    match &mut options.backing {
        Backing::File(path) => *path = lost(absolute(&path))?,
        Backing::Sparse { directory } => {
            *directory = directory.as_deref().map(|path| lost(absolute(path))).transpose()?
        }
    }
    if options.profile != NO_PROFILE {
        let resolved = Profile::in_any_directory(&options.profile, |path| fs::canonicalize(path));
        options.profile = resolved.map_err(|error| Error::Refused(error.to_string()))?;
    }
    Ok(options)
}

/// All emulated disks, dead ones included.
///
/// # Errors
/// When their directory cannot be read.
pub fn list() -> Result<Vec<Listed>, Error> {
    Ok(state::all()?.iter().map(listed).collect())
}

/// The disk of this name or device.
///
/// # Errors
/// [`Error::Unknown`].
pub fn find(target: &str) -> Result<Listed, Error> {
    Ok(listed(&state::find(target)?))
}

/// Detaches a disk and removes every trace of it but a kept backing file. A dead or silent server
/// is cleaned up after. `force` takes the device away from its users: file systems on it are
/// written back as far as possible and unmounted lazily.
///
/// # Errors
/// [`Error::Busy`] while someone uses it and `force` is not set; nothing is changed then.
pub fn detach(target: &str, force: bool) -> Result<(), Error> {
    let folder = state::find(target)?;
    settle(&folder);
    if !folder.path().exists() {
        return Ok(());
    }
    let device = device_of(&folder);
    let record = state::record(&folder);
    let server = record.as_ref().map(|record| record.server.pid);
    let users = || {
        let mut users = device.as_ref().map(|device| Users::of(&device.path(), server)).unwrap_or_default();
        // A server that says nothing has none.
        let clients = stats(target, false).map(|stats| stats.clients).unwrap_or_default();
        users.others.extend(clients.into_iter().map(|peer| format!("connected to by {peer} over NBD")));
        users
    };
    let Some(record) = record.filter(|record| record.server.is_alive()) else {
        // Nothing can be lost by taking a dead disk away from its users.
        return wreck(&folder, &users());
    };
    let refuse_if_used = || match lasting(&users, force) {
        users if force || users.is_empty() => Ok(()),
        users => Err(Error::Busy {
            device: device.as_ref().map(LoopDevice::path).unwrap_or_default(),
            users: users.describe(),
        }),
    };
    refuse_if_used()?;
    if Client::of(&folder).ping().is_err() {
        return wreck(&folder, &users());
    }
    // At full speed: nobody measures this disk any more.
    if let Err(error) = set(target, &Set { delays: Some(false), ..Set::default() }) {
        tracing::debug!("delays stay on: {error}");
    }
    if force {
        users().write_back(DETACH_LIMIT);
        notify(target, &ServerRequest::Dismiss)?;
    }
    // What is written back when the device is closed is better waited for here than in the server.
    if let Some(device) = &device
        && users().is_empty()
        && let Err(error) = device.begin_clear()
    {
        tracing::warn!("{error}");
    }
    if users().is_empty() && Client::of(&folder).end().is_ok() && wait_for_end(&folder, &record, DETACH_LIMIT)
    {
        return if folder.path().exists() { wreck(&folder, &users()) } else { Ok(()) };
    }
    refuse_if_used()?;
    wreck(&folder, &users())
}

/// The users that stay. Who attaches a loop device asks the kernel for a free one and opens it; where two get the same
/// number, the slower has the device of the faster open for a moment.
fn lasting(users: &impl Fn() -> Users, force: bool) -> Users {
    let deadline = Instant::now() + MOMENT;
    loop {
        let found = users();
        if force || found.is_empty() || !found.mount_points.is_empty() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(STARTING_POLL);
    }
}

/// Waits until a disk is no longer being attached: until then its server answers nobody, and it
/// or the attaching program has the device open.
fn settle(folder: &ServerFolder) {
    let deadline = Instant::now() + STARTING_LIMIT;
    let starting = || state::record(folder).as_ref().is_some_and(is_starting);
    while starting() && Instant::now() < deadline {
        std::thread::sleep(STARTING_POLL);
    }
}

fn is_starting(record: &Record) -> bool {
    !record.ready && record.server.is_alive()
}

/// What a disk has done; `reset` starts counting anew.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Dead`], [`Error::Silent`].
pub fn stats(target: &str, reset: bool) -> Result<Stats, Error> {
    let folder = state::find(target)?;
    match Client::of(&folder).ask(&ServerRequest::Stats { reset }) {
        Ok(Reply::Stats(stats)) => Ok(*stats),
        Ok(other) => Err(unexpected(&folder, &other)),
        Err(error) => Err(Error::of(&folder, error)),
    }
}

/// Changes a running disk; requests in flight are answered by the new rule.
///
/// # Errors
/// [`Error::Refused`] for values that make no sense; nothing is changed then. Otherwise as
/// [`stats`].
pub fn set(target: &str, set: &Set) -> Result<(), Error> {
    // Here too: JSON has no word for what is no number.
    set.time_scale.map(check_scale).transpose()?;
    notify(target, &ServerRequest::Set(set.clone()))
}

/// Starts logging requests, at most `capacity` of them; an earlier log is dropped.
///
/// # Errors
/// As [`set`].
pub fn log_start(target: &str, capacity: usize) -> Result<(), Error> {
    notify(target, &ServerRequest::LogStart { capacity })
}

/// Stops logging and takes the log.
///
/// # Errors
/// As [`stats`]; [`Error::Refused`] where no log was started.
pub fn log_stop(target: &str) -> Result<Log, Error> {
    let folder = state::find(target)?;
    match Client::of(&folder).ask_lines(&ServerRequest::LogStop) {
        Ok((Reply::Log { missed }, entries)) => Ok(Log { entries, missed }),
        Ok((other, _)) => Err(unexpected(&folder, &other)),
        Err(error) => Err(Error::of(&folder, error)),
    }
}

fn notify(target: &str, ask: &ServerRequest) -> Result<(), Error> {
    let folder = state::find(target)?;
    Client::of(&folder).notify(ask).map_err(|error| Error::of(&folder, error))
}

fn unexpected(folder: &ServerFolder, reply: &Reply) -> Error {
    Error::of(folder, foreseek_server::Error::Silent(io::Error::other(format!("it said {reply:?}"))))
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
    Listed {
        health: if is_starting(&record) { Health::Starting } else { Client::of(folder).health() },
        pid: Some(record.server.pid),
        profile: record.profile,
        failed_member: record.failed_member,
        size_bytes: record.size_bytes,
        backing: record.backing,
        ..listed
    }
}

/// The loop device over the disk's file: what the kernel says, not what the record hopes.
fn device_of(folder: &ServerFolder) -> Option<LoopDevice> {
    let connection = state::record(folder).and_then(|record| record.connection);
    loop_device_over(&folder.mount_point(), connection)
}
