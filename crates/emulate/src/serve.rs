//! The server's process: how it starts, what it listens to, how it ends.
//!
//! `attach` runs `PROGRAM disk serve` ([`foreseek_server::Launch`]). It ends when asked to detach or on
//! SIGTERM, SIGINT or SIGHUP: it asks the kernel for the device back, goes on serving until the last user
//! has closed it, frees everything and exits. A second signal makes it exit at once; `detach` then cleans
//! up, as after a crash.

use crate::protocol::{Attached, Laid, Lay, Reply, ServerRequest};
use crate::running::Running;
use crate::state::{self, GuardedFolder};
use crate::{AttachOptions, Error};
use foreseek_server::{Answer, Control, Daemon, Ending, NotRoot, Starter, run_detached};
use foreseek_units::Bytes;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the server if the arguments say so (`disk serve`): for programs other than `foreseek` that
/// attach disks. Call it first in `main`.
#[must_use]
pub fn run_if_asked() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    (arguments == ["disk", "serve"]).then(run)
}

/// Runs the server.
#[must_use]
pub fn run() -> ExitCode {
    match run_detached(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(2)
        }
    }
}

fn start(options: AttachOptions, starter: &mut Starter) -> Result<(Running, Control), Error> {
    NotRoot::check("attach an emulated disk")?;
    let folder = GuardedFolder(state::make(options.name.as_deref())?);
    folder.0.log_here()?;
    // It listens before the record says that it is ready, so that who sees the record is heard.
    let control = Control::open(&folder.0)?;
    let mut lay = |file: &Path, size: Bytes| {
        let laid: Laid = starter.ask(&Lay { file: file.to_owned(), size_bytes: size.get() })?;
        Ok((laid.device.map_err(Error::Refused)?, laid.measured))
    };
    Ok((Running::start(&options, folder, &mut lay)?, control))
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
            // All requests fail now. What is left is for `detach` to free: users may sit on it.
            Ending::Vanished => {
                tracing::error!("the FUSE mount was taken away or aborted by someone else: the disk is dead");
            }
        }
        std::process::exit(1)
    }
}
