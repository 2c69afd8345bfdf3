//! A layout as a list of extents: a `dm_layout_g2` block.
//!
//! The block names a file that lists where runs of addresses lie, as extraction tools find them by
//! asking the drive, and gives the zones' sectors per track and skews:
//!
//! ```text
//! (two lines of any text)
//! 8057 cylinders, 10000 rot, 10 heads
//! lbn 0 --> cyl 0, head 0, sect 0, seqcnt 255
//! lbn 256 --> cyl 0, head 1, sect 0, seqcnt 255
//! Defect at cyl 7, head 2, sect 30
//! ```
//!
//! `seqcnt` counts the addresses that follow the first; another word counts all of them. Along the list each
//! change of head rotates the tracks by the zone's track skew, each change of cylinder by its cylinder skew; a
//! zone begins at its own.
//!
//! Source: diskmodel of the DiskSim 4.0 distribution (`layout_g2.c`, `layout_g2_load.c`). There a zone's own
//! skew applies to the first cylinder alone; here it rotates the whole zone.

use super::block::{Reader, Value};
use super::error::ExtractedError;
use super::links::Links;
use super::skew::in_revolutions;
use foreseek_device::geometry::{RunShape, SectionShape, TracksShape};
use foreseek_device::spec::limits::{
    CYLINDERS_LIMIT, HEADS_LIMIT, RUNS_LIMIT, SECTIONS_LIMIT, SECTORS_PER_TRACK_LIMIT, ZONES_LIMIT,
};
use std::collections::BTreeMap;

/// Largest address that a number in a file may name.
const PLACES_LIMIT: u64 = 1 << 42;
/// Longest list of extents: twice what a drive of the format's time has.
const TEXT_LIMIT: usize = 32 << 20;
/// Largest skew in revolutions or sectors.
const SKEW_LIMIT: f64 = (SECTORS_PER_TRACK_LIMIT * 8) as f64;

/// A zone; skews in revolutions.
struct Zone {
    first: u64,
    last: u64,
    sectors_per_track: u64,
    begins: f64,
    track_skew: f64,
    cylinder_skew: f64,
}

/// Addresses on one track.
#[derive(Clone, Copy)]
struct Extent {
    line: usize,
    lba: u64,
    cylinder: u64,
    head: u64,
    sector: u64,
    sectors: u64,
}

pub(super) fn read(reader: Reader<'_>, links: &mut Links<'_>) -> Result<TracksShape, ExtractedError> {
    let zones = read_zones(reader)?;
    let Some(name) = reader.text_if("Layout Map File")? else {
        return Err(reader.wrong("Layout Map File", "is missing: it names the list of extents"));
    };
    let text = links.text(reader, "Layout Map File", name)?;
    let extents = read_extents(name, &text)?;
    lay_out(name, &zones, &extents)
}

fn read_zones(reader: Reader<'_>) -> Result<Vec<Zone>, ExtractedError> {
    let nodes = reader.list_if("Zones", ZONES_LIMIT)?;
    if nodes.is_empty() {
        return Err(reader.wrong("Zones", "holds no zone"));
    }
    let revolutions = in_revolutions(reader, false)?;
    let zone = |node: &super::block::Node| {
        let Value::Block(block) = &node.value else {
            return Err(reader.wrong_at(node.line, "Zones", "must hold blocks: dm_layout_g2_zone { ... }"));
        };
        let zone = Reader { file: reader.file, block };
        let track = zone.whole("Blocks per track", SECTORS_PER_TRACK_LIMIT)?;
        if track < 4 {
            return Err(zone.wrong("Blocks per track", format!("is {track}, must be at least 4")));
        }
        let revolutions = in_revolutions(zone, revolutions)?;
        let revolutions = |key: &str| -> Result<f64, ExtractedError> {
            let given = zone.number_if(key, -SKEW_LIMIT..=SKEW_LIMIT)?.unwrap_or(0.0);
            Ok(if revolutions { given } else { given.trunc() / track as f64 })
        };
        Ok(Zone {
            first: zone.whole("First cylinder number", CYLINDERS_LIMIT)?,
            last: zone.whole("Last cylinder number", CYLINDERS_LIMIT)?,
            sectors_per_track: track,
            begins: revolutions("Zone skew")?,
            track_skew: revolutions("Skew for track switch")?,
            cylinder_skew: revolutions("Skew for cylinder switch")?,
        })
    };
    nodes.iter().map(zone).collect()
}

