//! A layout as an index tree: a `dm_layout_g4` block.
//!
//! `TP` lists the kinds of tracks: first sector, last sector, sectors per track. `IDX` lists the nodes of the
//! tree; the last one is its root. An entry of a node has
//!
//! - the address at which it begins within the node, its cylinder and its angle relative to the node's;
//! - how many addresses and cylinders it has, and by which angle it rotates each time it is repeated;
//! - how many it has in all: a negative number of cylinders where they descend;
//! - its content: tracks of one kind on one surface, or another node.
//!
//! `Slips` are pairs of an
//! address and the number of sectors left out there. `Remaps` give the place to which the data of an address
//! were moved.
//!
//! Source: diskmodel of the DiskSim 4.0 distribution (`layout_g4.c`: how an address finds its track, and the
//! angle of a track). Where both contradict each other by an obvious error, the intention is followed: the
//! root's first entry counts once, and sectors of a kind of track count from its first.

mod parts;
mod sections;

use super::block::{Node, Reader, Value};
use super::error::ExtractedError;
use foreseek_device::geometry::TracksShape;
use foreseek_device::spec::limits::{
    CYLINDERS_LIMIT, HEADS_LIMIT, RUNS_LIMIT, SECTORS_PER_TRACK_LIMIT, SLIPS_LIMIT,
};
use parts::{Content, Kind, NodeEntry, Remap};
use sections::Sections;

/// Largest address that a number in a file may name.
const PLACES_LIMIT: f64 = (1u64 << 42) as f64;
/// Largest angle, in revolutions.
const ANGLES: f64 = 1e3;
/// Most numbers of a flat list.
const LIST_LIMIT: usize = 6 * SLIPS_LIMIT;

/// Reads the block as far as a drive with so many blocks needs it. Notes which parts could not be used.
pub(super) fn read(
    reader: Reader<'_>,
    blocks: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<TracksShape, ExtractedError> {
    let kinds = read_kinds(reader)?;
    let nodes = reader.list_if("IDX", RUNS_LIMIT)?;
    if nodes.is_empty() {
        return Err(reader.wrong("IDX", "holds no node of the tree, must hold at least its root"));
    }
    let mut entries = 0;
    let mut read = Vec::with_capacity(nodes.len());
    for node in nodes {
        let node = read_node(reader, node, &kinds, nodes.len())?;
        entries += node.len();
        if entries > RUNS_LIMIT {
            return Err(reader.wrong("IDX", format!("the nodes may have {RUNS_LIMIT} entries together")));
        }
        read.push(node);
    }
    let mut slips = read_slips(reader)?;
    // The tree has addresses for what is slipped, too.
    let slipped = |end, &(first, count): &(u64, u64)| if first < end { end + count } else { end };
    let limit = blocks.map(|blocks| slips.iter().fold(blocks, slipped));
    slips.retain(|(first, _)| limit.is_none_or(|limit| *first < limit));
    let sections = Sections::of(reader, &kinds, &read, limit)?;
    let remaps = read_remaps(reader)?;
    let remaps = sections.places_of(&remaps, notes);
    Ok(TracksShape { slips, remaps, ..sections.shape })
}

fn read_kinds(reader: Reader<'_>) -> Result<Vec<Kind>, ExtractedError> {
    let flat = reader.wholes_if("TP", LIST_LIMIT, SECTORS_PER_TRACK_LIMIT)?;
    if flat.is_empty() || flat.len() % 3 != 0 {
        let reason = format!(
            "must hold threes (first sector, last sector, sectors per track), has {} numbers",
            flat.len()
        );
        return Err(reader.wrong("TP", reason));
    }
    let kind = |three: &[u64]| match *three {
        [low, high, per_track] if low <= high && high < per_track && per_track >= 4 => {
            Ok(Kind { low, sectors: high - low + 1, per_track })
        }
        _ => {
            let reason = format!(
                "{three:?} is not a kind of track: first sector <= last sector < sectors per track, 4 or more"
            );
            Err(reader.wrong("TP", reason))
        }
    };
    flat.chunks(3).map(kind).collect()
}

/// Takes the values of a list one by one.
struct Cursor<'a> {
    reader: Reader<'a>,
    list: &'a [Node],
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    fn word(&mut self, what: &str) -> Result<&'a str, ExtractedError> {
        let node = self.list.get(self.at);
        self.line = node.map_or(self.line, |node| node.line);
        self.at += 1;
        match node.map(|node| &node.value) {
            Some(Value::Text(text)) => Ok(text),
            Some(_) => Err(self.wrong(format!("{what} must be a word or number, not a list or block"))),
            None => Err(self.wrong(format!("the node ends where {what} of an entry was expected"))),
        }
    }

    fn number(&mut self, what: &str, least: f64, most: f64) -> Result<f64, ExtractedError> {
        let text = self.word(what)?;
        self.reader.number_of(self.line, &format!("IDX, {what}"), text, least..=most)
    }

    fn whole(&mut self, what: &str, least: f64, most: f64) -> Result<i64, ExtractedError> {
        let number = self.number(what, least, most)?;
        if number.fract() != 0.0 {
            return Err(self.wrong(format!("{what} is {number}, must be a whole number")));
        }
        Ok(number as i64)
    }

    fn wrong(&self, reason: String) -> ExtractedError {
        self.reader.wrong_at(self.line, "IDX", reason)
    }
}

