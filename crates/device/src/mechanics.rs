//! The moving parts: the time from a position of the head until a sector passes under it.
//!
//! A media access is the movement (a seek, or a head switch on the same cylinder), during which the platter
//! rotates; then the wait for the first sector; then the transfer, track by track, with skews hiding the
//! movements between tracks. The platter's angle is a function of absolute time: nothing is random.
//!
//! Writes settle more exactly after a movement. A drive with *zero-latency access* begins with the first
//! wanted sector that comes, so that a range within one track never takes more than a revolution once the
//! head is there.

use crate::geometry::{Geometry, TrackAddress};
use crate::io::Op;
use crate::seek::SeekCurve;
use foreseek_units::{Instant, Lba, Nanos, SectorSpan};

/// The time until a sector passes under the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positioning {
    /// Moving the arm or switching heads.
    pub(crate) movement: Nanos,
    /// Waiting for the sector.
    pub(crate) rotation: Nanos,
}

impl Positioning {
    pub(crate) fn total(self) -> Nanos {
        self.movement + self.rotation
    }
}

/// The properties of an access that positioning depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Approach {
    pub(crate) op: Op,
    /// Whether it begins at the end of the access before, without a pause.
    pub(crate) continues: bool,
}

impl Approach {
    /// For an access that is independent of the one before.
    pub(crate) fn anew(op: Op) -> Self {
        Self { op, continues: false }
    }
}

/// Arm, heads and platters of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Mechanics {
    pub(crate) geometry: Geometry,
    pub(crate) seek: SeekCurve,
    pub(crate) head_switch: Nanos,
    /// The least time until the head is on a track again, the same or another, for an access that does not
    /// continue the one before.
    pub(crate) resettle: Nanos,
    /// The additional time of a movement before a write, in nanoseconds; negative if a drive begins to write
    /// before it would trust a read.
    pub(crate) write_settle: i64,
    /// Whether an access begins with the first wanted sector that comes.
    pub(crate) zero_latency: bool,
    /// The number of cylinders of the profiled disk that one cylinder stands for, beyond the first: above one
    /// if the full stroke is fitted to a smaller disk.
    pub(crate) stretch: f64,
    /// The platter's angle at time zero, as a time.
    pub(crate) angle: Nanos,
}

impl Mechanics {
    /// The movement from one track to another for an access that does not continue the one before.
    pub(crate) fn movement(&self, from: TrackAddress, to: TrackAddress) -> Nanos {
        self.switching(from, to).max(self.resettle)
    }

