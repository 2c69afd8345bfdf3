//! The whole measurement: data once, then pair by pair every job in every way.

use super::data::{Data, Maker};
use super::job::{AWAY_MS, Job, NamedJob, SFTP_SERVER};
use super::options::{Options, Plan};
use super::record::{JobCell, Measured};
use super::report::Report;
use super::way::Way;
use crate::measure::load;
use crate::pairs::{self, Ahead, Comparison, RunList, Todo};
use crate::run::Reporting;
use crate::server::Server;
use crate::timed::Timed;
use crate::{Error, Result};
use foreseek_rig::queue::Queue;
use foreseek_rig::{
    CgroupParent, Disk, DiskPlan, Interrupt, MemoryGroup, Mounted, Program, processor_time, waited_time,
};
use foreseek_units::Bytes;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the disk's data and the programs' output lie by default.
const SPACE: &str = "/var/tmp";
/// The disk's size: its data lie in the fast zone, as on a disk that is not full.
const DISK_SIZE: Bytes = Bytes::gib(32);
/// Scripts of jobs.
const SCRIPTS: [(&str, &str); 3] = [
    ("readers.py", include_str!("readers.py")),
    ("columns.py", include_str!("columns.py")),
    ("far.py", include_str!("far.py")),
];

/// Measures what is missing and judges all of it.
///
/// # Errors
/// Whatever keeps it from beginning or from being written, and an interrupt. Failures of single runs are in the
/// report.
pub fn run(options: &Options, interrupt: &Interrupt, reporting: &Reporting<'_, Ahead>) -> Result<Report> {
    options.check()?;
    let plan = Plan::of(options);
    let mut options = options.clone();
    let left_out = leave_out(&mut options);
    let asked = RunList {
        out: &options.out,
        cells: options.jobs.iter().map(|job| JobCell { job: *job }).collect(),
        ways: options.ways.clone(),
        pairs: options.pairs,
        is_run: &|_, _, _| true,
        anew: false,
        first: None,
        left_out,
    };
    let begin = |todo: &[Todo<JobCell, Way>], progress: &dyn Fn(f64, &str)| {
        Bench::begin(&options, interrupt, todo, progress)
    };
    let (runs, notes) = pairs::run(&plan, &asked, interrupt, reporting, &begin)?;
    Ok(Report::of(plan, &runs, &options, notes))
}

/// Removes jobs whose programs are not installed; returns which.
fn leave_out(options: &mut Options) -> Vec<String> {
    let mut left_out = Vec::new();
    let python = options.python.clone();
    options.jobs.retain(|named| match named.0.missing(&python) {
        None => true,
        Some(what) => {
            left_out.push(format!("{named} is left out: {what}"));
            false
        }
    });
    left_out
}

/// A measurement under way. Dropping it undoes all of it.
struct Bench<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    group_parent: CgroupParent,
    foreseek: PathBuf,
    /// Jobs whose programs are in memory.
    tried: BTreeSet<&'static str>,
    mounted: Option<Mounted>,
    queue: Queue,
    disk: Disk,
    folder: tempfile::TempDir,
}

/// What was started for a run.
struct Standing {
    /// Where the disk's files are visible.
    root: PathBuf,
    server: Option<Server>,
    programs: MemoryGroup,
    /// The server's group, where it has one of its own. Dropped after the server, which is in it.
    _group: Option<MemoryGroup>,
    /// The sshfs process. Dropped after the server whose files it shows.
    far: Option<Server>,
}

