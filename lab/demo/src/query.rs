//! The query, run by the machine's own `sqlite3` in a control group, its result read by us.
//!
//! The two ways differ in one option and in the environment: with Foreseek the shell loads the extension
//! (`.load`) before it runs the same statement. The result is counted and hashed while it is read, so that both
//! can be compared byte by byte without being stored. The time is from the start of the process to the end of
//! its output.

use crate::{Error, QUERY, Result};
use foreseek_hints::Mode;
use foreseek_rig::{Interrupt, MemoryGroup, POLL, Program, Running, processor_time};
use foreseek_units::{Bytes, Nanos};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much of the result is read at a time: the default size of a pipe. A larger pipe would be charged to the
/// query's control group and take memory from its pages.
const PIECE: Bytes = Bytes::kib(64);

/// How long the reader pauses after it has found little: less than the writer needs to fill the pipe, and the
/// most by which a run can seem longer than it was.
const REST: Duration = Duration::from_micros(100);

/// How long a query may take: ten times the five minutes that a whole demo should.
const QUERY_LIMIT: Duration = Duration::from_secs(3000);

/// How the query is run.
#[derive(Clone, Debug)]
pub(crate) struct Query<'a> {
    pub(crate) shell: &'a Program,
    pub(crate) database: &'a Path,
    pub(crate) group: &'a MemoryGroup,
    /// An empty home folder, so that no user's settings apply.
    pub(crate) home: &'a Path,
    pub(crate) foreseek: Option<Foreseek<'a>>,
}

/// The settings of the run with Foreseek.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseek<'a> {
    /// The loadable extension.
    pub(crate) extension: &'a Path,
    /// The disk's profile, for the gaps that are cheaper to read than to skip.
    pub(crate) profile: &'a str,
    /// How it fetches.
    pub(crate) mode: Mode,
    /// The file for the counters.
    pub(crate) counters: &'a Path,
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) time: Nanos,
    pub(crate) rows: u64,
    pub(crate) bytes: Bytes,
    pub(crate) fingerprint: String,
    pub(crate) processor: Nanos,
    pub(crate) counters: BTreeMap<String, u64>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) rows: u64,
    pub(crate) bytes: Bytes,
}

/// What was read of the result.
#[derive(Debug, Default)]
struct Seen {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Query<'_> {
    /// Runs it and reports to `progress` how far it is, many times a second.
    pub(crate) fn run(&self, interrupt: &Interrupt, progress: &mut dyn FnMut(Progress)) -> Result<Answer> {
        let start = Instant::now();
        let mut running = Running::start(self.shell.name(), &mut self.command())?;
        let seen = Seen::default();
        let output = running.child.stdout.take();
        let (read, processor) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| output.map(|output| seen.read(output)).transpose());
            let ended = self.wait(&mut running, interrupt, &mut || progress(seen.progress()));
            if ended.is_err() {
                // Its output ends with it, and so does the reader.
                running.end();
            }
            let read = reader.join().unwrap_or(Ok(None));
            (read, ended)
        });
        let processor = processor?;
        let cannot = |error| Error::io("cannot read the output of", self.shell.name(), error);
        let (fingerprint, end) =
            read.map_err(cannot)?.ok_or_else(|| cannot(std::io::ErrorKind::UnexpectedEof.into()))?;
        let Progress { rows, bytes } = seen.progress();
        Ok(Answer {
            time: Nanos::from(end.duration_since(start)),
            rows,
            bytes,
            fingerprint,
            processor,
            counters: self.foreseek.map(|foreseek| counters(foreseek.counters)).unwrap_or_default(),
        })
    }

    fn command(&self) -> Command {
        let mut command = self.group.command(self.shell.path());
        command.args(["-batch", "-bail", "-init", "/dev/null"]);
        if let Some(foreseek) = self.foreseek {
            let mut load = OsString::from(".load \"");
            load.push(foreseek.extension);
            load.push("\"");
            command.arg("-cmd").arg(load);
            command.env("FORESEEK_PROFILE", foreseek.profile).env("FORESEEK_STATS", foreseek.counters);
            command.env("FORESEEK_MODE", foreseek.mode.to_string());
        }
        command.arg(self.database).arg(QUERY);
        command.env("HOME", self.home).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Waits for its end; returns its processor time.
    fn wait(
        &self,
        running: &mut Running,
        interrupt: &Interrupt,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Nanos> {
        let start = Instant::now();
        let task = if self.foreseek.is_some() { "the query with Foreseek" } else { "the query" };
        let child = rustix::process::Pid::from_child(&running.child);
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            // Waits without reaping the process: its times can be read until it is reaped.
            let state = waitid(WaitId::Pid(child), ended)
                .map_err(|error| Error::io("cannot wait for", self.shell.name(), error))?;
            if state.is_some() {
                break;
            }
            interrupt.check()?;
            if start.elapsed() > QUERY_LIMIT {
                return Err(foreseek_rig::Error::TooSlow {
                    what: task.to_owned(),
                    seconds: QUERY_LIMIT.as_secs(),
                }
                .into());
            }
            meanwhile();
            std::thread::sleep(POLL);
        }
        let processor = processor_time(running.child.id());
        match running.wait(task, POLL, interrupt, &mut || ()) {
            Err(foreseek_rig::Error::Program { status, .. }) if status.contains("SIGKILL") => {
                Err(Error::Option {
                    what: format!(
                        "{task} was killed: the memory is too little for it; give more with --memory"
                    ),
                })
            }
            ended => Ok(ended.map(|()| processor)?),
        }
    }
}

