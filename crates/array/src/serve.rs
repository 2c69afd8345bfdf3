//! The server's process. `attach` runs `PROGRAM array serve`. It ends on a detach request or on SIGTERM,
//! SIGINT or SIGHUP. It then requests that the kernel free the device, and serves until the last user has
//! closed it. Finally it frees everything and exits.

use crate::below::Below;
use crate::pause::PauseWatch;
use crate::served::{Served, Started};
use crate::state::{self, Attached, GuardedFolder, Lay, Record, ServerRequest};
use crate::{AttachOptions, Error, Status};
use foreseek_export::{Export, ExportError, ExportOptions, NbdExport};
use foreseek_nbd::Offer;
use foreseek_server::{
    Answer, Context, Control, Daemon, EndSignals, Ending, Kind, NotRoot, ServerProcess, Starter,
    leave_limited, precautions, run_detached,
};
use foreseek_units::Bytes;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads that receive requests: each is busy while it copies a hit's answer.
const THREADS: usize = 4;

struct Running {
    // In the order of dropping.
    _pause: PauseWatch,
    nbd: Option<NbdExport>,
    export: Option<Export>,
    served: Arc<Served>,
    folder: GuardedFolder,
    device: Option<PathBuf>,
    warnings: Vec<String>,
    precautions: Vec<String>,
}

/// Runs the server.
#[must_use]
pub fn run() -> ExitCode {
    match run_detached(Kind::Array, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(2)
        }
    }
}

fn start(options: AttachOptions, starter: &mut Starter) -> Result<(Running, Control), Error> {
    NotRoot::check("attach an array")?;
    let signals = EndSignals::block()?;
    let folder = GuardedFolder(state::make(options.name.as_deref())?);
    folder.0.log_here()?;
    let control = Control::open(signals, &folder.0)?;
    let left = leave_limited("array")?;
    let mut warnings = Vec::from_iter(left.warning);
    let below = Below::open(&options.device)?;
    warnings.extend(below.lvm_warning());
    let (size, block, read_ahead) = (below.length(), below.block(), below.read_ahead());
    let mut record = Record {
        server: ServerProcess::own(),
        ready: false,
        below: below.path().to_owned(),
        asked: options.device.clone(),
        size_bytes: size.get(),
        connection: None,
        device: None,
        cgroup: left.made,
        nbd: None,
    };
    folder.0.set_record(&record)?;
    let taken = [precautions::io_flusher(), precautions::avoid_oom_killer(), precautions::lock_memory()];
    let missing: Vec<String> = taken.into_iter().flatten().collect();
    missing.iter().for_each(|missing| tracing::warn!("{missing}"));
    warnings.extend(precautions::raise_priority());
    let Started { served, pause, warning } = Served::start(&options, below)?;
    warnings.extend(warning);
    let mut running = Running {
        _pause: pause,
        nbd: None,
        export: None,
        served,
        folder,
        device: None,
        warnings,
        precautions: missing,
    };
    if options.loop_device {
        let lay = |file| Lay { file, block_bytes: block.get(), read_ahead_bytes: read_ahead.get() };
        running.make_loop_device(size, lay, &mut record, starter)?;
    }
    if let Some(address) = &options.nbd {
        let (name, below) = (running.folder.0.name(), record.below.display());
        let offer = Offer { name, description: format!("the array {below}"), size, block, rotational: true };
        let server: Arc<Served> = Arc::clone(&running.served);
        let nbd = NbdExport::start(server, offer, address).map_err(export_error)?;
        record.nbd = Some(nbd.address().clone());
        running.nbd = Some(nbd);
    }
    record.ready = true;
    running.folder.0.set_record(&record)?;
    Ok((running, control))
}

impl Running {
    /// Makes the loop device.
    fn make_loop_device(
        &mut self,
        size: Bytes,
        lay: impl Fn(PathBuf) -> Lay,
        record: &mut Record,
        starter: &mut Starter,
    ) -> Result<(), Error> {
        let folder = &self.folder.0;
        let mount_point = folder.mount_point();
        fs::create_dir(&mount_point).context("make", &mount_point)?;
        let name = format!("foreseek:{}", folder.name());
        let request_timeout = foreseek_export::request_timeout().map_err(export_error)?;
        let options = ExportOptions { mount_point, size, threads: THREADS, name, request_timeout };
        let server: Arc<Served> = Arc::clone(&self.served);
        let export = self.export.insert(Export::mount(server, options).map_err(export_error)?);
        self.warnings.extend_from_slice(export.warnings());
        record.connection = export.connection();
        folder.set_record(record)?;
        let laid: Result<PathBuf, String> = starter.ask(&lay(export.file()))?;
        self.device = Some(laid.map_err(Error::Refused)?);
        record.device.clone_from(&self.device);
        Ok(folder.set_record(record)?)
    }
}

impl Daemon for Running {
    type ServerRequest = ServerRequest;
    type Ready = Attached;
    type Error = Error;

    fn ready(&self) -> Attached {
        let name = self.folder.0.name();
        let nbd = self.nbd.as_ref().map(|nbd| nbd.address().uri(&name));
        Attached { name, device: self.device.clone(), nbd, warnings: self.warnings.clone() }
    }

    fn answer(&mut self, ask: ServerRequest) -> Result<Answer<ServerRequest>, Error> {
        match ask {
            ServerRequest::Status => {
                let clients = self.nbd.as_ref().map(NbdExport::clients).unwrap_or_default();
                let precautions = self.precautions.clone();
                Ok(Answer::Reply(Status { clients, precautions, ..self.served.status() }, Vec::new()))
            }
            ServerRequest::Dismiss => {
                self.nbd.iter().for_each(NbdExport::dismiss);
                Ok(Answer::Done)
            }
        }
    }

    fn is_serving(&self) -> bool {
        self.export.as_ref().is_none_or(Export::is_serving)
            && self.nbd.as_ref().is_none_or(NbdExport::is_serving)
    }

    fn begin_end(&mut self) -> Result<(), Error> {
        self.nbd.iter().for_each(NbdExport::stop_listening);
        self.export.as_ref().map_or(Ok(()), Export::begin_detach).map_err(export_error)
    }

    fn may_end(&self, _: Instant) -> bool {
        self.export.as_ref().is_none_or(|export| export.device().is_none())
            && self.nbd.as_ref().is_none_or(|nbd| nbd.clients().is_empty())
    }

    fn end(mut self, why: Ending) -> Result<(), Error> {
        match why {
            Ending::Clean => {
                drop(self.nbd.take());
                let unmounted = self.export.take().map_or(Ok(()), |export| export.end(Duration::ZERO));
                return self.folder.0.remove().map_err(Error::from).and(unmounted.map_err(export_error));
            }
            // Dropping it frees what can be freed.
            Ending::Orphaned => return Ok(()),
            Ending::Forced => tracing::error!("asked to end a second time while in use: leaving it behind"),
            Ending::Vanished => {
                tracing::error!("the FUSE mount was taken away or aborted: the array is dead")
            }
        }
        std::process::exit(1)
    }
}

fn export_error(error: ExportError) -> Error {
    match error {
        ExportError::Variable { name, value, remedy } => {
            Error::Invalid { option: name, value, reason: remedy.to_owned() }
        }
        error => Error::Refused(error.to_string()),
    }
}
