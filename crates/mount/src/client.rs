//! Mounting, and talking to the servers of mounts. Every call is bounded in time.

use crate::place::{Place, Record};
use crate::protocol::{Ask, Reply, Started};
use crate::{Error, MountStatus, Settings, mount_point};
use foreseek_export::Context;
use foreseek_export::wire::{hear, say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a server to have mounted.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a word from a server.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait for a server to end that was told to: it gives open files 30 s.
const END_LIMIT: Duration = Duration::from_secs(45);
/// Longest wait for a killed process to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Between looks.
const POLL: Duration = Duration::from_millis(5);

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

/// How a mount's server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It serves.
    Ready,
    /// It runs but does not answer.
    Silent,
    /// It has ended without cleaning up.
    Dead,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "ready",
            Self::Silent => "silent",
            Self::Dead => "dead",
        })
    }
}

/// Mounts: starts a server, which outlives the caller. Answers what works less well than it might.
/// `server` is the program and the arguments with which it calls [`serve::run_detached`].
///
/// [`serve::run_detached`]: crate::serve::run_detached
///
/// # Errors
/// Whatever kept it from being mounted; nothing is left behind then.
pub fn mount(settings: &Settings, server: (&Path, &[&str])) -> Result<Vec<String>, Error> {
    let (program, arguments) = server;
    let mut settings = settings.clone();
    for path in [&mut settings.mount.source, &mut settings.mount.mount_point] {
        *path = absolute(&path).context("find", &path)?;
    }
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("run", program)?;
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Refused("the server has no standard input or output".to_owned()));
    };
    say(&mut to, &settings).context("speak to", program)?;
    let limit = Timespec::try_from(START_LIMIT).ok();
    if poll(&mut [PollFd::new(&from, PollFlags::IN)], limit.as_ref()).context("wait for", program)? == 0 {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::Refused(format!("no word from the server within {} s", START_LIMIT.as_secs())));
    }
    match hear(&mut BufReader::new(from)) {
        Ok(Started::Ready { remarks }) => Ok(remarks),
        Ok(Started::Failed(why)) => {
            let _ = child.wait();
            Err(Error::Refused(why))
        }
        Err(error) => {
            let _ = child.wait();
            Err(Error::Refused(format!("the server ended before it had mounted ({error})")))
        }
    }
}

/// All mounts, dead ones included.
///
/// # Errors
/// When they cannot be listed.
pub fn list() -> Result<Vec<Listed>, Error> {
    let listed = |(place, record): (Place, Record)| Listed {
        health: match exchange(&place, &record, Ask::Status) {
            Ok(_) => Health::Ready,
            Err(Error::Dead(_)) => Health::Dead,
            Err(_) => Health::Silent,
        },
        mount_point: record.mount_point,
        source: record.source,
        pid: record.pid,
    };
    Ok(Place::all()?.into_iter().map(listed).collect())
}

/// How a mount is.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::Dead`], [`Error::Silent`].
pub fn status(point: &Path) -> Result<MountStatus, Error> {
    let (place, record) = find(point)?;
    match exchange(&place, &record, Ask::Status)? {
        Reply::Status(status) => Ok(*status),
        Reply::Refused(why) => Err(Error::Refused(why)),
        Reply::Done => Err(silent(&place, &record, io::Error::other("it answered something else"))),
    }
}

/// Takes a mount away and removes every trace of it. A dead or silent server is cleaned up after.
///
/// # Errors
/// [`Error::NotMounted`], or what kept it from being freed.
pub fn unmount(point: &Path) -> Result<(), Error> {
    let (place, record) = match find(point) {
        Ok(found) => found,
        // The record is gone, and what it spoke of is not.
        Err(Error::NotMounted(_)) if mount_point::is_ours(&mount_point::name_of(point)) => {
            return mount_point::free(&mount_point::name_of(point));
        }
        Err(error) => return Err(error),
    };
    if record.alive() && exchange(&place, &record, Ask::Unmount).is_ok() && wait_for_end(&record, END_LIMIT) {
        return place.remove();
    }
    // First, so that nothing waits for an answer that cannot come.
    mount_point::free(&record.mount_point)?;
    kill(&record)?;
    place.remove()
}

fn find(point: &Path) -> Result<(Place, Record), Error> {
    let point = mount_point::name_of(point);
    Place::find(&point)?.ok_or(Error::NotMounted(point))
}

fn exchange(place: &Place, record: &Record, ask: Ask) -> Result<Reply, Error> {
    if !record.alive() {
        return Err(Error::Dead(record.mount_point.clone()));
    }
    let converse = || {
        let mut stream = UnixStream::connect(place.control())?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        say(&mut stream, &ask)?;
        hear(&mut BufReader::new(stream))
    };
    converse().map_err(|cause| silent(place, record, cause))
}

fn silent(place: &Place, record: &Record, cause: io::Error) -> Error {
    Error::Silent { path: record.mount_point.clone(), log: place.log(), cause }
}

fn wait_for_end(record: &Record, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while record.alive() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
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
    if wait_for_end(record, KILL_LIMIT) {
        return Ok(());
    }
    Err(Error::Refused(format!("process {} does not end though it was killed", record.pid)))
}
