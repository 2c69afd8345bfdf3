//! A layout with a description of every track.
//!
//! Zones state one rule for thousands of tracks. Some drives are described by track instead: which track
//! follows which, and the angle at which each begins. Tracks repeat in patterns, so that a few hundred
//! describe a whole disk. A *section* is a pattern of tracks that repeats, and a *run* some tracks of one
//! surface within it. All times of the sequential pass follow from the angles, each as early as the movement
//! before it permits; repetitions have the same period each time.
//!
//! Source: the layout model `dm_layout_g4` of the DiskSim 4.0 disk parameter files, an index tree of which
//! the two lowest levels are kept unchanged; `dm_layout_g2` is converted into the same form.

use super::shape::{RunShape, SectionShape, TrackAddress, TracksShape};
use foreseek_units::{Lba, Nanos};

/// Tracks of one surface that follow one another.
#[derive(Clone, Copy, Debug)]
struct TrackRun {
    shape: RunShape,
    /// Its first position within the pattern.
    first: u64,
    /// The time of that position, from the beginning of the pattern.
    passes: u64,
    /// The time from one of its tracks to the next.
    period: u64,
}

#[derive(Clone, Copy, Debug)]
struct Section {
    shape: SectionShape,
    /// Its first position.
    first: u64,
    /// The time at which its pattern begins, the first time.
    base: u64,
    /// The time of its first position.
    begins: u64,
    /// The time from one repetition to the next.
    period: u64,
}

/// The layout.
#[derive(Clone, Debug)]
pub(super) struct Tracks {
    rotation_period: u64,
    patterns: Vec<Vec<TrackRun>>,
    sections: Vec<Section>,
    /// Slips: the first position, the number of positions with data before it, and the number of slipped ones
    /// before its end.
    slips: Vec<(u64, u64, u64)>,
    physical: u64,
}

/// The components of a position: its section and run, and the offsets in them.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    section: &'a Section,
    time: u64,
    run: &'a TrackRun,
    track: u64,
    sector: u64,
}

impl Parts<'_> {
    fn track_address(&self) -> TrackAddress {
        let (section, run) = (&self.section.shape, &self.run.shape);
        let cylinder = section.cylinder
            + section.cylinder_step * self.time as i64
            + run.cylinder
            + run.cylinder_step * self.track as i64;
        // A description with negative cylinders would have been refused.
        TrackAddress { cylinder: cylinder.max(0) as u32, head: run.head }
    }

    /// The time of a sector of the track.
    fn passes(&self, rotation_period: u64, sector: u64) -> u64 {
        let track = self.section.base
            + self.time * self.section.period
            + self.run.passes
            + self.track * self.run.period;
        track + sector * rotation_period / u64::from(self.run.shape.sectors_per_track)
    }
}

impl Tracks {
    /// Lays the sections out one behind the other. `moves` returns the time from one track to another. The
    /// caller has checked that no count is zero and all are within the limits of a profile.
    pub(super) fn new(
        rotation_period: Nanos,
        shape: &TracksShape,
        moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
    ) -> Self {
        let rotation_period = rotation_period.get();
        let patterns = shape.patterns.iter().map(|pattern| runs(rotation_period, pattern, moves)).collect();
        let mut tracks = Self {
            rotation_period,
            patterns,
            sections: Vec::with_capacity(shape.sections.len()),
            slips: Vec::new(),
            physical: 0,
        };
        let mut end = None;
        for section in &shape.sections {
            tracks.append(section, moves, &mut end);
        }
        let mut slipped = 0;
        for (first, count) in &shape.slips {
            tracks.slips.push((*first, first - slipped, slipped + count));
            slipped += count;
        }
        tracks
    }