fn read_extents(file: &str, text: &str) -> Result<Vec<Extent>, ExtractedError> {
    let wrong = |line: usize, reason: String| ExtractedError::Syntax { file: file.to_owned(), line, reason };
    if text.len() > TEXT_LIMIT {
        let reason = format!("the text has {} bytes, a list of extents has at most {TEXT_LIMIT}", text.len());
        return Err(wrong(1, reason));
    }
    let mut extents: Vec<Extent> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let fields: Vec<&str> =
            line.split([',', ' ', '\t']).map(str::trim).filter(|field| !field.is_empty()).collect();
        // Headings come before the list, defects and remarks behind it.
        if fields.first().is_none_or(|field| !field.eq_ignore_ascii_case("lbn")) {
            continue;
        }
        let extent = read_extent(&fields, number).ok_or_else(|| {
            let example = "lbn 256 --> cyl 0, head 1, sect 0, seqcnt 255";
            wrong(number, format!("is not an extent, such as: {example}"))
        })?;
        let next = extents.last().map_or(0, |last| last.lba + last.sectors);
        if extent.lba != next {
            let reason = format!("begins at lbn {}, but the one before ends at {next}", extent.lba);
            return Err(wrong(number, reason));
        }
        if extents.len() == RUNS_LIMIT {
            return Err(wrong(number, format!("there may be {RUNS_LIMIT} extents")));
        }
        extents.push(extent);
    }
    if extents.is_empty() {
        return Err(wrong(1, "holds no extent: lbn 0 --> cyl 0, head 0, sect 0, seqcnt 255".to_owned()));
    }
    Ok(extents)
}

fn read_extent(fields: &[&str], line: usize) -> Option<Extent> {
    let [_, lba, arrow, _, cylinder, _, head, _, sector, word, count] = fields else { return None };
    let number = |text: &str, most: u64| text.parse::<u64>().ok().filter(|number| *number <= most);
    let count = number(count, SECTORS_PER_TRACK_LIMIT)?;
    let sectors = if *word == "seqcnt" { count + 1 } else { count };
    (*arrow == "-->" && sectors > 0).then_some(Extent {
        line,
        lba: number(lba, PLACES_LIMIT)?,
        cylinder: number(cylinder, CYLINDERS_LIMIT)?,
        head: number(head, HEADS_LIMIT - 1)?,
        sector: number(sector, SECTORS_PER_TRACK_LIMIT)?,
        sectors,
    })
}

/// Extents of a cylinder become a pattern; equal patterns that follow one another become a section.
fn lay_out(file: &str, zones: &[Zone], extents: &[Extent]) -> Result<TracksShape, ExtractedError> {
    let wrong = |line: usize, reason: String| ExtractedError::Syntax { file: file.to_owned(), line, reason };
    let mut shape = TracksShape::default();
    let mut known: BTreeMap<Vec<[u64; 4]>, usize> = BTreeMap::new();
    let mut angle = 0.0;
    let mut zone_before = None;
    for cylinder in extents.chunk_by(|one, next| one.cylinder == next.cylinder) {
        let Some(first) = cylinder.first() else { continue };
        let within = |zone: &Zone| (zone.first..=zone.last).contains(&first.cylinder);
        let Some(at) = zones.iter().position(within) else {
            return Err(wrong(
                first.line,
                format!("cylinder {} lies in no zone of the model", first.cylinder),
            ));
        };
        let zone = &zones[at];
        if zone_before.replace(at) != Some(at) {
            angle = zone.begins;
        }
        let (mut switches, mut head) = (0u32, first.head);
        let mut runs = Vec::with_capacity(cylinder.len());
        let mut key = Vec::with_capacity(cylinder.len());
        for extent in cylinder {
            if extent.sector + extent.sectors > zone.sectors_per_track {
                let reason = format!(
                    "goes to sector {}, a track of cylinder {} has {}",
                    extent.sector + extent.sectors - 1,
                    extent.cylinder,
                    zone.sectors_per_track
                );
                return Err(wrong(extent.line, reason));
            }
            switches += u32::from(extent.head != head);
            head = extent.head;
            runs.push(RunShape {
                tracks: 1,
                sectors: extent.sectors as u32,
                sectors_per_track: zone.sectors_per_track as u32,
                head: extent.head as u32,
                cylinder: 0,
                cylinder_step: 0,
                angle: f64::from(switches) * zone.track_skew
                    + extent.sector as f64 / zone.sectors_per_track as f64,
                angle_step: 0.0,
            });
            key.push([extent.head, extent.sector, extent.sectors, at as u64]);
        }
        let pattern = *known.entry(key).or_insert_with(|| {
            shape.patterns.push(runs);
            shape.patterns.len() - 1
        });
        let sectors = cylinder.iter().map(|extent| extent.sectors).sum();
        let place = PatternPosition { pattern, sectors, cylinder: first.cylinder as i64, angle };
        let step = f64::from(switches) * zone.track_skew + zone.cylinder_skew;
        if !append(&mut shape, place, step) {
            return Err(wrong(first.line, format!("there may be {SECTIONS_LIMIT} different cylinders")));
        }
        angle += step;
    }
    Ok(shape)
}

