//! The server's process: how it starts, what it waits for, how it ends.
//!
//! [`run`] serves in the foreground. [`run_detached`] is what [`client::mount`](crate::daemon::client::mount)
//! starts ([`foreseek_server::Launch`]).
//!
//! It ends on SIGTERM, SIGINT or SIGHUP, on a request on its socket, and when another process unmounts it.
//! Files that are open then stay usable for [`LINGER`]; a second signal ends that at once.

use crate::daemon::place::{self, LIST, Record};
use crate::daemon::protocol::{Ready, ServerRequest};
use crate::daemon::state_saver::{self, StateDir, StateSaver};
use crate::fs::mount_point;
use crate::fs::mounted::check_rights;
use crate::{Error, MountStatus, Mounted, Settings};
use foreseek_server::{
    Answer, Client, Context, Control, Daemon, EndSignals, Ending, Kind, ServerFolder, ServerProcess,
    absolute_path, run_directory, run_server,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long files that are open at the unmount stay usable. A program that got a signal at the same time has
/// enough time to end. It is shorter than the 90 s after which systemd kills.
pub(crate) const LINGER: Duration = Duration::from_secs(30);

/// Longest wait for the server of the mount that was on a mount point: one without users saves what it has learnt and
/// ends, which takes no longer on a busy disk.
const ENDING_LIMIT: Duration = Duration::from_secs(10);
/// Between checks of it.
const ENDING_POLL: Duration = Duration::from_millis(20);

/// Mounts and serves until it has to end. `ready` is called once it is mounted, with the warnings.
///
/// # Errors
/// The reason why it cannot be mounted, nothing is left behind then; or why it cannot be unmounted.
pub fn run(settings: &Settings, ready: impl FnOnce(&[String])) -> Result<(), Error> {
    let (server, control) = Server::start(settings)?;
    ready(server.mounted.warnings());
    run_server(server, &control)
}

/// The same for a process that was started for it.
///
/// # Errors
/// As [`run`]; the process that started it gets the error as well.
pub fn run_detached() -> Result<(), Error> {
    foreseek_server::run_detached(Kind::Mount, |settings, _| {
        let (server, control) = Server::start(&settings)?;
        if let Err(error) = server.folder.log_here() {
            server.end(Ending::Orphaned)?;
            return Err(error.into());
        }
        Ok((server, control))
    })
}

struct Server {
    mounted: Mounted,
    saver: Option<StateSaver>,
    folder: ServerFolder,
}

impl Server {
    fn start(settings: &Settings) -> Result<(Self, Control), Error> {
        check_rights()?;
        let mount_point = absolute_path(&mount_point::name_of(&settings.mount.mount_point))?;
        make_way(&mount_point)?;
        let folder = place::folder_of(&mount_point);
        let signals = EndSignals::block()?;
        folder.make()?;
        let started = (|| {
            let source = absolute_path(&settings.mount.source)?;
            folder.set_record(&Record { server: ServerProcess::own(), source, mount_point })?;
            let control = Control::open(signals, &folder)?;
            let (mounted, saver) = begin(settings)?;
            Ok((mounted, saver, control))
        })();
        match started {
            Ok((mounted, saver, control)) => Ok((Self { mounted, saver, folder }, control)),
            Err(error) => {
                folder.remove()?;
                Err(error)
            }
        }
    }
}

impl Daemon for Server {
    type ServerRequest = ServerRequest;
    type Ready = Ready;
    type Error = Error;

    fn ready(&self) -> Ready {
        Ready { warnings: self.mounted.warnings().to_vec() }
    }

    fn answer(&mut self, ask: ServerRequest) -> Result<Answer<ServerRequest>, Error> {
        let ServerRequest::Status = ask;
        let kept = self.saver.as_ref().map(StateSaver::status);
        Ok(Answer::Reply(MountStatus { kept, ..self.mounted.status() }, Vec::new()))
    }

    fn is_serving(&self) -> bool {
        self.mounted.is_serving()
    }

    fn begin_end(&mut self) -> Result<(), Error> {
        tracing::info!("unmounting");
        if self.mounted.begin_unmount()? {
            tracing::info!("files are open: their users have {} s", LINGER.as_secs());
        }
        Ok(())
    }

    fn may_end(&self, begun: Instant) -> bool {
        begun.elapsed() >= LINGER
    }

    /// Unmounts, and removes the folder where clients find the server.
    fn end(self, _: Ending) -> Result<(), Error> {
        // Saves what was learnt: before the unmount, which may have to wait for a disk.
        drop(self.saver);
        let ended = self.mounted.end(Duration::ZERO);
        self.folder.remove()?;
        ended
    }
}

/// Mounts, with the state that earlier mounts have learnt. An error with that state is a warning.
fn begin(settings: &Settings) -> Result<(Mounted, Option<StateSaver>), Error> {
    let mut warnings = Vec::new();
    let state_dir = or_warning(settings.state_dir().transpose(), &mut warnings);
    let kept = state_dir.as_ref().filter(|_| !settings.forget).map(StateDir::load);
    let (learnt, classes) = or_warning(kept.transpose().map(Option::flatten), &mut warnings).unzip();
    let mut mounted = Mounted::start(&settings.mount_options(), settings.read_path(learnt)?)?;
    warnings.into_iter().for_each(|warning| mounted.add_warning(warning));
    let keep =
        |state_dir| StateSaver::start(state_dir, mounted.reads(), classes.unwrap_or(0), state_saver::PERIOD);
    let saver = state_dir.map(keep).transpose().context("start", "threads")?;
    Ok((mounted, saver))
}

/// The value, if there is one; an error becomes a warning.
fn or_warning<T>(result: Result<Option<T>, String>, warnings: &mut Vec<String>) -> Option<T> {
    result.unwrap_or_else(|warning| {
        warnings.push(warning);
        None
    })
}

/// Waits for the end of a server whose mount another process has taken away. Refuses if its mount is there, and if
/// it does not end.
fn wait_while_ending(folder: &ServerFolder, server: ServerProcess, point: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + ENDING_LIMIT;
    // A request wakes the server, which looks once a second by itself whether its mount is there.
    if server.is_alive() && !mount_point::is_ours(point) {
        let _ = Client::of(folder).ping();
    }
    while !server.wait_for_end(ENDING_POLL) {
        let (path, pid) = (point.to_owned(), server.pid);
        if mount_point::is_ours(point) {
            return Err(Error::AlreadyMounted { path, pid });
        }
        if Instant::now() >= deadline {
            return Err(Error::Ending { path, pid });
        }
    }
    Ok(())
}

/// Frees a mount point of a dead server's leftovers, after waiting for one that is ending; refuses if a live server
/// serves it.
fn make_way(point: &Path) -> Result<(), Error> {
    // A run directory that does not exist has no records: this mount will create it.
    let found = if run_directory().exists() { place::find(point, LIST)? } else { None };
    if let Some((folder, Record { server, .. })) = &found {
        wait_while_ending(folder, *server, point)?;
    }
    if mount_point::is_ours(point) {
        tracing::info!("freeing {} of what a dead server left", point.display());
        mount_point::free(point)?;
    }
    // Its name may be that of an earlier version.
    found.map_or(Ok(()), |(folder, _)| folder.remove())?;
    Ok(place::folder_of(point).remove()?)
}
