//! The whole measurement: the data set once, then pair by pair every cell over every policy.
//!
//! A pair goes through all cells before the next begins, so that a measurement that is ended early has
//! something of everything. Within a cell the policies follow each other; each pair begins with another one.
//! The modelled runs come after all measured ones: they need the processors.

use crate::cell::Cell;
use crate::data;
use crate::measure::What;
use crate::modelled;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::policy::{Policy, ReadAhead};
use crate::record::{self, Plan, Records, Run, has};
use crate::setup::Environment;
use crate::{Error, Result};
use foreseek_device::Profile;
use foreseek_rig::queue::Queue;
use foreseek_rig::{CgroupParent, Disk, DiskPlan, Interrupt, Program, check_space};
use foreseek_seam::Extent;
use foreseek_simulate::workload;
use foreseek_units::Bytes;
use std::collections::BTreeMap;
use std::path::Path;

/// Where emulated disks keep their data by default.
const SPACE: &str = "/var/tmp";

/// Failures of a policy after which it is left out of the rest: one may be due to the machine.
const FAILURES_LIMIT: usize = 3;

/// The share of all time that making the data set takes, for the progress bar.
const MAKING: f64 = 0.02;

/// What is to be done, before anything is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Ahead {
    /// Runs that are to be made.
    pub runs: usize,
    /// Runs that are there already.
    pub there: usize,
    /// About how long it takes, in seconds.
    pub seconds: f64,
    /// What will be missing from the result, with the remedy.
    pub left_out: Vec<String>,
}

/// How a measurement reports.
pub struct Reporting<'a, A = Ahead> {
    /// What is to be done; called once, before anything is made.
    pub ahead: &'a dyn Fn(&A),
    /// The share that is done, and the current step.
    pub progress: &'a dyn Fn(f64, &str),
}

/// Measures what is missing and judges all of it.
///
/// # Errors
/// Whatever keeps it from beginning or from being written, and an interrupt. Failures of single runs are in the
/// outcome.
pub fn run(options: &Options, interrupt: &Interrupt, reporting: &Reporting<'_>) -> Result<Outcome> {
    let profile = options.check()?;
    let plan = Plan::of(options);
    let ahead = options.ahead(&Records::<Run>::look(&options.out, &plan)?, nbd().is_ok());
    if ahead.seconds > 0.0 {
        let what = foreseek_rig::missing();
        if !what.is_empty() {
            return Err(Error::Missing { what });
        }
    }
    (reporting.ahead)(&ahead);
    let progress = reporting.progress;
    let mut records = Records::open(&options.out, &plan)?;
    let mut notes = notes(options, &profile);
    notes.extend(ahead.left_out);
    if ahead.seconds > 0.0 {
        let mut bench = Bench::begin(options, &profile, interrupt, &|share| {
            progress(MAKING * share, "making the data set");
        })?;
        bench.measure_all(&mut records, &mut notes, progress)?;
        bench.model_all(&mut records, &mut notes, progress)?;
        notes.extend(bench.disk.warnings().iter().cloned());
        bench.end()?;
    }
    Ok(Outcome::of(plan, records.runs, options, notes))
}

impl Options {
    /// What these options amount to, given the existing runs.
    fn ahead(&self, there: &[Run], nbd: bool) -> Ahead {
        let can = |policy: &Policy| nbd || *policy != Policy::Nbdkit;
        let todo: Vec<(u32, Cell, &Policy)> = self.todo(there).collect();
        let left_out = todo.iter().any(|(_, _, policy)| !can(policy));
        let made: Vec<Cell> =
            todo.iter().filter(|(_, _, policy)| can(policy)).map(|(_, cell, _)| *cell).collect();
        let modelled: Vec<Cell> = self.unmodelled(there).map(|(_, cell, _)| cell).collect();
        Ahead {
            runs: made.len(),
            there: self.runs() - todo.len(),
            seconds: self.time(made.iter().copied(), modelled.iter().copied()),
            left_out: left_out.then(|| NO_NBDKIT.to_owned()).into_iter().collect(),
        }
    }

    /// The runs to be modelled: the oracle, and the simulator's prediction for each mount.
    fn unmodelled<'a>(&'a self, there: &'a [Run]) -> impl Iterator<Item = (u32, Cell, Policy)> + 'a {
        let of = move |pair, cell| {
            let predicted = self.policies.iter().filter_map(Policy::predicted);
            [Policy::Oracle].into_iter().chain(predicted).map(move |policy| (pair, cell, policy))
        };
        let points = || self.cells.iter().copied().filter(|cell| cell.point().is_some());
        let all = (0..self.pairs).flat_map(move |pair| points().flat_map(move |cell| of(pair, cell)));
        all.filter(|(pair, cell, policy)| !has(there, *cell, policy, *pair))
    }

