//! From the tree to sections: the two lowest levels stay patterns and their repetitions, all above them is
//! expanded.

use super::parts::{Content, Kind, NodeEntry, Remap};
use crate::block::Reader;
use crate::error::ExtractedError;
use foreseek_device::geometry::{RunShape, SectionShape, TracksShape};
use foreseek_device::spec::limits::{CYLINDERS_LIMIT, RUNS_LIMIT, SECTIONS_LIMIT};

/// Deepest tree: the limit of diskmodel.
const DEPTH_LIMIT: usize = 16;

/// Where a node lies.
#[derive(Clone, Copy, Debug)]
struct Origin {
    cylinder: i64,
    angle: f64,
}

/// A tree on its way to a layout.
pub(super) struct Sections<'a> {
    reader: Reader<'a>,
    kinds: &'a [Kind],
    nodes: &'a [Vec<NodeEntry>],
    /// The pattern that a node of tracks makes.
    patterns: Vec<Option<usize>>,
    /// The number of the first sector of each run of each pattern.
    lows: Vec<Vec<u64>>,
    runs: usize,
    pub(super) shape: TracksShape,
}

impl<'a> Sections<'a> {
    /// The sections of a tree with its first `limit` addresses; its last node is its root.
    pub(super) fn of(
        reader: Reader<'a>,
        kinds: &'a [Kind],
        nodes: &'a [Vec<NodeEntry>],
        limit: Option<u64>,
    ) -> Result<Self, ExtractedError> {
        let (patterns, lows, shape) = (vec![None; nodes.len()], Vec::new(), TracksShape::default());
        let mut sections = Self { reader, kinds, nodes, patterns, lows, runs: 0, shape };
        let root = nodes.len() - 1;
        let limit = limit.unwrap_or(u64::MAX).min(sections.holds(root));
        sections.expand(root, Origin { cylinder: 0, angle: 0.0 }, limit, 0)?;
        Ok(sections)
    }

    fn holds(&self, node: usize) -> u64 {
        self.nodes[node].last().map_or(0, |last| last.first + last.sectors)
    }

    fn wrong(&self, line: usize, reason: String) -> ExtractedError {
        self.reader.wrong_at(line, "IDX", reason)
    }

    /// Adds the sections of the first `limit` addresses of a node.
    fn expand(&mut self, node: usize, at: Origin, limit: u64, depth: usize) -> Result<(), ExtractedError> {
        let line = self.nodes[node].first().map_or(0, |entry| entry.line);
        if depth > DEPTH_LIMIT {
            return Err(
                self.wrong(line, format!("the tree is deeper than {DEPTH_LIMIT}: does a node hold itself?"))
            );
        }
        if let Some(pattern) = self.pattern(node)? {
            let place = SectionShape {
                pattern,
                sectors: limit,
                sectors_each: limit,
                cylinder: at.cylinder,
                cylinder_step: 0,
                angle: at.angle,
                angle_step: 0.0,
            };
            return self.add(line, place);
        }
        for index in 0..self.nodes[node].len() {
            let entry = self.nodes[node][index];
            if entry.first >= limit {
                break;
            }
            let sectors = entry.sectors.min(limit - entry.first);
            let at = Origin { cylinder: at.cylinder + entry.cylinder, angle: at.angle + entry.angle };
            self.expand_entry(entry, at, sectors, depth)?;
        }
        Ok(())
    }

    fn expand_entry(
        &mut self,
        entry: NodeEntry,
        at: Origin,
        sectors: u64,
        depth: usize,
    ) -> Result<(), ExtractedError> {
        let section = |pattern: usize| SectionShape {
            pattern,
            sectors,
            sectors_each: entry.each.min(sectors),
            cylinder: at.cylinder,
            cylinder_step: entry.cylinder_step,
            angle: at.angle,
            angle_step: entry.angle_step,
        };
        let child = match entry.of {
            Content::Tracks { kind, head } => {
                let run = self.run(&entry, kind, head, 1, entry.each.min(sectors));
                let run = RunShape { cylinder: 0, angle: 0.0, ..run };
                let pattern = self.new_pattern(entry.line, vec![run], vec![self.kinds[kind].low])?;
                return self.add(entry.line, section(pattern));
            }
            Content::Node(child) => child,
        };
        let (needs, holds) = (entry.each.min(sectors), self.holds(child));
        if needs > holds {
            let reason = format!("needs {needs} addresses of node {child}, which has {holds}");
            return Err(self.wrong(entry.line, reason));
        }
        if let Some(pattern) = self.pattern(child)? {
            return self.add(entry.line, section(pattern));
        }
        for time in 0..sectors.div_ceil(entry.each) {
            let at = Origin {
                cylinder: at.cylinder + entry.cylinder_step * time as i64,
                angle: at.angle + entry.angle_step * time as f64,
            };
            self.expand(child, at, entry.each.min(sectors - time * entry.each), depth + 1)?;
        }
        Ok(())
    }

