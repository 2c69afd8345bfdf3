//! Where a sector lies: logical address -> zone, cylinder, head, sector, and the angle at which it
//! passes under the head.
//!
//! Tracks of a cylinder follow one another, then the next cylinder; every track of a zone holds the
//! same number of sectors. The first sector of a track is turned against the last of the track
//! before by the *track skew* (head switch) or, at a cylinder's end, by the *cylinder skew* (seek of
//! one cylinder), so that a sequential pass loses just these.
//!
//! One function carries all of it. [`Geometry::passes_at`] is the time at which a sector begins to
//! pass under its head in one sequential pass over the whole disk that starts at angle zero: the
//! angle of a sector is that time modulo a turn, and reading a range takes the difference of two
//! such times. Skews shorter than the movement that they hide are lengthened by whole turns, which
//! is what they cost. Everything is integer arithmetic in nanoseconds and exact, so that a range
//! read in pieces without a pause ends when it ends read at once, and no piece misses its sector by
//! a rounding error, which would cost a turn.
//!
//! Limits: no spare sectors or defects, no serpentine layout; both are later work.

use foreseek_units::{Lba, Nanos, Rate, SECTOR_SIZE, Sectors};

/// A zone as it is described: cylinders that hold the same number of sectors a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneShape {
    pub(crate) cylinders: u32,
    pub(crate) sectors_per_track: u32,
}

/// What the mechanics need between tracks and between cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchTimes {
    pub(crate) head: Nanos,
    pub(crate) cylinder: Nanos,
}

/// The physical place of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// A zone as it is used. "Slots" are sector times of this zone: a track is `sectors_per_track` of
/// them, a skew some more.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_cylinder: u32,
    first_lba: u64,
    /// When its first sector passes in the sequential pass.
    base: u64,
    sectors_per_track: u64,
    sectors_per_cylinder: u64,
    slots_per_track: u64,
    slots_per_cylinder: u64,
}

/// A disk's layout.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    heads: u32,
    cylinders: u32,
    turn: u64,
    sectors: u64,
}

impl Geometry {
    /// Lays zones out from the outer edge inwards. The caller has checked that no count is zero and
    /// all are within the limits of a profile.
    pub(crate) fn new(heads: u32, turn: Nanos, switch: SwitchTimes, shapes: &[ZoneShape]) -> Self {
        let turn = turn.get();
        let mut zones = Vec::with_capacity(shapes.len());
        let (mut first_cylinder, mut first_lba, mut base) = (0u32, 0u64, 0u64);
        for shape in shapes {
            let sectors = u64::from(shape.sectors_per_track);
            let slots = |time: Nanos| (time.get() * sectors).div_ceil(turn);
            let heads = u64::from(heads);
            let slots_per_track = sectors + slots(switch.head);
            let zone = Zone {
                first_cylinder,
                first_lba,
                base,
                sectors_per_track: sectors,
                sectors_per_cylinder: heads * sectors,
                slots_per_track,
                slots_per_cylinder: (heads - 1) * slots_per_track + sectors + slots(switch.cylinder),
            };
            first_cylinder += shape.cylinders;
            first_lba += u64::from(shape.cylinders) * zone.sectors_per_cylinder;
            base += zone.time_of_slot(turn, u64::from(shape.cylinders) * zone.slots_per_cylinder);
            zones.push(zone);
        }
        Self { zones, heads, cylinders: first_cylinder, turn, sectors: first_lba }
    }

    /// All sectors of all zones.
    pub(crate) fn sectors(&self) -> Sectors {
        Sectors(self.sectors)
    }

    /// All cylinders.
    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// One revolution.
    pub(crate) fn turn(&self) -> Nanos {
        Nanos(self.turn)
    }

    /// Where a sector lies.
    pub(crate) fn place(&self, lba: Lba) -> Place {
        let zone = self.zone_of(lba);
        let within = lba.get() - zone.first_lba;
        let cylinder = within / zone.sectors_per_cylinder;
        let head = within % zone.sectors_per_cylinder / zone.sectors_per_track;
        Place { cylinder: zone.first_cylinder + cylinder as u32, head: head as u32 }
    }

    /// When a sector begins to pass under its head, in the sequential pass.
    pub(crate) fn passes_at(&self, lba: Lba) -> Nanos {
        let zone = self.zone_of(lba);
        Nanos(zone.base + zone.time_of_slot(self.turn, zone.slot_of(lba)))
    }