impl<'a> Bench<'a> {
    fn begin(
        options: &'a Options,
        interrupt: &'a Interrupt,
        todo: &[Todo<JobCell, Way>],
        progress: &dyn Fn(f64, &str),
    ) -> Result<Self> {
        let group_parent = CgroupParent::find()?;
        let space = options.disk_space.as_deref().unwrap_or(Path::new(SPACE));
        let folder = tempfile::Builder::new().prefix("foreseek-bench-jobs-").tempdir_in(space);
        let folder = folder.map_err(|error| Error::io("cannot make a folder in", space.display(), error))?;
        // PostgreSQL's server runs as a user of its own.
        open_to_all(folder.path())?;
        for name in ["disk", "far", "view", "state", "scripts"] {
            create(&folder.path().join(name))?;
        }
        for (name, text) in SCRIPTS {
            let path = folder.path().join("scripts").join(name);
            fs::write(&path, text).map_err(|error| Error::io("cannot write", path.display(), error))?;
        }
        let foreseek =
            std::env::current_exe().map_err(|error| Error::io("cannot find", "this program", error))?;
        let disk = Disk::attach(&DiskPlan {
            name: format!("bench-jobs-{}", std::process::id()),
            profile: options.profile.clone(),
            size: DISK_SIZE,
            fit: true,
            time_scale: options.time_scale,
            directory: Some(space.to_owned()),
        })?;
        disk.make_file_system(&Program::find("mkfs.ext4", "e2fsprogs")?, interrupt)?;
        let queue = Queue::of(disk.device())?;
        let (tried, mounted) = (BTreeSet::new(), None);
        let mut bench =
            Self { options, interrupt, group_parent, foreseek, tried, mounted, queue, disk, folder };
        bench.mounted = Some(bench.disk.mount(&bench.path("disk"))?);
        let data: BTreeSet<Data> = todo.iter().map(|(_, of, _)| of.job.0.data).collect();
        let count = data.len() as f64;
        for (number, data) in data.into_iter().enumerate() {
            progress(number as f64 / count, &format!("making {}", data.name()));
            bench.make(data)?;
        }
        Ok(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command of a job: its line with its arguments, in a group.
    fn command(&self, line: &str, data: &Path, more: &[String], group: Option<&MemoryGroup>) -> Command {
        let sh = Path::new("/bin/sh");
        let mut command = group.map_or_else(|| Command::new(sh), |group| group.command(sh));
        command.args(["-c", line, "sh"]).arg(data).arg(self.path("scratch"));
        command.arg(&self.options.python).arg(self.path("scripts")).args(more);
        command
    }

    fn make(&self, data: Data) -> Result<()> {
        self.empty_scratch()?;
        let options = self.options;
        let maker = Maker { share: options.share, seed: options.seed, interrupt: self.interrupt };
        let folder = self.path("disk").join(data.name());
        data.make(&folder, &maker, &|line, number| {
            let mut command = self.command(line, &folder, &[number.to_string()], None);
            Timed::run("sh", &mut command, self.interrupt)?.expect(&format!("making {}", data.name()), 0)
        })
    }

    /// Removes what earlier runs wrote, so that none of it is written back later.
    fn empty_scratch(&self) -> Result<()> {
        let scratch = self.path("scratch");
        let _ = fs::remove_dir_all(&scratch);
        create(&scratch)?;
        open_to_all(&scratch)?;
        let written = fs::File::open(self.folder.path());
        let synced = written.and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
        synced.map_err(|error| Error::io("cannot write back", scratch.display(), error))
    }

    /// The folder of a job's data, on the disk. A job that changes them gets a new copy.
    fn data_of(&self, job: &Job) -> Result<PathBuf> {
        let name = PathBuf::from(job.data.name());
        if !job.changes {
            return Ok(name);
        }
        let changed = PathBuf::from(format!("{}-changed", job.data.name()));
        let disk = self.path("disk");
        let mut copy = Command::new("sh");
        copy.args(["-c", "rm -rf \"$2\" && cp -a \"$1\" \"$2\" && sync -f \"$2\"", "sh"]);
        copy.arg(disk.join(name)).arg(disk.join(&changed));
        Timed::run("sh", &mut copy, self.interrupt)?.expect("making data anew", 0)?;
        Ok(changed)
    }

    /// Drops the disk's pages from memory.
    fn cool(&mut self) -> Result<()> {
        self.mounted.take().map_or(Ok(()), Mounted::unmount)?;
        self.mounted = Some(self.disk.mount(&self.path("disk"))?);
        Ok(())
    }

    /// Runs a job from cold.
    fn run(&mut self, job: NamedJob, way: Way, delays: bool) -> Result<Measured> {
        self.empty_scratch()?;
        let data = self.data_of(job.0)?;
        self.cool()?;
        let made = self.run_cold(job, way, &data, delays);
        // After a failure in the middle of a run they may still be on.
        self.disk.set_delays(false)?;
        made
    }

    fn foreseek(&self, group: Option<&MemoryGroup>) -> Command {
        let mut command =
            group.map_or_else(|| Command::new(&self.foreseek), |group| group.command(&self.foreseek));
        // Each begins without what earlier runs have learnt.
        command.env("FORESEEK_RUN", self.path("state")).env("FORESEEK_STATE", "").stdin(Stdio::null());
        command
    }

    /// The disk's files over sshfs.
    fn start_far(&self, way: Way) -> Result<Server> {
        let far = self.path("far");
        let script = self.path("scripts").join("far.py");
        let mut command = Command::new("sshfs");
        let python = self.options.python.display();
        let ssh = format!("ssh_command={python} {} {AWAY_MS} {SFTP_SERVER}", script.display());
        command.args(["-f", "-o", &ssh, &format!("far:{}", self.path("disk").display())]).arg(&far);
        Server::showing(&way.to_string(), "sshfs", command, &far, self.interrupt)
    }

    fn stand(&self, way: Way, is_far: bool) -> Result<Standing> {
        let far = is_far.then(|| self.start_far(way)).transpose()?;
        let source = self.path(if is_far { "far" } else { "disk" });
        let group = |name: &str, limit| MemoryGroup::create(&self.group_parent, name, limit);
        let (all, half) = (self.options.memory, self.options.memory / 2);
        let halves = self.options.halves && !way.is_static();
        let programs = group("bench-jobs", if halves { half } else { all })?;
        if way.is_static() {
            return Ok(Standing { root: source, server: None, programs, _group: None, far });
        }
        // The mount limits itself; a plain pass-through fills the page cache of its group.
        let limited = (halves && way == Way::Plain).then(|| group("bench-jobs-server", half)).transpose()?;
        let mut command = self.foreseek(if halves { limited.as_ref() } else { Some(&programs) });
        command.args(["mount", "--foreground"]);
        if halves {
            command.args(["--memory", &half.get().to_string()]);
        }
        if way == Way::Plain {
            command.args(["--policy", "plain"]);
        }
        let view = self.path("view");
        command.arg(source).arg(&view);
        let server = Server::showing(&way.to_string(), "foreseek", command, &view, self.interrupt)?;
        Ok(Standing { root: view, server: Some(server), programs, _group: limited, far })
    }

    fn run_cold(&self, named: NamedJob, way: Way, data: &Path, delays: bool) -> Result<Measured> {
        let job = named.0;
        let standing = self.stand(way, job.is_far)?;
        let data = standing.root.join(data);
        if delays {
            self.disk.begin_cold()?;
        } else {
            self.disk.set_delays(false)?;
        }
        let run = |line: &str, what: &str, status: i32| {
            let mut command = self.command(line, &data, &[], Some(&standing.programs));
            let timed = Timed::run(job.name, &mut command, self.interrupt)?;
            timed.expect(&format!("{what} {named}"), status)?;
            Ok::<_, Error>(timed.took)
        };
        let made = job.before.map_or(Ok(()), |line| run(line, "beginning", 0).map(drop)).and_then(|()| {
            let server = || standing.server.as_ref().map_or(0.0, |server| used(server.running.child.id()));
            let (load, mount, programs) = (load(), server(), waited_time());
            self.disk.count_anew()?;
            let took = run(job.line, "running", job.status)?;
            let (stats, programs) = (self.disk.stats()?, waited_time().saturating_sub(programs));
            Ok(Measured {
                seconds: took.as_secs_f64(),
                program_processor_s: if job.has_server() { 0.0 } else { programs.as_secs_f64() },
                mount_processor_s: server() - mount,
                reads: stats.reads,
                seeks: stats.seeks,
                read_bytes: stats.read_bytes,
                writes: stats.writes,
                flushes: stats.flushes,
                load,
                status: (way == Way::Mount).then(|| self.status(&standing.root)).flatten(),
            })
        });
        self.disk.set_delays(false)?;
        // After a failure, too: a server that goes on would keep the disk busy.
        let ended = job.after.map_or(Ok(()), |line| run(line, "ending", 0).map(drop));
        let made = made?;
        ended?;
        standing.server.map_or(Ok(()), Server::end)?;
        standing.far.map_or(Ok(()), Server::end)?;
        Ok(made)
    }

    /// The mount's status.
    fn status(&self, view: &Path) -> Option<serde_json::Value> {
        let mut command = self.foreseek(None);
        command.args(["mount", "--format", "json", "--status"]).arg(view);
        serde_json::from_slice(&command.stderr(Stdio::null()).output().ok()?.stdout).ok()
    }
}

impl Comparison for Bench<'_> {
    type Cell = JobCell;
    type Way = Way;
    type Measured = Measured;

    fn name(cell: &JobCell, way: &Way) -> String {
        format!("{}, {way}", cell.job)
    }

    fn measure(&mut self, cell: &JobCell, way: &Way, _: u32) -> Result<Measured> {
        self.queue.set_read_ahead(way.read_ahead())?;
        if self.tried.insert(cell.job.0.name) {
            // So that the first way does not pay for reading programs and libraries from the machine's disk.
            self.run(cell.job, Way::Stock, false)?;
        }
        self.run(cell.job, *way, true)
    }

    fn end(mut self) -> Result<Vec<String>> {
        let warnings = self.disk.warnings().to_vec();
        self.mounted.take().map_or(Ok(()), Mounted::unmount)?;
        drop(self.queue);
        self.disk.detach()?;
        Ok(warnings)
    }
}

fn used(pid: u32) -> f64 {
    processor_time(pid).as_secs_f64()
}

fn create(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("cannot make", path.display(), error))
}

