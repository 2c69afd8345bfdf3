//! The whole measurement: trees, anew for each pair or once, and pair by pair every program in every way.

use super::asked::Asked;
use super::beside::{self, Beside, Reader};
use super::filler;
use super::options::{FileSystem, Options, Plan};
use super::pass::Pass;
use super::program::{Contents, NamedProgram, SHELL};
use super::record::{Measured, On, SideCosts};
use super::report::Report;
use super::tree::{Tree, bytes_below};
use super::way::{Environment, Way};
use crate::measure::load;
use crate::pairs::{self, Ahead, Comparison, RunList, Todo};
use crate::run::Reporting;
use crate::timed::Timed;
use crate::{Error, Result};
use foreseek_rig::queue::Queue;
use foreseek_rig::{CgroupParent, Disk, DiskPlan, Interrupt, MemoryGroup, Mounted, Program, mount_memory};
use foreseek_units::Bytes;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Where the disk's data and the programs' output lie by default.
const SPACE: &str = "/var/tmp";
/// The folder in memory that programs write to.
const WRITTEN: &str = "written";
/// The least memory limit: a program and the server beside it need this much.
const MEMORY_LEAST: Bytes = Bytes::mib(128);
/// How long making a file system may take.
const MKFS_LIMIT: Duration = Duration::from_secs(300);

/// Measures what is missing and judges all of it.
///
/// # Errors
/// Whatever keeps it from beginning or from being written, and an interrupt. Failures of single runs are in the
/// report.
pub fn run(options: &Options, interrupt: &Interrupt, reporting: &Reporting<'_, Ahead>) -> Result<Report> {
    options.check()?;
    let plan = Plan::of(options);
    // With what is left out: aims depend on it.
    let asked_for = Asked::of(options);
    let mut options = options.clone();
    let left_out = leave_out(&mut options);
    let asked = RunList {
        out: &options.out,
        cells: options.cells(),
        ways: options.ways.iter().copied().map(Some).collect(),
        pairs: options.pairs,
        is_run: &|pair, cell, way| options.is_run(pair, *cell, *way),
        anew: options.new_trees,
        // One ascending pass over what a program needs.
        first: Some(None),
        left_out,
    };
    let begin = |todo: &[Todo<On, Option<Way>>], progress: &dyn Fn(f64, &str)| {
        Bench::begin(&options, interrupt, todo, progress)
    };
    let (runs, mut notes) = pairs::run(&plan, &asked, interrupt, reporting, &begin)?;
    if !options.new_trees && options.pairs > 1 {
        notes.push(
            "all pairs ran over the same trees: the intervals do not show how much trees differ".to_owned(),
        );
    }
    Ok(Report::of(plan, &runs, &asked_for, notes))
}

/// Removes trees that are too small, and programs that are not installed; returns which.
fn leave_out(options: &mut Options) -> Vec<String> {
    let small = |tree: &Tree| {
        options.too_small(*tree).map(|why| (*tree, format!("{} is left out: {why}", tree.name())))
    };
    let (trees, mut left_out): (Vec<Tree>, Vec<String>) = options.trees.iter().filter_map(small).unzip();
    options.trees.retain(|tree| !trees.contains(tree));
    options.programs.retain(|named| match Program::find(named.0.binary, named.0.package) {
        Ok(_) => true,
        Err(error) => {
            left_out.push(format!("{named} is left out: {error}"));
            false
        }
    });
    left_out
}