/// A pattern and where it lies.
struct PatternPosition {
    pattern: usize,
    sectors: u64,
    cylinder: i64,
    angle: f64,
}

/// Adds a cylinder to the last section if it continues that one, or as a new one; returns whether there was
/// room.
fn append(shape: &mut TracksShape, place: PatternPosition, angle_step: f64) -> bool {
    /// Angles that differ by less are equal: a thousandth of a sector of any track.
    const SAME: f64 = 1e-9;
    if let Some(last) = shape.sections.last_mut().filter(|last| last.pattern == place.pattern) {
        let times = last.times() as i64;
        let step = (place.cylinder - last.cylinder) / times;
        let goes_on = (times == 1 || step == last.cylinder_step)
            && step * times == place.cylinder - last.cylinder
            && (last.angle + times as f64 * last.angle_step - place.angle).abs() < SAME * times as f64;
        if goes_on {
            last.cylinder_step = step;
            last.sectors += place.sectors;
            return true;
        }
    }
    if shape.sections.len() == SECTIONS_LIMIT {
        return false;
    }
    let PatternPosition { pattern, sectors, cylinder, angle } = place;
    shape.sections.push(SectionShape {
        pattern,
        sectors,
        sectors_each: sectors,
        cylinder,
        cylinder_step: 1,
        angle,
        angle_step,
    });
    true
}

#[cfg(test)]
mod tests {
    use crate::{Controller, Drive};
    use foreseek_device::Build;
    use foreseek_device::geometry::Geometry;
    use foreseek_units::{Lba, Sectors};

