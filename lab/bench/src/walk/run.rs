//! The whole measurement: trees once, then pair by pair every program in every way.

use super::beside::{self, Beside, Reader};
use super::options::{FileSystem, Options, Plan};
use super::pass::Pass;
use super::program::Named;
use super::record::{Measured, Outcome, WalkRun, measured};
use super::report::Report;
use super::tree::{Tree, bytes_below};
use super::way::{Environment, Way};
use crate::measure::load;
use crate::record::Records;
use crate::run::Told;
use crate::{Error, Result};
use foreseek_rig::queue::Queue;
use foreseek_rig::{
    CgroupParent, Disk, DiskPlan, Interrupt, MemoryGroup, Mounted, Program, Running, missing,
};
use foreseek_storage::loop_device::DEFAULT_READ_AHEAD;
use foreseek_units::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Where the disk's data and what programs write lie unless told otherwise.
const SPACE: &str = "/var/tmp";
/// The large setting of `read_ahead_kb`.
const LARGE: Bytes = Bytes::mib(4);
/// The least memory that programs are limited to: less does not hold a program and what is started beside it.
const MEMORY_LEAST: Bytes = Bytes::mib(128);
/// How long one run of a program may take.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// How often an interrupt is looked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How long making a file system may take.
const MKFS_LIMIT: Duration = Duration::from_secs(300);

/// What is to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Runs that are to be made.
    pub runs: usize,
    /// Runs that are there already.
    pub there: usize,
    /// Programs that are not installed, with the remedy.
    pub left_out: Vec<String>,
}

/// What is to be run: in which pair, which program over which tree, in which way.
type Todo = (u32, (Tree, Named), Way);

/// Measures what is not measured yet and judges all of it.
///
/// # Errors
/// Whatever keeps it from beginning or from being written down, and the user. What fails in single runs is in the report.
pub fn run(options: &Options, interrupt: &Interrupt, told: &Told<'_, Ahead>) -> Result<Report> {
    options.check()?;
    let plan = Plan::of(options);
    let mut options = options.clone();
    let left_out = leave_out(&mut options);
    let there = Records::<WalkRun>::look(&options.out, &plan)?;
    let (todo, all) =
        (todo(&options, &there), options.cells().len() * options.ways.len() * options.pairs as usize);
    (told.ahead)(&Ahead { runs: todo.len(), there: all - todo.len(), left_out: left_out.clone() });
    let mut notes = left_out;
    let mut records = Records::open(&options.out, &plan)?;
    if !todo.is_empty() {
        let what = missing();
        if !what.is_empty() {
            return Err(Error::Missing { what });
        }
        let trees =
            options.trees.iter().filter(|tree| todo.iter().any(|(_, cell, _)| cell.0 == **tree)).count();
        let making = trees as f64 / (trees + todo.len()) as f64;
        let mut bench =
            Bench::begin(&options, interrupt, &|share, what| (told.progress)(making * share, what))?;
        let count = todo.len() as f64;
        for (number, (pair, cell, way)) in todo.into_iter().enumerate() {
            interrupt.check()?;
            let what =
                format!("pair {} of {}: {} over {}, {way}", pair + 1, options.pairs, cell.1, cell.0.name());
            (told.progress)(making + (1.0 - making) * number as f64 / count, &what);
            if measured(&records.runs, cell.0, cell.1, None).next().is_none() {
                let outcome = Outcome::of(bench.pass(cell))?;
                records.push(WalkRun { tree: cell.0, program: cell.1, way: None, pair: 0, outcome })?;
            }
            let outcome = Outcome::of(bench.measure(cell, way))?;
            if let Outcome::Failed(why) = &outcome {
                notes.push(format!("{} over {}, {way}: {why}", cell.1, cell.0.name()));
            }
            records.push(WalkRun { tree: cell.0, program: cell.1, way: Some(way), pair, outcome })?;
        }
        notes.extend(bench.disk.remarks().iter().cloned());
        bench.end()?;
    }
    Ok(Report::of(plan, &records.runs, &options, notes))
}