    /// When the last sector before `end` has passed under its head, in the sequential pass.
    pub(crate) fn passed_at(&self, end: Lba) -> Nanos {
        let last = Lba(end.get().saturating_sub(1));
        let zone = self.zone_of(last);
        Nanos(zone.base + zone.time_of_slot(self.turn, zone.slot_of(last) + 1))
    }

    /// The first sector that has not wholly passed at `time` of the sequential pass.
    pub(crate) fn reached_at(&self, time: Nanos) -> Lba {
        let at = self.zones.partition_point(|zone| zone.base <= time.get());
        let zone = &self.zones[at.saturating_sub(1)];
        let since = time.get().saturating_sub(zone.base);
        // The largest slot that begins not later than `since`.
        let slots = since / self.turn * zone.sectors_per_track
            + ((since % self.turn + 1) * zone.sectors_per_track - 1) / self.turn;
        let cylinder = slots / zone.slots_per_cylinder;
        let rest = slots % zone.slots_per_cylinder;
        let head = (rest / zone.slots_per_track).min(u64::from(self.heads) - 1);
        let sector = (rest - head * zone.slots_per_track).min(zone.sectors_per_track);
        let within = cylinder * zone.sectors_per_cylinder + head * zone.sectors_per_track + sector;
        let end = self.zones.get(at).map_or(self.sectors, |next| next.first_lba);
        Lba((zone.first_lba + within).min(end))
    }

    /// The sustained rate of a sequential pass at a sector: that of its cylinder.
    pub(crate) fn rate_at(&self, lba: Lba) -> Rate {
        let zone = self.zone_of(lba);
        let cylinder = zone.time_of_slot(self.turn, zone.slots_per_cylinder);
        let bytes = zone.sectors_per_cylinder * SECTOR_SIZE;
        Rate::bytes_per_second(bytes as f64 / Nanos(cylinder).as_secs_f64())
    }

    /// The mean over the first `sectors` of the sustained rate, where it is at most `ceiling`.
    pub(crate) fn mean_rate(&self, sectors: Sectors, ceiling: Rate) -> Rate {
        let mut sum = 0.0;
        for (at, zone) in self.zones.iter().enumerate() {
            let end = self.zones.get(at + 1).map_or(self.sectors, |next| next.first_lba);
            let within = end.min(sectors.get()).saturating_sub(zone.first_lba);
            let rate = self.rate_at(Lba(zone.first_lba)).as_bytes_per_second();
            sum += within as f64 * rate.min(ceiling.as_bytes_per_second());
        }
        Rate::bytes_per_second(sum / sectors.get() as f64)
    }

    fn zone_of(&self, lba: Lba) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba.get());
        &self.zones[after.saturating_sub(1)]
    }
}

impl Zone {
    /// The slot of a sector, counted from the zone's start.
    fn slot_of(&self, lba: Lba) -> u64 {
        let within = lba.get() - self.first_lba;
        let cylinder = within / self.sectors_per_cylinder;
        let rest = within % self.sectors_per_cylinder;
        let head = rest / self.sectors_per_track;
        let sector = rest % self.sectors_per_track;
        cylinder * self.slots_per_cylinder + head * self.slots_per_track + sector
    }

