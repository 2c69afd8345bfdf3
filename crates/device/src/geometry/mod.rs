//! Where a sector lies: logical address -> zone, cylinder, head, sector, and the angle at which it
//! passes under the head.
//!
//! Tracks of a cylinder follow one another, then the next cylinder; every track of a zone holds the
//! same number of sectors. The first sector of a track is turned against the last of the track
//! before by the *track skew* (head switch) or, at a cylinder's end, by the *cylinder skew* (seek of
//! one cylinder), so that a sequential pass loses just these. The skews follow from the switch times
//! unless a zone states its own. Heads ascend on every cylinder or, in serpentine layouts, descend on
//! every other one. Sectors that hold no data (spares, slipped defects, a zone's reserved front) are
//! passed over: see [`spread`]. Data of a remapped sector lie elsewhere.
//!
//! One function carries all of it. [`Geometry::passes_at`] is the time at which a sector begins to
//! pass under its head in one sequential pass over the whole disk that starts at angle zero: the
//! angle of a sector is that time modulo a turn, and reading a range takes the difference of two
//! such times. Skews shorter than the movement that they hide are lengthened by whole turns, which
//! is what they cost. Everything is integer arithmetic in nanoseconds and exact, so that a range
//! read in pieces without a pause ends when it ends read at once, and no piece misses its sector by
//! a rounding error, which would cost a turn.
//!
//! Limits: the pass takes remapped sectors where they would have been; only an access that begins at
//! one goes to its replacement.

mod shape;
mod spread;
mod zone;

pub(crate) use shape::{Mapping, Rules, Spares, SwitchTimes, ZoneDetail, ZoneShape};

use foreseek_units::{Lba, Nanos, Rate, SECTOR_SIZE, Sectors};
use zone::Zone;

/// The physical place of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// A disk's layout.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    cylinders: u32,
    turn: u64,
    sectors: u64,
    /// Sectors whose data lie elsewhere, ascending: where by address, and in which zone's terms.
    remapped: Vec<(u64, Place, Nanos)>,
}

impl Geometry {
    /// Lays zones out from the outer edge inwards. The caller has checked that no count is zero, all
    /// are within the limits of a profile, and zones do not overlap.
    pub(crate) fn new(rules: &Rules, shapes: &[ZoneShape]) -> Self {
        let mut zones: Vec<Zone> = Vec::with_capacity(shapes.len());
        let mut remapped = Vec::new();
        for shape in shapes {
            let zone = Zone::after(zones.last(), rules, shape);
            if let Some(detail) = &shape.detail {
                remapped.extend(detail.remaps.iter().filter_map(|remap| zone.remapped(rules, *remap)));
            }
            zones.push(zone);
        }
        remapped.sort_unstable_by_key(|(lba, ..)| *lba);
        let cylinders = zones.last().map_or(0, Zone::end_cylinder);
        let sectors = zones.last().map_or(0, Zone::end_lba);
        Self { zones, cylinders, turn: rules.turn.get(), sectors, remapped }
    }

    /// All sectors of all zones.
    pub(crate) fn sectors(&self) -> Sectors {
        Sectors(self.sectors)
    }

    /// All cylinders up to the last that holds data.
    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// One revolution.
    pub(crate) fn turn(&self) -> Nanos {
        Nanos(self.turn)
    }

    /// Where a sector lies.
    pub(crate) fn place(&self, lba: Lba) -> Place {
        self.zone_of(lba).place(lba)
    }

    /// Where a sector lies and when it begins to pass under its head, in the sequential pass.
    pub(crate) fn locate(&self, lba: Lba) -> (Place, Nanos) {
        if let Some((_, place, passes)) = self.remap_of(lba) {
            return (*place, *passes);
        }
        let zone = self.zone_of(lba);
        zone.locate(self.turn, lba)
    }

    /// When a sector begins to pass under its head, in the sequential pass.
    pub(crate) fn passes_at(&self, lba: Lba) -> Nanos {
        self.zone_of(lba).locate(self.turn, lba).1
    }

    /// When the last sector before `end` has passed under its head, in the sequential pass.
    pub(crate) fn passed_at(&self, end: Lba) -> Nanos {
        let last = Lba(end.get().saturating_sub(1));
        self.zone_of(last).passed(self.turn, last)
    }

    /// The first sector that has not wholly passed at `time` of the sequential pass.
    pub(crate) fn reached_at(&self, time: Nanos) -> Lba {
        let at = self.zones.partition_point(|zone| zone.begins() <= time);
        self.zones[at.saturating_sub(1)].reached(self.turn, time)
    }

