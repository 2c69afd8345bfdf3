//! A layout of which every track is described.
//!
//! Where zones state one rule for thousands of tracks, some drives are described track by track: which
//! track follows which, and the angle at which each begins. Tracks repeat in patterns, so that a few
//! hundred describe a whole disk: a *section* is a pattern of tracks that repeats, and a *run* some
//! tracks of one surface within it. All times of the sequential pass follow from the angles, each as
//! early as the movement before it lets it be; what repeats has the same period each time.
//!
//! Source: the layout model `dm_layout_g4` of the DiskSim 4.0 disk parameter files, an index tree of
//! which the two lowest levels are kept as they are; `dm_layout_g2` is brought into the same form.

use super::shape::{RunShape, SectionShape, TrackAddress, TracksShape};
use foreseek_units::{Lba, Nanos};

/// Tracks of one surface that follow one another.
#[derive(Clone, Copy, Debug)]
struct TrackRun {
    shape: RunShape,
    /// Its first place within the pattern.
    first: u64,
    /// When that passes, from where the pattern begins.
    passes: u64,
    /// From one of its tracks to the next.
    period: u64,
}

#[derive(Clone, Copy, Debug)]
struct Section {
    shape: SectionShape,
    /// Its first place.
    first: u64,
    /// When its pattern begins, the first time.
    base: u64,
    /// When its first place passes.
    begins: u64,
    /// From one repetition to the next.
    period: u64,
}

/// The layout.
#[derive(Clone, Debug)]
pub(super) struct Tracks {
    turn: u64,
    patterns: Vec<Vec<TrackRun>>,
    sections: Vec<Section>,
    /// Slips: the first place, how many places with data lie before it, and how many slipped ones lie
    /// before its end.
    slips: Vec<(u64, u64, u64)>,
    physical: u64,
}

/// A place taken apart: which section and run it lies in, and how far into them.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    section: &'a Section,
    time: u64,
    run: &'a TrackRun,
    track: u64,
    sector: u64,
}

impl Parts<'_> {
    fn place(&self) -> TrackAddress {
        let (section, run) = (&self.section.shape, &self.run.shape);
        let cylinder = section.cylinder
            + section.cylinder_step * self.time as i64
            + run.cylinder
            + run.cylinder_step * self.track as i64;
        // A description whose cylinders were negative would have been refused.
        TrackAddress { cylinder: cylinder.max(0) as u32, head: run.head }
    }

    /// When the sector so far into the track passes.
    fn passes(&self, turn: u64, sector: u64) -> u64 {
        let track = self.section.base
            + self.time * self.section.period
            + self.run.passes
            + self.track * self.run.period;
        track + sector * turn / u64::from(self.run.shape.sectors_per_track)
    }
}