    /// The runs to be made, in order.
    fn todo<'a>(&'a self, there: &'a [Run]) -> impl Iterator<Item = (u32, Cell, &'a Policy)> {
        let of = move |pair: u32, cell: Cell| {
            let named: Vec<&Policy> = self.policies.iter().filter(|policy| policy.is_in(cell)).collect();
            let count = named.len();
            (0..count).map(move |at| (pair, cell, named[(at + pair as usize) % count]))
        };
        let cells = move |pair| self.cells.iter().flat_map(move |cell| of(pair, *cell));
        (0..self.pairs).flat_map(cells).filter(|(pair, cell, policy)| !has(there, *cell, policy, *pair))
    }
}

/// The message where nbdkit cannot be measured.
const NO_NBDKIT: &str = "nbdkit is not installed and will be missing from the comparison: install nbdkit and \
                         libnbd-bin (Debian); the same command then adds it";

/// nbdkit and nbdfuse, which shows its disk as a file.
fn nbd() -> foreseek_rig::Result<(Program, Program)> {
    Ok((Program::find("nbdkit", "nbdkit")?, Program::find("nbdfuse", "libnbd-bin")?))
}

/// Remarks for the reader of the figures.
fn notes(options: &Options, profile: &Profile) -> Vec<String> {
    let depth = ReadAhead::Depth.size(profile.competitive_depth());
    vec![
        format!(
            "The disk is emulated ({}, {}, its full stroke stretched over it); its times and the readers' \
             think times are multiplied by {}, the processors' are not.",
            profile.name(),
            options.build(profile).size.unwrap_or_default(),
            options.time_scale
        ),
        format!(
            "{} of data in files of 4 MiB, {:.1} times the memory; the papers had 6000 files. The kernel's \
             names and attributes are read before a run, data are not.",
            options.data,
            options.data.get() as f64 / options.memory.get() as f64
        ),
        format!(
            "Memory {}: all of it for the readers of stock Linux; with a server, {} for the server and the \
             rest for the readers. The mount bounds itself, and its peak is told; nbdkit and the plain \
             pass-through are in a group of their own. A reader holds {}; the papers' holds 1 MB.",
            options.memory,
            options.server_memory,
            options.reader_holds()
        ),
        format!("linux-depth: {} KiB, the profile's switch time x rate.", depth.get() >> 10),
        "The oracle is modelled in virtual time: the same requests, files where the real ones lie, told how \
         long each stream is."
            .to_owned(),
    ]
}

