//! The counters of a disk, as its server reports them.

use crate::LbaRange;
use serde::{Deserialize, Serialize};

/// The counters of a disk since it was attached or they were reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The disk's name.
    pub name: String,
    /// The profile.
    pub profile: String,
    /// Its size.
    pub size_bytes: u64,
    /// The member of an array that has failed, counted from zero.
    #[serde(default)]
    pub failed_member: Option<usize>,
    /// What this machine lacks, one line each; the disk works without it.
    #[serde(default, alias = "remarks")]
    pub warnings: Vec<String>,
    /// Whether its power is off, so that requests fail.
    #[serde(default)]
    pub power_off: bool,
    /// The sectors whose every request fails.
    #[serde(default)]
    pub fail_lba: Vec<LbaRange>,
    /// Whether requests take the modelled time.
    pub delays: bool,
    /// The factor on modelled time.
    pub time_scale: f64,
    /// When modelled time was zero, by `CLOCK_MONOTONIC`, if this factor had always applied: other programs
    /// can compute the model's own answers with it.
    pub model_epoch_ns: u64,
    /// The real time over which the counters ran.
    pub seconds: f64,

    /// Reads, writes, flushes and discards answered.
    pub requests: u64,
    /// Reads answered.
    pub reads: u64,
    /// Writes answered.
    pub writes: u64,
    /// Flushes answered.
    pub flushes: u64,
    /// Discards answered.
    pub discards: u64,
    /// Requests answered with an error, injected or real.
    pub failed: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,

    /// Accesses of the modelled device that did not start at the head's position.
    pub seeks: u64,
    /// The sum of their distances.
    pub seek_distance_bytes: u64,
    /// The mean of their distances; 0 without seeks.
    pub mean_seek_distance_bytes: u64,
    /// Reads that the modelled device answered from its own buffer.
    pub buffer_hits: u64,
    /// Modelled time in which the device was busy, summed over the members of an array.
    pub busy_seconds: f64,

    /// Requests in the server now.
    pub in_flight: u64,
    /// The most requests in it at a time.
    pub in_flight_most: u64,
    /// The connected NBD clients.
    #[serde(default)]
    pub clients: Vec<String>,
    /// The mean number of requests in it, over time.
    pub in_flight_mean: f64,

    /// From a request's arrival at the server to its answer.
    pub latency: Distribution,
    /// The same as a histogram; steps without requests are left out.
    pub latency_histogram: Vec<Step>,
    /// How much later than due the answers to delayed requests were sent.
    pub lateness: Distribution,
    /// The share of a core that the timer spent spinning.
    pub spin_share: f64,
    /// Waits that only slept because the budget for spinning was used up.
    pub spins_refused: u64,

    /// The cost of the path between the caller and the server, as measured at attach.
    pub path: PathCost,
    /// The share of delayed requests' time that came from the path and the machine and not from the model: it
    /// does not shrink with the time scale.
    pub path_share: f64,
}

/// A summary of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of times.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half of them were no longer.
    pub p50_us: f64,
    /// Nine in ten were no longer.
    pub p90_us: f64,
    /// 99 in 100 were no longer.
    pub p99_us: f64,
    /// 999 in 1000 were no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// A step of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its end; it begins at half of this, exclusive.
    pub up_to_us: f64,
    /// The number of times in it.
    pub count: u64,
}

/// The cost of a request's path through the kernel, both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathCost {
    /// For a request of 4 KiB.
    pub base_us: f64,
    /// For each further MiB.
    pub per_mib_us: f64,
}
