//! The whole measurement: pair by pair every load in every way.

use super::load::Load;
use super::options::{Options, Plan};
use super::record::{ArrayRun, Measured, Outcome, measured};
use super::report::Report;
use super::way::Way;
use crate::measure::load;
use crate::record::Records;
use crate::run::Told;
use crate::{Error, Result};
use foreseek_array::{AttachOptions, Shape, client};
use foreseek_rig::queue::Queue;
use foreseek_rig::{Disk, DiskPlan, Interrupt, missing, processor_time};
use foreseek_units::Nanos;
use rustix::fs::Advice;
use std::fs::File;
use std::path::Path;

/// What is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Runs that are to be made.
    pub runs: usize,
    /// Runs that are there already.
    pub there: usize,
}

/// Measures what is not measured yet and judges all of it.
///
/// # Errors
/// Whatever keeps it from beginning or from being written down, and the user. What fails in single runs is in the report.
pub fn run(options: &Options, interrupt: &Interrupt, told: &Told<'_, Ahead>) -> Result<Report> {
    options.check()?;
    let plan = Plan::of(options);
    let mut records = Records::<ArrayRun>::open(&options.out, &plan)?;
    let todo = todo(options, &records.runs);
    let all = options.loads.len() * options.ways.len() * options.pairs as usize;
    (told.ahead)(&Ahead { runs: todo.len(), there: all - todo.len() });
    let mut notes = Vec::new();
    if !todo.is_empty() {
        let what = missing();
        if !what.is_empty() {
            return Err(Error::Missing { what });
        }
        let disk = Disk::attach(&DiskPlan {
            name: format!("bench-array-{}", std::process::id()),
            profile: options.profile.clone(),
            size: options.size,
            fit: false,
            time_scale: options.time_scale,
            directory: options.disk_space.clone(),
        })?;
        notes.extend(disk.remarks().iter().cloned());
        let count = todo.len() as f64;
        for (number, (pair, load, way)) in todo.into_iter().enumerate() {
            interrupt.check()?;
            let what = format!("pair {} of {}: {load}, {way}", pair + 1, options.pairs);
            (told.progress)(number as f64 / count, &what);
            let made = measure(options, &disk, load, &way, pair, interrupt);
            // Where it failed half-way they may still be on.
            disk.set_delays(false)?;
            let outcome = Outcome::of(made)?;
            if let Outcome::Failed(why) = &outcome {
                notes.push(format!("{load}, {way}: {why}"));
            }
            records.push(ArrayRun { load, way, pair, outcome })?;
        }
        disk.detach()?;
    }
    Ok(Report::of(plan, &records.runs, options, notes))
}

/// What is to be measured, in order.
fn todo(options: &Options, there: &[ArrayRun]) -> Vec<(u32, Load, Way)> {
    let ways = &options.ways;
    let of = |pair: u32, load: Load| {
        (0..ways.len()).map(move |at| (pair, load, ways[(at + pair as usize) % ways.len()].clone()))
    };
    let all = (0..options.pairs).flat_map(|pair| options.loads.iter().flat_map(move |load| of(pair, *load)));
    all.filter(|(pair, load, way)| !measured(there, *load, way).any(|(made, _)| made == *pair)).collect()
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

/// Takes what is in memory of a device out of it.
fn forget(device: &Path) -> Result<()> {
    let cannot = |error: std::io::Error| Error::io("cannot take out of memory", device.display(), error);
    let file = File::open(device).map_err(cannot)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| cannot(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_take_turns_and_what_is_there_is_not_made_again() {
        let options = Options { pairs: 2, ..Options::default() };
        let all = todo(&options, &[]);
        assert_eq!(all.len(), options.loads.len() * options.ways.len() * 2);
        assert_eq!(all[0].2, Way::stock());
        assert_ne!(all[all.len() / 2].2, Way::stock(), "the second pair begins with another");
        let (pair, load, way) = all[0].clone();
        let run = |outcome| ArrayRun { load, way: way.clone(), pair, outcome };
        assert_eq!(todo(&options, &[run(Outcome::Failed("it died".to_owned()))]).len(), all.len());
        assert_eq!(todo(&options, &[run(Outcome::Measured(Measured::default()))]).len(), all.len() - 1);
    }
}
