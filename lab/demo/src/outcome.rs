//! What was measured: plain data, and what follows from it by arithmetic.
//!
//! All times are elapsed times, on a disk whose time is scaled. The model's limit is scaled alike before both
//! are compared.

use crate::report::blocks::Mark;
use foreseek_device::Profile;
use foreseek_simulate::limit::{Limit, best_schedule};
use foreseek_units::{Bytes, Lba, Nanos, Pages, Rate};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// One run of the query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// From the start of the program to its end.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub time: Nanos,
    /// Rows of the result.
    pub rows: u64,
    /// Bytes of the result, as text.
    #[serde(rename = "result_bytes", serialize_with = "bytes")]
    pub result: Bytes,
    /// BLAKE3 of the result.
    pub fingerprint: String,
    /// What the disk did meanwhile.
    #[serde(flatten)]
    pub disk: DiskUse,
    /// The most memory that the control group held, page cache included.
    #[serde(rename = "memory_peak_bytes", serialize_with = "bytes")]
    pub memory_peak: Bytes,
    /// Processor time of the program, in user and system mode; zero where it is not modelled.
    #[serde(rename = "processor_seconds", serialize_with = "seconds")]
    pub processor: Nanos,
    /// The share of the requests' time that came from the path through the kernel and from the machine, not
    /// from the modelled disk. It does not shrink with the time scale.
    pub path_share: f64,
    /// Counters of the prefetcher; empty without one.
    pub prefetcher: BTreeMap<String, u64>,
    /// Each request, for the plot.
    #[serde(skip)]
    pub marks: Vec<Mark>,
}

/// What a disk did during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DiskUse {
    /// Requests that it answered.
    pub requests: u64,
    /// Accesses that did not start where the head was.
    pub seeks: u64,
    /// The mean of their distances.
    #[serde(rename = "mean_seek_distance_bytes", serialize_with = "bytes")]
    pub mean_seek_distance: Bytes,
    /// Bytes read from it.
    #[serde(rename = "device_read_bytes", serialize_with = "bytes")]
    pub read: Bytes,
    /// Time in service, scaled.
    #[serde(rename = "device_busy_seconds", serialize_with = "seconds")]
    pub busy: Nanos,
}

/// The query at one size of memory, both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryRun {
    /// Short name: `main`, `fits`.
    pub name: &'static str,
    /// The same in words.
    pub title: String,
    /// The limit of memory.
    pub memory: Bytes,
    /// Without prefetching.
    pub stock: Measured,
    /// With it.
    pub foreseek: Measured,
    /// The best schedule with all of the memory as buffer.
    pub limit: Limit,
    /// The buffer that was used, and the best schedule with that.
    pub at_buffer: Option<(Bytes, Limit)>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether time was virtual.
    pub simulated: bool,
    /// Why it was, where it was.
    pub why_simulated: Option<String>,
    /// Length of the database file.
    pub database: Bytes,
    /// Rows of the table.
    pub rows: u64,
    /// Where its random numbers started.
    pub seed: u64,
    /// The disk's profile.
    pub profile: String,
    /// The disk's size.
    pub disk: Bytes,
    /// The factor on the disk's time.
    pub time_scale: f64,
    /// The runs; the first is the main one.
    pub runs: Vec<QueryRun>,
    /// From the beginning to the end, building included.
    pub elapsed: Nanos,
    /// What was used, name and version.
    pub versions: Vec<(String, String)>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Measured {
    /// The rate at which a database of `size` was read.
    #[must_use]
    pub fn rate(&self, size: Bytes) -> Rate {
        Rate::bytes_per_second(size.get() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// The rate at which the disk was read.
    #[must_use]
    pub fn device_rate(&self) -> Rate {
        self.rate(self.disk.read)
    }
}

/// What the best schedules are modelled from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    /// The disk.
    pub(crate) profile: &'a Profile,
    /// Where the query reads, in order.
    pub(crate) accesses: &'a [Lba],
}

impl Limits<'_> {
    /// The best schedule with this buffer.
    fn at(&self, buffer: Bytes) -> crate::Result<Limit> {
        let pages = buffer.pages_floor();
        Ok(best_schedule(self.accesses, pages, self.profile, &crate::options::build())?)
    }
}

impl QueryRun {
    /// Compares both ways.
    ///
    /// # Errors
    /// Where their results differ, or no best schedule can be modelled.
    pub(crate) fn compare(
        name: &'static str,
        title: String,
        memory: Bytes,
        stock: Measured,
        foreseek: Measured,
        limits: &Limits<'_>,
    ) -> crate::Result<Self> {
        let limit = limits.at(memory)?;
        let buffer = foreseek.prefetcher.get("buffer_pages").map(|pages| Pages(*pages).bytes());
        let at_buffer = buffer
            .filter(|buffer| !buffer.is_zero() && *buffer < memory)
            .map(|buffer| Ok::<_, crate::Error>((buffer, limits.at(buffer)?)))
            .transpose()?;
        let run = Self { name, title, memory, stock, foreseek, limit, at_buffer };
        if !run.identical() {
            let of = |run: &Measured| format!("{} rows, {}", run.rows, run.fingerprint);
            return Err(crate::Error::Differ { stock: of(&run.stock), foreseek: of(&run.foreseek) });
        }
        Ok(run)
    }

    /// The speed-up.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        ratio(self.stock.time, self.foreseek.time)
    }

    /// The time over that of the best schedule with this memory; both scaled.
    #[must_use]
    pub fn limit_ratio(&self, time_scale: f64) -> f64 {
        ratio(self.foreseek.time, self.limit.time.scale(time_scale))
    }

    /// The same with the buffer that was used.
    #[must_use]
    pub fn buffer_ratio(&self, time_scale: f64) -> Option<f64> {
        self.at_buffer.map(|(_, limit)| ratio(self.foreseek.time, limit.time.scale(time_scale)))
    }

    /// Whether both gave the same result.
    #[must_use]
    pub fn identical(&self) -> bool {
        let of = |run: &Measured| (run.rows, run.result, run.fingerprint.clone());
        of(&self.stock) == of(&self.foreseek)
    }
}

fn ratio(a: Nanos, b: Nanos) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn seconds<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.get())
}
