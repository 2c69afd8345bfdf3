//! The server's process: how it starts, what it listens to, how it ends.
//!
//! [`run`] serves in the foreground. [`run_detached`] is what [`client::mount`](crate::client::mount)
//! starts: it takes its settings as one line from standard input, answers on standard output with one
//! line that tells how it went, and is nobody's child from then on.
//!
//! It ends on SIGTERM, SIGINT or SIGHUP, when asked to on its socket, and when others take the mount
//! away. Files that are open then can be used on for [`LINGER`]; a second signal ends that at once.

use crate::keeper::{self, Keeper, Shelf};
use crate::mounted::check_rights;
use crate::place::{Place, Record};
use crate::protocol::{Ask, Reply, Started};
use crate::{Error, MountStatus, Mounted, Settings, mount_point};
use foreseek_export::Context;
use foreseek_export::daemon;
use foreseek_export::wire::{hear, say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long files that are open when the mount is taken away can be used on: long enough for a
/// program that is told to end as well, shorter than the 90 s after which systemd kills.
const LINGER: Duration = Duration::from_secs(30);
/// Longest wait for a client's line, and for it to take the answer.
const CLIENT_LIMIT: Duration = Duration::from_secs(2);
/// Between looks at whether the mount is still there.
const SERVING_POLL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The same while the last open files are waited for.
const ENDING_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Mounts and serves until it is told to end. `ready` is called once it is mounted, with what works
/// less well than it might.
///
/// # Errors
/// Whatever keeps it from being mounted, nothing is left behind then; or from being unmounted.
pub fn run(settings: &Settings, ready: impl FnOnce(&[String])) -> Result<(), Error> {
    let signals = daemon::end_signals().context("wait for", "signals")?;
    let server = Server::start(settings)?;
    ready(server.mounted.remarks());
    server.tend(&signals)
}

/// The same for a process that was started for it.
///
/// # Errors
/// As [`run`]; whoever started it was told as well.
pub fn run_detached() -> Result<(), Error> {
    daemon::become_daemon().context("become", "a daemon")?;
    let copy =
        |of: rustix::fd::BorrowedFd<'_>| of.try_clone_to_owned().map(File::from).context("keep", "a pipe");
    let settings: Settings =
        hear(&mut BufReader::new(copy(io::stdin().as_fd())?)).context("read", "the settings")?;
    let mut starter = copy(io::stdout().as_fd())?;
    let begun = begin_detached(&settings);
    let answer = match &begun {
        Ok((server, _)) => Started::Ready { remarks: server.mounted.remarks().to_vec() },
        Err(error) => Started::Failed(error.to_string()),
    };
    let heard = say(&mut starter, &answer);
    // Whoever started it waits for the end of this.
    drop(starter);
    let (server, signals) = begun?;
    if let Err(error) = heard {
        // Nobody there to hear it: nobody would know of the mount either.
        server.end()?;
        return Ok(Err(error).context("speak to", "the program that mounts")?);
    }
    server.tend(&signals)
}

fn begin_detached(settings: &Settings) -> Result<(Server, OwnedFd), Error> {
    let signals = daemon::end_signals().context("wait for", "signals")?;
    let server = Server::start(settings)?;
    let log = server.place.log();
    let opened = OpenOptions::new().create(true).append(true).open(&log);
    if let Err(error) = opened.and_then(|opened| daemon::redirect(&opened)) {
        server.end()?;
        return Ok(Err(error).context("write", &log)?);
    }
    let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(io::stderr).try_init();
    Ok((server, signals))
}

struct Server {
    mounted: Mounted,
    keeper: Option<Keeper>,
    listener: UnixListener,
    place: Place,
}

impl Server {
    fn start(settings: &Settings) -> Result<Self, Error> {
        check_rights()?;
        let point = mount_point::name_of(&settings.mount.mount_point);
        make_way(&point)?;
        let place = Place::of(&point);
        place.make()?;
        let started = (|| {
            place.set_record(&Record::own(&settings.mount.source, &point))?;
            let control = place.control();
            let listener = UnixListener::bind(&control).context("listen on", &control)?;
            listener.set_nonblocking(true).context("listen on", &control)?;
            let (mounted, keeper) = begin(settings)?;
            Ok((mounted, keeper, listener))
        })();
        match started {
            Ok((mounted, keeper, listener)) => Ok(Self { mounted, keeper, listener, place }),
            Err(error) => {
                place.remove()?;
                Err(error)
            }
        }
    }

    /// Answers clients until the mount is to go, then lets it go.
    fn tend(self, signals: &OwnedFd) -> Result<(), Error> {
        let mut ending: Option<Instant> = None;
        while self.mounted.is_serving() {
            let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut ready, Some(if ending.is_some() { &ENDING_POLL } else { &SERVING_POLL })) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => Err(error).context("wait for", "clients")?,
            }
            let signalled = !ready[0].revents().is_empty();
            let called = !ready[1].revents().is_empty();
            if signalled {
                daemon::drain(signals);
            }
            let asked = called && self.answer_one();
            match ending {
                Some(since) if signalled || since.elapsed() >= LINGER => break,
                None if signalled || asked => {
                    tracing::info!("unmounting");
                    if self.mounted.begin_unmount()? {
                        tracing::info!("files are open: their users have {} s", LINGER.as_secs());
                    }
                    ending = Some(Instant::now());
                }
                _ => {}
            }
        }
        self.end()
    }

    /// Takes the mount away, and what the server has left where its clients find it.
    fn end(self) -> Result<(), Error> {
        // Saves what was learnt: before the end, which may have to wait for a disk.
        drop(self.keeper);
        let ended = self.mounted.end(Duration::ZERO);
        self.place.remove()?;
        ended
    }

    fn status(&self) -> MountStatus {
        MountStatus { kept: self.keeper.as_ref().map(Keeper::status), ..self.mounted.status() }
    }

    /// Answers one client; whether it asked to unmount.
    fn answer_one(&self) -> bool {
        let Ok((stream, _)) = self.listener.accept() else { return false };
        match self.converse(&stream) {
            Ok(unmount) => unmount,
            Err(error) => {
                tracing::warn!("a client went wrong: {error}");
                false
            }
        }
    }

    fn converse(&self, stream: &UnixStream) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(CLIENT_LIMIT))?;
        stream.set_write_timeout(Some(CLIENT_LIMIT))?;
        let ask = match hear(&mut BufReader::new(stream)) {
            Ok(ask) => ask,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                say(&mut &*stream, &Reply::Refused(format!("not understood: {error}")))?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let reply = match ask {
            Ask::Status => Reply::Status(Box::new(self.status())),
            Ask::Unmount => Reply::Done,
        };
        say(&mut &*stream, &reply)?;
        Ok(ask == Ask::Unmount)
    }
}