    fn add(&mut self, line: usize, section: SectionShape) -> Result<(), ExtractedError> {
        if self.shape.sections.len() == SECTIONS_LIMIT {
            return Err(
                self.wrong(line, format!("the tree has more than {SECTIONS_LIMIT} sections of tracks"))
            );
        }
        self.shape.sections.push(section);
        Ok(())
    }

    /// The pattern of a node that holds only tracks; `None` for another node.
    fn pattern(&mut self, node: usize) -> Result<Option<usize>, ExtractedError> {
        if self.patterns[node].is_some() {
            return Ok(self.patterns[node]);
        }
        let (mut runs, mut lows) = (Vec::new(), Vec::new());
        for entry in &self.nodes[node] {
            let Content::Tracks { kind, head } = entry.of else { return Ok(None) };
            let (whole, rest) = (entry.sectors / entry.each, entry.sectors % entry.each);
            if whole > CYLINDERS_LIMIT {
                return Err(self.wrong(entry.line, format!("has {whole} tracks, may have {CYLINDERS_LIMIT}")));
            }
            lows.extend(vec![self.kinds[kind].low; usize::from(whole > 0) + usize::from(rest > 0)]);
            if whole > 0 {
                runs.push(self.run(entry, kind, head, whole as u32, entry.each));
            }
            if rest > 0 {
                let last = self.run(entry, kind, head, 1, rest);
                runs.push(RunShape {
                    cylinder: entry.cylinder + entry.cylinder_step * whole as i64,
                    angle: entry.angle + entry.angle_step * whole as f64,
                    ..last
                });
            }
        }
        let line = self.nodes[node].first().map_or(0, |entry| entry.line);
        let pattern = self.new_pattern(line, runs, lows)?;
        self.patterns[node] = Some(pattern);
        Ok(Some(pattern))
    }

    fn new_pattern(
        &mut self,
        line: usize,
        runs: Vec<RunShape>,
        lows: Vec<u64>,
    ) -> Result<usize, ExtractedError> {
        self.runs += runs.len();
        if self.runs > RUNS_LIMIT {
            return Err(self.wrong(line, format!("the tree has more than {RUNS_LIMIT} runs of tracks")));
        }
        self.shape.patterns.push(runs);
        self.lows.push(lows);
        Ok(self.shape.patterns.len() - 1)
    }

    fn run(&self, entry: &NodeEntry, kind: usize, head: u32, tracks: u32, sectors: u64) -> RunShape {
        RunShape {
            tracks,
            sectors: sectors as u32,
            sectors_per_track: self.kinds[kind].per_track as u32,
            head,
            cylinder: entry.cylinder,
            cylinder_step: entry.cylinder_step,
            angle: entry.angle,
            angle_step: entry.angle_step,
        }
    }

    /// The remapped addresses with the places of their data. A place on no track of the tree has no angle.
    pub(super) fn places_of(&self, remaps: &[Remap], notes: &mut Vec<String>) -> Vec<(u64, u64)> {
        let mut places = Vec::new();
        let mut lost = 0;
        for remap in remaps {
            match self.place_of(remap.cylinder, remap.head, remap.sector) {
                Some(place) => places.extend((0..remap.count).map(|more| (remap.lba + more, place + more))),
                None => lost += 1,
            }
        }
        places.sort_unstable();
        places.dedup_by_key(|(lba, _)| *lba);
        let end: u64 = self.shape.sections.iter().map(|section| section.sectors).sum();
        places.retain(|(_, place)| *place < end);
        if lost > 0 {
            notes.push(format!(
                "{}: Remaps: {lost} lead to tracks of which the file says nothing: they are left in their places",
                self.reader.file
            ));
        }
        places
    }

    /// The place of a physical sector.
    fn place_of(&self, cylinder: i64, head: u32, sector: u64) -> Option<u64> {
        let mut first = 0;
        for section in &self.shape.sections {
            let (low, high) = TracksShape::span_of(&self.shape.patterns[section.pattern]);
            for time in 0..section.times() {
                let of = cylinder - section.cylinder - section.cylinder_step * time as i64;
                let within = Some(of).filter(|of| (low..=high).contains(of));
                let place = within.and_then(|of| self.place_within(section.pattern, of, head, sector));
                let place = place.filter(|place| *place < section.sectors_each);
                let place = place.map(|place| time * section.sectors_each + place);
                if let Some(place) = place.filter(|place| *place < section.sectors) {
                    return Some(first + place);
                }
            }
            first += section.sectors;
        }
        None
    }

    /// The place of a physical sector within a pattern.
    fn place_within(&self, pattern: usize, cylinder: i64, head: u32, sector: u64) -> Option<u64> {
        let mut first = 0;
        for (run, low) in self.shape.patterns[pattern].iter().zip(&self.lows[pattern]) {
            let (away, held) = (cylinder - run.cylinder, u64::from(run.sectors));
            let track = if run.cylinder_step == 0 { 0 } else { away / run.cylinder_step };
            let on = run.cylinder_step * track == away && (0..i64::from(run.tracks)).contains(&track);
            if on && run.head == head && (*low..low + held).contains(&sector) {
                return Some(first + track as u64 * held + sector - low);
            }
            first += u64::from(run.tracks) * held;
        }
        None
    }
}
