//! The position of a sector: logical address -> zone, cylinder, head, sector, and the angle at which it
//! passes under the head.
//!
//! Tracks of a cylinder follow one another, then the next cylinder; every track of a zone has the same number
//! of sectors. The first sector of a track is offset from the last of the track before. The offset is the
//! *track skew* (head switch) or, at a cylinder's end, the *cylinder skew* (seek of one cylinder): a
//! sequential pass loses exactly these. The skews follow from the switch times unless a zone states its own.
//! Heads ascend on every cylinder or, in serpentine layouts, descend on every other one. Sectors without data
//! (spares, slipped defects, a zone's reserved front) are skipped: see `spread`. Data of a remapped sector
//! are elsewhere. Some drives are described by track instead: see `tracks`.
//!
//! All of it rests on one function. [`Geometry::passes_at`] is the time at which a sector begins to pass
//! under its head in one sequential pass over the whole disk that starts at angle zero. The angle of a sector
//! is that time modulo a revolution, and reading a range takes the difference of two such times. Skews
//! shorter than the movement that they hide are lengthened by whole revolutions, which is their cost. The
//! arithmetic is in integer nanoseconds and exact. A range read in pieces without a pause ends when it would
//! end if read at once. No piece misses its sector by a rounding error, which would cost a revolution.
//!
//! Limits: the pass takes remapped sectors at their original position; only an access that begins at one goes
//! to its replacement.

mod shape;
mod spread;
mod tracks;
mod zone;

pub use shape::{
    LayoutShape, Mapping, Rules, RunShape, SectionShape, Spares, SwitchTimes, TrackAddress, TracksShape,
    ZoneDetail, ZoneShape,
};

use foreseek_units::{Lba, Nanos, Rate, SECTOR_SIZE, Sectors};
use tracks::Tracks;
use zone::Zone;

/// A disk's layout.
#[derive(Clone, Debug)]
pub struct Geometry {
    layout: Layout,
    cylinders: u32,
    rotation_period: u64,
    sectors: u64,
    /// Sectors whose data are elsewhere, ascending: the address, the new position, and its time in the pass.
    remapped: Vec<(u64, TrackAddress, Nanos)>,
}

/// The two ways in which a layout is described.
#[derive(Clone, Debug)]
enum Layout {
    Zones(Vec<Zone>),
    Tracks(Box<Tracks>),
}

impl Geometry {
    /// Lays zones out from the outer edge inwards. The caller has checked that no count is zero, all are
    /// within the limits of a profile, and zones do not overlap.
    #[must_use]
    pub fn new(rules: &Rules, shapes: &[ZoneShape]) -> Self {
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
        Self {
            layout: Layout::Zones(zones),
            cylinders,
            rotation_period: rules.rotation_period.get(),
            sectors,
            remapped,
        }
    }

    /// Lays out the description of a profile. `moves` returns the time from one track to another; for zones
    /// the rules give it. The two functions state what the caller must have checked.
    #[must_use]
    pub fn of(
        rules: &Rules,
        shape: &LayoutShape,
        moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
    ) -> Self {
        match shape {
            LayoutShape::Zones(zones) => Self::new(rules, zones),
            LayoutShape::Tracks(tracks) => Self::of_tracks(rules.rotation_period, tracks, moves),
        }
    }

    /// Lays tracks out in the order of their addresses. `moves` returns the time from one track to another.
    /// The caller has checked that there is a track, no count is zero and all are within the limits of a
    /// profile.
    fn of_tracks(
        rotation_period: Nanos,
        shape: &TracksShape,
        moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
    ) -> Self {
        let tracks = Tracks::new(rotation_period, shape, moves);
        let remapped = |(lba, physical): &(u64, u64)| {
            let (track_address, passes) = tracks.locate_physical(*physical);
            (*lba, track_address, passes)
        };
        Self {
            cylinders: shape.end_cylinder(),
            rotation_period: rotation_period.get(),
            sectors: tracks.sectors(),
            remapped: shape.remaps.iter().map(remapped).collect(),
            layout: Layout::Tracks(Box::new(tracks)),
        }
    }

    /// All sectors of all zones.
    #[must_use]
    pub fn sectors(&self) -> Sectors {
        Sectors(self.sectors)
    }

    /// All cylinders up to the last that holds data.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// One revolution.
    #[must_use]
    pub fn rotation_period(&self) -> Nanos {
        Nanos(self.rotation_period)
    }

    /// The position of a sector.
    #[must_use]
    pub fn track_address(&self, lba: Lba) -> TrackAddress {
        match &self.layout {
            Layout::Zones(zones) => zone_of(zones, lba).track_address(lba),
            Layout::Tracks(tracks) => tracks.locate(lba).0,
        }
    }

