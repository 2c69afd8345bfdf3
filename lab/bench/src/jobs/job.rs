//! The jobs: programs that the mount was not tuned for, unmodified and with their defaults.
//!
//! Each is a line for `sh`: `$1` is the folder of its [`Data`], `$2` a folder for what it writes (on another disk, empty before each run),
//! `$3` the Python that is used, `$4` the folder of the scripts.

use super::data::Data;
use crate::{Error, Result};
use foreseek_rig::Program;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// A job.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: &'static str,
    /// Its description in the page's table.
    pub(crate) does: &'static str,
    /// What must be installed.
    needs: &'static [Need],
    /// What it reads.
    pub(crate) data: Data,
    /// What is run before the timing starts, for example a server.
    pub(crate) before: Option<&'static str>,
    /// What is timed.
    pub(crate) line: &'static str,
    /// What is run after the timing.
    pub(crate) after: Option<&'static str>,
    /// The exit status of success: searches that find nothing end with 1.
    pub(crate) status: i32,
    /// Whether its data are read over sshfs, from a server that is [`AWAY_MS`] away.
    pub(crate) is_far: bool,
    /// Whether it changes its data; then they are copied anew before each run.
    pub(crate) changes: bool,
}

/// What a job needs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A program and its Debian package.
    Program(&'static str, &'static str),
    /// A file and its Debian package.
    File(&'static str, &'static str),
    /// A module of Python, and how to install it.
    Module(&'static str),
    /// A PostgreSQL server.
    Postgres,
}

const PYTHON: Need = Need::Program("python3", "python3");
/// The server's side of sshfs.
pub(crate) const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
/// The round trip to that server: one in the same country.
pub(crate) const AWAY_MS: u32 = 5;
const SSHFS: &[Need] =
    &[Need::Program("sshfs", "sshfs"), Need::File(SFTP_SERVER, "openssh-sftp-server"), PYTHON];
const GIT: &[Need] = &[Need::Program("git", "git")];
/// Git makes the tree.
const TREE: &[Need] =
    &[Need::Program("git", "git"), Need::Program("tar", "tar"), Need::Program("find", "findutils")];

const fn job(name: &'static str, data: Data, needs: &'static [Need], line: &'static str) -> Job {
    let (before, after) = (None, None);
    Job { name, does: "", needs, data, before, line, after, status: 0, is_far: false, changes: false }
}

/// The newest of Debian's folders with the server's programs.
macro_rules! pg {
    ($rest:literal) => {
        concat!("PG=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1); cd /; ", $rest)
    };
}
pub(crate) use pg;

/// The server's beginning, with more options.
macro_rules! pg_start {
    ($options:literal) => {
        concat!(
            pg!("chown postgres \"$2\"; "),
            "runuser -u postgres -- \"$PG/pg_ctl\" -D \"$1/cluster\" -w -t 300 -l \"$2/log\" -o \"-k $2 -c listen_addresses='' ",
            $options,
            "\" start"
        )
    };
}

/// An update of so many rows, which lie all over the table.
macro_rules! pg_update {
    ($rows:literal) => {
        concat!(
            pg!("runuser -u postgres -- psql -qX -h \"$2\" -d postgres -c 'SET enable_seqscan=off' "),
            "-c 'UPDATE t SET n = n + 1 WHERE shuffled < ",
            $rows,
            "' -c CHECKPOINT"
        )
    };
}

const PG_STOP: &str =
    pg!("runuser -u postgres -- \"$PG/pg_ctl\" -D \"$1/cluster\" -w -t 300 -m immediate stop");

/// A job of a PostgreSQL server that runs before the timing starts.
const fn sql(name: &'static str, line: &'static str) -> Job {
    let job = job(name, Data::Postgres, &[Need::Postgres], line);
    Job { before: Some(pg_start!("")), after: Some(PG_STOP), ..job }
}

const CAT_4: &str =
    "printf '%s\\n' 0 1 2 3 | xargs -P 4 -I{} sh -c 'cat \"$1\"/part\"$2\"/* > /dev/null' sh \"$1\" {}";

const GIT_STATUS: &str = "git -C \"$1\" --no-optional-locks status --short";
const GIT_GREP: &str = "git -C \"$1\" grep -q 'no such text'";