    fn switching(&self, from: TrackAddress, to: TrackAddress) -> Nanos {
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

    /// From `head` at `at` to the start of a sector at `track_address`, which passes at `passes` of the sequential
    /// pass.
    pub(crate) fn positioning(
        &self,
        head: TrackAddress,
        at: Instant,
        (track_address, passes): (TrackAddress, Nanos),
        how: Approach,
    ) -> Positioning {
        let mut movement = if how.continues {
            self.switching(head, track_address)
        } else {
            self.movement(head, track_address)
        };
        if how.op == Op::Write && !movement.is_zero() {
            movement = Nanos(movement.get().saturating_add_signed(self.write_settle));
        }
        let rotation_period = self.geometry.rotation_period().get();
        let angle = (at.get() + movement.get() + self.angle.get()) % rotation_period;
        let target = passes.get() % rotation_period;
        let rotation = if target >= angle { target - angle } else { target + rotation_period - angle };
        Positioning { movement, rotation: Nanos(rotation) }
    }

    /// From the start of a range's first sector to the end of its last.
    pub(crate) fn transfer(&self, range: SectorSpan) -> Nanos {
        self.geometry.passed_at(range.end) - self.geometry.passes_at(range.start)
    }

    /// The time saved for a range whose first sector comes after `positioning`, if the head arrived within
    /// the range and began there.
    pub(crate) fn gained(&self, range: SectorSpan, positioning: Positioning) -> Nanos {
        if !self.zero_latency || range.is_empty() || self.geometry.track_end(range.start) < range.end {
            return Nanos::ZERO;
        }
        // Beginning at its first sector it takes rotation and transfer, beginning at once a revolution.
        (positioning.rotation + self.transfer(range)).saturating_sub(self.geometry.rotation_period())
    }

    /// The position of the head after the last sector before `end`.
    pub(crate) fn track_address_before(&self, end: Lba) -> TrackAddress {
        self.geometry.track_address(Lba(end.get().saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Rules, SwitchTimes, ZoneShape};
    use foreseek_units::Sectors;
    use proptest::prelude::*;

    fn mechanics(angle: u64) -> Mechanics {
        let seek = SeekCurve::Lee { a: 50_000.0, b: 1_000.0, c: 600_000.0 };
        let switch = SwitchTimes::new(Nanos(400_000), Nanos(600_000));
        let zone = |sectors_per_track| ZoneShape::plain(40, sectors_per_track);
        let rules = Rules::plain(3, Nanos(6_000_000), switch);
        let geometry = Geometry::new(&rules, &[zone(61), zone(47)]);
        Mechanics {
            geometry,
            seek,
            head_switch: switch.head,
            resettle: Nanos::ZERO,
            write_settle: 70_000,
            zero_latency: true,
            stretch: 1.0,
            angle: Nanos(angle),
        }
    }

    proptest! {
        /// The head arrives at a sector when its angle comes, never earlier, and never a whole revolution
        /// later than possible.
        #[test]
        fn the_angle_is_a_function_of_time(
            angle in 0..6_000_000u64,
            at in 0..1u64 << 40,
            from in 0..12_960u64,
            to in 0..12_960u64,
        ) {
            let mechanics = mechanics(angle);
            let (head, track_address) = (mechanics.geometry.track_address(Lba(from)), mechanics.geometry.track_address(Lba(to)));
            let passes = mechanics.geometry.passes_at(Lba(to));
            let positioning = mechanics.positioning(head, Instant(at), (track_address, passes), Approach::anew(Op::Read));
            let arrives = at + positioning.total().get() + angle;
            prop_assert_eq!(arrives % 6_000_000, passes.get() % 6_000_000);
            prop_assert!(positioning.rotation < Nanos(6_000_000));
            prop_assert_eq!(positioning.movement, mechanics.movement(head, track_address));
        }

        /// Reading a range in pieces, each planned from the head's position, takes as long as reading it at
        /// once: no piece misses its sector by a rounding error.
        #[test]
        fn pieces_without_a_pause_take_as_long_as_the_whole(
            start in 0..10_000u64,
            pieces in prop::collection::vec(1..100u64, 1..20),
            at in 0..1u64 << 40,
        ) {
            let mechanics = mechanics(12_345);
            let geometry = &mechanics.geometry;
            let (mut now, mut head, mut lba) = (Instant(at), geometry.track_address(Lba(start)), Lba(start));
            let mut began = None;
            for piece in &pieces {
                let end = lba + Sectors(*piece);
                now += mechanics.positioning(head, now, geometry.locate(lba), Approach::anew(Op::Read)).total();
                began = began.or(Some(now));
                now += mechanics.transfer(SectorSpan::new(lba, end));
                (head, lba) = (mechanics.track_address_before(end), end);
            }
            let whole = mechanics.transfer(SectorSpan::new(Lba(start), lba));
            prop_assert_eq!(Some(now - whole), began);
        }
    }

    #[test]
    fn a_head_switch_hides_behind_a_longer_seek() {
        let mechanics = mechanics(0);
        let track_address = |cylinder, head| TrackAddress { cylinder, head };
        let ms = |from, to| mechanics.movement(from, to).as_millis_f64();
        assert_eq!(ms(track_address(5, 1), track_address(5, 1)), 0.0);
        assert_eq!(ms(track_address(5, 1), track_address(5, 2)), 0.4);
        assert_eq!(ms(track_address(5, 1), track_address(6, 2)), 0.6);
        assert_eq!(
            ms(track_address(30, 1), track_address(5, 1)),
            ms(track_address(5, 0), track_address(30, 2))
        );
    }
}
