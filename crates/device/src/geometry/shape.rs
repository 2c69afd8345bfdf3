//! How a disk's layout is described: zones or single tracks, and what is common to them.

use foreseek_units::Nanos;

/// A zone as it is described: cylinders that hold the same number of sectors a track.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ZoneShape {
    pub(crate) cylinders: u32,
    pub(crate) sectors_per_track: u32,
    /// What is known of it beyond that; without it the skews follow from the switch times, the
    /// cylinders from the zone before, and every sector holds data.
    pub(crate) detail: Option<ZoneDetail>,
}

/// A zone as it was extracted from a drive. Places are physical sectors counted from the zone's
/// first in the order of its tracks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ZoneDetail {
    pub(crate) first_cylinder: u32,
    /// By how many sectors a track's first is turned against the end of the track before on the same
    /// cylinder.
    pub(crate) track_skew: f64,
    /// The same where the cylinder changes.
    pub(crate) cylinder_skew: f64,
    /// The angle of the zone's first sector, in sectors.
    pub(crate) offset: f64,
    /// Sectors at the zone's front that hold no data of the host.
    pub(crate) front: u64,
    /// Spare sectors (with [`Spares::Tracks`] spare tracks) in each unit of the sparing scheme.
    pub(crate) spares: u64,
    /// Defective places that were left out when addresses were given, ascending.
    pub(crate) slips: Vec<u64>,
    /// Defective places whose data lie elsewhere, ascending: from, to.
    pub(crate) remaps: Vec<(u64, u64)>,
}

/// A layout of which every track is described: *sections* of the address space, each a *pattern* of
/// tracks that repeats. Angles are in turns, those of a pattern's tracks from where the pattern begins.
/// Places count sectors in the order of the tracks, slipped ones among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TracksShape {
    pub(crate) patterns: Vec<Vec<RunShape>>,
    pub(crate) sections: Vec<SectionShape>,
    /// Places left out when addresses were given, ascending: the first of some, and how many.
    pub(crate) slips: Vec<(u64, u64)>,
    /// Addresses whose data lie elsewhere, ascending: the address, the place.
    pub(crate) remaps: Vec<(u64, u64)>,
}

/// Tracks of one surface that follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunShape {
    pub(crate) tracks: u32,
    /// Sectors of a track that have places; the rest of it has none.
    pub(crate) sectors: u32,
    pub(crate) sectors_per_track: u32,
    pub(crate) head: u32,
    /// The first one's, from the pattern's.
    pub(crate) cylinder: i64,
    pub(crate) cylinder_step: i64,
    /// Where the first sector of the first track lies.
    pub(crate) angle: f64,
    pub(crate) angle_step: f64,
}

/// A pattern that repeats over a range of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SectionShape {
    /// Which pattern, by its index.
    pub(crate) pattern: usize,
    /// Places in all.
    pub(crate) sectors: u64,
    /// Places of each repetition; not more than the pattern has.
    pub(crate) sectors_each: u64,
    pub(crate) cylinder: i64,
    pub(crate) cylinder_step: i64,
    pub(crate) angle: f64,
    pub(crate) angle_step: f64,
}

impl SectionShape {
    /// How often the pattern repeats; the last time it may be cut short.
    pub(crate) fn times(&self) -> u64 {
        self.sectors.div_ceil(self.sectors_each.max(1))
    }
}

impl TracksShape {
    /// Past the last cylinder that it goes over.
    pub(crate) fn end_cylinder(&self) -> u32 {
        let last = |section: &SectionShape| {
            let high = self.patterns.get(section.pattern).map_or(0, |pattern| Self::span_of(pattern).1);
            let far = section.cylinder_step.saturating_mul(section.times() as i64 - 1).max(0);
            section.cylinder.saturating_add(far).saturating_add(high)
        };
        let last = self.sections.iter().map(last).max().unwrap_or(-1);
        u32::try_from(last.saturating_add(1)).unwrap_or(0)
    }

