//! The moving parts: from where the head is at a time, how long until a sector passes under it.
//!
//! A media access is the movement (a seek, or a head switch on the same cylinder), during which the
//! platter turns; then the wait for the first sector; then the transfer, a track at a time, with
//! skews hiding what lies between tracks. The platter's angle is a function of absolute time:
//! nothing is drawn at random.
//!
//! Limits: reads and writes position alike (no write settle), an access starts at its first sector
//! (no zero-latency access).

use crate::geometry::{Geometry, Place};
use crate::seek::SeekCurve;
use foreseek_units::{Instant, Lba, Nanos, SectorSpan};

/// What it takes until a sector passes under the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positioning {
    /// Moving the arm or switching heads.
    pub(crate) movement: Nanos,
    /// Waiting for the sector to come round.
    pub(crate) rotation: Nanos,
}

impl Positioning {
    pub(crate) fn total(self) -> Nanos {
        self.movement + self.rotation
    }
}

/// Arm, heads and platters of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Mechanics {
    pub(crate) geometry: Geometry,
    pub(crate) seek: SeekCurve,
    pub(crate) head_switch: Nanos,
    /// How many cylinders of the profiled disk one cylinder stands for, beyond the first: above one
    /// where the full stroke is stretched over a smaller disk.
    pub(crate) stretch: f64,
    /// The platter's angle at time zero, as a time.
    pub(crate) angle: Nanos,
}

impl Mechanics {
    /// Moving from one track to another.
    pub(crate) fn movement(&self, from: Place, to: Place) -> Nanos {
        match from.cylinder.abs_diff(to.cylinder) {
            0 if from.head == to.head => Nanos::ZERO,
            0 => self.head_switch,
            1 => self.seek.time(1.0).max(self.head_switch),
            distance => {
                let stretched = 1.0 + f64::from(distance - 1) * self.stretch;
                self.seek.time(stretched).max(self.head_switch)
            }
        }
    }

    /// From `head` at `at` to the start of a sector that lies at `place` and passes at `passes` of
    /// the sequential pass.
    pub(crate) fn positioning(&self, head: Place, at: Instant, place: Place, passes: Nanos) -> Positioning {
        let movement = self.movement(head, place);
        let turn = self.geometry.turn().get();
        let angle = (at.get() + movement.get() + self.angle.get()) % turn;
        let target = passes.get() % turn;
        let rotation = if target >= angle { target - angle } else { target + turn - angle };
        Positioning { movement, rotation: Nanos(rotation) }
    }

    /// From the start of a range's first sector to the end of its last.
    pub(crate) fn transfer(&self, range: SectorSpan) -> Nanos {
        self.geometry.passed_at(range.end) - self.geometry.passes_at(range.start)
    }

    /// Where the head is when it has just read the last sector before `end`.
    pub(crate) fn place_before(&self, end: Lba) -> Place {
        self.geometry.place(Lba(end.get().saturating_sub(1)))
    }
}
