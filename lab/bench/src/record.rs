//! Raw results: a line of JSON for each run, written when it is over, so that a long measurement can be ended
//! at any time and continued.
//!
//! The first line is the [`Plan`]: runs of other settings are not mixed.

use crate::cell::Cell;
use crate::options::Options;
use crate::policy::Policy;
use crate::reader::Counted;
use crate::{Error, Result};
use foreseek_units::PAGE_SIZE;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The name of the file.
pub const FILE: &str = "runs.jsonl";

/// The settings that must be the same for all runs of a file. Cells, policies and pairs may be added later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The disk's profile.
    pub profile: String,
    /// The factor on the disk's time and on think times.
    pub time_scale: f64,
    /// Length of all files.
    pub data_bytes: u64,
    /// All of the memory.
    pub memory_bytes: u64,
    /// The part of it that a server gets.
    pub server_memory_bytes: u64,
    /// What each reader holds beside its buffer.
    #[serde(default)]
    pub reader_private_bytes: u64,
    /// Measured seconds of a run of one reader.
    pub seconds: f64,
    /// The first pair's seed.
    pub seed: u64,
    /// The machine's name, its kernel and its processors.
    pub host: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The cell.
    pub cell: Cell,
    /// The policy.
    pub policy: Policy,
    /// The pair, from 0.
    pub pair: u32,
    /// Its seed.
    pub seed: u64,
    /// The result, or why there is none.
    pub outcome: Outcome,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<M = Box<Measured>> {
    /// It was measured (or modelled).
    Measured(M),
    /// It failed; it is repeated when the measurement is continued.
    Failed(String),
}

impl<M> Outcome<M> {
    /// A failure of one run is recorded; an interrupt ends everything.
    pub(crate) fn of(measured: Result<M>) -> Result<Self> {
        match measured {
            Ok(measured) => Ok(Self::Measured(measured)),
            Err(error) if error.is_interrupt() => Err(error),
            Err(error) => Ok(Self::Failed(error.to_string())),
        }
    }
}

/// The result of a run, over its measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// When it began, in seconds since 1970.
    pub begun_s: u64,
    /// What readers read.
    pub readers: Counted,
    /// Bytes that the disk read.
    pub device_read_bytes: u64,
    /// Requests that it served.
    pub device_requests: u64,
    /// The share of the time in which it was busy.
    pub device_busy: f64,
    /// The mean distance of its seeks.
    pub seek_distance_bytes: u64,
    /// The share of its requests' time that comes from the machine, not from the model.
    pub path_share: f64,
    /// Processor seconds of the readers.
    pub reader_processor_s: f64,
    /// The same of the servers: a mount, nbdkit and nbdfuse.
    pub server_processor_s: f64,
    /// The servers' peak memory.
    pub server_memory_bytes: u64,
    /// The peak memory of the readers' group, page cache included.
    pub reader_memory_bytes: u64,
    /// The machine's load average before the run. The readers of earlier runs count, also while they wait for
    /// the disk, so that it shows other load only where they are few.
    pub load: f64,
    /// The mount's status.
    pub status: Option<serde_json::Value>,
}

impl Measured {
    /// Throughput, in 10^6 bytes a second.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        per(self.readers.read_bytes as f64 / 1e6, self.readers.seconds)
    }

    /// Bytes from the disk for each byte that was read: above 1 there was waste, below 1 there were hits.
    #[must_use]
    pub fn device_per_read(&self) -> f64 {
        per(self.device_read_bytes as f64, self.readers.read_bytes as f64)
    }

    /// Mean length of the disk's requests, KiB.
    #[must_use]
    pub fn request_kib(&self) -> f64 {
        per(self.device_read_bytes as f64 / 1024.0, self.device_requests as f64)
    }

    /// The share of what a mount has fetched that it had delivered to the kernel before. The kernel has evicted it
    /// since, before or after it was read.
    #[must_use]
    pub fn fetched_again(&self) -> Option<f64> {
        self.share_of_fetched("lru_misses")
    }

    /// The share of what a mount has fetched that it had read ahead before, and evicted before the kernel asked
    /// for it.
    #[must_use]
    pub fn thrashed(&self) -> Option<f64> {
        self.share_of_fetched("prefetch_misses")
    }

    /// Pages in the mount's status over the bytes that it has fetched.
    fn share_of_fetched(&self, pages: &str) -> Option<f64> {
        let reads = &self.status.as_ref()?["reads"];
        let of = |name: &str| reads[name].as_u64().map(|count| count as f64);
        Some(per(of(pages)? * PAGE_SIZE as f64, of("fetched_bytes")?))
    }

    /// The disk's busy time for each byte, in nanoseconds.
    #[must_use]
    pub fn disk_ns_per_byte(&self) -> f64 {
        per(self.device_busy * self.readers.seconds * 1e9, self.readers.read_bytes as f64)
    }

    /// Processor time of readers and servers for each byte, in nanoseconds.
    #[must_use]
    pub fn processor_ns_per_byte(&self) -> f64 {
        per((self.reader_processor_s + self.server_processor_s) * 1e9, self.readers.read_bytes as f64)
    }
}