    /// Adds a section behind the others. `end` is the last track before it, and the time at which that has
    /// passed.
    fn append(
        &mut self,
        shape: &SectionShape,
        moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
        end: &mut Option<(TrackAddress, u64)>,
    ) {
        let Some(first_run) = self.patterns[shape.pattern].first() else { return };
        let leads = first_run.passes;
        let section = Section { shape: *shape, first: self.physical, base: 0, begins: 0, period: 0 };
        self.sections.push(section);
        self.physical += shape.sectors;
        let at = self.sections.len() - 1;
        let (first, last) = (section.first, section.first + shape.sectors_each.min(shape.sectors) - 1);
        let (from, to) = (self.parts(last), self.parts(first));
        let next = SectionShape { cylinder: shape.cylinder + shape.cylinder_step, ..*shape };
        let next = Section { shape: next, ..section };
        let again = Parts { section: &next, ..to };
        // The first position comes again when the last has passed and the head is back.
        let whole = from.passes(self.rotation_period, from.sector + 1)
            + moves(from.track_address(), again.track_address()).get();
        let period = phase_from(self.rotation_period, whole.saturating_sub(leads), shape.angle_step);
        let earliest =
            end.map_or(0, |(track_address, passed)| passed + moves(track_address, to.track_address()).get());
        let base = phase_from(self.rotation_period, earliest.saturating_sub(leads), shape.angle);
        self.sections[at] = Section { base, begins: base + leads, period, ..section };
        let last = self.parts(self.physical - 1);
        *end = Some((last.track_address(), last.passes(self.rotation_period, last.sector + 1)));
    }

    /// Data sectors.
    pub(super) fn sectors(&self) -> u64 {
        self.logical(self.physical)
    }

    /// The position of a sector, and when it begins to pass.
    pub(super) fn locate(&self, lba: Lba) -> (TrackAddress, Nanos) {
        self.locate_physical(self.physical_of(lba))
    }

    /// The same for a physical position.
    pub(super) fn locate_physical(&self, physical: u64) -> (TrackAddress, Nanos) {
        let parts = self.parts(physical);
        (parts.track_address(), Nanos(parts.passes(self.rotation_period, parts.sector)))
    }

    /// When a sector has passed.
    pub(super) fn passed(&self, lba: Lba) -> Nanos {
        let parts = self.parts(self.physical_of(lba));
        Nanos(parts.passes(self.rotation_period, parts.sector + 1))
    }

    /// The first sector that has not wholly passed at a time of the sequential pass.
    pub(super) fn reached(&self, time: Nanos) -> Lba {
        let at = self.sections.partition_point(|section| section.begins <= time.get()).saturating_sub(1);
        let section = &self.sections[at];
        let runs = &self.patterns[section.shape.pattern];
        let since = time.get().saturating_sub(section.begins);
        let times = (since / section.period.max(1)).min(section.shape.times() - 1);
        let since = since - times * section.period + (section.begins - section.base);
        let run = &runs[runs.partition_point(|run| run.passes <= since).saturating_sub(1)];
        let since = since.saturating_sub(run.passes);
        let track = (since / run.period.max(1)).min(u64::from(run.shape.tracks) - 1);
        let within = since - track * run.period;
        // The last sector that begins not later.
        let sector = ((within + 1) * u64::from(run.shape.sectors_per_track) - 1) / self.rotation_period;
        let sectors = u64::from(run.shape.sectors);
        let physical = (run.first + track * sectors + sector.min(sectors)).min(section.shape.sectors_each);
        let physical = (times * section.shape.sectors_each + physical).min(section.shape.sectors);
        Lba(self.logical(section.first + physical))
    }

    /// The sectors of a track at a sector.
    pub(super) fn sectors_per_track(&self, lba: Lba) -> u64 {
        u64::from(self.parts(self.physical_of(lba)).run.shape.sectors_per_track)
    }

    /// The end of the track of a sector.
    pub(super) fn track_end(&self, lba: Lba) -> Lba {
        let physical = self.physical_of(lba);
        let parts = self.parts(physical);
        let section = parts.section;
        let rest = u64::from(parts.run.shape.sectors) - parts.sector;
        let of_time = (parts.time + 1) * section.shape.sectors_each;
        let end = (physical + rest).min(section.first + of_time.min(section.shape.sectors));
        Lba(self.logical(end))
    }

