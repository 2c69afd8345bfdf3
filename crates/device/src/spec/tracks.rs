//! The description of a layout by track.
//!
//! ```toml
//! [tracks]                              # sections, one entry each; the pattern by its number
//! pattern = [0, 1]
//! sectors = [374400, 89600]
//! sectors_each = [37440, 35840]
//! cylinder = [0, 320]
//! cylinder_step = [32.0, 32.0]
//! angle_turns = [0.0, 0.25]
//! angle_step_turns = [0.69, 0.69]
//! slips = [71, 2]                       # optional, pairs: the first place, how many
//! remaps = [500, 71]                    # optional, pairs: the address, the place
//!
//! [[tracks.patterns]]                   # runs of tracks, one entry each
//! tracks = [32]
//! sectors = [1170]
//! ...
//! ```

use super::error::ProfileError;
use super::keys::{Bounds, Keys, bounds};
use super::limits::{
    CYLINDERS_LIMIT, HEADS_LIMIT, RUNS_LIMIT, SECTIONS_LIMIT, SECTORS_LIMIT, SECTORS_PER_TRACK_LIMIT,
    SLIPS_LIMIT, TRACKS_LIMIT,
};
use super::write::Writer;
use crate::geometry::{RunShape, SectionShape, TracksShape};

/// Angles, in revolutions: a few whole revolutions have no effect.
const ANGLE_TURNS: (f64, f64) = (-1e3, 1e3);

pub(crate) fn read(mut keys: Keys<'_>) -> Result<TracksShape, ProfileError> {
    let mut left = RUNS_LIMIT;
    let mut patterns = Vec::new();
    for pattern in keys.tables("patterns", bounds(1, RUNS_LIMIT))? {
        let runs = read_pattern(pattern, left)?;
        left -= runs.len();
        patterns.push(runs);
    }
    let sections = read_sections(&mut keys)?;
    let slips = read_pairs(&mut keys, "slips")?;
    let remaps = read_pairs(&mut keys, "remaps")?;
    keys.finish()?;
    Ok(TracksShape { patterns, sections, slips, remaps })
}

/// A list as long as the ones before it.
fn alike<T>(keys: &Keys<'_>, key: &str, list: Vec<T>, length: usize) -> Result<Vec<T>, ProfileError> {
    if list.len() != length {
        let reason = format!("has {} entries, the lists beside it have {length}", list.len());
        return Err(keys.wrong(key, reason));
    }
    Ok(list)
}

fn wholes(
    keys: &mut Keys<'_>,
    key: &'static str,
    length: usize,
    range: Bounds<u64>,
) -> Result<Vec<u64>, ProfileError> {
    let list = keys.wholes(key, bounds(1, SECTIONS_LIMIT), range)?;
    alike(keys, key, list, length)
}

fn angles(keys: &mut Keys<'_>, key: &'static str, length: usize) -> Result<Vec<f64>, ProfileError> {
    let list = keys.numbers(key, bounds(1, SECTIONS_LIMIT), bounds(ANGLE_TURNS.0, ANGLE_TURNS.1))?;
    alike(keys, key, list, length)
}

/// Whole numbers that may be negative.
fn cylinders(keys: &mut Keys<'_>, key: &'static str, length: usize) -> Result<Vec<i64>, ProfileError> {
    let range = bounds(-(CYLINDERS_LIMIT as f64), CYLINDERS_LIMIT as f64);
    let list = keys.numbers(key, bounds(1, SECTIONS_LIMIT), range)?;
    if list.iter().any(|number| number.fract() != 0.0) {
        return Err(keys.wrong(key, "must be whole numbers"));
    }
    alike(keys, key, list.iter().map(|number| *number as i64).collect(), length)
}