    /// The position of a sector and when it begins to pass under its head, in the sequential pass.
    #[must_use]
    pub fn locate(&self, lba: Lba) -> (TrackAddress, Nanos) {
        if let Some((_, track_address, passes)) = self.remap_of(lba) {
            return (*track_address, *passes);
        }
        self.in_place(lba)
    }

    /// The same without remaps.
    fn in_place(&self, lba: Lba) -> (TrackAddress, Nanos) {
        match &self.layout {
            Layout::Zones(zones) => zone_of(zones, lba).locate(self.rotation_period, lba),
            Layout::Tracks(tracks) => tracks.locate(lba),
        }
    }

    /// When a sector begins to pass under its head, in the sequential pass.
    #[must_use]
    pub fn passes_at(&self, lba: Lba) -> Nanos {
        self.in_place(lba).1
    }

    /// When the last sector before `end` has passed under its head, in the sequential pass.
    #[must_use]
    pub fn passed_at(&self, end: Lba) -> Nanos {
        let last = Lba(end.get().saturating_sub(1));
        match &self.layout {
            Layout::Zones(zones) => zone_of(zones, last).passed(self.rotation_period, last),
            Layout::Tracks(tracks) => tracks.passed(last),
        }
    }

    /// The first sector that has not wholly passed at `time` of the sequential pass.
    #[must_use]
    pub fn reached_at(&self, time: Nanos) -> Lba {
        match &self.layout {
            Layout::Zones(zones) => {
                let at = zones.partition_point(|zone| zone.begins() <= time);
                zones[at.saturating_sub(1)].reached(self.rotation_period, time)
            }
            Layout::Tracks(tracks) => tracks.reached(time),
        }
    }

    /// The time that a sector takes to pass.
    #[must_use]
    pub fn sector_time(&self, lba: Lba) -> Nanos {
        Nanos(self.rotation_period / self.sectors_per_track(lba).get())
    }

    /// The sectors of a track at a sector.
    #[must_use]
    pub fn sectors_per_track(&self, lba: Lba) -> Sectors {
        Sectors(match &self.layout {
            Layout::Zones(zones) => zone_of(zones, lba).sectors_per_track(),
            Layout::Tracks(tracks) => tracks.sectors_per_track(lba),
        })
    }

    /// The end of the track of a sector.
    #[must_use]
    pub fn track_end(&self, lba: Lba) -> Lba {
        match &self.layout {
            Layout::Zones(zones) => zone_of(zones, lba).track_end(lba, 1),
            Layout::Tracks(tracks) => tracks.track_end(lba),
        }
    }

    /// The start of the track of a sector.
    #[must_use]
    pub fn track_start(&self, lba: Lba) -> Lba {
        match &self.layout {
            Layout::Zones(zones) => zone_of(zones, lba).track_start(lba),
            Layout::Tracks(tracks) => tracks.track_start(lba),
        }
    }

    /// The end of the cylinder of a sector; in a description by track the end of the track, since the next
    /// may be on any cylinder.
    #[must_use]
    pub fn cylinder_end(&self, lba: Lba) -> Lba {
        match &self.layout {
            Layout::Zones(zones) => {
                let zone = zone_of(zones, lba);
                zone.track_end(lba, zone.heads())
            }
            Layout::Tracks(tracks) => tracks.track_end(lba),
        }
    }

    /// The sustained rate of a sequential pass at a sector: that of its cylinder or pattern of tracks.
    #[must_use]
    pub fn rate_at(&self, lba: Lba) -> Rate {
        let (data, time) = match &self.layout {
            Layout::Zones(zones) => zone_of(zones, lba).cylinder(self.rotation_period),
            Layout::Tracks(tracks) => tracks.repetition_at(lba),
        };
        Rate::bytes_per_second(data * SECTOR_SIZE as f64 / time.as_secs_f64())
    }

    /// The mean over the first `sectors` of the sustained rate, where it is at most `ceiling`.
    #[must_use]
    pub fn mean_rate(&self, sectors: Sectors, ceiling: Rate) -> Rate {
        let parts: Vec<(u64, f64, Nanos)> = match &self.layout {
            Layout::Zones(zones) => {
                let part = |zone: &Zone| {
                    let (data, time) = zone.cylinder(self.rotation_period);
                    (zone.first_lba(), data, time)
                };
                zones.iter().map(part).collect()
            }
            Layout::Tracks(tracks) => tracks.sections().collect(),
        };
        let mut sum = 0.0;
        for (at, (first, data, time)) in parts.iter().enumerate() {
            let end = parts.get(at + 1).map_or(self.sectors, |(next, ..)| *next);
            let within = end.min(sectors.get()).saturating_sub(*first);
            let rate = data * SECTOR_SIZE as f64 / time.as_secs_f64();
            sum += within as f64 * rate.min(ceiling.as_bytes_per_second());
        }
        Rate::bytes_per_second(sum / sectors.get() as f64)
    }

