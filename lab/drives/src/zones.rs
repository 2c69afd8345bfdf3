//! The layout of a drive: the zones of a `dm_layout_g1` block, or each track as other kinds describe it.

use super::block::{Reader, Value};
use super::error::ExtractedError;
use super::links::Links;
use super::skew::in_revolutions;
use super::{map, tree};
use foreseek_device::geometry::{Mapping, Spares, TracksShape, ZoneDetail, ZoneShape};
use foreseek_device::spec::LayoutSpec;
use foreseek_device::spec::limits::{CYLINDERS_LIMIT, DEFECTS_LIMIT, SECTORS_PER_TRACK_LIMIT, ZONES_LIMIT};

/// Most sectors of a zone that a number in a file may name.
const PLACES_LIMIT: u64 = 1 << 40;
/// Largest skew or offset: some revolutions, in sectors.
const SKEW_LIMIT: f64 = (SECTORS_PER_TRACK_LIMIT * 8) as f64;

/// A layout.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) mapping: Mapping,
    pub(super) spares: Spares,
    pub(super) spec: LayoutSpec,
}

impl Layout {
    /// Reads a layout of any kind, with the files that it names in `links`; what could not be used is noted. Of
    /// a tree only the addresses below `blocks` are needed.
    pub(super) fn read(
        reader: Reader<'_>,
        heads: u32,
        blocks: Option<u64>,
        links: &mut Links<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Self, ExtractedError> {
        let kind = reader.block.kind.as_str();
        match kind.to_ascii_lowercase().as_str() {
            "dm_layout_g1" => Self::zones(reader, heads),
            "dm_layout_g2" => map::read(reader, links).map(Self::tracks),
            "dm_layout_g4" => tree::read(reader, blocks, notes).map(Self::tracks),
            _ => {
                let known = "dm_layout_g1, dm_layout_g2 and dm_layout_g4 are";
                Err(reader.wrong(kind, format!("is not a known layout: {known}")))
            }
        }
    }

    fn tracks(shape: TracksShape) -> Self {
        let spec = LayoutSpec::Tracks(Box::new(shape));
        Self { mapping: Mapping::default(), spares: Spares::default(), spec }
    }

    /// The cylinder after its last.
    pub(super) fn end_cylinder(&self) -> u32 {
        match &self.spec {
            LayoutSpec::Zones(zones) => {
                zones.last().map_or(0, |zone| zone.first_cylinder(0) + zone.cylinders)
            }
            LayoutSpec::Tracks(tracks) => tracks.end_cylinder(),
            LayoutSpec::Rates { .. } => 0,
        }
    }

    /// The sectors of its outermost tracks.
    pub(super) fn outer_track(&self) -> u64 {
        u64::from(match &self.spec {
            LayoutSpec::Zones(zones) => zones.first().map_or(0, |zone| zone.sectors_per_track),
            LayoutSpec::Tracks(tracks) => {
                let first = tracks.sections.first().and_then(|section| tracks.patterns.get(section.pattern));
                first.and_then(|pattern| pattern.first()).map_or(0, |run| run.sectors_per_track)
            }
            LayoutSpec::Rates { .. } => 0,
        })
    }

    fn zones(reader: Reader<'_>, heads: u32) -> Result<Self, ExtractedError> {
        let mapping = match reader.whole_if("LBN-to-PBN mapping scheme", 2)? {
            None | Some(0) => Mapping::Conventional,
            Some(1) => Mapping::SerpentineByZone,
            Some(_) => Mapping::Serpentine,
        };
        let range = reader.whole_if("Rangesize for sparing", CYLINDERS_LIMIT)?.unwrap_or(1).max(1) as u32;
        let spares = spares(reader.whole_if("Sparing scheme used", 10)?.unwrap_or(0), range);
        let revolutions = in_revolutions(reader, false)?;
        let nodes = reader.list_if("Zones", ZONES_LIMIT)?;
        if nodes.is_empty() {
            return Err(reader.wrong("Zones", "holds no zone"));
        }
        let mut zones: Vec<ZoneShape> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Value::Block(block) = &node.value else {
                return Err(reader.wrong_at(
                    node.line,
                    "Zones",
                    "must hold blocks: dm_layout_g1_zone { ... }",
                ));
            };
            let zone = Reader { file: reader.file, block };
            let next = zones.last().map_or(0, |last| last.first_cylinder(0) + last.cylinders);
            zones.push(read_zone(zone, next, heads, spares, revolutions)?);
        }
        Ok(Self { mapping, spares, spec: LayoutSpec::Zones(zones) })
    }
}