    const MODEL: &str = "dm_disk D {
 Number of data surfaces = 2, Number of cylinders = 15,
 Layout Model = dm_layout_g2 {
  Layout Map File = d.map,
  Zones = [
   dm_layout_g2_zone { First cylinder number = 0, Last cylinder number = 2, First LBN = 0, Last LBN = 1196,
    Blocks per track = 200, Zone skew = 10.0, Skew for track switch = 20.0, Skew for cylinder switch = 30.0 },
   dm_layout_g2_zone { First cylinder number = 3, Last cylinder number = 14, First LBN = 1196, Last LBN = 3595,
    Blocks per track = 100, Skew units = revolutions, Skew for track switch = 0.2, Skew for cylinder switch = 0.3 } ] },
 Mechanical Model = dm_mech_g1 { Seek type = constant, Constant seek time = 0.5, Head switch time = 0.1,
  Rotation speed (in rpms) = 6000 } }";

    /// Of the first zone the second cylinder has a defect on its first track; all others are alike.
    fn map() -> String {
        let mut text = "drive D\nextracted\n5 cylinders, 6000 rot, 2 heads\n".to_owned();
        let mut lba = 0;
        let mut add = |cylinder: u32, head: u32, sector: u32, count: u32| {
            let line =
                format!("lbn {lba} --> cyl {cylinder}, head {head}, sect {sector}, seqcnt {}\n", count - 1);
            lba += count;
            line
        };
        let listed = [
            (0, 0, 0, 200),
            (0, 1, 0, 199),
            (1, 0, 0, 50),
            (1, 0, 51, 148),
            (1, 1, 0, 200),
            (2, 0, 0, 200),
            (2, 1, 0, 199),
        ];
        let regular = (3..15).flat_map(|cylinder| [(cylinder, 0, 0, 100), (cylinder, 1, 0, 100)]);
        for (cylinder, head, sector, count) in listed.into_iter().chain(regular) {
            text += &add(cylinder, head, sector, count);
        }
        text + "Defect at cyl 1, head 0, sect 50\n"
    }

    fn geometry(model: &str, map: &str) -> Result<Geometry, String> {
        let mut linked =
            |name: &str| if name == "d.map" { Ok(map.to_owned()) } else { Err("none".to_owned()) };
        let drive = Drive::parse("d.model", model, &mut linked).map_err(|error| error.to_string())?;
        let (profile, _) = drive.profile(&Controller::typical()).map_err(|error| error.to_string())?;
        profile.build(&Build::default()).map_err(|error| error.to_string())?;
        drive.spec(&Controller::typical()).laid_out("d.model").map_err(|error| error.to_string())
    }

    #[test]
    fn extents_lie_where_the_list_says_and_turn_by_the_zones_skews() {
        let geometry = geometry(MODEL, &map()).expect("a drive");
        assert_eq!((geometry.sectors(), geometry.cylinders()), (Sectors(3596), 15));
        for (lba, cylinder, head, revolutions) in [
            (0, 0, 0, 0.05),
            (199, 0, 0, 0.05 + 199.0 / 200.0),
            (200, 0, 1, 0.15),
            (399, 1, 0, 0.3),
            // After the defect the angle continues with the sector's number.
            (449, 1, 0, 0.3 + 51.0 / 200.0),
            (597, 1, 1, 0.4),
            (797, 2, 0, 0.55),
            // The second zone begins at its own angle, in revolutions.
            (1196, 3, 0, 0.0),
            (1296, 3, 1, 0.2),
            (1396, 4, 0, 0.5),
            (1595, 4, 1, 0.7 + 0.99),
        ] {
            let (place, passes) = geometry.locate(Lba(lba));
            assert_eq!((place.cylinder, place.head), (cylinder, head), "lbn {lba}");
            let angle = (passes.get() % geometry.rotation_period().get()) as f64
                / geometry.rotation_period().get() as f64;
            let off = angle - revolutions;
            assert!((off - off.round()).abs() < 1e-6, "lbn {lba}: {angle} instead of {revolutions}");
        }
    }

    #[test]
    fn complaints_name_the_list_and_its_line() {
        for (from, to, what) in [
            ("sect 51", "sect x", "d.map: line 7: is not an extent"),
            ("seqcnt 147", "seqcnt 148", "d.map: line 8: begins at lbn 597, but the one before ends at 598"),
            ("sect 51", "sect 60", "d.map: line 7: goes to sector 207, a track of cylinder 1 has 200"),
            ("cyl 4, head 0", "cyl 99, head 0", "d.map: line 13: cylinder 99 lies in no zone"),
            ("cyl 4, head 0", "cyl 4, head 6", "head[0]: is 6, heads is 2"),
            ("lbn ", "sector ", "d.map: line 1: holds no extent"),
        ] {
            let error = geometry(MODEL, &map().replace(from, to)).expect_err(to);
            assert!(error.contains(what), "{error}");
        }
        let error = geometry(&MODEL.replace("d.map", "e.map"), "").expect_err("gone");
        assert!(error.starts_with("d.model: line 4: Layout Map File: names 'e.map'"), "{error}");
        let error = geometry(&MODEL.replace("Layout Map File = d.map,", ""), "").expect_err("missing");
        assert!(error.starts_with("d.model: line 3: Layout Map File: is missing"), "{error}");
    }
}
