//! The description of a disk's layout.
//!
//! It is given either as zones, or as the sustained rates of the outer and inner edge, from which equal zones
//! are derived. The rate falls linearly over the cylinders, and there are as many cylinders as the capacity
//! needs. A zone states cylinders and sectors per track; an extracted one its skews, spares and defects as
//! well. [`super::tracks`] reads a description by track.

use super::error::ProfileError;
use super::keys::{Keys, bounds, short};
use super::limits::{
    CYLINDERS_LIMIT, DEFECTS_LIMIT, RATE_MB_PER_S, SECTORS_LIMIT, SECTORS_PER_TRACK_LIMIT, TRACKS_LIMIT,
    ZONES_LIMIT,
};
use super::tracks;
use super::write::Writer;
use crate::geometry::{LayoutShape, Mapping, Rules, Spares, TracksShape, ZoneDetail, ZoneShape};
use foreseek_units::{Bytes, SECTOR_SIZE};

/// The layout of the sectors on tracks.
#[derive(Clone, Debug, PartialEq)]
pub enum LayoutSpec {
    /// Equal zones between two sustained rates.
    Rates {
        /// Their number.
        zones: u64,
        /// At the outer edge.
        outer_rate_mb_per_s: f64,
        /// At the inner edge.
        inner_rate_mb_per_s: f64,
    },
    /// A list of zones.
    Zones(Vec<ZoneShape>),
    /// A description by track.
    Tracks(Box<TracksShape>),
}

/// The names of [`Mapping`] in a profile.
const MAPPINGS: [(&str, Mapping); 3] = [
    ("conventional", Mapping::Conventional),
    ("serpentine-by-zone", Mapping::SerpentineByZone),
    ("serpentine", Mapping::Serpentine),
];

/// The names of [`Spares`] in a profile, except those of a range of cylinders.
const SPARES: [(&str, Spares); 10] = [
    ("none", Spares::None),
    ("tracks", Spares::Tracks),
    ("track-end", Spares::PerTrack),
    ("cylinder-end", Spares::PerCylinder),
    ("cylinder-end-slip-on", Spares::PerCylinderSlipToEnd),
    ("cylinder-front", Spares::CylinderFront),
    ("cylinder-front-slip-on", Spares::CylinderFrontSlipToEnd),
    ("disk-end", Spares::DiskEnd),
    ("zone-end", Spares::PerZone),
    ("zone-end-slip-on", Spares::PerZoneSlipToEnd),
];

/// The name of spares at the end of each range of cylinders.
const RANGE_SPARES: &str = "range-end";

pub(crate) fn read_mapping(keys: &mut Keys<'_>) -> Result<Mapping, ProfileError> {
    let name = keys.text_or("mapping", "conventional")?;
    match MAPPINGS.iter().find(|(known, _)| *known == name) {
        Some((_, mapping)) => Ok(*mapping),
        None => {
            let known = MAPPINGS.map(|(name, _)| format!("'{name}'")).join(", ");
            Err(keys.wrong("mapping", format!("is '{name}', must be one of {known}")))
        }
    }
}

pub(crate) fn read_spares(keys: &mut Keys<'_>) -> Result<Spares, ProfileError> {
    let name = keys.text_or("spares", "none")?;
    if name == RANGE_SPARES {
        return Ok(Spares::PerRange(keys.whole("spare_range_cylinders", bounds(1, CYLINDERS_LIMIT))? as u32));
    }
    match SPARES.iter().find(|(known, _)| *known == name) {
        Some((_, spares)) => Ok(*spares),
        None => {
            let known = SPARES.map(|(name, _)| format!("'{name}'")).join(", ");
            Err(keys.wrong("spares", format!("is '{name}', must be one of {known}, '{RANGE_SPARES}'")))
        }
    }
}

