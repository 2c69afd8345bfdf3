//! The watcher's process: its start, its requests and its end.

use super::place::{GROUP, Ready, Record, ServerRequest, clean, folder};
use crate::budget::Confined;
use crate::error::{Error, Result};
use crate::{Options, WatchStatus, Watcher};
use foreseek_server::{
    Answer, CallError, Control, Daemon, EndSignals, Ending, Kind, MemoryGroup, ServerProcess, run_server,
};
use foreseek_units::Bytes;
use std::time::Instant;

/// The part of the control group's limit besides the window: the daemon's own memory, and the kernel's for open
/// files.
const BESIDES_BYTES: u64 = 320 << 20;

/// Watches until it is stopped. `ready` is called once it watches.
///
/// # Errors
/// The reason why it could not start, and then nothing is left behind; or why it did not end in order.
pub fn run(options: &Options, ready: impl FnOnce(&WatchStatus)) -> Result<()> {
    let (server, control) = Server::start(options)?;
    ready(&server.status());
    run_server(server, &control)
}

/// The same for a process that was started for it.
///
/// # Errors
/// As [`run`]; the process that started it gets the error as well.
pub fn run_detached() -> Result<()> {
    foreseek_server::run_detached(Kind::Watch, |options, _| {
        let (server, control) = Server::start(&options)?;
        if let Err(error) = folder().log_here() {
            server.end(Ending::Orphaned)?;
            return Err(error.into());
        }
        Ok((server, control))
    })
}

struct Server {
    watcher: Watcher,
    group: Option<MemoryGroup>,
    warnings: Vec<String>,
}

impl Server {
    fn start(options: &Options) -> Result<(Self, Control)> {
        remove_stale()?;
        let folder = folder();
        let signals = EndSignals::block()?;
        folder.make().map_err(denied)?;
        let record = Record { server: ServerProcess::own(), group: MemoryGroup::planned(GROUP) };
        let started = (|| {
            folder.set_record(&record)?;
            let control = Control::open(signals, &folder)?;
            let window = crate::current_window(options);
            let (group, warnings) = enter_group(window);
            let own = group.as_ref().filter(|group| group.has_own_limit());
            let confined = own.map(|group| Confined { group: group.path().to_owned(), window });
            match Watcher::start_confined(options, confined) {
                Ok(watcher) => Ok((Self { watcher, group, warnings }, control)),
                Err(error) => {
                    group.map_or(Ok(()), MemoryGroup::leave)?;
                    Err(error)
                }
            }
        })();
        if started.is_err() {
            folder.remove()?;
        }
        started
    }

    fn status(&self) -> WatchStatus {
        let group = self.group.as_ref().map(|group| group.path().to_owned());
        WatchStatus { group, warnings: self.warnings.clone(), ..self.watcher.status() }
    }
}

impl Daemon for Server {
    type ServerRequest = ServerRequest;
    type Ready = Ready;
    type Error = Error;

    fn ready(&self) -> Ready {
        Ready { status: self.status() }
    }

    fn answer(&mut self, ask: ServerRequest) -> Result<Answer<ServerRequest>> {
        let ServerRequest::Status = ask;
        Ok(Answer::Reply(Box::new(self.status()), Vec::new()))
    }

    fn is_serving(&self) -> bool {
        self.watcher.is_running()
    }

    fn begin_end(&mut self) -> Result<()> {
        Ok(())
    }

    fn may_end(&self, _: Instant) -> bool {
        true
    }

    fn end(self, why: Ending) -> Result<()> {
        drop(self.watcher);
        let left = self.group.map_or(Ok(()), MemoryGroup::leave);
        folder().remove()?;
        left?;
        if why == Ending::Vanished {
            return Err(Error::Server("the watching thread has failed".to_owned()));
        }
        Ok(())
    }
}

/// Charges the pages that it fetches to a control group of its own; returns a warning if that is not possible.
fn enter_group(window: Bytes) -> (Option<MemoryGroup>, Vec<String>) {
    let without = |why: String| {
        format!(
            "the pages that are read ahead are charged to no control group of their own ({why}): only --share and --memory limit them"
        )
    };
    match MemoryGroup::enter(GROUP, window.get().saturating_mul(2).saturating_add(BESIDES_BYTES)) {
        Ok(Some(group)) => (Some(group), Vec::new()),
        Ok(None) => (None, vec![without("no control group can limit memory here".to_owned())]),
        Err(error) => (None, vec![without(error.to_string())]),
    }
}

fn denied(error: CallError) -> Error {
    error.or_not_root("watch file systems")
}

/// Removes what a dead watcher left; refuses if another one is alive.
fn remove_stale() -> Result<()> {
    match folder().record::<Record>().map_err(denied)? {
        Some(record) if record.server.is_alive() => Err(Error::Running(record.server.pid)),
        Some(record) => clean(&record),
        None => Ok(folder().remove()?),
    }
}