fn read_pattern(mut keys: Keys<'_>, left: usize) -> Result<Vec<RunShape>, ProfileError> {
    let tracks = keys.wholes("tracks", bounds(1, left.max(1)), bounds(1, CYLINDERS_LIMIT))?;
    let length = tracks.len();
    if length > left {
        return Err(keys.wrong("tracks", format!("all patterns together may have {RUNS_LIMIT} entries")));
    }
    let sectors = wholes(&mut keys, "sectors", length, bounds(1, SECTORS_PER_TRACK_LIMIT))?;
    let per_track = wholes(&mut keys, "sectors_per_track", length, bounds(4, SECTORS_PER_TRACK_LIMIT))?;
    let heads = wholes(&mut keys, "head", length, bounds(0, HEADS_LIMIT - 1))?;
    let first = cylinders(&mut keys, "cylinder", length)?;
    let steps = cylinders(&mut keys, "cylinder_step", length)?;
    let angle = angles(&mut keys, "angle_turns", length)?;
    let angle_steps = angles(&mut keys, "angle_step_turns", length)?;
    keys.finish()?;
    let run = |at: usize| RunShape {
        tracks: tracks[at] as u32,
        sectors: sectors[at] as u32,
        sectors_per_track: per_track[at] as u32,
        head: heads[at] as u32,
        cylinder: first[at],
        cylinder_step: steps[at],
        angle: angle[at],
        angle_step: angle_steps[at],
    };
    Ok((0..length).map(run).collect())
}

fn read_sections(keys: &mut Keys<'_>) -> Result<Vec<SectionShape>, ProfileError> {
    let places = bounds(1, SECTORS_LIMIT);
    let pattern = keys.wholes("pattern", bounds(1, SECTIONS_LIMIT), bounds(0, RUNS_LIMIT as u64 - 1))?;
    let length = pattern.len();
    let sectors = wholes(keys, "sectors", length, places)?;
    let each = wholes(keys, "sectors_each", length, places)?;
    let first = cylinders(keys, "cylinder", length)?;
    let steps = cylinders(keys, "cylinder_step", length)?;
    let angle = angles(keys, "angle_turns", length)?;
    let angle_steps = angles(keys, "angle_step_turns", length)?;
    let section = |at: usize| SectionShape {
        pattern: pattern[at] as usize,
        sectors: sectors[at],
        sectors_each: each[at],
        cylinder: first[at],
        cylinder_step: steps[at],
        angle: angle[at],
        angle_step: angle_steps[at],
    };
    Ok((0..length).map(section).collect())
}