impl Seen {
    fn progress(&self) -> Progress {
        Progress { rows: self.rows.load(Ordering::Relaxed), bytes: Bytes(self.bytes.load(Ordering::Relaxed)) }
    }

    /// Reads all of it; returns its hash and the time of its end.
    fn read(&self, mut output: ChildStdout) -> std::io::Result<(String, Instant)> {
        let mut piece = vec![0; PIECE.get() as usize];
        let mut hash = blake3::Hasher::new();
        loop {
            let length = output.read(&mut piece)?;
            if length == 0 {
                return Ok((hash.finalize().to_hex().to_string(), Instant::now()));
            }
            hash.update(&piece[..length]);
            let rows = piece[..length].iter().filter(|byte| **byte == b'\n').count();
            self.rows.fetch_add(rows as u64, Ordering::Relaxed);
            self.bytes.fetch_add(length as u64, Ordering::Relaxed);
            if length < piece.len() / 4 {
                // Let the pipe fill: a wake-up for every 4 KiB costs the writer more than writing.
                std::thread::sleep(REST);
            }
        }
    }
}

/// The prefetcher's counters: every number of the file, by its name.
fn counters(path: &Path) -> BTreeMap<String, u64> {
    fn collect(value: &serde_json::Value, into: &mut BTreeMap<String, u64>) {
        match value {
            serde_json::Value::Object(object) => {
                for (name, value) in object {
                    if let Some(number) = value.as_u64() {
                        into.insert(name.clone(), number);
                    }
                    collect(value, into);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
            _ => {}
        }
    }
    let mut counters = BTreeMap::new();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if let Ok(value) = serde_json::from_str(&text) {
        collect(&value, &mut counters);
    }
    counters
}

/// The extension beside this program, as it is built or installed.
///
/// # Errors
/// [`Error::Option`] with the places that were searched.
pub(crate) fn find_extension() -> Result<PathBuf> {
    const NAME: &str = "libforeseek_sqlite.so";
    let program = std::env::current_exe().map_err(|error| Error::io("cannot find", "myself", error))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [
        folder.join(NAME),
        folder.join("deps").join(NAME),
        folder.join("../lib").join(NAME),
        PathBuf::from("/usr/local/lib").join(NAME),
        PathBuf::from("/usr/lib").join(NAME),
    ];
    let found = places.iter().find(|place| place.exists()).and_then(|place| place.canonicalize().ok());
    found.ok_or_else(|| Error::Option {
        what: format!(
            "the SQLite extension {NAME} is not beside {}: build it with 'make build', or give --extension PATH",
            program.display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_at_any_depth() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stats");
        std::fs::write(&path, r#"{"process":7,"clients":[{"rounds":3,"engine":{"fetches":12}}]}"#)
            .expect("it is written");
        let counters = counters(&path);
        assert_eq!((counters["rounds"], counters["fetches"]), (3, 12));
        assert!(super::counters(Path::new("/nowhere")).is_empty());
    }
}