    /// When a slot begins, from the zone's start: `floor(slot x turn / sectors a track)`, without
    /// the overflow.
    fn time_of_slot(&self, turn: u64, slot: u64) -> u64 {
        slot / self.sectors_per_track * turn + slot % self.sectors_per_track * turn / self.sectors_per_track
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const TURN: u64 = 8_333_333;

    fn shapes() -> impl Strategy<Value = Vec<ZoneShape>> {
        let shape = (1..5u32, 4..40u32)
            .prop_map(|(cylinders, sectors_per_track)| ZoneShape { cylinders, sectors_per_track });
        prop::collection::vec(shape, 1..4)
    }

    fn geometry() -> impl Strategy<Value = (Geometry, SwitchTimes, Vec<ZoneShape>)> {
        (1..4u32, 0..20_000_000u64, 0..20_000_000u64, shapes()).prop_map(|(heads, head, more, shapes)| {
            let switch = SwitchTimes { head: Nanos(head), cylinder: Nanos(head + more) };
            (Geometry::new(heads, Nanos(TURN), switch, &shapes), switch, shapes)
        })
    }

    /// Sector by sector: zone, cylinder, head, and sector on the track.
    fn walk(heads: u32, shapes: &[ZoneShape]) -> Vec<(Place, u32, u32)> {
        let (mut all, mut cylinder) = (Vec::new(), 0);
        for shape in shapes {
            for _ in 0..shape.cylinders {
                for head in 0..heads {
                    let track = (0..shape.sectors_per_track)
                        .map(|sector| (Place { cylinder, head }, sector, shape.sectors_per_track));
                    all.extend(track);
                }
                cylinder += 1;
            }
        }
        all
    }

    proptest! {
        #[test]
        fn sectors_lie_where_a_walk_over_the_disk_finds_them((geometry, _, shapes) in geometry()) {
            let walked = walk(geometry.heads, &shapes);
            prop_assert_eq!(geometry.sectors(), Sectors(walked.len() as u64));
            let mut seen = HashSet::new();
            for (lba, (place, sector, _)) in (0..).zip(&walked) {
                prop_assert_eq!(geometry.place(Lba(lba)), *place);
                prop_assert!(seen.insert((place.cylinder, place.head, *sector)));
            }
        }

        /// Sectors of a track follow one another without a pause and fill a turn; between tracks
        /// lies the switch, rounded up to a sector.
        #[test]
        fn the_sequential_pass_loses_the_switches_and_nothing_else((geometry, switch, shapes) in geometry()) {
            let walked = walk(geometry.heads, &shapes);
            for (lba, pair) in (0..).map(Lba).zip(walked.windows(2)) {
                let ((from, sector, per_track), (to, ..)) = (pair[0], pair[1]);
                let next = lba + Sectors(1);
                let (begins, ends) = (geometry.passes_at(lba), geometry.passed_at(next));
                let slot = TURN / u64::from(per_track);
                prop_assert!((slot..=slot + 1).contains(&(ends - begins).get()));
                let gap = geometry.passes_at(next).get() - ends.get();
                let wanted = match () {
                    () if from == to => 0,
                    () if from.cylinder == to.cylinder => switch.head.get(),
                    () => switch.cylinder.get(),
                };
                prop_assert!(gap >= wanted && gap <= wanted + slot + 1, "{:?} to {:?}: {} of {}", from, to, gap, wanted);
                let start = lba.get() - u64::from(sector);
                let within = begins.get() - geometry.passes_at(Lba(start)).get();
                let even = u64::from(sector) * TURN / u64::from(per_track);
                prop_assert!(within.abs_diff(even) <= 1);
            }
        }

        #[test]
        fn where_the_pass_has_got_to_is_the_inverse_of_when((geometry, ..) in geometry(), at in any::<prop::sample::Index>()) {
            let end = Lba(at.index(geometry.sectors as usize) as u64 + 1);
            let passed = geometry.passed_at(end);
            prop_assert_eq!(geometry.reached_at(passed), end);
            prop_assert_eq!(geometry.reached_at(passed - Nanos(1)), end - Sectors(1));
            prop_assert_eq!(geometry.reached_at(geometry.passes_at(end - Sectors(1))), end - Sectors(1));
            prop_assert_eq!(geometry.reached_at(passed + Nanos(1 << 50)), Lba(geometry.sectors));
        }
    }

    /// 2 heads, 10 sectors a track, a turn of 1 ms, switches of 0.25 and 0.41 ms: three and five
    /// sectors. A cylinder takes 10 + 3 + 10 + 5 sector times.
    #[test]
    fn a_small_layout_by_hand() {
        let switch = SwitchTimes { head: Nanos(250_000), cylinder: Nanos(410_000) };
        let shapes = [ZoneShape { cylinders: 2, sectors_per_track: 10 }];
        let geometry = Geometry::new(2, Nanos(1_000_000), switch, &shapes);
        for (lba, passes) in [(0, 0), (9, 900_000), (10, 1_300_000), (19, 2_200_000), (20, 2_800_000)] {
            assert_eq!(geometry.passes_at(Lba(lba)), Nanos(passes), "sector {lba}");
        }
        assert_eq!(geometry.passed_at(Lba(20)), Nanos(2_300_000));
        let rate = geometry.rate_at(Lba(5)).as_bytes_per_second();
        assert!((rate - 20.0 * 512.0 / 2.8e-3).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn a_skew_shorter_than_the_switch_costs_whole_turns() {
        let switch = SwitchTimes { head: Nanos(2_100_000), cylinder: Nanos(2_100_000) };
        let shapes = [ZoneShape { cylinders: 1, sectors_per_track: 10 }];
        let geometry = Geometry::new(2, Nanos(1_000_000), switch, &shapes);
        assert_eq!(geometry.passes_at(Lba(10)), Nanos(3_100_000));
    }
}