    fn remap_of(&self, lba: Lba) -> Option<&(u64, TrackAddress, Nanos)> {
        if self.remapped.is_empty() {
            return None;
        }
        let at = self.remapped.binary_search_by_key(&lba.get(), |(lba, ..)| *lba).ok()?;
        self.remapped.get(at)
    }
}

fn zone_of(zones: &[Zone], lba: Lba) -> &Zone {
    let after = zones.partition_point(|zone| zone.first_lba() <= lba.get());
    &zones[after.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const ROTATION_PERIOD: u64 = 8_333_333;

    fn shapes() -> impl Strategy<Value = Vec<ZoneShape>> {
        let shape = (1..5u32, 4..40u32)
            .prop_map(|(cylinders, sectors_per_track)| ZoneShape::plain(cylinders, sectors_per_track));
        prop::collection::vec(shape, 1..4)
    }

    /// A geometry, its switch times and a list of its sectors.
    fn geometry() -> impl Strategy<Value = (Geometry, SwitchTimes, Vec<(TrackAddress, u32, u32)>)> {
        (1..4u32, 0..20_000_000u64, 0..20_000_000u64, shapes()).prop_map(|(heads, head, more, shapes)| {
            let switch = SwitchTimes::new(Nanos(head), Nanos(head + more));
            let geometry = Geometry::new(&Rules::plain(heads, Nanos(ROTATION_PERIOD), switch), &shapes);
            (geometry, switch, walk(heads, &shapes))
        })
    }

    /// Sector by sector: zone, cylinder, head, and sector on the track.
    fn walk(heads: u32, shapes: &[ZoneShape]) -> Vec<(TrackAddress, u32, u32)> {
        let (mut all, mut cylinder) = (Vec::new(), 0);
        for shape in shapes {
            for _ in 0..shape.cylinders {
                for head in 0..heads {
                    let track = (0..shape.sectors_per_track)
                        .map(|sector| (TrackAddress { cylinder, head }, sector, shape.sectors_per_track));
                    all.extend(track);
                }
                cylinder += 1;
            }
        }
        all
    }

    proptest! {
        #[test]
        fn sectors_are_where_a_walk_over_the_disk_finds_them((geometry, _, walked) in geometry()) {
            prop_assert_eq!(geometry.sectors(), Sectors(walked.len() as u64));
            let mut seen = HashSet::new();
            for (lba, (track_address, sector, _)) in (0..).zip(&walked) {
                prop_assert_eq!(geometry.track_address(Lba(lba)), *track_address);
                prop_assert!(seen.insert((track_address.cylinder, track_address.head, *sector)));
            }
        }

        /// Sectors of a track follow one another without a pause and fill a revolution; between tracks is the
        /// switch, rounded up to a sector.
        #[test]
        fn the_sequential_pass_loses_the_switches_and_nothing_else((geometry, switch, walked) in geometry()) {
            for (lba, pair) in (0..).map(Lba).zip(walked.windows(2)) {
                let ((from, sector, per_track), (to, ..)) = (pair[0], pair[1]);
                let next = lba + Sectors(1);
                let (begins, ends) = (geometry.passes_at(lba), geometry.passed_at(next));
                let slot = ROTATION_PERIOD / u64::from(per_track);
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
                let even = u64::from(sector) * ROTATION_PERIOD / u64::from(per_track);
                prop_assert!(within.abs_diff(even) <= 1);
            }
        }

        #[test]
        fn the_position_of_the_pass_is_the_inverse_of_its_time((geometry, ..) in geometry(), at in any::<prop::sample::Index>()) {
            let end = Lba(at.index(geometry.sectors as usize) as u64 + 1);
            let passed = geometry.passed_at(end);
            prop_assert_eq!(geometry.reached_at(passed), end);
            prop_assert_eq!(geometry.reached_at(passed - Nanos(1)), end - Sectors(1));
            prop_assert_eq!(geometry.reached_at(geometry.passes_at(end - Sectors(1))), end - Sectors(1));
            prop_assert_eq!(geometry.reached_at(passed + Nanos(1 << 50)), Lba(geometry.sectors));
        }
    }

    /// 2 heads, 10 sectors a track, a revolution of 1 ms, switches of 0.25 and 0.41 ms: three and five
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
    fn a_skew_shorter_than_the_switch_costs_whole_revolutions() {
        let switch = SwitchTimes::new(Nanos(2_100_000), Nanos(2_100_000));
        let shapes = [ZoneShape::plain(1, 10)];
        let geometry = Geometry::new(&Rules::plain(2, Nanos(1_000_000), switch), &shapes);
        assert_eq!(geometry.passes_at(Lba(10)), Nanos(3_100_000));
    }
}