    /// The start of the track of a sector.
    pub(super) fn track_start(&self, lba: Lba) -> Lba {
        let physical = self.physical_of(lba);
        Lba(self.logical(physical - self.parts(physical).sector))
    }

    /// The first sector of each section, and the data sectors of a repetition with the time of a pass over
    /// it.
    pub(super) fn sections(&self) -> impl Iterator<Item = (u64, f64, Nanos)> {
        self.sections.iter().map(|section| {
            let (data, time) = self.repetition(section);
            (self.logical(section.first), data, time)
        })
    }

    /// The data sectors of a repetition of the pattern at a sector, and the time of a pass over it.
    pub(super) fn repetition_at(&self, lba: Lba) -> (f64, Nanos) {
        self.repetition(self.parts(self.physical_of(lba)).section)
    }

    fn repetition(&self, section: &Section) -> (f64, Nanos) {
        let shape = &section.shape;
        let held = self.logical(section.first + shape.sectors) - self.logical(section.first);
        let share = held as f64 / shape.sectors as f64;
        (shape.sectors_each as f64 * share, Nanos(section.period))
    }

    fn parts(&self, physical: u64) -> Parts<'_> {
        let at = self.sections.partition_point(|section| section.first <= physical).saturating_sub(1);
        let section = &self.sections[at];
        let within = physical - section.first;
        let (time, rest) = (within / section.shape.sectors_each, within % section.shape.sectors_each);
        let runs = &self.patterns[section.shape.pattern];
        let run = &runs[runs.partition_point(|run| run.first <= rest).saturating_sub(1)];
        let (rest, sectors) = (rest - run.first, u64::from(run.shape.sectors));
        Parts { section, time, run, track: rest / sectors, sector: rest % sectors }
    }

    fn physical_of(&self, lba: Lba) -> u64 {
        let after = self.slips.partition_point(|(_, data, _)| *data <= lba.get());
        lba.get() + after.checked_sub(1).map_or(0, |at| self.slips[at].2)
    }

    /// The number of data sectors before a position.
    fn logical(&self, physical: u64) -> u64 {
        let after = self.slips.partition_point(|(first, ..)| *first <= physical);
        let Some((_, data, slipped)) = after.checked_sub(1).map(|at| self.slips[at]) else { return physical };
        physical.saturating_sub(slipped).max(data)
    }
}

/// A pattern's runs, each as early as the one before permits.
fn runs(
    rotation_period: u64,
    pattern: &[RunShape],
    moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
) -> Vec<TrackRun> {
    let mut runs: Vec<TrackRun> = Vec::with_capacity(pattern.len());
    let (mut first, mut end) = (0, None::<(RunShape, u64)>);
    for shape in pattern {
        let track = |run: &RunShape, track: i64| TrackAddress {
            // Only distances matter, and a pattern may begin on its highest cylinder.
            cylinder: (i64::from(u32::MAX / 2) + run.cylinder + run.cylinder_step * track) as u32,
            head: run.head,
        };
        let one = u64::from(shape.sectors) * rotation_period / u64::from(shape.sectors_per_track);
        let step = moves(track(shape, 0), track(shape, 1)).get();
        let period = phase_from(rotation_period, one + step, shape.angle_step);
        let earliest = end.map_or(0, |(before, passed)| {
            passed + moves(track(&before, i64::from(before.tracks) - 1), track(shape, 0)).get()
        });
        let passes = phase_from(rotation_period, earliest, shape.angle);
        runs.push(TrackRun { shape: *shape, first, passes, period });
        first += u64::from(shape.tracks) * u64::from(shape.sectors);
        end = Some((*shape, passes + (u64::from(shape.tracks) - 1) * period + one));
    }
    runs
}

/// The first time not before `earliest` at which the platter has this angle.
fn phase_from(rotation_period: u64, earliest: u64, angle: f64) -> u64 {
    let phase = (angle.rem_euclid(1.0) * rotation_period as f64).round() as u64 % rotation_period;
    earliest + (phase + rotation_period - earliest % rotation_period) % rotation_period
}
