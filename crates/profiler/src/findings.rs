//! What a measurement found.

use super::effects::{DepthPoint, SizePoint};
use super::gaps::GapPoint;
use super::latency_bound::LatencyBound;
use super::rates::{RateAt, Zone};
use super::seeks::SeekPoint;
use foreseek_device::Profile;
use foreseek_units::{Bytes, Nanos, Rate};

/// What sort of device it turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One disk: a platter turns, and what is far takes longer.
    Disk,
    /// Several disks as one: a platter turns, and in sequence more comes than one track passes.
    Array,
    /// No head: an SSD, a network volume, a memory.
    DoesNotSeek,
}

/// All that was measured, and the profile made of it.
#[derive(Clone, Debug)]
pub struct Findings {
    /// What sort of device.
    pub verdict: Verdict,
    /// How much it holds.
    pub capacity: Bytes,
    /// One revolution, where something turns.
    pub turn: Option<Nanos>,
    /// What going to a random place costs, by reading there: of a disk and an array the mean seek and
    /// half a revolution, of others the mean latency.
    pub switch_time: Nanos,
    /// The rate at each location.
    pub rates: Vec<RateAt>,
    /// The zones that they show.
    pub zones: Vec<Zone>,
    /// What each distance costs.
    pub seeks: Vec<SeekPoint>,
    /// What gaps cost, skipped and read through.
    pub gaps: Vec<GapPoint>,
    /// The largest gap that is cheaper read through.
    pub infill: Bytes,
    /// The effect of request sizes.
    pub sizes: Vec<SizePoint>,
    /// The effect of queue depths.
    pub depths: Vec<DepthPoint>,
    /// What was found of a latency-bound device: nothing moves in it.
    pub latency_bound: Option<LatencyBound>,
    /// Overhead of a command that the drive answers from its buffer, the host's part included; zero
    /// where there is no such thing.
    pub command_overhead: Nanos,
    /// From the drive to the host, where it could be measured.
    pub bus: Option<Rate>,
    /// The profile, as TOML.
    pub toml: String,
    /// The profile, read back from that text.
    pub profile: Profile,
    /// What whoever reads this should know.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed: Nanos,
}

impl Findings {
    /// What a profile says by itself; the rest is empty.
    pub(super) fn of(profile: Profile, toml: String, elapsed: Nanos) -> Self {
        Self {
            verdict: Verdict::DoesNotSeek,
            capacity: profile.capacity(),
            turn: None,
            switch_time: profile.switch_time(),
            rates: Vec::new(),
            zones: Vec::new(),
            seeks: Vec::new(),
            gaps: Vec::new(),
            infill: Bytes::ZERO,
            sizes: Vec::new(),
            depths: Vec::new(),
            latency_bound: None,
            command_overhead: Nanos::ZERO,
            bus: None,
            toml,
            profile,
            warnings: Vec::new(),
            elapsed,
        }
    }
}
