//! The options of the measurement.

use super::job::NamedJob;
use super::way::Way;
use crate::record::host;
use crate::{Error, Result};
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which jobs.
    pub jobs: Vec<NamedJob>,
    /// In which ways; the stock one first.
    pub ways: Vec<Way>,
    /// How often each is measured.
    pub pairs: u32,
    /// The share of the data that is made.
    pub share: f64,
    /// The seed of the data.
    pub seed: u64,
    /// All of the memory. Programs, and a mount beside them, are in one group of it.
    pub memory: Bytes,
    /// Whether programs and mount have half of it each, in groups of their own.
    pub halves: bool,
    /// The disk.
    pub profile: String,
    /// The factor on the disk's time.
    pub time_scale: f64,
    /// The Python of jobs that need one.
    pub python: PathBuf,
    /// Where the emulated disk keeps its data, and where programs write.
    pub disk_space: Option<PathBuf>,
    /// Where raw runs and the report go.
    pub out: PathBuf,
}

/// Pairs below which nothing is decided.
pub const PAIRS: u32 = 5;
/// The disk.
pub const PROFILE: &str = "barracuda-500g";
/// The least memory: a database engine and the mount need this much.
const MEMORY_LEAST: Bytes = Bytes::mib(256);

impl Default for Options {
    fn default() -> Self {
        Self {
            jobs: NamedJob::all(),
            ways: Way::ALL.to_vec(),
            pairs: PAIRS,
            share: 1.0,
            seed: 1,
            memory: Bytes::gib(1),
            halves: false,
            profile: PROFILE.to_owned(),
            time_scale: 1.0,
            python: PathBuf::from("python3"),
            disk_space: None,
            out: PathBuf::from("bench-jobs"),
        }
    }
}

impl Options {
    /// # Errors
    /// [`Error::Option`] for values that are not valid.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Option { what });
        if !(0.01..=4.0).contains(&self.share) {
            return wrong(
                "--share must lie between 0.01 and 4: the share of the data that is made".to_owned(),
            );
        }
        if !(self.time_scale > 0.0 && self.time_scale <= 10.0) {
            return wrong("--time-scale must be greater than 0 and at most 10".to_owned());
        }
        if self.pairs == 0 || self.jobs.is_empty() {
            return wrong("nothing is to be measured: name at least one job and one pair".to_owned());
        }
        if self.ways.first() != Some(&Way::Stock) {
            return wrong("--ways begins with 'stock', which the others are compared with".to_owned());
        }
        if self.memory < MEMORY_LEAST {
            return wrong(format!("--memory must be at least {MEMORY_LEAST}"));
        }
        Ok(())
    }
}

/// The settings that must be the same for all runs of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    profile: String,
    time_scale: f64,
    memory_bytes: u64,
    /// Files without it are of halves.
    #[serde(default = "halves")]
    halves: bool,
    share: f64,
    seed: u64,
    host: String,
}

const fn halves() -> bool {
    true
}

impl Plan {
    /// The plan of these options on this machine.
    #[must_use]
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            profile: options.profile.clone(),
            time_scale: options.time_scale,
            memory_bytes: options.memory.get(),
            halves: options.halves,
            share: options.share,
            seed: options.seed,
            host: host(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_what_is_accepted() {
        let good = Options::default();
        assert!(good.check().is_ok());
        let wrong = [
            (Options { share: 0.0, ..good.clone() }, "--share"),
            (Options { time_scale: f64::NAN, ..good.clone() }, "--time-scale"),
            (Options { pairs: 0, ..good.clone() }, "at least one"),
            (Options { ways: vec![Way::Mount], ..good.clone() }, "stock"),
            (Options { memory: Bytes::mib(1), ..good.clone() }, "256 MiB"),
        ];
        for (options, what) in wrong {
            let error = options.check().expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
