//! The server's process: how it starts, what it listens to, how it ends.
//!
//! `attach` runs `PROGRAM disk serve`, which starts the server proper in a session of its own and
//! ends, so that the server is nobody's child. The options come on standard input as one line, and
//! one line on standard output tells how it went; from then on the server writes to its log.
//!
//! It ends when asked to detach or on SIGTERM, SIGINT or SIGHUP: it asks the kernel for the device
//! back, goes on serving until the last user has closed it, frees everything and exits. A second
//! signal makes it exit at once; `detach` then cleans up, as after a crash.

use crate::protocol::{Ask, Laid, Reply, Started};
use crate::running::{Lay, Running};
use crate::state::Place;
use crate::{AttachOptions, Error};
use foreseek_export::Context;
use foreseek_export::daemon;
use foreseek_export::wire::{hear, say};
use foreseek_units::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Who waits for the disk to be attached, in messages.
const STARTER: &str = "the program that attaches the disk";
/// Longest wait for a client's line, and for it to take the answer; others wait meanwhile.
const CLIENT_LIMIT: Duration = Duration::from_secs(2);
/// Between looks at whether the device is free, while it is being detached.
const DETACH_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Between looks at whether the kernel still asks for anything.
const SERVING_POLL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Runs the server if the arguments say so (`disk serve [--detached]`): for programs other than
/// `foreseek` that attach disks. Call it first in `main`.
#[must_use]
pub fn run_if_asked() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["disk", "serve"] => Some(run(false)),
        ["disk", "serve", "--detached"] => Some(run(true)),
        _ => None,
    }
}

/// Runs the server: not `detached`, it only starts itself anew in a session of its own.
#[must_use]
pub fn run(detached: bool) -> ExitCode {
    let result = if detached { serve() } else { launch() };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(2)
        }
    }
}

fn launch() -> Result<(), Error> {
    let program = std::env::current_exe().context("find", "this program's own file")?;
    let server = Command::new(&program).args(["disk", "serve", "--detached"]).spawn();
    Ok(server.map(drop).context("run", &program)?)
}

fn serve() -> Result<(), Error> {
    daemon::become_daemon().context("become", "a daemon")?;
    // Standard input and output are given up soon, but who attaches is still spoken with.
    let copy = |of: BorrowedFd<'_>| of.try_clone_to_owned().map(File::from).context("keep", "a pipe");
    let mut from_starter = BufReader::new(copy(io::stdin().as_fd())?);
    let mut to_starter = copy(io::stdout().as_fd())?;
    let options: AttachOptions = hear(&mut from_starter).context("read", "the options")?;
    let mut lay = |file: &Path, size: Bytes| {
        let ask = Started::Lay { file: file.to_owned(), size_bytes: size.get() };
        say(&mut to_starter, &ask).context("speak to", STARTER)?;
        let laid: Laid = hear(&mut from_starter).context("hear from", STARTER)?;
        Ok((laid.device.map_err(Error::Refused)?, laid.measured))
    };
    match begin(&options, &mut lay) {
        Ok((running, signals, listener)) => {
            let ready = Started::Ready {
                name: running.place().name(),
                device: running.device().to_owned(),
                remarks: running.remarks().to_vec(),
                precautions: running.precautions().to_vec(),
            };
            // Nobody there to hear it: nobody would know of the disk either.
            say(&mut to_starter, &ready).context("speak to", STARTER)?;
            // Whoever attached waits for the end of these.
            drop((to_starter, from_starter));
            tend(running, &signals, &listener)
        }
        Err(error) => {
            let _ = say(&mut to_starter, &Started::Failed(error.to_string()));
            Err(error)
        }
    }
}

fn begin(options: &AttachOptions, lay: &mut Lay<'_>) -> Result<(Running, OwnedFd, UnixListener), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing {
            what: "the right to mount and to attach loop devices".to_owned(),
            remedy: "run this as root".to_owned(),
        });
    }
    let place = Place::make(options.name.as_deref())?;
    let log = OpenOptions::new().create(true).append(true).open(place.log());
    let log = log.and_then(|log| daemon::redirect(&log)).context("write", place.log());
    let signals = daemon::end_signals().context("wait for", "signals");
    let (signals, ()) = match (signals, log) {
        (Ok(signals), Ok(log)) => (signals, log),
        (Err(error), _) | (_, Err(error)) => {
            place.remove()?;
            return Err(error.into());
        }
    };
    let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(io::stderr).try_init();
    // It listens before the record says that it is ready, so that who sees the record is heard.
    let control = place.control();
    let listener = UnixListener::bind(&control).context("listen on", &control);
    let running = Running::start(options, place, lay)?;
    Ok((running, signals, listener?))
}

/// Answers clients until the disk is to go, then lets it go.
fn tend(mut running: Running, signals: &OwnedFd, listener: &UnixListener) -> Result<(), Error> {
    listener.set_nonblocking(true).context("listen on", running.place().control())?;
    let mut detaching = false;
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut ready, Some(if detaching { &DETACH_POLL } else { &SERVING_POLL })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => Err(error).context("wait for", "clients")?,
        }
        let signalled = !ready[0].revents().is_empty();
        let called = !ready[1].revents().is_empty();
        if signalled {
            daemon::drain(signals);
            if detaching {
                tracing::error!("asked to end a second time while the disk is in use: leaving it behind");
                std::process::exit(1);
            }
        }
        if !running.is_serving() {
            // All requests fail now. What is left is for `detach` to free: users may sit on it.
            tracing::error!("the FUSE mount was taken away or aborted by someone else: the disk is dead");
            std::process::exit(1);
        }
        let asked = called && accept(&mut running, listener);
        if (signalled || asked) && !detaching {
            tracing::info!("detaching");
            running.begin_detach()?;
            detaching = true;
        }
        if detaching && running.is_detached() {
            return running.end();
        }
    }
}

/// Answers one client; whether it asked to detach.
fn accept(running: &mut Running, listener: &UnixListener) -> bool {
    let Ok((stream, _)) = listener.accept() else { return false };
    match converse(running, &stream) {
        Ok(detach) => detach,
        Err(error) => {
            tracing::warn!("a client went wrong: {error}");
            false
        }
    }
}

fn converse(running: &mut Running, stream: &UnixStream) -> io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CLIENT_LIMIT))?;
    stream.set_write_timeout(Some(CLIENT_LIMIT))?;
    let ask: Ask = match hear(&mut BufReader::new(stream)) {
        Ok(ask) => ask,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            say(&mut &*stream, &Reply::Refused(format!("not understood: {error}")))?;
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let detach = ask == Ask::Detach;
    let mut to = BufWriter::new(stream);
    let done =
        |result: Result<(), Error>| result.map_or_else(|error| Reply::refused(&error), |()| Reply::Done);
    let reply = match ask {
        Ask::Ping | Ask::Detach => Reply::Done,
        Ask::Stats { reset } => match running.stats(reset) {
            Ok(stats) => Reply::Stats(Box::new(stats)),
            Err(error) => Reply::refused(&error),
        },
        Ask::Set(set) => done(running.set(&set)),
        Ask::LogStart { capacity } => done(running.log_start(capacity)),
        Ask::LogStop => match running.log_stop() {
            Ok(log) => {
                say(&mut to, &Reply::Log { entries: log.entries.len(), missed: log.missed })?;
                log.entries.iter().try_for_each(|entry| say(&mut to, entry))?;
                to.flush()?;
                return Ok(false);
            }
            Err(error) => Reply::refused(&error),
        },
    };
    say(&mut to, &reply)?;
    to.flush()?;
    Ok(detach)
}