fn read_pairs(keys: &mut Keys<'_>, key: &'static str) -> Result<Vec<(u64, u64)>, ProfileError> {
    if !keys.has(key) {
        return Ok(Vec::new());
    }
    let flat = keys.wholes(key, bounds(0, 2 * SLIPS_LIMIT), bounds(0, SECTORS_LIMIT))?;
    if flat.len() % 2 == 1 {
        return Err(keys.wrong(key, "must hold pairs"));
    }
    Ok(flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

pub(crate) fn write(shape: &TracksShape, to: &mut Writer) {
    let whole = |of: fn(&SectionShape) -> u64| -> Vec<u64> { shape.sections.iter().map(of).collect() };
    let number = |of: fn(&SectionShape) -> f64| -> Vec<f64> { shape.sections.iter().map(of).collect() };
    to.table("tracks");
    to.wholes("pattern", &whole(|section| section.pattern as u64));
    to.wholes("sectors", &whole(|section| section.sectors));
    to.wholes("sectors_each", &whole(|section| section.sectors_each));
    to.numbers("cylinder", &number(|section| section.cylinder as f64));
    to.numbers("cylinder_step", &number(|section| section.cylinder_step as f64));
    to.numbers("angle_turns", &number(|section| section.angle));
    to.numbers("angle_step_turns", &number(|section| section.angle_step));
    for (key, pairs) in [("slips", &shape.slips), ("remaps", &shape.remaps)] {
        if !pairs.is_empty() {
            to.wholes(key, &pairs.iter().flat_map(|(one, other)| [*one, *other]).collect::<Vec<_>>());
        }
    }
    for pattern in &shape.patterns {
        write_pattern(pattern, to);
    }
    to.end_table();
}

fn write_pattern(pattern: &[RunShape], to: &mut Writer) {
    let whole =
        |of: fn(&RunShape) -> u32| -> Vec<u64> { pattern.iter().map(|run| u64::from(of(run))).collect() };
    let number = |of: fn(&RunShape) -> f64| -> Vec<f64> { pattern.iter().map(of).collect() };
    to.list_item("patterns");
    to.wholes("tracks", &whole(|run| run.tracks));
    to.wholes("sectors", &whole(|run| run.sectors));
    to.wholes("sectors_per_track", &whole(|run| run.sectors_per_track));
    to.wholes("head", &whole(|run| run.head));
    to.numbers("cylinder", &number(|run| run.cylinder as f64));
    to.numbers("cylinder_step", &number(|run| run.cylinder_step as f64));
    to.numbers("angle_turns", &number(|run| run.angle));
    to.numbers("angle_step_turns", &number(|run| run.angle_step));
    to.end_table();
}

/// Refuses a layout that cannot be laid out.
pub(crate) fn check(shape: &TracksShape, heads: u32, keys: &Keys<'_>) -> Result<(), ProfileError> {
    let wrong = |key: String, reason: String| Err(keys.wrong(&format!("tracks.{key}"), reason));
    for (at, pattern) in shape.patterns.iter().enumerate() {
        for (run, shape) in pattern.iter().enumerate() {
            if shape.head >= heads {
                return wrong(
                    format!("patterns[{at}].head[{run}]"),
                    format!("is {}, heads is {heads}", shape.head),
                );
            }
            if shape.sectors > shape.sectors_per_track {
                let reason = format!("is {}, the track has {}", shape.sectors, shape.sectors_per_track);
                return wrong(format!("patterns[{at}].sectors[{run}]"), reason);
            }
            if shape.tracks > 1 && shape.cylinder_step == 0 {
                let reason = "is 0: the tracks would lie on one another".to_owned();
                return wrong(format!("patterns[{at}].cylinder_step[{run}]"), reason);
            }
        }
    }
    let (mut tracks, mut places) = (0u64, 0u64);
    for (at, section) in shape.sections.iter().enumerate() {
        let Some(pattern) = shape.patterns.get(section.pattern) else {
            let reason = format!("is {}, there are {} patterns", section.pattern, shape.patterns.len());
            return wrong(format!("pattern[{at}]"), reason);
        };
        let holds = TracksShape::sectors_of(pattern);
        if section.sectors_each > holds {
            let reason = format!("is {}, the pattern holds {holds}", section.sectors_each);
            return wrong(format!("sectors_each[{at}]"), reason);
        }
        let (low, high) = TracksShape::span_of(pattern);
        let far = section.cylinder_step.saturating_mul(section.times() as i64 - 1);
        let (low, high) = (
            section.cylinder.saturating_add(low).saturating_add(far.min(0)),
            section.cylinder.saturating_add(high).saturating_add(far.max(0)),
        );
        if low < 0 || high >= CYLINDERS_LIMIT as i64 {
            let reason =
                format!("the section goes over cylinders {low} to {high}, there may be {CYLINDERS_LIMIT}");
            return wrong(format!("cylinder[{at}]"), reason);
        }
        let each: u64 = pattern.iter().map(|run| u64::from(run.tracks)).sum();
        tracks = tracks.saturating_add(section.times().saturating_mul(each));
        places = places.saturating_add(section.sectors);
    }
    if tracks > TRACKS_LIMIT || places > SECTORS_LIMIT {
        let reason =
            format!("{tracks} tracks with {places} sectors, there may be {TRACKS_LIMIT} and {SECTORS_LIMIT}");
        return wrong("sectors".to_owned(), reason);
    }
    check_defects(shape, places, keys)
}

fn check_defects(shape: &TracksShape, places: u64, keys: &Keys<'_>) -> Result<(), ProfileError> {
    let mut end = 0;
    for (first, count) in &shape.slips {
        if *first < end || *count == 0 || count.saturating_add(*first) > places {
            let reason = format!(
                "{count} from {first} on are not behind those before, or not of the {places} places that there are"
            );
            return Err(keys.wrong("tracks.slips", reason));
        }
        end = first + count;
    }
    if !shape.remaps.is_sorted_by(|(one, _), (next, _)| one < next) {
        return Err(keys.wrong("tracks.remaps", "addresses must ascend"));
    }
    if let Some((_, place)) = shape.remaps.iter().find(|(_, place)| *place >= places) {
        return Err(
            keys.wrong("tracks.remaps", format!("{place} is not of the {places} places that there are"))
        );
    }
    Ok(())
}
