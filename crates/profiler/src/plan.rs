//! How much is measured, so that it ends in time.

use foreseek_units::Nanos;

/// Locations along the device at which the rate is measured: as many as the distinguishable points of
/// TR-840's figure 3, and more than the zones of most disks.
pub(super) const LOCATIONS: usize = 32;
/// Distances of the seek curve: ten for each factor of ten on a disk of a terabyte.
pub(super) const DISTANCES: usize = 64;

/// The thoroughness of a measurement. Times are limits at which a part ends early; on today's disks no part
/// reaches its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How long each location is read in sequence.
    pub(super) piece: Nanos,
    /// Offsets at which the rotation is measured.
    pub(super) rotation_offsets: usize,
    /// Intervals between pages there, for each step.
    pub(super) intervals: usize,
    /// Rotational phases over which the reads of one distance are spread.
    pub(super) phases: usize,
    /// How often all distances are measured.
    pub(super) rounds: usize,
    /// How often long distances are measured, which weigh most in the average over random offsets.
    pub(super) long_rounds: usize,
    /// Reads at each queue depth and request size.
    pub(super) reads: usize,
    /// Random reads for an array's positioning time.
    pub(super) random_reads: usize,
    /// Reads for each gap of the infill threshold.
    pub(super) gap_reads: usize,
    /// Samples of a latency distribution.
    pub(super) latencies: usize,
    /// How long a latency-bound device is loaded to find what it sustains.
    pub(super) sustained: Nanos,
    /// When the seek curve begins no further round, from the start of the measurement.
    pub(super) seeks_until: Nanos,
    /// When the measurement should be over.
    pub(super) limit: Nanos,
    /// How often rotation and the effect of distance are looked for before the device counts as one without
    /// moving parts.
    pub(super) rotation_trials: usize,
}

impl Plan {
    /// Everything, in less than two minutes.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            piece: Nanos::from_millis(220),
            rotation_offsets: 5,
            intervals: 24,
            phases: 8,
            rounds: 3,
            long_rounds: 10,
            reads: 192,
            random_reads: 1600,
            gap_reads: 64,
            latencies: 8000,
            sustained: Nanos::from_secs(30),
            seeks_until: Nanos::from_secs(60),
            limit: Nanos::from_secs(110),
            rotation_trials: 1,
        }
    }

    /// The same parts with fewer repetitions, in less than fifteen seconds. The read in progress at the limit
    /// may take one or two more.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            piece: Nanos::from_millis(75),
            rotation_offsets: 3,
            intervals: 14,
            phases: 4,
            rounds: 1,
            long_rounds: 3,
            reads: 32,
            random_reads: 400,
            gap_reads: 9,
            latencies: 2000,
            sustained: Nanos::from_millis(1200),
            seeks_until: Nanos::from_secs(7),
            limit: Nanos::from_secs(13),
            rotation_trials: 1,
        }
    }

    /// The plan for a device that the kernel reports as rotational (`queue/rotational` is 1). The kernel also
    /// reports network volumes as such, so the flag decides nothing. But a rotation hidden by a busy host is
    /// then likelier than none, so it is looked for twice.
    #[must_use]
    pub fn reported_rotational(self, rotational: bool) -> Self {
        Self { rotation_trials: if rotational { 2 } else { self.rotation_trials }, ..self }
    }

    /// The plan for a device with stretched time: an emulated one that was slowed down, so that delays of a
    /// busy host are small beside it.
    #[must_use]
    pub fn stretched(self, factor: f64) -> Self {
        Self {
            piece: self.piece.scale(factor),
            sustained: self.sustained.scale(factor),
            seeks_until: self.seeks_until.scale(factor),
            limit: self.limit.scale(factor),
            ..self
        }
    }
}