fn read_node(
    reader: Reader<'_>,
    node: &Node,
    kinds: &[Kind],
    nodes: usize,
) -> Result<Vec<NodeEntry>, ExtractedError> {
    let Value::List(list) = &node.value else {
        return Err(reader.wrong_at(node.line, "IDX", "must hold a list for each node of the tree"));
    };
    let mut cursor = Cursor { reader, list, at: 0, line: node.line };
    let mut entries: Vec<NodeEntry> = Vec::new();
    while cursor.at < list.len() {
        entries.push(read_entry(&mut cursor, kinds, nodes)?);
    }
    entries.sort_by_key(|entry| entry.first);
    let mut next = 0;
    for entry in &entries {
        if entry.first != next {
            let reason = format!(
                "this entry begins at {}, the one before it ends at {next}: addresses must lie in one entry each",
                entry.first
            );
            return Err(reader.wrong_at(entry.line, "IDX", reason));
        }
        next = entry.first + entry.sectors;
    }
    if entries.is_empty() {
        return Err(reader.wrong_at(node.line, "IDX", "a node of the tree must have an entry"));
    }
    Ok(entries)
}

fn read_entry(cursor: &mut Cursor<'_>, kinds: &[Kind], nodes: usize) -> Result<NodeEntry, ExtractedError> {
    let cylinders = CYLINDERS_LIMIT as f64;
    let first = cursor.whole("the first address", 0.0, PLACES_LIMIT)? as u64;
    let line = cursor.line;
    let cylinder = cursor.whole("the cylinder", 0.0, cylinders)?;
    let angle = cursor.number("the angle", -ANGLES, ANGLES)?;
    let each = cursor.whole("the addresses of each", 1.0, PLACES_LIMIT)? as u64;
    let step = cursor.whole("the cylinders of each", 0.0, cylinders)?;
    let angle_step = cursor.number("the angle between them", -ANGLES, ANGLES)?;
    let sectors = cursor.whole("the addresses in all", 1.0, PLACES_LIMIT)? as u64;
    let all = cursor.whole("the cylinders in all", -cylinders, cylinders)?;
    let of = match cursor.word("TRACK or IDX")?.to_ascii_uppercase().as_str() {
        "TRACK" => {
            let kind = cursor.whole("the kind of track", 0.0, RUNS_LIMIT as f64)? as usize;
            let head = cursor.whole("the head", 0.0, HEADS_LIMIT as f64 - 1.0)? as u32;
            let Some(known) = kinds.get(kind) else {
                return Err(cursor
                    .wrong(format!("names kind of track {kind}, TP has {}, counted from 0", kinds.len())));
            };
            if each > known.sectors {
                let reason =
                    format!("has {each} addresses a track, its kind of track holds {}", known.sectors);
                return Err(cursor.wrong(reason));
            }
            Content::Tracks { kind, head }
        }
        "IDX" => {
            let node = cursor.whole("the node", 0.0, RUNS_LIMIT as f64)? as usize;
            if node >= nodes {
                return Err(cursor.wrong(format!("names node {node}, IDX has {nodes}, counted from 0")));
            }
            Content::Node(node)
        }
        other => {
            let other: String = other.chars().take(24).collect();
            return Err(cursor.wrong(format!("has '{other}' instead of TRACK or IDX")));
        }
    };
    let cylinder_step = if all < 0 { -step } else { step };
    Ok(NodeEntry { line, first, cylinder, angle, each, cylinder_step, angle_step, sectors, of })
}

fn read_slips(reader: Reader<'_>) -> Result<Vec<(u64, u64)>, ExtractedError> {
    let list = reader.list_if("Slips", 2 * SLIPS_LIMIT)?;
    if list.len() % 2 == 1 {
        return Err(reader.wrong("Slips", "must hold pairs: the first place, how many"));
    }
    let number = |node: &Node, least: f64| match &node.value {
        Value::Text(text) => reader.number_of(node.line, "Slips", text, least..=PLACES_LIMIT),
        _ => Err(reader.wrong_at(node.line, "Slips", "must hold numbers only")),
    };
    let mut slips: Vec<(u64, u64)> = Vec::with_capacity(list.len() / 2);
    for pair in list.chunks_exact(2) {
        let (first, count) = (number(&pair[0], 0.0)? as u64, number(&pair[1], -PLACES_LIMIT)?);
        let line = pair[0].line;
        if count < 0.0 {
            let reason = "a negative count would give two addresses to one place; leave spares out of the tree instead";
            return Err(reader.wrong_at(line, "Slips", reason));
        }
        match slips.last_mut() {
            Some((before, held)) if first < *before + *held => {
                let reason = format!(
                    "{first} must lie behind the {held} places from {before} on that are slipped before it"
                );
                return Err(reader.wrong_at(line, "Slips", reason));
            }
            Some((before, held)) if first == *before + *held => *held += count as u64,
            _ if count == 0.0 => {}
            _ => slips.push((first, count as u64)),
        }
    }
    Ok(slips)
}

fn read_remaps(reader: Reader<'_>) -> Result<Vec<Remap>, ExtractedError> {
    let flat = reader.wholes_if("Remaps", LIST_LIMIT, PLACES_LIMIT as u64)?;
    if flat.len() % 6 != 0 {
        let reason = "must hold sixes: address, how many, cylinder, head, sector, sectors per track";
        return Err(reader.wrong("Remaps", reason));
    }
    let mut remaps = Vec::with_capacity(flat.len() / 6);
    let mut sectors = 0;
    for six in flat.chunks_exact(6) {
        let [lba, count, cylinder, head, sector, _] = *six else { continue };
        sectors += count;
        if sectors > SLIPS_LIMIT as u64 {
            return Err(reader.wrong("Remaps", format!("there may be {SLIPS_LIMIT} sectors")));
        }
        let head = u32::try_from(head).unwrap_or(u32::MAX);
        remaps.push(Remap { lba, count, cylinder: cylinder as i64, head, sector });
    }
    Ok(remaps)
}

#[cfg(test)]
mod tests;