pub(crate) fn write_rules(mapping: Mapping, spares: Spares, to: &mut Writer) {
    if let Some((name, _)) =
        MAPPINGS.iter().find(|(_, known)| *known == mapping && mapping != Mapping::default())
    {
        to.text("mapping", name);
    }
    if let Spares::PerRange(cylinders) = spares {
        to.text("spares", RANGE_SPARES);
        to.whole("spare_range_cylinders", u64::from(cylinders));
    } else if let Some((name, _)) =
        SPARES.iter().find(|(_, known)| *known == spares && spares != Spares::default())
    {
        to.text("spares", name);
    }
}

impl LayoutSpec {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let rates = bounds(RATE_MB_PER_S.0, RATE_MB_PER_S.1);
        if keys.has("tracks") {
            return Ok(Self::Tracks(Box::new(tracks::read(keys.table("tracks")?)?)));
        }
        if !keys.has("zone") {
            let zones = keys.whole("zones", bounds(1, ZONES_LIMIT as u64))?;
            let outer_rate_mb_per_s = keys.number("outer_rate_mb_per_s", rates)?;
            let inner_rate_mb_per_s = keys.number("inner_rate_mb_per_s", rates)?;
            if inner_rate_mb_per_s > outer_rate_mb_per_s {
                let (inner, outer) = (short(inner_rate_mb_per_s), short(outer_rate_mb_per_s));
                let reason = format!("is {inner}, must not be above outer_rate_mb_per_s, which is {outer}");
                return Err(keys.wrong("inner_rate_mb_per_s", reason));
            }
            return Ok(Self::Rates { zones, outer_rate_mb_per_s, inner_rate_mb_per_s });
        }
        let mut shapes: Vec<ZoneShape> = Vec::new();
        let mut next = 0;
        for zone in keys.tables("zone", bounds(1, ZONES_LIMIT))? {
            let shape = read_zone(zone, next)?;
            next = u64::from(shape.first_cylinder(next as u32)) + u64::from(shape.cylinders);
            shapes.push(shape);
        }
        Ok(Self::Zones(shapes))
    }

    pub(crate) fn write_rates(&self, to: &mut Writer) {
        if let Self::Rates { zones, outer_rate_mb_per_s, inner_rate_mb_per_s } = *self {
            to.whole("zones", zones);
            to.number("outer_rate_mb_per_s", outer_rate_mb_per_s);
            to.number("inner_rate_mb_per_s", inner_rate_mb_per_s);
        }
    }

    pub(crate) fn write_zones(&self, to: &mut Writer) {
        if let Self::Tracks(shape) = self {
            tracks::write(shape, to);
        }
        let Self::Zones(shapes) = self else { return };
        for shape in shapes {
            to.list_item("zone");
            to.whole("cylinders", u64::from(shape.cylinders));
            to.whole("sectors_per_track", u64::from(shape.sectors_per_track));
            if let Some(detail) = &shape.detail {
                write_detail(detail, to);
            }
            to.end_table();
        }
    }
}

