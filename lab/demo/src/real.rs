//! The demo on a real kernel: an emulated disk, ext4, a control group, the stock shell.
//!
//! Each of the four queries starts cold: the file system is mounted anew, so that neither its data
//! nor its metadata are in memory. Delays are on while a query runs and off while the database is
//! built.

use crate::database::{self, Database, Plan};
use crate::options::{DISK_SIZE, Options, SPACE_BESIDE};
use crate::outcome::{DiskUse, Limits, Measured, Outcome, QueryRun};
use crate::query::{Foreseek, Query, find_extension};
use crate::report::blocks::Mark;
use crate::{Error, Result, left, notes, scan};
use foreseek_device::Profile;
use foreseek_emulate::{LoggedOp, Stats};
use foreseek_rig::{
    CgroupParent, Disk, DiskPlan, Interrupt, MemoryGroup, Program, Version, check_space, extents_of,
};
use foreseek_units::{Bytes, Lba, Nanos};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where emulated disks keep their data by default.
const SPACE: &str = "/var/tmp";

/// How long a program may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The programs that the demo needs, found before anything is made.
struct Tools {
    shell: Program,
    mkfs: Program,
    extension: PathBuf,
    group_parent: CgroupParent,
}

/// A demo under way. Dropping it undoes all of it.
struct Demo<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    tools: Tools,
    /// A folder of our own: the mount point, the query's home, its counters.
    folder: &'a Path,
    disk: Disk,
    missed: u64,
}

/// Runs it all.
pub(crate) fn run(options: &Options, profile: &Profile, interrupt: &Interrupt) -> Result<Outcome> {
    let start = Instant::now();
    let tools = Tools::find(options)?;
    check_space(Path::new(SPACE), options.database_size * 2 + SPACE_BESIDE)?;
    let folder = left::make_folder()?;
    for name in ["disk", "home"] {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).map_err(|error| Error::io("cannot make", path.display(), error))?;
    }
    let plan = DiskPlan {
        name: left::disk_name(),
        profile: options.profile.clone(),
        size: DISK_SIZE,
        fit: false,
        time_scale: options.time_scale,
        directory: None,
    };
    let disk = Disk::attach(&plan)?;
    let mut demo = Demo { options, interrupt, tools, folder: folder.path(), disk, missed: 0 };
    let (database, accesses) = demo.build()?;
    let limits = Limits { profile, accesses: &accesses };
    let mut runs = Vec::new();
    for (name, title, memory) in options.runs(database.bytes) {
        let stock = demo.measure(&database, memory, &format!("stock SQLite, {title}"), false)?;
        let foreseek = demo.measure(&database, memory, &format!("with Foreseek, {title}"), true)?;
        runs.push(QueryRun::compare(name, title, memory, stock, foreseek, &limits)?);
    }
    let mut notes = demo.notes();
    let versions = demo.versions();
    if options.keep {
        notes.push(demo.keep(&database)?);
        std::mem::forget(folder);
    } else {
        demo.disk.detach()?;
    }
    Ok(Outcome {
        simulated: false,
        why_simulated: None,
        database: database.bytes,
        rows: database.rows,
        seed: options.seed,
        profile: options.profile.clone(),
        disk: DISK_SIZE,
        time_scale: options.time_scale,
        runs,
        elapsed: Nanos::from(start.elapsed()),
        versions,
        notes,
    })
}

impl Tools {
    fn find(options: &Options) -> Result<Self> {
        let extension = match &options.extension {
            Some(path) => path
                .canonicalize()
                .map_err(|error| Error::io("cannot find the extension", path.display(), error))?,
            None => find_extension()?,
        };
        Ok(Self {
            shell: Program::find("sqlite3", "sqlite3")?,
            mkfs: Program::find("mkfs.ext4", "e2fsprogs")?,
            extension,
            group_parent: CgroupParent::find()?,
        })
    }
}