fn spares(scheme: u64, range: u32) -> Spares {
    match scheme {
        1 => Spares::Tracks,
        2 => Spares::PerCylinder,
        3 => Spares::PerTrack,
        4 => Spares::PerCylinderSlipToEnd,
        5 => Spares::CylinderFront,
        6 => Spares::CylinderFrontSlipToEnd,
        7 => Spares::DiskEnd,
        8 => Spares::PerRange(range),
        9 => Spares::PerZone,
        10 => Spares::PerZoneSlipToEnd,
        _ => Spares::None,
    }
}

fn read_zone(
    zone: Reader<'_>,
    next: u32,
    heads: u32,
    spares: Spares,
    revolutions: bool,
) -> Result<ZoneShape, ExtractedError> {
    let first = zone.whole("First cylinder number", CYLINDERS_LIMIT)? as u32;
    let last = zone.whole("Last cylinder number", CYLINDERS_LIMIT)? as u32;
    if first < next {
        let reason = format!("is {first}, but the zone before goes up to cylinder {}", next - 1);
        return Err(zone.wrong("First cylinder number", reason));
    }
    if last < first {
        let reason = format!("is {last}, which is before the zone's first, {first}");
        return Err(zone.wrong("Last cylinder number", reason));
    }
    let track = zone.whole("Blocks per track", SECTORS_PER_TRACK_LIMIT)?;
    if track < 4 {
        return Err(zone.wrong("Blocks per track", format!("is {track}, must be at least 4")));
    }
    let revolutions = in_revolutions(zone, revolutions)?;
    // Whole sectors count, as in the tools that write such files.
    let angle = |key: &str| -> Result<f64, ExtractedError> {
        let given = zone.number_if(key, -SKEW_LIMIT..=SKEW_LIMIT)?.unwrap_or(0.0);
        let sectors = if revolutions { given * track as f64 } else { given.trunc() };
        Ok(sectors.rem_euclid(track as f64))
    };
    let physical = u64::from(last - first + 1) * u64::from(heads) * track;
    let places = if spares == Spares::Tracks { physical / track } else { physical };
    let defects = |key: &str, length: usize| -> Result<Vec<u64>, ExtractedError> {
        let found = zone.wholes_if(key, length, PLACES_LIMIT)?;
        match found.iter().find(|place| **place >= places) {
            None => Ok(found),
            Some(place) => {
                let reason = format!("{place} is not in the zone, which has {places} places, counted from 0");
                Err(zone.wrong(key, reason))
            }
        }
    };
    let mut slips = defects("slips", DEFECTS_LIMIT)?;
    slips.sort_unstable();
    slips.dedup();
    let pairs = defects("defects", 2 * DEFECTS_LIMIT)?;
    if pairs.len() % 2 == 1 {
        return Err(zone.wrong("defects", "must hold pairs: the defect, where its data are"));
    }
    let mut remaps = remaps(&pairs, spares, track);
    remaps.sort_unstable();
    Ok(ZoneShape {
        cylinders: last - first + 1,
        sectors_per_track: track as u32,
        detail: Some(ZoneDetail {
            first_cylinder: first,
            track_skew: angle("Skew for track switch")?,
            cylinder_skew: angle("Skew for cylinder switch")?,
            offset: angle("Offset of first block")?,
            front: zone.whole_if("Empty space at zone front", physical - 1)?.unwrap_or(0),
            spares: zone.whole_if("Number of spares", places - 1)?.unwrap_or(0),
            slips,
            remaps,
        }),
    })
}

/// Pairs of places as pairs of sectors.
fn remaps(pairs: &[u64], spares: Spares, track: u64) -> Vec<(u64, u64)> {
    let pairs = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    if spares != Spares::Tracks {
        return pairs.collect();
    }
    pairs
        .flat_map(|(from, to)| (0..track).map(move |sector| (from * track + sector, to * track + sector)))
        .collect()
}