/// Mounts, with what was learnt before; what keeps that from being used or kept is a remark.
fn begin(settings: &Settings) -> Result<(Mounted, Option<Keeper>), Error> {
    let mut remarks = Vec::new();
    let shelf = said(settings.shelf().transpose(), &mut remarks);
    let kept = shelf.as_ref().filter(|_| !settings.forget).map(Shelf::load);
    let (lessons, classes) = said(kept.transpose().map(Option::flatten), &mut remarks).unzip();
    let mut mounted = Mounted::start(&settings.mount, settings.read_path(lessons)?)?;
    remarks.into_iter().for_each(|remark| mounted.add_remark(remark));
    let keep = |shelf| Keeper::start(shelf, mounted.reads(), classes.unwrap_or(0), keeper::PERIOD);
    let keeper = shelf.map(keep).transpose().context("start", "threads")?;
    Ok((mounted, keeper))
}

/// What there is, if anything; why there is not becomes a remark.
fn said<T>(result: Result<Option<T>, String>, remarks: &mut Vec<String>) -> Option<T> {
    result.unwrap_or_else(|remark| {
        remarks.push(remark);
        None
    })
}

/// Frees a mount point of what a dead server left; refuses if a live one serves it.
fn make_way(point: &Path) -> Result<(), Error> {
    let found = Place::find(point)?;
    if let Some((_, record)) = &found
        && record.alive()
    {
        return Err(Error::AlreadyMounted { path: point.to_owned(), pid: record.pid });
    }
    if mount_point::is_ours(point) {
        tracing::info!("freeing {} of what a dead server left", point.display());
        mount_point::free(point)?;
    }
    found.map_or_else(|| Place::of(point), |(place, _)| place).remove()
}