fn per(what: f64, of: f64) -> f64 {
    if of > 0.0 { what / of } else { 0.0 }
}

impl Plan {
    /// The plan of these options on this machine.
    #[must_use]
    pub fn of(options: &Options) -> Self {
        Self {
            profile: options.profile.clone(),
            time_scale: options.time_scale,
            data_bytes: options.data.get(),
            memory_bytes: options.memory.get(),
            server_memory_bytes: options.server_memory.get(),
            reader_private_bytes: options.reader_private.get(),
            seconds: options.seconds,
            seed: options.seed,
            host: host(),
        }
    }
}

/// The difference between two plans, as `name: one and the other`.
fn difference(plan: &impl Serialize, other: &impl Serialize) -> Option<String> {
    let (ours, theirs) = (serde_json::to_value(plan).ok()?, serde_json::to_value(other).ok()?);
    let (mut names, more) = (ours.as_object()?.clone(), theirs.as_object()?.clone());
    // What has its default may be left out on either side.
    names.extend(more);
    let names = names.keys();
    let differing = names.filter(|name| ours[name.as_str()] != theirs[name.as_str()]);
    let told: Vec<_> = differing
        .map(|name| format!("{name} {} and {}", theirs[name.as_str()], ours[name.as_str()]))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// This machine's name, its kernel, its processors, and whether idle memory is paged out.
#[must_use]
pub fn host() -> String {
    let uname = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let idle = if foreseek_rig::pages_out_idle_memory() { ", pages out idle memory (DAMON)" } else { "" };
    format!(
        "{} {} {}, {processors} processors{idle}",
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        uname.machine().to_string_lossy()
    )
}

/// The file of runs, open for appending.
#[derive(Debug)]
pub struct Records<R = Run> {
    path: PathBuf,
    file: File,
    /// The runs that are in it.
    pub runs: Vec<R>,
}

impl<R: Serialize + DeserializeOwned> Records<R> {
    /// Opens the file in a folder, which is made if it is missing, and reads its runs.
    ///
    /// # Errors
    /// It cannot be written, holds something else, or runs of another plan.
    pub fn open<P: Serialize + DeserializeOwned>(folder: &Path, plan: &P) -> Result<Self> {
        let path = folder.join(FILE);
        let cannot = |error| Error::Out { path: path.clone(), error };
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let text = Self::text(&path)?;
        let runs = Self::parse(&path, &text, plan)?;
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(cannot)?;
        if text.is_empty() {
            put(&mut file, plan).map_err(cannot)?;
        } else if !text.ends_with('\n') {
            // The last line was cut off when the machine went down: it was left out above.
            file.write_all(b"\n").map_err(cannot)?;
        }
        Ok(Self { path, file, runs })
    }

    /// The runs that are there; makes nothing.
    ///
    /// # Errors
    /// The file holds something else, or runs of another plan.
    pub fn look<P: Serialize + DeserializeOwned>(folder: &Path, plan: &P) -> Result<Vec<R>> {
        let path = folder.join(FILE);
        Self::parse(&path, &Self::text(&path)?, plan)
    }

    fn text(path: &Path) -> Result<String> {
        match std::fs::read(path) {
            // A line that is not text is reported with its number, like any other invalid one.
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(Error::io("cannot read", path.display(), error)),
        }
    }

    fn parse<P: Serialize + DeserializeOwned>(path: &Path, text: &str, plan: &P) -> Result<Vec<R>> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let wrong = |line: usize, error: serde_json::Error| Error::Record {
            path: path.to_owned(),
            line: line + 1,
            why: error.to_string(),
        };
        let Some((number, first)) = lines.next() else { return Ok(Vec::new()) };
        let there: P = serde_json::from_str(first).map_err(|error| wrong(number, error))?;
        if let Some(what) = difference(plan, &there) {
            return Err(Error::OtherPlan { path: path.to_owned(), what });
        }
        let mut runs = Vec::new();
        for (number, line) in lines {
            match serde_json::from_str(line) {
                Ok(run) => runs.push(run),
                // Cut off in the middle of a word.
                Err(error) if error.is_eof() => {}
                Err(error) => return Err(wrong(number, error)),
            }
        }
        Ok(runs)
    }

    /// Appends a run.
    ///
    /// # Errors
    /// The system's.
    pub fn push(&mut self, run: R) -> Result<()> {
        put(&mut self.file, &run).map_err(|error| Error::Out { path: self.path.clone(), error })?;
        self.runs.push(run);
        Ok(())
    }
}

/// A plan and the runs below it, from the text of a file.
pub(crate) fn parse<P: DeserializeOwned, R: DeserializeOwned>(rows: &str) -> Result<(P, Vec<R>)> {
    let wrong =
        |line: usize| move |error: serde_json::Error| Error::Option { what: format!("line {line}: {error}") };
    let (plan, runs) = rows.split_once('\n').unwrap_or((rows, ""));
    let plan = serde_json::from_str(plan).map_err(wrong(1))?;
    let runs = runs.lines().zip(2..).map(|(row, line)| serde_json::from_str(row).map_err(wrong(line)));
    Ok((plan, runs.collect::<Result<Vec<R>>>()?))
}