/// A measurement under way. Dropping it undoes all of it.
struct Bench<'a> {
    options: &'a Options,
    profile: &'a Profile,
    interrupt: &'a Interrupt,
    group_parent: CgroupParent,
    nbd: Option<(Program, Program)>,
    program: std::path::PathBuf,
    extents: Vec<Vec<Extent>>,
    queue: Queue,
    disk: Disk,
    folder: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    /// Attaches the disk and writes the data set.
    fn begin(
        options: &'a Options,
        profile: &'a Profile,
        interrupt: &'a Interrupt,
        progress: &dyn Fn(f64),
    ) -> Result<Self> {
        let mkfs = Program::find("mkfs.ext4", "e2fsprogs")?;
        let group_parent = CgroupParent::find()?;
        let space = options.disk_space.as_deref().unwrap_or(Path::new(SPACE));
        check_space(space, options.data + data::BESIDE)?;
        let folder = tempfile::Builder::new()
            .prefix("foreseek-bench-")
            .tempdir()
            .map_err(|error| Error::io("cannot make a folder in", std::env::temp_dir().display(), error))?;
        for name in ["disk", "view", "file"] {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).map_err(|error| Error::io("cannot make", path.display(), error))?;
        }
        let build = options.build(profile);
        let disk = Disk::attach(&DiskPlan {
            name: format!("bench-{}", std::process::id()),
            profile: options.profile.clone(),
            size: build.size.unwrap_or(profile.capacity()),
            fit: build.fit,
            time_scale: options.time_scale,
            directory: options.disk_space.clone(),
        })?;
        disk.make_file_system(&mkfs, interrupt)?;
        let point = folder.path().join("disk");
        let files = workload::by_name("one-whole-0", &options.parameters())?.files();
        let mounted = disk.mount(&point)?;
        data::write(&point, &files, interrupt, progress)?;
        let extents = data::extents(&point, &files)?;
        mounted.unmount()?;
        let program =
            std::env::current_exe().map_err(|error| Error::io("cannot find", "this program", error))?;
        let queue = Queue::of(disk.device())?;
        let nbd = nbd().ok();
        Ok(Self { options, profile, interrupt, group_parent, nbd, program, extents, queue, disk, folder })
    }

    /// Makes every missing run.
    fn measure_all(
        &mut self,
        records: &mut Records,
        notes: &mut Vec<String>,
        progress: &dyn Fn(f64, &str),
    ) -> Result<()> {
        let options = self.options;
        let mut todo: Vec<(u32, Cell, Policy)> =
            options.todo(&records.runs).map(|(pair, cell, policy)| (pair, cell, policy.clone())).collect();
        todo.retain(|(_, _, policy)| self.nbd.is_some() || *policy != Policy::Nbdkit);
        let all: f64 = todo.iter().map(|(_, cell, _)| options.time_of(*cell)).sum();
        let (mut passed, mut failures) = (0.0, BTreeMap::<Policy, usize>::new());
        let depth = self.profile.competitive_depth();
        for (pair, cell, policy) in todo {
            self.interrupt.check()?;
            let share = MAKING + (1.0 - 2.0 * MAKING) * passed / all;
            progress(share, &format!("pair {} of {}: {cell}, {policy}", pair + 1, options.pairs));
            passed += options.time_of(cell);
            if failures.get(&policy).is_some_and(|count| *count >= FAILURES_LIMIT) {
                continue;
            }
            let seed = options.seed + u64::from(pair);
            let outcome = match self.make(What { cell, policy: &policy, seed }, depth) {
                Ok(measured) => record::Outcome::Measured(Box::new(measured)),
                Err(error) if error.is_interrupt() => return Err(error),
                Err(error) => {
                    let count = failures.entry(policy.clone()).or_default();
                    *count += 1;
                    if *count == FAILURES_LIMIT {
                        notes.push(format!(
                            "{policy} failed {FAILURES_LIMIT} times and was left out: {error}"
                        ));
                    }
                    record::Outcome::Failed(error.to_string())
                }
            };
            records.push(Run { cell, policy, pair, seed, outcome })?;
        }
        Ok(())
    }

    /// One run. Delays are off before and after it.
    fn make(&mut self, what: What<'_>, depth: Bytes) -> Result<record::Measured> {
        let environment = Environment {
            disk: &self.disk,
            group_parent: &self.group_parent,
            folder: self.folder.path(),
            program: &self.program,
            nbd: self.nbd.as_ref(),
            memory: self.options.memory,
            server_memory: self.options.server_memory,
            interrupt: self.interrupt,
        };
        let made = environment.run(what, self.options, &mut self.queue, depth);
        // After a failure in the middle of a run they may still be on.
        self.disk.set_delays(false)?;
        made
    }

    /// Models every missing run.
    fn model_all(
        &self,
        records: &mut Records,
        notes: &mut Vec<String>,
        progress: &dyn Fn(f64, &str),
    ) -> Result<()> {
        let todo: Vec<(u32, Cell, Policy)> = self.options.unmodelled(&records.runs).collect();
        for (pair, cell, policy) in todo {
            let Some(point) = cell.point() else { continue };
            self.interrupt.check()?;
            progress(1.0 - MAKING, &format!("pair {}: {cell}, {policy} in virtual time", pair + 1));
            let seed = self.options.seed + u64::from(pair);
            let outcome = match modelled::run(&policy, point, seed, self.options, self.profile, &self.extents)
            {
                Ok(measured) => record::Outcome::Measured(Box::new(measured)),
                Err(error) => {
                    notes.push(format!("{cell}, {policy}: {error}"));
                    record::Outcome::Failed(error.to_string())
                }
            };
            records.push(Run { cell, policy, pair, seed, outcome })?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        drop(self.queue);
        Ok(self.disk.detach()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_it_is_the_core_over_every_policy_within_the_hour() {
        let options = Options::default();
        let ahead = options.ahead(&[], true);
        // 24 points over stock Linux three times, nbdkit, the pass-through and the mount twice; two overheads
        // over four.
        assert_eq!((ahead.runs, ahead.there, ahead.left_out.len()), ((24 * 7 + 2 * 4) * 5, 0, 0));
        assert!((3000.0..3600.0).contains(&ahead.seconds), "{} s", ahead.seconds);
    }

    #[test]
    fn what_is_there_is_not_made_again_and_takes_no_time() {
        let options = Options { cells: vec![Cell::Hot], pairs: 2, ..Options::default() };
        let run = |pair, policy: &Policy, outcome| Run {
            cell: Cell::Hot,
            policy: policy.clone(),
            pair,
            seed: 1,
            outcome,
        };
        let all: Vec<(u32, Cell, &Policy)> = options.todo(&[]).collect();
        let good = || record::Outcome::Measured(Box::default());
        let mut there: Vec<Run> = all.iter().map(|(pair, _, policy)| run(*pair, policy, good())).collect();
        let ahead = options.ahead(&there, true);
        assert_eq!((ahead.runs, ahead.there, ahead.seconds), (0, 8, 0.0));
        there[3].outcome = record::Outcome::Failed("it died".to_owned());
        assert_eq!(options.ahead(&there, true).runs, 1);
    }

    #[test]
    fn where_nbdkit_is_not_installed_that_is_said_before_anything_is_made() {
        let ahead = Options::default().ahead(&[], false);
        assert_eq!(ahead.runs, (24 * 6 + 2 * 4) * 5);
        assert!(ahead.left_out[0].contains("install nbdkit and libnbd-bin"), "{:?}", ahead.left_out);
        // It was not requested.
        let options = Options { policies: vec![Policy::Plain], ..Options::default() };
        assert!(options.ahead(&[], false).left_out.is_empty());
    }
}
