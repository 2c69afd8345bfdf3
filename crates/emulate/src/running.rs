//! A running disk: creates all its parts, and frees them, in order.

use crate::backing::BackingFile;
use crate::calibrate::{DELAY, fixed_schedule, path_of};
use crate::clock::ModelClock;
use crate::disk::Disk;
use crate::logbook::{CAPACITY_MOST, Logbook, RequestLog};
use crate::meter::{Gauge, Meter, share};
use crate::model::{build, check_scale, without_effect};
use crate::path::PathModel;
use crate::protocol::{Attached, Measured};
use crate::schedule::Schedule;
use crate::state::{GuardedFolder, Record};
use crate::teardown::remove_files;
use crate::timer::{Timer, TimerMessage, ToTimer, now};
use crate::{AttachOptions, Error, LbaRange, Set, Stats};
use foreseek_export::{Export, ExportError, ExportOptions, NbdExport};
use foreseek_nbd::Offer;
use foreseek_server::{Context, ServerFolder, ServerProcess, leave_limited, precautions};
use foreseek_storage::Arena;
use foreseek_units::{Bytes, Instant, Lba, Nanos};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Memory for data in flight: a full queue of 1 MiB requests.
const DATA_MEMORY: Bytes = Bytes::mib(32);
/// Threads that receive requests and move their data. With fewer, a slow backing file delays the arrival of
/// requests; more only compete for the processors.
const THREADS: usize = 4;
/// The largest volatile cache: four times that of a large disk. It takes about twice its size of memory.
const VOLATILE_MOST: Bytes = Bytes::gib(1);
/// The most failing ranges: the list is searched at each request.
const FAILING_MOST: usize = 4096;

/// See the module's documentation. Dropping it frees what can be freed without a long wait.
pub(crate) struct Running {
    // Dropped in this order.
    nbd: Option<NbdExport>,
    export: Option<Export>,
    disk: Arc<Disk>,
    folder: GuardedFolder,
    record: Record,
    device: PathBuf,
    has_model: bool,
    warnings: Vec<String>,
    precautions: Vec<String>,
    counting_since: Instant,
}

/// Attaches a loop device to a file of this size and times reads of it.
pub(crate) type AttachFn<'a> = dyn FnMut(&Path, Bytes) -> Result<(PathBuf, Measured), Error> + 'a;

impl Running {
    /// Attaches the disk that the options describe, in `folder`. `attach` attaches a loop device to its file
    /// and times reads of it, in another process.
    pub(crate) fn start(
        options: &AttachOptions,
        folder: GuardedFolder,
        attach: &mut AttachFn<'_>,
    ) -> Result<Self, Error> {
        let left = leave_limited("disk")?;
        let mut warnings = Vec::from_iter(left.warning);
        let scale = check_scale(options.time_scale)?;
        let backing = BackingFile::open(options, &folder.0.name())?;
        let size = backing.size();
        check_failing(&options.fail_lba, size)?;
        let model = build(options, size)?;
        let mut record = first_record(options, &backing);
        record.cgroup = left.made;
        folder.0.set_record(&record)?;

        warnings.extend(backing.warning());
        warnings.extend(without_effect(options));
        warnings.extend(precautions::raise_priority());
        let mut missing: Vec<String> =
            [precautions::io_flusher(), precautions::avoid_oom_killer()].into_iter().flatten().collect();
        let has_model = model.is_some();
        let disk = make(backing, Bytes(options.volatile_bytes), has_model, &mut warnings)?;
        missing.extend(precautions::lock_memory());

        let export = mount(&folder.0, Arc::clone(&disk), size)?;
        warnings.extend_from_slice(export.warnings());
        record.connection = export.connection();
        folder.0.set_record(&record)?;
        // While the path is measured, every request takes the same time.
        let delay = if has_model { DELAY } else { Nanos::ZERO };
        disk.timer().notify(TimerMessage::Schedule(Box::new(fixed_schedule(delay))));
        let (device, measured) = attach(&export.file(), size)?;
        record.device = Some(device.clone());
        folder.0.set_record(&record)?;
        let (path, bounded) = path_of(&measured, delay);
        warnings.extend(bounded);
        let schedule = model.map(|model| Schedule::new(model, ModelClock::new(now(), scale), path));
        begin(&disk, options, schedule, path);
        let nbd = serve_nbd(options, &folder.0.name(), &disk, size)?;
        record.nbd = nbd.as_ref().map(|nbd| nbd.address().clone());
        record.ready = true;
        folder.0.set_record(&record)?;
        disk.backing().keep();
        let (export, counting_since) = (Some(export), now());
        let precautions = missing;
        Ok(Self {
            nbd,
            export,
            disk,
            folder,
            record,
            device,
            has_model,
            warnings,
            precautions,
            counting_since,
        })
    }

    /// The report to the attaching program.
    pub(crate) fn attached(&self) -> Attached {
        Attached {
            name: self.folder.0.name(),
            device: self.device.clone(),
            nbd: self.nbd.as_ref().map(|nbd| nbd.address().uri(&self.folder.0.name())),
            warnings: self.warnings.clone(),
            precautions: self.precautions.clone(),
        }
    }

