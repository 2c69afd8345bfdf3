//! The options of the measurement.

use super::load::Load;
use super::way::Way;
use crate::record::host;
use crate::{Error, Result};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which loads.
    pub loads: Vec<Load>,
    /// The ways; the raw device with its defaults first.
    pub ways: Vec<Way>,
    /// How often each is measured.
    pub pairs: u32,
    /// How long a run reads.
    pub time: Duration,
    /// The seed of random reads.
    pub seed: u64,
    /// The array.
    pub profile: String,
    /// Its size.
    pub size: Bytes,
    /// Memory of `foreseek array`.
    pub memory: Bytes,
    /// Memory of the readers, page cache included; `None`: the machine's.
    pub reader_memory: Option<Bytes>,
    /// The factor on the disks' time.
    pub time_scale: f64,
    /// Where the emulated array keeps its data.
    pub disk_space: Option<PathBuf>,
    /// Where raw runs and the report go.
    pub out: PathBuf,
}

/// Pairs below which nothing is decided.
pub const PAIRS: u32 = 5;
/// The array.
pub const PROFILE: &str = "raid5-5x-15k";
/// How long a run reads.
pub const SECONDS: u64 = 8;
const LEAST_SIZE: Bytes = Bytes::mib(256);
const LEAST_READER_MEMORY: Bytes = Bytes::mib(64);

impl Default for Options {
    fn default() -> Self {
        Self {
            loads: Load::all(),
            ways: Way::all(),
            pairs: PAIRS,
            time: Duration::from_secs(SECONDS),
            seed: 1,
            profile: PROFILE.to_owned(),
            size: Bytes::gib(16),
            memory: Bytes::mib(500),
            reader_memory: None,
            time_scale: 1.0,
            disk_space: None,
            out: PathBuf::from("bench-array"),
        }
    }
}

impl Options {
    /// # Errors
    /// [`Error::Option`] for values that are not valid.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Option { what: what.to_owned() });
        if !(self.time_scale > 0.0 && self.time_scale <= 10.0) {
            return wrong("--time-scale must be greater than 0 and at most 10");
        }
        if self.pairs == 0 || self.loads.is_empty() || self.time.is_zero() {
            return wrong("nothing is to be measured: name at least one load, one pair and one second");
        }
        if self.ways.first() != Some(&Way::stock()) {
            return wrong("--ways begins with 'raw', which the others are compared with");
        }
        if self.size < LEAST_SIZE {
            return wrong("--size must be at least 256 MiB");
        }
        if self.reader_memory.is_some_and(|memory| memory < LEAST_READER_MEMORY) {
            return wrong("--reader-memory must be at least 64 MiB");
        }
        Ok(())
    }
}

/// The settings that must be the same for all runs of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    profile: String,
    size_bytes: u64,
    memory_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reader_memory_bytes: Option<u64>,
    time_scale: f64,
    seconds: f64,
    seed: u64,
    host: String,
}

impl Plan {
    /// The plan of these options on this machine.
    #[must_use]
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            profile: options.profile.clone(),
            size_bytes: options.size.get(),
            memory_bytes: options.memory.get(),
            reader_memory_bytes: options.reader_memory.map(Bytes::get),
            time_scale: options.time_scale,
            seconds: options.time.as_secs_f64(),
            seed: options.seed,
            host: host(),
        }
    }
}