impl Tracks {
    /// Lays the sections out one behind the other. `moves` tells how long it takes from one track to
    /// another. The caller has checked that no count is zero and all are within the limits of a
    /// profile.
    pub(super) fn new(
        turn: Nanos,
        shape: &TracksShape,
        moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
    ) -> Self {
        let turn = turn.get();
        let patterns = shape.patterns.iter().map(|pattern| runs(turn, pattern, moves)).collect();
        let mut tracks = Self {
            turn,
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

    /// Adds a section behind those that are there. `end` is the last track before it, and when that
    /// has passed.
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
        // The first place comes again when the last has passed and the head is back.
        let whole = from.passes(self.turn, from.sector + 1) + moves(from.place(), again.place()).get();
        let period = phase_from(self.turn, whole.saturating_sub(leads), shape.angle_step);
        let earliest = end.map_or(0, |(place, passed)| passed + moves(place, to.place()).get());
        let base = phase_from(self.turn, earliest.saturating_sub(leads), shape.angle);
        self.sections[at] = Section { base, begins: base + leads, period, ..section };
        let last = self.parts(self.physical - 1);
        *end = Some((last.place(), last.passes(self.turn, last.sector + 1)));
    }

    /// Data sectors.
    pub(super) fn sectors(&self) -> u64 {
        self.logical(self.physical)
    }

    /// Where a sector lies, and when it begins to pass.
    pub(super) fn locate(&self, lba: Lba) -> (TrackAddress, Nanos) {
        self.locate_place(self.physical_of(lba))
    }

    /// The same of a place.
    pub(super) fn locate_place(&self, physical: u64) -> (TrackAddress, Nanos) {
        let parts = self.parts(physical);
        (parts.place(), Nanos(parts.passes(self.turn, parts.sector)))
    }

    /// When a sector has passed.
    pub(super) fn passed(&self, lba: Lba) -> Nanos {
        let parts = self.parts(self.physical_of(lba));
        Nanos(parts.passes(self.turn, parts.sector + 1))
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
        let sector = ((within + 1) * u64::from(run.shape.sectors_per_track) - 1) / self.turn;
        let sectors = u64::from(run.shape.sectors);
        let place = (run.first + track * sectors + sector.min(sectors)).min(section.shape.sectors_each);
        let place = (times * section.shape.sectors_each + place).min(section.shape.sectors);
        Lba(self.logical(section.first + place))
    }

    /// The sectors of a track at a sector.
    pub(super) fn sectors_per_track(&self, lba: Lba) -> u64 {
        u64::from(self.parts(self.physical_of(lba)).run.shape.sectors_per_track)
    }

    /// Where the track that holds a sector ends.
    pub(super) fn track_end(&self, lba: Lba) -> Lba {
        let physical = self.physical_of(lba);
        let parts = self.parts(physical);
        let section = parts.section;
        let rest = u64::from(parts.run.shape.sectors) - parts.sector;
        let of_time = (parts.time + 1) * section.shape.sectors_each;
        let end = (physical + rest).min(section.first + of_time.min(section.shape.sectors));
        Lba(self.logical(end))
    }

    /// Where the track that holds a sector begins.
    pub(super) fn track_start(&self, lba: Lba) -> Lba {
        let physical = self.physical_of(lba);
        Lba(self.logical(physical - self.parts(physical).sector))
    }

    /// The first sector of each section, and the data sectors of a repetition with the time that a pass
    /// takes for it.
    pub(super) fn sections(&self) -> impl Iterator<Item = (u64, f64, Nanos)> {
        self.sections.iter().map(|section| {
            let (data, time) = self.repetition(section);
            (self.logical(section.first), data, time)
        })
    }

    /// The data sectors of a repetition of the pattern at a sector, and the time that a pass takes for
    /// it.
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

    /// How many data sectors lie before a place.
    fn logical(&self, physical: u64) -> u64 {
        let after = self.slips.partition_point(|(first, ..)| *first <= physical);
        let Some((_, data, slipped)) = after.checked_sub(1).map(|at| self.slips[at]) else { return physical };
        physical.saturating_sub(slipped).max(data)
    }
}

/// A pattern's runs, each as early as the one before lets it be.
fn runs(
    turn: u64,
    pattern: &[RunShape],
    moves: &dyn Fn(TrackAddress, TrackAddress) -> Nanos,
) -> Vec<TrackRun> {
    let mut runs: Vec<TrackRun> = Vec::with_capacity(pattern.len());
    let (mut first, mut end) = (0, None::<(RunShape, u64)>);
    for shape in pattern {
        let track = |run: &RunShape, track: i64| TrackAddress {
            // Only distances count, and a pattern may begin on its highest cylinder.
            cylinder: (i64::from(u32::MAX / 2) + run.cylinder + run.cylinder_step * track) as u32,
            head: run.head,
        };
        let one = u64::from(shape.sectors) * turn / u64::from(shape.sectors_per_track);
        let step = moves(track(shape, 0), track(shape, 1)).get();
        let period = phase_from(turn, one + step, shape.angle_step);
        let earliest = end.map_or(0, |(before, passed)| {
            passed + moves(track(&before, i64::from(before.tracks) - 1), track(shape, 0)).get()
        });
        let passes = phase_from(turn, earliest, shape.angle);
        runs.push(TrackRun { shape: *shape, first, passes, period });
        first += u64::from(shape.tracks) * u64::from(shape.sectors);
        end = Some((*shape, passes + (u64::from(shape.tracks) - 1) * period + one));
    }
    runs
}

/// The first time not before `earliest` at which the platter has turned to an angle.
fn phase_from(turn: u64, earliest: u64, angle: f64) -> u64 {
    let phase = (angle.rem_euclid(1.0) * turn as f64).round() as u64 % turn;
    earliest + (phase + turn - earliest % turn) % turn
}
