//! The result of a measurement.

use super::effects::{DepthPoint, SizePoint};
use super::gaps::GapPoint;
use super::latency_bound::LatencyBound;
use super::rates::{RateAt, Zone};
use super::seeks::SeekPoint;
use foreseek_device::Profile;
use foreseek_units::{Bytes, Nanos, Rate};

/// The kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One disk: it rotates, and distant reads take longer.
    Disk,
    /// Several disks as one: it rotates, and sequential reads are faster than a track passes the head.
    Array,
    /// No head: an SSD, a network volume, memory.
    DoesNotSeek,
}

/// All measurements, and the profile made from them.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The kind of device.
    pub verdict: Verdict,
    /// The capacity.
    pub capacity: Bytes,
    /// The rotation period, of a rotating device.
    pub rotation_period: Option<Nanos>,
    /// The positioning time, by random reads: for a disk and an array the mean seek and half a revolution,
    /// otherwise the mean latency.
    pub positioning_time: Nanos,
    /// The sequential rate at each location.
    pub rates: Vec<RateAt>,
    /// The zones found in these rates.
    pub zones: Vec<Zone>,
    /// The cost of each distance.
    pub seeks: Vec<SeekPoint>,
    /// The cost of gaps, skipped and read through.
    pub gaps: Vec<GapPoint>,
    /// The largest gap that is cheaper to read through than to skip.
    pub infill: Bytes,
    /// The effect of request sizes.
    pub sizes: Vec<SizePoint>,
    /// The effect of queue depths.
    pub depths: Vec<DepthPoint>,
    /// The measurements of a latency-bound device.
    pub latency_bound: Option<LatencyBound>,
    /// The overhead of a command that the drive answers from its buffer, with the host's part; zero where it
    /// could not be measured.
    pub command_overhead: Nanos,
    /// The rate from the drive to the host, where it could be measured.
    pub bus: Option<Rate>,
    /// The profile, as TOML.
    pub toml: String,
    /// The profile, read back from that text.
    pub profile: Profile,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The time that it took.
    pub elapsed: Nanos,
}

impl Findings {
    /// The findings that follow from the profile alone; the rest is empty.
    pub(super) fn of(profile: Profile, toml: String, elapsed: Nanos) -> Self {
        Self {
            verdict: Verdict::DoesNotSeek,
            capacity: profile.capacity(),
            rotation_period: None,
            positioning_time: profile.positioning_time(),
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