impl Demo<'_> {
    fn point(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Makes the file system and the database; returns the addresses on the disk that the query will read.
    fn build(&self) -> Result<(Database, Vec<Lba>)> {
        let options = self.options;
        let plan = Plan { size: options.database_size, seed: options.seed };
        let mut stage = options.show.stage("building the database", plan.rows());
        self.disk.make_file_system(&self.tools.mkfs, self.interrupt)?;
        let mounted = self.disk.mount(&self.point())?;
        let path = self.point().join("tpcc.db");
        let row = plan.size / plan.rows();
        let database = database::build(&self.tools.shell, &path, plan, self.interrupt, &mut |rows| {
            stage.at(rows, row * rows, &mut || None);
        })?;
        stage.done(&format!("{} rows, {}", database.rows, database.bytes));
        let cannot = |error| Error::io("cannot read", path.display(), error);
        // A page's address is chosen when it is written back.
        File::open(&path).and_then(|file| file.sync_all()).map_err(cannot)?;
        let extents = extents_of(&path)?;
        let image = std::fs::read(&path).map_err(cannot)?;
        let accesses = scan::addresses(&scan::pages(&image)?, &extents)?;
        mounted.unmount()?;
        Ok((database, accesses))
    }

    /// Runs the query once, cold.
    fn measure(
        &mut self,
        database: &Database,
        memory: Bytes,
        name: &str,
        prefetch: bool,
    ) -> Result<Measured> {
        self.interrupt.check()?;
        let mounted = self.disk.mount(&self.point())?;
        let group = MemoryGroup::create(&self.tools.group_parent, "demo", memory)?;
        let counters = self.folder.join("counters.json");
        let home = self.folder.join("home");
        let query = Query {
            shell: &self.tools.shell,
            database: &database.path,
            group: &group,
            home: &home,
            foreseek: prefetch.then_some(Foreseek {
                extension: &self.tools.extension,
                profile: &self.options.profile,
                mode: self.options.mode,
                counters: &counters,
            }),
        };
        let mut stage = self.options.show.stage(name, database.rows);
        self.disk.set_delays(true)?;
        self.disk.count_anew()?;
        self.disk.start_log()?;
        let answer = query.run(self.interrupt, &mut |progress| {
            stage.at(progress.rows, progress.bytes, &mut || {
                self.disk.stats().ok().map(|stats| stats.requests)
            });
        })?;
        let stats = self.disk.stats()?;
        let log = self.disk.take_log()?;
        self.disk.set_delays(false)?;
        stage.done(&format!("{} rows in {:.2} s", answer.rows, answer.time.as_secs_f64()));
        self.missed += log.missed;
        let usage = group.usage();
        group.remove()?;
        mounted.unmount()?;
        if answer.rows != database.rows {
            let what = format!("the query gave {} rows of {}", answer.rows, database.rows);
            return Err(Error::Database { what });
        }
        let reads = log.entries.iter().filter(|entry| entry.op == LoggedOp::Read);
        Ok(Measured {
            time: answer.time,
            rows: answer.rows,
            result: answer.bytes,
            fingerprint: answer.fingerprint,
            disk: disk_use(&stats),
            memory_peak: usage.peak,
            processor: answer.processor,
            prefetcher: answer.counters,
            path_share: stats.path_share,
            marks: reads.map(|entry| Mark { at: Nanos(entry.completion_ns), lba: Lba(entry.lba) }).collect(),
        })
    }

    /// Remarks for the reader of the figures.
    fn notes(&self) -> Vec<String> {
        let mut notes = notes::measured(self.options.time_scale);
        notes.extend(self.disk.warnings().iter().cloned());
        if self.missed > 0 {
            notes.push(format!("{} requests found the log full and are missing in the plot.", self.missed));
        }
        notes
    }

    fn versions(&self) -> Vec<(String, String)> {
        let uname = rustix::system::uname();
        let shell = self.tools.shell.run("asking its version", &["--version"], VERSION_LIMIT, self.interrupt);
        let shell = shell.unwrap_or_default();
        let group = match self.tools.group_parent.version {
            Version::V1 => "version 1",
            Version::V2 => "version 2",
        };
        [
            ("foreseek", env!("CARGO_PKG_VERSION")),
            ("sqlite3", shell.split(' ').next().unwrap_or_default()),
            ("kernel", &uname.release().to_string_lossy()),
            ("machine", &uname.machine().to_string_lossy()),
            ("control group", group),
            ("file system", "ext4"),
        ]
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .to_vec()
    }

    /// Leaves the disk attached and mounted; returns how to undo that.
    fn keep(self, database: &Database) -> Result<String> {
        self.disk.mount(&self.point())?.keep();
        let (name, path) = (self.disk.keep(), database.path.display().to_string());
        Ok(format!(
            "The disk and the database {path} are kept: 'foreseek disk detach --force {name}' removes both."
        ))
    }
}

/// A disk's use, from the server's figures. Its busy time is the model's and is scaled here.
fn disk_use(stats: &Stats) -> DiskUse {
    DiskUse {
        requests: stats.requests,
        seeks: stats.seeks,
        mean_seek_distance: Bytes(stats.mean_seek_distance_bytes),
        read: Bytes(stats.read_bytes),
        busy: Nanos::from_secs_f64(stats.busy_seconds * stats.time_scale),
    }
}