/// All of them.
pub static ALL: [Job; 33] = [
    Job {
        does: "one `cat` of one large file",
        ..job("cat", Data::Large, &[], "cat \"$1/first\" > /dev/null")
    },
    Job {
        does: "`cat` of two large files, and of both again",
        ..job(
            "cat-twice",
            Data::Large,
            &[],
            "cat \"$1/first\" \"$1/second\" \"$1/first\" \"$1/second\" > /dev/null",
        )
    },
    Job { does: "four `cat` at a time, each of many files of 4 MB", ..job("cat-4", Data::Four, &[], CAT_4) },
    Job {
        does: "`cp` of one large file to another disk",
        ..job("cp", Data::Large, &[], "cp \"$1/first\" \"$2/copy\"")
    },
    Job {
        does: "`cmp` of two large files",
        ..job("cmp", Data::Large, &[Need::Program("cmp", "diffutils")], "cmp \"$1/first\" \"$1/second\"")
    },
    Job {
        does: "`sha256sum` of many files",
        ..job("sha256sum", Data::Many, &[], "find \"$1\" -type f -print0 | xargs -0 sha256sum > /dev/null")
    },
    Job {
        does: "`git log -p` over loose objects",
        ..job("git-log", Data::Git, GIT, "git -C \"$1\" log -p > /dev/null")
    },
    Job { does: "`git status`", ..job("git-status", Data::Git, GIT, GIT_STATUS) },
    Job { does: "`git grep` in the working tree", status: 1, ..job("git-grep", Data::Git, GIT, GIT_GREP) },
    Job { does: "`git status` over 5,000 files", ..job("tree-status", Data::Tree, GIT, GIT_STATUS) },
    Job { does: "`git grep` over 5,000 files", status: 1, ..job("tree-grep", Data::Tree, GIT, GIT_GREP) },
    Job {
        does: "`tar` of 5,000 files",
        // It reads no file where its output is /dev/null.
        ..job("tree-tar", Data::Tree, TREE, "tar -C \"$1\" -cf - . | cat > /dev/null")
    },
    Job {
        does: "`find -size` over 5,000 files",
        ..job("tree-find", Data::Tree, TREE, "find \"$1\" -size +1000k")
    },
    Job {
        does: "`cp -r` of 5,000 files to another disk",
        ..job("tree-cp", Data::Tree, TREE, "cp -r \"$1\" \"$2/copy\"")
    },
    Job {
        does: "DuckDB, 3 of 6 columns of Parquet",
        ..job("duckdb", Data::Parquet, &[Need::Module("duckdb")], "\"$3\" \"$4/columns.py\" duckdb \"$1\"")
    },
    Job {
        does: "pyarrow, 2 of 6 columns of Parquet",
        ..job(
            "pyarrow",
            Data::Parquet,
            &[Need::Module("duckdb"), Need::Module("pyarrow.parquet")],
            "\"$3\" \"$4/columns.py\" pyarrow \"$1\"",
        )
    },
    Job {
        does: "`zip` of many files",
        ..job("zip", Data::Many, &[Need::Program("zip", "zip")], "cd \"$1\" && zip -q -1 -r \"$2/new.zip\" .")
    },
    Job {
        does: "`unzip` of an archive",
        ..job(
            "unzip",
            Data::Archive,
            &[Need::Program("zip", "zip"), Need::Program("unzip", "unzip")],
            "unzip -q \"$1/archive.zip\" -d \"$2\"",
        )
    },
    Job {
        does: "a compile of a small C project",
        ..job(
            "compile",
            Data::Source,
            &[Need::Program("make", "make"), Need::Program("cc", "gcc")],
            "make -s -j 2 -C \"$1\" OUT=\"$2\"",
        )
    },
    Job {
        does: "two files read through mappings",
        ..job("mmap", Data::Large, &[PYTHON], "\"$3\" \"$4/readers.py\" mmap \"$1/first\" \"$1/second\"")
    },
    Job {
        does: "eight processes that load one model's file through mappings",
        ..job("model-8", Data::Large, &[PYTHON], "\"$3\" \"$4/readers.py\" model \"$1/first\"")
    },
    Job {
        does: "five readers of an archive, as a backup's check has them",
        ..job("check-5", Data::Large, &[PYTHON], "\"$3\" \"$4/readers.py\" check \"$1/first\"")
    },
    Job {
        does: "six peers of a torrent: random pieces of 256 KiB in requests of 16 KiB",
        ..job("torrent", Data::Large, &[PYTHON], "\"$3\" \"$4/readers.py\" torrent \"$1/first\"")
    },
    Job {
        does: "two `ffmpeg` at a time, each of a file of its own",
        ..job(
            "ffmpeg-2",
            Data::Video,
            &[Need::Program("ffmpeg", "ffmpeg")],
            "printf '%s\\n' 0 1 | xargs -P 2 -I{} ffmpeg -nostdin -v error -i \"$1/{}.nut\" -c copy -f null -",
        )
    },
    Job {
        does: "PostgreSQL, sequential scan",
        ..sql(
            "pg-seq",
            pg!("runuser -u postgres -- psql -qX -h \"$2\" -d postgres -c 'SELECT sum(length(pad)) FROM t'"),
        )
    },
    Job {
        does: "PostgreSQL, 300 rows by index",
        ..sql(
            "pg-index",
            pg!(
                "runuser -u postgres -- psql -qX -h \"$2\" -d postgres -c 'SET enable_seqscan=off; SET enable_bitmapscan=off; \
                 SELECT sum(length(pad)) FROM t WHERE shuffled < 300'"
            ),
        )
    },
    Job {
        does: "PostgreSQL, 2,000 rows by bitmap",
        ..sql(
            "pg-bitmap",
            pg!(
                "runuser -u postgres -- psql -qX -h \"$2\" -d postgres -c 'SET enable_seqscan=off; SET enable_indexscan=off; \
                 SELECT sum(length(pad)) FROM t WHERE shuffled < 2000'"
            ),
        )
    },
    Job {
        does: "PostgreSQL, UPDATE of 2,000 rows and CHECKPOINT",
        changes: true,
        ..sql("pg-update", pg_update!(2000))
    },
    Job {
        does: "PostgreSQL, UPDATE of 20,000 rows and CHECKPOINT",
        changes: true,
        ..sql("pg-update-20k", pg_update!(20000))
    },
    Job {
        does: "PostgreSQL, UPDATE of 20,000 rows with `bgwriter_flush_after = 0`",
        changes: true,
        before: Some(pg_start!("-c bgwriter_flush_after=0")),
        ..sql("pg-update-20k-late", pg_update!(20000))
    },
    Job {
        does: "`grep` for a text in one large file",
        status: 1,
        ..job("grep", Data::Large, &[], "LC_ALL=C grep -c 'no such text' \"$1/first\"")
    },
    Job {
        does: "one `cat` of one large file over `sshfs`, 5 ms away",
        is_far: true,
        ..job("sshfs-cat", Data::Large, SSHFS, "cat \"$1/first\" > /dev/null")
    },
    Job {
        does: "four `cat` at a time over `sshfs`, 5 ms away",
        is_far: true,
        ..job("sshfs-cat-4", Data::Four, SSHFS, CAT_4)
    },
];