    /// The counters since the last reset.
    pub(crate) fn stats(&mut self, reset: bool) -> Result<Stats, Error> {
        let report = self.disk.timer().report(reset);
        let report =
            report.ok_or_else(|| Error::Refused("the disk's timer has ended: detach it".to_owned()))?;
        let mut meter = report.meter;
        {
            let mut shared = self.disk.meter();
            meter.add(&shared);
            if reset {
                *shared = Meter::new();
            }
        }
        let until = now();
        let time = until - self.counting_since;
        let (in_flight, in_flight_most) = self.disk.gauge().read(reset);
        let counters = report.counters;
        let seek_distance = counters.seek_distance.bytes();
        let mut stats = Stats {
            name: self.folder.0.name(),
            profile: self.record.profile.clone(),
            size_bytes: self.record.size_bytes,
            failed_member: self.record.failed_member,
            warnings: self.warnings.iter().chain(&self.precautions).cloned().collect(),
            power_off: self.disk.is_off(),
            fail_lba: self.disk.failing(),
            delays: self.disk.delays(),
            time_scale: report.clock.scale(),
            model_epoch_ns: report.clock.epoch().get(),
            seeks: counters.seeks,
            seek_distance_bytes: seek_distance.get(),
            mean_seek_distance_bytes: seek_distance.get().checked_div(counters.seeks).unwrap_or(0),
            buffer_hits: counters.buffer_hits,
            busy_seconds: counters.busy.as_secs_f64(),
            in_flight,
            in_flight_most,
            clients: self.nbd.as_ref().map(NbdExport::clients).unwrap_or_default(),
            spin_share: share(report.spun, time),
            spins_refused: report.spins_refused,
            path: report.path.into(),
            ..Stats::default()
        };
        meter.report(time, &mut stats);
        if reset {
            self.counting_since = until;
        }
        Ok(stats)
    }

    /// Changes the settings: all of them or none.
    pub(crate) fn set(&self, set: &Set) -> Result<(), Error> {
        let scale = set.time_scale.map(check_scale).transpose()?;
        if let Some(ranges) = &set.fail_lba {
            check_failing(ranges, self.disk.backing().size())?;
        }
        if (set.delays == Some(true) || scale.is_some()) && !self.has_model {
            return Err(Error::Invalid {
                option: if scale.is_some() { "--time-scale" } else { "--delays" },
                value: "on a disk without a profile".to_owned(),
                reason: "there is no modelled time; attach it with a profile and --no-delays".to_owned(),
            });
        }
        if let Some(scale) = scale {
            self.disk.timer().notify(TimerMessage::Scale(scale));
        }
        if let Some(on) = set.delays {
            self.disk.set_delays(on);
        }
        if let Some(ranges) = &set.fail_lba {
            self.disk.set_failing(ranges.clone());
        }
        if let Some(on) = set.power {
            let path = self.disk.backing().path().display();
            let lost = format!("cannot write to {path}: the disk's data are partly old and partly new");
            self.disk.set_power(on).map_err(|_| Error::Refused(lost))?;
        }
        Ok(())
    }

    /// Starts logging requests.
    pub(crate) fn log_start(&self, capacity: usize) -> Result<(), Error> {
        if !(1..=CAPACITY_MOST).contains(&capacity) {
            return Err(Error::Invalid {
                option: "a log's capacity of",
                value: capacity.to_string(),
                reason: format!("give a number from 1 to {CAPACITY_MOST}"),
            });
        }
        if self.disk.logbook().start(now(), capacity) {
            return Ok(());
        }
        Err(Error::Missing { what: "memory for the log".to_owned(), remedy: "log fewer requests".to_owned() })
    }

    /// Stops logging and returns the log.
    pub(crate) fn log_stop(&self) -> Result<RequestLog, Error> {
        self.disk.logbook().stop().ok_or_else(|| {
            Error::Refused("no log was started: 'foreseek disk log --start' starts one".to_owned())
        })
    }

    /// Disconnects all NBD clients.
    pub(crate) fn dismiss(&self) {
        self.nbd.iter().for_each(NbdExport::dismiss);
    }

    /// Requests that the kernel free the device; returns at once. Remaining writes go at full speed.
    pub(crate) fn begin_detach(&self) -> Result<(), Error> {
        self.disk.set_delays(false);
        self.nbd.iter().for_each(NbdExport::stop_listening);
        self.export.as_ref().map_or(Ok(()), Export::begin_detach).map_err(export_error)
    }

    /// Whether the device has no more users.
    pub(crate) fn is_detached(&self) -> bool {
        self.export.as_ref().is_none_or(|export| export.device().is_none())
            && self.nbd.as_ref().is_none_or(|nbd| nbd.clients().is_empty())
    }

