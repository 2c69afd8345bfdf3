//! Attaching emulated disks and talking to their servers.
//!
//! Every call is bounded in time. A target is a disk's name or its `/dev/loopN`.

use crate::calibrate::measure;
use crate::model::check_scale;
use crate::protocol::{Ask, Laid, Measured, Reply, Started};
use crate::state::{Health, Place, Record};
use crate::teardown::{wait_for_end, wreck};
use crate::usage::Users;
use crate::{AttachOptions, Backing, Error, LogEntry, NO_PROFILE, Set, Stats};
use foreseek_device::Profile;
use foreseek_export::wire::{hear, say};
use foreseek_export::{Context, attach_loop, loop_device_over};
use foreseek_storage::loop_device::{DEFAULT_READ_AHEAD, LoopDevice, LoopOptions};
use foreseek_units::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::syncfs;
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a server to attach its disk: measuring the path takes half a second, a busy
/// machine may make it ten times that.
const ATTACH_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a word from a server.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait for a server to write back, free its device and end.
const DETACH_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a disk that is still being attached, or given up since whoever attached it
/// was killed: measuring its path takes half a second, on a busy machine some times that.
const STARTING_LIMIT: Duration = Duration::from_secs(5);
/// Between looks at it.
const STARTING_POLL: Duration = Duration::from_millis(5);
/// Requests that a log holds unless told otherwise.
pub const DEFAULT_LOG_CAPACITY: usize = 1 << 20;

/// What `losetup` shows for the file of an emulated disk's loop device.
const SHOWN_NAME: &str = "foreseek";

/// An attached disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Its name.
    pub name: String,
    /// The block device, `/dev/loopN`.
    pub device: PathBuf,
    /// What could not be had on this machine and shows in how the disk behaves, one line each.
    pub remarks: Vec<String>,
    /// Precautions against emergencies that could not be taken, one line each; the disk works as
    /// well without them.
    pub precautions: Vec<String>,
}