/// A measurement under way. Dropping it undoes all of it.
struct Bench<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    /// That of the trees.
    seed: u64,
    group_parent: CgroupParent,
    foreseek: PathBuf,
    /// The part of each tree that programs read, relative to the disk, and its size.
    given: BTreeMap<Tree, (PathBuf, Bytes)>,
    /// What the passes took: programs that need the same of a tree have one.
    passes: BTreeMap<(Tree, Contents), Measured>,
    mounted: Option<Mounted>,
    queue: Queue,
    disk: Disk,
    /// What programs write that begin with an empty folder. On a disk of this machine the time of such a program would be
    /// that of the disk: runs of `cp` over what was in memory took 0.5 to 7.4 s.
    written: Option<Mounted>,
    folder: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    /// Makes the disk and the trees for these runs, which are of one pair where each has new trees.
    fn begin(
        options: &'a Options,
        interrupt: &'a Interrupt,
        todo: &[Todo<On, Option<Way>>],
        progress: &dyn Fn(f64, &str),
    ) -> Result<Self> {
        let pair = todo.first().map_or(0, |(pair, _, _)| *pair);
        let seed = options.seed_of(pair);
        progress(0.0, "making a file system");
        let group_parent = CgroupParent::find()?;
        let space = options.disk_space.as_deref().unwrap_or(Path::new(SPACE));
        let folder = tempfile::Builder::new().prefix("foreseek-bench-walk-").tempdir_in(space);
        let folder = folder.map_err(|error| Error::io("cannot make a folder in", space.display(), error))?;
        for name in ["disk", "view", "state", WRITTEN] {
            create(&folder.path().join(name))?;
        }
        let written = Some(mount_memory(&folder.path().join(WRITTEN))?);
        let foreseek =
            std::env::current_exe().map_err(|error| Error::io("cannot find", "this program", error))?;
        let disk = Disk::attach(&DiskPlan {
            // Those of all pairs differ: one may not have been taken down.
            name: format!("bench-walk-{}-{pair}", std::process::id()),
            profile: options.profile.clone(),
            size: options.disk_size,
            fit: true,
            time_scale: options.time_scale,
            directory: Some(space.to_owned()),
        })?;
        match options.file_system {
            FileSystem::Ext4 => {
                disk.make_file_system_of(seed, &Program::find("mkfs.ext4", "e2fsprogs")?, interrupt)?
            }
            FileSystem::Xfs => {
                let device = disk.device().to_string_lossy().into_owned();
                let mkfs = Program::find("mkfs.xfs", "xfsprogs")?;
                mkfs.run("making a file system", &["-q", "-f", &device], MKFS_LIMIT, interrupt)?;
            }
        }
        let mut queue = Queue::of(disk.device())?;
        if let Some(scheduler) = options.scheduler {
            queue.set_scheduler(scheduler)?;
        }
        let given = BTreeMap::new();
        let mut bench = Self {
            options,
            interrupt,
            seed,
            group_parent,
            foreseek,
            given,
            passes: BTreeMap::new(),
            mounted: None,
            queue,
            disk,
            written,
            folder,
        };
        bench.mount()?;
        if options.filled > 0.0 {
            progress(0.0, "filling the file system");
            filler::fill(&bench.point(), options.filled, seed, interrupt)?;
        }
        let is_read = |tree: &&Tree| todo.iter().any(|(_, cell, _)| cell.tree == **tree);
        let trees: Vec<&Tree> = options.trees.iter().filter(is_read).collect();
        let of = trees.len() as f64;
        for (number, tree) in trees.into_iter().enumerate() {
            let what = format!("making the {} tree", tree.name());
            let made =
                tree.make(&bench.point().join(tree.name()), options.share, seed, interrupt, &|share| {
                    progress((number as f64 + share) / of, &what);
                })?;
            let bytes = bytes_below(&made.given)?;
            let below = made.given.strip_prefix(bench.point()).map_or(made.given.clone(), Path::to_owned);
            bench.given.insert(*tree, (below, bytes));
        }
        if options.programs.iter().any(|program| program.0.beside == Some(Beside::Reader)) {
            beside::write_file(&beside::file_on(&bench.point()))?;
        }
        let is_run = |cell: &On| todo.iter().any(|(_, run, _)| run == cell);
        for On { tree, program } in options.cells().into_iter().filter(is_run) {
            let what = format!("preparing {program} over {}", tree.name());
            progress(1.0, &what);
            bench.prepare(On { tree, program })?;
        }
        Ok(bench)
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// The output folder of a program.
    fn scratch(&self, On { tree, program }: On) -> PathBuf {
        let place = if program.0.prepare().is_some() { "" } else { WRITTEN };
        self.folder.path().join(place).join(format!("scratch-{}-{program}", tree.name()))
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

    /// Drops the disk's pages from memory.
    fn cool(&mut self) -> Result<()> {
        self.mounted.take().map_or(Ok(()), Mounted::unmount)?;
        self.mount()
    }

    fn prepare(&self, cell: On) -> Result<()> {
        let On { tree, program } = cell;
        let scratch = self.scratch(cell);
        create(&scratch)?;
        let Some(line) = program.0.prepare() else { return Ok(()) };
        let given = self.point().join(self.given(tree)?.0);
        let mut command = Command::new(SHELL[0]);
        command.args(&SHELL[1..]).args([line, SHELL[0]]).args([given, scratch]);
        let timed = Timed::run(program.0.name, &mut command, self.interrupt)?;
        timed.expect(&format!("preparing {program}"), 0)
    }

    /// One pass over all that a program needs of a tree. It is made once for all programs that need the same.
    fn pass(&mut self, On { tree, program }: On) -> Result<Measured> {
        let needed = (tree, program.0.contents);
        if let Some(made) = self.passes.get(&needed) {
            return Ok(*made);
        }
        let pass = Pass::over(&self.point().join(self.given(tree)?.0), program.0.contents)?;
        self.cool()?;
        self.disk.begin_cold()?;
        let took = pass.time(self.disk.device(), self.interrupt);
        self.disk.set_delays(false)?;
        let (seconds, read_bytes) = (took?.as_secs_f64(), pass.bytes().get());
        let made = Measured { seconds, read_bytes, load: load(), ..Measured::default() };
        self.passes.insert(needed, made);
        Ok(made)
    }

    fn measure_way(&mut self, cell: On, way: Way) -> Result<Measured> {
        if cell.program.0.prepare().is_none() {
            let scratch = self.scratch(cell);
            let _ = fs::remove_dir_all(&scratch);
            create(&scratch)?;
        }
        // So that what earlier runs wrote is not written back during this one.
        let written = fs::File::open(self.folder.path());
        let synced = written.and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
        synced.map_err(|error| Error::io("cannot write back", self.folder.path().display(), error))?;
        self.cool()?;
        self.queue.set_read_ahead(way.read_ahead())?;
        let made = self.measure_cold(cell, way);
        // After a failure in the middle of a run they may still be on.
        self.disk.set_delays(false)?;
        made
    }

    fn measure_cold(&self, cell: On, way: Way) -> Result<Measured> {
        let On { tree, program } = cell;
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
            .map(|limit| MemoryGroup::create(&self.group_parent, "bench-walk", limit));
        let group = group.transpose()?;
        let command = |line: Vec<OsString>| {
            let program = Path::new(&line[0]);
            let mut command =
                group.as_ref().map_or_else(|| Command::new(program), |group| group.command(program));
            command.args(&line[1..]);
            command
        };
        let before = environment.watchers_costs(way)?;
        self.disk.begin_cold()?;
        self.disk.count_anew()?;
        let timed = |way: Way| {
            let start = SystemTime::now();
            let reader = match program.0.beside {
                Some(Beside::Reader) => Some(Reader::start(&beside::file_on(&point), self.seed)?),
                _ => None,
            };
            let mut command = command(environment.shell(way, program.0, &given, &scratch));
            let timed = Timed::run(program.0.name, &mut command, self.interrupt)?;
            timed.expect(&format!("running {program}"), program.0.status)?;
            let (seconds, beside) = match program.0.beside {
                Some(Beside::Program) => {
                    let (this, other) = beside::ends(&scratch, start)?;
                    (this, Some(other))
                }
                _ => (timed.took.as_secs_f64(), reader.map(Reader::end).transpose()?),
            };
            Ok::<_, Error>((seconds, beside, timed))
        };
        let (seconds, beside_seconds, cold) = timed(way)?;
        let stats = self.disk.stats()?;
        check_read(program, Bytes(stats.read_bytes), bytes)?;
        let after = environment.watchers_costs(way)?;
        let side_costs = match after.zip(before) {
            Some((after, before)) => Some(after.since(before)),
            None if way == Way::Warm => Some(reported(&cold.said())?),
            None => None,
        };
        // A memory monitor (DAMON) may have reclaimed some of it meanwhile: that is read again without a wait.
        self.disk.set_delays(false)?;
        let (again_seconds, _, _) = timed(if way == Way::Warm { Way::Stock } else { way })?;
        standing.end()?;
        Ok(Measured {
            seconds,
            again_seconds,
            beside_seconds,
            side_costs,
            reads: stats.reads,
            seeks: stats.seeks,
            read_bytes: stats.read_bytes,
            load,
        })
    }
}

impl Comparison for Bench<'_> {
    type Cell = On;
    type Way = Option<Way>;
    type Measured = Measured;

    fn name(cell: &On, way: &Option<Way>) -> String {
        let way = way.map_or("one pass".to_owned(), |way| way.to_string());
        format!("{} over {}, {way}", cell.program, cell.tree.name())
    }

    fn measure(&mut self, cell: &On, way: &Option<Way>, _: u32) -> Result<Measured> {
        match way {
            None => self.pass(*cell),
            Some(way) => self.measure_way(*cell, *way),
        }
    }

    fn end(mut self) -> Result<Vec<String>> {
        let warnings = self.disk.warnings().to_vec();
        self.mounted.take().map_or(Ok(()), Mounted::unmount)?;
        self.written.take().map_or(Ok(()), Mounted::unmount)?;
        drop(self.queue);
        self.disk.detach()?;
        Ok(warnings)
    }
}

