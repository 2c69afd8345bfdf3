//! What a disk has done, as its server reports it.

use serde::{Deserialize, Serialize};

/// What a disk has done since it was attached or its counters were reset.
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
    /// What could not be had on this machine, one line each; the disk works without.
    #[serde(default, alias = "remarks")]
    pub warnings: Vec<String>,
    /// Whether requests take the modelled time.
    pub delays: bool,
    /// The factor on modelled time.
    pub time_scale: f64,
    /// When modelled time was zero, by `CLOCK_MONOTONIC`, had it always run by this factor: with it
    /// the model's own answers can be computed elsewhere.
    pub model_epoch_ns: u64,
    /// Real time over which the counters ran.
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

    /// Accesses of the modelled device that did not start where the head was.
    pub seeks: u64,
    /// Sum of their distances.
    pub seek_distance_bytes: u64,
    /// Mean of their distances; 0 without seeks.
    pub mean_seek_distance_bytes: u64,
    /// Reads that the modelled device answered from its own buffer.
    pub buffer_hits: u64,
    /// Modelled time in which the device was at work, summed over the members of an array.
    pub busy_seconds: f64,

    /// Requests in the server now.
    pub in_flight: u64,
    /// The most that were in it at a time.
    pub in_flight_most: u64,
    /// Who is connected over NBD.
    #[serde(default)]
    pub clients: Vec<String>,
    /// Their mean number, over time.
    pub in_flight_mean: f64,

    /// From a request's arrival at the server to its answer.
    pub latency: Distribution,
    /// The same as steps; those without requests are left out.
    pub latency_histogram: Vec<Step>,
    /// How much later than intended answers to delayed requests left the server.
    pub lateness: Distribution,
    /// The share of a core that the timer spent spinning.
    pub spin_share: f64,
    /// Waits that were left to sleep alone because spinning had used up its budget.
    pub spins_refused: u64,

    /// What the path between the caller and the server costs, as measured at attach.
    pub path: PathCost,
    /// The share of delayed requests' time that came from the path and the machine rather than
    /// from the model: it does not shrink with the time scale.
    pub path_share: f64,
}

/// Times in a nutshell, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
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
    /// Times from half of this, exclusive...
    pub up_to_us: f64,
    /// ...how many there were.
    pub count: u64,
}

/// What the way through the kernel costs a request, both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathCost {
    /// A request of 4 KiB.
    pub base_us: f64,
    /// Each further MiB.
    pub per_mib_us: f64,
}
