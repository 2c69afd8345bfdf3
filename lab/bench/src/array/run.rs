//! The whole measurement: pair by pair every load in every way.

use super::load::Load;
use super::options::{Options, Plan};
use super::record::{LoadCell, Measured};
use super::report::Report;
use super::way::Way;
use crate::measure::load;
use crate::pairs::{self, Ahead, Comparison, RunList};
use crate::run::Reporting;
use crate::{Error, Result};
use foreseek_array::{AttachOptions, Shape, client};
use foreseek_rig::queue::Queue;
use foreseek_rig::{Disk, DiskPlan, Interrupt, processor_time};
use foreseek_server::MemoryGroup;
use foreseek_units::{Bytes, Nanos};
use rustix::fs::Advice;
use std::fs::File;
use std::path::Path;

/// Measures what is missing and judges all of it.
///
/// # Errors
/// Whatever keeps it from beginning or from being written, and an interrupt. Failures of single runs are in the
/// report.
pub fn run(options: &Options, interrupt: &Interrupt, reporting: &Reporting<'_, Ahead>) -> Result<Report> {
    options.check()?;
    let plan = Plan::of(options);
    let asked = RunList {
        out: &options.out,
        cells: options.loads.iter().map(|load| LoadCell { load: *load }).collect(),
        ways: options.ways.clone(),
        pairs: options.pairs,
        is_run: &|_, _, _| true,
        anew: false,
        first: None,
        left_out: Vec::new(),
    };
    let begin = |_: &[_], _: &dyn Fn(f64, &str)| Bench::begin(options, interrupt);
    let (runs, notes) = pairs::run(&plan, &asked, interrupt, reporting, &begin)?;
    Ok(Report::of(plan, &runs, options, notes))
}

/// A measurement under way.
struct Bench<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    disk: Disk,
    /// That of this process, whose threads read.
    _limited: Option<Limited>,
}

impl<'a> Bench<'a> {
    fn begin(options: &'a Options, interrupt: &'a Interrupt) -> Result<Self> {
        let disk = Disk::attach(&DiskPlan {
            name: format!("bench-array-{}", std::process::id()),
            profile: options.profile.clone(),
            size: options.size,
            fit: false,
            time_scale: options.time_scale,
            directory: options.disk_space.clone(),
        })?;
        // The disk's server has been started outside the group; that of the array leaves it by itself.
        let limited = options.reader_memory.map(Limited::to).transpose()?;
        Ok(Self { options, interrupt, disk, _limited: limited })
    }
}

impl Comparison for Bench<'_> {
    type Cell = LoadCell;
    type Way = Way;
    type Measured = Measured;

    fn name(cell: &LoadCell, way: &Way) -> String {
        format!("{}, {way}", cell.load)
    }

    fn measure(&mut self, cell: &LoadCell, way: &Way, pair: u32) -> Result<Measured> {
        let made = measure(self.options, &self.disk, cell.load, way, pair, self.interrupt);
        // After a failure in the middle of a run they may still be on.
        self.disk.set_delays(false)?;
        made
    }

    fn end(self) -> Result<Vec<String>> {
        let warnings = self.disk.warnings().to_vec();
        self.disk.detach()?;
        Ok(warnings)
    }
}

/// A limit of the memory of this process and of the pages that it reads, until it is dropped.
struct Limited(Option<MemoryGroup>);

impl Limited {
    fn to(limit: Bytes) -> Result<Self> {
        let none = |reason: String| Error::Rig(foreseek_rig::Error::NoMemoryGroup { reason });
        let group = MemoryGroup::enter("foreseek-bench-array", limit.get())
            .map_err(|error| none(error.to_string()))?;
        group
            .map(|group| Self(Some(group)))
            .ok_or_else(|| none("no memory controller can be used".to_owned()))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // An empty group that cannot be removed does no harm.
        let _ = self.0.take().map(MemoryGroup::leave);
    }
}

/// An attached array; detached when dropped.
struct Attached {
    name: String,
    pid: u32,
}

impl Attached {
    fn processor(&self) -> Nanos {
        processor_time(self.pid)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // An earlier error is on its way to the user; `foreseek array list` shows what is left.
        let _ = client::detach(&self.name, true);
    }
}

fn measure(
    options: &Options,
    disk: &Disk,
    of: Load,
    way: &Way,
    pair: u32,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let Some(policy) = &way.policy else {
        return read(options, disk, disk.device(), (of, way, pair), interrupt, || Nanos::ZERO);
    };
    let attached = client::attach(&AttachOptions {
        device: disk.device().to_owned(),
        shape: Shape::Profile(options.profile.clone()),
        memory_bytes: options.memory.get(),
        policy: policy.clone(),
        name: None,
        loop_device: true,
        nbd: None,
    })?;
    let listed = client::list()?.into_iter().find(|listed| listed.name == attached.name);
    let pid = listed.and_then(|listed| listed.pid).unwrap_or_default();
    let array = Attached { name: attached.name, pid };
    let device = attached.device.unwrap_or_default();
    read(options, disk, &device, (of, way, pair), interrupt, || array.processor())
}

fn read(
    options: &Options,
    disk: &Disk,
    device: &Path,
    (of, way, pair): (Load, &Way, u32),
    interrupt: &Interrupt,
    processor: impl Fn() -> Nanos,
) -> Result<Measured> {
    Queue::of(device)?.set_read_ahead(way.read_ahead)?;
    forget(device)?;
    let (load, before) = (load(), processor());
    disk.set_delays(true)?;
    disk.count_anew()?;
    let (read, took) =
        of.read(device, options.size, options.time, options.seed + u64::from(pair), interrupt)?;
    let stats = disk.stats()?;
    Ok(Measured {
        read_bytes: read.get(),
        seconds: took.as_secs_f64(),
        disk_reads: stats.reads,
        disk_bytes: stats.read_bytes,
        disk_seconds: stats.busy_seconds,
        server_seconds: processor().saturating_sub(before).as_secs_f64(),
        load,
    })
}

/// Drops a device's pages from memory.
fn forget(device: &Path) -> Result<()> {
    let cannot = |error: std::io::Error| Error::io("cannot take out of memory", device.display(), error);
    let file = File::open(device).map_err(cannot)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| cannot(error.into()))
}