/// Everything begins cold: a program that reads all contents has the disk read them. One that ended early, and did not say so, did not.
fn check_read(program: NamedProgram, read: Bytes, contents: Bytes) -> Result<()> {
    if program.0.contents != Contents::All || read >= contents {
        return Ok(());
    }
    let what =
        format!("running {program}: the disk has read {read} of {contents}, so not everything was read");
    Err(Error::Option { what })
}

/// The side costs in what `warm` and its command have said: its report is a line.
fn reported(said: &str) -> Result<SideCosts> {
    let report = said.lines().rev().find_map(|line| SideCosts::of(&serde_json::from_str(line).ok()?));
    report.ok_or_else(|| Error::Server {
        policy: Way::Warm.to_string(),
        what: format!("does not tell what it costs: {said}"),
    })
}

fn create(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("cannot make", path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_is_too_small_to_be_what_it_is_is_left_out_and_named() {
        let left_out = |share| {
            let mut options = Options { share, programs: Vec::new(), ..Options::default() };
            (leave_out(&mut options), options.trees.contains(&Tree::Large), options.trees.len())
        };
        let (said, has_large, trees) = left_out(0.3);
        assert!(!has_large && trees == Tree::ALL.len() - 1);
        assert!(
            matches!(&said[..], [one] if one.starts_with("large is left out") && one.contains("0.9")),
            "{said:?}"
        );
        assert_eq!(left_out(0.9), (Vec::new(), true, Tree::ALL.len()));
    }

    #[test]
    fn who_reads_all_has_the_disk_read_all() {
        let check = |program: &str, read| {
            check_read(program.parse().expect("known"), Bytes::mib(read), Bytes::mib(9))
        };
        assert!(check("grep", 9).is_ok() && check("jdupes", 2).is_ok() && check("du", 1).is_ok());
        let error = check("grep", 8).expect_err("some was not read").to_string();
        assert!(error.contains("grep") && error.contains("8 MiB of 9 MiB"), "{error}");
    }
}