/// Takes away programs that are not installed, and tells which.
fn leave_out(options: &mut Options) -> Vec<String> {
    let mut left_out = Vec::new();
    options.programs.retain(|named| match Program::find(named.0.binary, named.0.package) {
        Ok(_) => true,
        Err(error) => {
            left_out.push(format!("{named} is left out: {error}"));
            false
        }
    });
    left_out
}

/// What is to be measured, in order.
fn todo(options: &Options, there: &[WalkRun]) -> Vec<Todo> {
    let ways = &options.ways;
    let of = |pair: u32, cell: (Tree, Named)| {
        (0..ways.len()).map(move |at| (pair, cell, ways[(at + pair as usize) % ways.len()]))
    };
    let cells = options.cells();
    let all = (0..options.pairs).flat_map(|pair| cells.iter().flat_map(move |cell| of(pair, *cell)));
    all.filter(|(pair, cell, way)| {
        !measured(there, cell.0, cell.1, Some(*way)).any(|(made, _)| made == *pair)
    })
    .collect()
}

/// A measurement under way. Dropping it undoes all of it.
struct Bench<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    place: CgroupParent,
    foreseek: PathBuf,
    /// What programs are given of each tree, and how much that is; relative to the disk.
    given: BTreeMap<Tree, (PathBuf, Bytes)>,
    mounted: Option<Mounted>,
    queue: Queue,
    disk: Disk,
    folder: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    fn begin(options: &'a Options, interrupt: &'a Interrupt, progress: &dyn Fn(f64, &str)) -> Result<Self> {
        let place = CgroupParent::find()?;
        let space = options.disk_space.as_deref().unwrap_or(Path::new(SPACE));
        let folder = tempfile::Builder::new().prefix("foreseek-bench-walk-").tempdir_in(space);
        let folder = folder.map_err(|error| Error::io("cannot make a folder in", space.display(), error))?;
        for name in ["disk", "view", "state"] {
            create(&folder.path().join(name))?;
        }
        let foreseek =
            std::env::current_exe().map_err(|error| Error::io("cannot find", "this program", error))?;
        let disk = Disk::attach(&DiskPlan {
            name: format!("bench-walk-{}", std::process::id()),
            profile: options.profile.clone(),
            size: options.disk_size,
            fit: true,
            time_scale: options.time_scale,
            directory: Some(space.to_owned()),
        })?;
        match options.file_system {
            FileSystem::Ext4 => {
                disk.make_file_system(&Program::find("mkfs.ext4", "e2fsprogs")?, interrupt)?
            }
            FileSystem::Xfs => {
                let device = disk.device().to_string_lossy().into_owned();
                let mkfs = Program::find("mkfs.xfs", "xfsprogs")?;
                mkfs.run("making a file system", &["-q", "-f", &device], MKFS_LIMIT, interrupt)?;
            }
        }
        let queue = Queue::of(disk.device())?;
        let given = BTreeMap::new();
        let mut bench =
            Self { options, interrupt, place, foreseek, given, mounted: None, queue, disk, folder };
        bench.mount()?;
        for (number, tree) in options.trees.iter().enumerate() {
            let of = options.trees.len() as f64;
            let what = format!("making the {} tree", tree.name());
            let made = tree.make(
                &bench.point().join(tree.name()),
                options.share,
                options.seed,
                interrupt,
                &|share| {
                    progress((number as f64 + share) / of, &what);
                },
            )?;
            let bytes = bytes_below(&made.given)?;
            let below = made.given.strip_prefix(bench.point()).map_or(made.given.clone(), Path::to_owned);
            bench.given.insert(*tree, (below, bytes));
        }
        if options.programs.iter().any(|program| program.0.beside == Some(Beside::Reader)) {
            beside::write_file(&beside::file_on(&bench.point()))?;
        }
        for (tree, program) in options.cells() {
            let what = format!("preparing {program} over {}", tree.name());
            progress(1.0, &what);
            bench.prepare(tree, program)?;
        }
        Ok(bench)
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Where a program writes what it writes.
    fn scratch(&self, (tree, program): (Tree, Named)) -> PathBuf {
        self.folder.path().join(format!("scratch-{}-{program}", tree.name()))
    }

    fn given(&self, tree: Tree) -> Result<(&Path, Bytes)> {
        let given = self.given.get(&tree).map(|(path, bytes)| (path.as_path(), *bytes));
        given.ok_or_else(|| Error::Option { what: format!("there is no {} tree", tree.name()) })
    }

    fn mount(&mut self) -> Result<()> {
        let kind = match self.options.file_system {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        };
        self.mounted = Some(self.disk.mount_as(kind, &self.point())?);
        Ok(())
    }

    /// Nothing of the disk is in memory after this.
    fn cool(&mut self) -> Result<()> {
        self.mounted.take().map_or(Ok(()), Mounted::unmount)?;
        self.mount()
    }

    fn prepare(&self, tree: Tree, program: Named) -> Result<()> {
        let scratch = self.scratch((tree, program));
        create(&scratch)?;
        let Some(line) = program.0.prepare() else { return Ok(()) };
        let given = self.point().join(self.given(tree)?.0);
        let line: Vec<OsString> =
            ["sh".into(), "-c".into(), line.into(), "sh".into(), given.into(), scratch.into()].into();
        let (mut running, _) = self.wait(program, Command::new("sh").args(&line[1..]))?;
        let status = finished(&mut running)?;
        Ok(running.judge(&format!("preparing {program}"), status)?)
    }

    /// One pass over all that a program needs of a tree.
    fn pass(&mut self, (tree, program): (Tree, Named)) -> Result<Measured> {
        let pass = Pass::over(&self.point().join(self.given(tree)?.0), program.0.contents)?;
        self.cool()?;
        self.disk.set_delays(true)?;
        let took = pass.time(self.disk.device(), self.interrupt);
        self.disk.set_delays(false)?;
        let (seconds, read_bytes) = (took?.as_secs_f64(), pass.bytes().get());
        Ok(Measured { seconds, read_bytes, load: load(), ..Measured::default() })
    }

    fn measure(&mut self, cell: (Tree, Named), way: Way) -> Result<Measured> {
        if cell.1.0.prepare().is_none() {
            let scratch = self.scratch(cell);
            let _ = fs::remove_dir_all(&scratch);
            create(&scratch)?;
        }
        // What earlier runs wrote is not to be written back during this one.
        let written = fs::File::open(self.folder.path());
        let synced = written.and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
        synced.map_err(|error| Error::io("cannot write back", self.folder.path().display(), error))?;
        self.cool()?;
        self.queue.set_read_ahead(if way == Way::Stock4M { LARGE } else { DEFAULT_READ_AHEAD })?;
        let made = self.measure_cold(cell, way);
        // Where it failed half-way they may still be on.
        self.disk.set_delays(false)?;
        made
    }

    fn measure_cold(&self, cell: (Tree, Named), way: Way) -> Result<Measured> {
        let (tree, program) = cell;
        let (below, bytes) = self.given(tree)?;
        let memory = tree.is_larger_than_memory().then(|| (bytes / 4).max(MEMORY_LEAST));
        let (point, view, state) =
            (self.point(), self.folder.path().join("view"), self.folder.path().join("state"));
        let environment = Environment {
            foreseek: &self.foreseek,
            profile: &self.options.profile,
            disk: &point,
            view: &view,
            state: &state,
            memory,
            interrupt: self.interrupt,
        };
        let standing = environment.setup(way)?;
        let (given, scratch, load) = (standing.root.join(below), self.scratch(cell), load());
        let group = environment
            .programs_memory(way)
            .map(|limit| MemoryGroup::create(&self.place, "bench-walk", limit));
        let group = group.transpose()?;
        let command = |line: Vec<OsString>| {
            let program = Path::new(&line[0]);
            let mut command =
                group.as_ref().map_or_else(|| Command::new(program), |group| group.command(program));
            command.args(&line[1..]);
            command
        };
        self.disk.set_delays(true)?;
        self.disk.count_anew()?;
        let timed = |way: Way| {
            let start = SystemTime::now();
            let reader = match program.0.beside {
                Some(Beside::Reader) => Some(Reader::start(&beside::file_on(&point), self.options.seed)?),
                _ => None,
            };
            let mut command = command(environment.shell(way, program.0, &given, &scratch));
            let (mut running, took) = self.wait(program, &mut command)?;
            let status = finished(&mut running)?;
            if !program.0.ended_well(status) {
                running.judge(&format!("running {program}"), status)?;
                return Err(Error::Option { what: format!("{program} ended with {status}") });
            }
            Ok(match program.0.beside {
                Some(Beside::Program) => {
                    let (this, other) = beside::ends(&scratch, start)?;
                    (this, Some(other))
                }
                _ => (took.as_secs_f64(), reader.map(Reader::end).transpose()?),
            })
        };
        let (seconds, beside_seconds) = timed(way)?;
        let stats = self.disk.stats()?;
        // A memory monitor (DAMON) may have taken some of it meanwhile: that is brought again without a wait.
        self.disk.set_delays(false)?;
        let (again_seconds, _) = timed(if way == Way::Warm { Way::Stock } else { way })?;
        standing.end()?;
        Ok(Measured {
            seconds,
            again_seconds,
            beside_seconds,
            reads: stats.reads,
            seeks: stats.seeks,
            read_bytes: stats.read_bytes,
            load,
        })
    }

    /// Runs a command to its end; answers it and how long it took.
    fn wait(&self, program: Named, command: &mut Command) -> Result<(Running, Duration)> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let start = Instant::now();
        let running = Running::start(program.0.name, command)?;
        let pid = Pid::from_child(&running.child);
        let cannot = |error| Error::io("cannot wait for", program, error);
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(cannot)?;
        loop {
            let mut ready = [PollFd::new(&ended, PollFlags::IN)];
            let _ = poll(&mut ready, Some(&LOOK));
            if !ready[0].revents().is_empty() {
                return Ok((running, start.elapsed()));
            }
            self.interrupt.check()?;
            if start.elapsed() > LIMIT {
                let seconds = LIMIT.as_secs();
                return Err(foreseek_rig::Error::TooSlow { what: program.to_string(), seconds }.into());
            }
        }
    }

    fn end(mut self) -> Result<()> {
        self.mounted.take().map_or(Ok(()), Mounted::unmount)?;
        drop(self.queue);
        Ok(self.disk.detach()?)
    }
}

/// How a program ended of which it is known that it has.
fn finished(running: &mut Running) -> Result<std::process::ExitStatus> {
    running.poll()?.ok_or_else(|| Error::Option { what: "a program that had ended is running".to_owned() })
}

fn create(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("cannot make", path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_take_turns_and_what_is_there_is_not_made_again() {
        let options = Options { ways: vec![Way::Stock, Way::Warm], pairs: 2, ..Options::default() };
        let all = todo(&options, &[]);
        assert_eq!(all.len(), options.cells().len() * 4);
        assert_eq!((all[0].2, all[1].2), (Way::Stock, Way::Warm));
        assert_eq!(all[all.len() / 2].2, Way::Warm, "the second pair begins with another");
        let (pair, cell, way) = all[0];
        let run = |outcome| WalkRun { tree: cell.0, program: cell.1, way: Some(way), pair, outcome };
        assert_eq!(todo(&options, &[run(Outcome::Failed("it died".to_owned()))]).len(), all.len());
        assert_eq!(todo(&options, &[run(Outcome::Measured(Measured::default()))]).len(), all.len() - 1);
    }
}