    /// The lowest and the highest cylinder of a pattern, from where it begins.
    pub(crate) fn span_of(pattern: &[RunShape]) -> (i64, i64) {
        let ends = |run: &RunShape| {
            let last = run.cylinder + run.cylinder_step * (i64::from(run.tracks) - 1);
            (run.cylinder.min(last), run.cylinder.max(last))
        };
        let wider = |(low, high): (i64, i64), (lower, higher): (i64, i64)| (low.min(lower), high.max(higher));
        pattern.iter().map(ends).reduce(wider).unwrap_or_default()
    }

    /// How many cylinders a pattern goes over.
    pub(crate) fn cylinders_of(pattern: &[RunShape]) -> i64 {
        let (low, high) = Self::span_of(pattern);
        high - low + 1
    }

    /// What a pattern holds.
    pub(crate) fn sectors_of(pattern: &[RunShape]) -> u64 {
        pattern.iter().map(|run| u64::from(run.tracks) * u64::from(run.sectors)).sum()
    }
}

/// A layout as it is described.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LayoutShape {
    Zones(Vec<ZoneShape>),
    Tracks(TracksShape),
}

/// In which order the tracks of a cylinder follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Ascending on every cylinder.
    #[default]
    Conventional,
    /// Descending on every other cylinder, the first of each zone ascending.
    SerpentineByZone,
    /// Descending on every odd cylinder of the disk.
    Serpentine,
}

/// Where spare sectors lie, and what a slip displaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spares {
    /// Nowhere.
    #[default]
    None,
    /// Whole tracks at the end of a zone; a slip skips a track.
    Tracks,
    /// At the end of each track.
    PerTrack,
    /// At the end of each cylinder.
    PerCylinder,
    /// The same, but slips displace all that follows in the zone.
    PerCylinderSlipToEnd,
    /// At the front of each cylinder.
    CylinderFront,
    /// The same, but slips displace all that follows in the zone.
    CylinderFrontSlipToEnd,
    /// At the end of the disk; slips displace all that follows in the zone.
    DiskEnd,
    /// At the end of each range of so many cylinders.
    PerRange(u32),
    /// At the end of each zone.
    PerZone,
    /// The same, but slips do not use them up.
    PerZoneSlipToEnd,
}

/// What the mechanics need between tracks and between cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchTimes {
    pub(crate) head: Nanos,
    pub(crate) cylinder: Nanos,
    /// Over the widest gap of unused cylinders between two zones.
    pub(crate) gap: Nanos,
}

impl SwitchTimes {
    /// Those of a disk whose zones adjoin.
    pub(crate) fn new(head: Nanos, cylinder: Nanos) -> Self {
        Self { head, cylinder, gap: cylinder }
    }
}

/// What is common to all zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) heads: u32,
    /// One revolution.
    pub(crate) turn: Nanos,
    pub(crate) switch: SwitchTimes,
    pub(crate) mapping: Mapping,
    pub(crate) spares: Spares,
}

impl Rules {
    /// Of a disk of which no more is known.
    #[cfg(test)]
    pub(crate) fn plain(heads: u32, turn: Nanos, switch: SwitchTimes) -> Self {
        Self { heads, turn, switch, mapping: Mapping::default(), spares: Spares::default() }
    }
}

impl ZoneShape {
    /// A zone of which no more is known.
    pub(crate) fn plain(cylinders: u32, sectors_per_track: u32) -> Self {
        Self { cylinders, sectors_per_track, detail: None }
    }

    /// All its sectors, with data or without.
    pub(crate) fn physical(&self, heads: u32) -> u64 {
        u64::from(self.cylinders) * u64::from(heads) * u64::from(self.sectors_per_track)
    }

    /// The cylinder at which it begins, if the zone before ended at `next`.
    pub(crate) fn first_cylinder(&self, next: u32) -> u32 {
        self.detail.as_ref().map_or(next, |detail| detail.first_cylinder)
    }
}
