//! The readers: a process of its own in the limited memory group.
//!
//! Parent and readers exchange lines of JSON over the readers' standard input and output ([`Job`], [`ReaderMessage`]).
//! The readers get a job, look every file up and report `Ready`. At the parent's word to go they read, report
//! `Begun` after the warm-up and `Ended` with the counts since then, and go on reading until their input ends.
//! They use only their own clock, so that delays between the processes are not in the numbers.

mod files;
mod handlers;
mod private;
mod single;
mod times;

use crate::{Error, Result};
use foreseek_simulate::program::FileSpec;
use foreseek_simulate::workload::{self, Parameters};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The job of the readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Where the data set is shown.
    pub folder: PathBuf,
    /// The task.
    pub task: Task,
    /// Length of all files.
    pub data_bytes: u64,
    /// Private memory of a handler, as the workload has it.
    pub handler_bytes: u64,
    /// How much of it is not the buffer: each handler holds so much and touches it.
    pub private_bytes: u64,
    /// The seed of all choices.
    pub seed: u64,
    /// The factor on think times.
    pub time_scale: f64,
    /// Seconds before the measurement.
    pub warm_up_s: f64,
    /// Seconds of the measurement.
    pub seconds: f64,
}

/// How it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A workload of the simulator, with this many concurrent requests.
    Workload {
        /// Its name.
        name: String,
        /// How many.
        concurrency: u32,
    },
    /// The same few files over and over, in blocks of 64 KiB.
    Hot,
    /// Pages of the data set in random order, each once.
    Cold,
}

/// A message of the readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReaderMessage {
    /// Every file was looked up; the readers wait for the word to go.
    Ready,
    /// The measurement begins.
    Begun,
    /// It has ended.
    Ended(Counted),
    /// They failed.
    Failed(String),
}

/// What was read in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// How long it was.
    pub seconds: f64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Calls that read.
    pub reads: u64,
    /// Requests that ended.
    pub requests: u64,
    /// Their mean time, in milliseconds.
    pub response_mean_ms: f64,
    /// Their 95th percentile.
    pub response_p95_ms: f64,
    /// The median time of one read, in microseconds; measured where there is one reader.
    pub read_median_us: f64,
}

/// Serves one job, as the process that [`Job`] is written to.
///
/// # Errors
/// Where the parent cannot be reached; all other errors are reported to it.
pub fn serve() -> Result<()> {
    let Some(job) = receive().map_err(|error| Error::io("cannot read", "the job", error))? else {
        return Ok(());
    };
    let done = serde_json::from_str::<Job>(&job).map_err(|error| error.to_string()).and_then(|job| {
        let files = files_of(&job)?;
        look_up(&job.folder, &files)?;
        send(&ReaderMessage::Ready)?;
        match receive().map_err(|error| error.to_string())? {
            Some(_) => work(&job, &files),
            None => Ok(()),
        }
    });
    if let Err(why) = done {
        let cannot = |why: String| Error::io("cannot write to", "the benchmark", io::Error::other(why));
        send(&ReaderMessage::Failed(why)).map_err(cannot)?;
    }
    Ok(())
}

fn work(job: &Job, files: &[FileSpec]) -> std::result::Result<(), String> {
    match &job.task {
        Task::Workload { name, concurrency } => handlers::work(job, name, *concurrency, files),
        Task::Hot => single::hot(job, files),
        Task::Cold => single::cold(job, files),
    }
}

fn files_of(job: &Job) -> std::result::Result<Vec<FileSpec>, String> {
    let name = match &job.task {
        Task::Workload { name, .. } => name.as_str(),
        // Their files are those of any of the microbenchmarks.
        Task::Hot | Task::Cold => "one-whole-0",
    };
    Ok(workload::by_name(name, &job.parameters()).map_err(|error| error.to_string())?.files())
}

/// Looks every file up, so that names and attributes are in memory: only data are measured.
fn look_up(folder: &Path, files: &[FileSpec]) -> std::result::Result<(), String> {
    files::paths(folder, files).try_for_each(|(path, length)| {
        let there = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if there.len() != length {
            return Err(format!("{} has {} bytes in place of {length}", path.display(), there.len()));
        }
        Ok(())
    })
}

impl Job {
    fn parameters(&self) -> Parameters {
        Parameters {
            data_size: Some(Bytes(self.data_bytes)),
            handler_memory: Some(Bytes(self.handler_bytes)),
            ..Parameters::default()
        }
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up_s.max(0.0))
    }

    fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.max(0.0))
    }
}

/// The parent's next line; `None` at the end.
fn receive() -> io::Result<Option<String>> {
    let mut line = String::new();
    Ok((io::stdin().lock().read_line(&mut line)? > 0).then_some(line))
}

fn send(what: &ReaderMessage) -> std::result::Result<(), String> {
    let mut line = serde_json::to_string(what).map_err(|error| error.to_string())?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| error.to_string())
}

/// Sets `stop` when the parent closes the input or has ended.
fn watch_input(stop: &AtomicBool) {
    while receive().is_ok_and(|line| line.is_some()) {}
    stop.store(true, Ordering::Relaxed);
}