/// A disk in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    let mut launcher = Command::new(&program)
        .args(["disk", "serve"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("run", &program)?;
    // Both were asked for above.
    let (Some(mut to), Some(from)) = (launcher.stdin.take(), launcher.stdout.take()) else {
        return Err(Error::Died("it has no standard input or output".to_owned()));
    };
    let said = say(&mut to, &with_absolute_paths(options).context("find", "the working directory")?);
    // The launcher only starts the server proper in a session of its own, and ends.
    let ended = launcher.wait().context("wait for", &program)?;
    if !ended.success() || said.is_err() {
        return Err(Error::Died(format!("{} could not start it ({ended})", program.display())));
    }
    let mut from = BufReader::new(from);
    loop {
        match hear_within_limit(&mut from)? {
            Started::Ready { name, device, remarks, precautions } => {
                return Ok(Attached { name, device, remarks, precautions });
            }
            Started::Failed(why) => return Err(Error::Refused(why)),
            Started::Lay { file, size_bytes } => {
                let (device, measured) = match lay(&file, Bytes(size_bytes)) {
                    Ok((device, measured)) => (Ok(device), measured),
                    Err(why) => (Err(why.to_string()), Measured::default()),
                };
                say(&mut to, &Laid { device, measured }).context("speak to", "the server")?;
            }
        }
    }
}

/// Lays a loop device over a disk's file and times reads of it. The server frees it whatever goes
/// wrong.
fn lay(file: &Path, size: Bytes) -> Result<(PathBuf, Measured), Error> {
    let options = LoopOptions { rotational: true, read_ahead: DEFAULT_READ_AHEAD };
    let device = attach_loop(file, SHOWN_NAME, options).map_err(|error| Error::Refused(error.to_string()))?;
    let measured = measure(&device.path(), size)?;
    Ok((device.path(), measured))
}

/// The server's next word.
fn hear_within_limit(from: &mut BufReader<ChildStdout>) -> Result<Started, Error> {
    let limit = Timespec::try_from(ATTACH_LIMIT).ok();
    let ready = poll(&mut [PollFd::new(from.get_ref(), PollFlags::IN)], limit.as_ref());
    if from.buffer().is_empty() && ready.context("wait for", "the server")? == 0 {
        return Err(Error::Died(format!("no word from it within {} s", ATTACH_LIMIT.as_secs())));
    }
    hear(from).map_err(|error| Error::Died(error.to_string()))
}

/// The same with paths that mean the same in the server's working directory.
fn with_absolute_paths(options: &AttachOptions) -> io::Result<AttachOptions> {
    let mut options = options.clone();
    match &mut options.backing {
        Backing::File(path) => *path = absolute(&path)?,
        Backing::Sparse { directory } => *directory = directory.as_deref().map(absolute).transpose()?,
    }
    let is_name = options.profile == NO_PROFILE || Profile::builtin(&options.profile).is_some();
    if !is_name
        && Path::new(&options.profile).exists()
        && let Some(path) = absolute(&options.profile)?.to_str()
    {
        options.profile = path.to_owned();
    }
    Ok(options)
}

/// All emulated disks, dead ones included.
///
/// # Errors
/// When their directory cannot be read.
pub fn list() -> Result<Vec<Listed>, Error> {
    Ok(Place::all()?.iter().map(listed).collect())
}

/// The disk of this name or device.
///
/// # Errors
/// [`Error::Unknown`].
pub fn find(target: &str) -> Result<Listed, Error> {
    Ok(listed(&Place::find(target)?))
}

/// Detaches a disk and removes every trace of it but a kept backing file. A dead or silent server
/// is cleaned up after. `force` takes the device away from its users: file systems on it are
/// written back as far as possible and unmounted lazily.
///
/// # Errors
/// [`Error::Busy`] while someone uses it and `force` is not set; nothing is changed then.
pub fn detach(target: &str, force: bool) -> Result<(), Error> {
    let place = Place::find(target)?;
    settle(&place);
    if !place.directory().exists() {
        return Ok(());
    }
    let device = device_of(&place);
    let record = place.record().ok().flatten();
    let server = record.as_ref().map(|record| record.pid);
    let users = || device.as_ref().map(|device| Users::of(device, server)).unwrap_or_default();
    let Some(record) = record.filter(Record::alive) else {
        // Nothing can be lost by taking a dead disk away from its users.
        return wreck(&place, &users());
    };
    let refuse_if_used = || match users() {
        users if force || users.is_empty() => Ok(()),
        users => Err(Error::Busy {
            device: device.as_ref().map(LoopDevice::path).unwrap_or_default(),
            users: users.describe(),
        }),
    };
    refuse_if_used()?;
    if !matches!(exchange(&place, &Ask::Ping), Ok(Reply::Done)) {
        return wreck(&place, &users());
    }
    // At full speed: nobody measures this disk any more.
    if let Err(error) = set(target, &Set { delays: Some(false), ..Set::default() }) {
        tracing::debug!("delays stay on: {error}");
    }
    if force {
        write_back(&users());
    }
    // What is written back when the device is closed is better waited for here than in the server.
    if let Some(device) = &device
        && users().is_empty()
        && let Err(error) = device.begin_clear()
    {
        tracing::warn!("{error}");
    }
    if users().is_empty() && exchange(&place, &Ask::Detach).is_ok() && wait_for_end(&record, DETACH_LIMIT) {
        return if place.directory().exists() { wreck(&place, &users()) } else { Ok(()) };
    }
    refuse_if_used()?;
    wreck(&place, &users())
}

/// Waits until a disk is no longer being attached: until then its server answers nobody, and it
/// or the attaching program has the device open.
fn settle(place: &Place) {
    let deadline = Instant::now() + STARTING_LIMIT;
    let starting = || {
        let record = place.record().ok().flatten();
        record.is_some_and(|record| !record.ready && record.alive())
    };
    while starting() && Instant::now() < deadline {
        std::thread::sleep(STARTING_POLL);
    }
}

/// What a disk has done; `reset` starts counting anew.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Dead`], [`Error::Silent`].
pub fn stats(target: &str, reset: bool) -> Result<Stats, Error> {
    let place = Place::find(target)?;
    match exchange(&place, &Ask::Stats { reset })? {
        Reply::Stats(stats) => Ok(*stats),
        other => Err(unexpected(&place, &other)),
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
    done(&Place::find(target)?, &Ask::Set(set.clone()))
}

/// Starts logging requests, at most `capacity` of them; an earlier log is dropped.
///
/// # Errors
/// As [`set`].
pub fn log_start(target: &str, capacity: usize) -> Result<(), Error> {
    done(&Place::find(target)?, &Ask::LogStart { capacity })
}

/// Stops logging and takes the log.
///
/// # Errors
/// As [`stats`]; [`Error::Refused`] where no log was started.
pub fn log_stop(target: &str) -> Result<Log, Error> {
    let place = Place::find(target)?;
    let mut stream = connect(&place)?;
    let silent = |cause| silent(&place, cause);
    say(&mut stream, &Ask::LogStop).map_err(silent)?;
    let mut from = BufReader::new(stream);
    match hear(&mut from).map_err(silent)? {
        Reply::Log { entries, missed } => {
            let entries = (0..entries).map(|_| hear(&mut from)).collect::<io::Result<_>>().map_err(silent)?;
            Ok(Log { entries, missed })
        }
        other => Err(unexpected(&place, &other)),
    }
}

fn done(place: &Place, ask: &Ask) -> Result<(), Error> {
    match exchange(place, ask)? {
        Reply::Done => Ok(()),
        other => Err(unexpected(place, &other)),
    }
}

fn exchange(place: &Place, ask: &Ask) -> Result<Reply, Error> {
    let mut stream = connect(place)?;
    let silent = |cause| silent(place, cause);
    say(&mut stream, ask).map_err(silent)?;
    hear(&mut BufReader::new(stream)).map_err(silent)
}

fn connect(place: &Place) -> Result<UnixStream, Error> {
    if !place.record()?.is_some_and(|record| record.alive()) {
        return Err(Error::Dead(place.name()));
    }
    let silent = |cause| silent(place, cause);
    let stream = UnixStream::connect(place.control()).map_err(silent)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(silent)?;
    stream.set_write_timeout(Some(ANSWER_LIMIT)).map_err(silent)?;
    Ok(stream)
}

fn silent(place: &Place, cause: io::Error) -> Error {
    Error::Silent { name: place.name(), log: place.log(), cause }
}

fn unexpected(place: &Place, reply: &Reply) -> Error {
    match reply {
        Reply::Refused(why) => Error::Refused(why.clone()),
        other => silent(place, io::Error::other(format!("it said {other:?}"))),
    }
}

fn listed(place: &Place) -> Listed {
    let record = place.record().ok().flatten();
    let health = match &record {
        Some(record) if !record.alive() => Health::Dead,
        None => Health::Dead,
        Some(record) if !record.ready => Health::Starting,
        Some(_) => match exchange(place, &Ask::Ping) {
            Ok(_) => Health::Ready,
            Err(_) => Health::Silent,
        },
    };
    let device = device_of(place);
    Listed {
        name: place.name(),
        health,
        pid: record.as_ref().map(|record| record.pid),
        profile: record.as_ref().map(|record| record.profile.clone()).unwrap_or_default(),
        failed_member: record.as_ref().and_then(|record| record.failed_member),
        size_bytes: record.as_ref().map_or(0, |record| record.size_bytes),
        backing: record.as_ref().map(|record| record.backing.clone()).unwrap_or_default(),
        mount_points: device.as_ref().map(|device| Users::of(device, None).mount_points).unwrap_or_default(),
        device: device.map(|device| device.path()),
    }
}

/// The loop device over the disk's file: what the kernel says, not what the record hopes.
fn device_of(place: &Place) -> Option<LoopDevice> {
    let connection = place.record().ok().flatten().and_then(|record| record.connection);
    loop_device_over(&place.mount_point(), connection)
}

/// Unmounts what can be unmounted, and writes back what cannot, within a limit for each.
fn write_back(users: &Users) {
    for point in users.mount_points.iter().rev() {
        let (done, ended) = std::sync::mpsc::sync_channel(1);
        let mounted = point.clone();
        // A thread of its own: writing back to a disk that hangs cannot be interrupted.
        std::thread::spawn(move || {
            let unmounted = unmount(&mounted, UnmountFlags::empty());
            let written = unmounted.or_else(|_| syncfs(&File::open(&mounted)?).map_err(io::Error::from));
            let _ = done.send(written);
        });
        match ended.recv_timeout(DETACH_LIMIT) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("cannot write back {}: {error}", point.display()),
            Err(_) => tracing::warn!("writing back {} did not end in time", point.display()),
        }
    }
}