fn open_to_all(path: &Path) -> Result<()> {
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions)
        .map_err(|error| Error::io("cannot open to all", path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    #[test]
    #[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
    fn the_relay_ends_where_its_peer_is_gone_with_an_answer_unread() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("far.py");
        let (_, text) = SCRIPTS.iter().find(|(name, _)| *name == "far.py").expect("the relay");
        fs::write(&script, text).expect("written");
        let (mut peer, end) = UnixStream::pair().expect("a pair");
        let other = end.try_clone().expect("a second one");
        let mut command = Command::new("python3");
        command.arg(script).args(["5", "cat"]).stderr(Stdio::null());
        command.stdin(OwnedFd::from(end)).stdout(OwnedFd::from(other));
        let Ok(mut relay) = command.spawn() else {
            println!("SKIPPED: there is no python3");
            return;
        };
        drop(command);
        peer.write_all(b"asked").expect("sent");
        let begun = Instant::now();
        let limit = Duration::from_secs(60);
        while rustix::io::ioctl_fionread(&peer).expect("a count") < 5 && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(peer);
        let ended = loop {
            let ended = relay.try_wait().expect("waited");
            if ended.is_some() || begun.elapsed() > limit {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let _ = relay.kill();
        let _ = relay.wait();
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    }
}
