//! The distribution of data sectors over the physical sectors of a zone, skipping unused, spare and slipped
//! sectors.
//!
//! A zone is divided into *units*, over which spares are counted: a track, a cylinder, a range of cylinders
//! or the zone itself. A slipped sector may use up a spare of its unit: the next unit then begins at its
//! usual position. Otherwise it displaces all data behind it to the end of the zone. Both directions of the
//! mapping are closed forms with a binary search among the slips.
//!
//! Source: the layout model of the DiskSim 4.0 disk parameter files (`dm_layout_g1`), by its manual. Limits:
//! if one unit has more slips than spares, all slips of its zone displace to the end; slips do not change the
//! angles of the tracks behind them.

use super::shape::{Rules, Spares, ZoneDetail, ZoneShape};

/// The mapping of one zone.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// Physical sectors of a unit.
    unit: u64,
    /// Data sectors of a unit, including unused ones at the zone's front.
    data: u64,
    /// Whether the zone is one unit, so that all slips belong to it.
    single: bool,
    /// Spares before a unit's data.
    before: u64,
    /// Unused data sectors at the zone's front.
    front: u64,
    /// Slipped sectors, ascending: physical, or with `to_end` counted among data sectors.
    slips: Vec<u64>,
    /// Whether slips displace what follows, instead of using up spares.
    to_end: bool,
    /// Data sectors of the zone that the host sees.
    held: u64,
}

impl Spread {
    /// The mapping of a zone; `None` if all of its sectors have data in order.
    pub(super) fn new(rules: &Rules, shape: &ZoneShape) -> Option<Self> {
        let detail = shape.detail.as_ref()?;
        if detail.front == 0 && detail.spares == 0 && detail.slips.is_empty() {
            return None;
        }
        let physical = shape.physical(rules.heads);
        let track = u64::from(shape.sectors_per_track);
        let cylinder = track * u64::from(rules.heads);
        let unit = match rules.spares {
            Spares::PerTrack => track,
            Spares::PerCylinder
            | Spares::PerCylinderSlipToEnd
            | Spares::CylinderFront
            | Spares::CylinderFrontSlipToEnd => cylinder,
            Spares::PerRange(cylinders) => (cylinder * u64::from(cylinders)).min(physical),
            Spares::None | Spares::Tracks | Spares::DiskEnd | Spares::PerZone | Spares::PerZoneSlipToEnd => {
                physical
            }
        };
        let spares = match rules.spares {
            Spares::None | Spares::DiskEnd => 0,
            Spares::Tracks => detail.spares * track,
            _ => detail.spares,
        };
        let slips = slipped(rules.spares, detail, track, physical);
        let crowded = crowded(&slips, unit, spares);
        let to_end = crowded
            || matches!(
                rules.spares,
                Spares::None
                    | Spares::DiskEnd
                    | Spares::PerCylinderSlipToEnd
                    | Spares::CylinderFrontSlipToEnd
                    | Spares::PerZoneSlipToEnd
            );
        let at_front = matches!(rules.spares, Spares::CylinderFront | Spares::CylinderFrontSlipToEnd);
        let data = unit.saturating_sub(spares).max(1);
        let mut spread = Self {
            unit,
            single: unit >= physical,
            data,
            before: if at_front { unit - data } else { 0 },
            front: detail.front,
            slips,
            to_end,
            held: 0,
        };
        if to_end {
            spread.slips = spread.slips.iter().filter_map(|slip| spread.among_data(*slip)).collect();
        }
        // An incomplete last unit has no spares: its slips reduce the data.
        let whole = physical / unit;
        let mut held = whole * data + physical % unit;
        let displacing = if to_end { 0 } else { whole * unit };
        let slips = spread.slips.iter().filter(|slip| **slip >= displacing).count() as u64;
        held = held.saturating_sub(slips);
        spread.held = held.saturating_sub(detail.front);
        Some(spread)
    }

    /// The data sectors that the host sees.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// The physical sector of a data sector.
    pub(super) fn physical(&self, within: u64) -> u64 {
        let wanted = within + self.front;
        if self.to_end {
            let index = wanted + self.skipped(0, self.slips.len(), 0, wanted);
            return index / self.data * self.unit + self.before + index % self.data;
        }
        let (start, rest) = (wanted / self.data * self.unit, wanted % self.data);
        let (begin, first, last) = self.begin_of(start);
        begin + rest + self.skipped(first, last, begin, rest)
    }

    /// The number of data sectors before a physical sector.
    pub(super) fn logical(&self, physical: u64) -> u64 {
        let (start, rest) = (physical / self.unit * self.unit, physical % self.unit);
        let units = start / self.unit * self.data;
        let index = if self.to_end {
            let index = units + rest.saturating_sub(self.before).min(self.data);
            index - self.slips.partition_point(|slip| *slip < index) as u64
        } else {
            let (begin, first, last) = self.begin_of(start);
            let passed = physical.saturating_sub(begin);
            let slipped = self.slips[first..last].partition_point(|slip| *slip < physical) as u64;
            units + passed.saturating_sub(slipped).min(self.data)
        };
        index.saturating_sub(self.front).min(self.held)
    }

