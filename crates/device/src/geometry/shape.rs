//! The description of a disk's layout: zones or single tracks, and their common properties.

use foreseek_units::Nanos;

/// The physical address of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackAddress {
    /// Counted from the outside.
    pub cylinder: u32,
    /// Counted from the top.
    pub head: u32,
}

/// The description of a zone: cylinders with the same number of sectors per track.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneShape {
    /// How many.
    pub cylinders: u32,
    /// On each of their tracks.
    pub sectors_per_track: u32,
    /// Further details; without them the skews follow from the switch times, the cylinders from the zone
    /// before, and every sector has data.
    pub detail: Option<ZoneDetail>,
}

/// A zone as it was extracted from a drive. Positions are physical sectors counted from the zone's first in
/// the order of its tracks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneDetail {
    /// Its first cylinder.
    pub first_cylinder: u32,
    /// By how many sectors a track's first is offset from the end of the track before on the same cylinder.
    pub track_skew: f64,
    /// The same where the cylinder changes.
    pub cylinder_skew: f64,
    /// The angle of the zone's first sector, in sectors.
    pub offset: f64,
    /// Sectors at the zone's front without data of the host.
    pub front: u64,
    /// Spare sectors (with [`Spares::Tracks`] spare tracks) in each unit of the sparing scheme.
    pub spares: u64,
    /// Defective positions that were left out when addresses were given, ascending.
    pub slips: Vec<u64>,
    /// Defective positions whose data are elsewhere, ascending: from, to.
    pub remaps: Vec<(u64, u64)>,
}

/// A layout with a description of every track: *sections* of the address space, each a *pattern* of tracks
/// that repeats. Angles are in revolutions, those of a pattern's tracks from the beginning of the pattern.
/// Positions count sectors in the order of the tracks, including slipped ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracksShape {
    /// The runs of tracks of each pattern.
    pub patterns: Vec<Vec<RunShape>>,
    /// In order of their addresses.
    pub sections: Vec<SectionShape>,
    /// Positions left out when addresses were given, ascending: the first of some, and their number.
    pub slips: Vec<(u64, u64)>,
    /// Addresses whose data are elsewhere, ascending: the address, the position.
    pub remaps: Vec<(u64, u64)>,
}

/// Tracks of one surface that follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunShape {
    /// Their number.
    pub tracks: u32,
    /// Sectors of a track that have positions; the rest of it has none.
    pub sectors: u32,
    /// The number of sectors that fit on one.
    pub sectors_per_track: u32,
    /// Their surface.
    pub head: u32,
    /// The cylinder of the first one, from the pattern's.
    pub cylinder: i64,
    /// The step from one to the next.
    pub cylinder_step: i64,
    /// The angle of the first sector of the first track.
    pub angle: f64,
    /// The angle by which each is offset from the one before.
    pub angle_step: f64,
}

/// A pattern that repeats over a range of positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SectionShape {
    /// The index of the pattern.
    pub pattern: usize,
    /// All positions.
    pub sectors: u64,
    /// Positions of each repetition; not more than the pattern has.
    pub sectors_each: u64,
    /// The first cylinder of the first repetition.
    pub cylinder: i64,
    /// The step from one to the next.
    pub cylinder_step: i64,
    /// The angle at which the first begins.
    pub angle: f64,
    /// The angle by which each is offset from the one before.
    pub angle_step: f64,
}

impl SectionShape {
    /// How often the pattern repeats; the last repetition may be incomplete.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.sectors.div_ceil(self.sectors_each.max(1))
    }
}

impl TracksShape {
    /// The end of its cylinders.
    #[must_use]
    pub fn end_cylinder(&self) -> u32 {
        let last = |section: &SectionShape| {
            let high = self.patterns.get(section.pattern).map_or(0, |pattern| Self::span_of(pattern).1);
            let far = section.cylinder_step.saturating_mul(section.times() as i64 - 1).max(0);
            section.cylinder.saturating_add(far).saturating_add(high)
        };
        let last = self.sections.iter().map(last).max().unwrap_or(-1);
        u32::try_from(last.saturating_add(1)).unwrap_or(0)
    }

