//! The status of a watcher. Only root can read it, as paths show what other users do.

use crate::counters::CounterValues;
use foreseek_places::SharedDisk;
use foreseek_units::Bytes;
use foreseek_walks::{Node, Status as Engine, Stopped};
use serde::{Deserialize, Serialize, Serializer};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the watching thread leaves for those who ask. It looks up no paths: that may wait for a disk.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) status: WatchStatus,
    /// The topmost directory of each walk of each disk.
    pub(crate) tops: Vec<Vec<Node>>,
    /// The time at which it was left.
    pub(crate) at: Option<Instant>,
}

impl Snapshot {
    /// The status with its age, and the directories whose paths it is to get.
    pub(crate) fn at(&self, now: Instant) -> (WatchStatus, Vec<Vec<Node>>) {
        let age = self.at.map(|at| now.saturating_duration_since(at)).unwrap_or_default();
        (WatchStatus { age_seconds: age.as_secs_f64(), ..self.status.clone() }, self.tops.clone())
    }
}

/// A watcher, its file systems and its disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchStatus {
    /// The daemon's process.
    pub pid: u32,
    /// Seconds since it was started.
    pub seconds: f64,
    /// How old this status is, counters apart, in seconds. The watching thread renews it ten times a second.
    #[serde(default)]
    pub age_seconds: f64,
    /// The most that may be read ahead and not used yet.
    pub window_bytes: u64,
    /// The control group to which its pages are charged, and the limit there.
    #[serde(default, serialize_with = "as_text_if_known")]
    pub group: Option<PathBuf>,
    /// File systems that are watched.
    pub watched: Vec<Watched>,
    /// Those that are not watched, with the reasons.
    pub left_alone: Vec<LeftAlone>,
    /// How many more of these there are than the list holds.
    #[serde(default)]
    pub left_alone_more: u64,
    /// The state of each disk's engine.
    pub disks: Vec<Disk>,
    /// Directories that are known.
    pub known_directories: u64,
    /// Entries of known directories.
    pub known_entries: u64,
    /// Processor time of the daemon's process, in seconds.
    #[serde(default)]
    pub processor_seconds: f64,
    /// Requests to file systems for the addresses of a file.
    #[serde(default)]
    pub fiemap_calls: u64,
    /// Counters since it was started.
    pub counted: CounterValues,
    /// Limitations.
    #[serde(alias = "remarks")]
    pub warnings: Vec<String>,
}

/// The most bytes of a path in the answer, as JSON has them. That has a limit of 1 MiB, and users choose how long their
/// paths are: those of all walks of 16 disks take half of it.
const SHOWN: usize = 500;

/// A path of any bytes as text, as JSON has no other strings. `…` stands for the rest of a long one.
fn text(path: &Path) -> String {
    let (mut text, mut bytes) = (String::new(), 0);
    for character in path.to_string_lossy().chars() {
        bytes += if character.is_control() { 6 } else { character.len_utf8().max(2) };
        if bytes > SHOWN {
            text.push('…');
            break;
        }
        text.push(character);
    }
    text
}

fn as_text<P: AsRef<Path>, S: Serializer>(path: &P, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(path.as_ref()))
}

fn as_text_if_known<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.serialize_some(&text(path)),
        None => to.serialize_none(),
    }
}

/// A file system that is watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Where it is mounted.
    #[serde(serialize_with = "as_text")]
    pub mount: PathBuf,
    /// Its kind.
    pub kind: String,
    /// Its device.
    pub device: String,
}

/// A file system that is not watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftAlone {
    /// Where it is mounted.
    #[serde(serialize_with = "as_text")]
    pub mount: PathBuf,
    /// The reason.
    pub reason: String,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Its device number.
    pub device: String,
    /// Walks that are over.
    pub ended: u64,
    /// The expected cost of all fetches for the device, in seconds.
    pub spent_seconds: f64,
    /// The cheapest pass over the used part of them.
    pub optimum_seconds: f64,
    /// The cost that may be spent before any use is confirmed.
    pub allowance_seconds: f64,
    /// Bytes that were read ahead.
    #[serde(alias = "brought_bytes")]
    pub fetched_bytes: u64,
    /// Of these, used.
    pub used_bytes: u64,
    /// Of these, unused when their walk passed them or ended.
    pub wasted_bytes: u64,
    /// Of these, in memory and not used yet.
    pub held_bytes: u64,
    /// Its part of the memory limit. What it held when it was alone may be more, and several users may hold a quarter more.
    #[serde(default)]
    pub part_bytes: u64,
    /// Whether other programs than those that walk are known to read from it; `None` where that is not visible.
    #[serde(default)]
    pub others_read: Option<bool>,
    /// How long requests were held back because others read, in seconds.
    #[serde(default)]
    pub held_back_seconds: f64,
    /// Whether all opens of files are observed, because the disk is busy with small reads.
    #[serde(default)]
    pub all_opens: bool,
    /// Threads that have failed: what they did is not done any more.
    #[serde(default)]
    pub failed_threads: Vec<String>,
    /// Walks under way.
    pub walks: Vec<Walk>,
}