    /// The start of the data of the unit that begins at a physical sector, and the slips from there to its
    /// end. With spares at the front, slips let the data begin earlier.
    fn begin_of(&self, start: u64) -> (u64, usize, usize) {
        if self.single && self.before == 0 {
            return (start, 0, self.slips.len());
        }
        let mut first = self.slips.partition_point(|slip| *slip < start);
        let last = first + self.slips[first..].partition_point(|slip| *slip < start + self.unit);
        if self.before == 0 {
            return (start, first, last);
        }
        let of_unit = first;
        let mut begin = start + self.before;
        loop {
            first = of_unit + self.slips[of_unit..last].partition_point(|slip| *slip < begin);
            let earlier = (start + self.before).saturating_sub((last - first) as u64).max(start);
            if earlier == begin {
                return (begin, first, last);
            }
            begin = earlier;
        }
    }

    /// The number of some slips before the data sector that is `wanted` sectors behind `start`, not counting
    /// the slips themselves.
    fn skipped(&self, first: usize, last: usize, start: u64, wanted: u64) -> u64 {
        let slips = &self.slips[first..last];
        let (mut low, mut high) = (0, slips.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            // Data sectors between the start and this slip.
            if slips[middle].saturating_sub(start) <= wanted + middle as u64 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as u64
    }

    /// A physical sector counted among data sectors; `None` for a spare.
    fn among_data(&self, physical: u64) -> Option<u64> {
        let rest = (physical % self.unit).checked_sub(self.before)?;
        (rest < self.data).then(|| physical / self.unit * self.data + rest)
    }
}

/// The slipped sectors, ascending.
fn slipped(spares: Spares, detail: &ZoneDetail, track: u64, physical: u64) -> Vec<u64> {
    let mut slips: Vec<u64> = match spares {
        Spares::Tracks => detail.slips.iter().flat_map(|slip| slip * track..(slip + 1) * track).collect(),
        _ => detail.slips.clone(),
    };
    slips.sort_unstable();
    slips.dedup();
    slips.retain(|slip| *slip < physical);
    slips
}

/// Whether a unit has more slips than spares.
fn crowded(slips: &[u64], unit: u64, spares: u64) -> bool {
    slips.chunk_by(|one, next| one / unit == next / unit).any(|of_unit| of_unit.len() as u64 > spares)
}

#[cfg(test)]
mod tests {
    use super::super::shape::SwitchTimes;
    use super::*;
    use foreseek_units::Nanos;
    use proptest::prelude::*;

    const ALL: [Spares; 11] = [
        Spares::None,
        Spares::Tracks,
        Spares::PerTrack,
        Spares::PerCylinder,
        Spares::PerCylinderSlipToEnd,
        Spares::CylinderFront,
        Spares::CylinderFrontSlipToEnd,
        Spares::DiskEnd,
        Spares::PerRange(2),
        Spares::PerZone,
        Spares::PerZoneSlipToEnd,
    ];

    fn rules(heads: u32, spares: Spares) -> Rules {
        let switch = SwitchTimes::new(Nanos(1), Nanos(1));
        Rules { spares, ..Rules::plain(heads, Nanos(1_000_000), switch) }
    }

    /// The physical sectors with data, found by walking over the zone unit by unit.
    fn walk(spread: &Spread, physical: u64) -> Vec<u64> {
        let mut data = Vec::new();
        for start in (0..physical).step_by(spread.unit as usize) {
            let end = (start + spread.unit).min(physical);
            let whole = end - start == spread.unit;
            let mut room = if whole { spread.data } else { end - start };
            let slips =
                |from: u64| spread.slips.iter().filter(|slip| (from..end).contains(slip)).count() as u64;
            let mut begin = start + spread.before;
            while !spread.to_end && end - begin - slips(begin) < room && begin > start {
                begin -= 1;
            }
            for place in begin..end {
                let counted = if spread.to_end { spread.among_data(place) } else { Some(place) };
                let slipped = counted.is_none_or(|place| spread.slips.contains(&place));
                if room > 0 && (spread.to_end || !slipped) {
                    room -= 1;
                    if !slipped {
                        data.push(place);
                    }
                }
            }
        }
        data.drain(..(spread.front as usize).min(data.len()));
        data
    }

    proptest! {
        #[test]
        fn both_directions_agree_with_a_walk_over_the_zone(
            spares in prop::sample::select(&ALL[..]),
            (heads, cylinders, track) in (1..4u32, 1..7u32, 6..12u32),
            (front, count) in (0..9u64, 0..3u64),
            slips in prop::collection::btree_set(0..200u64, 0..12),
        ) {
            let slips = slips.into_iter().collect();
            let detail = ZoneDetail { front, spares: count, slips, ..ZoneDetail::default() };
            let shape = ZoneShape { cylinders, sectors_per_track: track, detail: Some(detail) };
            let physical = shape.physical(heads);
            let Some(spread) = Spread::new(&rules(heads, spares), &shape) else { return Ok(()) };
            let walked = walk(&spread, physical);
            prop_assert!(spread.held() <= walked.len() as u64, "{} of {}", spread.held(), walked.len());
            for (within, place) in (0..spread.held()).zip(&walked) {
                prop_assert_eq!(spread.physical(within), *place, "sector {} of {:?}", within, spread);
                prop_assert_eq!(spread.logical(*place), within);
                prop_assert_eq!(spread.logical(*place + 1), within + 1);
            }
        }
    }

    #[test]
    fn spares_of_a_zone_take_up_its_slips() {
        let detail = ZoneDetail { spares: 3, slips: vec![2, 3], ..ZoneDetail::default() };
        let shape = ZoneShape { cylinders: 2, sectors_per_track: 10, detail: Some(detail) };
        let spread = Spread::new(&rules(1, Spares::PerZone), &shape).expect("there are slips");
        assert_eq!(spread.held(), 17);
        assert_eq!([0, 1, 2, 16].map(|within| spread.physical(within)), [0, 1, 4, 18]);
    }
}