    /// The lowest and the highest cylinder of a pattern, relative to its beginning.
    #[must_use]
    pub fn span_of(pattern: &[RunShape]) -> (i64, i64) {
        let ends = |run: &RunShape| {
            let last = run.cylinder + run.cylinder_step * (i64::from(run.tracks) - 1);
            (run.cylinder.min(last), run.cylinder.max(last))
        };
        let wider = |(low, high): (i64, i64), (lower, higher): (i64, i64)| (low.min(lower), high.max(higher));
        pattern.iter().map(ends).reduce(wider).unwrap_or_default()
    }

    /// The number of cylinders of a pattern.
    #[must_use]
    pub fn cylinders_of(pattern: &[RunShape]) -> i64 {
        let (low, high) = Self::span_of(pattern);
        high - low + 1
    }

    /// The sectors of a pattern.
    #[must_use]
    pub fn sectors_of(pattern: &[RunShape]) -> u64 {
        pattern.iter().map(|run| u64::from(run.tracks) * u64::from(run.sectors)).sum()
    }
}

/// The description of a layout.
#[derive(Clone, Debug, PartialEq)]
pub enum LayoutShape {
    /// By zones, from the outside in.
    Zones(Vec<ZoneShape>),
    /// Track by track.
    Tracks(TracksShape),
}

/// The order of the tracks of a cylinder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Ascending on every cylinder.
    #[default]
    Conventional,
    /// Descending on every other cylinder, the first of each zone ascending.
    SerpentineByZone,
    /// Descending on every odd cylinder of the disk.
    Serpentine,
}

/// The position of spare sectors, and the effect of a slip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spares {
    /// No spares.
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
    /// At the end of each range of this many cylinders.
    PerRange(u32),
    /// At the end of each zone.
    PerZone,
    /// The same, but slips do not use them up.
    PerZoneSlipToEnd,
}

/// The time of the mechanics between tracks and between cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchTimes {
    /// To another head.
    pub head: Nanos,
    /// To the next cylinder.
    pub cylinder: Nanos,
    /// Over the widest gap of unused cylinders between two zones.
    pub gap: Nanos,
}

impl SwitchTimes {
    /// For a disk with adjacent zones.
    #[must_use]
    pub fn new(head: Nanos, cylinder: Nanos) -> Self {
        Self { head, cylinder, gap: cylinder }
    }
}

/// The common properties of all zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Surfaces with data.
    pub heads: u32,
    /// One revolution.
    pub rotation_period: Nanos,
    /// The time of the mechanics between tracks.
    pub switch: SwitchTimes,
    /// The order of the tracks of a cylinder.
    pub mapping: Mapping,
    /// The position of spare sectors.
    pub spares: Spares,
}

impl Rules {
    /// For a disk without further details.
    #[must_use]
    pub fn plain(heads: u32, rotation_period: Nanos, switch: SwitchTimes) -> Self {
        Self { heads, rotation_period, switch, mapping: Mapping::default(), spares: Spares::default() }
    }
}

impl ZoneShape {
    /// A zone without further details.
    pub(crate) fn plain(cylinders: u32, sectors_per_track: u32) -> Self {
        Self { cylinders, sectors_per_track, detail: None }
    }

    /// All its sectors, with data or without.
    #[must_use]
    pub fn physical(&self, heads: u32) -> u64 {
        u64::from(self.cylinders) * u64::from(heads) * u64::from(self.sectors_per_track)
    }

    /// The cylinder at which it begins, if the zone before ended at `next`.
    #[must_use]
    pub fn first_cylinder(&self, next: u32) -> u32 {
        self.detail.as_ref().map_or(next, |detail| detail.first_cylinder)
    }
}