fn read_zone(mut zone: Keys<'_>, next: u64) -> Result<ZoneShape, ProfileError> {
    let cylinders = zone.whole("cylinders", bounds(1, CYLINDERS_LIMIT))?;
    let track = zone.whole("sectors_per_track", bounds(4, SECTORS_PER_TRACK_LIMIT))?;
    let mut shape = ZoneShape::plain(cylinders as u32, track as u32);
    let extracted = [
        "first_cylinder",
        "track_skew_sectors",
        "cylinder_skew_sectors",
        "offset_sectors",
        "front_sectors",
        "spares",
        "slips",
        "remaps",
    ];
    if extracted.iter().any(|key| zone.has(key)) {
        let sectors = bounds(0, SECTORS_LIMIT);
        // A skew of more than a revolution equals one that is a revolution shorter.
        let skew = bounds(0.0, track as f64);
        let first = zone.whole_if("first_cylinder", bounds(0, CYLINDERS_LIMIT))?.unwrap_or(next);
        if first < next {
            let reason = format!("is {first}, but the zone before goes up to cylinder {}", next - 1);
            return Err(zone.wrong("first_cylinder", reason));
        }
        let mut detail = ZoneDetail {
            first_cylinder: first as u32,
            track_skew: zone.number("track_skew_sectors", skew)?,
            cylinder_skew: zone.number("cylinder_skew_sectors", skew)?,
            offset: zone.number_if("offset_sectors", skew)?.unwrap_or(0.0),
            front: zone.whole_if("front_sectors", sectors)?.unwrap_or(0),
            spares: zone.whole_if("spares", sectors)?.unwrap_or(0),
            ..ZoneDetail::default()
        };
        if zone.has("slips") {
            detail.slips = zone.wholes("slips", bounds(0, DEFECTS_LIMIT), sectors)?;
            if !detail.slips.is_sorted_by(|one, next| one < next) {
                return Err(zone.wrong("slips", "must ascend, each greater than the one before"));
            }
        }
        if zone.has("remaps") {
            let remaps = zone.wholes("remaps", bounds(0, 2 * DEFECTS_LIMIT), sectors)?;
            if remaps.len() % 2 == 1 {
                return Err(zone.wrong("remaps", "must hold pairs: from, to, from, to"));
            }
            detail.remaps = remaps.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        }
        shape.detail = Some(detail);
    }
    zone.finish()?;
    Ok(shape)
}

fn write_detail(detail: &ZoneDetail, to: &mut Writer) {
    to.whole("first_cylinder", u64::from(detail.first_cylinder));
    to.number("track_skew_sectors", detail.track_skew);
    to.number("cylinder_skew_sectors", detail.cylinder_skew);
    to.number("offset_sectors", detail.offset);
    to.whole("front_sectors", detail.front);
    to.whole("spares", detail.spares);
    if !detail.slips.is_empty() {
        to.wholes("slips", &detail.slips);
    }
    if !detail.remaps.is_empty() {
        let flat: Vec<u64> = detail.remaps.iter().flat_map(|(from, to)| [*from, *to]).collect();
        to.wholes("remaps", &flat);
    }
}

impl LayoutSpec {
    /// The zones, as stated or derived for a capacity, or the tracks.
    pub(crate) fn shapes(
        &self,
        rules: &Rules,
        capacity: Bytes,
        keys: &Keys<'_>,
    ) -> Result<LayoutShape, ProfileError> {
        let shapes = match self {
            Self::Tracks(shape) => {
                tracks::check(shape, rules.heads, keys)?;
                return Ok(LayoutShape::Tracks((**shape).clone()));
            }
            Self::Zones(shapes) => shapes.clone(),
            Self::Rates { zones, outer_rate_mb_per_s, inner_rate_mb_per_s } => {
                let rates = (*outer_rate_mb_per_s, *inner_rate_mb_per_s);
                equal_zones(*zones, rates, rules, capacity, keys)?
            }
        };
        let end = |next: u64, shape: &ZoneShape| {
            shape.detail.as_ref().map_or(next, |detail| u64::from(detail.first_cylinder))
                + u64::from(shape.cylinders)
        };
        let cylinders = shapes.iter().fold(0, end);
        let tracks = cylinders * u64::from(rules.heads);
        if cylinders > CYLINDERS_LIMIT || tracks > TRACKS_LIMIT {
            let reason = format!(
                "need {cylinders} cylinders, {tracks} tracks; there may be {CYLINDERS_LIMIT} and {TRACKS_LIMIT}"
            );
            return Err(keys.wrong("heads", format!("with this capacity and layout the disk would {reason}")));
        }
        let sectors: u64 = shapes.iter().map(|shape| shape.physical(rules.heads)).sum();
        if sectors > SECTORS_LIMIT {
            let reason = format!("hold {sectors} sectors together, there may be {SECTORS_LIMIT}");
            return Err(keys.wrong("zone", reason));
        }
        for shape in &shapes {
            check_places(shape, rules, keys)?;
        }
        Ok(LayoutShape::Zones(shapes))
    }
}