    /// The time that a sector takes to pass.
    pub(crate) fn sector_time(&self, lba: Lba) -> Nanos {
        Nanos(self.turn / self.zone_of(lba).sectors_per_track())
    }

    /// The sectors of a track at a sector.
    pub(crate) fn sectors_per_track(&self, lba: Lba) -> Sectors {
        Sectors(self.zone_of(lba).sectors_per_track())
    }

    /// Where the track that holds a sector ends.
    pub(crate) fn track_end(&self, lba: Lba) -> Lba {
        self.zone_of(lba).track_end(lba, 1)
    }

    /// Where the cylinder that holds a sector ends.
    pub(crate) fn cylinder_end(&self, lba: Lba) -> Lba {
        let zone = self.zone_of(lba);
        zone.track_end(lba, zone.heads())
    }

    /// The sustained rate of a sequential pass at a sector: that of its cylinder.
    pub(crate) fn rate_at(&self, lba: Lba) -> Rate {
        let zone = self.zone_of(lba);
        let (data, cylinder) = zone.cylinder(self.turn);
        Rate::bytes_per_second(data * SECTOR_SIZE as f64 / cylinder.as_secs_f64())
    }

    /// The mean over the first `sectors` of the sustained rate, where it is at most `ceiling`.
    pub(crate) fn mean_rate(&self, sectors: Sectors, ceiling: Rate) -> Rate {
        let mut sum = 0.0;
        for (at, zone) in self.zones.iter().enumerate() {
            let end = self.zones.get(at + 1).map_or(self.sectors, Zone::first_lba);
            let within = end.min(sectors.get()).saturating_sub(zone.first_lba());
            let rate = self.rate_at(Lba(zone.first_lba())).as_bytes_per_second();
            sum += within as f64 * rate.min(ceiling.as_bytes_per_second());
        }
        Rate::bytes_per_second(sum / sectors.get() as f64)
    }

    fn remap_of(&self, lba: Lba) -> Option<&(u64, Place, Nanos)> {
        if self.remapped.is_empty() {
            return None;
        }
        let at = self.remapped.binary_search_by_key(&lba.get(), |(lba, ..)| *lba).ok()?;
        self.remapped.get(at)
    }

    fn zone_of(&self, lba: Lba) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.first_lba() <= lba.get());
        &self.zones[after.saturating_sub(1)]
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
            .prop_map(|(cylinders, sectors_per_track)| ZoneShape::plain(cylinders, sectors_per_track));
        prop::collection::vec(shape, 1..4)
    }

    fn geometry() -> impl Strategy<Value = (Geometry, SwitchTimes, Vec<ZoneShape>)> {
        (1..4u32, 0..20_000_000u64, 0..20_000_000u64, shapes()).prop_map(|(heads, head, more, shapes)| {
            let switch = SwitchTimes::new(Nanos(head), Nanos(head + more));
            (Geometry::new(&Rules::plain(heads, Nanos(TURN), switch), &shapes), switch, shapes)
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
            let walked = walk(geometry.zones[0].heads() as u32, &shapes);
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
            let walked = walk(geometry.zones[0].heads() as u32, &shapes);
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
        let switch = SwitchTimes::new(Nanos(250_000), Nanos(410_000));
        let shapes = [ZoneShape::plain(2, 10)];
        let geometry = Geometry::new(&Rules::plain(2, Nanos(1_000_000), switch), &shapes);
        for (lba, passes) in [(0, 0), (9, 900_000), (10, 1_300_000), (19, 2_200_000), (20, 2_800_000)] {
            assert_eq!(geometry.passes_at(Lba(lba)), Nanos(passes), "sector {lba}");
        }
        assert_eq!(geometry.passed_at(Lba(20)), Nanos(2_300_000));
        let rate = geometry.rate_at(Lba(5)).as_bytes_per_second();
        assert!((rate - 20.0 * 512.0 / 2.8e-3).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn a_skew_shorter_than_the_switch_costs_whole_turns() {
        let switch = SwitchTimes::new(Nanos(2_100_000), Nanos(2_100_000));
        let shapes = [ZoneShape::plain(1, 10)];
        let geometry = Geometry::new(&Rules::plain(2, Nanos(1_000_000), switch), &shapes);
        assert_eq!(geometry.passes_at(Lba(10)), Nanos(3_100_000));
    }
}