/// A walk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Walk {
    /// The topmost directory, as far as its path is known.
    #[serde(default, serialize_with = "as_text_if_known")]
    pub path: Option<PathBuf>,
    /// Directories that were opened.
    pub directories: u64,
    /// Files that were opened.
    pub files: u64,
    /// Files that were fetched.
    pub fetched: u64,
    /// Of these, used.
    pub used: u64,
    /// Of these, skipped without use.
    pub wasted: u64,
    /// Bytes that were read ahead for it.
    #[serde(alias = "brought_bytes")]
    pub fetched_bytes: u64,
    /// The order in which it opens files, if it is known.
    pub order: Option<String>,
    /// Its programs open files without listing directories.
    #[serde(default)]
    pub has_list: bool,
    /// The reason why fetching has stopped.
    pub stopped: Option<String>,
}

/// The reason why fetching has stopped, in words.
fn words(stopped: Stopped) -> Option<String> {
    let words = match stopped {
        Stopped::No => return None,
        Stopped::TooShort => "too little was opened so far",
        Stopped::NoOrder => "no order is recognised",
        Stopped::Selective => "it opens too few of the files",
        Stopped::Allowance => "what was used so far allows no more",
        Stopped::Memory => "what is held fills the memory",
        Stopped::Complete => "all of it was fetched",
        Stopped::InMemory => "all of it is in memory",
        Stopped::NoGain => "nothing would be gained",
    };
    Some(words.to_owned())
}

impl Disk {
    /// The status from an engine's.
    pub(crate) fn of(
        device: String,
        engine: &Engine,
        part: Bytes,
        shared: &SharedDisk,
        all_opens: bool,
        failed_threads: Vec<String>,
    ) -> Self {
        let walk = |walk: &foreseek_walks::WalkStatus| Walk {
            path: None,
            directories: walk.directories,
            files: walk.files,
            fetched: walk.fetched,
            used: walk.used,
            wasted: walk.wasted,
            fetched_bytes: walk.fetched_bytes.get(),
            order: walk.order.map(str::to_owned),
            has_list: walk.has_list,
            stopped: words(walk.stopped),
        };
        Self {
            device,
            ended: engine.ended,
            spent_seconds: engine.spent.as_secs_f64(),
            optimum_seconds: engine.optimum.as_secs_f64(),
            allowance_seconds: engine.allowance.as_secs_f64(),
            fetched_bytes: engine.fetched_bytes.get(),
            used_bytes: engine.used.get(),
            wasted_bytes: engine.wasted.get(),
            held_bytes: engine.held.get(),
            part_bytes: part.get(),
            others_read: shared.is_observed().then(|| shared.others_read()),
            held_back_seconds: shared.held_back().as_secs_f64(),
            all_opens,
            failed_threads,
            walks: engine.walks.iter().map(walk).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// A name of a user must not keep root from seeing the status.
    #[test]
    fn paths_of_any_bytes_and_length_are_shown() {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let long = path(&b"\x1b".repeat(4000));
        let walks = [Some(path(b"/data/\xff")), Some(long.clone()), None]
            .map(|path| Walk { path, ..Walk::default() })
            .to_vec();
        let status = WatchStatus {
            watched: vec![Watched { mount: path(b"/\xfe"), ..Watched::default() }],
            left_alone: vec![LeftAlone { mount: long, ..LeftAlone::default() }],
            disks: vec![Disk { walks, ..Disk::default() }],
            ..WatchStatus::default()
        };
        let json = serde_json::to_string(&status).expect("text");
        let read: WatchStatus = serde_json::from_str(&json).expect("a status");
        assert_eq!(read.watched[0].mount, path("/\u{fffd}".as_bytes()));
        let paths: Vec<_> = read.disks[0].walks.iter().map(|walk| walk.path.clone()).collect();
        let short = Some(PathBuf::from("\u{1b}".repeat(SHOWN / 6) + "…"));
        assert_eq!(paths, [Some(path("/data/\u{fffd}".as_bytes())), short, None]);
    }
}