/// Refuses defects beyond their zone, and spares that leave no room for data.
fn check_places(shape: &ZoneShape, rules: &Rules, keys: &Keys<'_>) -> Result<(), ProfileError> {
    let Some(detail) = &shape.detail else { return Ok(()) };
    let first = detail.first_cylinder;
    let wrong =
        |key: &str, what: String| Err(keys.wrong("zone", format!("from cylinder {first} on: {key}: {what}")));
    let physical = shape.physical(rules.heads);
    let (places, key) = match rules.spares {
        Spares::Tracks => (physical / u64::from(shape.sectors_per_track), "tracks"),
        _ => (physical, "sectors"),
    };
    let remapped = detail.remaps.iter().flat_map(|(from, to)| [from, to]);
    if let Some(place) = detail.slips.iter().chain(remapped).find(|place| **place >= places) {
        return wrong("slips or remaps", format!("{place} is not in the zone, which has {places} {key}"));
    }
    let track = u64::from(shape.sectors_per_track);
    let unit = match rules.spares {
        Spares::None | Spares::DiskEnd => return Ok(()),
        Spares::PerTrack => track,
        Spares::Tracks => places,
        Spares::PerCylinder
        | Spares::PerCylinderSlipToEnd
        | Spares::CylinderFront
        | Spares::CylinderFrontSlipToEnd => track * u64::from(rules.heads),
        Spares::PerRange(cylinders) => (track * u64::from(rules.heads) * u64::from(cylinders)).min(physical),
        Spares::PerZone | Spares::PerZoneSlipToEnd => physical,
    };
    if detail.spares >= unit {
        return wrong(
            "spares",
            format!("{} are all of the {unit} {key} among which they lie", detail.spares),
        );
    }
    if detail.front >= physical {
        return wrong("front_sectors", format!("is {}, the zone has {physical}", detail.front));
    }
    Ok(())
}

/// Equal zones between two rates.
fn equal_zones(
    zones: u64,
    (outer, inner): (f64, f64),
    rules: &Rules,
    capacity: Bytes,
    keys: &Keys<'_>,
) -> Result<Vec<ZoneShape>, ProfileError> {
    let (rotation_period, switch) = (rules.rotation_period, rules.switch);
    let heads = f64::from(rules.heads);
    let between_tracks = (switch.head.as_secs_f64() * (heads - 1.0) + switch.cylinder.as_secs_f64()) / heads;
    let per_track =
        |rate: f64| rate * 1e6 * (rotation_period.as_secs_f64() + between_tracks) / SECTOR_SIZE as f64;
    let mut sectors_per_track = Vec::with_capacity(zones as usize);
    for zone in 0..zones {
        let share = if zones > 1 { zone as f64 / (zones - 1) as f64 } else { 0.5 };
        let sectors = per_track(outer + (inner - outer) * share).round();
        if !(4.0..=SECTORS_PER_TRACK_LIMIT as f64).contains(&sectors) {
            let reason = format!(
                "a track would hold {} sectors, must be from 4 to {SECTORS_PER_TRACK_LIMIT}",
                short(sectors)
            );
            let key = if zone == 0 { "outer_rate_mb_per_s" } else { "inner_rate_mb_per_s" };
            return Err(keys.wrong(key, reason));
        }
        sectors_per_track.push(sectors as u64);
    }
    let sectors = capacity.sectors_ceil().get();
    let row: u64 = sectors_per_track.iter().sum::<u64>() * u64::from(rules.heads);
    let each = sectors / row;
    let mut rest = sectors % row;
    let shape = |sectors_per_track: u64| {
        // The rest after whole zones is spread from the outside in, a cylinder each.
        let one_more = rest > 0;
        rest = rest.saturating_sub(sectors_per_track * u64::from(rules.heads));
        let cylinders = u32::try_from(each + u64::from(one_more)).unwrap_or(u32::MAX);
        ZoneShape::plain(cylinders, sectors_per_track as u32)
    };
    let shapes = sectors_per_track.into_iter().map(shape);
    Ok(shapes.filter(|shape| shape.cylinders > 0).collect())
}
