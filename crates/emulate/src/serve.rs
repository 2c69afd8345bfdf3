//! The server's process: how it starts, listens and ends.
//!
//! `attach` runs `PROGRAM disk serve` ([`foreseek_server::Launch`]). The server ends on a request to detach
//! and on SIGTERM, SIGINT or SIGHUP. It requests that the kernel free the device, serves until the last user
//! has closed it, frees everything and exits. A second signal makes it exit at once; `detach` then cleans up,
//! as after a crash.

use crate::protocol::{AttachLoop, Attached, LoopAttached, Reply, ServerRequest};
use crate::running::Running;
use crate::state::{self, GuardedFolder};
use crate::{AttachOptions, Error};
use foreseek_server::{Answer, Control, Daemon, EndSignals, Ending, Kind, NotRoot, Starter, run_detached};
use foreseek_units::Bytes;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the server if the arguments say so (`disk serve`): for programs other than `foreseek` that
/// attach disks. Call it first in `main`.
#[must_use]
pub fn run_if_requested() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    (arguments == ["disk", "serve"]).then(run)
}

/// Runs the server.
#[must_use]
pub fn run() -> ExitCode {
    match run_detached(Kind::Disk, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(2)
        }
    }
}

fn start(options: AttachOptions, starter: &mut Starter) -> Result<(Running, Control), Error> {
    NotRoot::check("attach an emulated disk")?;
    let signals = EndSignals::block()?;
    let folder = GuardedFolder(state::make(options.name.as_deref())?);
    folder.0.log_here()?;
    // It listens before the record says that it is ready: a client that reads the record can connect.
    let control = Control::open(signals, &folder.0)?;
    let mut attach = |file: &Path, size: Bytes| {
        let attached: LoopAttached =
            starter.ask(&AttachLoop { file: file.to_owned(), size_bytes: size.get() })?;
        Ok((attached.device.map_err(Error::Refused)?, attached.measured))
    };
    Ok((Running::start(&options, folder, &mut attach)?, control))
}

impl Daemon for Running {
    type ServerRequest = ServerRequest;
    type Ready = Attached;
    type Error = Error;

    fn ready(&self) -> Attached {
        self.attached()
    }

    fn answer(&mut self, ask: ServerRequest) -> Result<Answer<ServerRequest>, Error> {
        match ask {
            ServerRequest::Stats { reset } => {
                Ok(Answer::Reply(Reply::Stats(Box::new(self.stats(reset)?)), Vec::new()))
            }
            ServerRequest::Set(set) => self.set(&set).map(|()| Answer::Done),
            ServerRequest::LogStart { capacity } => self.log_start(capacity).map(|()| Answer::Done),
            ServerRequest::Dismiss => {
                self.dismiss();
                Ok(Answer::Done)
            }
            ServerRequest::LogStop => {
                let log = self.log_stop()?;
                Ok(Answer::Reply(Reply::Log { missed: log.missed }, log.entries))
            }
        }
    }

    fn is_serving(&self) -> bool {
        self.is_exported()
    }

    fn begin_end(&mut self) -> Result<(), Error> {
        tracing::info!("detaching");
        self.begin_detach()
    }

    fn may_end(&self, _: Instant) -> bool {
        self.is_detached()
    }

    fn end(self, why: Ending) -> Result<(), Error> {
        match why {
            Ending::Clean => return self.detach(),
            // Dropping it frees what can be freed.
            Ending::Orphaned => return Ok(()),
            Ending::Forced => {
                tracing::error!("asked to end a second time while the disk is in use: leaving it behind");
            }
            // All requests fail now. The device may still have users, so `detach` frees the rest.
            Ending::Vanished => {
                tracing::error!("another process unmounted or aborted the FUSE mount: the disk is dead");
            }
        }
        std::process::exit(1)
    }
}
