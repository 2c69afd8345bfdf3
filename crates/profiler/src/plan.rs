//! How much is measured, so that it ends in time.

use foreseek_units::Nanos;

/// Places along the device at which the rate is measured: as many as TR-840's figure 3 has points
/// that can be told apart, and most disks have fewer zones.
pub(super) const LOCATIONS: usize = 32;
/// Distances of the seek curve: ten for each factor of ten on a disk of a terabyte.
pub(super) const DISTANCES: usize = 64;

/// How thorough a measurement is. Times are limits at which a part ends early; on disks of today no
/// part reaches its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// For how long each location is read in sequence.
    pub(super) piece: Nanos,
    /// Places at which the turn is measured.
    pub(super) turn_places: usize,
    /// Intervals between pages there, for each step.
    pub(super) intervals: usize,
    /// Phases of the platter over which the reads of one distance are spread.
    pub(super) phases: usize,
    /// How often all distances are gone through.
    pub(super) rounds: usize,
    /// How often the long ones are, on which the average over random places depends most.
    pub(super) long_rounds: usize,
    /// Reads of the queue depth's and the request size's effect, at each depth and size.
    pub(super) reads: usize,
    /// Random reads from which an array's switch cost is told.
    pub(super) random_reads: usize,
    /// Reads for each gap of the skip-or-read threshold.
    pub(super) gap_reads: usize,
    /// Samples of a latency distribution.
    pub(super) latencies: usize,
    /// For how long a latency-bound device is kept busy to see what it sustains.
    pub(super) sustained: Nanos,
    /// When the seek curve begins no further round, from the start of all.
    pub(super) seeks_until: Nanos,
    /// When all should be over.
    pub(super) limit: Nanos,
    /// How often it is looked for a revolution and for what lies far taking longer, before it is said that
    /// nothing moves.
    pub(super) looks: usize,
}

impl Plan {
    /// Everything, in less than two minutes.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            piece: Nanos::from_millis(220),
            turn_places: 5,
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
            looks: 1,
        }
    }

    /// The same parts with fewer repetitions, in less than fifteen seconds: what is under way when the
    /// limit is reached takes one or two more.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            piece: Nanos::from_millis(75),
            turn_places: 3,
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
            looks: 1,
        }
    }

    /// The same for a device that the kernel holds for a disk that turns (`queue/rotational` is 1). It
    /// holds network volumes for such, too, so that this decides nothing; but a revolution that a busy host hid is then
    /// likelier than that there is none, and it is looked for a second time.
    #[must_use]
    pub fn said_to_turn(self, rotational: bool) -> Self {
        Self { looks: if rotational { 2 } else { self.looks }, ..self }
    }

    /// The same for a device whose time is stretched: an emulated one that was slowed down, so that a
    /// busy host's lateness is small against it.
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