/// Whether there is such a run that did not fail.
#[must_use]
pub fn has(runs: &[Run], cell: Cell, policy: &Policy, pair: u32) -> bool {
    measured(runs, cell, policy).any(|(made, _)| made == pair)
}

/// The measurements of a policy in a cell, by pair.
pub fn measured<'a>(
    runs: &'a [Run],
    cell: Cell,
    policy: &'a Policy,
) -> impl Iterator<Item = (u32, &'a Measured)> {
    runs.iter().filter(move |run| run.cell == cell && run.policy == *policy).filter_map(|run| {
        match &run.outcome {
            Outcome::Measured(measured) => Some((run.pair, &**measured)),
            Outcome::Failed(_) => None,
        }
    })
}

fn put(file: &mut File, what: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pair: u32, outcome: Outcome) -> Run {
        Run { cell: Cell::Hot, policy: Policy::Plain, pair, seed: 1 + u64::from(pair), outcome }
    }

    fn good() -> Outcome {
        let readers = Counted { seconds: 2.0, read_bytes: 4_000_000, ..Counted::default() };
        let measured = Measured {
            readers,
            device_read_bytes: 6_000_000,
            reader_processor_s: 0.001,
            server_processor_s: 0.003,
            ..Measured::default()
        };
        Outcome::Measured(Box::new(measured))
    }

    #[test]
    fn what_was_measured_is_gone_on_with_and_what_failed_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan::of(&Options::default());
        let mut records = Records::<Run>::open(folder.path(), &plan).expect("made");
        records.push(run(0, good())).expect("written");
        records.push(run(1, Outcome::Failed("it died".to_owned()))).expect("written");
        drop(records);
        // Cut off while the third was written.
        let path = folder.path().join(FILE);
        let mut file = OpenOptions::new().append(true).open(&path).expect("there");
        file.write_all(br#"{"cell":"hot","poli"#).expect("written");
        let mut records = Records::<Run>::open(folder.path(), &plan).expect("read");
        let made = |pair| has(&records.runs, Cell::Hot, &Policy::Plain, pair);
        assert!(made(0) && !made(1));
        records.push(run(1, good())).expect("written");
        let again = Records::<Run>::open(folder.path(), &plan).expect("read");
        assert_eq!(again.runs, records.runs);
        assert_eq!(again.runs.len(), 3);
    }

    #[test]
    fn runs_of_other_settings_are_not_mixed() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(Records::<Run>::open(folder.path(), &Plan::of(&Options::default())).expect("made"));
        let other = Plan::of(&Options { time_scale: 0.5, seed: 9, ..Options::default() });
        let error = Records::<Run>::open(folder.path(), &other).expect_err("other settings").to_string();
        assert!(error.contains("time_scale 0.25 and 0.5") && error.contains("seed 1 and 9"), "{error}");
        let folder = tempfile::tempdir().expect("a folder");
        let [more, less] = [serde_json::json!({"seed": 1, "filled": 0.5}), serde_json::json!({"seed": 1})];
        drop(Records::<Run>::open(folder.path(), &more).expect("made"));
        let error = Records::<Run>::open(folder.path(), &less).expect_err("other settings").to_string();
        assert!(error.contains("filled 0.5 and null"), "what has its default may be left out: {error}");
    }

    #[test]
    fn a_file_of_something_else_is_refused_with_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan::of(&Options::default());
        drop(Records::<Run>::open(folder.path(), &plan).expect("made"));
        let path = folder.path().join(FILE);
        OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("there")
            .write_all(b"{\"a\":1}\n")
            .expect("written");
        let error = Records::<Run>::open(folder.path(), &plan).expect_err("nonsense").to_string();
        assert!(error.contains("line 2"), "{error}");
        std::fs::write(&path, b"\xff\xfe").expect("written");
        let error = Records::<Run>::look(folder.path(), &plan).expect_err("no text").to_string();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn rates_by_hand() {
        let Outcome::Measured(measured) = good() else { panic!("it is good") };
        assert_eq!((measured.mb_per_s(), measured.device_per_read()), (2.0, 1.5));
        assert!((measured.processor_ns_per_byte() - 1.0).abs() < 1e-12);
        assert_eq!(Measured::default().mb_per_s(), 0.0);
        assert_eq!(measured.fetched_again(), None);
        let reads = serde_json::json!({ "fetched_bytes": 40_960, "lru_misses": 4, "prefetch_misses": 1 });
        let status = Some(serde_json::json!({ "reads": reads }));
        let measured =
            Measured { status, device_requests: 2, device_read_bytes: 8192, ..Measured::default() };
        assert_eq!((measured.fetched_again(), measured.thrashed()), (Some(0.4), Some(0.1)));
        assert_eq!(measured.request_kib(), 4.0);
    }
}