    /// Whether the kernel still sends it requests: not after another process has unmounted or aborted the
    /// mount.
    pub(crate) fn is_exported(&self) -> bool {
        self.export.as_ref().is_some_and(Export::is_serving)
            && self.nbd.as_ref().is_none_or(NbdExport::is_serving)
    }

    /// Frees everything, once the device is detached.
    pub(crate) fn detach(mut self) -> Result<(), Error> {
        drop(self.nbd.take());
        let export = self.export.take();
        let unmounted = export.map_or(Ok(()), |export| export.end(Duration::ZERO)).map_err(export_error);
        remove_files(&self.folder.0, Some(&self.record)).and(unmounted)
    }
}

fn first_record(options: &AttachOptions, backing: &BackingFile) -> Record {
    Record {
        server: ServerProcess::own(),
        ready: false,
        profile: options.profile.clone(),
        size_bytes: backing.size().get(),
        failed_member: options.failed_member,
        backing: backing.path().to_owned(),
        remove_backing: backing.is_temporary(),
        connection: None,
        device: None,
        cgroup: None,
        nbd: None,
    }
}

/// The disk with its timer and its memory, before any request arrives.
fn make(
    backing: BackingFile,
    volatile: Bytes,
    has_model: bool,
    warnings: &mut Vec<String>,
) -> Result<Arc<Disk>, Error> {
    if volatile > VOLATILE_MOST {
        return Err(Error::Invalid {
            option: "--volatile-cache",
            value: volatile.to_string(),
            reason: format!("give at most {VOLATILE_MOST}, or leave it out"),
        });
    }
    let (logbook, gauge) = (Arc::<Logbook>::default(), Arc::<Gauge>::default());
    let timer = start_timer(&logbook, &gauge, warnings)?;
    let arena = Arena::new(DATA_MEMORY).ok_or_else(|| Error::Missing {
        what: format!("{DATA_MEMORY} of memory for data in flight"),
        remedy: "free memory first".to_owned(),
    })?;
    Ok(Arc::new(Disk::new(backing, volatile, arena, timer, logbook, gauge, has_model)))
}

/// Starts the modelled times, or none besides the path's, and resets the counters.
fn begin(disk: &Disk, options: &AttachOptions, schedule: Option<Schedule>, path: PathModel) {
    match schedule {
        Some(schedule) => {
            disk.timer().notify(TimerMessage::Schedule(Box::new(schedule)));
            disk.set_delays(options.delays);
        }
        None => {
            disk.timer().notify(TimerMessage::Path(path));
        }
    }
    disk.set_failing(options.fail_lba.clone());
    *disk.meter() = Meter::new();
    disk.gauge().read(true);
}

fn start_timer(
    logbook: &Arc<Logbook>,
    gauge: &Arc<Gauge>,
    warnings: &mut Vec<String>,
) -> Result<ToTimer, Error> {
    let schedule = fixed_schedule(Nanos::ZERO);
    let (timer, to_timer) = Timer::new(schedule, true, Arc::clone(logbook), Arc::clone(gauge));
    let (to, from) = sync_channel(1);
    let run = move || {
        let _ = to.send(precautions::real_time());
        timer.run();
    };
    let spawned = std::thread::Builder::new().name("foreseek-timer".to_owned()).spawn(run);
    spawned.context("start", "the timer's thread")?;
    warnings.extend(from.recv().ok().flatten());
    Ok(to_timer)
}

fn mount(folder: &ServerFolder, disk: Arc<Disk>, size: Bytes) -> Result<Export, Error> {
    let mount_point = folder.mount_point();
    fs::create_dir(&mount_point).context("make", &mount_point)?;
    let options = ExportOptions {
        mount_point,
        size,
        threads: THREADS,
        name: format!("foreseek:{}", folder.name()),
        request_timeout: foreseek_export::request_timeout().map_err(export_error)?,
    };
    Export::mount(disk, options).map_err(export_error)
}

fn serve_nbd(
    options: &AttachOptions,
    name: &str,
    disk: &Arc<Disk>,
    size: Bytes,
) -> Result<Option<NbdExport>, Error> {
    let Some(address) = &options.nbd else { return Ok(None) };
    let description = format!("an emulated disk: {}", options.profile);
    let offer = Offer {
        name: name.to_owned(),
        description,
        size,
        block: Bytes(foreseek_units::SECTOR_SIZE),
        rotational: true,
    };
    let server: Arc<Disk> = Arc::clone(disk);
    NbdExport::start(server, offer, address).map(Some).map_err(export_error)
}

fn check_failing(ranges: &[LbaRange], size: Bytes) -> Result<(), Error> {
    let invalid = |value: String, reason| Err(Error::Invalid { option: "--fail-lba", value, reason });
    if ranges.len() > FAILING_MOST {
        return invalid(format!("with {} ranges", ranges.len()), format!("at most {FAILING_MOST} are kept"));
    }
    let end = Lba(size.sectors_floor().get());
    match ranges.iter().find(|range| range.span().is_empty() || range.span().end > end) {
        Some(bad) => invalid(bad.to_string(), format!("the disk's sectors are 0..{}", end.get())),
        None => Ok(()),
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