impl Need {
    /// What is missing, with the remedy; `None` if nothing is.
    fn missing(self, python: &Path) -> Option<String> {
        match self {
            Self::Program(name, package) => Program::find(name, package).err().map(|error| error.to_string()),
            Self::File(path, package) => {
                (!Path::new(path).exists()).then(|| format!("there is no {path}: install {package} (Debian)"))
            }
            Self::Module(module) => {
                let mut command = Command::new(python);
                command.args(["-c", &format!("import {module}")]);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let is_there = command.status().is_ok_and(|status| status.success());
                (!is_there).then(|| {
                    format!(
                        "{} has no module {module}: python3 -m venv DIR, DIR/bin/pip install duckdb pyarrow, and give --python DIR/bin/python3",
                        python.display()
                    )
                })
            }
            Self::Postgres => {
                let mut folders = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
                let is_there = folders.any(|folder| folder.path().join("bin/pg_ctl").exists());
                (!is_there).then(|| "there is no PostgreSQL server: install postgresql (Debian)".to_owned())
            }
        }
    }
}

impl Job {
    /// What is missing on this machine, with the remedy.
    pub(crate) fn missing(&self, python: &Path) -> Option<String> {
        self.needs.iter().find_map(|need| need.missing(python))
    }

    /// Whether its work is done by a server that is no child of the timed program.
    pub(crate) fn has_server(&self) -> bool {
        self.before.is_some()
    }
}

/// A job of [`ALL`], by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NamedJob(pub &'static Job);

impl NamedJob {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        ALL.iter().map(Self).collect()
    }
}

impl fmt::Display for NamedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

impl FromStr for NamedJob {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        ALL.iter().find(|job| job.name == name).map(Self).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|job| job.name).collect();
            Error::Option { what: format!("no job is called '{name}': give one of {}", known.join(", ")) }
        })
    }
}

impl From<NamedJob> for String {
    fn from(named: NamedJob) -> Self {
        named.0.name.to_owned()
    }
}

impl TryFrom<String> for NamedJob {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_each_and_say_what_the_job_does() {
        for job in &ALL {
            let named: NamedJob = job.name.parse().expect("known");
            assert!(std::ptr::eq(named.0, job) && !job.does.is_empty(), "{named}");
        }
        let error = "emacs".parse::<NamedJob>().expect_err("unknown").to_string();
        assert!(error.contains("'emacs'") && error.contains("duckdb"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let python = Path::new("/nowhere/python3");
        let missing = Need::Module("duckdb").missing(python).expect("no such Python");
        assert!(missing.contains("pip install") && missing.contains("--python"), "{missing}");
        let missing = Need::Program("no-such-program", "some-package").missing(python).expect("none");
        assert!(missing.contains("some-package"), "{missing}");
        assert_eq!(Need::Program("sh", "dash").missing(python), None);
        let missing = Need::File("/nowhere/server", "a-package").missing(python).expect("no such file");
        assert!(missing.contains("/nowhere/server") && missing.contains("a-package"), "{missing}");
        assert_eq!(Need::File("/proc", "linux").missing(python), None);
    }
}
