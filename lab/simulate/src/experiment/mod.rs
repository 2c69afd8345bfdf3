//! Experiments: what is run, over which sweep, and the results.
//!
//! An [`Experiment`] is made in code or read from TOML ([`Experiment::parse`]). [`run`] makes one machine for
//! each value of an [`Axis`], device, policy, concurrency level and seed, runs them on the given number of
//! threads, and returns [`Results`] in the order of the sweep: the same experiment and seeds give the same
//! bytes, whatever the number of threads. Seeds are the repetitions from which [`Summary`] takes its intervals.
//! Runs of the same seed differ only in what the sweep varies, so that ratios are best taken seed by seed
//! ([`Point::ratio`]).

mod axis;
mod error;
mod metric;
mod output;
mod parse;
mod point;
mod policy;
mod run;
mod set_up;
mod statistics;

pub use axis::{Axis, Variant};
pub use error::ExperimentError;
pub use metric::{METRICS, Metric};
pub use output::SIZE_BUCKET;
pub use parse::{SCHEDULER, TABLES, place_of};
pub use point::{Point, Results, SeedRun};
pub use policy::{CLIENTS, Policy};
pub use run::{Progress, WORKERS_LIMIT, run};
pub use set_up::{SET_UPS, SetUp};
pub use statistics::{Summary, student_t_975};

use crate::machine::{Period, Settings};
use crate::program::{Drive, Workload};
use crate::workload::{LayoutSettings, Parameters};
use crate::{array, block, machine};
use foreseek_device::Profile;
use foreseek_kernels as kernels;
use foreseek_seam::Extent;
use foreseek_units::{Bytes, Nanos};
use std::sync::Arc;

/// The most concurrency levels, policies, devices or seeds of one experiment, each: more is a typing error, and
/// results are kept in memory until the end.
pub const SWEEP_LIMIT: usize = 64;

/// The longest window or depth in pages: a gibibyte, more than any memory should give to one fetch.
pub(crate) const FETCH_LIMIT: u64 = Bytes::gib(1).pages_floor().get();

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name, also in results.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The devices to compare.
    pub devices: Vec<Profile>,
    /// The machine.
    pub machine: machine::Settings,
    /// The block layer.
    pub block: block::Settings,
    /// The I/O scheduler's name.
    pub scheduler: String,
    /// The array's driver with a cache of its own, for policies with one.
    pub array: array::Settings,
    /// The settings of all prefetchers.
    pub prefetch: kernels::Settings,
    /// Read-ahead and page replacement, to compare.
    pub policies: Vec<Policy>,
    /// The workload's name.
    pub workload: String,
    /// The workload's parameters.
    pub parameters: Parameters,
    /// A workload made in code that replaces the named one, such as the replay of a trace.
    pub made: Option<Made>,
    /// The layout of its files.
    pub layout: LayoutSettings,
    /// Concurrent requests, of a closed loop; for jobs their number is the workload's, and this is 1.
    pub concurrency: Vec<u32>,
    /// One run for each.
    pub seeds: Vec<u64>,
    /// A further key that is varied.
    pub axis: Option<Axis>,
    /// Minimum time before the measurement.
    pub warm_up: Nanos,
    /// Time before the measurement for each concurrent request, if that is longer: with many handlers the state
    /// settles later, since each has its share of the disk.
    pub warm_up_a_handler: Nanos,
    /// Time measured, or the longest that jobs may take.
    pub duration: Nanos,
}

/// A workload that is made in code, anew for each run.
#[derive(Clone)]
pub struct Made {
    /// Makes it.
    pub workload: Arc<dyn Fn() -> Box<dyn Workload> + Send + Sync>,
    /// The extents of its files; without them a file system places the files.
    pub extents: Option<Arc<Vec<Vec<Extent>>>>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").field("placed", &self.extents.is_some()).finish_non_exhaustive()
    }
}

/// Default seeds: three, the fewest with which the reference takes an interval.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// Default measured time: some thousand requests of a disk.
pub const DURATION: Nanos = Nanos::from_secs(100);

/// Default time before it: fills a cache of 512 MB at 25 MB/s.
pub const WARM_UP: Nanos = Nanos::from_secs(20);

impl Experiment {
    /// An experiment with a paper's set-up, device and policies, one stream at a time.
    #[must_use]
    pub fn new(name: &str, set_up: SetUp, workload: &str) -> Self {
        let machine: Settings = set_up.machine();
        Self {
            name: name.to_owned(),
            description: String::new(),
            devices: Profile::builtin(set_up.device()).into_iter().collect(),
            machine,
            block: set_up.block(),
            scheduler: set_up.scheduler().to_owned(),
            array: array::Settings::default(),
            prefetch: set_up.prefetch(),
            policies: set_up.policies(),
            workload: workload.to_owned(),
            parameters: Parameters::default(),
            made: None,
            layout: LayoutSettings {
                by_seed: set_up.places_by_seed(),
                raw: set_up.raw(),
                ..LayoutSettings::default()
            },
            concurrency: vec![1],
            seeds: SEEDS.to_vec(),
            axis: None,
            warm_up: WARM_UP,
            warm_up_a_handler: Nanos::ZERO,
            duration: DURATION,
        }
    }

    /// The same with one seed, no interval and a fifth of the measured time, after the whole warm-up: for a
    /// first impression.
    #[must_use]
    pub fn quick(self) -> Self {
        self.each(&|one| {
            one.seeds.truncate(1);
            if one.is_closed() {
                one.duration = Nanos(one.duration.get() / 5);
            }
        })
    }

    /// Virtual time of a run, and the part of it before the measurement; for jobs the longest that they may
    /// take.
    #[must_use]
    pub fn period(&self, concurrency: u32) -> Period {
        let warm_up = self.warm_up.max(self.warm_up_a_handler * u64::from(concurrency));
        Period { warm_up, duration: self.duration }
    }

    fn is_closed(&self) -> bool {
        self.workload().is_ok_and(|workload| workload.drive() == Drive::Closed)
    }
}
